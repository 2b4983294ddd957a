//! Rows of a function.
//!
//! ```text
//! start 1, 2 or 4 · info 1 · data words, each of 1, 2 or 4 bytes
//! info:  bit 0 CFA from the stack pointer, else from the frame pointer
//!        bits 1-4 number of words · bits 5-6 their size · bit 7 return address is signed
//! ```
//!
//! A row holds until the next one starts. [`super::rules`] tells what the words mean.

use super::function::{Function, Part};
use super::source::{ByteOrder, Source};
use super::{Error, ErrorKind};

/// What a row's info byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowInfo(pub u8);

impl RowInfo {
    /// The CFA is relative to the stack pointer, not to the frame pointer. Flexible rows do
    /// not use this.
    pub const fn from_sp(self) -> bool {
        self.0 & 1 != 0
    }

    /// Number of data words.
    pub const fn words(self) -> u8 {
        self.0 >> 1 & 0xf
    }

    /// The code for the size of a data word: the logarithm, or 3.
    const fn word_code(self) -> u8 {
        self.0 >> 5 & 3
    }

    /// Size of a data word, if the code is valid.
    pub const fn word_size(self) -> Option<u8> {
        match self.word_code() {
            0 => Some(1),
            1 => Some(2),
            2 => Some(4),
            _ => None,
        }
    }

    /// Number of data words, if each is a byte.
    #[inline(always)]
    pub(super) const fn bytes(self) -> Option<usize> {
        if self.word_code() == 0 { Some(self.words() as usize) } else { None }
    }

    /// The return address is signed (aarch64).
    pub const fn signed(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// A row, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// Offset in the section.
    pub offset: u64,
    /// First instruction it holds for, from the start of the function or of its block.
    pub start: u32,
    /// Number and size of words, and more.
    pub info: RowInfo,
    /// Size of a data word.
    pub word_size: u8,
    /// The words, without sign.
    words: [u32; FrameRow::WORDS],
}

impl FrameRow {
    /// The most words that mean anything.
    pub const WORDS: usize = 6;

    /// Data word `i`, if there is one, with its sign.
    pub const fn word(&self, i: u8) -> Option<i32> {
        match self.control(i) {
            Some(word) => Some(match self.word_size {
                1 => (word as u8).cast_signed() as i32,
                2 => (word as u16).cast_signed() as i32,
                _ => word.cast_signed(),
            }),
            None => None,
        }
    }

    /// Data word `i`, if there is one, without sign.
    pub const fn control(&self, i: u8) -> Option<u32> {
        if i < self.info.words() { Some(self.words[i as usize]) } else { None }
    }

    /// All data words, with sign.
    pub fn words(&self) -> impl Iterator<Item = i32> {
        (0..self.info.words()).filter_map(|i| self.word(i))
    }
}

/// A row without its words: what a search looks at.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub offset: u64,
    pub start: u32,
    pub info: RowInfo,
    word_size: u8,
    words_at: u64,
}

impl Head {
    /// Offset of what follows the row.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.words_at + self.word_size as u64 * self.info.words() as u64
    }
}

/// What is demanded of the starts of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Two rows may start together.
    Ascending,
    /// Each row starts behind the one before, as the kernel wants it.
    Strict,
}

/// Reads heads one after the other.
pub(super) struct Heads {
    at: u64,
    end: u64,
    left: u32,
    width: u8,
    order: ByteOrder,
    bound: u32,
    repeats: bool,
    /// The lowest start that the next row may have.
    lowest: u64,
    rows: Order,
}

impl Heads {
    #[inline]
    pub fn new(part: &Part, function: &Function, rows: Order) -> Heads {
        Heads {
            at: function.rows_at,
            end: part.rows_end(),
            left: function.rows,
            width: function.start_width,
            order: part.header.abi.order(),
            bound: function.bound(),
            repeats: function.info.repeats(),
            lowest: 0,
            rows,
        }
    }

    /// There is no next head.
    pub const fn stop(&mut self) {
        self.left = 0;
    }

    /// The next head; its row is completely within the row data.
    ///
    /// After an error there is no next one.
    #[inline]
    pub fn next(&mut self, source: &mut impl Source) -> Option<Result<Head, Error>> {
        self.left = self.left.checked_sub(1)?;
        let head = self.read(source);
        match &head {
            Ok(head) => {
                self.at = head.end();
                self.lowest = u64::from(head.start) + u64::from(self.rows == Order::Strict);
            }
            Err(_) => self.stop(),
        }
        Some(head)
    }

    #[inline]
    fn read(&self, source: &mut impl Source) -> Result<Head, Error> {
        let offset = self.at;
        let error = |kind| Error { offset, kind };
        let truncated = error(ErrorKind::RowTruncated { end: self.end });
        let words_at = offset.saturating_add(u64::from(self.width) + 1);
        if words_at > self.end {
            return Err(truncated);
        }
        let (start, info) = self.start_and_info(source).ok_or(error(ErrorKind::Unreadable))?;
        let info = RowInfo(info);
        let word_size = info.word_size().ok_or(error(ErrorKind::WordSize))?;
        let head = Head { offset, start, info, word_size, words_at };
        if head.end() > self.end {
            return Err(truncated);
        }
        if u64::from(start) < self.lowest {
            return Err(error(ErrorKind::RowOrder { start, lowest: self.lowest }));
        }
        if start > self.bound || start == self.bound && self.repeats {
            return Err(error(ErrorKind::RowStart { start, bound: self.bound }));
        }
        Ok(head)
    }

    #[inline]
    fn start_and_info(&self, source: &mut impl Source) -> Option<(u32, u8)> {
        Some(match self.width {
            1 => {
                let [start, info] = source.take(self.at)?;
                (start.into(), info)
            }
            2 => {
                let [a, b, info] = source.take(self.at)?;
                (self.order.u16([a, b]).into(), info)
            }
            _ => {
                let [a, b, c, d, info] = source.take(self.at)?;
                (self.order.u32([a, b, c, d]), info)
            }
        })
    }
}

impl Part {
    /// The words of a row.
    #[inline(always)]
    pub(super) fn frame_row(
        &self,
        source: &mut impl Source,
        head: Head,
    ) -> Result<FrameRow, Error> {
        let error = |kind| Error { offset: head.offset, kind };
        let mut words = [0; FrameRow::WORDS];
        let count = head.info.words();
        let used = words.get_mut(..usize::from(count)).ok_or(error(ErrorKind::WordCount(count)))?;
        let (mut at, order) = (head.words_at, self.header.abi.order());
        for word in used {
            let value = match head.word_size {
                1 => source.take(at).map(|[b]: [u8; 1]| u32::from(b)),
                2 => source.take(at).map(|b| u32::from(order.u16(b))),
                _ => source.take(at).map(|b| order.u32(b)),
            };
            *word = value.ok_or(error(ErrorKind::Unreadable))?;
            at += u64::from(head.word_size);
        }
        let Head { offset, start, info, word_size, .. } = head;
        Ok(FrameRow { offset, start, info, word_size, words })
    }

    /// As [`Part::find_row`], over the row data from the function's rows on, where the usual is
    /// the case: starts of one or two bytes, little-endian, and a row in force. `None`: it is
    /// not, or something is wrong.
    #[inline(always)]
    pub(super) fn skim(
        &self,
        bytes: &[u8],
        function: &Function,
        offset: u32,
        rows: Order,
    ) -> Option<Skimmed> {
        if self.header.abi.order() != ByteOrder::Little {
            return None;
        }
        match function.start_width {
            1 => skim::<2>(bytes, function, offset, rows),
            2 => skim::<3>(bytes, function, offset, rows),
            _ => None,
        }
    }

    /// The row in force `offset` bytes into the function or its block, and where it ends.
    #[inline]
    pub(super) fn find_row(
        &self,
        source: &mut impl Source,
        function: &Function,
        offset: u32,
        rows: Order,
    ) -> Result<Option<(Head, u32)>, Error> {
        if let Some(found) = source
            .at_hand(function.rows_at, self.rows_end())
            .and_then(|bytes| self.skim(bytes, function, offset, rows))
        {
            return Ok(Some((found.head(function), found.end)));
        }
        let mut heads = Heads::new(self, function, rows);
        let mut found = None;
        while let Some(head) = heads.next(source) {
            let head = head?;
            if head.start > offset {
                return Ok(found.map(|f| (f, head.start)));
            }
            found = Some(head);
        }
        Ok(found.map(|f| (f, function.bound())))
    }
}

/// A row that was found in passing.
#[derive(Clone, Copy)]
pub(super) struct Skimmed {
    /// Offset from the function's first row.
    at: usize,
    start: u32,
    pub info: RowInfo,
    /// Offset of the words from the function's first row. All of them are there.
    pub words_at: usize,
    /// Start of the next row, or the end of the function or its block.
    end: u32,
}

impl Skimmed {
    #[inline]
    fn head(&self, function: &Function) -> Head {
        Head {
            offset: function.rows_at + self.at as u64,
            start: self.start,
            info: self.info,
            word_size: 1 << self.info.word_code(),
            words_at: function.rows_at + self.words_at as u64,
        }
    }
}

/// `HEAD`: bytes of a start and the info byte.
#[inline(always)]
fn skim<const HEAD: usize>(
    bytes: &[u8],
    function: &Function,
    offset: u32,
    rows: Order,
) -> Option<Skimmed> {
    let bound = function.bound();
    let highest = if function.info.repeats() { bound.checked_sub(1)? } else { bound };
    let (mut at, mut lowest) = (0, 0);
    let mut found = None::<Skimmed>;
    for _ in 0..function.rows {
        let head = bytes.get(at..)?.first_chunk::<HEAD>()?;
        let mut number = [0; 4];
        number[..HEAD - 1].copy_from_slice(&head[..HEAD - 1]);
        let (start, info) = (u32::from_le_bytes(number), RowInfo(head[HEAD - 1]));
        let words_at = at + HEAD;
        let next = words_at + (usize::from(info.words()) << info.word_code());
        if start < lowest || start > highest || info.word_code() == 3 || next > bytes.len() {
            return None;
        }
        if start > offset {
            return found.map(|row| Skimmed { end: start, ..row });
        }
        found = Some(Skimmed { at, start, info, words_at, end: bound });
        at = next;
        lowest = start + u32::from(rows == Order::Strict);
    }
    found
}
