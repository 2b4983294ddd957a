//! The session's [`Record`]s to bytes.

use crate::perf::abi::{misc, record};
use crate::perf::encode::{Body, Fields, SampleId, id_of};
use crate::perf::payload;
use crate::perf::record::{FileId, Record, Sample, Time};
use crate::perf::session_attr::Attr;

/// Most callchain entries in a sample. The 16-bit size of a record holds about
/// 8,170; the kernel drops a sample that does not fit, the writer its outermost
/// entries.
pub const MAX_CHAIN: usize = 8000;
/// Build id of a vDSO that has none. perf takes `[vdso]` for its own process's
/// and names its functions, unless a build id says that it is another.
const VDSO_BUILD_ID: &[u8; 20] = b"vdso of the emulator";

/// A sample names an event that the session does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sample at time {time} ns belongs to event {event}, but the session has {events}; this is a bug in emu, please report it"
)]
pub struct UnknownEvent {
    /// Index in the sample.
    pub event: usize,
    /// Number of events in the session.
    pub events: usize,
    /// Time of the sample, nanoseconds.
    pub time: Time,
}

/// Turns records into bytes, by the events' attributes.
#[derive(Debug)]
pub struct Encoder {
    attrs: Vec<Attr>,
}

impl Encoder {
    /// An encoder for the events `attrs`, of which there is at least one.
    pub fn new(attrs: Vec<Attr>) -> Encoder {
        Encoder { attrs }
    }

    /// The events' attributes.
    pub fn attrs(&self) -> &[Attr] {
        &self.attrs
    }

    /// Appends the bytes of `record` to `out`: a multiple of 8, below 64 KiB.
    ///
    /// # Errors
    ///
    /// [`UnknownEvent`] if a sample's event is not in the session.
    pub fn record(&self, record: &Record, out: &mut Vec<u8>) -> Result<(), UnknownEvent> {
        let named = named_vdso(record);
        match (Body::of(named.as_ref().unwrap_or(record)), record) {
            (Some(body), Record::LostSamples { event, .. }) => {
                // The tool's own, which has no time.
                let id = id_of(*event);
                self.push_with(out, &body, SampleId { id, stream_id: id, ..SampleId::default() });
            }
            (Some(body), _) => {
                let (pid, tid, time, cpu) = (body.pid, body.tid, record.time(), record.cpu());
                // Id 0 is the first event's, as for the records that perf itself makes.
                let id = if time == 0 { 0 } else { id_of(record.event()) };
                self.push_with(out, &body, SampleId { pid, tid, time, id, stream_id: id, cpu });
            }
            (None, Record::Sample(sample)) => self.sample(sample, out)?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Appends a record that the tool made before the first of the kernel's: without a time.
    pub fn push(&self, out: &mut Vec<u8>, body: &Body) {
        let id = SampleId { pid: body.pid, tid: body.tid, ..SampleId::default() };
        self.push_with(out, body, id);
    }

    /// Appends header, body and a trailer of `id`; all events have the same words there.
    fn push_with(&self, out: &mut Vec<u8>, body: &Body, id: SampleId) {
        body.push(self.attrs[0].sample_type, &id, out);
    }

    /// Bytes of a record in a ring; 0 if its event is not in the session.
    pub fn len(&self, record: &Record) -> u64 {
        let mut bytes = Vec::new();
        match self.record(record, &mut bytes) {
            Ok(()) => bytes.len() as u64,
            Err(_) => 0,
        }
    }

    fn sample(&self, s: &Sample, out: &mut Vec<u8>) -> Result<(), UnknownEvent> {
        let (event, events) = (s.event, self.attrs.len());
        let unknown = UnknownEvent { event, events, time: s.time };
        let attr = self.attrs.get(s.event).ok_or(unknown)?;
        let payload = s.raw.as_ref().map(|raw| payload::payload(raw, s.tid)).unwrap_or_default();
        let fields = Fields {
            mode: s.mode,
            ip: s.ip,
            id: SampleId {
                pid: s.pid,
                tid: s.tid,
                time: s.time,
                id: attr.id,
                stream_id: attr.id,
                cpu: s.cpu,
            },
            addr: 0,
            period: s.period,
            read: &[],
            callchain: &s.callchain[..s.callchain.len().min(MAX_CHAIN)],
            raw: &payload,
            regs_user: match &s.dump {
                Some(dump) => dump.regs.as_deref(),
                None => s.user_lr.as_ref().map(std::slice::from_ref),
            },
            stack_user: s.dump.as_ref().map_or((&[], 0), |dump| (&dump.stack, dump.read)),
            regs_intr: None,
        };
        fields.push(attr.sample_type, out);
        Ok(())
    }
}

/// The mapping of a vDSO without a build id, with one; `None` of other records.
fn named_vdso(record: &Record) -> Option<Record> {
    match record {
        Record::Mmap2 { file: FileId::None, path, .. } if path == "[vdso]" => {
            let mut record = record.clone();
            if let Record::Mmap2 { file, .. } = &mut record {
                *file = FileId::BuildId(VDSO_BUILD_ID.to_vec());
            }
            Some(record)
        }
        _ => None,
    }
}

/// The record of a piece of kernel code that got a name.
pub fn ksymbol(bytes: Vec<u8>) -> Body {
    Body { kind: record::KSYMBOL, misc: 0, bytes, pid: 0, tid: 0 }
}

/// The record of the kernel's own mapping.
pub fn kernel_mmap(bytes: Vec<u8>) -> Body {
    Body { kind: record::MMAP2, misc: misc::KERNEL, bytes, pid: 0, tid: 0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::encode::push_padded;
    use crate::perf::record::CpuMode;
    use crate::perf::record::{EventKind, Raw, context};
    use crate::perf::testing::{event, sample, session};
    use arch::Arch;

    fn encoder(arch: Arch, kinds: &[EventKind]) -> Encoder {
        let events = kinds.iter().map(|&k| event(k, "e")).collect();
        Encoder::new(Attr::all(&session(arch, events)))
    }

    fn bytes(e: &Encoder, r: &Record) -> Vec<u8> {
        let mut out = Vec::new();
        e.record(r, &mut out).unwrap();
        out
    }

    fn words(w: &[u64]) -> Vec<u8> {
        w.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn comm() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let r = Record::Comm {
            pid: 2,
            tid: 3,
            time: 9,
            cpu: 5,
            comm: "0123456789abcdefgh".into(),
            exec: true,
        };
        let mut want = vec![3, 0, 0, 0, 0, 0x20, 56, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        want.extend(b"0123456789abcde\0");
        want.extend(words(&[3 << 32 | 2, 9, 5]));
        assert_eq!(bytes(&e, &r), want);
    }

    #[test]
    fn mmap2_with_build_id_inode_and_neither() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let map = |file, prot| Record::Mmap2 {
            pid: 1,
            tid: 1,
            time: 7,
            cpu: 0,
            addr: 0x40_1000,
            len: 0x2000,
            pgoff: 0x1000,
            file,
            prot,
            flags: 2,
            path: "/a b".into(),
        };
        let b = bytes(&e, &map(FileId::BuildId(vec![0xaa; 16]), 5));
        let mut want =
            words(&[10 | 0x4002 << 32 | 104 << 48, 1 << 32 | 1, 0x40_1000, 0x2000, 0x1000]);
        want.extend([16, 0, 0, 0]);
        want.extend([0xaa; 16]);
        want.extend([0; 4]);
        want.extend(words(&[2 << 32 | 5]));
        want.extend(b"/a b\0\0\0\0");
        want.extend(words(&[1 << 32 | 1, 7, 0]));
        assert_eq!(b, want);

        let b = bytes(&e, &map(FileId::Inode { ino: 0x1234 }, 5));
        assert_eq!(b[4..6], [2, 0]);
        assert_eq!(b[40..64], words(&[0, 0x1234, 0])[..]);
        let mut vdso = map(FileId::None, 5);
        if let Record::Mmap2 { path, .. } = &mut vdso {
            *path = "[vdso]".into();
        }
        assert_eq!(bytes(&e, &vdso)[4..6], [2, 0x40]);
        let b = bytes(&e, &map(FileId::None, 3));
        assert_eq!(b[4..6], [2, 0x20], "not executable: MMAP_DATA");
        assert_eq!(b[40..64], [0; 24]);
    }

    #[test]
    fn fork_and_exit() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles, EventKind::CpuClock]);
        let fork = Record::Fork { pid: 5, ppid: 1, tid: 6, ptid: 2, time: 8, cpu: 3 };
        let want = words(&[7 | 64 << 48, 1 << 32 | 5, 2 << 32 | 6, 8, 2 << 32 | 1, 8, 3, 1]);
        assert_eq!(bytes(&e, &fork), want);
        let exit = Record::Exit { pid: 5, ppid: 1, tid: 6, ptid: 2, time: 8, cpu: 3 };
        let b = bytes(&e, &exit);
        assert_eq!(b[0], 4);
        assert_eq!(b[32..40], words(&[6 << 32 | 5])[..]);
    }

    #[test]
    fn sample_of_one_event() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let mut s = sample(0, 77);
        s.mode = CpuMode::Kernel;
        s.ip = 0xffff_ffff_8100_0010;
        s.callchain = vec![context::KERNEL, 0xffff_ffff_8100_0010, context::USER, 0x40_1000];
        let want = words(&[
            9 | 1 << 32 | 88 << 48,
            0xffff_ffff_8100_0010,
            101 << 32 | 100,
            77,
            1, // cpu
            1000,
            4,
            context::KERNEL,
            0xffff_ffff_8100_0010,
            context::USER,
            0x40_1000,
        ]);
        assert_eq!(bytes(&e, &Record::Sample(s)), want);
    }

    #[test]
    fn sample_of_a_tracepoint_on_aarch64() {
        let e = encoder(Arch::Aarch64, &[EventKind::Cycles, EventKind::SysExit]);
        let mut s = sample(1, 77);
        s.callchain = vec![context::USER, 0x40_1000];
        s.raw = Some(Raw::SysExit { id: 64, ret: 3 });
        s.user_lr = Some(0x40_2000);
        let b = bytes(&e, &Record::Sample(s.clone()));
        assert_eq!(b[8..16], words(&[2])[..], "id of the second event comes first");
        let raw = &b[80..];
        assert_eq!(raw[..8], [28, 0, 0, 0, 0x81, 1, 0, 1]);
        assert_eq!(raw[28..32], [0; 4], "padding");
        assert_eq!(raw[32..], words(&[2, 0x40_2000])[..]);
        s.user_lr = None;
        s.raw = None;
        let b = bytes(&e, &Record::Sample(s));
        assert_eq!(b[80..], words(&[4, 0])[..], "empty raw data, no registers");
    }

    #[test]
    fn a_chain_beyond_the_record_size_is_cut() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let mut s = sample(0, 1);
        s.callchain = vec![1; 100_000];
        let b = bytes(&e, &Record::Sample(s));
        assert_eq!(b.len(), 56 + 8 * MAX_CHAIN);
        assert_eq!(usize::from(u16::from_le_bytes([b[6], b[7]])), b.len());
    }

    #[test]
    fn strings_end_at_a_nul_and_within_their_bound() {
        let mut b = Vec::new();
        push_padded(&mut b, b"abc\0def");
        assert_eq!(b, b"abc\0\0\0\0\0");
        let mut b = Vec::new();
        push_padded(&mut b, b"12345678");
        assert_eq!(b.len(), 16);
    }

    #[test]
    fn unknown_event() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let err = e.record(&Record::Sample(sample(1, 5)), &mut Vec::new()).unwrap_err();
        assert!(matches!(err, UnknownEvent { event: 1, events: 1, time: 5 }));
    }
}
