//! Whole walks: over stacks that functions could have left, and over those that none could.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/stacks.rs"]
mod stacks;

mod ends;
mod fuzz;
mod guests;
