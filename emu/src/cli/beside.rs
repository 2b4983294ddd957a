//! Profiles of the sessions beside the main one, and what is said of them.

use std::fmt::Write as _;

use crate::cli::output::{Destination, Failure};
use crate::cli::run::{Job, Profiled, samples_of};
use crate::cli::summary::{bytes, duration};
use crate::export::{ExportError, Format, Sink};
use crate::kernel::State;
use crate::numbers::grouped;
use crate::perf::record::Record;
use crate::perf::session::{SessionId, Span};
use crate::recording::profile::ProfileDigest;

/// One for each session.
pub struct Beside(Vec<One>);

struct One {
    destination: Destination,
    sink: Profiled,
    digest: Option<ProfileDigest>,
}

impl Beside {
    /// Opens the files. Where the main profile is not wanted, only those that were named.
    ///
    /// # Errors
    ///
    /// [`Failure`] if a file cannot be written.
    pub fn open(job: &Job, state: &State) -> Result<Beside, Failure> {
        let mut all: Vec<One> = Vec::new();
        let sessions = job.options.sampling.sessions.iter().zip(job.beside());
        for ((words, destination), (_, profile)) in sessions.zip(state.perf.profiles().skip(1)) {
            let session = &profile.session;
            let output = destination.open(Format::PerfData)?;
            let (merge, images) = (words.sampling.merge, job.world.images(state));
            let sink = Profiled::open(session, merge, Format::PerfData, output, images)?;
            let digest = job.digest.then(|| ProfileDigest::new(session)).transpose()?;
            all.push(One { destination, sink, digest });
        }
        Ok(Beside(all))
    }

    /// Takes records of a session.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if they cannot be written.
    pub fn take(&mut self, id: SessionId, records: &[Record]) -> Result<(), ExportError> {
        let Some(one) = id.0.checked_sub(1).and_then(|n| self.0.get_mut(n)) else { return Ok(()) };
        for record in records {
            if let Some(digest) = &mut one.digest {
                digest.record(record)?;
            }
            one.sink.record(record)?;
        }
        Ok(())
    }

    /// Ends the profiles.
    ///
    /// # Errors
    ///
    /// [`ExportError`] of the first that cannot be ended; the others are.
    pub fn finish(&mut self) -> Result<(), ExportError> {
        let finished: Vec<_> = self.0.iter_mut().map(|one| one.sink.finish()).collect();
        finished.into_iter().collect()
    }

    /// The digests, of those that are wanted.
    ///
    /// # Errors
    ///
    /// [`ExportError`] of the last records.
    pub fn digests(self) -> Result<Vec<Option<String>>, ExportError> {
        self.0.into_iter().map(|one| one.digest.map(ProfileDigest::finish).transpose()).collect()
    }

    /// A paragraph about each session; empty without any.
    pub fn summary(&self, state: &State) -> String {
        let mut text = String::new();
        for (one, (id, profile)) in self.0.iter().zip(state.perf.profiles().skip(1)) {
            let samples = samples_of(profile).into_iter();
            let samples: Vec<String> =
                samples.map(|(event, n)| format!("{} of {event}", grouped(n))).collect();
            let open = match profile.span {
                Span { from: 0, until: None } => String::new(),
                Span { from, until: None } => format!(", from {}", duration(from)),
                Span { from, until: Some(until) } => {
                    format!(", from {} to {}", duration(from), duration(until))
                }
            };
            let size = one.destination.regular_file().and_then(|f| f.metadata().ok());
            let size = size.map(|m| format!(" ({})", bytes(m.len()))).unwrap_or_default();
            let place = match &one.destination {
                Destination::Nowhere => String::new(),
                file => format!("; profile in {}{size}", file.name()),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "\nSession {}{open}: samples: {}{place}.",
                id.0 + 1,
                samples.join(", ")
            );
        }
        text
    }
}
