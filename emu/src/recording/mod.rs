//! Recordings: a run with everything that it took from the host, in one file, to be run again
//! anywhere.
//!
//! ```text
//! emu record:  kernel ─► Recorder ─► RealHost           emu replay, emu test:  kernel ─► Replayer
//!                          │ first answer to each question                                  ▲
//!                          ▼                                                                │
//!                      Recording ─► file::seal ─► FILE.emu ─► file::open ─► Recording ──────┘
//! ```
//!
//! The kernel model asks the host through one trait, [`Host`](crate::kernel::vfs::Host). The
//! [`Recorder`] passes the questions on and keeps the first answer to each, which it also gives
//! to later ones: what the guest sees while it is recorded is what the recording says. The
//! [`Replayer`] answers from the recording and touches no file. All else in a run follows from
//! the options and the seed: time is virtual, and the schedule is the seed's.
//!
//! # The file
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`](file::MAGIC): `EMUREC`, carriage return, line feed |
//! | 4 | [`VERSION`]: others are refused, older and newer |
//! | 4 | 0 |
//! | 8 | length of the compressed body |
//! | 8 | length of the body, at most [`MAX_BODY`](file::MAX_BODY) |
//! | … | the body as one zstd frame |
//! | 32 | SHA-256 of everything before |
//!
//! The body is a sequence of sections: a tag of 4 bytes, the length in 8, the contents.
//!
//! | tag | how many | what |
//! |---|---|---|
//! | `MNFT` | 1, the first | the [`Manifest`] in JSON, at most [`file::MAX_MANIFEST`] |
//! | `STDN` | 1 | the bytes of standard input that were read |
//! | `FILE` | any | the contents of a host file, numbered from 0 |
//!
//! The version changes with anything that a reader would get wrong: a section, a field, what a
//! field means. What is in a recording:
//!
//! * [`manifest`]: program, arguments, environment, options, answers of the host, expectations;
//!   [`text`]: bytes in JSON.
//! * [`input`]: standard input in segments; [`output`]: what the guest wrote.
//! * [`recorder`], [`replayer`]: the two hosts; [`profile`]: the profile's digest.
//! * [`mod@file`]: the file; `check`: what a host can have answered; [`mod@fuzz`]: what must
//!   hold for any bytes.

mod check;
pub mod file;
pub mod fuzz;
pub mod input;
pub mod manifest;
pub mod output;
pub mod profile;
pub mod recorder;
pub mod replayer;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
pub mod text;

use std::path::Path;
use std::sync::Arc;

pub use file::ReadError;
pub use manifest::Manifest;
pub use recorder::{RecordError, Recorder};
pub use replayer::Replayer;

use manifest::Entry;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// A recording in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// All but the bytes of files.
    pub manifest: Manifest,
    /// Standard input as far as it was read.
    pub input: Vec<u8>,
    /// Contents of host files; [`Entry::file`] has the numbers.
    pub files: Vec<Arc<[u8]>>,
}

impl Recording {
    /// What is known about a path of the host.
    pub fn entry(&self, path: &Path) -> Option<&Entry> {
        let entries = &self.manifest.host;
        let at = entries.binary_search_by(|entry| entry.path.path().cmp(path)).ok()?;
        entries.get(at)
    }

    /// The contents of a host file, if they were read.
    pub fn contents(&self, path: &Path) -> Option<&Arc<[u8]>> {
        self.files.get(self.entry(path)?.file?.ok()? as usize)
    }
}
