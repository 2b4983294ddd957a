//! `perf.data`: the format of `perf record`, as a file or as a stream.
//!
//! ```text
//! Session ─► Attr (one per event) ─► Encoder ◄─ Record
//!    │                                  │
//!    │            preamble (kernel) ─► RecordStream ─┬─► PerfDataFile
//!    └─► features, tracing_data ────────────┘        └─► PerfDataPipe
//!
//! PerfDataFile   header, ids, attrs │ records │ features
//! PerfDataPipe   header │ attrs, names, features as records │ records
//! ```
//!
//! Nothing is held back: a record is written when it arrives. A file's header
//! and features follow at the end, which makes a run that was interrupted end
//! in a whole file too.

pub mod features;
mod kernel;
mod pipe;
mod stream;
pub mod tracing_data;

use std::io::{Seek, SeekFrom, Write};

pub use pipe::PerfDataPipe;

use self::features::Summary;
use self::stream::RecordStream;
use super::{ExportError, Sink};
use crate::perf::abi::{ATTR_SIZE, FILE_HEADER_SIZE, MAGIC};
use crate::perf::record::{Record, Session};
use crate::perf::session_attr::Attr;
use crate::perf::session_encode::Encoder;

/// Bytes of `struct perf_file_attr`: an attribute and the section of its ids.
const FILE_ATTR_SIZE: u64 = ATTR_SIZE as u64 + 16;

/// Writes a `perf.data` file.
///
/// ```text
/// header 104 │ ids 8 × events │ perf_file_attr 144 × events
///            │ data: records │ (offset, size) × features │ features
/// ```
///
/// The header is written twice: with a data size of 0 at the start (perf then
/// reads what it finds and warns), and whole by [`Sink::finish`].
#[derive(Debug)]
pub struct PerfDataFile<W: Write + Seek> {
    stream: RecordStream<W>,
    session: Session,
    summary: Summary,
    finished: bool,
}

impl<W: Write + Seek> PerfDataFile<W> {
    /// Starts a file at the beginning of `out`, called `to` in errors.
    ///
    /// # Errors
    ///
    /// [`ExportError::NoEvents`], [`ExportError::Write`]
    pub fn new(session: &Session, out: W, to: String) -> Result<PerfDataFile<W>, ExportError> {
        if session.events.is_empty() {
            return Err(ExportError::NoEvents);
        }
        let encoder = Encoder::new(Attr::all(session));
        let attrs = encoder.attrs();
        let mut head = header(attrs.len(), 0, 0);
        head.extend(attrs.iter().flat_map(|a| a.id.to_le_bytes()));
        for (i, attr) in (0u64..).zip(attrs) {
            head.extend(attr.bytes());
            head.extend((FILE_HEADER_SIZE + 8 * i).to_le_bytes());
            head.extend(8u64.to_le_bytes());
        }
        let preamble = kernel::preamble(session, &encoder);
        let mut stream = RecordStream::new(out, to, encoder);
        stream.raw("the file header", &head)?;
        stream.raw("the kernel's symbols", &preamble)?;
        Ok(PerfDataFile {
            stream,
            session: session.clone(),
            summary: Summary::default(),
            finished: false,
        })
    }
}

impl<W: Write + Seek> Sink for PerfDataFile<W> {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        if self.finished {
            return Err(ExportError::Finished { what: "perf.data file" });
        }
        if let Record::Sample(sample) = record {
            self.summary.add(sample);
        }
        self.stream.record(record)
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        if self.finished {
            return Ok(());
        }
        let attrs = self.stream.encoder().attrs();
        let events = attrs.len();
        let features = features::of_file(&self.session, attrs, self.summary)?;
        let data_end = self.stream.written();

        let mut at = data_end + 16 * features.len() as u64;
        let (mut table, mut sections, mut bits) = (Vec::new(), Vec::new(), 0);
        for f in &features {
            table.extend(at.to_le_bytes());
            table.extend((f.bytes.len() as u64).to_le_bytes());
            sections.extend(&f.bytes);
            at += f.bytes.len() as u64;
            bits |= 1 << f.bit;
        }
        self.stream.raw("the file's features", &table)?;
        self.stream.raw("the file's features", &sections)?;

        let header = header(events, data_end - data_offset(events), bits);
        self.stream.with_out("the file header", |out| {
            out.seek(SeekFrom::Start(0))?;
            out.write_all(&header)?;
            out.seek(SeekFrom::Start(at))?;
            out.flush()
        })?;
        self.finished = true;
        Ok(())
    }
}

/// `struct perf_file_header`. `features` are the lower 64 bits of the bitmap.
fn header(events: usize, data_size: u64, features: u64) -> Vec<u8> {
    let attrs_size = FILE_ATTR_SIZE * events as u64;
    let attrs_offset = data_offset(events) - attrs_size;
    let words = [
        FILE_HEADER_SIZE,
        FILE_ATTR_SIZE,
        attrs_offset,
        attrs_size,
        data_offset(events),
        data_size,
        0, // event types: unused
        0,
        features,
        0,
        0,
        0,
    ];
    let mut b = MAGIC.to_vec();
    b.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    b
}

/// Where the records start.
fn data_offset(events: usize) -> u64 {
    FILE_HEADER_SIZE + (8 + FILE_ATTR_SIZE) * events as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::testing::{event, sample, session};
    use arch::Arch;
    use std::io::Cursor;

    #[test]
    fn header_of_two_events() {
        let s = session(
            Arch::X86_64,
            vec![event(EventKind::Cycles, "cycles"), event(EventKind::CpuClock, "cpu-clock")],
        );
        let mut out = Cursor::new(Vec::new());
        let mut file = PerfDataFile::new(&s, &mut out, "test".into()).unwrap();
        let start = file.stream.written();
        file.record(&Record::Sample(sample(0, 5))).unwrap();
        file.record(&Record::Sample(sample(1, 7))).unwrap();
        let end = file.stream.written();
        file.finish().unwrap();
        file.finish().unwrap();
        assert!(matches!(
            file.record(&Record::Sample(sample(0, 8))),
            Err(ExportError::Finished { .. })
        ));
        let b = out.into_inner();
        let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
        assert_eq!(&b[..8], b"PERFILE2");
        let head: Vec<u64> = (1..=12).map(|i| word(8 * i)).collect();
        let data = 104 + 16 + 2 * 144;
        assert_eq!(head[..5], [104, 144, 120, 288, data]);
        assert_eq!(head[5], end - data);
        assert!(start > data);
        assert_eq!(
            head[8],
            1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11 | 1 << 12 | 1 << 21 | 1 << 33
        );
        assert_eq!((word(104), word(112)), (1, 2), "ids");
        assert_eq!((word(120 + 128), word(120 + 136)), (104, 8), "first event's ids");
        // The last feature ends where the file ends.
        let last = end as usize + 16 * 8;
        assert_eq!(word(last) + word(last + 8), b.len() as u64);
    }

    #[test]
    fn no_events() {
        let s = session(Arch::X86_64, vec![]);
        let r = PerfDataFile::new(&s, Cursor::new(Vec::new()), "test".into());
        assert!(matches!(r, Err(ExportError::NoEvents)));
    }
}
