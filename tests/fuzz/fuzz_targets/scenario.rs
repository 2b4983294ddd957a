//! Scenario files: see `emu::scenario::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::scenario::fuzz::fuzz_scenario(bytes));
