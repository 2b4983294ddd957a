//! A reader of debug information that gives up after so many bytes.
//!
//! Debug information refers to itself: many units may share one abbreviation
//! table, line program or range list. A small hostile file can thereby ask for
//! hours of work and for all memory. All of it is read through this reader, so
//! one number bounds time and memory together.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimli::{EndianArcSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

/// A section of a file, with a share in a budget of bytes to be read.
#[derive(Clone, Debug)]
pub struct BudgetReader {
    inner: EndianArcSlice<LittleEndian>,
    left: Arc<AtomicU64>,
}

impl BudgetReader {
    /// A reader of `inner` that takes from `left`.
    pub fn new(inner: EndianArcSlice<LittleEndian>, left: Arc<AtomicU64>) -> BudgetReader {
        BudgetReader { inner, left }
    }

    /// Takes `n` bytes from the budget, and a little for the call itself.
    fn take(&self, n: usize) -> Result<()> {
        let n = n as u64 + 1;
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| l.checked_sub(n)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::UnexpectedEof(self.inner.offset_id())),
        }
    }
}

impl Reader for BudgetReader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        self.inner.endian()
    }

    fn len(&self) -> usize {
        Reader::len(&self.inner)
    }

    fn empty(&mut self) {
        self.inner.empty();
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.inner.truncate(len)
    }

    fn offset_from(&self, base: &BudgetReader) -> usize {
        self.inner.offset_from(&base.inner)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        self.inner.offset_id()
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.inner.lookup_offset_id(id)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = self.inner.find(byte);
        self.take(*found.as_ref().unwrap_or(&Reader::len(&self.inner)))?;
        found
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.take(0)?;
        self.inner.skip(len)
    }

    fn split(&mut self, len: usize) -> Result<BudgetReader> {
        self.take(0)?;
        Ok(BudgetReader { inner: self.inner.split(len)?, left: self.left.clone() })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.take(Reader::len(&self.inner))?;
        self.inner.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.take(Reader::len(&self.inner))?;
        Reader::to_string(&self.inner)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.take(Reader::len(&self.inner))?;
        self.inner.to_string_lossy()
    }

    fn read_slice(&mut self, buf: &mut [u8]) -> Result<()> {
        self.take(buf.len())?;
        self.inner.read_slice(buf)
    }
}
