//! Auxiliary vector and hardware capabilities
//! (`include/uapi/linux/auxvec.h`, `arch/*/include/uapi/asm/{auxvec,hwcap*}.h`).

use crate::{Arch, aarch64, x86_64};

/// Declares the entry types.
macro_rules! auxv {
    ($($name:ident $number:literal $doc:literal,)*) => {
        $(#[doc = $doc] pub const $name: u64 = $number;)*

        /// Name of an entry type.
        pub const fn auxv_name(number: u64) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

auxv! {
    AT_NULL 0 "Ends the vector.",
    AT_IGNORE 1 "No meaning.",
    AT_EXECFD 2 "File descriptor of the program.",
    AT_PHDR 3 "Address of the program headers.",
    AT_PHENT 4 "Bytes of one program header.",
    AT_PHNUM 5 "Number of program headers.",
    AT_PAGESZ 6 "Bytes of a page.",
    AT_BASE 7 "Load address of the interpreter, 0 without one.",
    AT_FLAGS 8 "Flags, 0.",
    AT_ENTRY 9 "Entry point of the program.",
    AT_NOTELF 10 "The program is not ELF.",
    AT_UID 11 "Real user.",
    AT_EUID 12 "Effective user.",
    AT_GID 13 "Real group.",
    AT_EGID 14 "Effective group.",
    AT_PLATFORM 15 "Address of the platform's name.",
    AT_HWCAP 16 "Hardware capabilities.",
    AT_CLKTCK 17 "Clock ticks per second of `times`.",
    AT_SECURE 23 "Whether the program gained privileges.",
    AT_BASE_PLATFORM 24 "Address of the real platform's name.",
    AT_RANDOM 25 "Address of 16 random bytes.",
    AT_HWCAP2 26 "More hardware capabilities.",
    AT_RSEQ_FEATURE_SIZE 27 "Bytes of `struct rseq` that the kernel knows.",
    AT_RSEQ_ALIGN 28 "Alignment of `struct rseq`.",
    AT_HWCAP3 29 "More hardware capabilities.",
    AT_HWCAP4 30 "More hardware capabilities.",
    AT_EXECFN 31 "Address of the program's file name.",
    AT_SYSINFO_EHDR 33 "Address of the vDSO.",
    AT_MINSIGSTKSZ 51 "Bytes of the largest signal frame.",
}

/// `AT_CLKTCK`: `USER_HZ`.
pub const CLOCK_TICKS: u64 = 100;

impl Arch {
    /// The string of `AT_PLATFORM`.
    pub const fn platform(self) -> &'static str {
        self.name()
    }

    /// Bit names of `AT_HWCAP`, from bit 0, as `/proc/cpuinfo` prints them;
    /// reserved bits are empty.
    pub const fn hwcap_names(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &x86_64::elf::HWCAP,
            Arch::Aarch64 => &aarch64::elf::HWCAP,
        }
    }

    /// Bit names of `AT_HWCAP2`.
    pub const fn hwcap2_names(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &x86_64::elf::HWCAP2,
            Arch::Aarch64 => &aarch64::elf::HWCAP2,
        }
    }

    /// `AT_MINSIGSTKSZ` of a processor whose signal frames are those of
    /// [`crate::sigframe`].
    pub const fn min_sig_stack(self) -> u64 {
        match self {
            Arch::X86_64 => x86_64::elf::MIN_SIG_STACK,
            Arch::Aarch64 => aarch64::elf::MIN_SIG_STACK,
        }
    }
}

/// The mask of capabilities by name; `None` if one is not in `names`.
pub fn hwcap_mask(names: &[&str], wanted: &[&str]) -> Option<u64> {
    wanted.iter().try_fold(0, |mask, want| {
        let bit = names.iter().position(|name| name == want && !name.is_empty())?;
        Some(mask | 1 << bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_types_have_names() {
        assert_eq!(auxv_name(AT_RANDOM), Some("AT_RANDOM"));
        assert_eq!((AT_HWCAP2, AT_SYSINFO_EHDR, AT_MINSIGSTKSZ), (26, 33, 51));
        assert_eq!(auxv_name(1000), None);
    }

    #[test]
    fn capabilities_by_name() {
        let arm = Arch::Aarch64;
        let mask = hwcap_mask(arm.hwcap_names(), &["fp", "asimd", "atomics", "paca", "pacg"]);
        assert_eq!(mask, Some(1 | 1 << 1 | 1 << 8 | 1 << 30 | 1 << 31));
        assert_eq!(hwcap_mask(arm.hwcap2_names(), &["bti", "mte"]), Some(1 << 17 | 1 << 18));
        assert_eq!(hwcap_mask(arm.hwcap2_names(), &["mops", "poe"]), Some(1 << 43 | 1 << 63));
        let intel = Arch::X86_64;
        let mask = hwcap_mask(intel.hwcap_names(), &["fpu", "fxsr", "sse", "sse2"]);
        assert_eq!(mask, Some(1 | 0x0700_0000));
        assert_eq!(hwcap_mask(intel.hwcap2_names(), &["fsgsbase"]), Some(2));
        assert_eq!(hwcap_mask(intel.hwcap_names(), &["avx"]), None);
        assert_eq!(hwcap_mask(intel.hwcap_names(), &[""]), None);
    }
}
