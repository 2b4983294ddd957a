//! Laws of sampling. `tests::laws` checks most of them after every run of the harness: a
//! clean return to user mode, time that goes on, chains of the right shape within their
//! budget, periods that add up. Here are runs that strain them, and those that two runs
//! take to see.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use arch::Arch;
use emu::kernel::state::{PmuIrq, Stats};
use emu::kernel::{Point, symbols};
use emu::perf::record::{CpuMode, EventKind, context};
use tests::harness::Harness;

const TRACEPOINTS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
const ALL: &str = "cycles,instructions,branches,cpu-clock,page-faults,context-switches,\
    raw_syscalls:sys_enter,raw_syscalls:sys_exit";

const SHORT_RUNS: [(&str, &[&str]); 6] = [
    ("golden-fp", &["sys", "3"]),
    ("golden-fp", &["sig", "3"]),
    ("golden-fp", &["fault", "8"]),
    ("segv", &[]),
    ("signals", &[]),
    ("fault", &[]),
];

/// A sample at nearly every step of the kernel.
#[test]
fn samples_everywhere() {
    for arch in Arch::ALL {
        for (guest, args) in SHORT_RUNS {
            for (events, period) in
                [("cycles:k", 1), ("cycles:k,instructions:k,cpu-clock", 7), (ALL, 43)]
            {
                let harness = Harness::new(arch, guest).args(args);
                let outcome = harness.events(events, period).run();
                assert!(outcome.samples().count() > 100, "{guest} {events} on {arch}");
            }
        }
    }
}

/// Every way into the kernel has the same numbered steps. On x86_64 an NMI can arrive at
/// each of them, also before the user's registers are saved.
#[test]
fn every_entry_has_the_same_steps() {
    let entries =
        ["entry_SYSCALL_64_after_hwframe", "asm_exc_page_fault", "asm_sysvec_apic_timer_interrupt"];
    let mut seen = BTreeSet::new();
    for (guest, args) in [("fault", &[] as &[&str]), ("syscalls", &[])] {
        let events = "cycles:k,cpu-clock";
        let outcome = Harness::new(Arch::X86_64, guest).args(args).events(events, 1).run();
        for s in outcome.samples() {
            let Some(point) = symbols::step_at(Arch::X86_64, s.ip) else { continue };
            let symbols = &outcome.session.kernel_symbols;
            let f = symbols.iter().find(|f| (f.addr..f.addr + f.len).contains(&s.ip)).unwrap();
            seen.insert((f.name.clone(), point.name()));
        }
    }
    for entry in entries {
        for step in [Point::EntryRaw, Point::EntryN1] {
            assert!(seen.contains(&(entry.to_owned(), step.name())), "{step:?} of {entry}");
        }
    }
}

/// The same with ordinary interrupts, where interrupts are on.
#[test]
fn samples_by_interrupt() {
    for arch in Arch::ALL {
        for (guest, args) in SHORT_RUNS {
            // Shorter than the way out of the kernel, too.
            for (events, period) in [("cycles:k", 101), (ALL, 211), ("cycles", 13), ("cycles", 1)] {
                let harness = Harness::new(arch, guest).args(args).pmu_irq(PmuIrq::Irq);
                let outcome = harness.events(events, period).run();
                assert!(outcome.samples().count() > 10, "{guest} {events} on {arch}");
            }
        }
    }
}

/// Sampling does not change what the guest does.
#[test]
fn sampling_changes_nothing() {
    for arch in Arch::ALL {
        for guest in ["recursion", "segv", "signals", "qsort", "syscalls", "memory"] {
            let plain = Harness::new(arch, guest).run();
            for (events, period) in [("cycles", 5003), (ALL, 3001), ("branches:u", 997)] {
                let sampled = Harness::new(arch, guest).events(events, period).run();
                // Branches are counted only where an event counts them.
                let stats = Stats { branches: plain.stats.branches, ..sampled.stats };
                assert_eq!(plain.stats, stats, "{guest} with {events} on {arch}");
                assert_eq!(plain.ending, sampled.ending, "{guest} with {events} on {arch}");
            }
        }
    }
}

/// Addresses share one budget, kernel and user; the markers come on top.
#[test]
fn max_stack_limits_the_addresses() {
    for arch in Arch::ALL {
        let longest = |max_stack: u16| {
            let harness = Harness::new(arch, "golden-fp").args(&["deep", "1", "1500"]);
            let events = format!("{TRACEPOINTS},page-faults");
            let outcome = harness.events(&events, 1).max_stack(max_stack).run();
            let addresses = |c: &[u64]| c.iter().filter(|&&a| a < context::MAX).count();
            outcome.samples().map(|s| addresses(&s.callchain)).max().unwrap()
        };
        for max_stack in [1, 2, 3, 7, 127, 128, 1024] {
            assert_eq!(longest(max_stack), usize::from(max_stack), "{arch}");
        }
        assert_eq!(longest(0), 127, "{arch}");
    }
}

/// A chain under a smaller limit is the beginning of that under a larger one.
#[test]
fn a_shorter_chain_is_a_prefix() {
    for arch in Arch::ALL {
        let run = |max_stack| {
            let harness = Harness::new(arch, "recursion").args(&["8", "40"]);
            harness.events("cycles", 1009).max_stack(max_stack).run()
        };
        let whole = run(1024);
        for max_stack in [1, 5, 20] {
            let cut = run(max_stack);
            assert_eq!(whole.samples().count(), cut.samples().count());
            for (whole, cut) in whole.samples().zip(cut.samples()) {
                assert_eq!((whole.ip, whole.time, whole.mode), (cut.ip, cut.time, cut.mode));
                let addresses = |c: &[u64]| -> Vec<u64> {
                    c.iter().copied().filter(|&a| a < context::MAX).collect()
                };
                let (whole, cut) = (addresses(&whole.callchain), addresses(&cut.callchain));
                assert!(whole.starts_with(&cut), "{whole:x?} {cut:x?}");
                assert_eq!(cut.len(), whole.len().min(usize::from(max_stack)));
            }
        }
    }
}

/// `:u` and `:k` part an event in two.
#[test]
fn modes_are_parts() {
    for arch in Arch::ALL {
        for kind in ["cycles", "instructions", "branches", "page-faults"] {
            let list = format!("{kind},{kind}:u,{kind}:k");
            let outcome = Harness::new(arch, "syscalls").events(&list, u64::MAX >> 2).run();
            let totals: Vec<u64> = outcome.counters.iter().map(|c| c.total).collect();
            assert_eq!(totals[0], totals[1] + totals[2], "{kind} on {arch}");
            assert!(totals[1] > 0, "{kind} on {arch}");
        }
    }
}

/// The kernel branches once in six instructions, however short its steps are.
#[test]
fn kernel_branches_are_a_part_of_its_instructions() {
    for arch in Arch::ALL {
        let harness = Harness::new(arch, "syscalls");
        let outcome = harness.events("instructions:k,branches:k", u64::MAX >> 2).run();
        let [instructions, branches] = [0, 1].map(|i: usize| outcome.counters[i].total);
        assert_eq!(branches, instructions / 6, "{arch}");
    }
}

/// Without a sample to take, `-c 1` of an event and its count are the same thing.
#[test]
fn every_occurrence_is_a_sample() {
    for arch in Arch::ALL {
        let events = format!("page-faults,context-switches,{TRACEPOINTS}");
        let outcome = Harness::new(arch, "golden-fp").args(&["sys", "7"]).events(&events, 1).run();
        let count = |kind| outcome.samples_of(kind).count() as u64;
        assert_eq!(count(EventKind::PageFaults), outcome.stats.page_faults, "{arch}");
        assert_eq!(count(EventKind::ContextSwitches), 7, "{arch}: one a nanosleep");
        assert_eq!(count(EventKind::SysEnter), outcome.stats.syscalls, "{arch}");
        // `exit_group` does not return.
        assert_eq!(count(EventKind::SysExit), outcome.stats.syscalls - 1, "{arch}");
    }
}

/// Frequency mode gives about that many samples a virtual second, of each event.
#[test]
fn frequencies() {
    for arch in Arch::ALL {
        for (event, frequency) in
            [("cycles", 4000), ("cpu-clock", 4000), ("cycles:u", 20_000), ("branches:u", 5000)]
        {
            let outcome = Harness::new(arch, "demo").frequency(event, frequency).run();
            let last = outcome.samples().last().unwrap().time;
            let expected = frequency as f64 * last as f64 / 1e9;
            let samples = outcome.samples().count() as f64;
            let ratio = samples / expected;
            assert!((0.8..1.25).contains(&ratio), "{event} on {arch}: {samples} of {expected}");
        }
    }
}

/// `cpu-clock` fires by time, wherever the CPU is; its samples are a period apart.
#[test]
fn the_clock_samples_user_and_kernel() {
    for arch in Arch::ALL {
        let outcome = Harness::new(arch, "syscalls").events("cpu-clock", 20_000).run();
        let modes: Vec<CpuMode> = outcome.samples().map(|s| s.mode).collect();
        for mode in [CpuMode::User, CpuMode::Kernel] {
            assert!(modes.iter().filter(|&&m| m == mode).count() > 5, "{mode:?} on {arch}");
        }
        let times: Vec<u64> = outcome.samples().map(|s| s.time).collect();
        for pair in times.windows(2) {
            let apart = pair[1] - pair[0];
            // A timer waits while interrupts are off.
            assert!((15_000..25_000).contains(&apart), "{apart} on {arch}");
        }
    }
}
