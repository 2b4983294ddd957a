//! `--page-out`: with the stack or the tables absent at the sample the immediate walk ends where
//! it begins, the deferred one brings the pages in and is whole.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use arch::Arch;
use emu::kernel::page_out::PageOut;
use emu::perf::merge::cookie;
use emu::perf::record::{Record, context};
use tests::harness::{Harness, Outcome};
use tests::program::{emu, finish};
use tests::scratch;

const STACK: PageOut = PageOut { stack: true, tables: false };
const BOTH: PageOut = PageOut { stack: true, tables: true };

/// A run under this pressure, with its records.
fn run(harness: &Harness, page_out: PageOut) -> Outcome {
    let mut records = Vec::new();
    let prepare = |s: &mut emu::kernel::State| s.config.page_out = page_out;
    let mut outcome = harness.run_prepared(prepare, |_, r| records.push(r.clone()));
    outcome.records = records;
    outcome
}

/// Addresses of the user part of each sample.
fn immediate(outcome: &Outcome) -> Vec<usize> {
    let user = |chain: &[u64]| {
        let at = chain.iter().position(|&w| w == context::USER)?;
        Some(chain.len() - at - 1)
    };
    outcome.samples().filter_map(|s| user(&s.callchain)).collect()
}

/// The deferred stacks of the samples, by their place among the samples.
fn deferred(outcome: &Outcome) -> Vec<Vec<u64>> {
    let mut stacks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for record in &outcome.records {
        if let Record::CallchainDeferred { cookie, ips, .. } = record {
            stacks.insert(*cookie, ips.clone());
        }
    }
    outcome.samples().filter_map(|s| stacks.get(&cookie(&s.callchain)?).cloned()).collect()
}

#[test]
fn the_immediate_walk_ends_at_the_first_page() {
    for arch in Arch::ALL {
        let harness = Harness::new(arch, "recursion").events("instructions:u", 20_011);
        let (present, absent) = (run(&harness, PageOut::default()), run(&harness, STACK));
        let (long, short) = (immediate(&present), immediate(&absent));
        assert!(long.iter().any(|&n| n > 5) && long.len() == short.len(), "{arch}: {long:?}");
        assert!(short.iter().all(|&n| n == 1), "{arch}: {short:?}");
        assert!(absent.stats.paged_out as usize >= short.len(), "{arch}");
        // The guest finds its pages again.
        assert_eq!(present.ending, absent.ending, "{arch}");
        assert_eq!(present.stats.instructions, absent.stats.instructions, "{arch}");
        assert!(absent.stats.page_faults > present.stats.page_faults + 20, "{arch}");
    }
}

#[test]
fn the_deferred_walk_brings_the_stack_in() {
    let harness = Harness::new(Arch::X86_64, "recursion").events("instructions:u", 20_011);
    let harness = harness.deferred("mask");
    let (present, absent) = (run(&harness, PageOut::default()), run(&harness, STACK));
    let (before, after) = (deferred(&present), deferred(&absent));
    assert!(after.iter().any(|stack| stack.len() > 5));
    assert_eq!(before, after);
    assert!(absent.stats.page_faults > present.stats.page_faults + 20);
}

#[test]
fn the_deferred_walk_brings_tables_in() {
    for arch in Arch::ALL {
        let harness = Harness::new(arch, "lab-recursion-v3").events("instructions:u", 101);
        let harness = harness.sframe();
        let before = deferred(&run(&harness, PageOut::default()));
        let pressed = run(&harness, BOTH);
        assert!(before.len() > 10 && pressed.stats.paged_out > 10, "{arch}");
        assert_eq!(before, deferred(&pressed), "{arch}");
    }
}

/// A sample at every step, in the page faults too: the guest goes on.
#[test]
fn short_periods_do_not_hold_the_guest_up() {
    for arch in Arch::ALL {
        let harness = Harness::new(arch, "hello").events("cycles", 211);
        let harness = harness.deferred("mask").max_instructions(1_000_000);
        let pressed = run(&harness, BOTH);
        let plain = run(&harness, PageOut::default());
        assert_eq!(pressed.ending, plain.ending, "{arch}");
        assert_eq!(pressed.stats.instructions, plain.stats.instructions, "{arch}");
    }
}

/// The words, the summary, and the page fault inside the walk as the timeline has it.
#[test]
fn the_option() {
    let dir = scratch("page-out");
    let profile = dir.join("profile").display().to_string();
    let words = ["run", "-o", &profile, "--timeline", "--call-graph", "fp,defer", "-c", "401"];
    let guest = ["--page-out", "stack", "golden-fp", "sys", "1"];
    let finished = finish(&mut emu(&[&words[..], &guest].concat()));
    assert_eq!(finished.status, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("pages put out"), "{}", finished.stderr);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let fault = lines.iter().position(|l| l.contains("unwind.capture.fault")).unwrap();
    let after = lines[fault..].iter().take(6).copied().collect::<Vec<_>>().join("\n");
    let told = "asm_exc_page_fault interrupts process_unwind_deferred";
    assert!(after.contains(told) && after.contains("fault.page"), "{after}");
    let refused = finish(&mut emu(&["run", "--page-out", "heap", "hello"]));
    assert!(refused.status != 0 && refused.stderr.contains("use stack, tables or stack,tables"));
}
