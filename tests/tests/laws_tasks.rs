//! The laws with several tasks on several CPUs, in every design, beside tracers that come and
//! go; and a hazard that needs a switch of tasks.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use arch::Arch;
use emu::kernel::tracer::{Asks, Plan};
use emu::laws::hazard::Hazard;
use tests::harness::Harness;

const DESIGNS: [&str; 4] = ["mask", "cookie", "timestamp", "per-work"];
const CPUS: [u32; 4] = [1, 2, 3, 8];

/// No break that nothing explains: the harness panics at one.
#[test]
fn several_tasks_keep_the_laws() {
    for arch in Arch::ALL {
        for design in DESIGNS {
            for cpus in CPUS {
                for (events, period) in [("cycles", 3001), ("cpu-clock,page-faults", 10_007)] {
                    let harness = Harness::new(arch, "tasks").cpus(cpus).deferred(design);
                    let outcome = harness.events(events, period).run();
                    assert!(outcome.laws.watched >= 15, "{}", outcome.laws.summary());
                }
            }
        }
    }
}

/// The same beside six tracers, of which four come and go at uneven times.
#[test]
fn cancelled_tracers_keep_the_laws() {
    let mut explained = BTreeSet::new();
    for design in DESIGNS {
        for cpus in [1, 2, 3] {
            for seed in 1..4 {
                let plan = |n: u64| {
                    let from = n * seed * 97_003 % 900_000;
                    let asks = match n % 2 {
                        0 => Asks::SystemCalls(1),
                        _ => Asks::Timer(2_000 + n * seed * 1_009 % 20_000),
                    };
                    let until = (n > 1).then(|| from + 50_000 + n * seed * 61_001 % 400_000);
                    Plan { asks, from: if n > 1 { from } else { 0 }, until }
                };
                let harness = Harness::new(Arch::X86_64, "tasks").cpus(cpus).deferred(design);
                let harness = harness.events("cycles", 1_009 * seed + 900);
                let attach = |s: &mut emu::kernel::State| {
                    (0..6).for_each(|n| s.attach(plan(n)).unwrap());
                };
                let outcome = harness.run_prepared(attach, |_, _| {});
                explained.extend(outcome.laws.explained.into_keys().map(|(_, h)| (design, h)));
            }
        }
    }
    assert!(explained.contains(&("mask", Hazard::Cancelled)), "{explained:?}");
}

/// A tracepoint in the tail of the exit, after the work bits were read: nothing brings the task
/// back, and its stack is that of a later entry, under the same cookie (H18).
#[test]
fn a_request_in_the_tail_of_the_exit() {
    let harness = Harness::new(Arch::X86_64, "tasks").cpus(2).deferred("mask");
    let outcome = harness.events("x86_fpu:x86_fpu_regs_activated", 1).run();
    assert!(outcome.samples().count() > 20);
    let by_h18 = outcome.laws.explained.keys().filter(|(_, hazard)| *hazard == Hazard::H18);
    assert!(by_h18.count() > 0, "{}", outcome.laws.summary());
    let arm = Harness::new(Arch::Aarch64, "tasks").cpus(2);
    assert_eq!(arm.events("x86_fpu:x86_fpu_regs_activated", 1).run().samples().count(), 0);
}
