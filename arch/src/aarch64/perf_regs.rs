//! `enum perf_event_arm_regs` of arm64: the DWARF numbers, then the program
//! counter.

use crate::Regs;

/// `PERF_REG_ARM64_PC`.
pub const PC: u32 = 32;

/// `x0` to `pc`.
pub const MASK: u64 = 0x1_ffff_ffff;

/// perf's names by perf number.
pub const NAMES: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "lr", "sp", "pc",
];

/// See [`crate::perf_regs::value`].
pub(crate) fn value(regs: &Regs, perf: u32) -> Option<u64> {
    match perf {
        PC => Some(regs.pc),
        _ => regs.gp.get(usize::try_from(perf).ok()?).copied(),
    }
}
