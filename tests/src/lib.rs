//! What the end-to-end tests share. The tests are below `tests/`, one topic a file.
//!
//! ```text
//! catalogue ─► Harness ─► exec, Kernel, run ─► Outcome: records, stats, ending
//!    │            └─ laws are checked whenever        └─► symbols: chains by name
//!    │               the guest is about to run
//!    └─────► Program ─► target/release/emu as a process ─► Output          └─► bless: snapshots
//!                                   └─► perf: what the installed perf makes of its profiles
//! ```
//!
//! * [`harness`]: runs a guest in this process, through the library.
//! * [`laws`]: what holds at every return to user mode and at the end of every run.
//! * [`program`]: runs the built program `emu`.
//! * [`mod@check`]: runs `emu check` and reads its report.
//! * [`verdicts`]: a run that judges every unwinding method at every instruction.
//! * [`trace`]: a run that stops at every instruction, and a check of that run itself.
//! * [`symbols`]: callchains by name.
//! * [`captures`]: recordings of real kernels, to compare runs with.
//! * [`elf`]: small crafted programs.
//! * [`generator`]: random programs that know their own stack.
//! * [`latency`]: how long deferred stacks take, in virtual time.
//! * [`perf`]: the installed `perf`.
//! * [`scratch()`]: directories for the files of tests.
//! * [`bless`]: expected texts kept in files.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

pub mod bless;
pub mod captures;
pub mod check;
pub mod elf;
pub mod generator;
pub mod harness;
pub mod latency;
pub mod laws;
pub mod perf;
pub mod program;
mod scratch;
pub mod symbols;
pub mod trace;
pub mod verdicts;

use std::path::{Path, PathBuf};

use guests::Catalogue;

pub use crate::scratch::scratch;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The catalogue of guests.
pub fn catalogue() -> Catalogue {
    Catalogue::load(&root().join("guests")).unwrap_or_else(|e| panic!("{e}"))
}
