//! aarch64: the order of saved registers, the call paths and what exceptions mean.

pub mod paths;
pub mod pt_regs;
pub mod traps;
pub mod uprobes;
