//! What holds at every return to user mode and at the end of every run, besides the laws that
//! [`emu::laws`] watches at every step.

use std::collections::BTreeMap;

use arch::Arch;
use emu::kernel::{Point, State, symbols};
use emu::perf::record::{CpuMode, EventKind, KernelSymbol, Rate, Record, Sample, context};

use crate::harness::Outcome;

/// The machine is about to run user code: nothing of a kernel path is left.
///
/// # Panics
///
/// If a law is broken.
pub fn check_user_mode(state: &State) {
    let cpu = &state.cpu;
    assert!(cpu.irqs_on && !cpu.nmi_masked, "interrupts are off in user mode");
    assert!(cpu.kernel.is_none(), "still in kernel code: {:x?}", cpu.kernel);
    assert!(cpu.functions.is_empty(), "functions left on the path: {:?}", cpu.functions);
    assert!(state.cpu.counting, "the PMU stands still in user mode");
    assert!(state.mm.kernel_faults.is_empty(), "faults of kernel copies that nobody counted");
}

/// The laws of a whole run that kept its records.
///
/// # Panics
///
/// If a law is broken.
pub fn check(outcome: &Outcome) {
    let mut last = 0;
    for record in &outcome.records {
        let time = record.time();
        assert!(time >= last, "time goes back from {last} to {time} at {record:x?}");
        last = time;
    }
    outcome.samples().for_each(|s| check_sample(outcome, s));
    check_counters(outcome);
    check_order(outcome);
}

/// Where aarch64 masks even pseudo-NMIs: from the entry until the mask is restored (N3),
/// and from X4 on.
const MASKED: [Point; 7] = [
    Point::EntryRaw,
    Point::EntryN1,
    Point::EntryN2,
    Point::ExitX4,
    Point::ExitX5,
    Point::ExitX6,
    Point::IrqDeliver,
];

/// What the user part of a chain begins with.
const USER_MARKERS: [u64; 2] = [context::USER, context::USER_DEFERRED];

/// No interrupt arrives in kernel code where all of them are masked.
fn check_masked(outcome: &Outcome, s: &Sample) {
    let arch = outcome.session.arch;
    let point = symbols::step_at(arch, s.ip);
    assert_ne!(point, Some(Point::NmiHandler), "a sample in an NMI's handler: {s:x?}");
    if arch == Arch::X86_64 {
        return;
    }
    assert!(!point.is_some_and(|p| MASKED.contains(&p)), "{point:?} is masked: {s:x?}");
    let symbols = &outcome.session.kernel_symbols;
    let symbol = symbols.iter().find(|f| (f.addr..f.addr + f.len).contains(&s.ip));
    let Some(function) = symbol else { return };
    // The entries from user mode run with the mask set, and so do the functions that clear
    // it when they were just called.
    let name = function.name.as_str();
    let entry = name.starts_with("el0t_");
    let clears = ["el0_", "el1_", "el1h_"].iter().any(|p| name.starts_with(p));
    let called = s.ip == function.addr && clears && !name.contains("common");
    assert!(!entry && !called, "a sample in {name}, which is masked: {s:x?}");
}

/// `[KERNEL, address…,] USER, address…`, beginning with the sample's IP; or
/// `USER_DEFERRED, cookie` in place of the user part. A part that the event excludes is not
/// there.
fn check_sample(outcome: &Outcome, s: &Sample) {
    let event = &outcome.session.events[s.event];
    let excluded = match s.mode {
        CpuMode::User => event.exclude_user,
        CpuMode::Kernel => event.exclude_kernel,
    };
    assert!(!excluded, "{}: a sample in an excluded mode: {s:x?}", event.name);
    assert_eq!(event.kind.is_tracepoint(), s.raw.is_some(), "{s:x?}");
    if s.mode == CpuMode::Kernel {
        check_masked(outcome, s);
    }
    if !event.callchain {
        assert!(s.callchain.is_empty(), "{s:x?}");
        return;
    }
    // What follows the user marker are words from the guest's stack, whatever they are.
    let (kernel, user): (&[u64], &[u64]) = match s.mode {
        CpuMode::User => (&[], &s.callchain),
        CpuMode::Kernel => {
            let user = s.callchain.iter().position(|a| USER_MARKERS.contains(a));
            let (kernel, user) = s.callchain.split_at(user.unwrap_or(s.callchain.len()));
            let marker = (!event.exclude_callchain_kernel).then_some(&context::KERNEL);
            assert_eq!(kernel.first(), marker, "{s:x?}");
            (kernel.get(1..).unwrap_or_default(), user)
        }
    };
    match user.first() {
        None => assert!(event.exclude_callchain_user || has_no_memory(outcome, s), "{s:x?}"),
        Some(&context::USER_DEFERRED) => {
            assert!(event.defer && user.len() == 2, "{s:x?}");
            assert!(s.mode == CpuMode::Kernel || s.callchain.len() == 2, "{s:x?}");
        }
        marker => assert_eq!(marker, Some(&context::USER), "{s:x?}"),
    }
    assert!(user.is_empty() || !event.exclude_callchain_user, "{s:x?}");
    let deferred = user.first() == Some(&context::USER_DEFERRED);
    let first = if s.mode == CpuMode::User { !deferred } else { !event.exclude_callchain_kernel };
    if first && !(s.mode == CpuMode::User && user.is_empty()) {
        assert_eq!(s.callchain[1], s.ip, "{s:x?}");
    }
    let (from, to) = kernel_text(outcome);
    for &a in kernel {
        assert!((from..to).contains(&a), "{a:#x} is not kernel text: {s:x?}");
    }
}

/// Whether the sample's task has no user memory: an idle task, or one that ends and has let go
/// of it.
fn has_no_memory(outcome: &Outcome, s: &Sample) -> bool {
    let symbols = &outcome.session.kernel_symbols;
    let ends = symbols.iter().find(|f| f.name == "do_exit");
    let is_in = |f: &KernelSymbol| s.callchain.iter().any(|a| (f.addr..f.addr + f.len).contains(a));
    s.pid == 0 || ends.is_some_and(is_in)
}

/// First and last address of the modelled kernel's functions.
fn kernel_text(outcome: &Outcome) -> (u64, u64) {
    let symbols = &outcome.session.kernel_symbols;
    let end = symbols.iter().map(|s| s.addr + s.len).max().unwrap_or(0);
    (symbols.iter().map(|s| s.addr).min().unwrap_or(0), end)
}

/// The samples' periods, those that were missed and what is left of the current one add up
/// to all that was counted.
fn check_counters(outcome: &Outcome) {
    let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for s in outcome.samples() {
        let (periods, samples) = sums.entry(s.event).or_default();
        *periods += s.period;
        *samples += 1;
    }
    for (index, (event, counter)) in
        outcome.session.events.iter().zip(&outcome.counters).enumerate()
    {
        let (periods, samples) = sums.get(&index).copied().unwrap_or_default();
        assert_eq!(counter.samples, samples, "{}: samples taken and emitted", event.name);
        let begun = counter.begun();
        let accounted = periods as i64 + begun + counter.missed as i64;
        // Of several tasks only the rest of the last one is kept.
        // A clock has also counted what came after its last sample, or was excluded.
        if event.kind.is_clock() {
            assert!(accounted <= counter.total as i64, "{}: periods and rest", event.name);
        } else if forks(outcome) == 0 {
            assert_eq!(accounted, counter.total as i64, "{}: periods and rest", event.name);
        }
        // Only a period that is shorter than what runs with interrupts off can be missed.
        let long = matches!(event.rate, Rate::Period(p) if p > 5000);
        assert!(!long || counter.missed == 0, "{}: {counter:?}", event.name);
        let every_one = event.rate == Rate::Period(1);
        if event.kind == EventKind::PageFaults
            && every_one
            && !event.exclude_user
            && !event.exclude_kernel
        {
            assert_eq!(samples, outcome.stats.page_faults, "page faults sampled and counted");
        }
        if event.kind == EventKind::Instructions && event.exclude_kernel && !event.exclude_user {
            assert_eq!(counter.total, outcome.stats.instructions, "instructions:u counted");
        }
        if event.kind == EventKind::Branches && event.exclude_kernel && !event.exclude_user {
            assert_eq!(counter.total, outcome.stats.branches, "branches:u counted");
        }
    }
}

/// A profile begins with the program and its mappings, and every task ends. Behind a task's EXIT
/// comes nothing of it in a session of tasks; CPU-wide, what it still does in the kernel, and the
/// one deferred record of its last entry (E-17), which may be the profile's last.
fn check_order(outcome: &Outcome) {
    let records = &outcome.records;
    assert!(matches!(records.first(), Some(Record::Comm { exec: true, .. })), "{records:x?}");
    assert!(matches!(records.get(1), Some(Record::Mmap2 { .. })), "{records:x?}");
    let wide = outcome.session.wide != 0;
    // Deferred records since the EXIT of each thread.
    let mut ended: BTreeMap<u32, usize> = BTreeMap::new();
    let mut exits = 0;
    for record in records {
        match record {
            Record::Exit { tid, .. } => {
                assert_eq!(ended.insert(*tid, 0), None, "{tid} ends twice: {record:x?}");
                exits += 1;
            }
            // A thread that executes a program takes the number of its leader, which has ended.
            Record::Comm { exec: true, tid, .. } => _ = ended.remove(tid),
            Record::Sample(s) => {
                assert!(wide || !ended.contains_key(&s.tid), "it has ended: {record:x?}");
            }
            Record::CallchainDeferred { tid, .. } => {
                let Some(behind) = ended.get_mut(tid) else { continue };
                *behind += 1;
                assert!(wide && *behind == 1, "it has ended: {record:x?}");
            }
            _ => {}
        }
    }
    let late = |r: &Record| {
        wide && matches!(r, Record::CallchainDeferred { tid, .. } if ended.contains_key(tid))
    };
    let last = records.iter().rev().find(|r| !late(r));
    assert!(matches!(last, Some(Record::Exit { .. })), "the last record is no exit: {last:x?}");
    assert_eq!(exits, 1 + forks(outcome), "exits");
}

/// Tasks beside the first.
fn forks(outcome: &Outcome) -> usize {
    outcome.records.iter().filter(|r| matches!(r, Record::Fork { .. })).count()
}
