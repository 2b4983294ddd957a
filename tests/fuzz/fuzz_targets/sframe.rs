//! `.sframe`: see `unwinder::sframe::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unwinder::sframe::fuzz::fuzz_sframe(bytes));
