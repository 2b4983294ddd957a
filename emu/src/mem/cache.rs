//! Pages of files, read once and shared by every mapping.

use std::collections::HashMap;
use std::fmt;

use crate::engine::{Arena, Frame};
use crate::mem::PAGE;

/// A file that can be mapped.
pub trait PageSource: fmt::Debug {
    /// A number that is the same for the same file and differs between files.
    fn id(&self) -> u64;

    /// Length in bytes now.
    fn len(&self) -> u64;

    /// Whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from byte `offset`; returns how many bytes there were.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize;

    /// Path as `/proc/self/maps` shows it.
    fn path(&self) -> &str;

    /// Inode number as `/proc/self/maps` shows it.
    fn inode(&self) -> u64;
}

/// Cached pages by (file, page number). Frames stay until the machine ends.
#[derive(Debug, Default)]
pub struct PageCache {
    pages: HashMap<(u64, u64), Frame>,
}

/// Why a page of a file could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheError {
    /// The page lies beyond the end of the file.
    BeyondEnd,
    /// Guest memory is exhausted.
    NoMemory,
}

impl PageCache {
    /// The frame that holds the page of `source` at byte `offset` (page aligned). The
    /// last page is filled up with zeros.
    pub fn page(
        &mut self,
        arena: &mut Arena,
        source: &dyn PageSource,
        offset: u64,
    ) -> Result<Frame, CacheError> {
        let key = (source.id(), offset / PAGE);
        if let Some(&frame) = self.pages.get(&key) {
            return Ok(frame);
        }
        let mut page = [0; PAGE as usize];
        if source.read_at(offset, &mut page) == 0 {
            return Err(CacheError::BeyondEnd);
        }
        let frame = arena.alloc().ok_or(CacheError::NoMemory)?;
        arena.bytes_mut(frame).copy_from_slice(&page);
        self.pages.insert(key, frame);
        Ok(frame)
    }
}
