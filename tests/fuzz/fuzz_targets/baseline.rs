//! Reports that `emu check` takes as baselines: see `emu::grade::check::baseline`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::grade::check::baseline::fuzz_baseline(bytes));
