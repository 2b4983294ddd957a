//! The faults of an earlier report, so that only new ones count.
//!
//! A fault is known by module, symbol, offset behind it, method and kind: not by its address,
//! which moves with every change of the program, and not by the function's demangled name, which
//! many may have.

use std::collections::HashSet;
use std::io::{BufRead, Read};

use crate::grade::check::report::{Fault, Header, Line, SCHEMA, Symbol, VERSION};
use crate::grade::file::json_error;

/// A line of a baseline is not longer.
const MAX_LINE: u64 = 1 << 20;
/// It has no more faults.
const MAX_FAULTS: usize = 4_000_000;

/// What identifies a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    module: String,
    symbol: Option<Symbol>,
    /// Behind the symbol; without one the address is all there is.
    at: u64,
    method: String,
    wrong: String,
}

impl Key {
    fn of(fault: &Fault) -> Key {
        let Fault { module, symbol, method, wrong, .. } = fault;
        let at = if symbol.is_some() { fault.offset.0 } else { fault.pc.0 };
        let (module, symbol) = (module.clone(), symbol.clone());
        Key { module, symbol, at, method: method.clone(), wrong: wrong.clone() }
    }
}

/// Faults that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    header: Header,
    known: HashSet<Key>,
}

/// Why a file is no baseline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// It cannot be read.
    #[error("line {line}: {source}")]
    Read {
        /// From 1.
        line: usize,
        /// The system's words.
        source: std::io::Error,
    },
    /// A line is none of a report.
    #[error("line {line}: {reason}; write a baseline with: emu check --format json -o FILE")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It is a report of another version.
    #[error("version {found} of the format; this emu reads {VERSION}: write it anew")]
    Version {
        /// What it says.
        found: u32,
    },
    /// It ends before its summary.
    #[error("it ends after line {line}, without a summary: it was not written whole")]
    Cut {
        /// The last one.
        line: usize,
    },
}

impl Baseline {
    /// Reads the JSON lines of a report.
    ///
    /// # Errors
    ///
    /// [`BaselineError`]: the line, and what is wrong there.
    pub fn read(mut input: impl BufRead) -> Result<Baseline, BaselineError> {
        let mut known = HashSet::new();
        let mut first = None;
        let mut whole = false;
        let mut bytes = Vec::new();
        let mut line = 0;
        loop {
            bytes.clear();
            line += 1;
            let read = (&mut input).take(MAX_LINE).read_until(b'\n', &mut bytes);
            let read = read.map_err(|source| BaselineError::Read { line, source })?;
            let wrong = |reason: String| {
                // What is quoted from the file may hold anything.
                let reason = reason.replace(char::is_control, " ");
                BaselineError::Line { line, reason }
            };
            if let (0, true, Some(header)) = (read, whole, &first) {
                return Ok(Baseline { header: Header::clone(header), known });
            }
            if whole {
                return Err(wrong("a report ends with its summary".to_owned()));
            }
            if read == 0 {
                return Err(BaselineError::Cut { line: line - 1 });
            }
            if read as u64 == MAX_LINE || known.len() >= MAX_FAULTS {
                return Err(wrong("too long".to_owned()));
            }
            let parsed = serde_json::from_slice(&bytes).map_err(|e| wrong(json_error(&e)))?;
            match (line, parsed) {
                (1, Line::Header(header)) if header.schema != SCHEMA => {
                    return Err(wrong(format!(
                        "the schema is {:?}, not {SCHEMA:?}",
                        header.schema
                    )));
                }
                (1, Line::Header(header)) if header.version != VERSION => {
                    return Err(BaselineError::Version { found: header.version });
                }
                (1, Line::Header(header)) => first = Some(header),
                (1, _) | (_, Line::Header(_)) => {
                    return Err(wrong("a report has one header, its first line".to_owned()));
                }
                (_, Line::Fault(fault)) => drop(known.insert(Key::of(&fault))),
                (_, Line::Function(_)) => {}
                (_, Line::Summary(_)) => whole = true,
            }
        }
    }

    /// Whether a fault was there already.
    pub fn knows(&self, fault: &Fault) -> bool {
        self.known.contains(&Key::of(fault))
    }

    /// What was checked then.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Reads any bytes as a baseline.
///
/// # Panics
///
/// When a promise of the reader is broken: an error of more than one line, more faults than
/// lines.
pub fn fuzz_baseline(bytes: &[u8]) {
    match Baseline::read(bytes) {
        Ok(baseline) => assert!(baseline.len() <= bytes.split(|b| *b == b'\n').count()),
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control), "not one line: {line:?}");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"kind":"header","schema":"emu-check","version":2,"guest":"g","arch":"x86_64","methods":["fp"],"every":false}"#;
    const SUMMARY: &str = r#"{"kind":"summary","instructions":1,"pcs":1,"undecided":0,"checks":1,"points":{},"faults":[0]}"#;

    fn error(text: &str) -> String {
        Baseline::read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_line() {
        let whole = format!("{HEADER}\n{SUMMARY}\n");
        assert!(Baseline::read(whole.as_bytes()).unwrap().is_empty());
        assert!(error("").starts_with("it ends after line 0"));
        assert!(error(&format!("{HEADER}\n")).starts_with("it ends after line 1"));
        assert!(error(&format!("{SUMMARY}\n")).starts_with("line 1: a report has one header"));
        let hello = error(&format!("{HEADER}\nhello\n"));
        assert!(hello.starts_with("line 2: expected value (column 1); "), "{hello}");
        let other = HEADER.replace("\"version\":2", "\"version\":9");
        assert!(error(&other).starts_with("version 9"));
        assert!(error(&format!("{whole}{SUMMARY}\n")).starts_with("line 3: a report ends"));
        let other = HEADER.replace("emu-check", "else");
        assert!(error(&other).starts_with("line 1: the schema is"));
    }
}
