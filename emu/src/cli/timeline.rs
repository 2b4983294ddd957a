//! `emu run --timeline`: where it goes, and what it needs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::options::is_stdout;
use crate::cli::output::{Destination, Failure, Style, status};
use crate::cli::place::Names;
use crate::export::Images;
use crate::kernel::State;
use crate::symbols::LookupAddress;
use crate::timeline::range::Range;
use crate::timeline::{Format, Handle, Settings};

/// The story of the run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Timeline")]
pub struct TimelineOptions {
    /// Print every step of the kernel, one a line, and the user code between: what it did and
    /// what it changed; or only the events FROM to TO, numbered as printed. It goes to
    /// standard output and the guest's output to standard error
    #[arg(long, value_name = "FROM..TO", num_args = 0..=1, require_equals = true,
        default_missing_value = "..")]
    pub timeline: Option<Range>,
    /// Also print the calls and returns of kernel functions, which have no number
    #[arg(long, requires = "timeline")]
    pub timeline_all: bool,
    /// Format of the timeline: text, or chrome (JSON for ui.perfetto.dev)
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        requires = "timeline",
        hide_possible_values = true
    )]
    pub timeline_format: TimelineFormat,
    /// Write the timeline to FILE
    #[arg(long, value_name = "FILE", requires = "timeline")]
    pub timeline_output: Option<PathBuf>,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// A line a step.
    Text,
    /// Trace events.
    Chrome,
}

impl TimelineOptions {
    /// No timeline.
    pub fn none() -> TimelineOptions {
        TimelineOptions {
            timeline: None,
            timeline_all: false,
            timeline_format: TimelineFormat::Text,
            timeline_output: None,
        }
    }

    /// The file that it goes to, if it does.
    pub fn file(&self) -> Option<&Path> {
        self.timeline_output.as_deref().filter(|f| !is_stdout(f.as_os_str()))
    }

    /// Whether it goes to standard output.
    pub fn takes_stdout(&self) -> bool {
        self.timeline.is_some() && self.file().is_none()
    }

    /// Begins the timeline that was asked for.
    ///
    /// # Errors
    ///
    /// [`Failure`] if it has no place to go.
    pub fn start(
        &self,
        state: &mut State,
        profile: &Destination,
        images: &mut Images,
    ) -> Result<Option<Handle>, Failure> {
        let Some(range) = self.timeline else { return Ok(None) };
        let out: Box<dyn Write> = match &self.timeline_output {
            Some(path) if !self.takes_stdout() => {
                let file = File::create(path).map_err(|e| self.failure(&e))?;
                Box::new(BufWriter::new(file))
            }
            _ if *profile == Destination::Stdout => {
                return Err(Failure::new(
                    status::FAILURE,
                    "--timeline: the profile takes standard output; \
                     write the timeline to a file with --timeline-output",
                ));
            }
            _ => Box::new(BufWriter::new(io::stdout())),
        };
        let names = Names::new(state, images);
        let name = move |pc| {
            let place = names.place(LookupAddress::Instruction(pc));
            place.short(Style::PLAIN)
        };
        let format = match self.timeline_format {
            TimelineFormat::Text => Format::Text,
            TimelineFormat::Chrome => Format::Chrome,
        };
        let settings = Settings { format, range, calls: self.timeline_all };
        Ok(Some(Handle::start(state, settings, Box::new(name), out)))
    }

    /// Ends it. A reader that has gone, such as `head`, has seen enough.
    ///
    /// # Errors
    ///
    /// [`Failure`] if it could not be written.
    pub fn finish(&self, timeline: &Handle) -> Result<(), Failure> {
        match timeline.finish() {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(self.failure(&e)),
            _ => Ok(()),
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let to = self.timeline_output.as_ref().filter(|_| !self.takes_stdout());
        let to = to.map_or("standard output".into(), |f| f.to_string_lossy());
        let message =
            format!("cannot write the timeline to {to}: {error}; choose --timeline-output");
        Failure::new(status::FAILURE, message)
    }
}
