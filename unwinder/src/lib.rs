//! Unwinds user stacks of x86_64 and aarch64 Linux: by frame pointer, DWARF and SFrame.
//!
//! ```text
//! Module::from_elf ─► Modules ─┐           ┌─► Frame, Frame, Frame, …   and then End: why
//! registers, address ──────────┼─► Walk ───┤
//! Memory ──────────────────────┤           └─ each frame by the methods of a Policy:
//! Policy, Context ─────────────┘
//!
//!   CodeAddress ─► lookup ─► table of its module ─► Row ─► step ─► Caller: registers, CodeAddress
//!       ▲                     dwarf · sframe               │
//!       └──────────────────────────────────────────────────┘
//! ```
//!
//! No `unsafe`, no allocation while stepping, and no input makes it panic or run for ever:
//! addresses, tables and stacks may hold anything. A walk says why it ended ([`End`]).
//!
//! # Example
//!
//! From a program, a thread's registers and a copy of its stack to frames:
//!
//! ```
//! # #[cfg(feature = "elf")] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../guests/bin/x86_64/recursion");
//! use unwinder::memory::Copied;
//! use unwinder::{Context, End, InstructionPointer, Module, Modules, Policy, Registers, Walk};
//!
//! // What is mapped, and how far from where it was linked.
//! let bytes = std::fs::read(program)?;
//! let module = Module::from_elf("recursion", &bytes[..], 0)?;
//! println!("{} faults in its tables", module.problems().len());
//! let modules = Modules::new([module]);
//!
//! // A thread, and its stack from the stack pointer on: here at the first instruction of `fib`,
//! // which `fib` has called, which code has called that nobody knows.
//! let mut thread = arch::Regs::new(arch::Arch::X86_64);
//! (thread.pc, thread.gp[7], thread.gp[6]) = (0x40_1370, 0x7fff_0000, 0x7fff_0018);
//! let words = [0x40_1388u64, 0, 0, 0, 0xdead_0000];
//! let stack = Copied {
//!     address: thread.sp(),
//!     bytes: words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>(),
//! };
//!
//! // One context for all walks: it remembers what tables say.
//! let mut context = Context::new();
//! let start = InstructionPointer(thread.pc).into();
//! let registers = Registers::of_thread(&thread);
//! let mut walk =
//!     Walk::new(Policy::dwarf(), &modules, start, &registers, stack, &mut context).limit(127);
//! let frames: Vec<u64> = walk.by_ref().map(|frame| frame.address.value()).collect();
//! assert_eq!(frames, [0x40_1370, 0x40_1388, 0xdead_0000]);
//! assert!(matches!(walk.end(), Some(End::NoModule(_))));
//! # Ok(()) }
//! # #[cfg(not(feature = "elf"))] fn main() {}
//! ```
//!
//! # Modules
//!
//! * [`mod@walk`], [`unwind`]: whole walks, and one step with all registers
//! * [`policy`], [`method`]: what is tried for a frame, and in which order
//! * [`module`], [`modules`], `elf`: what is mapped, and its tables
//! * [`address`]: code addresses by origin, so that "minus one" cannot be misapplied
//! * [`registers`], [`memory`]: the state of a frame
//! * [`row`], [`mod@step`]: what a table says about a frame, and its application
//! * [`dwarf`], [`sframe`]: tables
//! * [`fp`]: frame pointers, by the careful way and by the kernel's two
//! * [`signal`]: signal frames without a table
//! * [`lbr`]: chains of branch records
//! * [`plug`]: other unwinders, to be graded; `framehop` is one
//!
//! # Features
//!
//! * `elf` (default): modules out of ELF files
//! * `framehop`: that crate as a [`plug::ThirdParty`]

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
pub mod fuzz;
pub mod lbr;
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
