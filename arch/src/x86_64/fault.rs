//! Exception vectors and page-fault error codes (Intel SDM volume 3, chapter 6).

use crate::fault::{AccessKind, Fault};

/// Divide error.
pub const DE: u64 = 0;
/// Debug: single step, `int1`.
pub const DB: u64 = 1;
/// Breakpoint: `int3`.
pub const BP: u64 = 3;
/// Overflow.
pub const OF: u64 = 4;
/// Bound range exceeded.
pub const BR: u64 = 5;
/// Invalid opcode.
pub const UD: u64 = 6;
/// Device not available.
pub const NM: u64 = 7;
/// Segment not present.
pub const NP: u64 = 11;
/// Stack segment fault: non-canonical stack address.
pub const SS: u64 = 12;
/// General protection: privileged instruction, non-canonical address.
pub const GP: u64 = 13;
/// Page fault.
pub const PF: u64 = 14;
/// x87 error.
pub const MF: u64 = 16;
/// Alignment check.
pub const AC: u64 = 17;
/// SIMD floating-point error.
pub const XF: u64 = 19;

/// Error code: the page is there but forbids the access.
pub const PF_PROT: u64 = 1;
/// Error code: store.
pub const PF_WRITE: u64 = 2;
/// Error code: user mode.
pub const PF_USER: u64 = 4;
/// Error code: instruction fetch.
pub const PF_INSTR: u64 = 16;

/// See [`Fault::page`].
pub(crate) const fn page(address: u64, kind: AccessKind, mapped: bool) -> Fault {
    let kind = match kind {
        AccessKind::Read => 0,
        AccessKind::Write => PF_WRITE,
        AccessKind::Fetch => PF_INSTR,
    };
    let present = if mapped { PF_PROT } else { 0 };
    Fault { address, code: PF_USER | kind | present, trap: PF }
}

/// Any other exception: it leaves the thread's `cr2` alone.
pub const fn exception(last: Fault, trap: u64, code: u64) -> Fault {
    Fault { address: last.address, code, trap }
}
