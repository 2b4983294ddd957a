//! The one-step check: one step of every method at every executed instruction.
//!
//! At a function's entry the caller's stack pointer, return address and callee-saved
//! registers are known, and they do not change until it returns. One step of an unwinder, at
//! any instruction in between, must give exactly these. If one step is right at every
//! executed instruction, every stack is right.
//!
//! ```text
//! engine ── instruction, registers, memory ──► Checker ──► OneStep ──► Records, by PC
//! engine, kernel ── calls, signals ──► truth::Stack ─┘                    │
//!                                                                         ▼
//!                                  names, points, rows, executions ──► Report ──► JSON, HTML
//!                                                                         └─► Baseline
//! ```

pub mod baseline;
pub mod build;
pub mod checker;
pub mod one_step;
pub mod overview;
pub mod page;
pub mod record;
pub mod report;

pub use baseline::Baseline;
pub use checker::Checker;
pub use one_step::{Outcome, Wrong};
pub use record::{Example, PcRecord};
pub use report::Report;
