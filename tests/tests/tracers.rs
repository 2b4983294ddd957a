//! `--tracer`: others than perf ask for deferred stacks of the same entries, are registered and
//! cancelled while the guest runs, and the laws hold.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use emu::kernel::State;
use emu::kernel::tracer::{Asks, Phase, Plan, Tally};
use tests::harness::{Harness, Outcome};
use tests::program::{emu, finish};
use tests::scratch;

const DESIGNS: [&str; 4] = ["mask", "cookie", "timestamp", "per-work"];

const FTRACE: Plan = Plan { asks: Asks::SystemCalls(1), from: 0, until: None };
const BPF: Plan = Plan { asks: Asks::Timer(10_007), from: 0, until: None };

/// Runs with these tracers; also what became of each.
fn run(harness: &Harness, plans: &[Plan]) -> (Outcome, Vec<(Phase, Tally)>) {
    let mut tallies = Vec::new();
    let attach = |s: &mut State| plans.iter().for_each(|&p| s.attach(p).unwrap());
    let outcome = harness.run_prepared(attach, |k, _| {
        k.with(|s| tallies = s.tracers.iter().map(|t| (t.phase, t.tally)).collect());
    });
    (outcome, tallies)
}

fn harness(design: &'static str) -> Harness {
    Harness::new(Arch::X86_64, "syscalls").events("cycles,page-faults", 10_007).deferred(design)
}

/// Who asked is called, once an entry; the designs before the mask call the others as well.
#[test]
fn tracers_get_the_stacks_that_they_ask_for() {
    for design in DESIGNS {
        let (_, tallies) = run(&harness(design), &[FTRACE, BPF]);
        let [(phase, ftrace), (_, bpf)] = tallies[..] else { panic!("{tallies:?}") };
        assert!(matches!(phase, Phase::Asks(_)), "{design}: {phase:?}");
        assert!(ftrace.asked > 20 && ftrace.refused == 0, "{design}: {ftrace:?}");
        assert!(bpf.asked > 20, "{design}: {bpf:?}");
        for tally in [ftrace, bpf] {
            assert!(tally.called > 20 && tally.addresses >= tally.called, "{design}: {tally:?}");
        }
        // Every call of the guest is an entry, and has its own stack.
        assert!(ftrace.called + 1 >= ftrace.asked, "{design}: {ftrace:?}");
    }
}

/// A tracer that never asks is called by the designs with a plain list alone (RV8).
#[test]
fn everybody_is_called_or_who_asked() {
    let silent = Plan { asks: Asks::SystemCalls(u64::MAX), ..FTRACE };
    for (design, everybody) in [("mask", 0), ("per-work", 0), ("cookie", 1), ("timestamp", 1)] {
        let (_, tallies) = run(&harness(design), &[FTRACE, silent]);
        let [(_, asks), (_, silent)] = tallies[..] else { panic!("{tallies:?}") };
        assert_eq!(silent.asked, 0, "{design}");
        assert_eq!(silent.called > 0, everybody == 1, "{design}: {silent:?} beside {asks:?}");
    }
}

/// Registered late and cancelled early, while others go on: afterwards nothing is asked for.
#[test]
fn tracers_come_and_go() {
    for design in DESIGNS {
        for cpus in [1, 2, 3] {
            let harness = Harness::new(Arch::X86_64, "tasks").cpus(cpus).deferred(design);
            let harness = harness.events("cycles,page-faults", 20_011);
            let short = |from, until| Plan { from, until: Some(until), ..FTRACE };
            let timer = |from, until| Plan { from, until: Some(until), ..BPF };
            let plans = [FTRACE, short(200_000, 600_000), timer(100_000, 500_000), BPF];
            let again = [short(700_000, 1_200_000), timer(550_000, 900_000)];
            let (_, tallies) = run(&harness, &[&plans[..], &again].concat());
            for (at, (phase, tally)) in tallies.iter().enumerate() {
                let stays = at == 0 || at == 3;
                let what = format!("{design}, {cpus} CPUs, tracer {at}: {phase:?} {tally:?}");
                assert_eq!(matches!(phase, Phase::Asks(_)), stays, "{what}");
                assert_eq!(matches!(phase, Phase::Gone(_)), !stays, "{what}");
                let from = tally.registered.unwrap();
                let (began, over) = match tally.cancelled {
                    Some((began, over)) => (began, over.unwrap()),
                    None => (u64::MAX - 1, u64::MAX),
                };
                assert!(from < began && began < over, "{what}");
                // A thread that had to wait for its turn finds its time over.
                if began - from > 200_000 {
                    assert!(tally.asked > 0 && tally.called > 0, "{what}");
                }
            }
        }
    }
}

/// The mask has 61 bits for others than perf; who comes later is refused (H14).
#[test]
fn the_mask_has_a_bit_for_61() {
    let plan = Plan { asks: Asks::SystemCalls(7), ..FTRACE };
    let (_, tallies) = run(&harness("mask"), &[plan; 63]);
    let refused = tallies.iter().filter(|t| matches!(t.0, Phase::Refused(_))).count();
    assert_eq!(refused, 2);
    assert!(tallies[..61].iter().all(|t| t.1.called > 0));
    let (_, tallies) = run(&harness("cookie"), &[plan; 63]);
    assert!(tallies.iter().all(|t| matches!(t.0, Phase::Asks(_))));
}

/// The words on the command line, the summary, and the steps in the timeline.
#[test]
fn the_option() {
    let dir = scratch("tracers");
    let profile = dir.join("profile").display().to_string();
    let words = [
        "run",
        "-o",
        &profile,
        "--laws",
        "--timeline",
        "--call-graph",
        "fp,defer",
        "-c",
        "5003",
        "--tracer",
        "ftrace:until=300k",
        "--tracer",
        "bpf:every=20k,from=50k",
        "syscalls",
    ];
    let finished = finish(&mut emu(&words));
    assert_eq!(finished.status, 0, "{}", finished.stderr);
    for line in ["  ftrace/0 ", "  bpf/1 "] {
        assert!(finished.stderr.lines().any(|l| l.starts_with(line)), "{}", finished.stderr);
    }
    for step in ["unwind.init.1", "unwind.cancel.K8", "tracer.off", "tracer.ask"] {
        assert!(finished.stdout.contains(step), "{step}");
    }
    assert!(finished.stdout.contains("tracer 1 is answered 0, it will be called"));
    assert!(finished.stdout.contains("tracer 1 is called: cookie "));
    let refused = finish(&mut emu(&["run", "--tracer", "perf", "hello"]));
    assert!(refused.status != 0 && refused.stderr.contains("use ftrace or bpf"));
    let many = ["run", "--tracer", "bpf:count=100", "--tracer", "ftrace:count=29", "hello"];
    let refused = finish(&mut emu(&many));
    assert!(refused.status != 0 && refused.stderr.contains("128"), "{}", refused.stderr);
}
