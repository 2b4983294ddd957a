//! Registers as `perf_event_open` numbers them in `PERF_SAMPLE_REGS_USER`
//! (`arch/*/include/uapi/asm/perf_regs.h`).

use crate::{Arch, Regs, aarch64, x86_64};

/// `PERF_SAMPLE_REGS_ABI_NONE`: no user registers.
pub const ABI_NONE: u64 = 0;
/// `PERF_SAMPLE_REGS_ABI_32`.
pub const ABI_32: u64 = 1;
/// `PERF_SAMPLE_REGS_ABI_64`: of a 64-bit task.
pub const ABI_64: u64 = 2;

impl Arch {
    /// `sample_regs_user` that `perf record --call-graph dwarf` asks for: all
    /// registers that a 64-bit user context has.
    pub const fn perf_regs_mask(self) -> u64 {
        match self {
            Arch::X86_64 => x86_64::perf_regs::MASK,
            Arch::Aarch64 => aarch64::perf_regs::MASK,
        }
    }

    /// The perf number of a DWARF register. The return-address column of
    /// x86_64 (16) and the program counter of AADWARF64 (32) are the
    /// instruction pointer.
    pub fn perf_of_dwarf(self, dwarf: u16) -> Option<u32> {
        match self {
            Arch::X86_64 => x86_64::perf_regs::OF_DWARF.get(usize::from(dwarf)).copied(),
            Arch::Aarch64 => (dwarf <= 32).then_some(u32::from(dwarf)),
        }
    }

    /// The DWARF number of a perf register; `None` for flags and segments.
    pub fn dwarf_of_perf(self, perf: u32) -> Option<u16> {
        (0..=32).find(|dwarf| self.perf_of_dwarf(*dwarf) == Some(perf))
    }

    /// The name that perf prints for a perf register.
    pub fn perf_reg_name(self, perf: u32) -> Option<&'static str> {
        let names: &[&str] = match self {
            Arch::X86_64 => &x86_64::perf_regs::NAMES,
            Arch::Aarch64 => &aarch64::perf_regs::NAMES,
        };
        names.get(usize::try_from(perf).ok()?).copied()
    }
}

/// The value of a perf register in a user context (`perf_reg_value`).
pub fn value(regs: &Regs, perf: u32) -> Option<u64> {
    match regs.arch {
        Arch::X86_64 => x86_64::perf_regs::value(regs, perf),
        Arch::Aarch64 => aarch64::perf_regs::value(regs, perf),
    }
}

/// The values of the registers in `mask`, in ascending bit order, as a sample
/// holds them; bits that name no register read as zero.
pub fn values(regs: &Regs, mask: u64) -> Vec<u64> {
    let bits = (0..64).filter(|bit| mask >> bit & 1 != 0);
    bits.map(|bit| value(regs, bit).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_map_both_ways() {
        for arch in Arch::ALL {
            let mapped: Vec<u32> = (0..=32).filter_map(|d| arch.perf_of_dwarf(d)).collect();
            for perf in &mapped {
                let dwarf = arch.dwarf_of_perf(*perf).map(|d| arch.perf_of_dwarf(d));
                assert_eq!(dwarf, Some(Some(*perf)));
                assert!(arch.perf_regs_mask() >> perf & 1 != 0);
            }
        }
        assert_eq!(Arch::X86_64.perf_of_dwarf(1), Some(3), "rdx");
        assert_eq!(Arch::X86_64.perf_of_dwarf(16), Some(8), "rip");
        assert_eq!(Arch::X86_64.dwarf_of_perf(9), None, "flags");
        assert_eq!(Arch::Aarch64.dwarf_of_perf(32), Some(32), "pc");
        assert_eq!(Arch::Aarch64.perf_of_dwarf(33), None);
    }

    #[test]
    fn samples_hold_registers_in_perf_order() {
        let mut regs = Regs::new(Arch::X86_64);
        regs.gp = std::array::from_fn(|i| 100 + i as u64);
        regs.pc = 7;
        let got = values(&regs, Arch::X86_64.perf_regs_mask());
        let expected = [
            100, 103, 102, 101, 104, 105, 106, 107, 7, 0x202, 0x33, 0x2b, 108, 109, 110, 111, 112,
            113, 114, 115,
        ];
        assert_eq!(got, expected);
        assert_eq!(values(&regs, 1 << 12 | 1 << 40), [0, 0], "segments are not kept");

        let mut regs = Regs::new(Arch::Aarch64);
        regs.gp = std::array::from_fn(|i| 100 + i as u64);
        regs.pc = 7;
        let got = values(&regs, Arch::Aarch64.perf_regs_mask());
        assert_eq!((got.len(), got[31], got[32]), (33, 131, 7));
        assert_eq!(Arch::Aarch64.perf_reg_name(30), Some("lr"));
        assert_eq!(Arch::X86_64.perf_reg_name(16), Some("R8"));
    }
}
