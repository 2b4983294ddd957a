//! Exported profiles: read back by a reader of our own and by `perf`, where it
//! is installed.

mod cases;
mod elf;
mod perf;
mod reader;
mod round_trip;
