//! The host that is recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arch::Errno;

use super::file::{MAX_FILES, MAX_READ};
use super::input::{InputLog, Segment};
use super::manifest::{Answer, Entry, Failed, Output};
use super::output::OutputLog;
use super::text::Text;
use crate::engine::FileMap;
use crate::kernel::vfs::host::{Status, Stream};
use crate::kernel::vfs::tree::errno_of;
use crate::kernel::vfs::{Host, Lookup, RealHost};
use crate::loader::FileError;

/// Paths that are kept at most.
const MAX_ENTRIES: usize = 1 << 16;

/// Why what a guest did cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Files and input are too long.
    #[error("the guest read more than {MAX_READ} bytes of files and standard input, the last of {}; a recording takes no more", .last.display())]
    TooLong {
        /// What was read last.
        last: PathBuf,
    },
    /// There are too many paths.
    #[error("the guest looked up more than {MAX_ENTRIES} paths, the last {}; a recording takes no more", .last.display())]
    TooMany {
        /// What was looked up last.
        last: PathBuf,
    },
}

/// Passes on what the guest asks, and keeps the first answer to each question, which later
/// ones get as well. Beyond what a recording takes it only passes on: the run goes on, and
/// [`Recorder::take`] fails.
#[derive(Debug)]
pub struct Recorder {
    host: RealHost,
    log: RefCell<Log>,
}

#[derive(Debug, Default)]
struct Log {
    entries: BTreeMap<PathBuf, Entry>,
    files: Vec<Arc<[u8]>>,
    input: InputLog,
    output: [OutputLog; 2],
    failed: [Option<Failed>; 2],
    /// Bytes of files and input.
    stored: u64,
    full: Option<RecordError>,
}

/// What was recorded of a host.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Answers, ascending by path.
    pub host: Vec<Entry>,
    /// Contents of files.
    pub files: Vec<Arc<[u8]>>,
    /// Standard input.
    pub input: (Vec<u8>, Vec<Segment>),
    /// Standard output and standard error, where they could no longer be written.
    pub failed: [Option<Failed>; 2],
}

impl Recorder {
    /// Records `host`.
    pub fn new(host: RealHost) -> Recorder {
        Recorder { host, log: RefCell::default() }
    }

    /// What the guest wrote.
    pub fn output(&self) -> [Output; 2] {
        self.log.borrow().output.each_ref().map(OutputLog::output)
    }

    /// What was recorded; then nothing is.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if it was too much.
    pub fn take(&self) -> Result<Recorded, RecordError> {
        let log = self.log.take();
        match log.full {
            Some(error) => Err(error),
            None => Ok(Recorded {
                host: log.entries.into_values().collect(),
                files: log.files,
                input: (log.input.bytes, log.input.segments),
                failed: log.failed,
            }),
        }
    }

    /// The answer that is kept in a field of a path's entry, or else the one that `ask` gets.
    fn ask<T: Clone>(
        &self,
        path: &Path,
        field: impl Fn(&mut Entry) -> &mut Option<T>,
        ask: impl FnOnce() -> T,
    ) -> T {
        let mut log = self.log.borrow_mut();
        if let Some(known) = log.entries.get_mut(path).and_then(|e| field(e).clone()) {
            return known;
        }
        let answer = ask();
        if log.entries.len() >= MAX_ENTRIES && !log.entries.contains_key(path) {
            log.full.get_or_insert(RecordError::TooMany { last: path.to_owned() });
            return answer;
        }
        let new = || Entry { path: Text::of(path), ..Entry::default() };
        let entry = log.entries.entry(path.to_owned()).or_insert_with(new);
        *field(entry) = Some(answer.clone());
        answer
    }
}

impl Log {
    /// Whether `len` more bytes have room; `what` is what they are of.
    fn has_room(&mut self, len: u64, what: &Path) -> bool {
        let fits = self.stored.saturating_add(len) <= MAX_READ;
        if fits && self.full.is_none() && self.files.len() < MAX_FILES {
            self.stored += len;
            return true;
        }
        self.full.get_or_insert(RecordError::TooLong { last: what.to_owned() });
        false
    }
}

fn answer<T>(result: io::Result<T>) -> Answer<T> {
    result.map_err(|e| errno_of(&e).0)
}

/// An error of the host from a recorded answer.
pub(super) fn result<T>(answer: Answer<T>) -> io::Result<T> {
    answer.map_err(|errno| io::Error::from_raw_os_error(i32::from(errno)))
}

impl Host for Recorder {
    fn check_program(&self, path: &Path) -> Result<(), FileError> {
        self.host.check_program(path)
    }

    fn status(&self, path: &Path, how: Lookup) -> io::Result<Status> {
        let ask = || answer(self.host.status(path, how));
        result(match how {
            Lookup::Follow => self.ask(path, |e| &mut e.stat, ask),
            Lookup::NoFollow => self.ask(path, |e| &mut e.lstat, ask),
        })
    }

    fn link(&self, path: &Path) -> io::Result<String> {
        result(self.ask(path, |e| &mut e.link, || answer(self.host.link(path))))
    }

    fn list(&self, path: &Path) -> Vec<String> {
        self.ask(
            path,
            |e| &mut e.list,
            || {
                let mut names = self.host.list(path);
                names.sort_unstable();
                names
            },
        )
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let ask = || match self.host.canonical(path) {
            Some(full) => Ok(Text::of(full)),
            None => Err(Errno::ENOENT.0),
        };
        let answer = self.ask(path, |e| &mut e.canonical, ask);
        answer.ok().map(|full| full.path().to_owned())
    }

    /// The whole file is read: what the guest gets of it is what is recorded.
    fn open(&self, path: &Path) -> io::Result<FileMap> {
        let known = self.log.borrow().entries.get(path).and_then(|e| e.file);
        if let Some(known) = known {
            let bytes = |n: u32| self.log.borrow().files.get(n as usize).cloned();
            return result(known.and_then(|n| bytes(n).ok_or(Errno::EIO.0))).map(FileMap::of_bytes);
        }
        let opened = self.host.open(path);
        if let Ok(map) = &opened
            && !self.log.borrow_mut().has_room(map.len(), path)
        {
            return opened;
        }
        let bytes = answer(opened.and_then(|map| whole(&map)));
        let number = self.log.borrow().files.len() as u32;
        let kept = bytes.as_ref().map(|_| number).map_err(|e| *e);
        if self.ask(path, |e| &mut e.file, || kept).is_ok()
            && let Ok(bytes) = &bytes
        {
            self.log.borrow_mut().files.push(bytes.clone());
        }
        result(bytes).map(FileMap::of_bytes)
    }

    fn read_input(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let got = self.host.read_input(buf);
        let mut log = self.log.borrow_mut();
        match got {
            Ok(n) if log.has_room(n as u64, Path::new("standard input")) => {
                log.input.push(buf.len(), Ok(&buf[..n]));
            }
            // The run ends with the signal that interrupted the read.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => log.input.push(buf.len(), Err(e.0)),
        }
        got
    }

    /// A stream that could not be written once is not tried again.
    fn write_output(&self, stream: Stream, bytes: &[u8]) -> Result<(), Errno> {
        let mut log = self.log.borrow_mut();
        let at = stream as usize;
        if let Some(failed) = log.failed[at] {
            return Err(Errno(failed.errno));
        }
        match self.host.write_output(stream, bytes) {
            Ok(()) => log.output[at].push(bytes),
            Err(errno) => {
                log.failed[at] = Some(Failed { after: log.output[at].writes, errno: errno.0 });
                return Err(errno);
            }
        }
        Ok(())
    }
}

fn whole(map: &FileMap) -> io::Result<Arc<[u8]>> {
    let mut bytes = vec![0; map.len() as usize];
    let n = map.read_at(0, &mut bytes)?;
    // It may have shrunk meanwhile.
    bytes.truncate(n);
    Ok(bytes.into())
}
