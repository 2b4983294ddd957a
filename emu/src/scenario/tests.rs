use std::collections::BTreeSet;
use std::fs;
use std::hash::Hasher;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHasher;

use super::file::Scenario;
use super::fuzz::fuzz_scenario;
use super::inject::{Action, Who};
use super::judge::Finding;
use super::machine::Setup;
use super::machine::Workshop;
use super::play::{play, shrink};
use super::search::{Report, search};
use super::touch::{self, Touch};
use super::walk::Bounds;
use super::{catalogue, digest, expect, file};
use crate::deferred;
use crate::kernel::run::Paths;
use crate::kernel::schedule::{Next, Schedule};
use crate::kernel::state::SplitMix64;
use crate::kernel::unwind::Design;
use crate::kernel::{Point, State};
use crate::laws::hazard::Hazard;

fn scenario(name: &str) -> Scenario {
    file::read(catalogue::find(name).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn standard(design: &Rc<dyn Design>) -> Setup {
    scenario(catalogue::STANDARD).setup.under(design)
}

fn explore(design: &str, preemptions: u32, interrupts: u32) -> Report {
    let setup = standard(&deferred::by_name(design).unwrap());
    let bounds = Bounds { preemptions, interrupts, steps: 20_000 };
    search(&mut Workshop::new(setup), bounds, vec![Who::Perf], |_, _| true).unwrap()
}

fn words(report: &Report) -> BTreeSet<String> {
    report.found.keys().map(Finding::to_string).collect()
}

#[test]
fn without_deviations_there_is_one_order() {
    for design in deferred::all() {
        let report = explore(design.name(), 0, 0);
        assert!(report.complete && report.runs == 1, "{}: {report:?}", design.name());
    }
}

#[test]
fn an_nmi_anywhere_finds_the_hazards_of_the_mask() {
    let report = explore("mask", 0, 1);
    assert!(report.complete);
    let found = words(&report);
    for wanted in ["LAW-11 by H1", "LAW-15 by H1", "LAW-15 by H4", "LAW-36 by E-17"] {
        assert!(found.contains(wanted), "{wanted} is not among {found:?}");
    }
    let shortest = &report.found[&Finding::Broken(11, Some(Hazard::H1))];
    let [injection] = shortest[..] else { panic!("{shortest:?}") };
    assert_eq!(injection.action, Action::Interrupt(Who::Perf));
    assert_eq!(injection.at.place.name(), "unwind.reset.R4");
}

#[test]
fn a_second_nmi_is_late_for_the_stack_of_the_first() {
    let report = explore("mask", 0, 2);
    assert!(report.complete && words(&report).contains("H2"), "{:?}", words(&report));
}

#[test]
fn another_cpus_cancelling_finds_the_hazards_of_the_mask() {
    let report = explore("mask", 1, 0);
    assert!(report.complete);
    let found = words(&report);
    for wanted in ["H7", "H8", "H17", "H20", "LAW-10 by H17", "LAW-16 by H20"] {
        assert!(found.contains(wanted), "{wanted} is not among {found:?}");
    }
}

#[test]
fn other_designs_have_other_flaws() {
    assert!(words(&explore("per-work", 1, 0)).contains("LAW-19 by RV10"));
    assert!(words(&explore("timestamp", 0, 0)).contains("RV1"));
    let cookie = words(&explore("cookie", 1, 1));
    assert!(!cookie.iter().any(|f| f.starts_with("LAW")), "{cookie:?}");
}

#[test]
fn no_break_is_without_a_hazard() {
    for design in deferred::all() {
        let report = explore(design.name(), 1, 1);
        assert!(report.complete && report.stuck == 0, "{}", design.name());
        let bare = report.found.keys().filter(|f| matches!(f, Finding::Broken(_, None)));
        assert_eq!(bare.collect::<Vec<_>>(), [&Finding::Broken(0, None); 0], "{}", design.name());
    }
}

#[test]
fn a_search_finds_the_same_again() {
    let [a, b] = [explore("mask", 1, 0), explore("mask", 1, 0)];
    assert_eq!((a.states, a.runs, a.steps, a.found), (b.states, b.runs, b.steps, b.found));
}

/// Compares what each step has changed with what [`touch::of`] says of it.
#[derive(Debug, Default)]
struct Checker {
    before: [u64; 3],
    wrong: BTreeSet<(Point, Touch)>,
}

/// Shared state, the task's own, the CPU's own.
fn parts(state: &State) -> [u64; 3] {
    let mut hashers = [(); 3].map(|()| FxHasher::default());
    digest::shared(state, &mut hashers[0]);
    state.tasks().for_each(|task| digest::own(task, &mut hashers[1]));
    state.cpus().for_each(|cpu| digest::cpu(cpu, &mut hashers[2]));
    hashers.map(|hasher| hasher.finish())
}

impl Schedule for Checker {
    fn before(&mut self, state: &mut State, _point: Point) -> Next {
        self.before = parts(state);
        Next::Go
    }

    fn before_user(&mut self, _state: &mut State) -> Next {
        Next::Go
    }

    fn after(&mut self, state: &State, point: Point, _learned: u64) {
        let now = parts(state);
        let changed = |part: usize| self.before[part] != now[part];
        let touch = match () {
            () if changed(0) => Touch::Shared,
            () if changed(1) || changed(2) => Touch::Own,
            () => Touch::Nothing,
        };
        // A step that begins a path of its own, without a look before it, says nothing.
        if touch > touch::of(point) && !matches!(point, Point::SchedSwitch | Point::Idle) {
            self.wrong.insert((point, touch));
        }
        self.before = now;
    }

    fn elect(&mut self, state: &State) -> Option<u32> {
        assert!(self.wrong.is_empty(), "steps that change more than they say: {:?}", self.wrong);
        let ready = |cpu: &u32| state.can_go_on(*cpu);
        state.cpus().map(|cpu| cpu.id).filter(|_| state.ending.is_none()).find(ready)
    }
}

#[test]
fn the_scenarios_that_come_along_do_as_expected() {
    for (name, _) in catalogue::ALL {
        let scenario = scenario(name);
        for design in &scenario.designs {
            let mut workshop = Workshop::new(scenario.setup.under(design));
            let played = play(&mut workshop, &scenario.injections, |_| ()).unwrap();
            let wrong = expect::unexpected(&scenario, design.name(), &played);
            assert_eq!(wrong, [""; 0], "{name}, {}: {played:?}", design.name());
            assert!(scenario.expect.contains_key(design.name()), "{name}: {}", design.name());
        }
    }
}

#[test]
fn what_a_search_finds_comes_again_with_its_deviations_alone() {
    let setup = standard(&deferred::by_name("mask").unwrap());
    let mut workshop = Workshop::new(setup);
    for (finding, injections) in &explore("mask", 1, 1).found {
        let shrunk = shrink(&mut workshop, injections, *finding).unwrap();
        let played = [(); 2].map(|()| play(&mut workshop, &shrunk, |_| ()).unwrap());
        assert!(played[0].findings.contains(finding), "{finding}: {shrunk:?}");
        assert_eq!(played[0], played[1], "the same schedule, the same state");
        assert!(shrunk.len() <= 1 && played[0].missed.is_empty(), "{finding}: {shrunk:?}");
        // The same as a file.
        let standard = scenario(catalogue::STANDARD);
        let text = standard.with("", "mask", &shrunk, &played[0]).unwrap();
        let saved = file::read(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let again = play(&mut Workshop::new(saved.setup.clone()), &saved.injections, |_| ());
        assert_eq!(again.as_ref(), Ok(&played[0]), "{text}");
        assert_eq!(expect::unexpected(&saved, "mask", &again.unwrap()), [""; 0], "{text}");
    }
}

/// Twice at the same address with the same state, but not in the same place of its way.
#[test]
fn a_task_that_comes_to_an_address_again_is_not_where_it_was() {
    let text = r#"
        title = "Twice"
        designs = ["mask"]
        tracers = { X = "registered" }
        tasks = { A = { cpu = 0, main = "main" } }
        [functions]
        main = ["call work", "call work", "kernel: cancel X", "kernel: ask X anyway", "exit"]
        work = ["kernel: work"]
    "#;
    let scenario = file::read(text).unwrap();
    let bounds = Bounds { preemptions: 0, interrupts: 1, steps: 20_000 };
    let mut workshop = Workshop::new(scenario.setup);
    let report = search(&mut workshop, bounds, vec![Who::Perf], |_, _| true).unwrap();
    let shortest = &report.found[&Finding::Broken(10, Some(Hazard::H7))];
    assert!(report.complete && shortest.is_empty(), "{report:?}");
}

#[test]
fn an_expectation_that_is_not_met_is_told() {
    let text = catalogue::find("nmi-in-reset").unwrap();
    let wrong = |from: &str, to: &str| {
        let scenario = file::read(&text.replace(from, to)).unwrap();
        let mut workshop = Workshop::new(scenario.setup.clone());
        let played = play(&mut workshop, &scenario.injections, |_| ()).unwrap();
        expect::unexpected(&scenario, "mask", &played)
    };
    assert_eq!(wrong("X = 1 }", "X = 2 }"), ["2 callbacks to X are expected, 1 came"]);
    assert_eq!(wrong("\"H1\", ", ""), ["H1 came and is not expected"]);
    assert_eq!(wrong("\"H1\", ", "\"H1\", \"H2\", "), ["H2 is expected and did not come"]);
    let never = wrong("do = \"nmi\"", "nth = 9\ndo = \"nmi\"");
    assert_eq!(
        never[0],
        "injection 1 was never reached: A does not come to unwind.reset.R4 9 times"
    );
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_place() {
    let text = catalogue::find("nmi-in-reset").unwrap();
    let error = |from: &str, to: &str| file::read(&text.replace(from, to)).unwrap_err().to_string();
    assert_eq!(
        error("unwind.reset.R4", "unwind.reset.R44"),
        "line 20, column 10: no step point is called \"unwind.reset.R44\"; nearest: \
         unwind.reset.R4, unwind.reset.R2, unwind.reset.R3"
    );
    let design = error("[\"mask\"]", "[\"maks\"]");
    assert!(design.contains("no design is called \"maks\"; nearest: mask"), "{design}");
    let unknown = error("title", "titel");
    assert!(unknown.starts_with("line 1, column 1: unknown field `titel`"), "{unknown}");
    let tracer = error("ask X", "ask Z");
    assert!(tracer.contains("no tracer is called \"Z\"; nearest: X"), "{tracer}");
    let action = error("do = \"nmi\"", "do = \"nmy\"");
    assert!(action.contains("\"nmy\" is no action"), "{action}");
    let cpu = error("cpu = 0", "cpu = 7");
    assert!(cpu.contains("there are CPUs 0 to 0"), "{cpu}");
}

/// Files of the corpus, and what is left of them after a few slips.
#[test]
fn no_file_does_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus/scenario");
    let mut files: Vec<_> = fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    let mut random = SplitMix64(5);
    for file in files {
        let good = fs::read(&file).unwrap();
        fuzz_scenario(&good);
        for _ in 0..200 {
            let mut bytes = good.clone();
            for _ in 0..1 + random.next_u64() % 3 {
                let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] = b"0123456789abXY\"{}[],:=. \n"[below(25)],
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes[at] = below(256) as u8,
                    _ => {
                        let piece = bytes[at..(at + below(64)).min(bytes.len())].to_vec();
                        let to = below(bytes.len());
                        bytes.splice(to..to, piece);
                    }
                }
            }
            fuzz_scenario(&bytes);
        }
    }
}

#[test]
fn no_step_changes_more_than_it_says() {
    for design in deferred::all() {
        let mut workshop = Workshop::new(standard(&design));
        let k = workshop.machine().unwrap();
        k.with(|s| s.set_schedule(Box::new(Checker::default())));
        let mut paths = Paths::new(&k);
        while paths.go_on(&k) {}
        assert!(k.with(|s| s.ending.is_some()));
    }
}
