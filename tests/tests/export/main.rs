//! Exported profiles: read back by a reader of our own and by `perf`, where it
//! is installed.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod cases;
mod dwarf;
mod elf;
mod guests;
mod outputs;
mod perf;
mod reader;
mod round_trip;
mod symbols;
