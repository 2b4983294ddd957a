//! Scenarios: what happens when, said in a file or found by a search, on the kernel that runs
//! guests.
//!
//! * [`code`], [`cpu`]: what scripted tasks do in user mode. [`machine`]: the machine that they are
//!   on. [`host`]: without files.
//! * [`place`]: where something happens. [`inject`]: what. [`turn`]: whose turn it is.
//! * [`judge`]: the laws over a run. [`play`]: a run in which what was said happens.
//! * [`mod@file`]: scenarios as TOML. [`expect`]: what is to come of them. [`catalogue`]: those that come along.
//! * [`search`]: all orders, by [`walk`]ing again and again; [`digest`]: states that are the same;
//!   [`touch`]: steps whose order matters.

pub mod catalogue;
pub mod code;
pub mod cpu;
pub mod digest;
pub mod expect;
pub mod file;
pub mod fuzz;
pub mod host;
pub mod inject;
pub mod judge;
pub mod machine;
pub mod place;
pub mod play;
pub mod search;
pub mod touch;
pub mod turn;
pub mod walk;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
