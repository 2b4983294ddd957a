//! Profiles in the formats of other tools.
//!
//! ```text
//!                    ┌─► perf_data: perf.data file, or stream      (perf script, perf report, …)
//! Session, Record* ──┼─► folded: one line per distinct stack       (flame graphs)
//!    (Sink)          └─► script: text like `perf script`           (people, grep)
//!                          ▲
//!            processes: mappings and names so far ◄── symbols ◄── Images: mapped files
//!
//! perf.data file ─► perf_read ─► merge ─► perf.data file without deferred callchains
//! ```
//!
//! A [`Sink`] takes the records of one session in time order and writes as it
//! goes; only `folded` collects, one number per distinct stack. Nothing here asks
//! the host for its time, names or randomness: the same records and mapped files
//! give the same bytes.

mod error;
pub mod folded;
pub mod images;
pub mod kallsyms;
pub mod merge;
pub mod merging;
pub mod perf_data;
pub mod perf_read;
pub mod processes;
pub mod script;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

pub use error::ExportError;
pub use images::Images;

use crate::perf::record::{Record, Session};

/// Takes the records of one session.
pub trait Sink {
    /// Takes the next record; times never decrease.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if the output cannot be written or the record does not
    /// belong to the session.
    fn record(&mut self, record: &Record) -> Result<(), ExportError>;

    /// Completes the output, however many records came: a session that was
    /// interrupted becomes a whole, shorter profile. Later calls do nothing.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if the output cannot be written.
    fn finish(&mut self) -> Result<(), ExportError>;
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `perf.data`, see [`perf_data`].
    PerfData,
    /// Folded stacks, see [`folded`].
    Folded,
    /// Text, see [`script`].
    Script,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: [Format; 3] = [Format::PerfData, Format::Folded, Format::Script];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::PerfData => "perf",
            Format::Folded => "folded",
            Format::Script => "script",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
            let names: Vec<_> = Format::ALL.iter().map(|f| f.name()).collect();
            format!("unknown format {name:?}; use one of {}", names.join(", "))
        })
    }
}

/// Where a profile goes.
pub enum Output {
    /// A file that is created or overwritten.
    File(PathBuf),
    /// Something that is only written to, in order: `perf.data` takes its stream
    /// form there.
    Stream {
        /// The destination; it is buffered here.
        out: Box<dyn Write>,
        /// What errors call it: `standard output`.
        name: String,
    },
}

/// Opens a sink for `session` that writes `format` to `output`. The text
/// formats take symbols from `images`.
///
/// # Errors
///
/// [`ExportError::Create`], [`ExportError::Write`], [`ExportError::NoEvents`]
pub fn open(
    format: Format,
    session: &Session,
    output: Output,
    images: Images,
) -> Result<Box<dyn Sink>, ExportError> {
    let (out, to): (Box<dyn Write>, String) = match output {
        Output::Stream { out, name } => (out, name),
        Output::File(path) => {
            let to = path.display().to_string();
            let create = |source| ExportError::Create { path: path.clone(), source };
            let file = File::create(&path).map_err(create)?;
            let seekable = file.metadata().map_err(create)?.is_file();
            if format == Format::PerfData && seekable {
                let file = BufWriter::new(file);
                return Ok(Box::new(perf_data::PerfDataFile::new(session, file, to)?));
            }
            (Box::new(file), to)
        }
    };
    let out = BufWriter::new(out);
    Ok(match format {
        Format::PerfData => Box::new(perf_data::PerfDataPipe::new(session, out, to)?),
        Format::Folded => Box::new(folded::Folded::new(session, out, to, images)?),
        Format::Script => Box::new(script::Script::new(session, out, to, images)?),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn format_names() {
        for f in Format::ALL {
            assert_eq!(f.name().parse(), Ok(f));
        }
        let error = "pprof".parse::<Format>().unwrap_err();
        assert_eq!(error, "unknown format \"pprof\"; use one of perf, folded, script");
    }
}
