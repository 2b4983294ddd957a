//! The auxiliary vector: what the kernel tells a new program about itself.
//!
//! Entries and their order are those of `create_elf_tables` (fs/binfmt_elf.c) and
//! `ARCH_DLINFO` (arch/*/include/asm/elf.h) in Linux 6.18.

use arch::Arch;

use super::PAGE;

/// Entry types (include/uapi/linux/auxvec.h).
pub mod at {
    /// End of the vector.
    pub const NULL: u64 = 0;
    /// Address of the program headers.
    pub const PHDR: u64 = 3;
    /// Size of one program header in bytes.
    pub const PHENT: u64 = 4;
    /// Number of program headers.
    pub const PHNUM: u64 = 5;
    /// Page size in bytes.
    pub const PAGESZ: u64 = 6;
    /// Base address of the interpreter, 0 for none.
    pub const BASE: u64 = 7;
    /// Flags; always 0.
    pub const FLAGS: u64 = 8;
    /// Entry point of the program.
    pub const ENTRY: u64 = 9;
    /// Real user id.
    pub const UID: u64 = 11;
    /// Effective user id.
    pub const EUID: u64 = 12;
    /// Real group id.
    pub const GID: u64 = 13;
    /// Effective group id.
    pub const EGID: u64 = 14;
    /// Address of the platform's name.
    pub const PLATFORM: u64 = 15;
    /// CPU features.
    pub const HWCAP: u64 = 16;
    /// Frequency of `times()` in Hz.
    pub const CLKTCK: u64 = 17;
    /// 1 for set-user-id programs.
    pub const SECURE: u64 = 23;
    /// Address of 16 random bytes.
    pub const RANDOM: u64 = 25;
    /// More CPU features.
    pub const HWCAP2: u64 = 26;
    /// Bytes of `struct rseq` that the kernel knows.
    pub const RSEQ_FEATURE_SIZE: u64 = 27;
    /// Alignment of `struct rseq` in bytes.
    pub const RSEQ_ALIGN: u64 = 28;
    /// Address of the path given to `execve`.
    pub const EXECFN: u64 = 31;
    /// Address of the vDSO.
    pub const SYSINFO_EHDR: u64 = 33;
    /// Smallest stack that a signal frame fits on, in bytes.
    pub const MINSIGSTKSZ: u64 = 51;
}

/// `AT_HWCAP` on x86_64: CPUID.1:EDX of the engine's Westmere model (fpu vme de pse
/// tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2).
pub const HWCAP_X86_64: u64 = 0x078b_fbff;

/// `AT_HWCAP` on aarch64 (arch/arm64/include/uapi/asm/hwcap.h): what the engine's
/// `max` model (QEMU 5) executes correctly at EL0, and no more. Left out although the
/// model has them: features that no C library selects code by (EVTSTRM, DIT, FLAGM…).
/// Not there: SVE, BTI, RNG, and everything that needs `AT_HWCAP2`.
pub const HWCAP_AARCH64: u64 = {
    const FP: u64 = 1 << 0;
    const ASIMD: u64 = 1 << 1;
    const AES: u64 = 1 << 3;
    const PMULL: u64 = 1 << 4;
    const SHA1: u64 = 1 << 5;
    const SHA2: u64 = 1 << 6;
    const CRC32: u64 = 1 << 7;
    const ATOMICS: u64 = 1 << 8;
    const CPUID: u64 = 1 << 11;
    const JSCVT: u64 = 1 << 13;
    const FCMA: u64 = 1 << 14;
    const LRCPC: u64 = 1 << 15;
    const PACA: u64 = 1 << 30;
    const PACG: u64 = 1 << 31;
    FP | ASIMD
        | AES
        | PMULL
        | SHA1
        | SHA2
        | CRC32
        | ATOMICS
        | CPUID
        | JSCVT
        | FCMA
        | LRCPC
        | PACA
        | PACG
};

/// `AT_MINSIGSTKSZ` on x86_64 for a CPU whose signal frames hold FXSAVE state
/// (`init_sigframe_size`, arch/x86/kernel/signal.c, with IA-32 emulation): the
/// largest frame (32-bit `sigframe_ia32`, 732), its alignment (15), FXSAVE (512),
/// `struct fregs_state` (112) and the alignment of XSAVE (63), rounded up to 16.
pub const MINSIGSTKSZ_X86_64: u64 = (732u64 + 15 + 512 + 112 + 63).next_multiple_of(16);

/// `AT_MINSIGSTKSZ` on aarch64 without SVE and SME (`minsigstksz_setup`,
/// arch/arm64/kernel/signal.c): `struct rt_sigframe` (4688), the frame record (16)
/// and its alignment (16).
pub const MINSIGSTKSZ_AARCH64: u64 = 4688 + 16 + 16;

/// `AT_RSEQ_FEATURE_SIZE`: up to and including `mm_cid`.
pub const RSEQ_FEATURE_SIZE: u64 = 28;

/// `AT_RSEQ_ALIGN`.
pub const RSEQ_ALIGN: u64 = 32;

/// `USER_HZ`.
pub const CLKTCK: u64 = 100;

/// The values that are not addresses on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Address of the vDSO, if there is one.
    pub vdso: Option<u64>,
    /// Smallest signal stack in bytes.
    pub minsigstksz: u64,
    /// CPU features.
    pub hwcap: u64,
    /// More CPU features.
    pub hwcap2: u64,
    /// Address of the program headers.
    pub phdr: u64,
    /// Size of one program header in bytes.
    pub phent: u16,
    /// Number of program headers.
    pub phnum: u16,
    /// Entry point.
    pub entry: u64,
    /// Real, effective user id; real, effective group id.
    pub ids: [u32; 4],
    /// Feature size and alignment of `struct rseq`; `None` when the kernel has no rseq.
    pub rseq: Option<(u64, u64)>,
}

impl Aux {
    /// The values for a program that was planned to `layout`, run by `uid` and `gid`
    /// on the modelled CPU.
    pub fn new(image: &super::Image, layout: &super::Layout, uid: u32, gid: u32) -> Aux {
        let (minsigstksz, hwcap) = match image.arch {
            Arch::X86_64 => (MINSIGSTKSZ_X86_64, HWCAP_X86_64),
            Arch::Aarch64 => (MINSIGSTKSZ_AARCH64, HWCAP_AARCH64),
        };
        Aux {
            vdso: layout.vdso,
            minsigstksz,
            hwcap,
            hwcap2: 0,
            phdr: layout.phdr,
            phent: image.phentsize,
            phnum: image.phnum,
            entry: layout.entry,
            ids: [uid, uid, gid, gid],
            rseq: Some((RSEQ_FEATURE_SIZE, RSEQ_ALIGN)),
        }
    }

    /// The vector in Linux's order, without the closing `AT_NULL`; the arguments are
    /// the addresses of the random bytes, the path and the platform's name.
    pub fn entries(&self, random: u64, execfn: u64, platform: u64) -> Vec<(u64, u64)> {
        let [uid, euid, gid, egid] = self.ids.map(u64::from);
        let mut entries: Vec<(u64, u64)> =
            self.vdso.map(|vdso| (at::SYSINFO_EHDR, vdso)).into_iter().collect();
        entries.extend([
            (at::MINSIGSTKSZ, self.minsigstksz),
            (at::HWCAP, self.hwcap),
            (at::PAGESZ, PAGE),
            (at::CLKTCK, CLKTCK),
            (at::PHDR, self.phdr),
            (at::PHENT, self.phent.into()),
            (at::PHNUM, self.phnum.into()),
            (at::BASE, 0),
            (at::FLAGS, 0),
            (at::ENTRY, self.entry),
            (at::UID, uid),
            (at::EUID, euid),
            (at::GID, gid),
            (at::EGID, egid),
            (at::SECURE, 0),
            (at::RANDOM, random),
            (at::HWCAP2, self.hwcap2),
            (at::EXECFN, execfn),
            (at::PLATFORM, platform),
        ]);
        if let Some((size, align)) = self.rseq {
            entries.extend([(at::RSEQ_FEATURE_SIZE, size), (at::RSEQ_ALIGN, align)]);
        }
        entries
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn signal_stacks_have_the_kernels_size() {
        assert_eq!(MINSIGSTKSZ_X86_64, 1440);
        // The same formula gives what Linux 6.18 reports on a CPU with AVX-512 and
        // PKRU on AMD (XSAVE area 2440 + 4): 3376.
        assert_eq!((MINSIGSTKSZ_X86_64 - 6 - 512 + 2444).next_multiple_of(16), 3376);
        assert_eq!(MINSIGSTKSZ_AARCH64, 4720);
    }
}
