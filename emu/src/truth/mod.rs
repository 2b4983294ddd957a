//! The true stack: the return addresses that are live, because every call and return was
//! seen.
//!
//! ```text
//! engine ── Event { call, return, jump, to, sp } ──► Stack ──► frames, innermost first
//! kernel ── signal, rt_sigreturn, exec ────────────────┘
//! ```
//!
//! This is the *physical* truth: what an ideal unwinder could find at this instruction. A
//! function that another one tail-called has taken its place. It is kept by the rules in
//! [`stack`]; nothing is read from the guest's memory, and no table is believed.

pub mod functions;
pub mod stack;
mod strand;
mod tails;
mod view;

pub use functions::Functions;
pub use stack::{Stack, TrueCaller};
pub use view::{LogicalFrame, TrueFrame};
