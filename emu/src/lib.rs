//! An emulator that runs unmodified Linux programs and samples them the way
//! `perf` does, with a modelled kernel around an emulated CPU.
//!
//! ```text
//! guest ELF ─► loader ─► mem (address space) ─► engine (unicorn) ─┐
//!                                                                 │ system call, fault, overflow
//!      kernel: entry ─► system call / fault / IRQ / NMI ─► exit ◄─┘
//!        ├─► perf: overflow ─► callchain ─► record ─► export: perf.data, folded, script
//!        └─► timeline: every step in words ─► laws: what holds at every step
//! ```
//!
//! One concept a folder; dependencies point downwards in this list: [`cli`] → [`recording`] →
//! [`show`] / [`export`] / [`scenario`] → [`deferred`] / [`laws`] → [`timeline`] → [`perf`] / [`kernel`] →
//! [`loader`] → [`mem`] → [`engine`]. [`numbers`] writes numbers for people, [`spelling`] finds names
//! that could have been meant. `unsafe` code and the
//! name of the engine live in [`engine`] and in no other folder.

pub mod cli;
pub mod deferred;
pub mod engine;
pub mod explain;
pub mod export;
pub mod grade;
pub mod kernel;
pub mod laws;
pub mod loader;
pub mod mem;
pub mod numbers;
pub mod perf;
pub mod recording;
pub mod scenario;
pub mod show;
pub mod spelling;
pub mod symbols;
pub mod timeline;
pub mod truth;
