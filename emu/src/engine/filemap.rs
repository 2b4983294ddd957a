//! Read-only host files.
//!
//! A file is mapped once for parsing and read by `pread` for page contents: a file that
//! shrinks while the guest runs gives a short read, which the guest sees as `SIGBUS`,
//! and never a host `SIGBUS` in the emulator. A file may also be bytes in memory: one of a
//! recording.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

// Linux's values, the same on all hosts that the emulator runs on.
const O_NONBLOCK: i32 = 0o4000;
const O_NOCTTY: i32 = 0o400;

/// A host file opened for reading.
#[derive(Debug)]
pub struct FileMap {
    contents: Contents,
    len: u64,
}

#[derive(Debug)]
enum Contents {
    /// A file of the host; an empty one is not mapped.
    File(File, Option<Mmap>),
    Memory(Arc<[u8]>),
}

impl FileMap {
    /// Opens and maps a regular file. Anything else is not opened: opening a pipe could
    /// wait for ever, and opening a device can do things.
    ///
    /// # Errors
    ///
    /// The host's; `InvalidInput` for what is neither a regular file nor a directory.
    pub fn open(path: &Path) -> io::Result<FileMap> {
        check(&std::fs::metadata(path)?)?;
        // The path may lead elsewhere by now: do not wait, and look again.
        let flags = O_NONBLOCK | O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let meta = file.metadata()?;
        check(&meta)?;
        let len = meta.len();
        let map = if len == 0 {
            None
        } else {
            // SAFETY: memmap2 asks that the file is not truncated while the map is
            // read. `bytes` is used only to parse headers right after opening, or to show
            // a file that is not run, and everything else goes through `read_at`.
            #[allow(unsafe_code)]
            Some(unsafe { Mmap::map(&file)? })
        };
        Ok(FileMap { contents: Contents::File(file, map), len })
    }

    /// A file of these bytes.
    pub fn of_bytes(bytes: Arc<[u8]>) -> FileMap {
        let len = bytes.len() as u64;
        FileMap { contents: Contents::Memory(bytes), len }
    }

    /// Length in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole file, for parsing right after [`FileMap::open`] or for looking at it only.
    pub fn bytes(&self) -> &[u8] {
        match &self.contents {
            Contents::File(_, map) => map.as_deref().unwrap_or(&[]),
            Contents::Memory(bytes) => bytes,
        }
    }

    /// Copies from `offset`; returns the bytes copied, fewer at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let file = match &self.contents {
            Contents::File(file, _) => file,
            Contents::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let n = buf.len().min(bytes.len() - from);
                buf[..n].copy_from_slice(&bytes[from..from + n]);
                return Ok(n);
            }
        };
        let mut done = 0;
        while done < buf.len() {
            match file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

fn check(meta: &Metadata) -> io::Result<()> {
    if meta.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(())
}
