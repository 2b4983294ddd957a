//! A row of an unwind table: how to get from a frame to its caller, for some instructions.
//!
//! CFI and SFrame differ in how they are written down, not in what they say; both are read
//! into this one form, and [`mod@crate::step`] alone applies it.

use std::ops::Range;

use arch::Arch;

/// Part of a table's section: a DWARF expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    /// Offset in the section.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// How to compute the canonical frame address (the caller's stack pointer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CfaRule {
    /// `register + offset`
    Register {
        /// DWARF number.
        register: u8,
        /// Bytes.
        offset: i64,
    },
    /// `[register + offset]`
    Memory {
        /// DWARF number.
        register: u8,
        /// Bytes.
        offset: i64,
    },
    /// The value of an expression.
    Expression(Expression),
}

/// How to get a register of the caller (DWARF 5, section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Rule {
    /// The table is silent: see [`Row::silent`].
    #[default]
    Unmentioned,
    /// Cannot be recovered. For the return address: there is no caller.
    Undefined,
    /// As in this frame.
    Same,
    /// `[CFA + offset]`
    AtCfa(i64),
    /// `CFA + offset`
    Cfa(i64),
    /// `register + offset`
    Register {
        /// DWARF number.
        register: u8,
        /// Bytes.
        offset: i64,
    },
    /// `[register + offset]`
    Memory {
        /// DWARF number.
        register: u8,
        /// Bytes.
        offset: i64,
    },
    /// `[expression]`, with the CFA on the expression's stack.
    AtExpression(Expression),
    /// The value of an expression, with the CFA on its stack.
    Expression(Expression),
}

/// What it means that a table has no rule for a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silent {
    /// Registers that functions preserve are the same, others unknown (CFI).
    CalleeSaved,
    /// The register was not looked at (SFrame, frame pointers): unknown.
    Unknown,
}

/// Which key signed a return address (Armv8.3-A pointer authentication).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `paciasp`
    A,
    /// `pacibsp`
    B,
}

/// Why a table has no row for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Miss<E> {
    /// No entry covers it.
    NotCovered,
    /// The entry that covers it is broken.
    Bad(E),
}

/// A table row in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Start and end of the instructions it holds for. In the module's own addresses as the
    /// tables give it, in the process's as `Modules` gives it.
    pub range: (u64, u64),
    /// Canonical frame address.
    pub cfa: CfaRule,
    /// Rules by DWARF number.
    pub rules: [Rule; Row::COLUMNS],
    /// The column that holds the return address.
    pub return_address: u8,
    /// Meaning of [`Rule::Unmentioned`].
    pub silent: Silent,
    /// The return address is signed here and has to be stripped.
    pub signed: Option<Key>,
    /// A signal trampoline: all of the caller's registers are in the signal frame, and its
    /// address is an interrupted one.
    pub signal: bool,
}

impl Row {
    /// Columns that are kept: those of general registers, and x86_64's return address (16).
    pub const COLUMNS: usize = 32;

    /// A row without rules.
    pub fn new(arch: Arch, range: Range<u64>, cfa: CfaRule, silent: Silent) -> Row {
        Row {
            range: (range.start, range.end),
            cfa,
            rules: [Rule::Unmentioned; Row::COLUMNS],
            return_address: return_column(arch),
            silent,
            signed: None,
            signal: false,
        }
    }

    /// The rule of a column.
    pub fn rule(&self, column: u8) -> Rule {
        self.rules.get(usize::from(column)).copied().unwrap_or_default()
    }

    /// Sets a rule; `false` if there is no such column.
    pub fn set(&mut self, column: u8, rule: Rule) -> bool {
        match self.rules.get_mut(usize::from(column)) {
            Some(slot) => {
                *slot = rule;
                true
            }
            None => false,
        }
    }
}

/// The usual return-address column: x86-64 psABI table 3.36 (16); AADWARF64 (30, the link
/// register).
pub const fn return_column(arch: Arch) -> u8 {
    match arch {
        Arch::X86_64 => arch::x86_64::regs::RA as u8,
        Arch::Aarch64 => arch::aarch64::regs::RA as u8,
    }
}
