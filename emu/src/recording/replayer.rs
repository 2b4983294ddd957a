//! The host that a recording remembers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arch::Errno;

use super::Recording;
use super::input::{Got, Position};
use super::manifest::{Answer, Entry, Output};
use super::output::OutputLog;
use super::recorder::result;
use crate::engine::FileMap;
use crate::kernel::vfs::host::{Status, Stream};
use crate::kernel::vfs::{Host, Lookup, RealHost};
use crate::loader::{FileError, LoadError};

/// Questions without an answer that are kept by name.
const MAX_MISSING: usize = 100;

/// Answers from a recording. Nothing of this machine's is read; what the guest writes goes to
/// `echo`, if there is one, and whether that succeeds is not the guest's business.
#[derive(Debug)]
pub struct Replayer {
    recording: Arc<Recording>,
    echo: Option<RealHost>,
    position: Cell<Position>,
    output: RefCell<[OutputLog; 2]>,
    missing: RefCell<BTreeSet<String>>,
}

impl Replayer {
    /// Replays `recording`.
    pub fn new(recording: Arc<Recording>, echo: Option<RealHost>) -> Replayer {
        Replayer {
            recording,
            echo,
            position: Cell::default(),
            output: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// What the guest wrote.
    pub fn output(&self) -> [Output; 2] {
        self.output.borrow().each_ref().map(OutputLog::output)
    }

    /// What the guest asked for that the recorded run had not, sorted; at most the first
    /// hundred such things. It was told that there is nothing.
    pub fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().cloned().collect()
    }

    fn miss(&self, what: String) {
        let mut missing = self.missing.borrow_mut();
        if missing.len() < MAX_MISSING {
            missing.insert(what);
        }
    }

    fn answer<T: Clone>(
        &self,
        path: &Path,
        field: impl Fn(&Entry) -> &Option<Answer<T>>,
    ) -> io::Result<T> {
        match self.recording.entry(path).and_then(|entry| field(entry).clone()) {
            Some(known) => result(known),
            None => {
                self.miss(path.to_string_lossy().into_owned());
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }
}

impl Host for Replayer {
    fn check_program(&self, path: &Path) -> Result<(), FileError> {
        match self.recording.contents(path) {
            Some(_) => Ok(()),
            None => Err(FileError { path: path.to_owned(), source: LoadError::Missing }),
        }
    }

    fn status(&self, path: &Path, how: Lookup) -> io::Result<Status> {
        match how {
            Lookup::Follow => self.answer(path, |e| &e.stat),
            Lookup::NoFollow => self.answer(path, |e| &e.lstat),
        }
    }

    fn link(&self, path: &Path) -> io::Result<String> {
        self.answer(path, |e| &e.link)
    }

    fn list(&self, path: &Path) -> Vec<String> {
        match self.recording.entry(path).and_then(|entry| entry.list.clone()) {
            Some(names) => names,
            None => {
                self.miss(path.to_string_lossy().into_owned());
                Vec::new()
            }
        }
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        self.answer(path, |e| &e.canonical).ok().map(|full| full.path().to_owned())
    }

    fn open(&self, path: &Path) -> io::Result<FileMap> {
        let number = self.answer(path, |e| &e.file)?;
        let file = self.recording.files.get(number as usize).cloned();
        file.map(FileMap::of_bytes).ok_or(io::ErrorKind::NotFound.into())
    }

    fn read_input(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut position = self.position.get();
        let got = position.read(&self.recording.input, &self.recording.manifest.input, buf);
        self.position.set(position);
        match got {
            Got::Bytes(n) => Ok(n),
            Got::Error(errno) => Err(Errno(errno)),
            Got::Unknown => {
                self.miss("standard input beyond what was read".to_owned());
                Ok(0)
            }
        }
    }

    fn write_output(&self, stream: Stream, bytes: &[u8]) -> Result<(), Errno> {
        let at = stream as usize;
        let log = &mut self.output.borrow_mut()[at];
        match self.recording.manifest.failed[at] {
            Some(failed) if log.writes >= failed.after => Err(Errno(failed.errno)),
            _ => {
                log.push(bytes);
                if let Some(echo) = &self.echo {
                    let _ = echo.write_output(stream, bytes);
                }
                Ok(())
            }
        }
    }
}
