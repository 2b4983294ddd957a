//! What goes into a file or stream comes out of it.

use std::io::Cursor;
use std::path::Path;

use arch::Arch;
use emu::export::Sink;
use emu::export::perf_data::{PerfDataFile, PerfDataPipe};
use emu::perf::record::{CpuMode, Raw, Record, Sample};

use crate::cases::{self, Case};
use crate::reader::{self, PerfData, SampleFields, u64_at};

pub fn file(case: &Case) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let mut sink = PerfDataFile::new(&case.session, &mut out, "memory".into()).unwrap();
    case.records.iter().for_each(|r| sink.record(r).unwrap());
    sink.finish().unwrap();
    drop(sink);
    out.into_inner()
}

pub fn stream(case: &Case) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = PerfDataPipe::new(&case.session, &mut out, "memory".into()).unwrap();
    case.records.iter().for_each(|r| sink.record(r).unwrap());
    sink.finish().unwrap();
    drop(sink);
    out
}

fn all() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export-round-trip");
    Arch::ALL.into_iter().flat_map(|arch| cases::all(arch, &dir)).collect()
}

/// What the reader must make of a sample.
fn expected(case: &Case, s: &Sample) -> SampleFields {
    let event = &case.session.events[s.event];
    let tracepoint = event.kind.is_tracepoint();
    let raw = match (&s.raw, tracepoint) {
        (Some(Raw::SysEnter { id, args }), true) => {
            let mut b = vec![0x82, 1, 0, 1];
            b.extend(s.tid.to_le_bytes());
            b.extend(id.to_le_bytes());
            b.extend(args.iter().flat_map(|a| a.to_le_bytes()));
            b.extend([0; 4]);
            b
        }
        (Some(Raw::SysExit { id, ret }), true) => {
            let mut b = vec![0x81, 1, 0, 1];
            b.extend(s.tid.to_le_bytes());
            b.extend(id.to_le_bytes());
            b.extend(ret.to_le_bytes());
            b.extend([0; 4]);
            b
        }
        _ => Vec::new(),
    };
    SampleFields {
        event: s.event,
        ip: s.ip,
        pid_tid: (s.pid, s.tid),
        time: s.time,
        cpu: s.cpu,
        period: s.period,
        chain: s.callchain.clone(),
        raw,
        user_lr: s.user_lr.filter(|_| event.callchain),
    }
}

fn check(case: &Case, data: &PerfData) {
    assert_eq!(data.attrs.len(), case.session.events.len());
    let samples: Vec<_> = case
        .records
        .iter()
        .filter_map(|r| match r {
            Record::Sample(s) => Some(expected(case, s)),
            _ => None,
        })
        .collect();
    let got: Vec<_> = data.records.iter().filter_map(|r| r.sample.as_ref()).collect();
    assert_eq!(got, samples.iter().collect::<Vec<_>>(), "{}", case.name);

    let times = |r: &Record| match r {
        Record::Sample(_) => None,
        other => Some(other.time()),
    };
    let want: Vec<u64> = case.records.iter().filter_map(times).collect();
    let got: Vec<u64> =
        data.records.iter().filter_map(|r| r.trailer).map(|t| t.0).filter(|&t| t > 0).collect();
    assert_eq!(got, want, "{}", case.name);

    let modes: Vec<u16> = data.records.iter().filter(|r| r.kind == 9).map(|r| r.misc).collect();
    let want = case.records.iter().filter_map(|r| match r {
        Record::Sample(s) => Some(if s.mode == CpuMode::Kernel { 1 } else { 2 }),
        _ => None,
    });
    assert_eq!(modes, want.collect::<Vec<u16>>());
}

#[test]
fn files() {
    for case in all() {
        let data = reader::read_file(&file(&case));
        check(&case, &data);
        let tracepoints = case.session.events.iter().any(|e| e.name.starts_with("raw_syscalls"));
        assert_eq!(data.features.contains_key(&1), tracepoints);
        let samples: Vec<u64> =
            data.records.iter().filter_map(|r| r.sample.as_ref()).map(|s| s.time).collect();
        match samples[..] {
            [] => assert!(!data.features.contains_key(&21)),
            [first, ..] => {
                let times = &data.features[&21];
                assert_eq!((u64_at(times, 0), u64_at(times, 8)), (first, *samples.last().unwrap()));
            }
        }
    }
}

#[test]
fn streams() {
    for case in all() {
        check(&case, &reader::read_stream(&stream(&case)));
    }
}

#[test]
fn tracking_flags_are_on_the_first_event_only() {
    for case in all() {
        let data = reader::read_file(&file(&case));
        let tracking = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 23 | 1 << 24 | 1 << 29 | 1 << 34;
        for (i, attr) in data.attrs.iter().enumerate() {
            assert_eq!(attr.flags & tracking, if i == 0 { tracking } else { 0 });
            assert!(attr.flags >> 18 & 1 == 1, "sample_id_all");
            assert!(attr.flags >> 38 == 0, "no bit that perf 6.1 does not know");
        }
    }
}

#[test]
fn same_session_same_bytes() {
    for (a, b) in all().iter().zip(&all()) {
        assert!(file(a) == file(b), "{}", a.name);
        assert!(stream(a) == stream(b), "{}", a.name);
    }
}

/// Every prefix of a session ends in a valid file: an interruption is no loss.
#[test]
fn interrupted_sessions() {
    for mut case in all() {
        while case.records.pop().is_some() {
            check(&case, &reader::read_file(&file(&case)));
        }
    }
}

#[test]
fn rounds_are_marked() {
    let mut case = all().remove(0);
    let sample = case.records.last().unwrap().clone();
    case.records.extend(std::iter::repeat_n(sample, 20_000));
    let data = reader::read_file(&file(&case));
    let rounds = data.records.iter().filter(|r| r.kind == 68).count();
    let bytes: usize = data.records.iter().map(|r| 8 + r.body.len()).sum();
    assert_eq!(rounds, bytes >> 20);
    assert!(rounds > 1);
}
