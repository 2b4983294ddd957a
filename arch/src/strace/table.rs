//! How flags and constants print.

use crate::Arch;

/// Names of the bits of one argument.
#[derive(Debug)]
pub struct FlagTable {
    /// What strace puts where no name fits: `0x4000 /* MAP_??? */`.
    pub unknown: &'static str,
    /// How zero prints when it is no value: `0`, or a name such as `PROT_NONE`.
    pub zero: &'static str,
    /// Bits that hold one of [`FlagTable::values`] rather than flags.
    pub value_mask: u64,
    /// Values of the masked part.
    pub values: &'static [(u64, &'static str)],
    /// Flags: one bit or several that belong together, widest first.
    pub flags: &'static [(u64, &'static str)],
    /// Flags that only x86_64 has, or has at these bits.
    pub x86_64: &'static [(u64, &'static str)],
    /// Flags that only aarch64 has, or has at these bits.
    pub aarch64: &'static [(u64, &'static str)],
}

/// A table of nothing, to build others from.
pub(super) const NONE: FlagTable = FlagTable {
    unknown: "",
    zero: "0",
    value_mask: 0,
    values: &[],
    flags: &[],
    x86_64: &[],
    aarch64: &[],
};

/// A table whose argument is one value.
pub(super) const fn one_of(
    unknown: &'static str,
    values: &'static [(u64, &'static str)],
) -> FlagTable {
    FlagTable { unknown, value_mask: u64::MAX, values, ..NONE }
}

/// A table whose argument is a set of flags, the same everywhere.
pub(super) const fn any_of(
    unknown: &'static str,
    flags: &'static [(u64, &'static str)],
) -> FlagTable {
    FlagTable { unknown, flags, ..NONE }
}

impl FlagTable {
    /// Prints a value as strace does: names joined by `|`, what has no name
    /// in hexadecimal.
    pub fn format(&self, arch: Arch, value: u64) -> String {
        let mut parts: Vec<String> = Vec::new();
        let masked = value & self.value_mask;
        let named = self.values.iter().find(|(v, _)| *v == masked);
        let mut rest = value;
        if let Some((_, name)) = named {
            parts.push((*name).to_owned());
            rest &= !self.value_mask;
        }
        let own = match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        };
        for (bits, name) in own.iter().chain(self.flags) {
            if rest & bits == *bits && *bits != 0 {
                parts.push((*name).to_owned());
                rest &= !bits;
            }
        }
        match (parts.is_empty(), rest) {
            (true, 0) => self.zero.to_owned(),
            (true, _) => format!("{rest:#x} /* {} */", self.unknown),
            (false, 0) => parts.join("|"),
            (false, _) => format!("{}|{rest:#x}", parts.join("|")),
        }
    }
}
