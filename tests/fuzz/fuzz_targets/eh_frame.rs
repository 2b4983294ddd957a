//! `.eh_frame` and `.debug_frame`: see `unwinder::dwarf::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unwinder::dwarf::fuzz::fuzz_eh_frame(bytes));
