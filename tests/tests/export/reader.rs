//! A reader of `perf.data` files and streams, written from the format's
//! description and not from the writer: it walks everything and checks sizes,
//! alignment and ids.

use std::collections::BTreeMap;

/// A `perf.data` file, taken apart.
#[derive(Debug, Default)]
pub struct PerfData {
    pub attrs: Vec<Attr>,
    pub records: Vec<Rec>,
    pub features: BTreeMap<u32, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Attr {
    pub sample_type: u64,
    pub flags: u64,
    pub ids: Vec<u64>,
}

/// One record: its parts that the tests look at.
#[derive(Debug)]
pub struct Rec {
    pub kind: u32,
    pub misc: u16,
    pub body: Vec<u8>,
    pub sample: Option<SampleFields>,
    /// Time and id of the trailer of other kernel records.
    pub trailer: Option<(u64, Option<u64>)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct SampleFields {
    pub event: usize,
    pub ip: u64,
    pub pid_tid: (u32, u32),
    pub time: u64,
    pub cpu: u32,
    pub period: u64,
    pub chain: Vec<u64>,
    pub raw: Vec<u8>,
    pub user_lr: Option<u64>,
}

pub fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(b[at..at + 2].try_into().unwrap())
}

pub fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

pub fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
}

/// Takes a file apart.
///
/// # Panics
///
/// If it breaks a rule of the format.
pub fn read_file(b: &[u8]) -> PerfData {
    assert_eq!(&b[..8], b"PERFILE2");
    assert_eq!(u64_at(b, 8), 104);
    let word = |i: usize| u64_at(b, 16 + 8 * i) as usize;
    let (attr_size, attrs, attrs_size, data, data_size) =
        (word(0), word(1), word(2), word(3), word(4));
    assert_eq!(attrs_size % attr_size, 0);
    assert!(attrs >= 104 && attrs + attrs_size <= data);
    assert!(data_size > 0);

    let mut out = PerfData::default();
    for at in (attrs..attrs + attrs_size).step_by(attr_size) {
        assert_eq!(u32_at(b, at + 4) as usize + 16, attr_size);
        let (ids, size) = (u64_at(b, at + attr_size - 16), u64_at(b, at + attr_size - 8));
        assert!(ids >= 104 && size % 8 == 0 && (ids + size) as usize <= data);
        let ids = (0..size as usize / 8).map(|i| u64_at(b, ids as usize + 8 * i)).collect();
        out.attrs.push(attr(&b[at..], ids));
    }

    let bits = u64_at(b, 72);
    let mut table = data + data_size;
    let mut end = table + 16 * bits.count_ones() as usize;
    for bit in (0..64).filter(|i| bits >> i & 1 == 1) {
        let (at, size) = (u64_at(b, table) as usize, u64_at(b, table + 8) as usize);
        assert_eq!(at, end, "features are contiguous");
        out.features.insert(bit, b[at..at + size].to_vec());
        table += 16;
        end += size;
    }
    assert_eq!(end, b.len());
    walk(&mut out, &b[data..data + data_size]);
    out
}

/// Takes a stream apart.
///
/// # Panics
///
/// If it breaks a rule of the format.
pub fn read_stream(b: &[u8]) -> PerfData {
    assert_eq!(&b[..8], b"PERFILE2");
    assert_eq!(u64_at(b, 8), 16);
    let mut out = PerfData::default();
    walk(&mut out, &b[16..]);
    out
}

fn attr(b: &[u8], ids: Vec<u64>) -> Attr {
    assert_eq!(u32_at(b, 4), 128, "perf 6.1 knows no longer one");
    Attr { sample_type: u64_at(b, 24), flags: u64_at(b, 40), ids }
}

fn walk(out: &mut PerfData, b: &[u8]) {
    let mut at = 0;
    while at < b.len() {
        let (kind, misc, size) = (u32_at(b, at), u16_at(b, at + 4), u16_at(b, at + 6) as usize);
        assert!(size >= 8, "record at {at:#x}");
        let body = &b[at + 8..at + size];
        at += size;
        if kind == 66 {
            assert_eq!(size, 16);
            let len = u32_at(body, 0) as usize;
            out.features.insert(1, b[at..at + len].to_vec());
            at += len;
            continue;
        }
        assert_eq!(size % 8, 0, "record type {kind}");
        match kind {
            64 => {
                let ids = (128..body.len()).step_by(8).map(|i| u64_at(body, i)).collect();
                out.attrs.push(attr(body, ids));
            }
            80 => drop(out.features.insert(u64_at(body, 0) as u32, body[8..].to_vec())),
            9 => {
                let sample = Some(sample(&out.attrs, body));
                out.records.push(Rec { kind, misc, body: body.into(), sample, trailer: None });
            }
            _ => {
                let trailer = (kind < 64).then(|| trailer(&out.attrs, body));
                out.records.push(Rec { kind, misc, body: body.into(), sample: None, trailer });
            }
        }
    }
}

fn trailer(attrs: &[Attr], body: &[u8]) -> (u64, Option<u64>) {
    let n = body.len();
    if attrs[0].sample_type >> 16 & 1 == 1 {
        let id = u64_at(body, n - 8);
        assert!(id == 0 || attrs.iter().any(|a| a.ids.contains(&id)), "id {id}");
        (u64_at(body, n - 24), Some(id))
    } else {
        (u64_at(body, n - 16), None)
    }
}

fn sample(attrs: &[Attr], b: &[u8]) -> SampleFields {
    let mut at = 0;
    let mut take = |size: usize| {
        at += size;
        &b[at - size..at]
    };
    let several = attrs[0].sample_type >> 16 & 1 == 1;
    let event = if several {
        let id = u64_at(take(8), 0);
        attrs.iter().position(|a| a.ids.contains(&id)).expect("a listed id")
    } else {
        0
    };
    let has = |bit: u32| attrs[event].sample_type >> bit & 1 == 1;
    assert!([0, 1, 2, 7, 8].into_iter().all(has), "IP TID TIME CPU PERIOD");
    let mut s = SampleFields { event, ..SampleFields::default() };
    s.ip = u64_at(take(8), 0);
    let ids = take(8);
    s.pid_tid = (u32_at(ids, 0), u32_at(ids, 4));
    s.time = u64_at(take(8), 0);
    s.cpu = u32_at(take(8), 0);
    s.period = u64_at(take(8), 0);
    if has(5) {
        let n = u64_at(take(8), 0) as usize;
        s.chain = take(8 * n).chunks(8).map(|c| u64_at(c, 0)).collect();
    }
    if has(10) {
        let n = u32_at(take(4), 0) as usize;
        s.raw = take(n).to_vec();
    }
    if has(12) {
        s.user_lr = match u64_at(take(8), 0) {
            0 => None,
            2 => Some(u64_at(take(8), 0)),
            abi => panic!("abi {abi}"),
        };
    }
    assert_eq!(at, b.len(), "a sample has no more than its fields");
    s
}
