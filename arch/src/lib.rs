//! What x86_64 and aarch64 Linux *are*: registers, calling and system-call
//! conventions, ELF and DWARF numbers, signal frames, instruction classes.
//!
//! Nothing here knows the emulator, its engine or any policy. Every module
//! has the same file name under [`x86_64`] and [`aarch64`]; the types that both
//! share ([`Arch`], [`Regs`], [`FpState`]) live at the top.
//!
//! ```text
//! Arch ─┬─► regs, perf_regs            a user context, DWARF-numbered
//!       ├─► decode                     code ─► starts, classes, memory operands
//!       ├─► frame                      what instructions do to a frame
//!       ├─► syscalls, errno, strace    numbers ─► names ─► text
//!       ├─► signal, siginfo, sigaction, fault ─► sigframe
//!       └─► elf, stat, time, system    what the kernel hands to a program
//! ```

pub mod aarch64;
mod bytes;
pub mod decode;
pub mod elf;
pub mod errno;
pub mod fault;
pub mod frame;
pub mod perf_regs;
pub mod regs;
pub mod sigaction;
pub mod sigframe;
pub mod siginfo;
pub mod signal;
pub mod stat;
pub mod strace;
pub mod syscalls;
mod sysno;
pub mod system;
pub mod time;
pub mod x86_64;

pub use errno::Errno;
pub use regs::{FpState, Regs};
pub use signal::{SigSet, Signal};
pub use syscalls::Sysno;

use std::fmt;
use std::str::FromStr;

/// An instruction set with its 64-bit little-endian Linux ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// AMD64 / Intel 64, System V psABI.
    X86_64,
    /// Arm A64, AAPCS64.
    Aarch64,
}

impl Arch {
    /// Both architectures, in the order in which tables list them.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name that `uname -m`, `perf` and the guest folders use.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// `e_machine` of an ELF file (gABI): `EM_X86_64` or `EM_AARCH64`.
    pub const fn elf_machine(self) -> u16 {
        match self {
            Arch::X86_64 => 62,
            Arch::Aarch64 => 183,
        }
    }

    /// The architecture of an ELF file's `e_machine`, if it is one of ours.
    pub fn from_elf_machine(machine: u16) -> Option<Arch> {
        Arch::ALL.into_iter().find(|a| a.elf_machine() == machine)
    }

    /// DWARF number of the stack pointer (`rsp` 7, `sp` 31).
    pub const fn sp(self) -> usize {
        match self {
            Arch::X86_64 => x86_64::regs::RSP,
            Arch::Aarch64 => aarch64::regs::SP,
        }
    }

    /// DWARF number of the frame pointer (`rbp` 6, `x29` 29).
    pub const fn fp(self) -> usize {
        match self {
            Arch::X86_64 => x86_64::regs::RBP,
            Arch::Aarch64 => aarch64::regs::FP,
        }
    }

    /// One past the highest user address (Linux: `TASK_SIZE_MAX`, 47 bits on
    /// x86_64 less one guard page, 48 bits on aarch64).
    pub const fn task_size(self) -> u64 {
        match self {
            Arch::X86_64 => 0x7fff_ffff_f000,
            Arch::Aarch64 => 0x1_0000_0000_0000,
        }
    }

    /// A code address without its pointer authentication code, as `XPACLRI` leaves it with
    /// 48-bit addresses and top-byte ignore: bits 54..48 become copies of bit 55. An
    /// address without a code, and any on x86_64, is unchanged.
    pub const fn strip_pac(self, address: u64) -> u64 {
        const FIELD: u64 = 0x007f_0000_0000_0000;
        match self {
            Arch::X86_64 => address,
            Arch::Aarch64 if address >> 55 & 1 == 0 => address & !FIELD,
            Arch::Aarch64 => address | FIELD,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names neither architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture {0:?}: use x86_64 or aarch64")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(s: &str) -> Result<Arch, UnknownArch> {
        Arch::ALL.into_iter().find(|a| a.name() == s).ok_or_else(|| UnknownArch(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn both_architectures_have_the_same_files() {
        let files = |arch: &str| -> BTreeSet<std::ffi::OsString> {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(arch);
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        assert_eq!(files("x86_64"), files("aarch64"));
        assert!(files("x86_64").len() > 5);
    }
}
