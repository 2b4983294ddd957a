//! Unwinds user stacks of x86_64 and aarch64 Linux: by frame pointer, DWARF and SFrame.
//!
//! ```text
//! CodeAddress ─► lookup ─► table of its module ─► Row ─► step ─► Caller: registers, CodeAddress
//!     ▲                     dwarf · sframe               │
//!     └──────────────────────────────────────────────────┘
//! ```
//!
//! No `unsafe`, no allocation while stepping, and no input makes it panic or run for ever:
//! addresses, tables and stacks may hold anything. A walk says why it ended ([`End`]).
//!
//! * [`address`]: code addresses by origin, so that "minus one" cannot be misapplied
//! * [`registers`], [`memory`]: the state of a frame
//! * [`row`], [`step`]: what a table says about a frame, and its application
//! * [`dwarf`], [`sframe`]: tables
//! * [`fp`]: frame pointers, by the careful way and by the kernel's two
//! * [`signal`]: signal frames without a table

pub mod address;
mod brief;
mod cache;
pub mod dwarf;
#[cfg(feature = "elf")]
pub mod elf;
mod end;
pub mod fp;
#[cfg(feature = "framehop")]
pub mod framehop;
pub mod memory;
pub mod method;
pub mod module;
pub mod modules;
pub mod plug;
pub mod policy;
pub mod registers;
pub mod row;
pub mod sframe;
pub mod signal;
pub mod step;
pub mod unwind;
pub mod walk;

pub use address::{
    CallAddress, CodeAddress, InstructionPointer, InterruptedAddress, LookupAddress, ReturnAddress,
};
pub use end::{End, ExpressionError, TableError};
pub use memory::Memory;
pub use method::Method;
pub use module::Module;
pub use modules::Modules;
pub use policy::Policy;
pub use registers::Registers;
pub use row::{Miss, Row};
pub use unwind::{Context, Unwound, step};
pub use walk::{Frame, Walk};
