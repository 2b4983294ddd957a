//! Functions: where each one is, and where its rows are.
//!
//! ```text
//! version 1, 2   start 4 · size 4 · rows at 4 · rows 4 · info 1 [· block 1 · padding 2]
//! version 3      start 8 · size 4 · rows at 4     and before the rows
//!                rows 2 · info 1 · type 1 · block 1
//! ```
//!
//! `start` is signed, and relative to the section or to itself ([`super::header::Flags`]).

use std::ops::Range;

use super::header::{Header, Version};
use super::source::{Source, piece};
use super::{Error, ErrorKind};
use crate::row::{Key, Miss};

/// A header, and where its section is. Several of them may follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The header.
    pub header: Header,
    /// Offset of the header in the data.
    pub offset: u64,
    /// Address of the header.
    pub address: u64,
}

/// What the info byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionInfo(pub u8);

impl FunctionInfo {
    /// Bytes of a row's start, if the code is valid.
    pub const fn start_width(self) -> Option<u8> {
        match self.0 & 0xf {
            0 => Some(1),
            1 => Some(2),
            2 => Some(4),
            _ => None,
        }
    }

    /// The rows describe a block that is repeated throughout the function.
    pub const fn repeats(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// The key that signs return addresses, on aarch64.
    pub const fn key(self) -> Key {
        if self.0 & 0x20 == 0 { Key::A } else { Key::B }
    }

    /// Bits that mean nothing in any version.
    pub const fn unused(self) -> u8 {
        self.0 & 0x40
    }

    /// The highest bit: a signal trampoline, in version 3.
    pub const fn signal(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// A function's entry, whose rows can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Offset of the entry in the section.
    pub offset: u64,
    /// Address of the first instruction.
    pub start: u64,
    /// Bytes of instructions.
    pub size: u32,
    /// Number of rows.
    pub rows: u32,
    /// Offset of the first row in the section.
    pub rows_at: u64,
    /// Version of the section.
    pub version: Version,
    /// Width of row starts, kind of rows, key.
    pub info: FunctionInfo,
    /// Version 3: the second info byte.
    pub kind: u8,
    /// Size of the repeated block. Rows that do not repeat may have one, too.
    pub block: u8,
    /// Bytes of a row's start.
    pub start_width: u8,
    /// Number of the header that it belongs to.
    pub part: u32,
}

impl Function {
    /// Its instructions.
    pub const fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.size as u64)
    }

    /// Rows hold register numbers (version 3).
    pub const fn is_flexible(&self) -> bool {
        self.kind & 0x1f == 1
    }

    /// A signal trampoline (version 3).
    pub const fn is_signal(&self) -> bool {
        matches!(self.version, Version::V3) && self.info.signal()
    }

    /// What starts of rows are below: the size of the block that repeats, or the function's.
    pub const fn bound(&self) -> u32 {
        if self.info.repeats() { self.block as u32 } else { self.size }
    }
}

/// An entry as it is in the list.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Modulo 2^64.
    pub start: u64,
    pub size: u32,
    /// `None` if it is not within 64 bits.
    pub end: Option<u64>,
}

impl Entry {
    /// Whether `pc` is in it. One that is not within 64 bits holds nothing.
    #[inline]
    pub fn holds(&self, pc: u64) -> bool {
        self.start <= pc && self.end.is_some_and(|end| pc < end)
    }
}

impl Part {
    /// Offset of function `index`'s entry in the data.
    #[inline(always)]
    pub(super) const fn entry_at(&self, index: u32) -> u64 {
        self.offset.saturating_add(self.header.entry_at(index))
    }

    /// End of the row data in the data.
    #[inline(always)]
    pub(super) const fn rows_end(&self) -> u64 {
        self.offset.saturating_add(self.header.len())
    }

    /// What a start is relative to.
    #[inline(always)]
    const fn origin(&self, index: u32) -> u64 {
        match self.header.flags.pc_relative() {
            true => self.address.wrapping_add(self.header.entry_at(index)),
            false => self.address,
        }
    }

    /// The start as it is written.
    #[inline(always)]
    fn offset_of_start(&self, source: &mut impl Source, index: u32) -> Option<i64> {
        let (at, order) = (self.entry_at(index), self.header.abi.order());
        Some(match self.header.version {
            Version::V3 => order.u64(source.take(at)?).cast_signed(),
            _ => i64::from(order.u32(source.take(at)?).cast_signed()),
        })
    }

    /// Start of a function, modulo 2^64. This is all that a search needs.
    #[inline(always)]
    pub(super) fn start(&self, source: &mut impl Source, index: u32) -> Option<u64> {
        Some(self.origin(index).wrapping_add_signed(self.offset_of_start(source, index)?))
    }

    /// Where a function is.
    #[inline(always)]
    pub(super) fn entry(&self, source: &mut impl Source, index: u32) -> Result<Entry, Error> {
        let at = self.entry_at(index);
        let unreadable = Error { offset: at, kind: ErrorKind::Unreadable };
        let offset = self.offset_of_start(source, index).ok_or(unreadable)?;
        let size = match self.header.version {
            Version::V3 => source.take(at.saturating_add(8)),
            _ => source.take(at.saturating_add(4)),
        };
        let size = self.header.abi.order().u32(size.ok_or(unreadable)?);
        let origin = self.origin(index);
        let end = origin.checked_add_signed(offset).and_then(|s| s.checked_add(size.into()));
        Ok(Entry { start: origin.wrapping_add_signed(offset), size, end })
    }

    /// Function `index`, valid as far as its rows need not be looked at.
    #[inline]
    pub(super) fn function(
        &self,
        source: &mut impl Source,
        index: u32,
        part: u32,
    ) -> Result<Function, Error> {
        let entry = self.entry(source, index)?;
        self.function_of(source, entry, index, part)
    }

    /// Function `index`, if `pc` is in it.
    #[inline(always)]
    pub(super) fn function_with(
        &self,
        source: &mut impl Source,
        index: u32,
        part: u32,
        pc: u64,
    ) -> Result<Function, Miss<Error>> {
        let entry = self.entry(source, index).map_err(Miss::Bad)?;
        if !entry.holds(pc) {
            return Err(Miss::NotCovered);
        }
        self.function_of(source, entry, index, part).map_err(Miss::Bad)
    }

    #[inline(always)]
    fn function_of(
        &self,
        source: &mut impl Source,
        entry: Entry,
        index: u32,
        part: u32,
    ) -> Result<Function, Error> {
        let function = self.decode(source, entry, index, part)?;
        self.check(&function).map_err(|kind| Error { offset: function.offset, kind })?;
        Ok(function)
    }

    #[inline(always)]
    fn decode(
        &self,
        source: &mut impl Source,
        entry: Entry,
        index: u32,
        part: u32,
    ) -> Result<Function, Error> {
        let (offset, version) = (self.entry_at(index), self.header.version);
        let order = self.header.abi.order();
        let error = |kind| Error { offset, kind };
        if entry.end.is_none() {
            return Err(error(ErrorKind::AddressOverflow));
        }
        let unreadable = error(ErrorKind::Unreadable);
        let data_field = if version == Version::V3 { 12 } else { 8 };
        let data = source.take(offset.saturating_add(data_field)).ok_or(unreadable)?;
        let data = u64::from(order.u32(data));
        let data = self.offset.saturating_add(self.header.rows_at()).saturating_add(data);
        let (rows, info, kind, block) = match version {
            Version::V1 => {
                let b: [u8; 5] = source.take(offset.saturating_add(12)).ok_or(unreadable)?;
                (order.u32(piece::<0, _, _>(&b)), b[4], 0, if b[4] & 0x10 != 0 { 16 } else { 0 })
            }
            Version::V2 => {
                let b: [u8; 6] = source.take(offset.saturating_add(12)).ok_or(unreadable)?;
                (order.u32(piece::<0, _, _>(&b)), b[4], 0, b[5])
            }
            Version::V3 => {
                if data.saturating_add(5) > self.rows_end() {
                    return Err(error(ErrorKind::Attribute));
                }
                let b: [u8; 5] = source.take(data).ok_or(unreadable)?;
                (u32::from(order.u16(piece::<0, _, _>(&b))), b[2], b[3], b[4])
            }
        };
        let info = FunctionInfo(info);
        let width_code = info.0 & 0xf;
        Ok(Function {
            offset,
            start: entry.start,
            size: entry.size,
            rows,
            rows_at: data.saturating_add(version.attribute_len()),
            version,
            info,
            kind,
            block,
            start_width: info.start_width().ok_or(error(ErrorKind::StartWidth(width_code)))?,
            part,
        })
    }

    #[inline(always)]
    fn check(&self, function: &Function) -> Result<(), ErrorKind> {
        let (at, end) = (function.rows_at, self.rows_end());
        let len = end.checked_sub(at).ok_or(ErrorKind::RowsAt { at, end })?;
        if function.info.repeats() && function.block == 0 {
            return Err(ErrorKind::NoBlock);
        }
        if function.kind & 0x1f > 1 {
            return Err(ErrorKind::FunctionType(function.kind & 0x1f));
        }
        let needed = u64::from(function.rows) * (u64::from(function.start_width) + 1);
        if needed > len {
            return Err(ErrorKind::RowsDoNotFit { rows: function.rows, needed, len });
        }
        Ok(())
    }
}
