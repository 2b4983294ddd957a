//! `enum perf_event_x86_regs`.

use crate::Regs;

/// `PERF_REG_X86_IP`.
pub const IP: u32 = 8;
/// `PERF_REG_X86_FLAGS`.
pub const FLAGS: u32 = 9;
/// `PERF_REG_X86_CS`.
pub const CS: u32 = 10;
/// `PERF_REG_X86_SS`.
pub const SS: u32 = 11;

/// All but the data segments (12 to 15), which 64-bit samples cannot have.
pub const MASK: u64 = 0xff_0fff;

/// perf numbers by DWARF number; 16 is the return address.
pub const OF_DWARF: [u32; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, IP];

/// perf's names by perf number.
pub const NAMES: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];

/// See [`crate::perf_regs::value`].
pub(crate) fn value(regs: &Regs, perf: u32) -> Option<u64> {
    match perf {
        IP => Some(regs.pc),
        FLAGS => Some(regs.flags),
        // The selectors of every 64-bit program.
        CS => Some(0x33),
        SS => Some(0x2b),
        _ => OF_DWARF.iter().position(|p| *p == perf).map(|dwarf| regs.gp[dwarf]),
    }
}
