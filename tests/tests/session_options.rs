//! Options of `emu run` that say which tasks a session follows, on files that were read back.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use arch::Arch;
use emu::export::perf_read::{Body, PerfFile};
use emu::perf::abi;
use tests::program::{emu, finish};
use tests::scratch;

/// The guest's first task.
const FIRST: u32 = 1000;

/// `-i`: the first task alone is sampled and tells of its children; they themselves tell nothing.
#[test]
fn without_inheritance_the_first_task_is_alone() {
    for arch in Arch::ALL {
        for short in [None, Some("-i"), Some("--no-inherit")] {
            let dir = scratch(&format!("no-inherit-{arch}"));
            let mut words = vec!["run", "-q", "--laws", "--cpus", "2", "--arch", arch.name()];
            words.extend(short);
            words.extend(["-c", "20k", "tasks"]);
            let done = finish(emu(&words).current_dir(&dir));
            assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
            let bytes = fs::read(dir.join("perf.data")).unwrap();
            let (mut writers, mut samples, mut tasks) = (BTreeSet::new(), BTreeSet::new(), 0);
            for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
                match record.body {
                    Body::Sample(sample) => {
                        samples.insert(sample.pid_tid.unwrap().1);
                    }
                    Body::Task { .. } => tasks += 1,
                    _ => {}
                }
                let written = record.trailer.filter(|t| t.time != Some(0));
                writers.extend(written.and_then(|t| t.pid_tid).map(|(_, tid)| tid));
            }
            let alone = BTreeSet::from([FIRST]);
            assert_eq!(samples == alone, short.is_some(), "{arch} {short:?}: {samples:?}");
            assert_eq!(writers == alone, short.is_some(), "{arch} {short:?}: {writers:?}");
            assert!(tasks > 5, "{arch} {short:?}: {tasks} FORK and EXIT");
        }
    }
}

/// A CPU's event tells of both tasks of a switch: who leaves names who comes, and the other way
/// round. A task's event tells of its own.
#[test]
fn a_cpus_event_tells_of_both_tasks_of_a_switch() {
    for arch in Arch::ALL {
        let dir = scratch(&format!("switch-wide-{arch}"));
        let words = ["run", "-q", "-a", "--switch-events", "--cpus", "2", "--arch", arch.name()];
        let done = finish(emu(&words).args(["-c", "20k", "tasks"]).current_dir(&dir));
        assert_eq!(done.status, 0, "{}", done.stderr);
        let bytes = fs::read(dir.join("perf.data")).unwrap();
        let mut left = BTreeMap::new();
        let mut switches = 0;
        for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
            assert!(!matches!(record.body, Body::Switch), "{arch}");
            let Body::SwitchCpuWide { pid, tid } = record.body else { continue };
            let trailer = record.trailer.unwrap();
            let (own, cpu) = (trailer.pid_tid.unwrap(), trailer.cpu.unwrap().0);
            if record.misc & abi::misc::SWITCH_OUT != 0 {
                left.insert(cpu, (own, (pid, tid)));
            } else if let Some(pair) = left.remove(&cpu) {
                assert_eq!(pair, ((pid, tid), own), "{arch}");
                switches += 1;
            }
        }
        assert!(switches > 20, "{arch}: {switches}");
    }
}

/// Perf's own default of 4000 Hz is lowered to the kernel's limit; what is asked for is refused.
#[test]
fn the_default_frequency_is_within_the_limit() {
    let dir = scratch("lowered");
    let words = ["run", "-q", "--sysctl", "kernel.perf_event_max_sample_rate=2000"];
    let done = finish(emu(&words).arg("hello").current_dir(&dir));
    assert_eq!(done.status, 0, "{}", done.stderr);
    let bytes = fs::read(dir.join("perf.data")).unwrap();
    let file = PerfFile::read(&bytes).unwrap();
    // `sample_freq` is behind type, size and config.
    let attr = &file.events().attrs()[0];
    assert_eq!(attr.bytes[16..24], 2000u64.to_le_bytes());
    let refused = finish(emu(&words).args(["-F", "2001", "hello"]).current_dir(&dir));
    assert!(refused.stderr.contains("(2000 Hz) exceeded"), "{}", refused.stderr);
}

/// What the machine has not is refused in words, before the run.
#[test]
fn what_the_machine_has_not_is_refused() {
    let dir = scratch("has-not");
    let period = (1u64 << 63).to_string();
    for (words, why) in [
        (&["-c", &period][..], "EINVAL"),
        (&["--arch", "aarch64", "-e", "x86_fpu:x86_fpu_regs_activated"], "no such tracepoint"),
        (&["--arch", "aarch64", "--tracer", "ftrace"], "no deferred unwinder"),
        (&["--arch", "aarch64", "--call-graph", "fp,defer", "--tracer", "bpf"], "sframe,defer"),
    ] {
        let done = finish(emu(&["run"]).args(words).arg("hello").current_dir(&dir));
        assert_ne!(done.status, 0, "{words:?}");
        assert!(done.stderr.contains(why), "{words:?}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{words:?}");
    }
}

/// With `-C` a stack may be captured on a CPU that is not sampled: a known reason.
#[test]
fn a_stack_of_another_cpu_is_explained() {
    let dir = scratch("elsewhere");
    let words = ["run", "-q", "--laws", "--cpus", "3", "-C", "1", "--call-graph", "sframe,defer"];
    let done = finish(emu(&words).args(["-c", "5000", "tasks"]).current_dir(&dir));
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("LAW-36 by CPU filter"), "{}", done.stderr);
}
