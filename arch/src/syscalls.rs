//! Numbers and names of system calls: one [`Sysno`] for both architectures,
//! looked up by array.

pub use crate::sysno::Sysno;

use crate::{Arch, aarch64, x86_64};

/// One past the highest number in either table.
const NUMBERS: usize = 472;

/// No call has this number.
const NO_NUMBER: u16 = u16::MAX;

/// The two directions of one architecture's table.
struct Table {
    by_number: [Option<Sysno>; NUMBERS],
    numbers: [u16; Sysno::ALL.len()],
}

impl Table {
    /// Spreads a list of numbers and calls over the two arrays.
    const fn new(rows: &[(u16, Sysno)]) -> Table {
        let mut table =
            Table { by_number: [None; NUMBERS], numbers: [NO_NUMBER; Sysno::ALL.len()] };
        let mut i = 0;
        while i < rows.len() {
            let (number, sysno) = rows[i];
            table.by_number[number as usize] = Some(sysno);
            table.numbers[sysno as usize] = number;
            i += 1;
        }
        table
    }
}

static X86_64: Table = Table::new(x86_64::syscalls::TABLE);
static AARCH64: Table = Table::new(aarch64::syscalls::TABLE);

/// The table of an architecture.
const fn table(arch: Arch) -> &'static Table {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

impl Sysno {
    /// The call that has number `nr`, as the whole number register holds it.
    /// The x32 numbers of x86_64 (bit 30) name nothing.
    pub fn from_nr(arch: Arch, nr: u64) -> Option<Sysno> {
        let index = usize::try_from(nr).ok()?;
        *table(arch).by_number.get(index)?
    }

    /// The number on `arch`; `None` if it does not have the call.
    pub const fn nr(self, arch: Arch) -> Option<u64> {
        match table(arch).numbers[self as usize] {
            NO_NUMBER => None,
            number => Some(number as u64),
        }
    }

    /// The kernel's name, without `sys_`.
    pub const fn name(self) -> &'static str {
        Sysno::NAMES[self as usize]
    }

    /// The call of that name.
    pub fn from_name(name: &str) -> Option<Sysno> {
        Sysno::ALL.iter().copied().find(|s| s.name() == name)
    }
}

impl std::fmt::Display for Sysno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_numbers() {
        let cases = [
            (Sysno::Read, Some(0), Some(63)),
            (Sysno::Write, Some(1), Some(64)),
            (Sysno::Open, Some(2), None),
            (Sysno::Mmap, Some(9), Some(222)),
            (Sysno::ArchPrctl, Some(158), None),
            (Sysno::RtSigreturn, Some(15), Some(139)),
            (Sysno::Newfstatat, Some(262), Some(79)),
            (Sysno::Uretprobe, Some(335), None),
            (Sysno::Clone3, Some(435), Some(435)),
            (Sysno::FileSetattr, Some(469), Some(469)),
            (Sysno::RseqSliceYield, Some(471), Some(471)),
        ];
        for (sysno, x86_64, aarch64) in cases {
            assert_eq!(sysno.nr(Arch::X86_64), x86_64, "{sysno}");
            assert_eq!(sysno.nr(Arch::Aarch64), aarch64, "{sysno}");
        }
    }

    #[test]
    fn numbers_and_calls_are_one_to_one() {
        for arch in Arch::ALL {
            let known = (0..1000).filter_map(|nr| Some((nr, Sysno::from_nr(arch, nr)?)));
            assert_eq!(known.clone().count(), table(arch).by_number.iter().flatten().count());
            for (nr, sysno) in known {
                assert_eq!(sysno.nr(arch), Some(nr), "{sysno}");
            }
            assert_eq!(Sysno::from_nr(arch, u64::MAX), None);
            assert_eq!(Sysno::from_nr(arch, 0x4000_0000), None);
        }
    }

    #[test]
    fn names_are_found() {
        for sysno in Sysno::ALL {
            assert_eq!(Sysno::from_name(sysno.name()), Some(*sysno));
        }
        assert_eq!(Sysno::Pread64.to_string(), "pread64");
        assert_eq!(Sysno::from_name("fork2"), None);
    }
}
