//! DWARF register numbers (AADWARF64, section 4.1) and the `perf` register
//! numbers of `arch/arm64/include/uapi/asm/perf_regs.h`, which are the same
//! for `x0`..`sp`.

/// `x29`, the frame pointer
pub const FP: usize = 29;
/// `x30`, the link register
pub const LR: usize = 30;
/// `sp`
pub const SP: usize = 31;
/// The return-address column of CFI.
pub const RA: usize = LR;

/// Names by DWARF number.
pub const NAMES: [&str; 32] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "x30", "sp",
];
