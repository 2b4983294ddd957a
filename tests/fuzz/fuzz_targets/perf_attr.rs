//! `struct perf_event_attr` as a guest hands it over: see `emu::perf::attr::fuzz_attr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::perf::attr::fuzz_attr(bytes));
