//! The stream form of `perf.data`, for outputs that cannot be rewound: what a
//! file keeps in its header comes as records before the first one.

use std::io::Write;

use super::stream::RecordStream;
use super::{features, kernel, tracing_data};
use crate::export::{ExportError, Sink};
use crate::perf::abi::{EVENT_UPDATE_NAME, MAGIC, PIPE_HEADER_SIZE, record};
use crate::perf::encode::{begin, end, push_padded};
use crate::perf::record::{Record, Session};
use crate::perf::session_attr::Attr;
use crate::perf::session_encode::Encoder;

/// Longest name of an event in a stream; a record's size has 16 bits.
const MAX_NAME: usize = 1024;
/// Longest feature in a stream; longer ones (a huge command line) are left out.
const MAX_FEATURE: usize = 60_000;

/// Writes `perf.data` as a stream, which `perf script -i -` reads.
#[derive(Debug)]
pub struct PerfDataPipe<W: Write> {
    stream: RecordStream<W>,
    finished: bool,
}

impl<W: Write> PerfDataPipe<W> {
    /// Starts a stream in `out`, called `to` in errors.
    ///
    /// # Errors
    ///
    /// [`ExportError::NoEvents`], [`ExportError::Write`]
    pub fn new(session: &Session, out: W, to: String) -> Result<PerfDataPipe<W>, ExportError> {
        if session.events.is_empty() {
            return Err(ExportError::NoEvents);
        }
        let encoder = Encoder::new(Attr::all(session));
        let mut head = MAGIC.to_vec();
        head.extend(PIPE_HEADER_SIZE.to_le_bytes());
        for attr in encoder.attrs() {
            header_attr(attr, &mut head);
        }
        for attr in encoder.attrs() {
            event_name(attr, &mut head);
        }
        for f in features::known_at_start(session, encoder.attrs())? {
            header_feature(&f, &mut head);
        }
        if let Some(section) = tracing_data::section(session) {
            header_tracing_data(&section, &mut head);
        }
        head.extend(kernel::preamble(session, &encoder));
        let mut stream = RecordStream::new(out, to, encoder);
        stream.raw("the stream's header", &head)?;
        Ok(PerfDataPipe { stream, finished: false })
    }
}

impl<W: Write> Sink for PerfDataPipe<W> {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        if self.finished {
            return Err(ExportError::Finished { what: "perf.data stream" });
        }
        self.stream.record(record)
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.finished = true;
        self.stream.with_out("the last records", |out| out.flush())
    }
}

/// `PERF_RECORD_HEADER_ATTR`: an event and its ids.
fn header_attr(attr: &Attr, out: &mut Vec<u8>) {
    let start = begin(out, record::HEADER_ATTR, 0);
    out.extend(attr.bytes());
    out.extend(attr.id.to_le_bytes());
    end(out, start);
}

/// `PERF_RECORD_EVENT_UPDATE`: the name of an event.
fn event_name(attr: &Attr, out: &mut Vec<u8>) {
    let start = begin(out, record::EVENT_UPDATE, 0);
    out.extend(EVENT_UPDATE_NAME.to_le_bytes());
    out.extend(attr.id.to_le_bytes());
    let name = attr.name.as_bytes();
    push_padded(out, &name[..name.len().min(MAX_NAME)]);
    end(out, start);
}

/// `PERF_RECORD_HEADER_FEATURE`. perf's own streams end the features with one
/// whose number is one beyond the last that *this version* of perf knows;
/// other versions reject that mark and do well without it.
fn header_feature(feature: &features::Feature, out: &mut Vec<u8>) {
    if feature.bytes.len() > MAX_FEATURE {
        return;
    }
    let start = begin(out, record::HEADER_FEATURE, 0);
    out.extend(u64::from(feature.bit).to_le_bytes());
    out.extend(&feature.bytes);
    out.resize(out.len().next_multiple_of(8), 0);
    end(out, start);
}

/// `PERF_RECORD_HEADER_TRACING_DATA`: the section follows the record, whose own
/// size does not count it.
fn header_tracing_data(section: &[u8], out: &mut Vec<u8>) {
    let padded = section.len().next_multiple_of(8);
    let start = begin(out, record::HEADER_TRACING_DATA, 0);
    out.extend((padded as u64).to_le_bytes()); // u32 size (a few KiB of constants), u32 padding
    end(out, start);
    out.extend(section);
    out.resize(out.len() + padded - section.len(), 0);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::testing::{event, session};
    use arch::Arch;

    #[test]
    fn stream_head() {
        let s = session(Arch::X86_64, vec![event(EventKind::SysExit, "raw_syscalls:sys_exit")]);
        let mut b = Vec::new();
        PerfDataPipe::new(&s, &mut b, "test".into()).unwrap().finish().unwrap();
        assert_eq!(b[..16], *b"PERFILE2\x10\0\0\0\0\0\0\0");
        assert_eq!(b[16..24], [64, 0, 0, 0, 0, 0, 144, 0]);
        assert_eq!(b[24 + 128..160], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(b[160..168], [78, 0, 0, 0, 0, 0, 48, 0]);
        assert_eq!(&b[184..206], b"raw_syscalls:sys_exit\0");
        // features, then the tracing data with its own size rule
        let mut at = 208;
        let mut kinds = Vec::new();
        while at < b.len() {
            let kind = u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
            let mut size = usize::from(u16::from_le_bytes([b[at + 6], b[at + 7]]));
            if kind == 66 {
                assert_eq!(size, 16);
                size += u32::from_le_bytes(b[at + 8..at + 12].try_into().unwrap()) as usize;
            }
            kinds.push(kind);
            at += size;
        }
        assert_eq!(at, b.len());
        assert_eq!(kinds, [80, 80, 80, 80, 80, 80, 80, 66, 10, 17, 82]);
    }
}
