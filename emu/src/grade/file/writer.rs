//! Writes a truth file, line by line.

use std::io::{self, BufWriter, Write};

use super::{Header, Line, MappedFile, Sample, Undecided};

/// See the module. After an error nothing more is written: [`Writer::finish`] has it.
pub struct Writer {
    out: BufWriter<Box<dyn Write>>,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl Writer {
    /// A file that begins with `header`.
    pub fn new(out: Box<dyn Write>, header: Header) -> Writer {
        let mut writer = Writer { out: BufWriter::new(out), failed: None };
        writer.line(&Line::Header(header));
        writer
    }

    /// A file of code was mapped, one of the first [`MAX_MODULES`](super::MAX_MODULES).
    pub fn module(&mut self, module: MappedFile) {
        self.line(&Line::Module(module));
    }

    /// A sample was graded.
    pub fn sample(&mut self, sample: Sample) {
        self.line(&Line::Sample(Box::new(sample)));
    }

    /// A sample was taken that cannot be graded.
    pub fn undecided(&mut self, sample: Undecided) {
        self.line(&Line::Undecided(Box::new(sample)));
    }

    fn line(&mut self, line: &Line) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
        self.failed = written.and_then(|()| self.out.write_all(b"\n")).err();
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// The first error of the host.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}
