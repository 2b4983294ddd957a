//! Truth files: see `emu::grade::file::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::grade::file::fuzz::fuzz_truth_file(bytes));
