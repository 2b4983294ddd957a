//! Tracepoints of interrupts and preemption that go off and on: their order on each CPU, who they
//! say did it, and what a request from the tail of the exit comes to (H18).

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use arch::Arch;
use emu::laws::hazard::Hazard;
use emu::perf::pmu::Counter;
use emu::perf::record::{Event, EventKind, Rate, Raw, Record, Sample, context};
use emu::perf::toggle::Toggle;
use tests::harness::{Harness, Outcome};

const IRQS: &str = "preemptirq:irq_disable,preemptirq:irq_enable";
const PREEMPTION: &str = "preemptirq:preempt_disable,preemptirq:preempt_enable";

fn toggle(s: &Sample) -> Option<(Toggle, i32, i32)> {
    match s.raw {
        Some(Raw::Preemptirq { toggle, caller_offs, parent_offs }) => {
            Some((toggle, caller_offs, parent_offs))
        }
        _ => None,
    }
}

/// The names of the kernel functions in a sample's chain, innermost first.
fn functions(outcome: &Outcome, s: &Sample) -> Vec<String> {
    let symbols = &outcome.session.kernel_symbols;
    let name = |a: &u64| symbols.iter().find(|f| (f.addr..f.addr + f.len).contains(a));
    s.callchain.iter().filter_map(name).map(|f| f.name.clone()).collect()
}

/// Each CPU's toggles alternate, beginning with `off`; returns how many there are.
fn alternate(outcome: &Outcome, off: Toggle) -> usize {
    let mut last = BTreeMap::new();
    for s in outcome.samples() {
        let Some((toggle, ..)) = toggle(s) else { continue };
        let before = last.insert(s.cpu, toggle);
        let follows = before.map_or(toggle == off, |before| before != toggle);
        assert!(follows, "{toggle:?} after {before:?} on CPU {}: {s:x?}", s.cpu);
    }
    outcome.samples().filter(|s| toggle(s).is_some()).count()
}

/// The four of a system call, by the functions that tell of them.
#[test]
fn a_system_call_has_two_pairs() {
    for arch in Arch::ALL {
        let outcome = Harness::new(arch, "hello").events(IRQS, 1).run();
        let calls: Vec<String> = outcome
            .samples()
            .map(|s| functions(&outcome, s))
            .filter(|f| f.iter().any(|name| name == "do_syscall_64" || name == "el0_svc"))
            .map(|f| f[0].clone())
            .collect();
        let four = [
            "trace_hardirqs_off_finish",
            "trace_hardirqs_on",
            "trace_hardirqs_off",
            "trace_hardirqs_on_prepare",
        ];
        assert!(calls.len() >= 6, "{arch}: {calls:?}");
        for (at, name) in calls.iter().enumerate() {
            assert_eq!(name, four[at % 4], "{arch}: {calls:?}");
        }
    }
}

/// The payload names the function that turned them, and its caller, as the chain does.
#[test]
fn the_payload_says_who() {
    for arch in Arch::ALL {
        let outcome = Harness::new(arch, "hello").events(IRQS, 1).run();
        let text = outcome.session.kernel_symbols[0].addr;
        for s in outcome.samples() {
            let (_, caller, parent) = toggle(s).unwrap();
            let mut chain = s.callchain.clone();
            chain.dedup();
            assert_eq!(chain[0], context::KERNEL, "{s:x?}");
            let address = |offset: i32| text + u64::from(offset.unsigned_abs());
            assert_eq!([address(caller), address(parent)], chain[2..4], "{arch}: {s:x?}");
        }
        let outcome = Harness::new(arch, "tasks").events(PREEMPTION, 1).run();
        for s in outcome.samples() {
            let (_, caller, parent) = toggle(s).unwrap();
            let mut chain = s.callchain.clone();
            chain.dedup();
            assert_eq!(caller, parent);
            assert_eq!(text + u64::from(caller.unsigned_abs()), chain[3], "{arch}: {s:x?}");
        }
    }
}

/// Beside NMIs, timers, page faults and switches of tasks.
#[test]
fn they_alternate_on_each_cpu() {
    for arch in Arch::ALL {
        for cpus in [1, 2] {
            let run = |list: &str| Harness::new(arch, "tasks").cpus(cpus).wide().events(list, 1);
            assert!(alternate(&run(IRQS).run(), Toggle::IrqDisable) > 1000);
            assert!(alternate(&run(PREEMPTION).run(), Toggle::PreemptDisable) > 20);
        }
        let list = format!("{IRQS},{PREEMPTION}");
        let outcome = Harness::new(arch, "tasks").events(&list, 1).run();
        let kinds: std::collections::BTreeSet<&str> =
            outcome.samples().filter_map(toggle).map(|(toggle, ..)| toggle.name()).collect();
        assert_eq!(kinds.len(), 4, "{kinds:?}");
    }
}

/// An NMI of x86_64 says that interrupts are off, and not that they are on again: the next entry
/// has nothing to say. aarch64's comes as an interrupt and tells both.
#[test]
fn an_nmi_tells_half() {
    for arch in Arch::ALL {
        let list = format!("{IRQS},cycles");
        let harness = Harness::new(arch, "recursion").events(&list, 1);
        let mut records = Vec::new();
        let mut outcome = harness.run_prepared(
            |s| {
                let cycles =
                    s.perf.main.session.events.iter().position(|e| e.kind == EventKind::Cycles);
                let instance = &mut s.task.events.instances[cycles.unwrap()];
                let rarely = Event { rate: Rate::Period(5003), ..(*instance.event).clone() };
                instance.counter = Counter::new(&rarely);
            },
            |_, record| records.push(record.clone()),
        );
        outcome.records = records;
        alternate(&outcome, Toggle::IrqDisable);
        let by = |name: &str, wanted: Toggle| {
            let is = |s: &&Sample| toggle(s).is_some_and(|(t, ..)| t == wanted);
            let named = |s: &&Sample| functions(&outcome, s).iter().any(|f| f == name);
            outcome.samples().filter(is).filter(named).count()
        };
        let handler = match arch {
            Arch::X86_64 => "exc_nmi",
            Arch::Aarch64 => "el0_interrupt",
        };
        assert!(by(handler, Toggle::IrqDisable) > 10, "{arch}");
        match arch {
            Arch::X86_64 => assert_eq!(by(handler, Toggle::IrqEnable), 0),
            Arch::Aarch64 => assert!(by(handler, Toggle::IrqEnable) > 10),
        }
    }
}

/// What follows this marker in a chain.
fn behind(chain: &[u64], marker: u64) -> Option<u64> {
    let at = chain.iter().position(|&a| a == marker)?;
    chain.get(at + 1).copied()
}

/// SCN-33: the sample of one entry gets the stack of the next one, and one cookie names both (H18).
#[test]
fn a_request_from_the_tail_of_the_exit() {
    for arch in Arch::ALL {
        let plain = Harness::new(arch, "hello").events("preemptirq:irq_enable", 1);
        let deferred = plain.clone().deferred("mask");
        let deferred = if arch == Arch::Aarch64 { deferred.sframe() } else { deferred };
        let (plain, deferred) = (plain.run(), deferred.run());
        for law in [12, 15] {
            let count = deferred.laws.explained.get(&(law, Hazard::H18));
            assert!(count.is_some(), "{arch}, LAW-{law}: {}", deferred.laws.summary());
        }
        // One in each entry, the last thing that happens there.
        let tails = |outcome: &Outcome, marker: u64| -> Vec<Option<u64>> {
            let tail = |s: &&Sample| functions(outcome, s)[0] == "trace_hardirqs_on_prepare";
            outcome.samples().filter(tail).map(|s| behind(&s.callchain, marker)).collect()
        };
        let places = tails(&plain, context::USER);
        let cookies = tails(&deferred, context::USER_DEFERRED);
        assert_eq!(places.len(), cookies.len(), "{arch}");
        let mut late = 0;
        for record in &deferred.records {
            let Record::CallchainDeferred { cookie, ips, .. } = record else { continue };
            let Some(entry) = cookies.iter().position(|c| *c == Some(*cookie)) else { continue };
            let place = ips.first().copied();
            assert_ne!(place, places[entry], "{arch}: the entry's own stack");
            assert_eq!(place, places[entry + 1], "{arch}: the stack of the next entry");
            let samples = deferred.samples();
            let named = samples.filter(|s| s.callchain.ends_with(&[*cookie])).count();
            assert!(named >= 2, "{arch}: {named} samples have the cookie {cookie:#x}");
            late += 1;
        }
        assert!(late > 0, "{arch}: {cookies:x?}");
    }
}
