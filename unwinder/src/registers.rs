//! The registers of one frame, and which of them are known.

use arch::{Arch, Regs};

/// Registers by DWARF number. A register whose value in this frame cannot be told is
/// unknown: it has no value, rather than a wrong one.
///
/// The program counter is not here: a frame's is a [`crate::CodeAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    arch: Arch,
    values: [u64; Registers::COUNT],
    /// Bit n: register n is known.
    known: u32,
}

impl Registers {
    /// Registers that are kept: x86_64 has 0 to 15, aarch64 0 to 31.
    pub const COUNT: usize = 32;

    /// All unknown.
    pub const fn unknown(arch: Arch) -> Registers {
        Registers { arch, values: [0; Registers::COUNT], known: 0 }
    }

    /// Those of a thread: all known.
    pub fn of_thread(regs: &Regs) -> Registers {
        Registers { arch: regs.arch, values: regs.gp, known: Registers::all(regs.arch) }
    }

    /// The mask of all registers that there are.
    pub const fn all(arch: Arch) -> u32 {
        match arch {
            Arch::X86_64 => 0xffff,
            Arch::Aarch64 => u32::MAX,
        }
    }

    /// What a frame-pointer walk needs and no more.
    pub fn of_frame(arch: Arch, sp: u64, fp: u64) -> Registers {
        let mut registers = Registers::unknown(arch);
        registers.set(arch.sp() as u8, sp);
        registers.set(arch.fp() as u8, fp);
        registers
    }

    /// Which register file this is.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// The value of register `number`, if there is such a register and it is known.
    #[inline]
    pub fn get(&self, number: u8) -> Option<u64> {
        let known = self.known.checked_shr(u32::from(number)).unwrap_or(0) & 1 == 1;
        known.then(|| self.values[usize::from(number)]) // a known register is in range
    }

    /// Sets a register; numbers that are no register are ignored.
    pub fn set(&mut self, number: u8, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
            self.known |= 1 << number;
        }
    }

    /// The register is unknown from now on.
    pub fn forget(&mut self, number: u8) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = 0;
            self.known &= !(1 << number);
        }
    }

    /// Only the registers in `mask` (bit n: register n) stay known.
    pub fn keep(&mut self, mask: u32) {
        self.known &= mask;
        for (number, value) in self.values.iter_mut().enumerate() {
            if self.known >> number & 1 == 0 {
                *value = 0;
            }
        }
    }

    /// Bit n: register n is known.
    pub const fn known(&self) -> u32 {
        self.known
    }

    /// The stack pointer.
    pub fn sp(&self) -> Option<u64> {
        self.get(self.arch.sp() as u8)
    }

    /// The frame pointer.
    pub fn fp(&self) -> Option<u64> {
        self.get(self.arch.fp() as u8)
    }
}

/// Registers that a function leaves as it found them, the stack pointer aside: x86-64 psABI
/// figure 3.4 (`rbx rbp r12`–`r15`); AAPCS64 section 6.1.1 (`x19`–`x29`).
pub const fn callee_saved(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 1 << 3 | 1 << 6 | 0xf << 12,
        Arch::Aarch64 => 0x7ff << 19,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_zero() {
        let mut r = Registers::unknown(Arch::X86_64);
        assert_eq!(r.get(3), None);
        r.set(3, 7);
        assert_eq!((r.get(3), r.get(4), r.known()), (Some(7), None, 8));
        r.forget(3);
        assert_eq!(r, Registers::unknown(Arch::X86_64));
    }

    #[test]
    fn numbers_out_of_range_are_no_registers() {
        let mut r = Registers::of_thread(&Regs::new(Arch::X86_64));
        assert_eq!((r.get(15), r.get(16), r.get(32), r.get(255)), (Some(0), None, None, None));
        let before = r;
        r.set(32, 1);
        r.forget(200);
        assert_eq!(r, before);
    }

    #[test]
    fn what_is_kept() {
        let mut r = Registers::of_thread(&Regs::new(Arch::Aarch64));
        r.keep(callee_saved(Arch::Aarch64));
        assert_eq!((r.get(18), r.get(19), r.get(29), r.get(30)), (None, Some(0), Some(0), None));
        assert_eq!(callee_saved(Arch::X86_64).count_ones(), 6);
    }
}
