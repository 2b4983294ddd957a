//! Options of `emu run` that say which tasks a session follows, on files that were read back.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::fs;

use arch::Arch;
use emu::export::perf_read::{Body, PerfFile};
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
