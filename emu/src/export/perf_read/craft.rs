//! Files made by hand, for tests: the corpus of the fuzz target.

use crate::perf::abi::flag::{self, SAMPLE_ID_ALL};
use crate::perf::abi::{
    self, read_format, record, record as more, sample_type as bit, sample_type as sample,
};
use crate::perf::record::context::{KERNEL, USER_DEFERRED};

pub const KERNEL_IP: u64 = 0xffff_ffff_8100_0010;

/// 64-bit words as bytes.
pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An attribute of 128 bytes.
pub fn attr(sample_type: u64, flags: u64) -> Vec<u8> {
    let mut bytes = words(&[1 | 128 << 32, 0, 1000, sample_type, 0, flags]);
    bytes.resize(128, 0);
    bytes
}

/// A record: header and body.
pub fn rec(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = 8 + body.len() as u64;
    let mut bytes = words(&[u64::from(kind) | u64::from(misc) << 32 | size << 48]);
    bytes.extend(body);
    bytes
}

/// A record of words.
pub fn rec_words(kind: u32, body: &[u64]) -> Vec<u8> {
    rec(kind, 2, &words(body))
}

/// A file: header, ids, attributes, data, features.
pub fn file(attrs: &[(Vec<u8>, &[u64])], data: &[u8], features: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let ids: u64 = attrs.iter().map(|(_, ids)| 8 * ids.len() as u64).sum();
    let entry = attrs[0].0.len() as u64 + 16;
    let (attrs_at, attrs_len) = (104 + ids, entry * attrs.len() as u64);
    let bits = features.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
    let mut out = b"PERFILE2".to_vec();
    let data_at = attrs_at + attrs_len;
    let head = [104, entry, attrs_at, attrs_len, data_at, data.len() as u64, 0, 0];
    out.extend(words(&head));
    out.extend(words(&[bits, 0, 0, 0]));
    out.extend(attrs.iter().flat_map(|(_, ids)| words(ids)));
    let mut at = 104;
    for (attr, ids) in attrs {
        out.extend(attr);
        out.extend(words(&[at, 8 * ids.len() as u64]));
        at += 8 * ids.len() as u64;
    }
    out.extend(data);
    let mut at = out.len() as u64 + 16 * features.len() as u64;
    for (_, bytes) in features {
        out.extend(words(&[at, bytes.len() as u64]));
        at += bytes.len() as u64;
    }
    out.extend(features.iter().flat_map(|(_, bytes)| bytes).copied());
    out
}

/// `sample_type` of a session that defers callchains.
pub const DEFERRED: u64 = bit::IP | bit::TID | bit::TIME | bit::CALLCHAIN | bit::CPU;
/// Its flags.
pub const FLAGS: u64 = SAMPLE_ID_ALL | flag::DEFER_CALLCHAIN | flag::DEFER_OUTPUT;

fn tid(tid: u32) -> u64 {
    7 | u64::from(tid) << 32
}

/// A sample of a [`DEFERRED`] session.
pub fn deferred_sample(thread: u32, time: u64, chain: &[u64]) -> Vec<u8> {
    let mut body = vec![KERNEL_IP, tid(thread), time, 1, chain.len() as u64];
    body.extend(chain);
    rec_words(record::SAMPLE, &body)
}

/// A stack of a [`DEFERRED`] session.
pub fn stack(thread: u32, time: u64, cookie: u64, ips: &[u64]) -> Vec<u8> {
    let mut body = vec![cookie, ips.len() as u64];
    body.extend(ips);
    body.extend([tid(thread), time, 1]);
    rec_words(record::CALLCHAIN_DEFERRED, &body)
}

/// One of each record.
pub fn each_record() -> Vec<Vec<u8>> {
    let end = [tid(8), 40, 1];
    let with = |kind, body: &[u64]| rec_words(kind, &[body, &end].concat());
    let text = u64::from_le_bytes(*b"/a b\0\0\0\xee");
    vec![
        with(more::MMAP, &[u64::from(u32::MAX), 0x1000, 0x2000, 0x1000, text]),
        with(more::LOST, &[1, 5]),
        with(record::COMM, &[tid(8), text]),
        with(record::FORK, &[7, 8, 9, 10, 35]),
        with(more::THROTTLE, &[36, 1, 1]),
        with(more::UNTHROTTLE, &[37, 1, 1]),
        with(record::MMAP2, &[tid(8), 0x40_1000, 0x1000, 0x1000, 1, 2, 3, 5 | 2 << 32, text]),
        deferred_sample(8, 30, &[KERNEL, KERNEL_IP, USER_DEFERRED, 3]),
        with(more::LOST_SAMPLES, &[6]),
        with(more::SWITCH, &[]),
        with(more::SWITCH_CPU_WIDE, &[tid(9)]),
        with(record::KSYMBOL, &[KERNEL_IP, 0x40 | 2 << 32, text]),
        stack(8, 40, 3, &[0x40_1000, 0x40_1080]),
        deferred_sample(8, 41, &[USER_DEFERRED, 3]),
        with(19, &[1, 2]), // PERF_RECORD_CGROUP
        rec(record::FINISHED_ROUND, 0, &[]),
        [rec(record::HEADER_TRACING_DATA, 0, &words(&[5])), vec![0xaa; 8]].concat(),
        rec(record::HEADER_FEATURE, 0, &[1, 0, 0, 0, 0, 0, 0, 0, 9]),
        with(record::EXIT, &[7, 8, 9, 10, 50]),
    ]
}

/// A file with one of each record.
pub fn one_event() -> Vec<u8> {
    file(&[(attr(DEFERRED, FLAGS), &[3])], &each_record().concat(), &[])
}

/// Two events with different fields, told apart by `PERF_SAMPLE_IDENTIFIER`.
pub fn two_events() -> Vec<u8> {
    let fields = bit::IDENTIFIER | bit::TID | bit::TIME;
    let attrs: [(_, &[u64]); 2] = [
        (attr(fields | bit::CALLCHAIN | bit::RAW, FLAGS), &[5, 6]),
        (attr(fields | bit::PERIOD, SAMPLE_ID_ALL), &[7]),
    ];
    let data = [
        rec_words(record::SAMPLE, &[7, tid(8), 10, 999]),
        rec_words(record::SAMPLE, &[6, tid(8), 11, 2, USER_DEFERRED, 9, 4 | 0xaaaa << 32]),
        rec_words(record::CALLCHAIN_DEFERRED, &[9, 1, 0x40_1000, tid(8), 12, 5]),
        rec_words(record::COMM, &[tid(8), 0x61, tid(8), 0, 0]),
    ];
    let mut desc = 1u32.to_le_bytes().to_vec();
    desc.extend(128u32.to_le_bytes());
    desc.extend(attr(fields, FLAGS));
    desc.extend(words(&[1 | 8 << 32, 0x61, 5]));
    file(&attrs, &data.concat(), &[(3, words(&[1])), (12, desc)])
}

/// A sample that has all fields.
pub fn every_field() -> Vec<u8> {
    let mut one = attr(abi::SAMPLE_TYPES, SAMPLE_ID_ALL);
    let mut set = |at: usize, word: u64| one[at..at + 8].copy_from_slice(&word.to_le_bytes());
    set(32, read_format::GROUP | read_format::EACH | read_format::TIMES);
    set(72, abi::branch::HW_INDEX | abi::branch::COUNTERS);
    set(80, 0b101);
    set(96, 0b1);
    let mut body = vec![3, KERNEL_IP, tid(8), 10, 0xadd, 3, 4, 1, 1000];
    body.extend([1, 20, 21, 22, 3, 0]); // a group of one: nr, times, value, id, lost
    body.extend([2, KERNEL, KERNEL_IP]);
    body.extend([4 | 0x1122 << 32]);
    body.extend([1, u64::MAX, 0x10, 0x20, 0, 77]);
    body.extend([2, 30, 31]);
    body.extend([8, 0x5555, 8]);
    body.extend([40, 41, 42]);
    body.extend([1, 50]);
    body.extend([60, 61, 62, 63]);
    body.extend([8, 0x6666]);
    let data = rec_words(record::SAMPLE, &body);
    file(&[(one, &[])], &data, &[(sample::ADDR as u32, vec![1, 2, 3])])
}

/// Names and bytes of the corpus: whole files, and what is refused.
pub fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let good = one_event();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let of = |data: &[u8]| file(&[(attr(DEFERRED, FLAGS), &[3])], data, &[]);
    vec![
        ("crafted-one-event", good.clone()),
        ("crafted-two-events", two_events()),
        ("crafted-every-field", every_field()),
        ("crafted-no-trailer", {
            let one = attr(DEFERRED, 0);
            let data = rec_words(record::CALLCHAIN_DEFERRED, &[9, 0]);
            let sample = deferred_sample(8, 1, &[USER_DEFERRED, 9]);
            file(&[(one, &[])], &[data, sample].concat(), &[])
        }),
        ("crafted-only-stacks", of(&stack(8, 1, 3, &[]))),
        ("crafted-compressed", of(&rec(more::COMPRESSED, 0, &[0; 8]))),
        ("crafted-aux", of(&[rec_words(more::AUXTRACE, &[8, 0, 0, 0, 0]), vec![0; 8]].concat())),
        ("crafted-large", {
            let chain = [vec![KERNEL; 8100], vec![USER_DEFERRED, 3]].concat();
            of(&[deferred_sample(8, 1, &chain), stack(8, 2, 3, &[1; 510])].concat())
        }),
        ("crafted-stream", with(8, &words(&[16]))),
        ("crafted-big-endian", with(0, b"2ELIFREP")),
        ("crafted-unfinished", with(48, &words(&[0]))),
        ("crafted-cut", good[..good.len() - 8].to_vec()),
    ]
}
