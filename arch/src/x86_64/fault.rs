//! Exception vectors and page-fault error codes (Intel SDM volume 3, chapter 6).

use crate::Arch;
use crate::fault::{AccessKind, Fault};
use crate::signal::code;

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

/// See [`Fault::page`]. Of kernel addresses user code learns nothing: the page is always
/// said to be there (`sanitize_error_code`).
pub(crate) const fn page(address: u64, kind: AccessKind, mapped: bool) -> Fault {
    let mapped = mapped || address >= Arch::X86_64.task_size();
    let kind = match kind {
        AccessKind::Read => 0,
        AccessKind::Write => PF_WRITE,
        AccessKind::Fetch => PF_INSTR,
    };
    let present = if mapped { PF_PROT } else { 0 };
    Fault { address, code: PF_USER | kind | present, trap: PF }
}

/// The error code of `int vector` where the gate is not open to user code: an entry of
/// the interrupt table.
pub const fn idt_error(vector: u8) -> u64 {
    (vector as u64) << 3 | 2
}

/// Whether bits 63 to 47 of `address` are all the same.
pub const fn is_canonical(address: u64) -> bool {
    ((address << 16) as i64 >> 16) as u64 == address
}

/// `fpu__exception_code`: the `si_code` of SIGFPE from the flags of exceptions that are
/// raised and not masked, in the order of MXCSR and the x87 status word. `None` if there
/// are none: the kernel then sends no signal.
pub const fn fpu_code(raised: u16) -> Option<i32> {
    Some(if raised & 0x01 != 0 {
        code::FPE_FLTINV
    } else if raised & 0x04 != 0 {
        code::FPE_FLTDIV
    } else if raised & 0x08 != 0 {
        code::FPE_FLTOVF
    } else if raised & 0x12 != 0 {
        code::FPE_FLTUND
    } else if raised & 0x20 != 0 {
        code::FPE_FLTRES
    } else {
        return None;
    })
}

/// Any other exception: it leaves the thread's `cr2` alone.
pub const fn exception(last: Fault, trap: u64, code: u64) -> Fault {
    Fault { address: last.address, code, trap }
}
