//! Runs of the recorded programs against recordings of perf 7.2 on Linux 7.3.
//!
//! The texts in `golden/defer` were made from the recordings by `captures` (`src/bin`), with the
//! reader that also reads the runs' own profiles. What is known to differ stands in
//! [`DIFFERENCES`], and with its reason in `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

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
