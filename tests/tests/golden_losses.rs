//! Runs of the program whose recordings have losses (perf 7.2 on Linux 7.3, one page of buffer):
//! what was kept there is what the run has at the same place, with as many records between as
//! LOST counts; and so it is of a run with a slow reader. `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use tests::captures::losses::{Kept, Word};
use tests::captures::{Capture, LOSSES};

/// The event that counts a lost record: a sample's own, of all else the first.
fn event_of<'l>(line: &'l str, first: &'l str) -> &'l str {
    line.strip_prefix("sample ").and_then(|rest| rest.split(' ').next()).unwrap_or(first)
}

/// Lays `kept` on `whole`, a run without losses, and returns how many records it has and how many
/// it lost.
///
/// # Panics
///
/// If a record is not the next of the run, or one that follows is not as far behind it as LOST
/// says; if the counts of the events' LOST_SAMPLES are others.
fn lay(name: &str, kept: &Kept, whole: &Kept, first: &str) -> (usize, usize) {
    let mut lost: BTreeMap<String, u64> = BTreeMap::new();
    let (mut at, mut records) = (0, 0);
    let mut lose = |words: &[Word]| {
        for word in words {
            let Word::Record(line, _) = word else { panic!("{name}: the whole run has lost some") };
            *lost.entry(event_of(line, first).to_owned()).or_default() += 1;
        }
    };
    for word in &kept.sequence {
        match word {
            Word::Lost(n) => {
                let n = usize::try_from(*n).unwrap();
                assert!(n > 0 && at + n < whole.sequence.len(), "{name}: {n} lost at {at}");
                lose(&whole.sequence[at..at + n]);
                at += n;
            }
            record => {
                assert_eq!(Some(record), whole.sequence.get(at), "{name}: the record {at}");
                (at, records) = (at + 1, records + 1);
            }
        }
    }
    // Behind the last that fitted there is no LOST record.
    lose(&whole.sequence[at..]);
    assert_eq!(lost, kept.lost, "{name}: LOST_SAMPLES");
    (records, whole.sequence.len() - records)
}

/// A run here, all of whose records are kept.
fn whole(capture: &Capture) -> Kept {
    let kept = Kept::parse(&capture.text_of_run());
    assert!(kept.lost.is_empty() && kept.sequence.len() > 1000, "{}", capture.name);
    kept
}

/// The first lines, without what is said of the reader.
fn events(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("event ")).collect()
}

#[test]
fn what_was_recorded_is_the_run_with_gaps() {
    // `lost_defer` kept 613 samples and 304 records and lost 889, `lost_fp` kept 779 samples and
    // lost 425; a sample and a record of each are of perf's own execve, EXIT is one of ours.
    let figures = [("lost_fp", 779, 425), ("lost_defer", 613 + 304 - 1, 889)];
    for (capture, (name, records, lost)) in LOSSES.iter().zip(figures) {
        assert_eq!(capture.name, name);
        let (recorded, run) = (capture.recorded(), capture.text_of_run());
        assert_eq!(events(&recorded), events(&run), "{name}");
        let first = capture.events.split(',').next().unwrap();
        let all = lay(name, &Kept::parse(&recorded), &whole(capture), first);
        assert_eq!(all, (records, lost), "{name}");
    }
}

/// Readers of several speeds.
#[test]
fn a_slow_reader_loses_as_was_recorded() {
    for capture in LOSSES {
        let whole = whole(capture);
        let first = capture.events.split(',').next().unwrap();
        let mut before = usize::MAX;
        for rate in ["60000", "90000", "200000"] {
            let options = format!("{} --reader-rate={rate}", capture.options).leak();
            let slow = Capture { options, ..*capture };
            let name = format!("{} {rate}", capture.name);
            let kept = Kept::parse(&slow.text_of_run());
            let gaps = kept.sequence.iter().filter(|word| matches!(word, Word::Lost(_))).count();
            assert!(gaps > 3, "{name}: {gaps} gaps");
            let (_, lost) = lay(&name, &kept, &whole, first);
            assert!(lost > 0 && lost < before, "{name}: {lost} lost, {before} before");
            before = lost;
        }
    }
}
