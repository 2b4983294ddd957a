//! One record of the data section, taken apart without loss: what is not changed is written
//! back byte by byte.

use super::cursor::{Cursor, Words};
use super::sample::Sample;
use super::trailer::Trailer;
use super::{Events, ReadError};
use crate::perf::abi::{self, record as kind};
use crate::perf::encode::pair;

/// A record: header, body, trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// `perf_event_header.type`
    pub kind: u32,
    /// `perf_event_header.misc`
    pub misc: u16,
    /// Index of the event that it belongs to, among the file's attributes.
    pub event: usize,
    /// Its content.
    pub body: Body<'a>,
    /// Bytes behind the fields of the body that are known.
    pub tail: &'a [u8],
    /// Who, when and where, if the session's records have that.
    pub trailer: Option<Trailer>,
    /// What follows the record without being counted in its size: the payload of
    /// `PERF_RECORD_HEADER_TRACING_DATA` and `PERF_RECORD_AUXTRACE`.
    pub payload: &'a [u8],
}

/// A string with its NUL and the padding behind it, which runs to the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

impl<'a> Text<'a> {
    /// Up to the NUL.
    pub fn bytes(self) -> &'a [u8] {
        self.0.split(|&b| b == 0).next().unwrap_or_default()
    }
}

/// The content of a record, by its type. Fields have the kernel's names and units.
#[allow(missing_docs, reason = "the fields are those of perf_event_open(2)")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// `PERF_RECORD_MMAP`
    Mmap { pid: u32, tid: u32, addr: u64, len: u64, pgoff: u64, filename: Text<'a> },
    /// `PERF_RECORD_LOST`
    Lost { id: u64, lost: u64 },
    /// `PERF_RECORD_COMM`
    Comm { pid: u32, tid: u32, comm: Text<'a> },
    /// `PERF_RECORD_EXIT` or `PERF_RECORD_FORK`
    Task { pid: u32, ppid: u32, tid: u32, ptid: u32, time: u64 },
    /// `PERF_RECORD_THROTTLE` or `PERF_RECORD_UNTHROTTLE`
    Throttle { time: u64, id: u64, stream_id: u64 },
    /// `PERF_RECORD_SAMPLE`
    Sample(Box<Sample<'a>>),
    /// `PERF_RECORD_MMAP2`
    Mmap2 {
        pid: u32,
        tid: u32,
        addr: u64,
        len: u64,
        pgoff: u64,
        /// Device, inode and its generation, or a build id, as `misc` says.
        identity: [u8; 24],
        prot: u32,
        flags: u32,
        filename: Text<'a>,
    },
    /// `PERF_RECORD_LOST_SAMPLES`
    LostSamples { lost: u64 },
    /// `PERF_RECORD_SWITCH`
    Switch,
    /// `PERF_RECORD_SWITCH_CPU_WIDE`
    SwitchCpuWide { pid: u32, tid: u32 },
    /// `PERF_RECORD_KSYMBOL`
    Ksymbol { addr: u64, len: u32, ksym_type: u16, flags: u16, name: Text<'a> },
    /// `PERF_RECORD_CALLCHAIN_DEFERRED`: a user stack, for the samples with this cookie.
    CallchainDeferred { cookie: u64, ips: Words<'a> },
    /// `PERF_RECORD_FINISHED_ROUND`
    FinishedRound,
    /// Any other type.
    Other(&'a [u8]),
}

impl<'a> Record<'a> {
    /// Takes the next record from `data`, of a file with `events`.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if it is cut, misaligned, compressed, of no event, or has a field that
    /// does not fit.
    pub fn read(
        file: &'a [u8],
        data: &mut Cursor<'a>,
        events: &Events,
    ) -> Result<Record<'a>, ReadError> {
        let offset = data.at();
        let number = data.u32("record type")?;
        let misc = data.u16("record misc")?;
        let size = u64::from(data.u16("record size")?);
        if size < 8 {
            return Err(ReadError::new(offset + 6, "record size", format!("{size}, less than 8")));
        }
        if number >= abi::record::TYPES {
            let problem = format!("{number}; perf knows types below {}", abi::record::TYPES);
            return Err(ReadError::new(offset, "record type", problem));
        }
        // perf's own records of these types may have any size.
        let odd = [kind::HEADER_TRACING_DATA, kind::HEADER_FEATURE].contains(&number);
        if size % 8 != 0 && !odd {
            let problem = format!("{size} of a record of type {number} is no multiple of 8");
            return Err(ReadError::new(offset + 6, "record size", problem));
        }
        if [abi::record::COMPRESSED, abi::record::COMPRESSED2].contains(&number) {
            let problem = "records are compressed; record without -z, --compression-level";
            return Err(ReadError::new(offset, "record type", problem));
        }
        let start = data.at();
        data.take(size - 8, "record")?;
        let mut body = Cursor::new(file, start, size - 8, "record")?;
        let payload = match number {
            kind::HEADER_TRACING_DATA => {
                u64::from(body.clone().u32("tracing data size")?).next_multiple_of(8)
            }
            abi::record::AUXTRACE => body.clone().u64("auxtrace size")?,
            _ => 0,
        };
        let payload = data.take(payload, "data behind the record")?;
        let event = events.of_record(number, &body)?;
        let mut trailer = None;
        if number < abi::record::USER_TYPES && number != kind::SAMPLE {
            let attr = &events.attrs()[event];
            if events.attrs()[0].sample_id_all() {
                let len = Trailer::size(attr) as u64;
                let front = (size - 8).checked_sub(len).ok_or_else(|| {
                    let problem = format!("{size} bytes have no room for a sample_id of {len}");
                    ReadError::new(offset + 6, "record size", problem)
                })?;
                body = Cursor::new(file, start, front, "record")?;
                let mut end = Cursor::new(file, start + front, len, "sample_id")?;
                trailer = Some(Trailer::read(attr, &mut end)?);
            }
        }
        let content = Body::read(number, event, events, &mut body)?;
        let tail = body.rest();
        Ok(Record { offset, kind: number, misc, event, body: content, tail, trailer, payload })
    }

    /// Appends its bytes: those that were read, if nothing was changed.
    ///
    /// # Errors
    ///
    /// The size that it would have, if that is not a record's: above 65,535 bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), usize> {
        let start = out.len();
        out.extend(self.kind.to_le_bytes());
        out.extend(self.misc.to_le_bytes());
        out.extend([0; 2]);
        self.body.write(out);
        out.extend(self.tail);
        if let Some(trailer) = &self.trailer {
            trailer.write(out);
        }
        let size = out.len() - start;
        let Ok(short) = u16::try_from(size) else {
            out.truncate(start);
            return Err(size);
        };
        out[start + 6..start + 8].copy_from_slice(&short.to_le_bytes());
        out.extend(self.payload);
        Ok(())
    }
}

impl<'a> Body<'a> {
    fn read(
        number: u32,
        event: usize,
        events: &Events,
        c: &mut Cursor<'a>,
    ) -> Result<Body<'a>, ReadError> {
        Ok(match number {
            abi::record::MMAP => {
                let (pid, tid) = c.pair("mmap pid and tid")?;
                let [addr, len, pgoff] =
                    [c.u64("mmap addr")?, c.u64("mmap len")?, c.u64("mmap pgoff")?];
                Body::Mmap { pid, tid, addr, len, pgoff, filename: Text(c.rest()) }
            }
            abi::record::LOST => Body::Lost { id: c.u64("lost id")?, lost: c.u64("lost count")? },
            kind::COMM => {
                let (pid, tid) = c.pair("comm pid and tid")?;
                Body::Comm { pid, tid, comm: Text(c.rest()) }
            }
            kind::EXIT | kind::FORK => {
                let (pid, ppid) = c.pair("task pid and ppid")?;
                let (tid, ptid) = c.pair("task tid and ptid")?;
                Body::Task { pid, ppid, tid, ptid, time: c.u64("task time")? }
            }
            abi::record::THROTTLE | abi::record::UNTHROTTLE => Body::Throttle {
                time: c.u64("throttle time")?,
                id: c.u64("throttle id")?,
                stream_id: c.u64("throttle stream_id")?,
            },
            kind::SAMPLE => Body::Sample(Box::new(Sample::read(&events.attrs()[event], c)?)),
            kind::MMAP2 => Body::mmap2(c)?,
            abi::record::LOST_SAMPLES => Body::LostSamples { lost: c.u64("lost_samples count")? },
            abi::record::SWITCH => Body::Switch,
            abi::record::SWITCH_CPU_WIDE => {
                let (pid, tid) = c.pair("switch pid and tid")?;
                Body::SwitchCpuWide { pid, tid }
            }
            kind::KSYMBOL => Body::Ksymbol {
                addr: c.u64("ksymbol addr")?,
                len: c.u32("ksymbol len")?,
                ksym_type: c.u16("ksymbol type")?,
                flags: c.u16("ksymbol flags")?,
                name: Text(c.rest()),
            },
            kind::CALLCHAIN_DEFERRED => {
                let cookie = c.u64("deferred callchain cookie")?;
                let count = c.u64("deferred callchain nr")?;
                Body::CallchainDeferred { cookie, ips: c.words(count, "deferred callchain")? }
            }
            kind::FINISHED_ROUND => Body::FinishedRound,
            _ => Body::Other(c.rest()),
        })
    }

    fn mmap2(c: &mut Cursor<'a>) -> Result<Body<'a>, ReadError> {
        let (pid, tid) = c.pair("mmap2 pid and tid")?;
        let [addr, len, pgoff] = [c.u64("mmap2 addr")?, c.u64("mmap2 len")?, c.u64("mmap2 pgoff")?];
        let identity = c.array("mmap2 file identity")?;
        let (prot, flags) = c.pair("mmap2 prot and flags")?;
        let filename = Text(c.rest());
        Ok(Body::Mmap2 { pid, tid, addr, len, pgoff, identity, prot, flags, filename })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let words = |out: &mut Vec<u8>, words: &[u64]| {
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        match self {
            Body::Mmap { pid, tid, addr, len, pgoff, filename } => {
                out.extend(pair(*pid, *tid));
                words(out, &[*addr, *len, *pgoff]);
                out.extend(filename.0);
            }
            Body::Lost { id, lost } => words(out, &[*id, *lost]),
            Body::Comm { pid, tid, comm } => {
                out.extend(pair(*pid, *tid));
                out.extend(comm.0);
            }
            Body::Task { pid, ppid, tid, ptid, time } => {
                out.extend(pair(*pid, *ppid));
                out.extend(pair(*tid, *ptid));
                words(out, &[*time]);
            }
            Body::Throttle { time, id, stream_id } => words(out, &[*time, *id, *stream_id]),
            Body::Sample(sample) => sample.write(out),
            Body::Mmap2 { pid, tid, addr, len, pgoff, identity, prot, flags, filename } => {
                out.extend(pair(*pid, *tid));
                words(out, &[*addr, *len, *pgoff]);
                out.extend(identity);
                out.extend(pair(*prot, *flags));
                out.extend(filename.0);
            }
            Body::LostSamples { lost } => words(out, &[*lost]),
            Body::SwitchCpuWide { pid, tid } => out.extend(pair(*pid, *tid)),
            Body::Ksymbol { addr, len, ksym_type, flags, name } => {
                words(out, &[*addr]);
                out.extend(len.to_le_bytes());
                out.extend(ksym_type.to_le_bytes());
                out.extend(flags.to_le_bytes());
                out.extend(name.0);
            }
            Body::CallchainDeferred { cookie, ips } => {
                words(out, &[*cookie, ips.len() as u64]);
                out.extend(ips.bytes());
            }
            Body::Switch | Body::FinishedRound => {}
            Body::Other(bytes) => out.extend(*bytes),
        }
    }
}
