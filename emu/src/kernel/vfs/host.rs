//! The host: all that a guest can learn from the machine below it, and all that it can do to it.
//!
//! ```text
//! exec ─► the program file ──────────┐
//! tree ─► status, link, list, open ──┼─► Host ─┬─► RealHost: this machine
//! io   ─► standard input and output ─┘         └─► a recording: what another run met
//! ```

use std::fmt::Debug;
use std::fs::FileType as HostType;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::Errno;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use crate::engine::FileMap;
use crate::kernel::vfs::{FileType, Lookup};
use crate::loader::{self, FileError};
use crate::mem::Source;

/// What is at a path of the host. Owners, times and all permissions but one are not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A regular file.
    Regular {
        /// Length in bytes.
        len: u64,
        /// Its owner may execute it.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else: it cannot be opened.
    Other(FileType),
}

/// A standard stream that the guest writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// The machine that a guest runs on, as far as the guest can tell. Paths are the host's.
pub trait Host: Debug {
    /// Checks that `path` is a program file that can be read.
    ///
    /// # Errors
    ///
    /// [`FileError`] says what it is instead.
    fn check_program(&self, path: &Path) -> Result<(), FileError>;

    /// `stat`, or `lstat`.
    ///
    /// # Errors
    ///
    /// The host's.
    fn status(&self, path: &Path, how: Lookup) -> io::Result<Status>;

    /// Where a symbolic link leads. A target that is no UTF-8 counts as absent.
    ///
    /// # Errors
    ///
    /// The host's.
    fn link(&self, path: &Path) -> io::Result<String>;

    /// The names in a directory that are UTF-8, in any order; none if it cannot be read.
    fn list(&self, path: &Path) -> Vec<String>;

    /// The path after all symbolic links.
    fn canonical(&self, path: &Path) -> Option<PathBuf>;

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// As [`FileMap::open`].
    fn open(&self, path: &Path) -> io::Result<FileMap>;

    /// Reads standard input.
    ///
    /// # Errors
    ///
    /// `EINTR`, or `EIO` if it cannot be read.
    fn read_input(&self, buf: &mut [u8]) -> Result<usize, Errno>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// `EPIPE` if the reader has gone, `EIO` for all else.
    fn write_output(&self, stream: Stream, bytes: &[u8]) -> Result<(), Errno>;
}

/// A file of a host that is opened when its bytes are needed.
#[derive(Debug)]
pub struct HostFile {
    /// Where it is.
    pub host: Rc<dyn Host>,
    /// Path there.
    pub path: PathBuf,
}

impl Source for HostFile {
    fn open(&self) -> io::Result<FileMap> {
        self.host.open(&self.path)
    }
}

/// This machine.
#[derive(Debug, Default)]
pub struct RealHost {
    /// The guest's standard output goes to standard error: something of ours is written to
    /// standard output.
    stdout_is_taken: bool,
}

impl RealHost {
    /// This machine, with standard output for the guest or not.
    pub fn new(stdout_is_taken: bool) -> RealHost {
        RealHost { stdout_is_taken }
    }
}

impl Host for RealHost {
    fn check_program(&self, path: &Path) -> Result<(), FileError> {
        loader::file::open(path).map(drop)
    }

    fn status(&self, path: &Path, how: Lookup) -> io::Result<Status> {
        let meta = match how {
            Lookup::Follow => std::fs::metadata(path)?,
            Lookup::NoFollow => std::fs::symlink_metadata(path)?,
        };
        Ok(if meta.is_dir() {
            Status::Directory
        } else if meta.is_symlink() {
            Status::Symlink
        } else if let Some(kind) = other_type(meta.file_type()) {
            Status::Other(kind)
        } else {
            let executable = meta.permissions().mode() & 0o100 != 0;
            Status::Regular { len: meta.len(), executable }
        })
    }

    fn link(&self, path: &Path) -> io::Result<String> {
        let target = std::fs::read_link(path)?.into_os_string().into_string();
        target.map_err(|_| io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &Path) -> Vec<String> {
        let Ok(list) = std::fs::read_dir(path) else { return Vec::new() };
        list.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn open(&self, path: &Path) -> io::Result<FileMap> {
        FileMap::open(path)
    }

    /// Reads until `buf` is full or the input ends, so that what a guest gets does not depend
    /// on the pace of whoever writes; a terminal gives a line at a time. What came before an
    /// error is not lost.
    fn read_input(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let whole = !io::IsTerminal::is_terminal(&io::stdin());
        let mut done = 0;
        while done < buf.len() {
            match read_some(&mut buf[done..]) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
            if !whole {
                break;
            }
        }
        Ok(done)
    }

    fn write_output(&self, stream: Stream, bytes: &[u8]) -> Result<(), Errno> {
        let written = match stream {
            Stream::Out if !self.stdout_is_taken => {
                let mut out = io::stdout();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Stream::Out | Stream::Error => io::stderr().write_all(bytes),
        };
        // A closed pipe on the host's side is one on the guest's.
        written.map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => Errno::EPIPE,
            _ => Errno::EIO,
        })
    }
}

/// Reads what is there, or waits for it. A signal that the emulator catches ends the wait
/// with `EINTR`: a poll is never started again, as a read is.
///
/// # Errors
///
/// `EINTR`, or `EIO` if the host cannot read.
fn read_some(buf: &mut [u8]) -> Result<usize, Errno> {
    let stdin = io::stdin();
    // Any other failure is one of the read as well, which reports it.
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {
        return Err(Errno::EINTR);
    }
    rustix::io::read(&stdin, buf).map_err(|e| match e {
        rustix::io::Errno::INTR => Errno::EINTR,
        _ => Errno::EIO,
    })
}

/// The type of a host file that is neither regular nor a folder nor a link.
fn other_type(kind: HostType) -> Option<FileType> {
    if kind.is_fifo() {
        Some(FileType::Fifo)
    } else if kind.is_socket() {
        Some(FileType::Socket)
    } else if kind.is_block_device() {
        Some(FileType::Block)
    } else if kind.is_char_device() {
        Some(FileType::Character)
    } else {
        None
    }
}
