//! [`Record`]s to the bytes of `PERF_RECORD_*`.
//!
//! ```text
//! u32 type  u16 misc  u16 size │ body, padded to 8 │ sample_id: pid tid, time, cpu, [identifier]
//! ```
//!
//! A sample has no trailer; its fields stand in the order that the manual page
//! `perf_event_open(2)` gives under `PERF_RECORD_SAMPLE`.

use super::abi::{REGS_ABI_64, REGS_ABI_NONE, misc, record, sample_type};
use super::attr::Attr;
use super::tracing_data;
use crate::export::ExportError;
use crate::perf::record::{CpuMode, FileId, Record, Sample, Time};

/// Most callchain entries in a sample. The 16-bit size of a record holds about
/// 8,170; the kernel drops a sample that does not fit, the writer its outermost
/// entries.
pub const MAX_CHAIN: usize = 8000;
/// Longest path in a record, without its NUL (`PATH_MAX` - 1).
const MAX_PATH: usize = 4095;
/// Longest thread name, without its NUL (`TASK_COMM_LEN` - 1).
const MAX_COMM: usize = 15;
/// Bytes reserved for a build id in a record.
const BUILD_ID_SIZE: usize = 20;
/// Build id of a vDSO that has none. perf takes `[vdso]` for its own process's
/// and names its functions, unless a build id says that it is another.
const VDSO_BUILD_ID: &[u8; BUILD_ID_SIZE] = b"vdso of the emulator";
/// `PROT_EXEC`
const PROT_EXEC: u32 = 4;

/// Who, when and where of a record that is not a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleId {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds; 0 makes a reader process the record at once.
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
    /// [`ExportError::UnknownEvent`] if a sample's event is not in the session.
    pub fn record(&self, record: &Record, out: &mut Vec<u8>) -> Result<(), ExportError> {
        match record {
            Record::Comm { pid, tid, time, comm, exec } => {
                let mut body = pair(*pid, *tid).to_vec();
                push_padded(&mut body, cut(comm.as_bytes(), MAX_COMM));
                let misc = if *exec { misc::COMM_EXEC } else { 0 };
                let id = SampleId { pid: *pid, tid: *tid, time: *time };
                self.push(out, record::COMM, misc, &body, id);
            }
            Record::Mmap2 { .. } => self.mmap2(record, out),
            Record::Fork { pid, ppid, tid, ptid, time } => {
                let body = task_body(*pid, *ppid, *tid, *ptid, *time);
                // The parent is the one that runs when the kernel writes this.
                let id = SampleId { pid: *ppid, tid: *ptid, time: *time };
                self.push(out, record::FORK, 0, &body, id);
            }
            Record::Exit { pid, ppid, tid, ptid, time } => {
                let body = task_body(*pid, *ppid, *tid, *ptid, *time);
                let id = SampleId { pid: *pid, tid: *tid, time: *time };
                self.push(out, record::EXIT, 0, &body, id);
            }
            // `PERF_RECORD_SWITCH`: all is in the header and the trailer.
            Record::Switch { pid, tid, time, out: left, preempted, .. } => {
                let left = if *left { misc::SWITCH_OUT } else { 0 };
                let preempted = if *preempted { misc::SWITCH_OUT_PREEMPT } else { 0 };
                let id = SampleId { pid: *pid, tid: *tid, time: *time };
                self.push(out, record::SWITCH, left | preempted, &[], id);
            }
            Record::Sample(sample) => self.sample(sample, out)?,
            Record::CallchainDeferred { pid, tid, time, cookie, ips, .. } => {
                let mut body = cookie.to_le_bytes().to_vec();
                body.extend((ips.len() as u64).to_le_bytes());
                body.extend(ips.iter().flat_map(|ip| ip.to_le_bytes()));
                let id = SampleId { pid: *pid, tid: *tid, time: *time };
                self.push(out, record::CALLCHAIN_DEFERRED, misc::USER, &body, id);
            }
        }
        Ok(())
    }

    /// Appends a record other than a sample: header, `body` (a multiple of 8
    /// bytes) and trailer.
    pub fn push(&self, out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8], id: SampleId) {
        debug_assert_eq!(body.len() % 8, 0);
        let start = begin(out, kind, misc);
        out.extend(body);
        out.extend(pair(id.pid, id.tid));
        out.extend(id.time.to_le_bytes());
        out.extend(pair(0, 0)); // cpu, reserved
        if self.attrs[0].samples(sample_type::IDENTIFIER) {
            // Id 0 is the first event's, as for the records that perf itself makes.
            let id = if id.time == 0 { 0 } else { self.attrs[0].id };
            out.extend(id.to_le_bytes());
        }
        end(out, start);
    }

    fn mmap2(&self, record: &Record, out: &mut Vec<u8>) {
        let Record::Mmap2 { pid, tid, time, addr, len, pgoff, file, prot, flags, path } = record
        else {
            return;
        };
        let mut misc = misc::USER;
        if prot & PROT_EXEC == 0 {
            misc |= misc::MMAP_DATA;
        }
        let vdso = FileId::BuildId(VDSO_BUILD_ID.to_vec());
        let file = if path == "[vdso]" && *file == FileId::None { &vdso } else { file };
        if matches!(file, FileId::BuildId(_)) {
            misc |= misc::MMAP_BUILD_ID;
        }
        let map = Mmap2 {
            pid: *pid,
            tid: *tid,
            addr: *addr,
            len: *len,
            pgoff: *pgoff,
            prot: *prot,
            flags: *flags,
        };
        let body = map.body(file, path.as_bytes());
        let id = SampleId { pid: *pid, tid: *tid, time: *time };
        self.push(out, record::MMAP2, misc, &body, id);
    }

    fn sample(&self, s: &Sample, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let attr = self.attrs.get(s.event).ok_or(ExportError::UnknownEvent {
            event: s.event,
            events: self.attrs.len(),
            time: s.time,
        })?;
        let misc = match s.mode {
            CpuMode::Kernel => misc::KERNEL,
            CpuMode::User => misc::USER,
        };
        let start = begin(out, record::SAMPLE, misc);
        if attr.samples(sample_type::IDENTIFIER) {
            out.extend(attr.id.to_le_bytes());
        }
        out.extend(s.ip.to_le_bytes());
        out.extend(pair(s.pid, s.tid));
        out.extend(s.time.to_le_bytes());
        out.extend(pair(s.cpu, 0));
        out.extend(s.period.to_le_bytes());
        if attr.samples(sample_type::CALLCHAIN) {
            let chain = &s.callchain[..s.callchain.len().min(MAX_CHAIN)];
            out.extend((chain.len() as u64).to_le_bytes());
            out.extend(chain.iter().flat_map(|ip| ip.to_le_bytes()));
        }
        if attr.samples(sample_type::RAW) {
            let payload = s.raw.as_ref().map(|raw| tracing_data::payload(raw, s.tid));
            push_raw(out, &payload.unwrap_or_default());
        }
        if attr.samples(sample_type::REGS_USER) {
            match s.user_lr {
                Some(lr) => {
                    out.extend(REGS_ABI_64.to_le_bytes());
                    out.extend(lr.to_le_bytes());
                }
                None => out.extend(REGS_ABI_NONE.to_le_bytes()),
            }
        }
        end(out, start);
        Ok(())
    }
}

/// The fixed fields of `PERF_RECORD_MMAP2`.
#[derive(Debug)]
pub struct Mmap2 {
    /// Process id; all ones for the kernel.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// File offset; for the kernel the address of the reference symbol.
    pub pgoff: u64,
    /// `PROT_*`
    pub prot: u32,
    /// `MAP_*`
    pub flags: u32,
}

impl Mmap2 {
    /// The record's body, without header and trailer.
    pub fn body(&self, file: &FileId, path: &[u8]) -> Vec<u8> {
        let mut b = pair(self.pid, self.tid).to_vec();
        b.extend([self.addr, self.len, self.pgoff].iter().flat_map(|x| x.to_le_bytes()));
        match file {
            FileId::BuildId(id) => {
                let id = cut(id, BUILD_ID_SIZE);
                b.extend([id.len() as u8, 0, 0, 0]);
                b.extend(id);
                b.resize(b.len() + BUILD_ID_SIZE - id.len(), 0);
            }
            FileId::Inode { ino } => {
                b.extend([0; 8]); // major, minor: the emulator has one device
                b.extend(ino.to_le_bytes());
                b.extend(0u64.to_le_bytes()); // inode generation
            }
            FileId::None => b.extend([0; 24]),
        }
        b.extend(pair(self.prot, self.flags));
        push_padded(&mut b, cut(path, MAX_PATH));
        b
    }
}

/// Appends a record that is a header alone.
pub fn push_marker(out: &mut Vec<u8>, kind: u32) {
    let start = begin(out, kind, 0);
    end(out, start);
}

/// Starts a record: header with a size to be filled in by [`end`].
pub fn begin(out: &mut Vec<u8>, kind: u32, misc: u16) -> usize {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend(misc.to_le_bytes());
    out.extend([0; 2]);
    start
}

/// Ends the record that began at `start`. Every record's parts are bounded so
/// that their sum fits 16 bits.
pub fn end(out: &mut [u8], start: usize) {
    let size = out.len() - start;
    debug_assert!(size.is_multiple_of(8) && size <= usize::from(u16::MAX), "size {size}");
    out[start + 6..start + 8].copy_from_slice(&(size as u16).to_le_bytes());
}

/// Appends a string with its NUL, padded to 8 bytes.
pub fn push_padded(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    out.extend(text);
    out.resize(out.len() + 8 - text.len() % 8, 0);
}

fn push_raw(out: &mut Vec<u8>, payload: &[u8]) {
    // `size` counts the padding that brings the field, itself included, to 8.
    let size = (payload.len() + 4).next_multiple_of(8) - 4;
    out.extend((size as u32).to_le_bytes());
    out.extend(payload);
    out.resize(out.len() + size - payload.len(), 0);
}

fn task_body(pid: u32, ppid: u32, tid: u32, ptid: u32, time: Time) -> Vec<u8> {
    let mut b = pair(pid, ppid).to_vec();
    b.extend(pair(tid, ptid));
    b.extend(time.to_le_bytes());
    b
}

/// Two 32-bit words in a row.
pub fn pair(a: u32, b: u32) -> [u8; 8] {
    (u64::from(a) | u64::from(b) << 32).to_le_bytes()
}

fn cut(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::export::testing::{event, sample, session};
    use crate::perf::record::{EventKind, Raw, context};
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
        let r =
            Record::Comm { pid: 2, tid: 3, time: 9, comm: "0123456789abcdefgh".into(), exec: true };
        let mut want = vec![3, 0, 0, 0, 0, 0x20, 56, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        want.extend(b"0123456789abcde\0");
        want.extend(words(&[3 << 32 | 2, 9, 0]));
        assert_eq!(bytes(&e, &r), want);
    }

    #[test]
    fn mmap2_with_build_id_inode_and_neither() {
        let e = encoder(Arch::X86_64, &[EventKind::Cycles]);
        let map = |file, prot| Record::Mmap2 {
            pid: 1,
            tid: 1,
            time: 7,
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
        let fork = Record::Fork { pid: 5, ppid: 1, tid: 6, ptid: 2, time: 8 };
        let want = words(&[7 | 64 << 48, 1 << 32 | 5, 2 << 32 | 6, 8, 2 << 32 | 1, 8, 0, 1]);
        assert_eq!(bytes(&e, &fork), want);
        let exit = Record::Exit { pid: 5, ppid: 1, tid: 6, ptid: 2, time: 8 };
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
        assert!(matches!(err, ExportError::UnknownEvent { event: 1, events: 1, time: 5 }));
    }
}
