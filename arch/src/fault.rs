//! What a processor says about a fault and a thread remembers for its next
//! signal frame.

use crate::{Arch, aarch64, x86_64};

/// What the faulting instruction did to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// The last fault of a thread, which every later signal frame of it repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fault {
    /// `cr2`; `fault_address`.
    pub address: u64,
    /// The error code that x86 pushes; `ESR_EL1` on aarch64, where zero means
    /// that frames get no `esr_context`.
    pub code: u64,
    /// Exception vector on x86, unused on aarch64.
    pub trap: u64,
}

impl Fault {
    /// A page fault of user code. `mapped` tells a page that forbids the
    /// access from one that is not there.
    pub const fn page(arch: Arch, address: u64, kind: AccessKind, mapped: bool) -> Fault {
        match arch {
            Arch::X86_64 => x86_64::fault::page(address, kind, mapped),
            Arch::Aarch64 => aarch64::fault::page(address, kind, mapped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_error_codes() {
        let code = |kind, mapped| Fault::page(Arch::X86_64, 1, kind, mapped).code;
        assert_eq!(code(AccessKind::Read, false), 4);
        assert_eq!(code(AccessKind::Write, true), 7);
        assert_eq!(code(AccessKind::Fetch, true), 0x15);
        let kernel = |kind| Fault::page(Arch::X86_64, 0xffff_8000_0000_0000, kind, false).code;
        assert_eq!((kernel(AccessKind::Read), kernel(AccessKind::Fetch)), (5, 0x15));
        assert_eq!(Fault::page(Arch::X86_64, 0x7fff_ffff_f008, AccessKind::Write, false).code, 7);
        assert_eq!(x86_64::fault::fpu_code(0x24), Some(crate::signal::code::FPE_FLTDIV));
        assert_eq!(x86_64::fault::fpu_code(0), None);
        let divide = x86_64::fault::exception(Fault { address: 9, code: 7, trap: 14 }, 0, 0);
        assert_eq!(divide, Fault { address: 9, code: 0, trap: 0 });
    }

    #[test]
    fn aarch64_syndromes() {
        let code = |address, kind, mapped| Fault::page(Arch::Aarch64, address, kind, mapped).code;
        assert_eq!(code(1, AccessKind::Read, false), 0x9200_0007);
        assert_eq!(code(1, AccessKind::Write, true), 0x9200_004f);
        assert_eq!(code(1, AccessKind::Fetch, false), 0x8200_0007);
        assert_eq!(code(u64::MAX, AccessKind::Read, false), 0x9200_0004);
        let unaligned = aarch64::fault::alignment(3, AccessKind::Write);
        assert_eq!(unaligned.code, 0x9200_0061);
    }
}
