//! Hardware breakpoints: the words of `mem:` and what a processor can watch.

use std::fmt;

use arch::Arch;

use crate::perf::attr::AttrError;

/// Which accesses a breakpoint traps (`HW_BREAKPOINT_*`, the values of `bp_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Trapped {
    /// Loads.
    Read = 1,
    /// Stores.
    Write = 2,
    /// Loads and stores.
    ReadWrite = 3,
    /// Execution.
    Execute = 4,
}

impl Trapped {
    /// The one with this value.
    pub const fn from_bits(bits: u32) -> Option<Trapped> {
        Some(match bits {
            1 => Trapped::Read,
            2 => Trapped::Write,
            3 => Trapped::ReadWrite,
            4 => Trapped::Execute,
            _ => return None,
        })
    }

    /// Loads trap.
    pub const fn reads(self) -> bool {
        matches!(self, Trapped::Read | Trapped::ReadWrite)
    }

    /// Stores trap.
    pub const fn writes(self) -> bool {
        matches!(self, Trapped::Write | Trapped::ReadWrite)
    }
}

/// A breakpoint as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Breakpoint {
    /// `bp_addr`
    pub addr: u64,
    /// `bp_len` in bytes.
    pub len: u64,
    /// `bp_type`
    pub trapped: Trapped,
}

/// Where the words say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'w> {
    /// A number.
    Address(u64),
    /// Behind a symbol of the program.
    Symbol(&'w str, u64),
}

impl Breakpoint {
    /// How many the processor has for data and for execution; x86_64 takes both from one set.
    pub const SLOTS: usize = 4;

    /// The words `ADDRESS[/LENGTH][:ACCESS]` behind `mem:`, as perf takes them: loads and stores
    /// of 4 bytes if nothing else is said, a length of 8 to execute. The address is that of
    /// [`Place`]. `None`: they are none.
    pub fn parse(words: &str) -> Option<(Place<'_>, Breakpoint)> {
        let (place, trapped) = match words.split_once(':') {
            Some((place, letters)) => (place, trapped(letters)?),
            None => (words, Trapped::ReadWrite),
        };
        let (place, len) = match place.split_once('/') {
            Some((place, len)) => (place, number(len)?),
            None if trapped == Trapped::Execute => (place, 8),
            None => (place, 4),
        };
        let (name, offset) = match place.split_once('+') {
            Some((name, offset)) => (name, number(offset)?),
            None => (place, 0),
        };
        let place = match number(place) {
            Some(addr) => Place::Address(addr),
            None if !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) => {
                Place::Symbol(name, offset)
            }
            None => return None,
        };
        let addr = if let Place::Address(addr) = place { addr } else { 0 };
        Some((place, Breakpoint { addr, len, trapped }))
    }

    /// What the processor is told (`hw_breakpoint_arch_parse`): aarch64 watches bytes of one
    /// aligned doubleword, and takes any length to execute for an instruction's.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what it cannot watch; `EOPNOTSUPP` for kernel memory, which is not modelled,
    /// and for ranges that some x86_64 have.
    pub fn check(self, arch: Arch) -> Result<Breakpoint, AttrError> {
        let Breakpoint { addr, len, trapped } = self;
        let invalid = |why| Err(AttrError::Invalid(why));
        if addr >= arch.task_size() {
            return Err(AttrError::Unsupported("a breakpoint in kernel memory"));
        }
        match (arch, trapped) {
            (Arch::X86_64, Trapped::Read) => invalid("x86_64 cannot watch loads alone; use rw"),
            (Arch::X86_64, Trapped::Execute) if len != 8 => {
                invalid("the length to execute has to be 8")
            }
            (Arch::X86_64, Trapped::Execute) => Ok(Breakpoint { len: 1, ..self }),
            (Arch::X86_64, _) if !len.is_power_of_two() => {
                invalid("the length has to be 1, 2, 4 or 8")
            }
            (Arch::X86_64, _) if !addr.is_multiple_of(len) => {
                invalid("the address has to be a multiple of the length")
            }
            (Arch::X86_64, _) if len > 8 => Err(AttrError::Unsupported("a length above 8")),
            (Arch::X86_64, _) => Ok(self),
            (Arch::Aarch64, _) if !(1..=8).contains(&len) => invalid("the length has to be 1 to 8"),
            (Arch::Aarch64, Trapped::Execute) => {
                Ok(Breakpoint { addr: addr & !3, len: 4, trapped })
            }
            (Arch::Aarch64, _) => Ok(Breakpoint { len: len.min(8 - addr % 8), ..self }),
        }
    }

    /// Whether both are taken from one set of the processor's: aarch64 has one of each kind.
    pub fn shares(&self, other: &Breakpoint, arch: Arch) -> bool {
        let of_code = |b: &Breakpoint| b.trapped == Trapped::Execute;
        arch == Arch::X86_64 || of_code(self) == of_code(other)
    }

    /// Whether it is for the access of `len` bytes at `addr`.
    pub const fn touches(&self, addr: u64, len: u64, write: bool) -> bool {
        let wanted = if write { self.trapped.writes() } else { self.trapped.reads() };
        let (end, own) = (addr.saturating_add(len), self.addr.saturating_add(self.len));
        wanted && addr < own && self.addr < end
    }
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = ["r", "w", "rw", "x"][self.trapped as usize - 1];
        write!(f, "mem:{:#x}/{}:{letters}", self.addr, self.len)
    }
}

/// `parse_breakpoint_type`: letters in any order, none twice.
fn trapped(letters: &str) -> Option<Trapped> {
    let mut bits = 0;
    for letter in letters.chars() {
        let bit = match letter {
            'r' => 1,
            'w' => 2,
            'x' => 4,
            _ => return None,
        };
        if bits & bit != 0 {
            return None;
        }
        bits |= bit;
    }
    Trapped::from_bits(bits)
}

/// A number as perf writes it.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if word.starts_with(|c: char| c.is_ascii_digit()) => word.parse().ok(),
        None => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let at = |words| Breakpoint::parse(words).map(|(_, b)| (b.addr, b.len, b.trapped));
        assert_eq!(at("0x1000"), Some((0x1000, 4, Trapped::ReadWrite)));
        assert_eq!(at("4096/8:w"), Some((4096, 8, Trapped::Write)));
        assert_eq!(at("0x1000:x"), Some((0x1000, 8, Trapped::Execute)));
        assert_eq!(at("0x1000/1:wr"), Some((0x1000, 1, Trapped::ReadWrite)));
        for bad in
            ["", "0x", "0x1000/", "0x1000:", "0x1000:ww", "0x1000:rx", "0x1000:u", "1x", "/4"]
        {
            assert_eq!(at(bad), None, "{bad}");
        }
        let place = |words| Breakpoint::parse(words).unwrap().0;
        assert_eq!(place("counter+0x8/8:w"), Place::Symbol("counter", 8));
        assert_eq!(place("counter"), Place::Symbol("counter", 0));
    }

    #[test]
    fn what_processors_watch() {
        let check = |arch, addr, len, trapped| Breakpoint { addr, len, trapped }.check(arch);
        let x86 = |addr, len, trapped| check(Arch::X86_64, addr, len, trapped).is_ok();
        assert!(x86(0x1008, 8, Trapped::Write) && x86(0x1001, 1, Trapped::ReadWrite));
        assert!(!x86(0x1004, 8, Trapped::Write) && !x86(0x1000, 3, Trapped::Write));
        assert!(!x86(0x1000, 4, Trapped::Read) && !x86(0x1000, 4, Trapped::Execute));
        assert!(!x86(0x1000, 0, Trapped::Write) && !x86(0x1000, 16, Trapped::Write));
        assert!(!x86(u64::MAX, 1, Trapped::Write) && x86(0x1003, 8, Trapped::Execute));
        let arm = |addr, len, trapped| check(Arch::Aarch64, addr, len, trapped);
        let cut = Breakpoint { addr: 0x1005, len: 3, trapped: Trapped::Read };
        assert_eq!(arm(0x1005, 8, Trapped::Read), Ok(cut));
        let whole = Breakpoint { addr: 0x1004, len: 4, trapped: Trapped::Execute };
        assert_eq!(arm(0x1004, 8, Trapped::Execute), Ok(whole));
        assert!(arm(0x1000, 9, Trapped::Write).is_err());
    }
}
