//! What a check found, as it is written and read: see `docs/check-format.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::grade::file::FrameKind;
use crate::grade::point::ProgramPoint;

/// Name of the format.
pub const SCHEMA: &str = "emu-check";
/// Its version: it grows when a reader of an older one would be misled.
pub const VERSION: u32 = 2;

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// The first.
    Header(Header),
    /// A function that was executed.
    Function(Function),
    /// A method that is wrong at an instruction.
    Fault(Box<Fault>),
    /// The last.
    Summary(Summary),
}

/// What was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// The guest, as it was named.
    pub guest: String,
    /// Its architecture.
    pub arch: String,
    /// The methods.
    pub methods: Vec<String>,
    /// Every execution was checked, not only the first 8 and powers of two.
    pub every: bool,
}

/// Instructions of one kind, for one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Always right.
    pub right: u64,
    /// Wrong at least once.
    pub wrong: u64,
    /// Not covered by a table, and never wrong.
    pub no_coverage: u64,
}

impl Counts {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.right + self.wrong + self.no_coverage
    }

    /// Adds others.
    pub const fn add(&mut self, other: Counts) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.no_coverage += other.no_coverage;
    }
}

/// Counts by method, in the header's order.
pub type ByMethod = Vec<Counts>;

/// Counts by program point.
pub type ByPoint = BTreeMap<ProgramPoint, ByMethod>;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The file.
    pub module: String,
    /// Demangled name; `None` where no symbol says it.
    pub function: Option<String>,
    /// What tells it from others of that name.
    pub symbol: Option<Symbol>,
    /// Its address as linked.
    pub start: Hex,
    /// Distinct instructions that were executed.
    pub pcs: u64,
    /// Those that could not be checked, because each time the stack pointer was between two
    /// stacks.
    pub undecided: u64,
    /// The others, by point and method.
    pub points: ByPoint,
}

/// A function's symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Symbol {
    /// As the file has it, mangled.
    pub name: String,
    /// How many symbols of the file with this name are at lower addresses.
    pub ordinal: u64,
}

/// A wrong step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The file.
    pub module: String,
    /// Demangled name of the function.
    pub function: Option<String>,
    /// What tells that from others of its name.
    pub symbol: Option<Symbol>,
    /// Distance from the function's start.
    pub offset: Hex,
    /// Address as linked.
    pub pc: Hex,
    /// Address in the process.
    pub address: Hex,
    /// Where in the function that is.
    pub point: ProgramPoint,
    /// The method.
    pub method: String,
    /// In what it is wrong, here: each kind has a fault of its own.
    pub wrong: String,
    /// How often the instruction was executed.
    pub executions: u64,
    /// How many of these were checked.
    pub checked: u64,
    /// In how many of these the method was wrong in this way.
    pub times: u64,
    /// The row of its table that is in force, if it has one.
    pub row: Option<String>,
    /// The instruction.
    pub instruction: String,
    /// Code around it: address as linked, text.
    pub listing: Vec<(Hex, String)>,
    /// The registers that rules are about: stack and frame pointer.
    pub registers: Registers,
    /// The true caller in the first execution that was wrong in this way; `None`: there is none.
    pub expected: Option<Caller>,
    /// What the method told instead; `None`: no caller.
    pub found: Option<Caller>,
    /// Why there was none.
    pub reason: Option<String>,
}

/// Registers by name.
pub type Registers = BTreeMap<String, Hex>;

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Canonical frame address: its stack pointer.
    pub cfa: Option<Hex>,
    /// Where it goes on.
    pub return_address: Hex,
    /// Whether that is a return address, or where a signal came; `None` if the method cannot
    /// tell.
    pub address_kind: Option<FrameKind>,
    /// What the return address is in, for people.
    pub place: String,
    /// Callee-saved registers that are known.
    pub registers: Registers,
}

/// Totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Instructions that the guest executed.
    pub instructions: u64,
    /// Distinct ones.
    pub pcs: u64,
    /// Of these, those that could never be checked.
    pub undecided: u64,
    /// Checks of an instruction, by all methods at once.
    pub checks: u64,
    /// All distinct instructions by point and method.
    pub points: ByPoint,
    /// Faults of each method, in the header's order.
    pub faults: Vec<u64>,
}

/// A number as text, `0x…`: JSON's own are exact to 53 bits only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex(pub u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").ok_or_else(|| wrong_number(&text))?;
        u64::from_str_radix(digits, 16).map(Hex).map_err(|_| wrong_number(&text))
    }
}

fn wrong_number<E: serde::de::Error>(text: &str) -> E {
    E::custom(format!("{text:?} is no number like \"0x1f\""))
}

/// A whole report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was checked.
    pub header: Header,
    /// By module and address.
    pub functions: Vec<Function>,
    /// By address in the process and method.
    pub faults: Vec<Fault>,
    /// Totals.
    pub summary: Summary,
}

impl Report {
    /// Its lines, each a JSON object.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        std::iter::once(Line::Header(self.header.clone()))
            .chain(self.functions.iter().cloned().map(Line::Function))
            .chain(self.faults.iter().cloned().map(|f| Line::Fault(Box::new(f))))
            .chain(std::iter::once(Line::Summary(self.summary.clone())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_text() {
        assert_eq!(serde_json::to_string(&Hex(u64::MAX)).unwrap(), "\"0xffffffffffffffff\"");
        assert_eq!(serde_json::from_str::<Hex>("\"0x10\"").unwrap(), Hex(16));
        for bad in ["\"10\"", "\"0x\"", "\"0x1_0\"", "16", "\"0x10000000000000000\""] {
            assert!(serde_json::from_str::<Hex>(bad).is_err(), "{bad}");
        }
    }
}
