//! ELF headers: see `emu::loader::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| emu::loader::fuzz::fuzz_elf(bytes));
