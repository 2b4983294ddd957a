//! aarch64 Linux: register names and numbers, system calls, signal frames,
//! instruction classes.

pub mod decode;
pub(crate) mod operands;
pub mod regs;
pub(crate) mod syscalls;
