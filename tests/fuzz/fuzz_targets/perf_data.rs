//! `perf.data` files, read and merged: see `emu::export::perf_read::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::export::perf_read::fuzz::fuzz_perf_data(bytes));
