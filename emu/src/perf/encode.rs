//! Records to the bytes of `PERF_RECORD_*`, by what an event's attributes say: for a profile's
//! file ([`crate::export`]) and for the ring of an event that a guest opened.
//!
//! ```text
//! u32 type  u16 misc  u16 size │ body, padded to 8 │ sample_id
//!
//! sample_id   tid, time, id, stream id, cpu, identifier
//! ```
//!
//! A sample has no trailer; its fields stand in the order that the manual page
//! `perf_event_open(2)` gives under `PERF_RECORD_SAMPLE`.

use arch::perf_regs::{ABI_64, ABI_NONE};

use crate::perf::abi::{misc, record, sample_type as bit};
use crate::perf::record::{CpuMode, FileId, Record, Time};

/// Longest path in a record, without its NUL (`PATH_MAX` - 1).
const MAX_PATH: usize = 4095;
/// Longest thread name, without its NUL (`TASK_COMM_LEN` - 1).
const MAX_COMM: usize = 15;
/// Bytes reserved for a build id in a record.
const BUILD_ID_SIZE: usize = 20;
/// `PROT_EXEC`
pub const PROT_EXEC: u32 = 4;
/// `PERF_MEM_NA`: nothing is known about the access.
const DATA_SRC_NA: u64 = 0x5_080a_2621;

/// Who, when and where of a record that is not a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleId {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds; in a file, 0 makes a reader process the record at once.
    pub time: Time,
    /// The event's id, of an inherited one its parent's.
    pub id: u64,
    /// Its own id.
    pub stream_id: u64,
    /// Emulated CPU.
    pub cpu: u32,
}

impl SampleId {
    /// Appends the words that `sample_type` asks for, in the order of a trailer.
    pub fn push(&self, sample_type: u64, out: &mut Vec<u8>) {
        let has = |wanted| sample_type & wanted != 0;
        if has(bit::TID) {
            out.extend(pair(self.pid, self.tid));
        }
        if has(bit::TIME) {
            out.extend(self.time.to_le_bytes());
        }
        if has(bit::ID) {
            out.extend(self.id.to_le_bytes());
        }
        if has(bit::STREAM_ID) {
            out.extend(self.stream_id.to_le_bytes());
        }
        if has(bit::CPU) {
            out.extend(pair(self.cpu, 0));
        }
        if has(bit::IDENTIFIER) {
            out.extend(self.id.to_le_bytes());
        }
    }
}

/// The id of the session's event of this number: ids begin with 1.
pub const fn id_of(event: usize) -> u64 {
    event as u64 + 1
}

/// A record but a sample, without header and trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// `PERF_RECORD_*`
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`
    pub misc: u16,
    /// A multiple of 8 bytes.
    pub bytes: Vec<u8>,
    /// Process id of the trailer.
    pub pid: u32,
    /// Thread id of the trailer.
    pub tid: u32,
}

impl Body {
    /// The body of a record, `None` of a sample.
    pub fn of(record: &Record) -> Option<Body> {
        let body = |kind, misc, bytes, pid, tid| Some(Body { kind, misc, bytes, pid, tid });
        match record {
            Record::Comm { pid, tid, comm, exec, .. } => {
                let mut bytes = pair(*pid, *tid).to_vec();
                push_padded(&mut bytes, cut(comm.as_bytes(), MAX_COMM));
                let misc = if *exec { misc::COMM_EXEC } else { 0 };
                body(record::COMM, misc, bytes, *pid, *tid)
            }
            Record::Mmap2 { pid, tid, addr, len, pgoff, file, prot, flags, path, .. } => {
                let (pid, tid) = (*pid, *tid);
                let mut misc = misc::USER | data(*prot);
                if matches!(file, FileId::BuildId(_)) {
                    misc |= misc::MMAP_BUILD_ID;
                }
                let (addr, len, pgoff) = (*addr, *len, *pgoff);
                let map = Mmap2 { pid, tid, addr, len, pgoff, prot: *prot, flags: *flags };
                body(record::MMAP2, misc, map.body(file, path.as_bytes()), pid, tid)
            }
            Record::Fork { pid, ppid, tid, ptid, time, .. } => {
                let bytes = task_body(*pid, *ppid, *tid, *ptid, *time);
                // The parent is the one that runs when the kernel writes this.
                body(record::FORK, 0, bytes, *ppid, *ptid)
            }
            Record::Exit { pid, ppid, tid, ptid, time, .. } => {
                let bytes = task_body(*pid, *ppid, *tid, *ptid, *time);
                body(record::EXIT, 0, bytes, *pid, *tid)
            }
            // All of `PERF_RECORD_SWITCH` is in the header and the trailer.
            Record::Switch { pid, tid, out: left, preempted, other, .. } => {
                let left = if *left { misc::SWITCH_OUT } else { 0 };
                let preempted = if *preempted { misc::SWITCH_OUT_PREEMPT } else { 0 };
                let (kind, bytes) = match other {
                    Some((pid, tid)) => (record::SWITCH_CPU_WIDE, pair(*pid, *tid).to_vec()),
                    None => (record::SWITCH, Vec::new()),
                };
                body(kind, left | preempted, bytes, *pid, *tid)
            }
            Record::CallchainDeferred { pid, tid, cookie, ips, .. } => {
                let mut bytes = cookie.to_le_bytes().to_vec();
                push_counted(&mut bytes, ips);
                body(record::CALLCHAIN_DEFERRED, misc::USER, bytes, *pid, *tid)
            }
            Record::Lost { pid, tid, event, lost, .. } => {
                Some(Body::lost(id_of(*event), *lost, *pid, *tid))
            }
            Record::Throttle { pid, tid, time, event, throttled, .. } => {
                let id = id_of(*event);
                Some(Body::throttle(*throttled, [*time, id, id], *pid, *tid))
            }
            Record::LostSamples { lost, .. } => {
                body(record::LOST_SAMPLES, 0, lost.to_le_bytes().to_vec(), 0, 0)
            }
            Record::Sample(_) => None,
        }
    }

    /// A mapping as `PERF_RECORD_MMAP`, for an event that does not ask for the longer one;
    /// `None` of other records.
    pub fn of_short_mmap(record: &Record) -> Option<Body> {
        let Record::Mmap2 { pid, tid, addr, len, pgoff, prot, path, .. } = record else {
            return None;
        };
        let mut bytes = pair(*pid, *tid).to_vec();
        bytes.extend([*addr, *len, *pgoff].iter().flat_map(|x| x.to_le_bytes()));
        push_padded(&mut bytes, cut(path.as_bytes(), MAX_PATH));
        let misc = misc::USER | data(*prot);
        Some(Body { kind: record::MMAP, misc, bytes, pid: *pid, tid: *tid })
    }

    /// `PERF_RECORD_LOST`: so many records of event `id` found no room.
    pub fn lost(id: u64, lost: u64, pid: u32, tid: u32) -> Body {
        let bytes = [id, lost].iter().flat_map(|x| x.to_le_bytes()).collect();
        Body { kind: record::LOST, misc: 0, bytes, pid, tid }
    }

    /// `PERF_RECORD_THROTTLE` or `PERF_RECORD_UNTHROTTLE` with time, id and stream id of the event.
    pub fn throttle(throttled: bool, words: [u64; 3], pid: u32, tid: u32) -> Body {
        let kind = if throttled { record::THROTTLE } else { record::UNTHROTTLE };
        let bytes = words.iter().flat_map(|x| x.to_le_bytes()).collect();
        Body { kind, misc: 0, bytes, pid, tid }
    }

    /// Appends header, body and the trailer of `sample_type`, 0 for none.
    pub fn push(&self, sample_type: u64, id: &SampleId, out: &mut Vec<u8>) {
        debug_assert_eq!(self.bytes.len() % 8, 0);
        let start = begin(out, self.kind, self.misc);
        out.extend(&self.bytes);
        id.push(sample_type, out);
        end(out, start);
    }
}

/// The bit of a mapping that is not executable.
const fn data(prot: u32) -> u16 {
    if prot & PROT_EXEC == 0 { misc::MMAP_DATA } else { 0 }
}

/// Everything that a sample may hold; the attributes say what of it is written.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// Privilege of the interrupted code.
    pub mode: CpuMode,
    /// Interrupted address.
    pub ip: u64,
    /// Who, when and where.
    pub id: SampleId,
    /// Address that the event is about, 0 if none.
    pub addr: u64,
    /// Event count that the sample stands for.
    pub period: u64,
    /// What `read` of the event would give.
    pub read: &'a [u8],
    /// Callchain with context markers.
    pub callchain: &'a [u64],
    /// A tracepoint's payload.
    pub raw: &'a [u8],
    /// User registers in the order of the mask, `None` if there are none.
    pub regs_user: Option<&'a [u64]>,
    /// The bytes of the user stack, and how many of them could be read.
    pub stack_user: (&'a [u8], u64),
    /// Interrupted registers in the order of the mask.
    pub regs_intr: Option<&'a [u64]>,
}

impl Fields<'_> {
    /// Appends the sample with the fields that `sample_type` asks for: a multiple of 8 bytes.
    /// Of what no modelled hardware knows (weight, data source, transaction, physical address,
    /// sizes of pages) it says what a kernel says that does not know it.
    pub fn push(&self, sample_type: u64, out: &mut Vec<u8>) {
        let has = |wanted| sample_type & wanted != 0;
        let misc = match self.mode {
            CpuMode::Kernel => misc::KERNEL,
            CpuMode::User => misc::USER,
        };
        let start = begin(out, record::SAMPLE, misc);
        let id = &self.id;
        if has(bit::IDENTIFIER) {
            out.extend(id.id.to_le_bytes());
        }
        if has(bit::IP) {
            out.extend(self.ip.to_le_bytes());
        }
        id.push(sample_type & (bit::TID | bit::TIME), out);
        if has(bit::ADDR) {
            out.extend(self.addr.to_le_bytes());
        }
        id.push(sample_type & (bit::ID | bit::STREAM_ID | bit::CPU), out);
        if has(bit::PERIOD) {
            out.extend(self.period.to_le_bytes());
        }
        if has(bit::READ) {
            out.extend(self.read);
        }
        if has(bit::CALLCHAIN) {
            push_counted(out, self.callchain);
        }
        if has(bit::RAW) {
            push_raw(out, self.raw);
        }
        self.push_registers(sample_type, out);
        end(out, start);
    }

    /// The fields from the registers on.
    fn push_registers(&self, sample_type: u64, out: &mut Vec<u8>) {
        let has = |wanted| sample_type & wanted != 0;
        if has(bit::REGS_USER) {
            push_regs(out, self.regs_user);
        }
        if has(bit::STACK_USER) {
            let (bytes, read) = self.stack_user;
            out.extend((bytes.len() as u64).to_le_bytes());
            if !bytes.is_empty() {
                out.extend(bytes);
                out.extend(read.to_le_bytes());
            }
        }
        if has(bit::WEIGHT) {
            out.extend([0; 8]);
        }
        if has(bit::DATA_SRC) {
            out.extend(DATA_SRC_NA.to_le_bytes());
        }
        if has(bit::TRANSACTION) {
            out.extend([0; 8]);
        }
        if has(bit::REGS_INTR) {
            push_regs(out, self.regs_intr);
        }
        for unknown in [bit::PHYS_ADDR, bit::CGROUP, bit::DATA_PAGE_SIZE, bit::CODE_PAGE_SIZE] {
            if has(unknown) {
                out.extend([0; 8]);
            }
        }
    }
}

/// The number of words, then the words.
fn push_counted(out: &mut Vec<u8>, words: &[u64]) {
    out.extend((words.len() as u64).to_le_bytes());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn push_regs(out: &mut Vec<u8>, regs: Option<&[u64]>) {
    match regs {
        Some(values) => {
            out.extend(ABI_64.to_le_bytes());
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        None => out.extend(ABI_NONE.to_le_bytes()),
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
mod tests {
    use super::*;
    use crate::perf::abi::SAMPLE_TYPES;

    const ID: SampleId = SampleId { pid: 1, tid: 2, time: 3, id: 4, stream_id: 5, cpu: 6 };

    fn words(bytes: &[u8]) -> Vec<u64> {
        let word = |w: &[u8]| w.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        bytes.chunks(8).map(word).collect()
    }

    fn sample<'a>(stack: &'a [u8], raw: &'a [u8]) -> Fields<'a> {
        Fields {
            mode: CpuMode::User,
            ip: 10,
            id: ID,
            addr: 11,
            period: 12,
            read: &[13, 0, 0, 0, 0, 0, 0, 0],
            callchain: &[14, 15],
            raw,
            regs_user: Some(&[16, 17]),
            stack_user: (stack, 8),
            regs_intr: None,
        }
    }

    /// As the manual page `perf_event_open(2)` lists them.
    #[test]
    fn every_field_in_its_place() {
        let stack = 18u64.to_le_bytes();
        let fields = sample(&stack, &[1, 0, 0, 0]);
        let mut out = Vec::new();
        let all = SAMPLE_TYPES & !(bit::BRANCH_STACK | bit::AUX);
        fields.push(all, &mut out);
        let head = u64::from(record::SAMPLE) | 2 << 32 | (out.len() as u64) << 48;
        let expected = [
            head,
            4,           // identifier
            10,          // ip
            2 << 32 | 1, // pid, tid
            3,           // time
            11,          // addr
            4,           // id
            5,           // stream id
            6,           // cpu
            12,          // period
            13,          // read
            2,
            14,
            15,          // callchain
            1 << 32 | 4, // raw: size, bytes
            ABI_64,
            16,
            17, // user registers
            8,
            18,
            8, // stack: size, bytes, read
            0, // weight
            DATA_SRC_NA,
            0,        // transaction
            ABI_NONE, // interrupted registers
            0,        // physical address
            0,        // control group
            0,        // size of the data's page
            0,        // size of the code's page
        ];
        assert_eq!(words(&out), expected);
    }

    #[test]
    fn an_empty_stack_is_one_word() {
        let mut out = Vec::new();
        sample(&[], &[]).push(bit::STACK_USER, &mut out);
        assert_eq!(words(&out)[1..], [0]);
    }

    #[test]
    fn a_trailer_has_what_samples_have() {
        let mut out = Vec::new();
        Body::lost(4, 99, 1, 2).push(bit::TIME | bit::CPU | bit::IDENTIFIER, &ID, &mut out);
        let head = u64::from(record::LOST) | 48 << 48;
        assert_eq!(words(&out), [head, 4, 99, 3, 6, 4]);
        let mut bare = Vec::new();
        Body::lost(4, 99, 1, 2).push(0, &ID, &mut bare);
        assert_eq!(bare.len(), 24);
    }

    #[test]
    fn the_short_form_of_a_mapping() {
        let map = Record::Mmap2 {
            pid: 1,
            tid: 2,
            time: 0,
            cpu: 0,
            addr: 0x1000,
            len: 0x2000,
            pgoff: 7,
            file: FileId::None,
            prot: 5,
            flags: 2,
            path: "/a".to_owned(),
        };
        let body = Body::of_short_mmap(&map);
        let body = body.map(|b| (b.kind, b.misc, words(&b.bytes)));
        let path = u64::from(b'/') | u64::from(b'a') << 8;
        let words = vec![2 << 32 | 1, 0x1000, 0x2000, 7, path];
        assert_eq!(body, Some((record::MMAP, misc::USER, words)));
        let exit = Record::Exit { pid: 1, ppid: 1, tid: 1, ptid: 1, time: 1, cpu: 0 };
        assert_eq!(Body::of_short_mmap(&exit), None);
    }
}
