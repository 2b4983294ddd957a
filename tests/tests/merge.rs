//! `perf.data` files read back, and deferred callchains merged: captures of a real kernel
//! against what its perf printed, the installed perf against what we wrote.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use arch::Arch;
use emu::export::merge::merge;
use emu::export::perf_read::{Body, PerfFile};
use emu::export::{self, Format, Images, Output};
use emu::perf::merge::cookie;
use emu::perf::record::context;
use tests::harness::Harness;
use tests::perf::perf;
use tests::program::{emu, finish};
use tests::{root, scratch};

/// A capture; its samples, those merged, late, and without a stack; its stacks, those
/// without a sample. All were counted from the files by another program.
const CAPTURES: [(&str, [u64; 6]); 11] = [
    ("cpuclock_defer", [106, 106, 3, 0, 79, 0]),
    ("cpuclock_defer_all", [30, 9, 0, 0, 8, 0]),
    ("exec_defer", [16, 15, 0, 1, 8, 0]),
    ("fault_defer", [10, 10, 0, 0, 10, 0]),
    ("getpid_both_defer", [4, 4, 0, 0, 2, 0]),
    ("getpid_defer_deep", [2, 2, 0, 0, 2, 0]),
    ("kprobe_defer", [6, 6, 0, 0, 4, 0]),
    ("lost_defer", [613, 588, 0, 25, 304, 6]),
    ("rawsys_defer", [22, 21, 0, 1, 11, 0]),
    ("rawsys_defer_ucc", [16, 15, 0, 1, 8, 0]),
    ("signal_defer", [42, 41, 3, 1, 18, 0]),
];

/// `perf script` shows so many frames of a chain.
const SHOWN: usize = 127;

fn capture(name: &str) -> PathBuf {
    root().join("tests/data/captures").join(name)
}

/// Samples by thread and microsecond, each with its frames.
type Printed = BTreeMap<(u32, u64), Vec<Vec<u64>>>;

/// Takes the output of `perf script` apart.
fn parse(text: &str) -> Printed {
    let mut samples = Printed::new();
    let mut at = (0, 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(frame) = line.strip_prefix('\t') {
            let address = frame.split_whitespace().next().unwrap();
            let address =
                u64::from_str_radix(address, 16).unwrap_or_else(|e| panic!("{line}: {e}"));
            samples.get_mut(&at).unwrap().last_mut().unwrap().push(address);
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let time = words.iter().find_map(|word| word.strip_suffix(':')?.split_once('.'));
        let (seconds, micros) = time.unwrap_or_else(|| panic!("no time: {line}"));
        let micros = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
        at = (words[1].parse().unwrap(), micros);
        samples.entry(at).or_default().push(Vec::new());
    }
    samples
}

/// Without markers, as far as perf shows it.
fn frames(chain: &[u64]) -> Vec<u64> {
    chain.iter().copied().filter(|&word| word < context::MAX).take(SHOWN).collect()
}

#[test]
fn captures_merge_as_perf_merges_them() {
    for (name, wanted) in CAPTURES {
        let bytes = fs::read(capture(&format!("{name}.data"))).unwrap();
        let file = PerfFile::read(&bytes).unwrap();
        let merged = merge(&file).unwrap();
        let r = &merged.report;
        let alone = [r.samples_alone.len() as u64, r.stacks_alone.len() as u64];
        let found = [r.samples, r.merged, r.late, alone[0], r.stacks, alone[1]];
        assert_eq!((found, r.repeated), (wanted, 0), "{name}");
        let Ok(text) = fs::read_to_string(capture(&format!("{name}.script.txt"))) else {
            assert_eq!(name, "lost_defer");
            continue;
        };
        let mut printed = parse(&text);
        let again = PerfFile::read(&merged.bytes).unwrap();
        let left = again.records().map(Result::unwrap);
        let before = file.records().map(Result::unwrap);
        let before = before.filter(|r| !matches!(r.body, Body::CallchainDeferred { .. }));
        let (mut only_here, mut pairs) = (0, 0);
        for (old, new) in before.zip(left) {
            pairs += 1;
            let (Body::Sample(old), Body::Sample(new)) = (&old.body, &new.body) else {
                assert_eq!(old.body, new.body, "{name}");
                continue;
            };
            let ((_, tid), time) = (new.pid_tid.unwrap(), new.time.unwrap());
            let of_perf = printed.get_mut(&(tid, time / 1000)).unwrap();
            let (old, new) = (old.callchain.as_ref().unwrap(), new.callchain.as_ref().unwrap());
            let here = frames(new);
            let at = of_perf.iter().position(|frames| *frames == here);
            let at = at.unwrap_or_else(|| {
                // perf leaves the cookie of a sample that is late or has no stack.
                only_here += 1;
                let cookie = cookie(old).unwrap_or_else(|| panic!("{name}: {new:x?} {of_perf:x?}"));
                let kernel = frames(&old[..old.len() - 2]);
                let unmerged = [&kernel[..], &[cookie]].concat();
                of_perf.iter().position(|frames| *frames == unmerged).unwrap()
            });
            of_perf.remove(at);
        }
        assert_eq!(pairs, again.records().count());
        assert!(printed.values().all(Vec::is_empty), "{name}: {printed:x?}");
        assert_eq!(only_here, r.late + alone[0], "{name}");
    }
}

#[test]
fn merged_captures_are_read_by_the_installed_perf() {
    let dir = scratch("merge");
    let kallsyms = capture("kallsyms").display().to_string();
    // perf warns of lost records, and rightly so.
    for (name, [samples, ..]) in CAPTURES.iter().filter(|(name, _)| *name != "lost_defer") {
        let (from, to) = (capture(&format!("{name}.data")), dir.join(name));
        let done = finish(emu(&["merge"]).arg(&from).arg("-o").arg(&to));
        assert_eq!((done.status, done.stdout.as_str()), (0, ""), "{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        let file = to.display().to_string();
        let read = |words: &[&str]| {
            let rest = ["-i", &file, "--kallsyms", &kallsyms];
            perf(&[words, &rest].concat(), None, &dir)
        };
        let Some(script) = read(&["script"]) else { return };
        assert!(read(&["report", "--stdio"]).unwrap().contains("Samples: "));
        let printed = parse(&script);
        assert_eq!(printed.values().flatten().count() as u64, *samples, "{name}");
        let bytes = fs::read(&to).unwrap();
        for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
            let Body::Sample(sample) = record.body else { continue };
            let ((_, tid), time) = (sample.pid_tid.unwrap(), sample.time.unwrap());
            let frames = frames(&sample.callchain.unwrap());
            // perf 6 prints an offset in the program's file, which is not there.
            let same = |printed: &[u64]| {
                let is = |(p, a): (&u64, &u64)| p == a || (*p < 1 << 24 && (p ^ a) & 0xfff == 0);
                printed.len() == frames.len() && printed.iter().zip(&frames).all(is)
            };
            let of_perf = &printed[&(tid, time / 1000)];
            assert!(of_perf.iter().any(|p| same(p)), "{name}: {frames:x?}, not {of_perf:x?}");
        }
    }
}

#[test]
fn what_emu_writes_is_read_and_written_back() {
    let dir = scratch("merge-own");
    for arch in Arch::ALL {
        let events = "cycles,page-faults,raw_syscalls:sys_enter";
        let outcome = Harness::new(arch, "golden-fp").args(&["sys", "3"]).events(events, 101).run();
        let path = dir.join(arch.name());
        let output = Output::File(path.clone());
        let mut sink =
            export::open(Format::PerfData, &outcome.session, output, Images::of_host()).unwrap();
        outcome.records.iter().for_each(|r| sink.record(r).unwrap());
        sink.finish().unwrap();

        let bytes = fs::read(&path).unwrap();
        let file = PerfFile::read(&bytes).unwrap();
        let mut data = Vec::new();
        let mut samples = outcome.samples();
        for record in file.records().map(Result::unwrap) {
            record.write(&mut data).unwrap();
            let Body::Sample(read) = record.body else { continue };
            let wrote = samples.next().unwrap();
            assert_eq!(record.event, wrote.event);
            assert_eq!((read.ip, read.time), (Some(wrote.ip), Some(wrote.time)));
            assert_eq!(read.pid_tid, Some((wrote.pid, wrote.tid)));
            assert_eq!(read.callchain.as_ref(), Some(&wrote.callchain));
            let lr = read.user_regs.map(|regs| regs.values.iter().next());
            assert_eq!(lr.flatten(), wrote.user_lr);
            assert_eq!(read.raw.is_some_and(|raw| raw.len() > 4), wrote.raw.is_some());
        }
        assert!(samples.next().is_none());
        assert!(file.write(&data, 0) == bytes, "{arch}: the file is another one");
        assert!(merge(&file).unwrap().bytes == bytes, "{arch}: nothing is to be merged");
    }
}

#[test]
fn orphans_are_listed() {
    let to = scratch("merge-orphans").join("merged");
    let done =
        finish(emu(&["merge", "--orphans"]).arg(capture("lost_defer.data")).arg("-o").arg(&to));
    assert_eq!(
        done.stderr,
        "emu: 613 samples: 588 merged, 25 without a stack; 304 stacks: 6 without a sample\n"
    );
    let count = |what| done.stdout.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("sample  tid "), count("stack   tid ")), (25, 6), "{}", done.stdout);
}

#[test]
fn what_cannot_be_merged_is_told_in_one_line() {
    let dir = scratch("merge-errors");
    let corpus = root().join("tests/fuzz/corpus/perf_data");
    let of = |file: PathBuf, to: &str| {
        let done = finish(emu(&["merge"]).arg(file).args(["-o", to]));
        assert_eq!((done.status, done.stdout.as_str()), (125, ""), "{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        done.stderr
    };
    let out = dir.join("out").display().to_string();
    for (name, what) in [
        ("crafted-stream", "crafted-stream: offset 0x8, header size: a stream; "),
        ("crafted-big-endian", "offset 0x0, magic: the file of a big-endian machine"),
        ("kernel-cut", "do not lie within the file, which has 3000; was it cut?"),
        ("crafted-compressed", "records are compressed"),
        ("no-such-file", "no-such-file: cannot read it: No such file or directory"),
        (".", "cannot read it: it is no file"),
    ] {
        let said = of(corpus.join(name), &out);
        assert!(said.contains(what), "{name}: {said}");
        assert!(!dir.join("out").exists());
    }
    let good = capture("fault_defer.data");
    assert!(of(good.clone(), "-").contains("-o: "));
    let said = of(good, &dir.display().to_string());
    assert!(said.contains("cannot write it: Is a directory"), "{said}");
}
