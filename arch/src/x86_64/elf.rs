//! `AT_HWCAP` is `CPUID.1:EDX` (Intel SDM volume 2, table 3-11); later
//! features have no bit there.

/// Bits of `AT_HWCAP`.
pub const HWCAP: [&str; 32] = [
    "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", "", "sep", "mtrr", "pge",
    "mca", "cmov", "pat", "pse36", "pn", "clflush", "", "dts", "acpi", "mmx", "fxsr", "sse",
    "sse2", "ss", "ht", "tm", "ia64", "pbe",
];

/// Bits of `AT_HWCAP2` (`asm/hwcap2.h`).
pub const HWCAP2: [&str; 2] = ["ring3mwait", "fsgsbase"];

/// `AT_MINSIGSTKSZ` (`init_sigframe_size`) without XSAVE, in a kernel that
/// also runs 32-bit programs: their frame with its legacy x87 area (732 and
/// 112 bytes), the FXSAVE image and the paddings, rounded to 16.
pub const MIN_SIG_STACK: u64 = (732 + 15 + 512 + 112 + 63 + 15) & !15;
