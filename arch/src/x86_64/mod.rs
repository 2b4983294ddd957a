//! x86_64 Linux: register names and numbers, system calls, signal frames,
//! instruction classes.

pub mod decode;
pub mod elf;
pub mod fault;
pub(crate) mod operands;
pub mod perf_regs;
pub mod regs;
pub(crate) mod sigframe;
pub(crate) mod stat;
pub(crate) mod syscalls;
