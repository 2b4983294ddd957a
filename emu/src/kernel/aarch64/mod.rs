//! aarch64: the order of saved registers and the call paths.

pub mod paths;
pub mod pt_regs;
