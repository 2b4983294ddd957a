//! The records of a session's profile, read back from the file: what is no sample, dumps of the
//! user stack, records that were lost.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arch::Arch;
use emu::export::perf_read::{Body, PerfFile};
use tests::perf::perf;
use tests::program::{emu, finish};
use tests::scratch;

/// `emu run` with these words, into `perf.data` in `dir`; the file.
fn record(dir: &Path, words: &[&str]) -> PathBuf {
    let done = finish(emu(&["run", "-q"]).args(words).current_dir(dir));
    assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
    dir.join("perf.data")
}

/// A task is on the CPU that its last switch brought it to, and what it writes says so.
#[test]
fn every_record_says_its_cpu() {
    let dir = scratch("records-cpu");
    for arch in Arch::ALL {
        let words = ["--arch", arch.name(), "--cpus", "4", "--switch-events", "-c", "20k", "tasks"];
        let bytes = fs::read(record(&dir, &words)).unwrap();
        let mut on = BTreeMap::from([(1000, 0)]);
        let mut cpus = BTreeMap::<&str, Vec<u32>>::new();
        for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
            let Some(trailer) = record.trailer.filter(|t| t.time != Some(0)) else { continue };
            let ((_, tid), (cpu, _)) = (trailer.pid_tid.unwrap(), trailer.cpu.unwrap());
            let kind = match record.body {
                Body::Switch if record.misc & 1 << 13 == 0 => {
                    on.insert(tid, cpu);
                    "in"
                }
                Body::Switch => "out",
                Body::Comm { .. } => "comm",
                Body::Mmap2 { .. } => "mmap2",
                Body::Task { .. } => "task",
                other => panic!("{arch}: {other:?}"),
            };
            assert_eq!(on.get(&tid), Some(&cpu), "{arch}: {kind} of {tid}");
            cpus.entry(kind).or_default().push(cpu);
        }
        for kind in ["in", "out", "task"] {
            let seen = &cpus[kind];
            assert!((0..4).all(|cpu| seen.contains(&cpu)), "{arch}, {kind}: {seen:?}");
        }
    }
}

/// perf prints the same CPUs.
#[test]
fn perf_shows_the_cpu_of_each_record() {
    let dir = scratch("records-cpu-perf");
    let file = record(&dir, &["--cpus", "4", "--switch-events", "-c", "20k", "tasks"]);
    let bytes = fs::read(&file).unwrap();
    let mut wanted = BTreeMap::new();
    for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
        if let (Body::Switch | Body::Task { .. }, Some(trailer)) = (record.body, record.trailer) {
            let ((_, tid), (cpu, _)) = (trailer.pid_tid.unwrap(), trailer.cpu.unwrap());
            *wanted.entry((tid, cpu)).or_insert(0) += 1;
        }
    }
    let shown = ["--show-task-events", "--show-switch-events", "-F", "tid,cpu,event"];
    let words = [&["script", "-i", file.to_str().unwrap()], &shown[..]].concat();
    let Some(text) = perf(&words, None, &dir) else { return };
    let mut found = BTreeMap::new();
    let lines =
        text.lines().filter(|l| ["_SWITCH ", "_FORK(", "_EXIT("].iter().any(|w| l.contains(w)));
    for line in lines {
        let mut words = line.split_whitespace();
        let tid: u32 = words.next().unwrap().parse().unwrap();
        let cpu: u32 = words.next().unwrap().trim_matches(['[', ']']).parse().unwrap();
        *found.entry((tid, cpu)).or_insert(0) += 1;
    }
    assert_eq!(found, wanted);
}
