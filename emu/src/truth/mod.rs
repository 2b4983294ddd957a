//! The true stack: the return addresses that are live, because every call and return was
//! seen.
//!
//! ```text
//! engine ── Event { call, return, jump, to, sp } ──► Stack ──► frames, innermost first
//! kernel ── signal, rt_sigreturn, exec ────────────────┘
//! ```
//!
//! Kept is, for each stack that the thread has used, the list of live frames: return address,
//! CFA and function of each, by the rules R1 to R7 in [`stack`]. Nothing is read from the
//! guest's memory. Of tables only one thing is believed: where functions start
//! ([`Functions`], from symbols and frame description entries).
//!
//! * [`Stack::frames`] is the *physical* truth: what an ideal unwinder could find at this
//!   instruction. A function that was tail-called has taken the place of its caller.
//! * [`Stack::logical`] is the same with the functions that made tail calls: what the
//!   programmer has in mind. A direct jump is a tail call only where a start is known.
//! * [`Stack::caller`] is what one step from the innermost frame must give.
//!
//! The truth changes when control is transferred, not before: while a function has moved the
//! stack pointer to another stack but has not jumped yet, it is still called from the old one.
//! [`Stack::holds`] says when that is so.
//!
//! Where a frame may be missing, [`Stack::holds`] and [`Stack::knows`] say no (`gap.rs`): the
//! callers further out are not known, until what happened there is over.
//!
//! * The first time that a jump, or a return used as one, leads to a function's start from the
//!   middle of a frame: it is a call if a return address was put there by hand, else a step of a
//!   stub or a jump to a part of the function that is apart. How it ends says so for the next
//!   time. [`Stack::knows`] takes it for a jump once something was called from there.
//! * A call into the own function, a few instructions ahead: it reads the PC, or makes a place for
//!   the address that `ret` jumps to, as retpolines do. Its return address may be none.
//! * A stack that goes on in the middle of a function and is not known, when stacks were
//!   forgotten: the ones that were left longest ago of more than 4096.
//! * Under a handler that came while the stack pointer was between two stacks.
//!
//! Not known, because no instruction says it, and not seen:
//!
//! * That a return address was changed where it is: it counts as it was until the return.
//! * A call made by hand where the stack pointer is as at the start of the running function: on
//!   aarch64, from one that has no frame. It counts as a tail call. The same holds for a handler
//!   that edits its context so that a function seems to have been called.
//! * In a program without symbols and frame description entries, a new stack that begins
//!   within the memory of a known one, or up to 64 KiB below, is taken for that; and on
//!   aarch64 a tail call by `br` behind `mov sp, x29` for a `longjmp` to the caller.
//! * A part of a function that is apart (`.cold`) and has no symbol but an entry of its own
//!   counts as a function, if it is jumped to where the frame does not exist yet.
//! * Frames before the watch began.
//! * Of more than 2^20 live frames on a stack, those in the middle: the innermost ones are
//!   known ([`Stack::knows`]), the outermost ones again when control returns to them, and in
//!   between [`Stack::holds`] says no. Of all stacks but the one in use, 2^20 frames and tail
//!   calls are kept. See [`cut`].

pub mod cut;
pub mod functions;
mod gap;
pub mod stack;
mod strand;
mod tails;
mod view;

pub use functions::Functions;
pub use stack::{Stack, TrueCaller, saved_numbers};
pub use view::{Doubt, LogicalFrame, TrueFrame};
