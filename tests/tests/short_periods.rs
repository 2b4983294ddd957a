//! Periods that are shorter than an interrupt: the run ends, with a limit only where user code
//! would not go on without one. What an interrupt does on its way back to user mode is sampled.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use emu::kernel::state::PmuIrq;
use emu::kernel::task::Ending;
use emu::perf::record::{Record, context};
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
                // The counters count on the way out of all interrupts but x86_64's NMI.
                let endless = period == 7 && (how, arch) != (PmuIrq::Nmi, Arch::X86_64);
                assert_eq!(throttled(&immediate) > 0, endless, "{arch}, {how:?}, period {period}");
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

/// Each callback is sampled, and asks for the stack again: task work without end in the designs
/// that queue it again.
#[test]
fn requests_without_end_are_throttled() {
    for design in ["mask", "cookie", "timestamp", "per-work"] {
        let harness = Harness::new(Arch::X86_64, "syscalls").pmu_irq(PmuIrq::Irq);
        let outcome = harness.events("cycles", 301).deferred(design).run();
        assert!(outcome.samples().count() > 0 && outcome.stats.instructions > 0, "{design}");
        assert_eq!(throttled(&outcome) > 0, design != "mask", "{design}");
    }
}

/// Interrupts are switched off in each pass of the exit loop, where the stack is asked for again: a
/// livelock in the designs that queue it again, which no limit of Linux's holds. The run ends.
#[test]
fn a_livelock_ends_the_run() {
    for arch in Arch::ALL {
        for design in ["mask", "cookie", "timestamp", "per-work"] {
            let harness = Harness::new(arch, "hello").events("preemptirq:irq_disable", 1);
            let outcome = harness.sframe().deferred(design).run();
            let ends = if design == "mask" { Ending::Exited(0) } else { Ending::Livelock };
            assert_eq!(outcome.ending, ends, "{arch}, {design}");
            assert!(outcome.samples().count() > 0, "{arch}, {design}");
        }
    }
}

/// E-11: behind its handler an NMI is counted, and another one latched, which comes when the first
/// has returned; by a period shorter than that way for ever, but for the limit.
#[test]
fn nmis_are_latched() {
    let run = |how: PmuIrq, period| {
        let harness = Harness::new(Arch::X86_64, "golden-fp").args(&["sys", "5"]);
        harness.pmu_irq(how).events("cycles:k", period).run()
    };
    let extra = |period| {
        let [plain, latched] = [PmuIrq::Nmi, PmuIrq::NmiLatched].map(|how| run(how, period));
        assert_eq!((throttled(&plain), throttled(&latched)), (0, 0), "period {period}");
        assert_eq!(plain.stats.instructions, latched.stats.instructions);
        let samples = latched.samples().count() as u64;
        assert!(samples >= plain.samples().count() as u64);
        let counted = latched.counters[0].total - plain.counters[0].total;
        assert_eq!(counted % samples, 0, "the same way out of each: {counted} of {samples}");
        counted / samples
    };
    let way_out = extra(1009);
    assert!(way_out > 0 && extra(499) == way_out);
    assert!(throttled(&run(PmuIrq::NmiLatched, way_out)) > 0);
    // One that is latched interrupts where the one before it did.
    let latched = run(PmuIrq::NmiLatched, way_out + 1);
    let ips: Vec<u64> = latched.samples().map(|s| s.ip).collect();
    assert!(ips.windows(2).any(|pair| pair[0] == pair[1]));
    assert_eq!(throttled(&latched), 0);
}

/// The kernel's functions in a sample, innermost first.
fn functions<'a>(outcome: &'a Outcome, callchain: &[u64]) -> Vec<&'a str> {
    let kernel = callchain.iter().skip_while(|&&word| word != context::KERNEL).skip(1);
    let symbols = &outcome.session.kernel_symbols;
    let symbol = |&address: &u64| {
        let symbol = symbols.iter().find(|s| (s.addr..s.addr + s.len).contains(&address)).unwrap();
        &*symbol.name
    };
    kernel
        .take_while(|&&word| ![context::USER, context::USER_DEFERRED].contains(&word))
        .map(symbol)
        .collect()
}

/// A plain interrupt's request is served on its own way out, where the counters count again.
#[test]
fn the_way_out_of_an_interrupt_is_sampled() {
    for (arch, entry) in [(Arch::X86_64, "asm_exc_nmi"), (Arch::Aarch64, "el0t_64_irq")] {
        let harness = Harness::new(arch, "recursion").pmu_irq(PmuIrq::Irq).events("cycles", 700);
        let outcome = harness.sframe().deferred("mask").run();
        let chains = outcome.samples().map(|s| functions(&outcome, &s.callchain));
        let inside = |f: &Vec<&str>| f.contains(&"process_unwind_deferred");
        let out = chains.filter(|f| inside(f) && f.last() == Some(&entry));
        assert!(out.count() > 0, "{arch}");
    }
}
