//! Read-only host files.
//!
//! A file is mapped once for parsing and read by `pread` for page contents: a file that
//! shrinks while the guest runs gives a short read, which the guest sees as `SIGBUS`,
//! and never a host `SIGBUS` in the emulator.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memmap2::Mmap;

/// A host file opened for reading.
#[derive(Debug)]
pub struct FileMap {
    file: File,
    map: Option<Mmap>,
    len: u64,
}

impl FileMap {
    /// Opens and maps a regular file.
    pub fn open(path: &Path) -> io::Result<FileMap> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let len = meta.len();
        let map = if len == 0 {
            None
        } else {
            // SAFETY: memmap2 asks that the file is not truncated while the map is
            // read. `bytes` is used only to parse headers right after opening, and
            // everything else goes through `read_at`.
            #[allow(unsafe_code)]
            Some(unsafe { Mmap::map(&file)? })
        };
        Ok(FileMap { file, map, len })
    }

    /// Length in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole file, for parsing right after [`FileMap::open`].
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }

    /// Copies from `offset`; returns the bytes copied, fewer at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}
