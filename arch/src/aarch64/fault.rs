//! Exception syndromes of EL0 (Arm ARM DDI 0487, `ESR_EL1`) as Linux shows
//! them to user space (`set_thread_esr`).

use crate::fault::{AccessKind, Fault};

/// Exception class: bits 31 to 26.
const EC_SHIFT: u32 = 26;
/// Instruction abort from EL0.
pub const EC_INSTRUCTION_ABORT: u64 = 0x20;
/// Data abort from EL0.
pub const EC_DATA_ABORT: u64 = 0x24;
/// PC alignment fault.
pub const EC_PC_ALIGNMENT: u64 = 0x22;
/// 32-bit instruction.
const IL: u64 = 1 << 25;
/// Write, not read.
pub const WNR: u64 = 1 << 6;
/// Fault status: translation fault, level 0.
pub const FSC_TRANSLATION_L0: u64 = 0x04;
/// Fault status: translation fault, level 3.
pub const FSC_TRANSLATION_L3: u64 = 0x07;
/// Fault status: permission fault, level 3.
pub const FSC_PERMISSION_L3: u64 = 0x0f;
/// Fault status: alignment fault.
pub const FSC_ALIGNMENT: u64 = 0x21;

/// Syndrome of a PC that is not aligned.
pub const PC_ALIGNMENT: u64 = EC_PC_ALIGNMENT << EC_SHIFT | IL;

/// See [`Fault::page`]. Translation faults are reported at level 3, as if the
/// upper tables were there; for kernel addresses Linux hides the difference.
pub(crate) const fn page(address: u64, kind: AccessKind, mapped: bool) -> Fault {
    let status = match (address >> 55 & 1, mapped) {
        (1, _) => FSC_TRANSLATION_L0,
        (_, true) => FSC_PERMISSION_L3,
        (_, false) => FSC_TRANSLATION_L3,
    };
    Fault { address, code: syndrome(kind, status), trap: 0 }
}

/// A data access that must be aligned (exclusives, atomics) and is not.
pub const fn alignment(address: u64, kind: AccessKind) -> Fault {
    Fault { address, code: syndrome(kind, FSC_ALIGNMENT), trap: 0 }
}

/// The syndrome of an abort.
const fn syndrome(kind: AccessKind, status: u64) -> u64 {
    let (class, write) = match kind {
        AccessKind::Read => (EC_DATA_ABORT, 0),
        AccessKind::Write => (EC_DATA_ABORT, WNR),
        AccessKind::Fetch => (EC_INSTRUCTION_ABORT, 0),
    };
    class << EC_SHIFT | IL | write | status
}
