//! Recordings: see `emu::recording::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::recording::fuzz::fuzz_recording(bytes));
