//! Memory of a file: one object for all who read, write or map it.
//!
//! ```text
//!  read, write ──┐              ┌─ frame of the arena: a page that was mapped or written
//!  MAP_SHARED  ──┼─► Object ────┼─ the host file's bytes, as long as nobody wrote there
//!  MAP_PRIVATE ──┘              └─ a hole: zeros, takes no memory
//! ```
//!
//! Also what backs shared anonymous memory (`mm/shmem.c`). Frames go back to the arena
//! when the object goes.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::rc::Rc;

use arch::Errno;

use crate::engine::{Arena, Bin, FileMap, Frame};
use crate::mem::PAGE;

/// Longest file in bytes (`MAX_LFS_FILESIZE`).
pub const MAX_LEN: u64 = i64::MAX as u64;

/// Why a page of an object could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// The page lies beyond the end of the file.
    BeyondEnd,
    /// Guest memory is exhausted.
    NoMemory,
    /// The file system is full.
    Full,
}

/// Pages that the files of one file system may hold together.
#[derive(Debug)]
pub struct Quota {
    used: Cell<u64>,
    most: u64,
}

impl Quota {
    /// At most `most` pages.
    pub fn new(most: u64) -> Rc<Quota> {
        Rc::new(Quota { used: Cell::new(0), most })
    }

    /// Pages in use.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    fn take(&self) -> Result<(), ObjectError> {
        if self.used.get() >= self.most {
            return Err(ObjectError::Full);
        }
        self.used.set(self.used.get() + 1);
        Ok(())
    }
}

/// A page that has a frame.
#[derive(Clone, Copy, Debug)]
struct Page {
    frame: Frame,
    /// It may differ from the host's file, and counts against the quota.
    dirty: bool,
}

/// Where the contents of a host file come from.
pub trait Source: Debug {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The host's.
    fn open(&self) -> io::Result<FileMap>;
}

/// The memory of a file; see the module.
#[derive(Debug)]
pub struct Object {
    /// Path as `/proc/self/maps` shows it.
    name: RefCell<String>,
    inode: u64,
    /// Host file with the contents below `base_len`, opened when they are needed.
    host: Option<Box<dyn Source>>,
    base: OnceCell<FileMap>,
    base_len: Cell<u64>,
    len: Cell<u64>,
    pages: RefCell<BTreeMap<u64, Page>>,
    modified: Cell<bool>,
    bin: OnceCell<Bin>,
    quota: Rc<Quota>,
}

impl Object {
    /// An empty file.
    pub fn new(name: String, inode: u64, quota: Rc<Quota>) -> Object {
        Object {
            name: RefCell::new(name),
            inode,
            host: None,
            base: OnceCell::new(),
            base_len: Cell::new(0),
            len: Cell::new(0),
            pages: RefCell::default(),
            modified: Cell::new(false),
            bin: OnceCell::new(),
            quota,
        }
    }

    /// A file with the contents of the host's file, `len` bytes, which is not opened yet.
    pub fn of_host(
        name: String,
        inode: u64,
        quota: Rc<Quota>,
        host: Box<dyn Source>,
        len: u64,
    ) -> Object {
        let mut object = Object::new(name, inode, quota);
        object.host = Some(host);
        object.len.set(len);
        object.base_len.set(len);
        object
    }

    /// Shared anonymous memory of `len` bytes.
    pub fn anonymous(len: u64) -> Object {
        let object = Object::new("/dev/zero (deleted)".to_owned(), 1, Quota::new(u64::MAX));
        object.len.set(len);
        object
    }

    /// Opens the host's file if there is one and it is not open.
    ///
    /// # Errors
    ///
    /// The host's.
    pub fn open(&self) -> io::Result<()> {
        if let (Some(host), None) = (&self.host, self.base.get()) {
            let map = host.open()?;
            if !self.modified.get() {
                self.len.set(map.len());
                self.base_len.set(map.len());
            }
            // It was empty a line above.
            let _ = self.base.set(map);
        }
        Ok(())
    }

    /// The host's file, if it is open and the contents are still its.
    pub fn pristine(&self) -> Option<&FileMap> {
        if self.modified.get() { None } else { self.base.get() }
    }

    /// Path as `/proc/self/maps` shows it.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// The file got another path.
    pub fn set_name(&self, name: String) {
        *self.name.borrow_mut() = name;
    }

    /// Inode number.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len.get()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages that have frames or the host's contents.
    pub fn pages(&self) -> u64 {
        self.base_len.get().div_ceil(PAGE).max(self.pages.borrow().len() as u64)
    }

    /// Copies from byte `offset`; returns how many bytes there were.
    ///
    /// # Errors
    ///
    /// `EIO` if the host cannot read.
    pub fn read_at(&self, arena: &Arena, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let there = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let pages = self.pages.borrow();
        let mut done = 0;
        while done < there {
            let at = offset + done as u64;
            let (index, within) = (at / PAGE, (at % PAGE) as usize);
            let (next, page) = match pages.range(index..).next() {
                Some((&next, page)) => (next, Some(page)),
                None => (u64::MAX, None),
            };
            if let (true, Some(page)) = (next == index, page) {
                let n = (PAGE as usize - within).min(there - done);
                let bytes = &arena.bytes(page.frame)[within..within + n];
                buf[done..done + n].copy_from_slice(bytes);
                done += n;
                continue;
            }
            // Everything up to the next frame in one go.
            let n = (next.saturating_mul(PAGE) - at).min((there - done) as u64) as usize;
            let got = self.read_base(at, &mut buf[done..done + n])?;
            done += got;
            if got < n {
                break;
            }
        }
        Ok(done)
    }

    /// Bytes without a frame: the host's, then zeros. Short if the host's file shrank.
    fn read_base(&self, at: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let below = self.base_len.get().saturating_sub(at).min(buf.len() as u64) as usize;
        let (host, zeros) = buf.split_at_mut(below);
        if !host.is_empty() {
            let map = self.base.get().ok_or(Errno::EIO)?;
            let got = map.read_at(at, host).map_err(|_| Errno::EIO)?;
            if got < below {
                return Ok(got);
            }
        }
        zeros.fill(0);
        Ok(buf.len())
    }

    /// The frame of page `index`, for a mapping; `write` if stores may go to it.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn page(&self, arena: &mut Arena, index: u64, write: bool) -> Result<Frame, ObjectError> {
        if index >= self.len().div_ceil(PAGE) {
            return Err(ObjectError::BeyondEnd);
        }
        self.frame(arena, index, write)
    }

    fn frame(&self, arena: &mut Arena, index: u64, write: bool) -> Result<Frame, ObjectError> {
        let mut pages = self.pages.borrow_mut();
        if let Some(page) = pages.get_mut(&index) {
            if write && !page.dirty {
                self.quota.take()?;
                page.dirty = true;
                self.modified.set(true);
            }
            return Ok(page.frame);
        }
        let mut bytes = [0; PAGE as usize];
        let start = index * PAGE;
        let clean = start < self.base_len.get() && !write;
        let got = self.read_base(start, &mut bytes).unwrap_or(0);
        if got == 0 {
            return Err(ObjectError::BeyondEnd);
        }
        if !clean {
            self.quota.take()?;
        }
        let Some(frame) = arena.alloc() else {
            if !clean {
                self.quota.used.set(self.quota.used.get() - 1);
            }
            return Err(ObjectError::NoMemory);
        };
        self.bin.get_or_init(|| arena.bin());
        arena.bytes_mut(frame).copy_from_slice(&bytes);
        pages.insert(index, Page { frame, dirty: !clean });
        if write {
            self.modified.set(true);
        }
        Ok(frame)
    }

    /// Copies to byte `offset`, making the file longer if need be; returns how many bytes
    /// found room.
    ///
    /// # Errors
    ///
    /// `EFBIG` at the longest length, `ENOSPC` if not one byte found room.
    pub fn write_at(&self, arena: &mut Arena, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let room = MAX_LEN.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::EFBIG);
        }
        let mut done = 0;
        while done < room {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let n = (PAGE as usize - within).min(room - done);
            match self.frame(arena, at / PAGE, true) {
                Ok(frame) => arena.bytes_mut(frame)[within..within + n]
                    .copy_from_slice(&bytes[done..done + n]),
                Err(_) if done > 0 => break,
                Err(ObjectError::BeyondEnd) => return Err(Errno::EIO),
                Err(ObjectError::NoMemory | ObjectError::Full) => return Err(Errno::ENOSPC),
            }
            done += n;
            self.len.set(self.len().max(at + n as u64));
        }
        Ok(done)
    }

    /// Sets the length; no page beyond it may be mapped. A longer file gets a hole.
    pub(super) fn set_len(&self, arena: &mut Arena, len: u64) {
        if len < self.len() {
            self.base_len.set(self.base_len.get().min(len));
            let beyond = self.pages.borrow_mut().split_off(&len.div_ceil(PAGE));
            beyond.into_values().for_each(|page| self.release(page));
            let last = self.pages.borrow().get(&(len / PAGE)).copied();
            if let Some(page) = last {
                arena.bytes_mut(page.frame)[(len % PAGE) as usize..].fill(0);
            }
        }
        self.len.set(len);
        self.modified.set(true);
    }

    /// Makes whole pages zeros; none of them may be mapped.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: zeros over the host's contents need memory.
    pub(super) fn punch(
        &self,
        arena: &mut Arena,
        pages: std::ops::Range<u64>,
    ) -> Result<(), Errno> {
        self.modified.set(true);
        let covered = pages.end.min(self.base_len.get().div_ceil(PAGE));
        for index in pages.start..covered {
            let frame = self.frame(arena, index, true).map_err(|_| Errno::ENOSPC)?;
            arena.bytes_mut(frame).fill(0);
        }
        let from = pages.start.max(covered);
        let gone: Vec<u64> = match from < pages.end {
            true => self.pages.borrow().range(from..pages.end).map(|(&i, _)| i).collect(),
            false => Vec::new(),
        };
        for index in gone {
            if let Some(page) = self.pages.borrow_mut().remove(&index) {
                self.release(page);
            }
        }
        Ok(())
    }

    fn release(&self, page: Page) {
        if page.dirty {
            self.quota.used.set(self.quota.used.get().saturating_sub(1));
        }
        if let Some(bin) = self.bin.get() {
            bin.put(page.frame);
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let pages = std::mem::take(self.pages.get_mut());
        pages.into_values().for_each(|page| self.release(page));
    }
}
