//! The user-visible registers of one thread, in one type for both
//! architectures.
//!
//! General registers are indexed by **DWARF number** (x86-64 psABI figure
//! 3.36; AADWARF64 section 4.1), the numbering that CFI, SFrame and the
//! unwinders speak, so that no table translates between two orders.

use crate::Arch;

/// Integer state of a thread in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Regs {
    /// Which register file this is.
    pub arch: Arch,
    /// General registers by DWARF number: x86_64 0..16, aarch64 `x0`..`x30`
    /// and `sp` at 31.
    pub gp: [u64; 32],
    /// Address of the next instruction to execute.
    pub pc: u64,
    /// `RFLAGS` on x86_64; `PSTATE` (NZCV in bits 31..28) on aarch64.
    pub flags: u64,
    /// Thread pointer: `FS.base` or `TPIDR_EL0`.
    pub tls: u64,
    /// `GS.base` on x86_64, unused on aarch64.
    pub gs_base: u64,
}

impl Regs {
    /// All registers zero, flags as at process start.
    pub const fn new(arch: Arch) -> Regs {
        let flags = match arch {
            Arch::X86_64 => 0x202,
            Arch::Aarch64 => 0,
        };
        Regs { arch, gp: [0; 32], pc: 0, flags, tls: 0, gs_base: 0 }
    }

    /// Stack pointer.
    pub const fn sp(&self) -> u64 {
        self.gp[self.arch.sp()]
    }

    /// Sets the stack pointer.
    pub const fn set_sp(&mut self, value: u64) {
        self.gp[self.arch.sp()] = value;
    }

    /// Frame pointer (`rbp`, `x29`).
    pub const fn fp(&self) -> u64 {
        self.gp[self.arch.fp()]
    }

    /// System-call number as the entry code reads it (`rax`, `x8`).
    pub const fn syscall_nr(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => self.gp[crate::x86_64::regs::RAX],
            Arch::Aarch64 => self.gp[8],
        }
    }

    /// The six system-call arguments in order.
    pub fn syscall_args(&self) -> [u64; 6] {
        use crate::x86_64::regs::{R8, R9, R10, RDI, RDX, RSI};
        match self.arch {
            Arch::X86_64 => [RDI, RSI, RDX, R10, R8, R9].map(|r| self.gp[r]),
            Arch::Aarch64 => [0, 1, 2, 3, 4, 5].map(|r| self.gp[r]),
        }
    }

    /// Sets a system call's result (`rax`, `x0`).
    pub const fn set_ret(&mut self, value: u64) {
        match self.arch {
            Arch::X86_64 => self.gp[crate::x86_64::regs::RAX] = value,
            Arch::Aarch64 => self.gp[0] = value,
        }
    }

    /// The register that carries a system call's result.
    pub const fn ret(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => self.gp[crate::x86_64::regs::RAX],
            Arch::Aarch64 => self.gp[0],
        }
    }
}

/// Floating-point and vector state of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FpState {
    /// The 512-byte `FXSAVE64` image (Intel SDM volume 1, section 10.5.1).
    X86_64(Box<[u8; 512]>),
    /// `v0`..`v31` with `FPSR` and `FPCR`.
    Aarch64 {
        /// Vector registers.
        v: Box<[u128; 32]>,
        /// Floating-point status register.
        fpsr: u32,
        /// Floating-point control register.
        fpcr: u32,
    },
}

impl FpState {
    /// State at process start: x87 control word 0x37f, MXCSR 0x1f80, all
    /// registers empty or zero.
    pub fn new(arch: Arch) -> FpState {
        match arch {
            Arch::X86_64 => {
                let mut image = Box::new([0u8; 512]);
                image[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
                image[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
                image[28..32].copy_from_slice(&0xffffu32.to_le_bytes());
                FpState::X86_64(image)
            }
            Arch::Aarch64 => FpState::Aarch64 { v: Box::new([0; 32]), fpsr: 0, fpcr: 0 },
        }
    }
}
