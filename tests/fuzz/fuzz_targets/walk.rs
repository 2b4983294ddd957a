//! Whole walks: see `unwinder::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unwinder::fuzz::fuzz_walk(bytes));
