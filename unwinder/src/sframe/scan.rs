//! The row in force, out of a function's rows as they are written.
//!
//! ```text
//! 1 · 1 · 1 │ 2 · 2 │ 3 · 3 │ 1 · 3 · 1 · …      words of rows
//! pass 1      pass 2  pass 3  all others
//! ```
//!
//! Where a row is, the lengths of all before it tell. If they were added up, a processor would
//! have to wait for each of them in turn. In a pass the length is a number that the compiler
//! knows, and what was read is only compared with it: a processor that guesses how this comes
//! out goes on to the next row at once. Up to their first `ret`, functions save more and more.

use super::frame_row::RowInfo;

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

/// A search among rows whose start and info byte have `HEAD` bytes.
pub(super) struct Scan<'a, const HEAD: usize> {
    /// All bytes from the first row on.
    bytes: &'a [u8],
    /// Bytes of the function, and which of them the row is searched for.
    size: u32,
    offset: u32,
    /// Where the next row is, how many are left, and what their starts are at least.
    at: usize,
    left: u32,
    lowest: u32,
    /// The row before that: its info byte, and where its words are.
    info: RowInfo,
    words_at: usize,
}

/// The next row: start, info byte.
type Head = (u32, RowInfo);

impl<'a, const HEAD: usize> Scan<'a, HEAD> {
    /// A search among `count` rows for the one that is in force `offset` bytes into a function
    /// of `size`.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], count: u32, size: u32, offset: u32) -> Scan<'a, HEAD> {
        let info = RowInfo(0);
        Scan { bytes, size, offset, at: 0, left: count, lowest: 0, info, words_at: 0 }
    }

    /// Info byte of the row, and the bytes from its words on, which are all there. `None`:
    /// there is no row, or it or one before it is not sound. The row behind it has to be sound,
    /// too.
    #[inline(always)]
    pub fn find(mut self) -> Option<(RowInfo, &'a [u8])> {
        if self.left == 0 || u64::from(self.left) * HEAD as u64 > self.bytes.len() as u64 {
            return None;
        }
        let mut next = self.look()?;
        let next = &mut next;
        if !(self.pass::<1>(next)? || self.pass::<2>(next)? || self.pass::<3>(next)?) {
            self.others(next)?;
        }
        // What was looked at has to be there.
        if self.words_at == 0 || self.at > self.bytes.len() {
            return None;
        }
        Some((self.info, self.bytes.get(self.words_at..)?))
    }

    /// Goes over all rows that have `LEN` words of a byte, up to one that has not. Whether that
    /// is the end.
    #[inline(always)]
    fn pass<const LEN: usize>(&mut self, next: &mut Head) -> Option<bool> {
        while next.1.bytes() == Some(LEN) {
            if next.0 > self.offset {
                return self.behind(next.0, LEN);
            }
            if self.go(*next, LEN) {
                return Some(true);
            }
            *next = self.look()?;
        }
        Some(false)
    }

    /// Goes over all further rows, to the end.
    #[inline(always)]
    fn others(&mut self, next: &mut Head) -> Option<()> {
        loop {
            let len = match WORDS[usize::from(next.1.0)] {
                NO_ROW => return None,
                len => usize::from(len),
            };
            if next.0 > self.offset {
                return self.behind(next.0, len).map(|_| ());
            }
            if self.go(*next, len) {
                return Some(());
            }
            *next = self.look()?;
        }
    }

    /// The next row.
    #[inline(always)]
    fn look(&self) -> Option<Head> {
        let head: &[u8; HEAD] = self.bytes.get(self.at..)?.first_chunk()?;
        let start = match HEAD {
            2 => u32::from(head[0]),
            _ => u32::from(u16::from_le_bytes([head[0], head[1]])),
        };
        (start >= self.lowest).then_some((start, RowInfo(head[HEAD - 1])))
    }

    /// The row is in force, unless one behind it is. Whether there is none.
    #[inline(always)]
    fn go(&mut self, (start, info): Head, len: usize) -> bool {
        (self.info, self.words_at) = (info, self.at + HEAD);
        (self.at, self.left, self.lowest) = (self.words_at + len, self.left - 1, start);
        self.left == 0
    }

    /// The row is behind that in force.
    #[inline(always)]
    fn behind(&mut self, start: u32, len: usize) -> Option<bool> {
        self.at += HEAD + len;
        (start <= self.size).then_some(true)
    }
}
