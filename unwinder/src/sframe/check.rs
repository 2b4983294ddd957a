//! Validation of a whole section: every function, every row.
//!
//! A lookup looks at one function and at the rows up to the one in force. This looks at all
//! of them, once: the functions have as many rows as the header says, which is limited by the
//! section's length, so that functions that share their rows do not make more work.

use std::fmt;
use std::ops::{Deref, Range};

use super::frame_row::{FrameRow, Heads, Order};
use super::function::{Function, Part};
use super::header::{Abi, Version};
use super::source::Source;
use super::{Error, ErrorKind, Table, Warning, WarningKind};

/// What a problem spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing: it is strange.
    Warning,
    /// A row; where its length or order is broken, the function's rows behind it, too.
    Row,
    /// A function.
    Function,
}

/// What is wrong with a section, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Something is not used.
    Error {
        /// What is not used.
        severity: Severity,
        /// Why.
        error: Error,
    },
    /// Something is strange.
    Warning(Warning),
}

impl Problem {
    /// Offset in the section.
    pub const fn offset(&self) -> u64 {
        match self {
            Problem::Error { error, .. } => error.offset,
            Problem::Warning(warning) => warning.offset,
        }
    }

    /// What it spoils.
    pub const fn severity(&self) -> Severity {
        match self {
            Problem::Error { severity, .. } => *severity,
            Problem::Warning(_) => Severity::Warning,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Error { error, .. } => error.fmt(f),
            Problem::Warning(warning) => warning.fmt(f),
        }
    }
}

impl<D: Deref<Target = [u8]>> Table<D> {
    /// All that is wrong with the functions and rows; [`Table::new`] told what is wrong with
    /// the section.
    pub fn check(&self) -> Vec<Problem> {
        self.check_within(std::slice::from_ref(&(0..u64::MAX)))
    }

    /// As [`Table::check`], where functions have to be in one of the ranges of `code`, the
    /// module's executable segments.
    pub fn check_within(&self, code: &[Range<u64>]) -> Vec<Problem> {
        let mut check = Check { bytes: self.data(), code, problems: Vec::new() };
        let mut extents = Vec::new();
        for (number, part) in (0..).zip(self.parts()) {
            for index in 0..part.header.functions {
                extents.extend(check.function(part, index, number));
            }
        }
        check.overlaps(&mut extents);
        check.shared_rows(&mut extents);
        check.problems.sort_by_key(Problem::offset);
        check.problems
    }
}

struct Check<'a> {
    bytes: &'a [u8],
    code: &'a [Range<u64>],
    problems: Vec<Problem>,
}

/// A function's instructions and rows.
struct Extent {
    /// Of its entry.
    offset: u64,
    code: Range<u64>,
    rows: Range<u64>,
}

impl Check<'_> {
    fn warn(&mut self, offset: u64, kind: WarningKind) {
        self.problems.push(Problem::Warning(Warning { offset, kind }));
    }

    fn error(&mut self, severity: Severity, error: Error) {
        self.problems.push(Problem::Error { severity, error });
    }

    fn function(&mut self, part: &Part, index: u32, number: u32) -> Option<Extent> {
        let function = match part.function(&mut &*self.bytes, index, number) {
            Ok(function) => function,
            Err(error) => {
                self.error(Severity::Function, error);
                return None;
            }
        };
        let offset = function.offset;
        let code = function.range();
        if !self.code.iter().any(|c| c.start <= code.start && code.end <= c.end) {
            let kind = ErrorKind::NotCode { start: code.start };
            self.error(Severity::Function, Error { offset, kind });
        }
        if function.is_flexible() && part.header.abi == Abi::S390x {
            let kind = ErrorKind::NotFlexible(part.header.abi);
            self.error(Severity::Function, Error { offset, kind });
        }
        self.function_bits(part, &function);
        let end = self.rows(part, &function);
        let rows = function.rows_at - function.version.attribute_len()..end;
        Some(Extent { offset, code, rows })
    }

    /// What is strange about an entry.
    fn function_bits(&mut self, part: &Part, f: &Function) {
        let Function { offset, size, info, block, .. } = *f;
        let abi = part.header.abi;
        if size == 0 {
            self.warn(offset, WarningKind::EmptyFunction(f.start));
        }
        if info.repeats() && u32::from(block) > size && size != 0 {
            self.warn(offset, WarningKind::Block { block, size });
        }
        if info.unused() != 0 {
            self.warn(offset, WarningKind::UnusedBits(info.0));
        }
        if f.kind & !0x1f != 0 {
            self.warn(offset, WarningKind::UnusedBits(f.kind));
        }
        if info.0 & 0x20 != 0 && abi.arch() != Some(arch::Arch::Aarch64) {
            self.warn(offset, WarningKind::Signed(abi));
        }
        if info.signal() && f.version != Version::V3 {
            self.warn(offset, WarningKind::Signal(f.version));
        }
        if f.version == Version::V2 {
            let padding = (&*self.bytes).take(offset.saturating_add(18)).unwrap_or_default();
            match abi.order().u16(padding) {
                0 => {}
                padding => self.warn(offset, WarningKind::Padding(padding)),
            }
        }
    }

    /// Checks the rows of a function; the end of those that can be read.
    fn rows(&mut self, part: &Part, function: &Function) -> u64 {
        let mut heads = Heads::new(part, function, Order::Ascending);
        let mut end = function.rows_at;
        let mut before = None;
        while let Some(head) = heads.next(&mut &*self.bytes) {
            let head = match head {
                Ok(head) => head,
                Err(error) => {
                    self.error(Severity::Row, error);
                    break;
                }
            };
            end = head.end();
            match part.frame_row(&mut &*self.bytes, head) {
                Ok(row) => self.row(part, function, &row, before),
                Err(error) => self.error(Severity::Row, error),
            }
            before = Some(head.start);
        }
        end
    }

    fn row(&mut self, part: &Part, function: &Function, row: &FrameRow, before: Option<u32>) {
        let (offset, start) = (row.offset, row.start);
        match before {
            Some(before) if before == start => self.warn(offset, WarningKind::EqualRows(start)),
            None if start != 0 && !function.info.repeats() => {
                self.warn(offset, WarningKind::FirstRow(start));
            }
            _ => {}
        }
        if start == function.bound() && function.size != 0 {
            self.warn(offset, WarningKind::EmptyRow(start));
        }
        let words = row.info.words();
        if words == 0 && row.info.0 & !1 != 0 {
            self.warn(offset, WarningKind::OutermostBits(row.info.0));
        }
        if row.info.signed() && part.header.abi.arch() != Some(arch::Arch::Aarch64) {
            self.warn(offset, WarningKind::Signed(part.header.abi));
        }
        if part.header.abi == Abi::S390x {
            // Its rules are not known here, but a default row has three of them at most.
            if words > 3 && !function.is_flexible() {
                self.error(Severity::Row, Error { offset, kind: ErrorKind::WordCount(words) });
            }
            return;
        }
        match part.rules(function, row) {
            Ok(_) if function.is_flexible() => self.flexible_words(row),
            Ok(_) => {}
            Err(error) => self.error(Severity::Row, error),
        }
    }

    /// What is strange about a flexible row whose rules can be read.
    fn flexible_words(&mut self, row: &FrameRow) {
        let mut next = 0;
        let mut last = None;
        while let Some(control) = row.control(next) {
            if control & 4 != 0 {
                self.warn(row.offset, WarningKind::Control(control));
            }
            next += if control == 0 { 1 } else { 2 };
            last = Some(control);
        }
        if last == Some(0) {
            self.warn(row.offset, WarningKind::LoneZero);
        }
    }

    /// Functions that share instructions. A later one is reported against the one before it
    /// that reaches furthest.
    fn overlaps(&mut self, extents: &mut [Extent]) {
        extents.sort_by_key(|e| e.code.start);
        let mut end = 0;
        for e in extents.iter().filter(|e| !e.code.is_empty()) {
            let start = e.code.start;
            if start < end {
                self.warn(e.offset, WarningKind::Overlap { start, end });
            }
            end = end.max(e.code.end);
        }
    }

    /// Functions that share row data.
    fn shared_rows(&mut self, extents: &mut [Extent]) {
        extents.sort_by_key(|e| e.rows.start);
        let mut end = 0;
        for e in extents.iter().filter(|e| !e.rows.is_empty()) {
            if e.rows.start < end {
                self.warn(e.offset, WarningKind::SharedRows(e.rows.start));
            }
            end = end.max(e.rows.end);
        }
    }
}
