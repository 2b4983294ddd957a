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
use super::source::{ByteOrder, piece};
use crate::brief::{Base, Usual};

/// Where everything in a section is.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    arch: Arch,
    version: Version,
    list: Range<usize>,
    rows: Range<usize>,
    /// What the start of the first function is relative to.
    origin: u64,
    /// Which bits of an entry's offset in the list are added to that.
    moves: u64,
    fixed_ra: i8,
    fixed_fp: i8,
}

/// Bytes of an entry.
const V2: usize = 20;
const V3: usize = 16;

/// Bytes of a row's words by its info byte.
const WORDS: [u8; 256] = {
    let mut table = [NO_ROW; 256];
    let mut info = 0;
    while info < table.len() {
        let row = RowInfo(info as u8);
        if let Some(size) = row.word_size() {
            table[info] = row.words() * size;
        }
        info += 1;
    }
    table
};
const NO_ROW: u8 = u8::MAX;

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
        Some(Quick {
            arch: header.abi.arch()?,
            version,
            list: range(part.entry_at(0)..end)?,
            rows: range(rows)?,
            origin: part.address.wrapping_add(into),
            moves: if moving { u64::MAX } else { 0 },
            fixed_ra: header.fixed_ra,
            fixed_fp: header.fixed_fp,
        })
    }

    /// The rule for `pc`.
    #[inline(always)]
    pub fn rule(&self, data: &[u8], buckets: &Buckets, pc: u64) -> Option<Usual> {
        let list = data.get(self.list.clone())?;
        let rows = data.get(self.rows.clone())?;
        let (size, offset, rows) = match self.version {
            Version::V3 => {
                let (entry, offset) = self.entry::<V3>(list, buckets, pc)?;
                let at = u32::from_le_bytes(piece::<12, 4, V3>(entry));
                let attribute: &[u8; 5] = rows.get(at as usize..)?.first_chunk()?;
                if attribute[3] != 0 {
                    return None;
                }
                let count = u16::from_le_bytes(piece::<0, 2, 5>(attribute)).into();
                let bytes = rows.get(at as usize + attribute.len()..)?;
                let size = u32::from_le_bytes(piece::<8, 4, V3>(entry));
                (size, offset, Rows { count, info: FunctionInfo(attribute[2]), bytes })
            }
            _ => {
                let (entry, offset) = self.entry::<V2>(list, buckets, pc)?;
                let number = |bytes| u32::from_le_bytes(bytes);
                let bytes = rows.get(number(piece::<8, 4, V2>(entry)) as usize..)?;
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

    /// The entry of the last function that starts at or below `pc`, and how far below.
    #[inline(always)]
    fn entry<'a, const N: usize>(
        &self,
        list: &'a [u8],
        buckets: &Buckets,
        pc: u64,
    ) -> Option<(&'a [u8; N], u64)> {
        let (mut low, mut len) = buckets.candidates(pc)?;
        let entry = |index: u32| -> Option<(&'a [u8; N], u64)> {
            let at = index as usize * N;
            let entry: &[u8; N] = list.get(at..)?.first_chunk()?;
            let start = match N {
                V3 => i64::from_le_bytes(piece::<0, 8, N>(entry)),
                _ => i32::from_le_bytes(piece::<0, 4, N>(entry)).into(),
            };
            let origin = self.origin.wrapping_add(at as u64 & self.moves);
            Some((entry, origin.wrapping_add_signed(start)))
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
        if u64::from(rows.count) * HEAD as u64 > rows.bytes.len() as u64 {
            return None;
        }
        let (mut at, mut lowest) = (0, 0);
        let mut found = None;
        for _ in 0..rows.count {
            let head: &[u8; HEAD] = rows.bytes.get(at..)?.first_chunk()?;
            let start = match HEAD {
                2 => u32::from(head[0]),
                _ => u32::from(u16::from_le_bytes([head[0], head[1]])),
            };
            let info = RowInfo(head[HEAD - 1]);
            let len = WORDS[usize::from(info.0)];
            let words_at = at + HEAD;
            at = words_at + usize::from(len);
            // The row behind that in force has to be sound, too.
            if start < lowest || len == NO_ROW {
                return None;
            }
            if start > offset {
                if start > size {
                    return None;
                }
                break;
            }
            found = Some((info, words_at));
            lowest = start;
        }
        let (info, words_at) = found?;
        if at > rows.bytes.len() {
            return None;
        }
        let len = usize::from(WORDS[usize::from(info.0)]);
        self.usual(info, rows.bytes.get(words_at..)?.get(..len)?)
    }

    /// What the words of a row come to.
    #[inline(always)]
    fn usual(&self, info: RowInfo, words: &[u8]) -> Option<Usual> {
        let number = |word: &[u8]| match *word {
            [a] => i32::from(a.cast_signed()),
            [a, b] => i32::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
            _ => 0,
        };
        match info.word_size()? {
            1 => self.rule_of(info, words.as_chunks::<1>().0, |word| number(word)),
            2 => self.rule_of(info, words.as_chunks::<2>().0, |word| number(word)),
            _ => self.rule_of(info, words.as_chunks::<4>().0, |word| number(word)),
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
