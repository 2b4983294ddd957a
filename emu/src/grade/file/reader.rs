//! Reads a truth file: any bytes get an answer, in bounded memory.

use std::io::{self, BufRead, Read};

use arch::Arch;

use super::{
    Header, Hex, Line, MAX_MODULES, MappedFile, SCHEMA, Sample, Undecided, VERSION, json_error,
    registers,
};

/// Longest line that is read. The longest that is written has 64 KiB of stack, 1,024 frames,
/// 4,096 tail callers and what the methods read, less than 3 MiB of text.
const MAX_LINE: u64 = 16 << 20;

/// What lines with a sample begin with.
const SAMPLES: [&[u8]; 2] = [b"{\"sample\":", b"{\"undecided\":"];

/// Why a truth file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The host cannot.
    #[error("line {line}: {source}")]
    Io {
        /// From 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// What is there is not what should be.
    #[error("line {line}: {what}; write it again with emu run --truth")]
    Damaged {
        /// From 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The first line does not say that it is a truth file, or one of another version.
    #[error("{0}")]
    Other(String),
    /// There is no such sample.
    #[error("there is no sample {wanted}: {}", range(*.samples))]
    NoSample {
        /// Its number.
        wanted: u64,
        /// How many there are.
        samples: u64,
    },
}

fn range(samples: u64) -> String {
    match samples {
        0 => "the run took none".to_owned(),
        n => format!("the file has 1 to {n}"),
    }
}

/// The sample that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With its true stack.
    Graded(Found),
    /// Without.
    Undecided(Found<Undecided>),
}

/// A sample and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<S = Sample> {
    /// Of the file.
    pub header: Header,
    /// Whose registers they are.
    pub arch: Arch,
    /// What was mapped when it was taken.
    pub modules: Vec<MappedFile>,
    /// The sample.
    pub sample: S,
}

/// Takes a file apart.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    text: Vec<u8>,
    header: Header,
    arch: Arch,
}

impl<R: BufRead> Reader<R> {
    /// A file that begins with a header.
    ///
    /// # Errors
    ///
    /// [`ReadError`]: it does not, or not with one that is known.
    pub fn new(input: R) -> Result<Reader<R>, ReadError> {
        let header = Header {
            schema: String::new(),
            version: 0,
            arch: String::new(),
            methods: Vec::new(),
            root: None,
        };
        let mut reader = Reader { input, line: 0, text: Vec::new(), header, arch: Arch::X86_64 };
        let other = |what: &str| ReadError::Other(what.to_owned());
        if !reader.next_line()? {
            return Err(other("the file is empty; write it with emu run --truth"));
        }
        let Ok(Line::Header(header)) = serde_json::from_slice(&reader.text) else {
            return Err(other("not a truth file; emu run --truth writes one"));
        };
        if header.schema != SCHEMA || header.version != VERSION {
            let what = format!(
                "schema {:?}, version {}: this emu reads {SCHEMA:?}, version {VERSION}",
                header.schema, header.version
            );
            return Err(ReadError::Other(what));
        }
        reader.arch = header.arch.parse().map_err(|e| reader.damaged(e))?;
        reader.header = header;
        Ok(reader)
    }

    /// What holds for all samples.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Looks for sample `n`, from the first line on.
    ///
    /// # Errors
    ///
    /// [`ReadError`]: there is none, or a line up to there is damaged.
    pub fn find(mut self, n: u64) -> Result<Answer, ReadError> {
        let (mut modules, mut samples) = (Vec::new(), 0);
        while self.next_line()? {
            if SAMPLES.iter().any(|begin| self.text.starts_with(begin)) {
                samples += 1;
                if samples != n {
                    continue; // the others are not looked into
                }
            }
            match serde_json::from_slice(&self.text) {
                Ok(Line::Module(module)) if modules.contains(&module) => {} // of another part
                Ok(Line::Module(module)) if modules.len() < MAX_MODULES => modules.push(module),
                Ok(Line::Sample(sample)) => {
                    self.check(&sample, n)?;
                    return Ok(Answer::Graded(self.found(modules, *sample)));
                }
                Ok(Line::Undecided(sample)) => {
                    self.check_thread(sample.n, &sample.registers, n)?;
                    return Ok(Answer::Undecided(self.found(modules, *sample)));
                }
                Ok(Line::Module(_)) => {
                    return Err(self.damaged(format!("more than {MAX_MODULES} modules")));
                }
                Ok(Line::Header(_)) => return Err(self.damaged("a second header")),
                Err(error) => return Err(self.damaged(json_error(&error))),
            }
        }
        Err(ReadError::NoSample { wanted: n, samples })
    }

    fn found<S>(self, modules: Vec<MappedFile>, sample: S) -> Found<S> {
        Found { header: self.header, arch: self.arch, modules, sample }
    }

    /// What JSON alone does not promise of the thread's part of sample `n`.
    fn check_thread(&self, found: u64, of: &[Hex], n: u64) -> Result<(), ReadError> {
        let wanted = registers(self.arch);
        if found != n {
            return Err(self.damaged(format!("sample {found} where {n} should be")));
        }
        if of.len() != wanted {
            let found = of.len();
            return Err(self.damaged(format!("{found} registers, {} has {wanted}", self.arch)));
        }
        Ok(())
    }

    /// The same of all of it.
    fn check(&self, sample: &Sample, n: u64) -> Result<(), ReadError> {
        self.check_thread(sample.n, &sample.registers, n)?;
        if sample.frames.is_empty() {
            return Err(self.damaged("a sample without frames"));
        }
        let mut end = Some(0);
        for piece in &sample.memory {
            let start = piece.address.0;
            if end.is_none_or(|end| start < end) || piece.bytes.0.is_empty() {
                return Err(self.damaged(format!("memory at {start:#x} is out of order")));
            }
            // Not empty, see above.
            let Some(last) = start.checked_add(piece.bytes.0.len() as u64 - 1) else {
                let what = format!("memory at {start:#x} ends behind the address space");
                return Err(self.damaged(what));
            };
            end = last.checked_add(1);
        }
        Ok(())
    }

    /// Reads a line; `false` at the end.
    fn next_line(&mut self) -> Result<bool, ReadError> {
        self.line += 1;
        self.text.clear();
        let mut limited = (&mut self.input).take(MAX_LINE + 1);
        let read = limited.read_until(b'\n', &mut self.text);
        read.map_err(|source| ReadError::Io { line: self.line, source })?;
        if self.text.len() as u64 > MAX_LINE {
            return Err(self.damaged("longer than any line of a truth file"));
        }
        Ok(!self.text.is_empty())
    }

    fn damaged(&self, what: impl ToString) -> ReadError {
        let what = what.to_string().replace(['\n', '\r'], " ");
        ReadError::Damaged { line: self.line, what }
    }
}
