//! Several sessions of perf at once: each its own profile of the same guest.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use emu::export::perf_read::{Body, PerfFile};
use emu::perf::merge::cookie;
use tests::program::{Finished, emu, finish};
use tests::scratch;

/// `emu` with these words in `dir`.
fn run(dir: &Path, words: &[&str]) -> Finished {
    let done = finish(emu(words).current_dir(dir));
    assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
    done
}

/// Samples and records of each thread's cookies, in one profile.
#[derive(Debug, Default)]
struct Profile {
    stacks: BTreeMap<(u32, u64), (usize, usize)>,
    /// Times of all samples.
    times: Vec<u64>,
    mappings: usize,
}

fn read(file: &Path) -> Profile {
    let bytes = fs::read(file).unwrap();
    let mut profile = Profile::default();
    for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
        match record.body {
            Body::Sample(sample) => {
                profile.times.push(sample.time.unwrap());
                let (_, tid) = sample.pid_tid.unwrap();
                if let Some(cookie) = sample.callchain.as_deref().and_then(cookie) {
                    profile.stacks.entry((tid, cookie)).or_default().0 += 1;
                }
            }
            Body::CallchainDeferred { cookie, .. } => {
                let (_, tid) = record.trailer.unwrap().pid_tid.unwrap();
                profile.stacks.entry((tid, cookie)).or_default().1 += 1;
            }
            Body::Mmap2 { .. } => profile.mappings += 1,
            _ => {}
        }
    }
    profile
}

impl Profile {
    /// Stacks for which this holds of their numbers of samples and records.
    fn count(&self, wanted: impl Fn(usize, usize) -> bool) -> usize {
        self.stacks.values().filter(|(samples, records)| wanted(*samples, *records)).count()
    }
}

/// With every design, on one and on two CPUs, under the laws: no cookie of mainline has two
/// records, and each profile has the records of the other's samples. (None of the events samples
/// in NMI, where two of the designs refuse to be asked.)
#[test]
fn each_session_gets_the_records_of_the_others() {
    for design in ["mask", "cookie", "timestamp", "per-work"] {
        for cpus in ["1", "2"] {
            let dir = scratch(&format!("sessions-{design}-{cpus}"));
            let beside = "-e raw_syscalls:sys_exit --call-graph fp,defer -o b.data";
            let of_cpus = "-a -e cpu-clock -c 9001 --call-graph fp,defer -o c.data";
            let words = ["run", "-q", "--laws", "--deferred", design, "--cpus", cpus];
            let own = ["-e", "page-faults", "-c", "1", "--call-graph", "fp,defer", "-o", "a.data"];
            let sessions = ["--session", beside, "--session", of_cpus, "tasks"];
            run(&dir, &[&words[..], &own, &sessions].concat());
            for name in ["a.data", "b.data", "c.data"] {
                let profile = read(&dir.join(name));
                let place = format!("{design}, {cpus} CPUs, {name}");
                assert!(profile.count(|s, r| s > 0 && r == 1) > 0, "{place}");
                assert!(profile.count(|s, r| s == 0 && r > 0) > 0, "{place}: none of another's");
                if design == "mask" {
                    assert_eq!(profile.count(|_, r| r > 1), 0, "{place}");
                }
            }
        }
    }
}

/// As the captures two_a and two_b: three getpid of a task's session and three read of one of all
/// CPUs, beside each other. Each file has all six records, three without a sample of its own.
#[test]
fn two_sessions_as_perf_recorded_them() {
    let dir = scratch("sessions-two");
    let b = "-a -e syscalls:sys_enter_read -c 1 --call-graph fp,defer -o two_b.data";
    let a = ["-e", "syscalls:sys_enter_getpid", "-c", "1", "--call-graph", "fp,defer"];
    let guest = ["golden-fp", "sys", "3"];
    let words = [&["run", "-q", "--laws", "-o", "two_a.data"][..], &a, &["--session", b], &guest];
    run(&dir, &words.concat());
    let (a, b) = (read(&dir.join("two_a.data")), read(&dir.join("two_b.data")));
    for profile in [&a, &b] {
        assert_eq!(profile.stacks.len(), 6, "{profile:?}");
        assert_eq!(profile.count(|_, records| records == 1), 6, "{profile:?}");
        assert_eq!(profile.count(|samples, _| samples == 1), 3, "{profile:?}");
    }
    for (stack, (samples, _)) in &a.stacks {
        assert_eq!(samples + b.stacks[stack].0, 1, "{stack:x?}: a sample in one of them");
    }
    // One cookie an entry, counted for the CPU, whoever asks.
    let counts: Vec<u64> = a.stacks.keys().map(|(_, cookie)| cookie >> 32).collect();
    assert!(counts.windows(2).all(|w| w[1] == w[0] + 2), "{counts:?}");
}

/// A session has samples of its own time only, and knows of the mappings that it found; the main
/// one goes on.
#[test]
fn a_session_begins_and_ends_while_the_guest_runs() {
    for scope in ["", "-a"] {
        let dir = scratch(&format!("sessions-time{scope}"));
        let from = 2_000_000;
        let until = 6_000_000;
        let words = "-c 5003 --call-graph fp,defer -o b.data";
        let beside = format!("{scope} {words} --from {from} --until {until}");
        let own =
            ["run", "-q", "--laws", "-c", "20011", "--call-graph", "fp,defer", "-o", "a.data"];
        run(&dir, &[&own[..], &["--session", &beside, "--cpus", "2", "demo"]].concat());
        let (a, b) = (read(&dir.join("a.data")), read(&dir.join("b.data")));
        assert!(b.times.len() > 100 && b.mappings > 1, "{scope}: {} samples", b.times.len());
        // The thread that closes it has to get its turn.
        let slack = 1_000_000;
        assert!(b.times.iter().all(|t| (from..until + slack).contains(t)), "{scope}");
        assert!(a.times.iter().any(|t| *t < from) && a.times.iter().any(|t| *t > until + slack));
        // Four of its samples to each of the other's.
        let beside = a.times.iter().filter(|t| (from..until).contains(*t)).count();
        assert!(b.times.len().abs_diff(4 * beside) < 60, "{} to {beside}", b.times.len());
    }
}

/// Recorded and replayed: the same bytes in both profiles; and what differs is said.
#[test]
fn a_replay_writes_the_same_profiles() {
    let dir = scratch("sessions-replay");
    let beside = "-a -F 997 -e cpu-clock --call-graph fp,defer -o b.data --from 100k --until 3M";
    let own = ["-c", "10007", "--session", beside, "--cpus", "2", "tasks"];
    run(&dir, &[&["record", "-q", "-o", "run.emu", "--profile", "a.data"], &own[..]].concat());
    let first = [fs::read(dir.join("a.data")).unwrap(), fs::read(dir.join("b.data")).unwrap()];
    let replayed = run(&dir, &["replay", "run.emu", "-o", "a.data"]);
    assert!(replayed.stderr.contains("as recorded"), "{}", replayed.stderr);
    let again = [fs::read(dir.join("a.data")).unwrap(), fs::read(dir.join("b.data")).unwrap()];
    assert!(first == again);
    let other = run(&dir, &["replay", "run.emu", "--session", "-c 7 -o c.data", "-o", "d.data"]);
    assert!(other.stderr.contains("--session"), "{}", other.stderr);
}

/// What is refused, with the reason.
#[test]
fn wrong_words() {
    let dir = scratch("sessions-wrong");
    for (words, told) in [
        ("-e nothing", "--session (session 2): -e: "),
        ("-C 1", "-C: there is no CPU 1"),
        ("--deferred mask", "--deferred is not of a session"),
        ("-F 1 -c 1", "cannot be used with"),
        (
            "-o perf.data",
            "session 2's profile perf.data: this is the file of the profile perf.data",
        ),
    ] {
        let done = finish(emu(&["run", "--session", words, "hello"]).current_dir(&dir));
        assert!(done.status == 125 || done.status == 2, "{words}: {}", done.status);
        assert!(done.stderr.contains(told), "{words}: {}", done.stderr);
    }
}
