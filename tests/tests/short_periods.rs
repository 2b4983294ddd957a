//! Periods that are shorter than an interrupt: the run ends, with a limit only where user code
//! would not go on without one.

use arch::Arch;
use emu::kernel::state::PmuIrq;
use emu::perf::record::Record;
use tests::harness::{Harness, Outcome};

/// How often an event was throttled.
fn throttled(outcome: &Outcome) -> usize {
    let is = |r: &&Record| matches!(r, Record::Throttle { throttled: true, .. });
    outcome.records.iter().filter(is).count()
}

/// On either architecture, by either interrupt, deferred or not.
#[test]
fn short_periods_come_to_an_end() {
    for arch in Arch::ALL {
        for how in [PmuIrq::Nmi, PmuIrq::Irq] {
            for period in [7, 100, 1000] {
                let harness = Harness::new(arch, "hello").pmu_irq(how).events("cycles", period);
                let immediate = harness.clone().run();
                assert_eq!(throttled(&immediate), 0, "{arch}, period {period}");
                let deferred = harness.sframe().deferred("mask").run();
                assert!(deferred.samples().count() > 0, "{arch}, period {period}");
                assert_eq!(deferred.ending, immediate.ending, "{arch}");
                let retired = |o: &Outcome| o.stats.instructions;
                assert_eq!(retired(&deferred), retired(&immediate), "{arch}");
            }
        }
    }
}

/// An NMI in the tail of the exit raises the self-interrupt again, before a user instruction: on
/// x86_64 with a period shorter than that tail nothing but throttling lets the guest go on.
#[test]
fn self_interrupts_without_end_are_throttled() {
    let outcome = Harness::new(Arch::X86_64, "hello").events("cycles", 7).deferred("mask").run();
    assert!(throttled(&outcome) > 0);
    let on = |r: &&Record| matches!(r, Record::Throttle { throttled: false, .. });
    assert!(outcome.records.iter().filter(on).count() <= throttled(&outcome));
}
