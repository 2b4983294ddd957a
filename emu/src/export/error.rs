//! What can go wrong while a profile is written.

use std::io;
use std::path::PathBuf;

use crate::perf::session_encode::UnknownEvent;

/// Why a profile could not be written.
///
/// An exporter that returned an error has stopped in the middle of its output;
/// what it wrote is not a valid profile unless [`super::Sink::finish`] later
/// succeeds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output file could not be created.
    #[error("cannot create {}: {source}; choose another file with -o", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// The output could not be written or, for `perf.data`, rewound.
    #[error(
        "cannot write {what} to {to}: {source}; check the free space, or choose another file with -o"
    )]
    Write {
        /// The part being written.
        what: &'static str,
        /// File name, or `standard output`.
        to: String,
        /// What the host said.
        source: io::Error,
    },
    /// A session without events, whose samples would have no meaning.
    #[error("cannot export a session without events; select at least one with -e")]
    NoEvents,
    /// A sample names an event that the session does not have.
    #[error(transparent)]
    UnknownEvent(#[from] UnknownEvent),
    /// A record came after [`super::Sink::finish`].
    #[error(
        "a record arrived after the {what} was finished; this is a bug in emu, please report it"
    )]
    Finished {
        /// Which output.
        what: &'static str,
    },
    /// A feature of the file's header outgrew its 32-bit length.
    #[error("{what} is too long for a perf.data header ({len} bytes); shorten it")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
    },
}
