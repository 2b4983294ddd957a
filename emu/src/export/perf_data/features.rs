//! The features of a file's header: facts about the recording that are no
//! records. All of them are constants or come from the session: the host is
//! never asked, so that the same session gives the same bytes everywhere.

use arch::Arch;

use super::tracing_data;
use crate::export::ExportError;
use crate::perf::abi::{ATTR_SIZE, feature};
use crate::perf::record::{Sample, Session, Time};
use crate::perf::session_attr::Attr;

/// Host name in the header.
pub const HOSTNAME: &str = "emu";
/// Release of the modelled kernel.
pub const OSRELEASE: &str = "7.3.0-emu";
/// Version of the recording tool.
pub const VERSION: &str = "emu";

/// Strings are padded to this many bytes (`NAME_ALIGN`).
const NAME_ALIGN: usize = 64;

/// One feature: its bit (`feature::*`) and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Bit in the header's bitmap.
    pub bit: u32,
    /// Content of its section.
    pub bytes: Vec<u8>,
}

/// The features that are known before the first record, in ascending order of
/// their bits: all that a stream has.
///
/// # Errors
///
/// [`ExportError::TooLong`] for a command line beyond 4 GiB.
pub fn known_at_start(session: &Session, attrs: &[Attr]) -> Result<Vec<Feature>, ExportError> {
    common(session, attrs, 0)
}

/// What the samples were like, gathered while they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Times of the first and the last sample, if there is any.
    pub times: Option<(Time, Time)>,
    /// One more than the highest CPU number.
    pub cpus: u32,
}

impl Summary {
    /// Takes a sample into account.
    pub fn add(&mut self, sample: &Sample) {
        let (first, last) = self.times.unwrap_or((sample.time, sample.time));
        self.times = Some((first.min(sample.time), last.max(sample.time)));
        self.cpus = self.cpus.max(sample.cpu.saturating_add(1));
    }
}

fn common(session: &Session, attrs: &[Attr], cpus: u32) -> Result<Vec<Feature>, ExportError> {
    // perf 7 warns of a sample from a CPU beyond the number in the header.
    let cpus = session.cpus.max(cpus).max(1);
    let mut features = Vec::new();
    let mut add = |bit, bytes| features.push(Feature { bit, bytes });
    add(feature::HOSTNAME, string(HOSTNAME.as_bytes())?);
    add(feature::OSRELEASE, string(OSRELEASE.as_bytes())?);
    add(feature::VERSION, string(VERSION.as_bytes())?);
    if names_arch(session.arch) {
        add(feature::ARCH, string(session.arch.name().as_bytes())?);
    }
    add(feature::NRCPUS, [cpus; 2].iter().flat_map(|n| n.to_le_bytes()).collect());
    add(feature::CMDLINE, command_line(&session.cmdline)?);
    add(feature::EVENT_DESC, event_desc(attrs)?);
    Ok(features)
}

/// All features of a file, in ascending order of their bits.
///
/// # Errors
///
/// As [`known_at_start`].
pub fn of_file(
    session: &Session,
    attrs: &[Attr],
    summary: Summary,
) -> Result<Vec<Feature>, ExportError> {
    let mut features = common(session, attrs, summary.cpus)?;
    if let Some(bytes) = tracing_data::section(session) {
        features.insert(0, Feature { bit: feature::TRACING_DATA, bytes });
    }
    if let Some((first, last)) = summary.times {
        let bytes = [first, last].iter().flat_map(|t| t.to_le_bytes()).collect();
        features.push(Feature { bit: feature::SAMPLE_TIME, bytes });
    }
    let machine = [u32::from(session.arch.elf_machine()), 0]; // e_machine, e_flags
    let bytes = machine.iter().flat_map(|n| n.to_le_bytes()).collect();
    features.push(Feature { bit: feature::E_MACHINE, bytes });
    Ok(features)
}

/// Whether the header names the architecture. When it says aarch64, perf wants
/// to unwind the callers of leaf functions, and a perf of another architecture
/// without a matching libunwind warns that it cannot (seen in perf 6.1). Without
/// the name it takes its own: on aarch64 nothing changes. Newer ones take
/// `HEADER_E_MACHINE`.
fn names_arch(arch: Arch) -> bool {
    arch != Arch::Aarch64
}

/// `struct perf_header_string`: padded length and the NUL-terminated bytes.
fn string(text: &[u8]) -> Result<Vec<u8>, ExportError> {
    let padded = (text.len() + 1).next_multiple_of(NAME_ALIGN);
    let len = u32::try_from(padded)
        .map_err(|_| ExportError::TooLong { what: "a string", len: text.len() })?;
    let mut b = len.to_le_bytes().to_vec();
    b.extend(text);
    b.resize(4 + padded, 0);
    Ok(b)
}

fn command_line(words: &[String]) -> Result<Vec<u8>, ExportError> {
    let mut b = count(words.len(), "the command line")?;
    for word in words {
        b.extend(string(word.as_bytes())?);
    }
    Ok(b)
}

/// Names and ids of the events: the attributes hold no names.
fn event_desc(attrs: &[Attr]) -> Result<Vec<u8>, ExportError> {
    let mut b = count(attrs.len(), "the list of events")?;
    b.extend(ATTR_SIZE.to_le_bytes());
    for attr in attrs {
        b.extend(attr.bytes());
        b.extend(1u32.to_le_bytes()); // number of ids
        b.extend(string(attr.name.as_bytes())?);
        b.extend(attr.id.to_le_bytes());
    }
    Ok(b)
}

fn count(n: usize, what: &'static str) -> Result<Vec<u8>, ExportError> {
    let n32 = u32::try_from(n).map_err(|_| ExportError::TooLong { what, len: n })?;
    Ok(n32.to_le_bytes().to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::testing::{event, session};

    #[test]
    fn strings_are_padded_with_at_least_one_nul() {
        assert_eq!(string(b"").unwrap().len(), 4 + 64);
        assert_eq!(string(&[b'a'; 63]).unwrap().len(), 4 + 64);
        let s = string(&[b'a'; 64]).unwrap();
        assert_eq!(s[..5], [128, 0, 0, 0, b'a']);
        assert_eq!(s.len(), 4 + 128);
    }

    #[test]
    fn ascending_bits_and_layout() {
        let s = session(Arch::Aarch64, vec![event(EventKind::SysEnter, "raw_syscalls:sys_enter")]);
        let attrs = Attr::all(&s);
        let summary = Summary { times: Some((5, 9)), cpus: 3 };
        let f = of_file(&s, &attrs, summary).unwrap();
        let bits: Vec<u32> = f.iter().map(|f| f.bit).collect();
        assert_eq!(bits, [1, 3, 4, 5, 7, 11, 12, 21, 33], "no ARCH");
        assert_eq!(f[4].bytes, [3, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(f[5].bytes.len(), 4 + 2 * 68); // "emu", "run"
        assert_eq!(f[6].bytes.len(), 8 + 128 + 4 + 68 + 8);
        assert_eq!(f[7].bytes, [5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(f[8].bytes, [183, 0, 0, 0, 0, 0, 0, 0]);
    }
}
