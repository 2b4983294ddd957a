//! Laws. `emu::laws` watches those of the kernel at every step of every run of the harness,
//! and `tests::laws` checks others after it: a clean return to user mode, time that goes on,
//! chains of the right shape, periods that add up. Here are runs that strain them, those that
//! break one as a known hazard does, designs that keep them not, and what two runs take to see.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use arch::{Arch, Errno};
use emu::kernel::state::{PmuIrq, Stats};
use emu::kernel::step::Path;
use emu::kernel::task_work::TaskWork;
use emu::kernel::unwind::{Clock, Design, Mode, Requested, Tracer, WorkId};
use emu::kernel::{Kernel, Point, State, symbols};
use emu::laws::hazard::Hazard;
use emu::perf::record::{CpuMode, EventKind, Record, context};
use tests::harness::{Harness, Outcome};
use tests::program::{emu, finish};
use tests::scratch;

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

const DESIGNS: [&str; 4] = ["mask", "cookie", "timestamp", "per-work"];

/// Ways to sample that bring requests from NMIs, interrupts and software events.
const DEFERRED: [(&str, u64); 6] = [
    ("cycles", 401),
    ("cycles", 1013),
    ("cpu-clock,page-faults", 10_007),
    ("page-faults,raw_syscalls:sys_enter,raw_syscalls:sys_exit", 1),
    ("signal:signal_generate,signal:signal_deliver", 1),
    ("cycles:u", 97),
];

/// The general laws and, but for known hazards, the others: of each design, of either way to
/// interrupt. Some hazards are sure to be there.
#[test]
fn every_design_keeps_the_laws() {
    let mut explained: BTreeMap<(&str, u8, Hazard), u64> = BTreeMap::new();
    for (guest, args) in SHORT_RUNS.into_iter().chain([("hello", &[] as &[&str])]) {
        for design in DESIGNS {
            for (events, period) in DEFERRED {
                for how in [PmuIrq::Nmi, PmuIrq::Irq] {
                    // A period that is shorter than an interrupt makes one at each instruction.
                    if how == PmuIrq::Irq && events == "cycles" {
                        continue;
                    }
                    let harness = Harness::new(Arch::X86_64, guest).args(args).pmu_irq(how);
                    let outcome = harness.events(events, period).deferred(design).run();
                    assert!(outcome.laws.watched >= 21, "{}", outcome.laws.summary());
                    for ((law, hazard), count) in outcome.laws.explained {
                        *explained.entry((design, law, hazard)).or_default() += count;
                    }
                }
            }
        }
    }
    for expected in [
        ("mask", 12, Hazard::H4),
        ("mask", 15, Hazard::H4),
        ("mask", 20, Hazard::H11),
        ("mask", 37, Hazard::H2),
        ("cookie", 36, Hazard::Again),
        ("timestamp", 36, Hazard::Again),
        ("per-work", 36, Hazard::Again),
    ] {
        assert!(explained.contains_key(&expected), "{expected:?} is not in {explained:?}");
    }
    // Designs without requests from NMIs have none of their hazards.
    let nmi = [Hazard::H1, Hazard::H4];
    assert!(explained.keys().all(|(d, _, h)| *d == "mask" || !nmi.contains(h)), "{explained:?}");
}

/// The same of guests with SFrame sections, on both architectures.
#[test]
fn sframe_keeps_the_laws() {
    for arch in Arch::ALL {
        for (events, period) in [("cycles", 701), ("cpu-clock,page-faults", 5003)] {
            let harness = Harness::new(arch, "lab-recursion-v3").events(events, period);
            let outcome = harness.sframe().run();
            assert!(outcome.samples().count() > 0, "{arch} {events}");
        }
    }
}

/// Static guests of the catalogue at a long period, sampled at once and later.
#[test]
fn guests_keep_the_laws() {
    for guest in ["recursion", "qsort", "memory", "signals", "syscalls", "golden-fp", "demo"] {
        for arch in Arch::ALL {
            Harness::new(arch, guest).events("cycles,page-faults", 20_011).run();
        }
        Harness::new(Arch::X86_64, guest).events("cycles", 20_011).deferred("mask").run();
    }
}

/// How often a law was broken for this reason.
fn explained(outcome: &Outcome, law: u8, hazard: Hazard) -> u64 {
    outcome.laws.explained.get(&(law, hazard)).copied().unwrap_or(0)
}

fn cookie_of(record: &Record) -> Option<u64> {
    match record {
        Record::CallchainDeferred { cookie, .. } => Some(*cookie),
        _ => None,
    }
}

/// An NMI between R3 and R4 (H1): its cookie is erased, and the record has 0 in its place.
#[test]
fn a_cookie_that_is_erased() {
    let outcome =
        Harness::new(Arch::X86_64, "syscalls").events("cycles", 700).deferred("mask").run();
    let zeros = outcome.records.iter().filter(|r| cookie_of(r) == Some(0)).count() as u64;
    assert!(zeros > 0);
    assert_eq!(explained(&outcome, 11, Hazard::H1), zeros, "{}", outcome.laws.summary());
    assert!(explained(&outcome, 15, Hazard::H1) > 0, "{}", outcome.laws.summary());
    assert!(explained(&outcome, 37, Hazard::H2) > 0, "{}", outcome.laws.summary());
}

/// A pending stack at the task's end has no record (E-17).
#[test]
fn a_stack_without_a_record() {
    let outcome = Harness::new(Arch::X86_64, "hello")
        .events("raw_syscalls:sys_enter", 1)
        .deferred("mask")
        .run();
    assert_eq!(explained(&outcome, 36, Hazard::TornDown), 1, "{}", outcome.laws.summary());
}

/// With a clock that ticks every 4 ms entries share their timestamp (RV1), and one stamp has
/// several records.
#[test]
fn a_coarse_clock() {
    let harness = Harness::new(Arch::X86_64, "golden-fp").args(&["sys", "3"]);
    let harness = harness.events("raw_syscalls:sys_enter", 1).deferred("timestamp");
    let coarse = Clock { granularity: 4_000_000, start: 7, ..Clock::default() };
    let outcome = harness.run_prepared(|s| s.unwind.clock = coarse, |_, _| {});
    assert!(explained(&outcome, 36, Hazard::CoarseClock) > 0, "{}", outcome.laws.summary());
    let fine = harness.run();
    assert_eq!(explained(&fine, 36, Hazard::CoarseClock), 0, "{}", fine.laws.summary());
}

/// A design that is another one under a name.
#[derive(Debug)]
struct Mutant {
    mode: Mode,
    design: Rc<dyn Design>,
    /// X5 does nothing.
    forgets: bool,
}

impl Mutant {
    fn run(mode: Mode, design: Mode, forgets: bool) -> Outcome {
        let design = emu::deferred::by_name(design.name()).unwrap();
        let mutant = Mutant { mode, design, forgets };
        let harness = Harness::new(Arch::X86_64, "hello").events("cycles", 400);
        let harness = harness.deferred(mode.name());
        harness.run_prepared(|s| s.unwind.design = Rc::new(mutant), |_, _| {})
    }
}

impl Design for Mutant {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn request<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, Requested> {
        self.design.request(k, work)
    }

    fn task_work<'a>(&'a self, k: &'a Kernel, item: TaskWork) -> Path<'a, ()> {
        self.design.task_work(k, item)
    }

    fn begin_reset(&self, state: &mut State) -> bool {
        !self.forgets && self.design.begin_reset(state)
    }

    fn reset<'a>(&'a self, k: &'a Kernel) -> Path<'a, ()> {
        self.design.reset(k)
    }

    fn exit_flush<'a>(&'a self, k: &'a Kernel) -> Path<'a, ()> {
        self.design.exit_flush(k)
    }

    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        self.design.init(k, tracer)
    }

    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()> {
        self.design.cancel(k, work)
    }
}

/// A mutant that does nothing else keeps all laws.
#[test]
fn a_design_in_disguise() {
    Mutant::run(Mode::Mask, Mode::Mask, false);
}

#[test]
#[should_panic(expected = "LAW-15 is broken, at event")]
fn a_reset_that_is_forgotten() {
    Mutant::run(Mode::Mask, Mode::Mask, true);
}

#[test]
#[should_panic(expected = "LAW-18 is broken, at event")]
fn an_nmi_that_is_not_refused() {
    Mutant::run(Mode::Cookie, Mode::Mask, false);
}

#[test]
#[should_panic(expected = "LAW-24 is broken, at event")]
fn an_exit_without_its_store() {
    Mutant::run(Mode::Timestamp, Mode::Cookie, false);
}

/// `emu run --laws`: what is told, and that nothing else changes.
#[test]
fn the_option() {
    let dir = scratch("laws");
    let words = ["--format", "script", "--call-graph", "fp,defer", "-c", "400", "hello"];
    let run = |name: &str, more: &[&str]| {
        let profile = dir.join(name);
        let file = profile.display().to_string();
        let finished = finish(&mut emu(&[&["run", "-q", "-o", &file], more, &words].concat()));
        assert_eq!(finished.status, 0, "{}", finished.stderr);
        (std::fs::read(profile).unwrap(), finished)
    };
    let (plain, without) = run("plain", &[]);
    let (watched, with) = run("watched", &["--laws"]);
    assert!(!plain.is_empty() && plain == watched);
    assert!(!without.stderr.contains("LAW") && without.stdout == with.stdout);
    let last = with.stderr.lines().find(|l| l.starts_with("laws: ")).unwrap();
    assert!(last.contains(" watched, 0 broken, "), "{last}");
    assert!(last.contains("LAW-37 by H2 2 times"), "{last}");
    let breaks = with.stderr.lines().filter(|l| l.starts_with("emu: LAW-"));
    assert!(breaks.clone().all(|l| l.contains(" (X) is broken, explained by ")), "{}", with.stderr);
    // The second break of a kind is only counted.
    let late = breaks.filter(|l| l.contains("LAW-37")).count();
    assert_eq!(late, 1, "{}", with.stderr);
    // The lines before a break are those of the timeline.
    let (_, story) = run("story", &["--timeline", "--laws"]);
    let lines: BTreeSet<&str> = story.stdout.lines().collect();
    let told = with.stderr.lines().filter(|l| l.starts_with("  ") && l.contains("   1000  "));
    let told: Vec<&str> = told.map(|l| &l[2..]).collect();
    assert!(told.len() >= 40, "{}", with.stderr);
    assert!(told.iter().all(|l| lines.contains(l)), "{}", with.stderr);
}

/// LAW-35 in the file: size = 24 + 8 × addresses + trailer.
#[test]
fn records_have_their_size() {
    let dir = scratch("laws-size");
    let profile = dir.join("perf.data");
    let file = profile.display().to_string();
    let words = ["run", "-q", "-o", &file, "--call-graph", "fp,defer", "-c", "5003", "recursion"];
    assert_eq!(finish(&mut emu(&words)).status, 0);
    let bytes = std::fs::read(&profile).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    // perf_file_header: attrs at 24, data at 40; sample_type at 24 of an attr.
    let (attr, data, end) = (word(24) as usize, word(40) as usize, (word(40) + word(48)) as usize);
    let sample_type = word(attr + 24);
    // TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER: a word each.
    let trailer = [1, 2, 6, 9, 7, 16].iter().filter(|b| sample_type >> *b & 1 != 0).count() * 8;
    let (mut at, mut found) = (data, 0);
    while at < end {
        let (kind, size) = (word(at) as u32, (word(at) >> 48) as usize);
        assert!(size >= 8 && size.is_multiple_of(8), "{size} at {at}");
        if kind == 22 {
            assert_eq!(size, 24 + 8 * word(at + 16) as usize + trailer, "at {at}");
            found += 1;
        }
        at += size;
    }
    assert!(found > 20 && at == end, "{found}");
}
