//! gimli's row to ours.

use std::cell::OnceCell;

use gimli::{
    BaseAddresses, Register, RegisterRule, UnwindContextStorage, UnwindExpression, UnwindTableRow,
};

use super::error::ErrorKind;
use super::expression::evaluate;
use super::section::{Cfi, Fde};
use crate::row::{CfaRule, Expression, Key, Row, Rule, Silent};
use crate::{Memory, Registers};
use arch::Arch;

/// AADWARF64's `RA_SIGN_STATE`: bit 0 says that the return address is signed.
const SIGN_STATE: Register = gimli::AArch64::RA_SIGN_STATE;

/// What gimli begins with. longjmp of aarch64 says it in earnest.
const NOTHING: CfaRule = CfaRule::Register { register: 0, offset: 0 };

/// What all rows of an FDE have in common.
pub(super) struct Compiler<'a> {
    table: Source<'a>,
    fde: &'a Fde<'a>,
    return_address: u8,
    has_cfa: OnceCell<bool>,
}

/// What all FDEs of a table have in common, and which key signs in this one.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub arch: Arch,
    pub cfi: &'a Cfi<'a>,
    pub bases: &'a BaseAddresses,
    /// Holds the expressions.
    pub section: &'a [u8],
    pub key: Key,
}

impl<'a> Compiler<'a> {
    pub fn new(table: Source<'a>, fde: &'a Fde<'a>) -> Result<Compiler<'a>, ErrorKind> {
        let column = fde.cie().return_address_register();
        if column.0 >= columns(table.arch).into() {
            return Err(ErrorKind::ReturnColumn(column.0));
        }
        let return_address = number(column);
        Ok(Compiler { table, fde, return_address, has_cfa: OnceCell::new() })
    }

    /// Registers that have no column are left out, see [`Compiler::others`].
    pub fn row<S: UnwindContextStorage<usize>>(
        &self,
        from: &UnwindTableRow<usize, S>,
    ) -> Result<Row, ErrorKind> {
        let arch = self.table.arch;
        // Instructions may advance behind the function.
        let limit = self.fde.end_address();
        let start = from.start_address().min(limit);
        let end = from.end_address().min(limit);
        let mut row = Row::new(arch, start..end, cfa(from.cfa()), Silent::CalleeSaved);
        row.return_address = self.return_address;
        row.signal = self.fde.is_signal_trampoline();
        for (column, from) in from.registers() {
            if *column == SIGN_STATE && arch == Arch::Aarch64 {
                row.signed = self.signed(from)?.then_some(self.table.key);
            } else if column.0 < columns(arch).into() {
                row.set(number(*column), rule(from));
            }
        }
        match row.cfa {
            NOTHING if !outermost(&row) && !self.has_cfa() => Err(ErrorKind::NoCfa),
            _ => Ok(row),
        }
    }

    /// The rules of registers that a [`Row`] does not keep, by DWARF number: vector registers.
    pub fn others<S: UnwindContextStorage<usize>>(
        &self,
        from: &UnwindTableRow<usize, S>,
    ) -> impl Iterator<Item = (u16, Rule)> {
        let arch = self.table.arch;
        let is_other = move |column: Register| {
            let is_state = column == SIGN_STATE && arch == Arch::Aarch64;
            column.0 >= columns(arch).into() && !is_state
        };
        let all = from.registers().filter(move |(column, _)| is_other(*column));
        all.map(|(column, from)| (column.0, rule(from)))
    }

    fn has_cfa(&self) -> bool {
        let Source { cfi, bases, .. } = self.table;
        *self.has_cfa.get_or_init(|| cfi.has_cfa(bases, self.fde))
    }

    fn signed(&self, rule: &RegisterRule<usize>) -> Result<bool, ErrorKind> {
        match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => Ok(false),
            RegisterRule::Constant(value) => Ok(value & 1 == 1),
            RegisterRule::ValExpression(e) => {
                let end = e.offset.saturating_add(e.length);
                let code = self.table.section.get(e.offset..end).ok_or(ErrorKind::Truncated)?;
                let value =
                    evaluate(code, None, &Registers::unknown(self.table.arch), &mut Nothing);
                value.map(|value| value & 1 == 1).map_err(|_| ErrorKind::SignState)
            }
            _ => Err(ErrorKind::SignState),
        }
    }
}

/// An outermost frame needs no CFA.
fn outermost(row: &Row) -> bool {
    row.rule(row.return_address) == Rule::Undefined
}

/// General registers, and x86_64's return address. Behind them are vector registers.
const fn columns(arch: Arch) -> u8 {
    match arch {
        Arch::X86_64 => 17,
        Arch::Aarch64 => 32,
    }
}

/// No memory: what needs any is no constant.
struct Nothing;

impl Memory for Nothing {
    fn read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

fn cfa(rule: &gimli::CfaRule<usize>) -> CfaRule {
    match *rule {
        gimli::CfaRule::RegisterAndOffset { register, offset } => {
            CfaRule::Register { register: number(register), offset }
        }
        gimli::CfaRule::Expression(e) => CfaRule::Expression(expression(e)),
    }
}

fn rule(rule: &RegisterRule<usize>) -> Rule {
    match *rule {
        RegisterRule::SameValue => Rule::Same,
        RegisterRule::Offset(offset) => Rule::AtCfa(offset),
        RegisterRule::ValOffset(offset) => Rule::Cfa(offset),
        RegisterRule::Register(register) => {
            Rule::Register { register: number(register), offset: 0 }
        }
        RegisterRule::Expression(e) => Rule::AtExpression(expression(e)),
        RegisterRule::ValExpression(e) => Rule::Expression(expression(e)),
        // Constants come from `DW_CFA_AARCH64_negate_ra_state` alone, in a column of its own.
        RegisterRule::Undefined | RegisterRule::Constant(_) => Rule::Undefined,
        _ => Rule::Undefined,
    }
}

/// Registers that are not kept have no value; all are the same in that.
fn number(register: Register) -> u8 {
    u8::try_from(register.0).unwrap_or(u8::MAX)
}

/// Offsets fit: [`super::Table::new`] refuses larger sections.
fn expression(e: UnwindExpression<usize>) -> Expression {
    Expression { offset: e.offset as u32, len: e.length as u32 }
}
