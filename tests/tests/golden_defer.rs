//! Runs of the recorded programs against recordings of perf 7.2 on Linux 7.3.
//!
//! The texts in `golden/defer` were made from the recordings by `captures` (`src/bin`), with the
//! reader that also reads the runs' own profiles. What is known to differ stands in
//! [`DIFFERENCES`], and with its reason in `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use tests::captures::{CAPTURES, Capture};

/// Capture, what the real kernel has, what the model has.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("fault_fp", "at strncpy_from_user", "at path_openat"),
    ("fault_fp", COPY, OPEN),
    ("fault_defer", "at strncpy_from_user", "at path_openat"),
    ("fault_defer", COPY, OPEN),
];
/// A path's name is copied before the functions that look it up are called; the model does
/// both in one step.
const COPY: &str = "KERNEL strncpy_from_user <- do_getname <- do_sys_openat2";
const OPEN: &str = "KERNEL path_openat <- do_file_open <- do_sys_openat2";

/// What a run must be like: the recording, but for the differences.
fn expected(capture: &Capture) -> String {
    let file = tests::root().join("tests/golden/defer").join(capture.name);
    let mut text = std::fs::read_to_string(file.with_extension("txt")).unwrap();
    for (_, theirs, ours) in DIFFERENCES.iter().filter(|(name, ..)| *name == capture.name) {
        assert!(text.contains(theirs), "{}: nothing is {theirs:?}", capture.name);
        text = text.replace(theirs, ours);
    }
    text
}

#[test]
fn runs_are_like_the_recordings() {
    let dir = tests::scratch("golden-defer");
    let mut wrong = Vec::new();
    for capture in CAPTURES {
        let (expected, actual) = (expected(capture), capture.text_of_run());
        if expected != actual {
            let line = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
            let at = line.map_or("its end".to_owned(), |line| format!("line {}", line + 1));
            let file = dir.join(capture.name);
            std::fs::write(&file, &actual).unwrap();
            wrong.push(format!("{} differs at {at}: see {}", capture.name, file.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The texts have what the recordings show, so that equal texts mean something.
#[test]
fn the_recordings_have_what_they_are_for() {
    for capture in CAPTURES {
        let text = expected(capture);
        let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        let asks = text.contains(" defer_callchain");
        assert_eq!(asks, count("deferred") > 0, "{}", capture.name);
        assert_eq!(asks, text.contains("USER_DEFERRED #1"), "{}", capture.name);
        assert!(count("sample") > 1, "{}", capture.name);
        assert_eq!((count("task 4"), count("record")), (1, 0), "{}", capture.name);
    }
}

/// What is known of recordings whose files are not here: figures that were counted in them
/// (those of perf's own execve taken off), and the shapes of chains.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    samples: usize,
    cookies: usize,
    /// Samples for each cookie: how many have so many.
    samples_a_cookie: BTreeMap<usize, usize>,
    records: usize,
    without_record: usize,
    /// Most and fewest addresses of a record.
    longest: usize,
    shortest: usize,
}

impl Figures {
    fn of(text: &str) -> Figures {
        let lines = |word: &'static str| text.lines().filter(move |l| l.starts_with(word));
        let number = |line: &str| {
            let behind = line.split_once('#')?.1;
            behind.split([' ', ':']).next()?.parse::<usize>().ok()
        };
        let mut asked: BTreeMap<usize, usize> = BTreeMap::new();
        lines("sample").filter_map(number).for_each(|n| *asked.entry(n).or_default() += 1);
        let recorded: Vec<usize> = lines("deferred").filter_map(number).collect();
        let once: BTreeSet<usize> = recorded.iter().copied().collect();
        assert_eq!(once.len(), recorded.len(), "two records for a cookie");
        let mut samples_a_cookie = BTreeMap::new();
        asked.values().for_each(|&n| *samples_a_cookie.entry(n).or_default() += 1);
        let lengths: Vec<usize> = lines("deferred").map(|l| l.split(" <- ").count()).collect();
        Figures {
            samples: lines("sample").count(),
            cookies: asked.len(),
            samples_a_cookie,
            records: recorded.len(),
            without_record: asked.keys().filter(|n| !once.contains(n)).count(),
            longest: lengths.iter().copied().max().unwrap_or(0),
            shortest: lengths.iter().copied().min().unwrap_or(0),
        }
    }
}

fn run(name: &'static str, args: &'static [&'static str], events: &'static str) -> String {
    Capture { name, guest: "guest-fp", args, events, options: "fp,defer" }.text_of_run()
}

/// SIGKILL: the call that is interrupted gets its record.
#[test]
fn killed_defer() {
    let text = run("killed_defer", &["killed"], "raw_syscalls:sys_enter,raw_syscalls:sys_exit");
    let samples_a_cookie = BTreeMap::from([(2, 4)]);
    let (records, without_record) = (4, 0);
    let (samples, cookies, longest, shortest) = (8, 4, 5, 3);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    assert!(text.lines().rev().nth(1).unwrap().starts_with("deferred"), "{text}");
}

/// Nine doctored frame pointers: a record each, of at most three addresses.
#[test]
fn badfp_defer() {
    let text = run("badfp_defer", &["badfp"], "syscalls:sys_enter_getpid");
    let samples_a_cookie = BTreeMap::from([(1, 9)]);
    let (records, without_record) = (9, 0);
    let (samples, cookies, longest, shortest) = (9, 9, 3, 1);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
}

/// The call that ends the task has a cookie and no record; the sample after PF_EXITING has its
/// user part at once.
#[test]
fn procexit_defer() {
    let events = "sched:sched_process_exit,syscalls:sys_enter_exit_group";
    let text = run("procexit_defer", &["sys", "1"], events);
    let samples_a_cookie = BTreeMap::from([(1, 1)]);
    let (records, without_record) = (0, 1);
    let (samples, cookies, longest, shortest) = (2, 1, 0, 0);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let chain = "KERNEL do_exit <- do_group_exit <- __x64_sys_exit_group <- x64_sys_call <- \
        do_syscall_64 <- entry_SYSCALL_64_after_hwframe USER guest_start+";
    let exits: Vec<&str> = text.lines().filter(|l| l.contains("sched_process_exit k")).collect();
    assert!(exits.len() == 1 && exits[0].contains(chain), "{text}");
    assert!(text.lines().any(|l| l.ends_with(": USER_DEFERRED #1")), "{text}");
}
