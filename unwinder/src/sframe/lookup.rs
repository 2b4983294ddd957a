//! Lookup in one section: the function, the row, its rules.

use std::hint::select_unpredictable;

use arch::Arch;

use super::frame_row::Order;
use super::function::{Function, Part};
use super::header::Version;
use super::rules::{self, Found, Rules};
use super::source::Source;
use super::{Error, ErrorKind};
use crate::brief::{self, Brief};
use crate::row::{Key, Miss, Row, Silent, return_column};

/// The answer for an address, before it is spread over the columns of a [`Row`].
pub(super) enum Answer {
    Rules { arch: Arch, range: (u64, u64), rules: Rules, signed: Option<Key>, signal: bool },
    SignalTrampoline,
}

impl Answer {
    /// The answer, if it is not used below `from`.
    #[inline]
    pub fn found(self, from: u64) -> Found {
        match self {
            Answer::SignalTrampoline => Found::SignalTrampoline,
            Answer::Rules { arch, range, rules, signed, signal } => {
                let range = range.0.max(from)..range.1;
                let mut row = Row::new(arch, range, rules.cfa, Silent::Unknown);
                row.set(return_column(arch), rules.ra);
                row.set(arch.fp() as u8, rules.fp);
                (row.signed, row.signal) = (signed, signal);
                Found::Row(row)
            }
        }
    }
}

impl Answer {
    /// The answer in short.
    #[inline]
    pub fn brief(self) -> Brief {
        match self {
            Answer::Rules { arch, rules, signed, signal: false, .. } => {
                let Rules { cfa, ra, fp } = rules;
                let silent = Silent::Unknown;
                brief::Rules { cfa, ra, fp, silent, signed: signed.is_some() }.brief(arch)
            }
            _ => Brief::Long,
        }
    }
}

impl Part {
    /// Of the `len` functions from `low` on, which ascend, the last one that starts at or below
    /// `pc`, and its start.
    #[inline(always)]
    pub(super) fn search(
        &self,
        source: &mut impl Source,
        mut low: u32,
        mut len: u32,
        pc: u64,
    ) -> Option<(u32, u64)> {
        let mut from = self.start(source, low).filter(|&start| len > 0 && start <= pc)?;
        while len > 1 {
            let half = len / 2;
            let start = self.start(source, low + half)?;
            // A guess would be wrong every other time.
            (low, from) = select_unpredictable(start <= pc, (low + half, start), (low, from));
            len -= half;
        }
        Some((low, from))
    }

    /// The row of `function` that is in force at `pc`.
    #[inline]
    pub(super) fn answer(
        &self,
        source: &mut impl Source,
        function: &Function,
        pc: u64,
        rows: Order,
    ) -> Result<Answer, Miss<Error>> {
        let Range32 { offset, base, len } = within(function, pc).ok_or(Miss::NotCovered)?;
        let abi = self.header.abi;
        let unsupported = Error { offset: function.offset, kind: ErrorKind::Unsupported(abi) };
        let arch = abi.arch().ok_or(Miss::Bad(unsupported))?;
        let answer = |range, rules, signed| Answer::Rules {
            arch,
            range,
            rules,
            signed,
            signal: function.is_signal(),
        };
        if function.rows == 0 && function.version == Version::V3 {
            return match (function.is_signal(), function.is_flexible()) {
                (true, _) => Ok(Answer::SignalTrampoline),
                (false, false) => {
                    Ok(answer((base, function.range().end), rules::outermost(arch), None))
                }
                (false, true) => Err(Miss::NotCovered),
            };
        }
        let found = self.find_row(source, function, offset, rows).map_err(Miss::Bad)?;
        let (head, end) = found.ok_or(Miss::NotCovered)?;
        let row = self.frame_row(source, head).map_err(Miss::Bad)?;
        let range = (base + u64::from(head.start), base + u64::from(end.min(len)));
        let rules = self.rules(function, &row).map_err(Miss::Bad)?;
        let signed = arch == Arch::Aarch64 && row.info.signed();
        Ok(answer(range, rules, signed.then_some(function.info.key())))
    }
}

/// An address in a function.
struct Range32 {
    /// Of the address, in the function or in its block.
    offset: u32,
    /// Start of the function or of its block.
    base: u64,
    /// Bytes of the function from there on.
    len: u32,
}

/// Where `pc` is in `function`.
#[inline(always)]
fn within(function: &Function, pc: u64) -> Option<Range32> {
    let offset = u32::try_from(pc.checked_sub(function.start)?).ok()?;
    if offset >= function.size {
        return None;
    }
    if !function.info.repeats() {
        return Some(Range32 { offset, base: function.start, len: function.size });
    }
    let in_block = offset.checked_rem(function.block.into())?;
    let before = offset - in_block;
    let base = function.start + u64::from(before);
    Some(Range32 { offset: in_block, base, len: function.size - before })
}
