//! What the words of a row mean.
//!
//! ```text
//!            default                                  flexible (version 3)
//! CFA        sp or fp + word                          control, offset
//! RA         [CFA + fixed] or [CFA + word]            0 | control, offset
//! FP         [CFA + word], same if there is none      0 | control, offset
//! no words   the outermost frame
//! ```
//!
//! A control word has the register's number from bit 3 on; bit 0 says that there is one, as
//! opposed to the CFA, bit 1 that the value is in memory there. A 0 in its place, without an
//! offset behind it, or nothing at all, is the default.

use arch::Arch;

use super::frame_row::FrameRow;
use super::function::{Function, Part};
use super::{Error, ErrorKind};
use crate::row::{CfaRule, Row, Rule};

/// The answer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "the small one is rare, and nothing may allocate")]
pub enum Found {
    /// A row.
    Row(Row),
    /// A signal trampoline whose rules the table cannot express: the caller's registers are in
    /// the frame that the kernel made for the signal.
    SignalTrampoline,
}

/// The three rules that a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Canonical frame address.
    pub cfa: CfaRule,
    /// Return address.
    pub ra: Rule,
    /// The caller's frame pointer.
    pub fp: Rule,
}

impl Part {
    /// The rules of `row`.
    #[inline]
    pub(super) fn rules(&self, function: &Function, row: &FrameRow) -> Result<Rules, Error> {
        let offset = row.offset;
        let Some(arch) = self.header.abi.arch() else {
            return Err(Error { offset, kind: ErrorKind::Unsupported(self.header.abi) });
        };
        let rules = match row.info.words() {
            0 => Ok(outermost(arch)),
            _ if function.is_flexible() => self.flexible(arch, row),
            _ => self.default(arch, row),
        };
        rules.map_err(|kind| Error { offset, kind })
    }

    #[inline]
    fn default(&self, arch: Arch, row: &FrameRow) -> Result<Rules, ErrorKind> {
        let count = ErrorKind::WordCount(row.info.words());
        let base = if row.info.from_sp() { arch.sp() } else { arch.fp() };
        let offset = i64::from(row.word(0).ok_or(count)?);
        let mut next = 1;
        let mut saved = |fixed: i8| match fixed {
            0 => {
                let word = row.word(next);
                next += 1;
                word.map(|w| Rule::AtCfa(w.into()))
            }
            fixed => Some(Rule::AtCfa(fixed.into())),
        };
        let ra = saved(self.header.fixed_ra);
        let fp = saved(self.header.fixed_fp).unwrap_or(Rule::Same);
        if row.info.words() > next {
            return Err(count);
        }
        let cfa = CfaRule::Register { register: base as u8, offset };
        Ok(Rules { cfa, ra: or_in_register(arch, ra)?, fp })
    }

    fn flexible(&self, arch: Arch, row: &FrameRow) -> Result<Rules, ErrorKind> {
        let mut words = Words { row, next: 0 };
        let cfa = match words.next_value()? {
            Some(Value { register: None, control, .. }) => {
                return Err(ErrorKind::CfaControl(control));
            }
            None => return Err(ErrorKind::CfaControl(0)),
            Some(Value { register: Some(n), load, offset, .. }) => {
                let register = general(arch, n)?;
                match load {
                    true => CfaRule::Memory { register, offset },
                    false => CfaRule::Register { register, offset },
                }
            }
        };
        let ra = words.next_value()?.map(|v| v.rule(arch)).transpose()?;
        let fp = words.next_value()?.map(|v| v.rule(arch)).transpose()?;
        if words.next != row.info.words() {
            return Err(ErrorKind::WordCount(row.info.words()));
        }
        let fixed = |offset: i8| (offset != 0).then_some(Rule::AtCfa(offset.into()));
        let ra = or_in_register(arch, ra.or(fixed(self.header.fixed_ra)))?;
        Ok(Rules { cfa, ra, fp: fp.or(fixed(self.header.fixed_fp)).unwrap_or(Rule::Same) })
    }
}

/// Those of an outermost frame: there is no caller.
pub(super) fn outermost(arch: Arch) -> Rules {
    let cfa = CfaRule::Register { register: arch.sp() as u8, offset: 0 };
    Rules { cfa, ra: Rule::Undefined, fp: Rule::Undefined }
}

/// A return address that was not saved is in the link register, if there is one.
#[inline]
fn or_in_register(arch: Arch, ra: Option<Rule>) -> Result<Rule, ErrorKind> {
    match (ra, arch) {
        (Some(rule), _) => Ok(rule),
        (None, Arch::Aarch64) => Ok(Rule::Same),
        (None, Arch::X86_64) => Err(ErrorKind::NoReturnAddress),
    }
}

/// The register as a column, if it is a general one.
fn general(arch: Arch, number: u32) -> Result<u8, ErrorKind> {
    let count = match arch {
        Arch::X86_64 => 16,
        Arch::Aarch64 => 32,
    };
    match u8::try_from(number) {
        Ok(n) if n < count => Ok(n),
        _ => Err(ErrorKind::Register(number)),
    }
}

/// A control word and its offset.
struct Value {
    control: u32,
    /// `None`: the CFA.
    register: Option<u32>,
    load: bool,
    offset: i64,
}

impl Value {
    fn rule(self, arch: Arch) -> Result<Rule, ErrorKind> {
        let Value { offset, load, .. } = self;
        Ok(match (self.register, load) {
            (None, true) => Rule::AtCfa(offset),
            (None, false) => Rule::Cfa(offset),
            (Some(n), true) => Rule::Memory { register: general(arch, n)?, offset },
            (Some(n), false) => Rule::Register { register: general(arch, n)?, offset },
        })
    }
}

/// Takes the words of a flexible row.
struct Words<'a> {
    row: &'a FrameRow,
    next: u8,
}

impl Words<'_> {
    /// `None` if there is no rule: a lone 0, or no word any more.
    fn next_value(&mut self) -> Result<Option<Value>, ErrorKind> {
        let Some(control) = self.row.control(self.next) else { return Ok(None) };
        self.next += 1;
        if control == 0 {
            return Ok(None);
        }
        let count = ErrorKind::WordCount(self.row.info.words());
        let offset = i64::from(self.row.word(self.next).ok_or(count)?);
        self.next += 1;
        let register = (control & 1 != 0).then_some(control >> 3);
        Ok(Some(Value { control, register, load: control & 2 != 0, offset }))
    }
}
