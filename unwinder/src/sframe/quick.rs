//! Rules of sections of the usual kind, straight from their bytes.
//!
//! ```text
//! usual   one section, little-endian, version 2 or 3, whose functions ascend
//!         starts of rows of one or two bytes, no flexible rows, no blocks, no trampolines
//! ```
//!
//! Whatever is not usual, and whatever is wrong, is left to [`super::lookup`], which has a name
//! for it.

use std::hint::select_unpredictable;
use std::ops::Range;

use arch::Arch;

use super::buckets::Buckets;
use super::frame_row::RowInfo;
use super::function::{FunctionInfo, Part};
use super::header::Version;
use super::scan::Scan;
use super::source::{ByteOrder, piece};
use crate::brief::{Base, Usual};

/// Where everything in a section is.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    version: Version,
    list: Range<usize>,
    rows: Range<usize>,
    origin: Origin,
    words: Meaning,
}

/// What the starts of functions are relative to.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// Of the first one.
    first: u64,
    /// Which bits of an entry's offset in the list are added to that.
    moves: u64,
}

/// What the words of rows mean.
#[derive(Clone, Copy, Debug)]
struct Meaning {
    arch: Arch,
    fixed_ra: i8,
    fixed_fp: i8,
}

/// A section, open at its parts: what all its lookups have in common is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    list: List<'a>,
    rows: &'a [u8],
    buckets: &'a Buckets,
    origin: Origin,
    words: Meaning,
}

/// The entries of functions.
#[derive(Clone, Copy, Debug)]
enum List<'a> {
    V2(&'a [[u8; V2]]),
    V3(&'a [[u8; V3]]),
}

/// Bytes of an entry.
const V2: usize = 20;
const V3: usize = 16;

/// A function's rows: how many, how they are written, and all bytes from the first one on.
struct Rows<'a> {
    count: u32,
    info: FunctionInfo,
    bytes: &'a [u8],
}

impl Quick {
    /// `None`: the section is not of the usual kind.
    pub fn new(part: &Part) -> Option<Quick> {
        let header = &part.header;
        let version = header.version;
        if header.abi.order() != ByteOrder::Little || version == Version::V1 {
            return None;
        }
        let end =
            part.entry_at(0).checked_add(version.entry_len() * u64::from(header.functions))?;
        let rows = part.offset.checked_add(header.rows_at())?..part.rows_end();
        let range =
            |r: Range<u64>| Some(usize::try_from(r.start).ok()?..usize::try_from(r.end).ok()?);
        let moving = header.flags.pc_relative();
        let into = if moving { header.entry_at(0) } else { 0 };
        let arch = header.abi.arch()?;
        Some(Quick {
            version,
            list: range(part.entry_at(0)..end)?,
            rows: range(rows)?,
            origin: Origin {
                first: part.address.wrapping_add(into),
                moves: if moving { u64::MAX } else { 0 },
            },
            words: Meaning { arch, fixed_ra: header.fixed_ra, fixed_fp: header.fixed_fp },
        })
    }

    /// The section in `data`, whose functions `buckets` has.
    #[inline]
    pub fn view<'a>(&self, data: &'a [u8], buckets: &'a Buckets) -> Option<View<'a>> {
        let list = data.get(self.list.clone())?;
        let list = match self.version {
            Version::V3 => List::V3(list.as_chunks().0),
            _ => List::V2(list.as_chunks().0),
        };
        let rows = data.get(self.rows.clone())?;
        let Quick { origin, words, .. } = *self;
        Some(View { list, rows, buckets, origin, words })
    }
}

impl View<'_> {
    /// The rule for `pc`, an address of the section's own.
    #[inline(always)]
    pub fn rule(&self, pc: u64) -> Option<Usual> {
        let (size, offset, rows) = match self.list {
            List::V3(list) => {
                let start = |entry: &_| i64::from_le_bytes(piece::<0, 8, V3>(entry));
                let (entry, offset) = self.entry(list, start, pc)?;
                let at = u32::from_le_bytes(piece::<12, 4, V3>(entry));
                let (attribute, bytes) = self.rows.get(at as usize..)?.split_first_chunk::<5>()?;
                if attribute[3] != 0 {
                    return None;
                }
                let count = u16::from_le_bytes(piece::<0, 2, 5>(attribute)).into();
                let size = u32::from_le_bytes(piece::<8, 4, V3>(entry));
                (size, offset, Rows { count, info: FunctionInfo(attribute[2]), bytes })
            }
            List::V2(list) => {
                let number = |bytes| u32::from_le_bytes(bytes);
                let start = |entry: &_| i32::from_le_bytes(piece::<0, 4, V2>(entry)).into();
                let (entry, offset) = self.entry(list, start, pc)?;
                let bytes = self.rows.get(number(piece::<8, 4, V2>(entry)) as usize..)?;
                let (count, info) = (number(piece::<12, 4, V2>(entry)), FunctionInfo(entry[16]));
                (number(piece::<4, 4, V2>(entry)), offset, Rows { count, info, bytes })
            }
        };
        let offset = u32::try_from(offset).ok().filter(|&offset| offset < size)?;
        if rows.info.repeats() || rows.info.signal() {
            return None;
        }
        match rows.info.start_width()? {
            1 => self.row::<2>(&rows, size, offset),
            2 => self.row::<3>(&rows, size, offset),
            _ => None,
        }
    }

    /// The entry of the last function that starts at or below `pc`, and how far below. `start`:
    /// as an entry has it.
    #[inline(always)]
    fn entry<'a, const N: usize>(
        &self,
        list: &'a [[u8; N]],
        start: impl Fn(&[u8; N]) -> i64,
        pc: u64,
    ) -> Option<(&'a [u8; N], u64)> {
        let (mut low, mut len) = self.buckets.candidates(pc)?;
        let entry = |index: u32| -> Option<(&'a [u8; N], u64)> {
            let entry = list.get(index as usize)?;
            let origin =
                self.origin.first.wrapping_add((index as usize * N) as u64 & self.origin.moves);
            Some((entry, origin.wrapping_add_signed(start(entry))))
        };
        let (mut found, mut from) = entry(low)?;
        while len > 1 {
            let half = len / 2;
            let (there, start) = entry(low + half)?;
            // A guess would be wrong every other time.
            let (a, b) = ((low + half, there, start), (low, found, from));
            (low, found, from) = select_unpredictable(start <= pc, a, b);
            len -= half;
        }
        Some((found, pc.checked_sub(from)?))
    }

    /// The rule in force `offset` bytes into a function of `size`. `HEAD`: bytes of a row's
    /// start and its info byte.
    #[inline(always)]
    fn row<const HEAD: usize>(&self, rows: &Rows<'_>, size: u32, offset: u32) -> Option<Usual> {
        let (info, words) = Scan::<HEAD>::new(rows.bytes, rows.count, size, offset).find()?;
        self.words.usual(info, words)
    }
}

impl Meaning {
    /// What a row's words, which `words` begins with, come to.
    #[inline(always)]
    fn usual(&self, info: RowInfo, words: &[u8]) -> Option<Usual> {
        let byte = |word: &[u8; 1]| i32::from(word[0].cast_signed());
        match info.bytes() {
            Some(1) => self.rule_of(info, &words.as_chunks().0.first_chunk::<1>()?[..], byte),
            Some(2) => self.rule_of(info, &words.as_chunks().0.first_chunk::<2>()?[..], byte),
            Some(3) => self.rule_of(info, &words.as_chunks().0.first_chunk::<3>()?[..], byte),
            _ => {
                let count = usize::from(info.words());
                let short = |word: &[u8; 2]| i32::from(i16::from_le_bytes(*word));
                let long = |word: &[u8; 4]| i32::from_le_bytes(*word);
                match info.word_size()? {
                    1 => self.rule_of(info, words.get(..count)?.as_chunks().0, byte),
                    2 => self.rule_of(info, words.as_chunks().0.get(..count)?, short),
                    _ => self.rule_of(info, words.as_chunks().0.get(..count)?, long),
                }
            }
        }
    }

    #[inline(always)]
    fn rule_of<W>(&self, info: RowInfo, words: &[W], number: impl Fn(&W) -> i32) -> Option<Usual> {
        let (cfa, words) = words.split_first()?;
        let saved = |fixed: i8, words: &'_ [W]| match (fixed, words) {
            (0, [word, ..]) => (Some(number(word)), 1),
            (0, []) => (None, 0),
            (fixed, _) => (Some(fixed.into()), 0),
        };
        let (ra, used) = saved(self.fixed_ra, words);
        let words = words.get(used..)?;
        let (fp, used) = saved(self.fixed_fp, words);
        if words.len() > used || ra.is_none() && self.arch == Arch::X86_64 {
            return None;
        }
        let base = if info.from_sp() { Base::Sp } else { Base::Fp };
        let signed = self.arch == Arch::Aarch64 && info.signed();
        Some(Usual::new((base, number(cfa)), ra, fp, signed))
    }
}
