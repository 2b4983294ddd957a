//! Deferred user stacks of real guests: the same as immediate ones where both walk the same
//! stack, one record a cookie, and more frames where SFrame knows them.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use arch::Arch;
use emu::perf::merge::Merger;
use emu::perf::record::{Record, Sample, context};
use tests::harness::{Harness, Outcome};

const GUESTS: [&str; 4] = ["golden-fp", "recursion", "syscalls", "signals"];

/// Deferred stacks by (tid, cookie), with their times.
type Stacks = BTreeMap<(u32, u64), Vec<(u64, Vec<u64>)>>;

fn stacks(outcome: &Outcome) -> Stacks {
    let mut stacks = Stacks::new();
    for record in &outcome.records {
        if let Record::CallchainDeferred { tid, cookie, time, ips, .. } = record {
            stacks.entry((*tid, *cookie)).or_default().push((*time, ips.clone()));
        }
    }
    stacks
}

/// Samples with their chains put together.
fn merged(outcome: &Outcome) -> Vec<Sample> {
    let mut merger = Merger::default();
    for ((tid, cookie), all) in stacks(outcome) {
        for (time, ips) in all {
            merger.stack(Some(tid), Some(time), cookie, ips);
        }
    }
    let merge = |s: &Sample| {
        let chain = merger.sample(Some(s.tid), Some(s.time), &s.callchain);
        Sample { callchain: chain.unwrap_or_else(|| s.callchain.clone()), ..s.clone() }
    };
    outcome.samples().map(merge).collect()
}

/// Samples of user instructions are at the same places whatever the kernel costs, so that the
/// two walks can be compared sample by sample: a stack that is well formed, resident and
/// shorter than both budgets gives the same frames.
#[test]
fn a_deferred_stack_is_the_immediate_one() {
    for guest in GUESTS {
        let run = || Harness::new(Arch::X86_64, guest).events("instructions:u", 5003);
        let (now, later) = (run().run(), run().deferred("mask").run());
        let deferred = merged(&later);
        let immediate: Vec<&Sample> = now.samples().collect();
        assert_eq!(immediate.len(), deferred.len(), "{guest}");
        assert!(!deferred.is_empty(), "{guest}");
        let mut equal = 0;
        for (a, b) in immediate.iter().zip(&deferred) {
            assert_eq!((a.ip, &a.callchain[..2]), (b.ip, &b.callchain[..2]), "{guest}");
            // A frame pointer that is none ends the two walks at different places.
            equal += usize::from(a.callchain == b.callchain);
            let shorter = a.callchain.starts_with(&b.callchain);
            let full = a.callchain.len() > 127 && b.callchain.starts_with(&a.callchain);
            assert!(shorter || full, "{guest}: {:x?} {:x?}", a.callchain, b.callchain);
        }
        assert!(equal * 2 > deferred.len(), "{guest}: {equal} of {}", deferred.len());
    }
}

/// One record a cookie, later than the cookie's first sample and in its entry; every marker is
/// followed by a cookie that ends the chain.
#[test]
fn every_cookie_has_one_record() {
    for guest in GUESTS {
        let events = "page-faults,raw_syscalls:sys_enter,raw_syscalls:sys_exit";
        let outcome = Harness::new(Arch::X86_64, guest).events(events, 1).deferred("mask").run();
        let stacks = stacks(&outcome);
        let mut asked: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for s in outcome.samples() {
            let marker = s.callchain.iter().position(|&w| w == context::USER_DEFERRED);
            let Some(at) = marker else { continue };
            assert_eq!(at + 2, s.callchain.len(), "{guest}");
            assert!(!s.callchain.contains(&context::USER), "{guest}");
            asked.entry((s.tid, s.callchain[at + 1])).or_insert(s.time);
        }
        assert!(asked.len() > 5, "{guest}: {}", asked.len());
        for ((tid, cookie), first) in &asked {
            let (count, cpu) = (cookie >> 32, cookie & 0xffff_ffff);
            assert!(count % 2 == 1 && cpu == 1, "{guest}: {cookie:x}");
            let records = stacks.get(&(*tid, *cookie));
            // The last entry ends the task: its events are gone when the stack is flushed.
            let last = asked.keys().map(|k| k.1).max() == Some(*cookie);
            match records {
                Some(records) => {
                    assert!(records.len() == 1 && records[0].0 >= *first, "{guest}");
                    assert!((1..=510).contains(&records[0].1.len()), "{guest}");
                }
                None => assert!(last, "{guest}: {cookie:x} has no record"),
            }
        }
        assert!(stacks.keys().all(|k| asked.contains_key(k)), "{guest}: a stack nobody asked for");
        // Counts go up by two: no cookie is given out for nothing.
        let counts: Vec<u64> = asked.keys().map(|k| k.1 >> 32).collect();
        let steps: Vec<u64> = (1..=counts.len() as u64).map(|n| 2 * n + 1).collect();
        assert_eq!(counts, steps, "{guest}");
    }
}

/// Designs that refuse an NMI fall back to the immediate walk there, and take an IRQ.
#[test]
fn designs_in_nmi_and_irq() {
    for design in ["mask", "cookie", "timestamp", "per-work"] {
        let run = || Harness::new(Arch::X86_64, "recursion").deferred(design);
        let deferred = |o: &Outcome| {
            let waits = |s: &&Sample| s.callchain.contains(&context::USER_DEFERRED);
            (o.samples().filter(waits).count(), o.samples().count())
        };
        let (in_nmi, all) = deferred(&run().events("cycles:u", 50_021).run());
        let expected = if design == "mask" { all } else { 0 };
        assert!(all > 20 && in_nmi == expected, "{design}: {in_nmi} of {all}");
        let (in_irq, all) = deferred(&run().events("cpu-clock", 50_021).run());
        assert!(all > 20 && in_irq == all, "{design}: {in_irq} of {all}");
    }
}

/// Code without frame pointers: by SFrame the deferred walk gets to the outermost function.
#[test]
fn sframe_finds_what_frame_pointers_do_not() {
    for arch in Arch::ALL {
        for guest in ["lab-recursion-v3", "lab-alloca-v3", "lab-tailcall-v3"] {
            let run = || Harness::new(arch, guest).events("instructions:u", 101);
            let depth =
                |samples: &[Sample]| -> usize { samples.iter().map(|s| s.callchain.len()).sum() };
            let by_fp: Vec<Sample> = run().run().samples().cloned().collect();
            let by_sframe = merged(&run().sframe().run());
            assert_eq!(by_fp.len(), by_sframe.len(), "{arch} {guest}");
            let (less, more) = (depth(&by_fp), depth(&by_sframe));
            assert!(more > less, "{arch} {guest}: {more} words by SFrame, {less} by records");
        }
    }
}

/// Linux 7.3 has no deferred unwinder on arm64: the attribute's bit is ignored.
#[test]
fn aarch64_falls_back() {
    let outcome =
        Harness::new(Arch::Aarch64, "recursion").events("cycles", 50_021).deferred("mask").run();
    assert!(outcome.samples().all(|s| !s.callchain.contains(&context::USER_DEFERRED)));
    assert!(stacks(&outcome).is_empty());
}
