//! x86_64 Linux: what the modules of the same names at the top of the crate ask of
//! an architecture.

pub mod decode;
pub mod elf;
pub mod fault;
pub mod frame;
pub mod operands;
pub mod perf_regs;
pub mod regs;
pub(crate) mod sigframe;
pub(crate) mod stat;
pub(crate) mod syscalls;
