//! `--clock`: what the local clock shows, and what becomes of stacks that are named by it.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use arch::Arch;
use emu::kernel::unwind::Clock;
use emu::perf::merge;
use emu::perf::record::Record;
use tests::harness::Harness;
use tests::program::{Finished, emu, finish};
use tests::scratch;

/// A run whose entries are about 50 µs apart, by the timestamp design.
fn run(clock: &[&str]) -> Finished {
    let profile = scratch("clock").join("profile").display().to_string();
    let words = ["run", "-o", &profile, "--laws", "--call-graph", "fp,defer"];
    let guest = ["-e", "raw_syscalls:sys_enter", "-c", "1", "golden-fp", "sys", "3"];
    let words = [&words[..], &["--deferred", "timestamp"], clock, &guest].concat();
    finish(&mut emu(&words))
}

/// Entries within one value of the clock have one name (RV1); it is a hazard that `--laws`
/// tells of, not a fault.
#[test]
fn a_coarse_clock_names_entries_alike() {
    let fine = run(&[]);
    assert!(fine.status == 0 && !fine.stderr.contains("RV1"), "{}", fine.stderr);
    let coarse = run(&["--clock", "granularity=4M,start=7"]);
    assert_eq!(coarse.status, 0, "{}", coarse.stderr);
    assert!(coarse.stderr.contains("by RV1"), "{}", coarse.stderr);
    assert!(coarse.stderr.contains("the clock showed the same at two entries"));
}

#[test]
fn settings_that_are_none_are_refused() {
    for (setting, told) in [
        ("granularity=0", "from 1 on"),
        ("tick=4M", "there are granularity, start and skew"),
        ("start=1,start=2", "twice"),
    ] {
        let finished = run(&["--clock", setting]);
        assert!(finished.status != 0 && finished.stderr.contains(told), "{}", finished.stderr);
    }
}

/// Each CPU's clock is ahead of that of the one before it: a stamp tells where it was made.
#[test]
fn each_cpu_has_its_skew() {
    const SKEW: u64 = 1 << 40;
    let harness = Harness::new(Arch::X86_64, "tasks").cpus(2).deferred("timestamp");
    let harness = harness.events("raw_syscalls:sys_enter", 1);
    let mut first: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    let skewed = Clock { skew: SKEW, ..Clock::default() };
    harness.run_prepared(
        |s| s.unwind.clock = skewed,
        |_, record| {
            if let Record::Sample(sample) = record
                && let Some(stamp) = merge::cookie(&sample.callchain)
            {
                first.entry((sample.tid, stamp)).or_insert(sample.cpu);
            }
        },
    );
    let on = |cpu: u32| first.values().filter(|&&c| c == cpu).count();
    assert!(on(0) > 10 && on(1) > 10, "{} {}", on(0), on(1));
    for ((tid, stamp), cpu) in first {
        assert_eq!(stamp / SKEW, u64::from(cpu), "{stamp:#x} of {tid}");
    }
}
