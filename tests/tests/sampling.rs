//! Samples are where they must be, to the instruction: each run is compared with one
//! that stops at every instruction.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use emu::kernel::state::PmuIrq;
use emu::kernel::task::Ending;
use emu::perf::record::{Record, Sample, context};
use tests::elf::{self, Elf};
use tests::harness::Harness;
use tests::scratch;
use tests::trace::{Trace, trace};

/// Prime, so that no loop of a guest is in step with them.
const PERIODS: [u64; 6] = [7, 101, 1009, 10_007, 100_003, 999_983];

/// The run that stops everywhere, after a look at its totals.
fn reference(harness: &Harness) -> Trace {
    let trace = trace(harness);
    let (instructions, branches) = (trace.outcome.stats.instructions, trace.outcome.stats.branches);
    // The instruction that ends the guest by a system call retires without a sample.
    let expected = match trace.outcome.ending {
        Ending::Exited(_) => trace.pcs.len() as u64,
        _ => trace.pcs.len() as u64 - 1,
    };
    assert_eq!(instructions, expected, "instructions retired: {:?}", trace.outcome.ending);
    assert_eq!(branches, trace.branches.len() as u64, "branches sampled");
    assert_eq!(branches, trace.branch_instructions, "branches in the code that ran");
    trace
}

/// The addresses of a run's samples of `event`.
fn addresses(harness: &Harness, event: &str, period: u64) -> Vec<u64> {
    let mut ips = Vec::new();
    harness.clone().events(event, period).without_callchains().run_with(|_, record| {
        if let Record::Sample(s) = record {
            ips.push(s.ip);
        }
    });
    ips
}

/// The samples of a run at `period` are those of `expected`, every `period`-th.
fn compare(what: &str, period: u64, ips: &[u64], expected: impl ExactSizeIterator<Item = u64>) {
    let expected: Vec<u64> = expected.collect();
    let expected = expected.iter().skip(period as usize - 1).step_by(period as usize);
    assert_eq!(ips.len(), expected.len(), "{what}, period {period}: samples");
    for (n, (ip, expected)) in ips.iter().zip(expected).enumerate() {
        assert!(
            ip == expected,
            "{what}, period {period}: sample {n} is at {ip:#x}, stepping says {expected:#x}"
        );
    }
}

fn check(harness: &Harness, what: &str) {
    let trace = reference(harness);
    // A period longer than the run gives no sample: one such is enough.
    let most = trace.pcs.len() as u64;
    let longest = PERIODS.iter().position(|&p| p > most).map_or(PERIODS.len(), |i| i + 1);
    for &period in &PERIODS[..longest] {
        let ips = addresses(harness, "instructions:u", period);
        compare(what, period, &ips, trace.pcs[1..].iter().copied());
        let ips = addresses(harness, "branches:u", period);
        let branches = trace.branches.iter().map(|&k| trace.pcs[k]);
        compare(&format!("{what}, branches"), period, &ips, branches);
    }
    let ips = addresses(&harness.clone().pmu_irq(PmuIrq::Irq), "instructions:u", 101);
    compare(&format!("{what}, as IRQ"), 101, &ips, trace.pcs[1..].iter().copied());
}

/// Runs of up to 10^5 instructions or so: from the first instruction, to the end or into
/// the thick of it.
const SHORT: [(&str, &[&str]); 14] = [
    ("hello", &[]),
    ("nested-fp", &[]),
    ("hello-glibc", &[]),
    ("recursion", &["5", "20"]),
    ("recursion-pie", &["5", "20"]),
    ("qsort", &[]),
    ("segv", &[]),
    ("signals", &[]),
    ("fault", &[]),
    ("golden-fp", &["mix", "1"]),
    ("golden-fp", &["sig", "3"]),
    ("golden-fp", &["fault", "16"]),
    ("golden-leaf", &["sys", "3"]),
    ("golden-nofp", &["badfp"]),
];

fn short_runs(arch: Arch) {
    for (name, args) in SHORT {
        let harness = Harness::new(arch, name).max_instructions(60_000);
        let harness = if args.is_empty() { harness } else { harness.args(args) };
        check(&harness, &format!("{name} {} on {arch}", args.join(" ")));
    }
}

#[test]
fn short_runs_on_x86_64() {
    short_runs(Arch::X86_64);
}

#[test]
fn short_runs_on_aarch64() {
    short_runs(Arch::Aarch64);
}

/// A whole run of more than 10^6 instructions, with code that the guest writes.
fn long_run(arch: Arch) {
    check(&Harness::new(arch, "memory"), &format!("memory on {arch}"));
}

#[test]
fn a_long_run_on_x86_64() {
    long_run(Arch::X86_64);
}

#[test]
fn a_long_run_on_aarch64() {
    long_run(Arch::Aarch64);
}

/// A faulting instruction has not retired: the last sample is at it, and the one that a
/// handler interrupts is sampled once more when it runs again.
#[test]
fn a_fault_does_not_retire() {
    for arch in Arch::ALL {
        let trace = trace(&Harness::new(arch, "fault"));
        assert_eq!(trace.outcome.ending, Ending::Signalled(11));
        assert_eq!(trace.outcome.stats.instructions, trace.pcs.len() as u64 - 1, "{arch}");

        let trace = tests::trace::trace(&Harness::new(arch, "segv"));
        assert!(trace.jumps.len() >= 10, "{arch}: {} faults with a handler", trace.jumps.len());
        for &k in &trace.jumps {
            // The handler's first instruction retired instead of the faulting one.
            assert_ne!(trace.pcs[k], trace.pcs[k - 1], "{arch}");
        }
    }
}

#[test]
fn a_repeated_string_instruction_counts_once() {
    let dir = scratch("sampling-rep");
    let path = Elf::program(Arch::X86_64, &elf::copy_with_rep()).write(&dir, "rep");
    let harness = Harness::of_file(Arch::X86_64, path, "/rep");
    let trace = reference(&harness);
    // It faults at ten pages on its way.
    assert!(trace.outcome.stats.page_faults > 10, "{:?}", trace.outcome.stats);
    let offsets: Vec<u64> = trace.pcs[1..].iter().map(|pc| pc - elf::CODE).collect();
    assert_eq!(offsets, [5, 10, 15, 17, 19, 24]);
    for period in 1..=7 {
        let ips = addresses(&harness, "instructions:u", period);
        compare("rep movsb", period, &ips, trace.pcs[1..].iter().copied());
    }
}

/// What a program of a few instructions retires is known exactly.
#[test]
fn instructions_of_hello() {
    for (arch, expected) in [(Arch::X86_64, 9), (Arch::Aarch64, 11)] {
        let outcome = Harness::new(arch, "hello").run();
        assert_eq!(outcome.stats.instructions, expected, "{arch}");
        assert_eq!(outcome.stats.branches, 0, "{arch}");
    }
}

/// The handler of an overflow is not counted: however many samples there are, the totals
/// are the same, but for the way back to user mode of what is no NMI of x86_64, the same each time.
#[test]
fn counters_stand_still_in_the_handler() {
    for arch in Arch::ALL {
        for event in ["instructions", "cycles", "branches", "instructions:k"] {
            let run = |period| {
                let harness = Harness::new(arch, "golden-fp").args(&["sys", "5"]);
                let outcome = harness.events(event, period).run();
                let in_user = |s: &&Sample| !s.callchain.contains(&context::KERNEL);
                let users = outcome.samples().filter(in_user).count() as u64;
                (outcome.samples().count() as u64, users, outcome.counters[0].total)
            };
            let (none, _, total) = run(u64::MAX >> 2);
            assert_eq!(none, 0);
            let [seldom, often] = [10_007, 1009].map(|period| {
                let (samples, users, sampled_total) = run(period);
                assert!(samples >= total / period / 2, "{samples} samples of {total}");
                (users, sampled_total - total)
            });
            let what = format!("{event} on {arch}: {seldom:?}, {often:?}");
            match (arch, event) {
                (Arch::X86_64, _) => assert_eq!((seldom.1, often.1), (0, 0), "{what}"),
                // A branch is counted for so many instructions.
                (_, "branches") => assert!(often.1 <= 4 * often.0, "{what}"),
                _ => assert_eq!(often.1 * seldom.0, seldom.1 * often.0, "{what}"),
            }
        }
    }
}

/// `task-clock` stands still while the task sleeps, and misses nothing of the rest.
#[test]
fn the_tasks_clock_does_not_sleep() {
    const PERIOD: u64 = 10_000;
    const SLEEPS: u64 = 100 * 200_000;
    for arch in Arch::ALL {
        let harness = Harness::new(arch, "golden-fp").args(&["sys", "100"]);
        let outcome = harness.events("task-clock", PERIOD).run();
        let end = outcome.records.last().map(emu::perf::record::Record::time).unwrap();
        let counted: u64 = outcome.samples().map(|s| s.period).sum();
        assert!(end > SLEEPS && counted > 0, "{arch}: {end} ns, {counted} counted");
        // What is left is the task's and, around each sleep, the idle task's.
        let awake = end - SLEEPS;
        let least = awake / 2;
        assert!((least..=awake).contains(&counted), "{arch}: {counted} of {awake} ns");
    }
}
