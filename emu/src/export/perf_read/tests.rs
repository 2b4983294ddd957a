use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::craft::*;
use super::fuzz::fuzz_perf_data;
use super::*;
use crate::export::merge::merge;
use crate::perf::merge::Report;
use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};

fn bodies(bytes: &[u8]) -> Vec<Body<'_>> {
    let file = PerfFile::read(bytes).unwrap();
    file.records().map(|record| record.unwrap().body).collect()
}

fn error(bytes: &[u8]) -> String {
    let error =
        PerfFile::read(bytes).and_then(|file| file.records().collect::<Result<Vec<_>, _>>());
    error.unwrap_err().to_string()
}

#[test]
fn each_record_is_read_and_written_back() {
    let bytes = one_event();
    let file = PerfFile::read(&bytes).unwrap();
    let records: Vec<Record> = file.records().map(Result::unwrap).collect();
    let crafted = each_record();
    assert_eq!(records.len(), crafted.len());
    for (record, wanted) in records.iter().zip(&crafted) {
        let mut written = Vec::new();
        record.write(&mut written).unwrap();
        assert_eq!(written, *wanted, "{record:x?}");
        assert!(bytes[record.offset as usize..].starts_with(wanted));
    }
    assert_eq!(file.write(&crafted.concat(), 0), bytes);

    let text = Text(b"/a b\0\0\0\xee");
    assert_eq!(text.bytes(), b"/a b");
    let (addr, pid, tid) = (0x40_1000, 7, 8);
    let bodies: Vec<Body> = records.iter().map(|record| record.body.clone()).collect();
    let mmap = Body::Mmap {
        pid: u32::MAX,
        tid: 0,
        addr: 0x1000,
        len: 0x2000,
        pgoff: 0x1000,
        filename: text,
    };
    assert_eq!(bodies[0], mmap);
    assert_eq!(bodies[1], Body::Lost { id: 1, lost: 5 });
    assert_eq!(bodies[2], Body::Comm { pid, tid, comm: text });
    assert_eq!(bodies[4], Body::Throttle { time: 36, id: 1, stream_id: 1 });
    assert_eq!(bodies[5], Body::Throttle { time: 37, id: 1, stream_id: 1 });
    let mut identity = [0; 24];
    identity.copy_from_slice(&words(&[1, 2, 3]));
    let (len, pgoff, prot, flags) = (0x1000, 0x1000, 5, 2);
    let mmap2 = Body::Mmap2 { pid, tid, addr, len, pgoff, identity, prot, flags, filename: text };
    assert_eq!(bodies[6], mmap2);
    assert_eq!(bodies[8], Body::LostSamples { lost: 6 });
    assert_eq!(bodies[9], Body::Switch);
    assert_eq!(bodies[10], Body::SwitchCpuWide { pid, tid: 9 });
    let name = Text(text.0);
    let symbol = Body::Ksymbol { addr: KERNEL_IP, len: 0x40, ksym_type: 2, flags: 0, name };
    assert_eq!(bodies[11], symbol);
    let Body::CallchainDeferred { cookie: 3, ips } = bodies[12] else { panic!() };
    assert_eq!(ips.iter().collect::<Vec<_>>(), [0x40_1000, 0x40_1080]);
    assert_eq!(bodies[14], Body::Other(&words(&[1, 2])));
    assert_eq!(bodies[15], Body::FinishedRound);
    assert_eq!(records[16].payload, [0xaa; 8]);
    assert_eq!(bodies[18], Body::Task { pid: 7, ppid: 0, tid: 8, ptid: 0, time: 9 });

    let trailer = records[1].trailer.unwrap();
    assert_eq!((trailer.pid_tid, trailer.time), (Some((7, 8)), Some(40)));
    assert_eq!((trailer.cpu, trailer.identifier, trailer.id), (Some((1, 0)), None, None));
    assert!([7, 15, 16, 17].iter().all(|&i: &usize| records[i].trailer.is_none()));
}

#[test]
fn a_sample_has_the_fields_of_its_event() {
    let bytes = every_field();
    let [Body::Sample(s)] = &bodies(&bytes)[..] else { panic!() };
    assert_eq!((s.identifier, s.ip, s.pid_tid), (Some(3), Some(KERNEL_IP), Some((7, 8))));
    assert_eq!((s.time, s.addr, s.id, s.stream_id), (Some(10), Some(0xadd), Some(3), Some(4)));
    assert_eq!((s.cpu, s.period), (Some((1, 0)), Some(1000)));
    assert_eq!(s.read.unwrap().iter().collect::<Vec<_>>(), [1, 20, 21, 22, 3, 0]);
    assert_eq!(s.callchain, Some(vec![KERNEL, KERNEL_IP]));
    assert_eq!(s.raw, Some(&[0x22, 0x11, 0, 0][..]));
    let branches = s.branch_stack.unwrap();
    assert_eq!(branches.hw_index, Some(u64::MAX));
    assert_eq!(branches.entries.iter().collect::<Vec<_>>(), [0x10, 0x20, 0]);
    assert_eq!(branches.counters.unwrap().iter().collect::<Vec<_>>(), [77]);
    let regs = |regs: Option<Regs>| regs.unwrap().values.iter().collect::<Vec<_>>();
    assert_eq!((regs(s.user_regs), regs(s.intr_regs)), (vec![30, 31], vec![50]));
    let stack = s.user_stack.unwrap();
    assert_eq!((stack.bytes, stack.copied), (&words(&[0x5555])[..], Some(8)));
    assert_eq!((s.weight, s.data_src, s.transaction), (Some(40), Some(41), Some(42)));
    assert_eq!((s.phys_addr, s.cgroup), (Some(60), Some(61)));
    assert_eq!((s.data_page_size, s.code_page_size), (Some(62), Some(63)));
    assert_eq!(s.aux, Some(&words(&[0x6666])[..]));
}

#[test]
fn records_belong_to_the_event_of_their_id() {
    let bytes = two_events();
    let file = PerfFile::read(&bytes).unwrap();
    let events: Vec<usize> = file.records().map(|record| record.unwrap().event).collect();
    assert_eq!(events, [1, 0, 0, 0], "id 0 is the first event's");
    let ids: Vec<u64> = file.events().attrs()[0].ids.iter().collect();
    assert_eq!((ids, file.features()[0].bytes), (vec![5, 6], &words(&[1])[..]));
    let merged = merge(&file).unwrap();
    let again = PerfFile::read(&merged.bytes).unwrap();
    assert_eq!(again.events().attrs()[0].flags, FLAGS & !(0b11 << 38));
    assert_eq!(again.features()[1].bytes[48..56], words(&[FLAGS & !(0b11 << 38)])[..]);
    let samples: Vec<Body> = again.records().map(|record| record.unwrap().body).collect();
    let Body::Sample(sample) = &samples[1] else { panic!() };
    assert_eq!(sample.callchain, Some(vec![USER, 0x40_1000]));
    assert_eq!(sample.raw, Some(&[0xaa, 0xaa, 0, 0][..]));
}

#[test]
fn attributes_lose_only_zeros() {
    for (last, size) in [(0, 128), (1, 144)] {
        let mut one = attr(DEFERRED, FLAGS);
        one.resize(144, 0);
        one[4] = 144;
        one[143] = last;
        let bytes = file(&[(one, &[])], &deferred_sample(1, 1, &[]), &[]);
        let merged = merge(&PerfFile::read(&bytes).unwrap()).unwrap().bytes;
        let again = PerfFile::read(&merged).unwrap();
        let attr = &again.events().attrs()[0];
        assert_eq!((attr.bytes.len(), attr.bytes[4]), (size, size as u8));
    }
}

#[test]
fn what_is_refused_says_where_and_why() {
    let corpus = corpus();
    let of = |name: &str| &corpus.iter().find(|(n, _)| *n == format!("crafted-{name}")).unwrap().1;
    let whole = |name| merge(&PerfFile::read(of(name)).unwrap()).unwrap_err().to_string();
    assert_eq!(
        error(of("stream")),
        "offset 0x8, header size: a stream; let perf make a file of it: perf inject -i IN -o OUT"
    );
    assert_eq!(
        error(of("big-endian")),
        "offset 0x0, magic: the file of a big-endian machine, which is not read"
    );
    assert_eq!(
        error(of("unfinished")),
        "offset 0x30, data section: size 0: the recording did not come to its end, or has no record"
    );
    assert!(error(of("cut")).starts_with("offset 0x28, data section: "), "{}", error(of("cut")));
    assert_eq!(
        error(of("compressed")),
        "offset 0x100, record type: records are compressed; record without -z, --compression-level"
    );
    assert!(whole("aux").starts_with("offset 0x100, record type: an AUX area trace"));
    assert!(whole("large").starts_with("offset 0x100, sample: merged it would have 68"));
    assert!(whole("only-stacks").starts_with("offset 0x30, data section: nothing but deferred"));
    assert!(error(b"PERF").starts_with("offset 0x0, magic: 8 bytes, where only 4 are left"));
}

/// Many small samples that share one large stack.
#[test]
fn a_file_does_not_grow_without_limit() {
    let mut data = stack(1, 9, 3, &[1; 8000]);
    let sample = deferred_sample(1, 1, &[USER_DEFERRED, 3]);
    data.extend(sample.repeat(200));
    let merged = |data: &[u8]| {
        let bytes = file(&[(attr(DEFERRED, FLAGS), &[3])], data, &[]);
        merge(&PerfFile::read(&bytes).unwrap()).map(|merged| merged.bytes.len())
    };
    assert!(merged(&data[..data.len() - 190 * sample.len()]).is_ok_and(|len| len > 640_000));
    let error = merged(&data).unwrap_err().to_string();
    assert!(error.ends_with("the merged file would have more than 4934656 bytes"), "{error}");
}

#[test]
fn damaged_records_say_where() {
    let of = |data: &[u8]| error(&file(&[(attr(DEFERRED, FLAGS), &[3])], data, &[]));
    assert_eq!(of(&words(&[9])), "offset 0x106, record size: 0, less than 8");
    assert_eq!(
        of(&rec_words(87, &[1])),
        "offset 0x100, record type: 87; perf knows types below 87"
    );
    assert!(of(&words(&[9 | 12 << 48, 0])).starts_with("offset 0x106, record size: 12 of"));
    assert!(of(&words(&[9 | 24 << 48, 0])).starts_with("offset 0x108, record: 16 bytes, where"));
    let chain = rec_words(9, &[KERNEL_IP, 7, 1, 1, u64::MAX]);
    assert!(of(&chain).starts_with("offset 0x130, sample callchain: "), "{}", of(&chain));
    let stack = rec_words(22, &[3, 1 << 61, 7, 1, 1]);
    assert!(of(&stack).starts_with("offset 0x118, deferred callchain: "), "{}", of(&stack));
    assert!(of(&rec_words(3, &[1])).starts_with("offset 0x106, record size: 16 bytes have no"));
    let mut two = two_events();
    let at = two.windows(8).rposition(|w| w == words(&[7])).unwrap();
    two[at] = 99;
    assert!(error(&two).contains(", event's id: 99 is no event's"), "{}", error(&two));
}

/// LAW-47 and the matching, against a search through all stacks.
#[test]
fn random_streams_keep_the_law() {
    let mut state = 7;
    for _ in 0..300 {
        let mut below = |n| below(&mut state, n) as u64;
        let (mut data, mut samples, mut stacks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..1 + below(40) {
            let (tid, time, cookie) = (below(3) as u32, below(60), below(4));
            let kernel: Vec<u64> = (0..below(4)).map(|_| KERNEL_IP).collect();
            match below(4) {
                0 => data.push(rec_words(3, &[tid.into(), 0x61, tid.into(), time, 0])),
                1 => {
                    let ips: Vec<u64> = (0..below(5)).map(|n| 0x40_0000 + time * 16 + n).collect();
                    data.push(stack(tid, time, cookie, &ips));
                    stacks.push((tid, cookie, time, ips));
                }
                kind => {
                    let user = if kind == 2 { [USER_DEFERRED, cookie] } else { [USER, 0x1000] };
                    let chain = [&kernel[..], &user[..]].concat();
                    data.push(deferred_sample(tid, time, &chain));
                    samples.push((tid, time, chain, (kind == 2).then_some(cookie)));
                }
            }
        }
        data.push(rec(68, 0, &[]));
        let bytes = file(&[(attr(DEFERRED, FLAGS), &[3])], &data.concat(), &[]);
        fuzz_perf_data(&bytes);
        let merged = merge(&PerfFile::read(&bytes).unwrap()).unwrap();
        let new = bodies(&merged.bytes);
        assert_eq!(new.len(), data.len() - stacks.len());
        let mut new = new.iter().filter_map(|body| match body {
            Body::Sample(sample) => sample.callchain.clone(),
            _ => None,
        });
        let mut used = BTreeSet::new();
        let mut wanted = Report { samples: samples.len() as u64, ..Report::default() };
        for (tid, time, chain, cookie) in &samples {
            let new = new.next().unwrap();
            let Some(cookie) = cookie else {
                assert_eq!(new, *chain);
                continue;
            };
            let kernel = chain.len() - 2;
            assert_eq!((&new[..kernel], new[kernel]), (&chain[..kernel], USER));
            let mine = stacks.iter().enumerate().filter(|(_, s)| (s.0, s.1) == (*tid, *cookie));
            let next = mine.clone().filter(|(_, s)| s.2 >= *time).min_by_key(|(_, s)| s.2);
            let Some((index, found)) = next.or_else(|| mine.max_by_key(|(_, s)| s.2)) else {
                assert_eq!(new.len(), chain.len() - 1);
                wanted.samples_alone.push(crate::perf::merge::Orphan {
                    tid: Some(*tid),
                    cookie: *cookie,
                    time: Some(*time),
                });
                continue;
            };
            used.insert(index);
            wanted.merged += 1;
            wanted.late += u64::from(*time > found.2);
            assert_eq!(new.len(), chain.len() - 1 + found.3.len());
            assert_eq!(new[kernel + 1..], found.3);
        }
        let report = merged.report;
        assert_eq!(report.samples_alone, wanted.samples_alone);
        assert_eq!((report.merged, report.late), (wanted.merged, wanted.late));
        let asked = |tid: u32, cookie: u64| {
            samples.iter().any(|sample| (sample.0, sample.3) == (tid, Some(cookie)))
        };
        let alone = &report.stacks_alone;
        let unasked = alone.iter().filter(|s| !asked(s.tid.unwrap(), s.cookie)).count();
        assert_eq!(unasked, stacks.iter().filter(|s| !asked(s.0, s.1)).count());
        let not_used = stacks.len() - used.len();
        assert!(alone.len() <= not_used);
        assert!(alone.len() as u64 + report.repeated >= not_used as u64);
        assert_eq!(report.stacks, stacks.len() as u64);
    }
}

fn below(state: &mut u64, n: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % n.max(1) as u64) as usize
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/perf_data")
}

#[test]
fn the_corpus_is_what_is_crafted() {
    for (name, bytes) in corpus() {
        let path = folder().join(name);
        if std::env::var_os("EMU_BLESS").is_some() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let stored = fs::read(&path).unwrap_or_default();
        let name = path.display();
        assert!(stored == bytes, "{name} is not up to date: run the test with EMU_BLESS=1");
    }
}

/// Seeded mutations: bits, words that are lengths somewhere, cuts, pieces in another place.
#[test]
fn mutations_get_an_answer() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut below = |n: usize| below(&mut state, n);
    let mut files = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let good = fs::read(entry.unwrap().path()).unwrap();
        fuzz_perf_data(&good);
        files += 1;
        for _ in 0..if good.len() > 20_000 { 500 } else { 5000 } {
            let mut bytes = good.clone();
            for _ in 0..1 + below(4) {
                // Half of the changes are at the front, where the lengths of sections are.
                let len = if below(2) == 0 { bytes.len() } else { bytes.len().min(512) };
                let at = below(len);
                match below(6) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => bytes[at] = below(256) as u8,
                    2 => bytes.truncate(at.max(1)),
                    3 => {
                        let word = [0, 1, 8, 0x8000, u64::MAX, 1 << 61, 1 << 40][below(7)];
                        let at = at & !7;
                        if let Some(place) = bytes.get_mut(at..at + 8) {
                            place.copy_from_slice(&word.to_le_bytes());
                        }
                    }
                    4 => {
                        let from = below(bytes.len()) & !7;
                        let piece = bytes[from..(from + 64).min(bytes.len())].to_vec();
                        let to = at & !7;
                        let end = (to + piece.len()).min(bytes.len());
                        bytes[to..end].copy_from_slice(&piece[..end - to]);
                    }
                    _ => {
                        let piece = bytes[at..(at + 64).min(bytes.len())].to_vec();
                        let to = below(bytes.len());
                        bytes.splice(to..to, piece);
                    }
                }
            }
            fuzz_perf_data(&bytes);
        }
    }
    assert!(files >= 12, "{files} files");
}
