//! `emu run --timeline` and `emu points`: the run's story, as text and as trace events.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use emu::kernel::Point;
use serde_json::Value;
use tests::program::{Finished, emu, finish};
use tests::{root, scratch};

/// Runs `emu run` with a profile in `dir`.
fn run(dir: &Path, words: &[&str]) -> Finished {
    let profile = dir.join("profile").display().to_string();
    finish(&mut emu(&[&["run", "-o", &profile], words].concat()))
}

/// The story of a run, on standard output.
fn timeline(dir: &Path, words: &[&str]) -> String {
    let finished = run(dir, words);
    assert_eq!(finished.status, 0, "{words:?}: {}", finished.stderr);
    finished.stdout
}

const DEFERRED: [&str; 5] = ["--call-graph", "fp,defer", "-c", "400", "hello"];

/// The event number that a line begins with.
fn number(line: &str) -> Option<u64> {
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn the_same_story_each_time() {
    let dir = scratch("timeline-same");
    for arch in ["x86_64", "aarch64"] {
        for format in ["text", "chrome"] {
            let words = ["--timeline", "--timeline-format", format, "--arch", arch];
            let words = [&words[..], &["-c", "3001", "signals"]].concat();
            let first = timeline(&dir, &words);
            assert!(first.lines().count() > 1000, "{words:?}");
            assert!(first == timeline(&dir, &words), "{words:?}");
        }
    }
}

/// Whether somebody listens changes nothing in the profile.
#[test]
fn a_listener_changes_nothing() {
    let dir = scratch("timeline-listener");
    let profile = dir.join("profile");
    let words = ["--format", "script", "--call-graph", "fp,defer", "-c", "997", "signals"];
    run(&dir, &words);
    let alone = std::fs::read(&profile).unwrap();
    timeline(&dir, &[&["--timeline"], &words[..]].concat());
    assert!(!alone.is_empty() && alone == std::fs::read(&profile).unwrap());
}

/// FROM..TO takes the lines with these numbers, which stay the same; calls have none.
#[test]
fn a_range_is_a_part_of_the_whole() {
    let dir = scratch("timeline-range");
    let all = timeline(&dir, &[&["--timeline"], &DEFERRED[..]].concat());
    let numbers: Vec<u64> = all.lines().filter_map(number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for (range, from, to) in [("50..60", 50, 60), ("..7", 1, 7), ("90..", 90, u64::MAX)] {
        let part = timeline(&dir, &[&[&*format!("--timeline={range}")], &DEFERRED[..]].concat());
        let wanted = all.lines().filter(|l| number(l).is_none_or(|n| from <= n && n <= to));
        assert_eq!(part.lines().collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{range}");
    }
    let none = timeline(&dir, &[&["--timeline=1000000.."], &DEFERRED[..]].concat());
    assert_eq!(none.lines().nth(1), Some("no event is in the range"));
    let words = [&["--timeline=50..60", "--timeline-all"], &DEFERRED[..]].concat();
    let calls = timeline(&dir, &words);
    assert!(calls.lines().any(|l| l.contains("call.enter")), "{calls}");
    let without = calls.lines().filter(|l| !l.contains("call."));
    let numbers: Vec<u64> = without.filter_map(number).collect();
    assert_eq!(numbers, (50..=60).collect::<Vec<_>>());
}

/// An entry with two samples: one cookie, one walk, one record, and a clean exit; then the
/// next entry with the next cookie.
const WORKED: [(&str, &str); 26] = [
    ("entry.N1", "user registers saved"),
    ("│ ┌ irq.deliver", "asm_exc_nmi interrupts"),
    ("│ │ unwind.cookie.G1", "no cookie yet"),
    ("│ │ unwind.cookie.G4", "[count of the CPU 3]"),
    ("│ │ unwind.cookie.G5", "[id 0x300000001]"),
    ("│ │ unwind.request.Q9", "[mask PENDING|perf]"),
    ("│ │ unwind.request.Q11", "[task work: 1 item, NOTIFY_RESUME set, irq_work raised]"),
    ("│ │ unwind.answer", "answered 0, it will be called; cookie 0x300000001"),
    ("│ │ pmu.sample", "user: cookie 0x300000001"),
    ("│ ┌ irq.deliver", "asm_sysvec_irq_work interrupts"),
    ("│ │ irq_work.run", "nothing but this interrupt"),
    ("│ │ unwind.answer", "answered 1, it had asked already; cookie 0x300000001"),
    ("│ │ pmu.sample", "user: cookie 0x300000001"),
    ("│ exit.X2.vi", "[NOTIFY_RESUME cleared]"),
    ("│ task_work.run", "1 item taken"),
    ("│ unwind.process.P2", "[mask perf]"),
    ("│ unwind.capture.C6", "[cache: 1 address]"),
    ("│ unwind.capture.C7", "[mask USED|perf]"),
    ("│ perf.deferred.output", "writes the record: cookie 0x300000001, 1 address"),
    ("│ unwind.process.P8.completed", "[served perf]"),
    ("│ unwind.reset.R3", "[mask 0]"),
    ("│ unwind.reset.R4", "[id 0]"),
    ("│ unwind.reset.R5", "[cache empty]"),
    ("│ unwind.reset.R6", "[served nobody]"),
    ("└ exit.leave", "back to user mode"),
    ("unwind.answer", "answered 0, it will be called; cookie 0x500000001"),
];

#[test]
fn a_deferred_sample_from_the_request_to_the_reset() {
    let dir = scratch("timeline-deferred");
    let words = ["--timeline", "--call-graph", "fp,defer", "-c", "130", "hello"];
    let story = timeline(&dir, &words);
    let mut lines = story.lines();
    for (step, what) in WORKED {
        let found = lines.any(|l| l.contains(&format!("{step} ")) && l.contains(what));
        assert!(found, "{step}: {what}, after the ones before it in\n{story}");
    }
    let first: Vec<&str> = story.lines().take_while(|l| !l.contains("exit.leave")).collect();
    let count = |word: &str| first.iter().filter(|l| l.contains(word)).count();
    assert_eq!([count("unwind.capture.C5"), count("perf.deferred.output")], [1, 1]);
}

/// How the first step of the reset is told in each design, with samples and with none.
#[test]
fn each_design_resets_in_its_own_words() {
    for (design, period, told) in [
        ("timestamp", "700", "the timestamp is stored as 0, as always  [id 0, cache empty]"),
        ("timestamp", "100000", "the timestamp is stored as 0, as always (it was 0)"),
        ("cookie", "700", "unwind state reset: the id is cleared  [id 0, cache empty]"),
        ("cookie", "100000", "unwind state reset: nothing to do"),
        ("per-work", "700", "unwind state reset: the id is cleared  [id 0, cache empty]"),
        ("mask", "700", "unwind state reset: R1, the mask is not 0"),
        ("mask", "100000", "unwind state reset: R1, the mask is 0: nothing to do"),
    ] {
        let dir = scratch(&format!("timeline-reset-{design}"));
        let words = ["--timeline", "--deferred", design, "--pmu-irq", "irq"];
        let sampling = ["--call-graph", "fp,defer", "-c", period, "hello"];
        let story = timeline(&dir, &[&words[..], &sampling].concat());
        let resets = story.lines().filter(|l| l.contains(" exit.X5 "));
        assert!(resets.clone().any(|l| l.contains(told)), "{design}: {told}\n{story}");
        let rule = |l: &str| l.contains("R1");
        assert!(resets.clone().all(|l| rule(l) == (design == "mask")), "{design}\n{story}");
        // No interrupt is an NMI here.
        assert!(!story.contains("nmi."), "{story}");
    }
}

/// Every event of a trace, by track and in order.
fn trace(dir: &Path, words: &[&str]) -> Vec<Value> {
    let text = timeline(dir, &[&["--timeline-format", "chrome"], words].concat());
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["displayTimeUnit"], "ns");
    value["traceEvents"].as_array().unwrap().clone()
}

/// Nanoseconds.
fn time(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1000.0).round() as u64
}

/// Time never goes back on a track, slices are inside each other, and flows begin before
/// they end. Returns how many of each phase there are.
fn check_trace(events: &[Value]) -> BTreeMap<String, usize> {
    let mut phases = BTreeMap::new();
    // Time of the last event, end of the last step, slices that are open.
    let mut tracks: BTreeMap<u64, (u64, u64, Vec<u64>)> = BTreeMap::new();
    let mut flows: BTreeMap<String, bool> = BTreeMap::new();
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        *phases.entry(phase.to_owned()).or_default() += 1;
        if phase == "M" {
            continue;
        }
        let (last, busy, open) = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        let now = time(&event["ts"]);
        assert!(*last <= now, "{last} {event}");
        *last = now;
        assert!(matches!(phase, "t" | "f") || *busy <= now, "inside a step: {event}");
        match phase {
            "B" => open.push(now),
            "E" => assert!(open.pop().is_some_and(|began| began <= now), "{event}"),
            "X" => *busy = now + time(&event["dur"]),
            "i" => assert_eq!(event["s"], "t"),
            "s" => drop(flows.insert(event["id"].as_str().unwrap().to_owned(), true)),
            "t" | "f" => {
                assert!(!open.is_empty(), "{event}");
                let flow = flows.get_mut(event["id"].as_str().unwrap()).unwrap();
                assert!(*flow, "a flow goes on after its end: {event}");
                *flow = phase == "t";
            }
            _ => panic!("{event}"),
        }
    }
    assert!(tracks.values().all(|(.., open)| open.is_empty()));
    phases
}

#[test]
fn traces_are_well_formed() {
    let dir = scratch("timeline-trace");
    let words = ["--call-graph", "fp,defer", "-c", "700", "signals"];
    let phases = check_trace(&trace(&dir, &[&["--timeline"], &words[..]].concat()));
    assert_eq!(phases["B"], phases["E"]);
    assert!(phases["s"] > 10 && phases["f"] > 10 && phases["i"] >= phases["s"], "{phases:?}");
    let phases = check_trace(&trace(&dir, &[&["--timeline=103..777"], &words[..]].concat()));
    assert_eq!(phases["X"] + phases["i"], 675);
    check_trace(&trace(&dir, &[&["--timeline=1000000000.."], &words[..]].concat()));
    let words = ["--timeline", "--arch", "aarch64", "-c", "700", "signals"];
    check_trace(&trace(&dir, &words));
}

/// The story has a place of its own, or says that it needs one.
#[test]
fn where_it_goes() {
    let dir = scratch("timeline-output");
    let file = dir.join("story");
    let story = file.display().to_string();
    let whole = run(&dir, &[&["--timeline"], &DEFERRED[..]].concat());
    assert!(
        whole.stderr.contains("hello from assembly"),
        "the guest's output gives way: {}",
        whole.stderr
    );
    let words = [&["--timeline", "--timeline-output", &story], &DEFERRED[..]].concat();
    let aside = run(&dir, &words);
    assert!(aside.stdout.contains("hello from assembly"), "{}", aside.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole.stdout);
    let taken = finish(&mut emu(&["run", "-o", "-", "--timeline", "hello"]));
    assert_eq!((taken.status, &*taken.stdout), (125, ""));
    assert!(taken.stderr.contains("--timeline-output"), "{}", taken.stderr);
    for wrong in ["--timeline=5..3", "--timeline=x", "--timeline-all", "--timeline=1..2..3"] {
        let finished = run(&dir, &[wrong, "hello"]);
        assert_eq!(finished.status, 125, "{wrong}");
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    let missing = dir.join("no/such/folder").display().to_string();
    let finished = run(&dir, &["--timeline", "--timeline-output", &missing, "hello"]);
    assert_eq!(finished.status, 125);
    assert!(finished.stderr.contains(&missing), "{}", finished.stderr);
}

/// The rules of the specification, and the step that each is in.
fn rules() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("tests/data/rules.txt")).unwrap();
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let row = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(words.next(), None, "{line}");
            row
        })
        .collect()
}

/// Whether a step's last word is a rule's number: `R4`, or `7`.
fn is_numbered(point: &str) -> bool {
    let last = point.rsplit('.').next().unwrap();
    let digits = last.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(last);
    digits.parse::<u32>().is_ok()
}

#[test]
fn every_rule_has_its_step() {
    let rules = rules();
    let counts = [("N", 0..=7), ("X", 1..=6), ("Q", 1..=12), ("G", 1..=6), ("C", 1..=7)];
    let more =
        [("P", 1..=9), ("R", 1..=6), ("K", 1..=9), ("a.request.", 1..=8), ("a.work.", 1..=8)];
    let last =
        [("b.request.", 1..=8), ("b.work.", 1..=8), ("w.request.", 1..=4), ("w.work.", 1..=3)];
    let wanted: Vec<String> = counts
        .into_iter()
        .chain(more)
        .chain(last)
        .flat_map(|(path, numbers)| numbers.map(move |n| format!("{path}{n}")))
        .collect();
    let named: BTreeSet<&str> = rules.iter().map(|r| &*r.0).collect();
    assert_eq!(named, wanted.iter().map(String::as_str).collect());
    assert_eq!(named.len(), rules.len(), "a rule is there twice");

    let points: BTreeSet<&str> = Point::ALL.iter().map(|p| p.name()).collect();
    let stepped: BTreeSet<&str> = rules.iter().map(|r| &*r.1).filter(|p| *p != "-").collect();
    assert_eq!(stepped.difference(&points).next(), None, "a step of the list is gone");
    for point in points.into_iter().filter(|p| is_numbered(p)) {
        let elsewhere = point.starts_with("unwind.flush.") || point.starts_with("unwind.init.");
        assert!(stepped.contains(point) || elsewhere, "{point}: no such rule");
    }
    // A rule with a step of its own is in the step that is called after it.
    for (rule, point) in &rules {
        let own = Point::ALL.iter().map(|p| p.name()).find(|p| p.ends_with(&format!(".{rule}")));
        assert!(own.is_none_or(|own| own == point), "{rule} is in {point}");
    }
}

#[test]
fn points_are_listed_with_rule_and_cost() {
    let all = finish(&mut emu(&["points"]));
    assert_eq!(all.status, 0);
    assert_eq!(all.stdout.lines().count(), 1 + Point::ALL.len());
    for point in Point::ALL {
        let line = all.stdout.lines().find(|l| l.starts_with(&format!("{} ", point.name())));
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1], point.cost().to_string());
        assert!(line.ends_with(point.rule()), "{line}");
    }
    let reset = finish(&mut emu(&["points", "UNWIND.reset"])).stdout;
    assert_eq!(reset.lines().count(), 6, "{reset}");
    let none = finish(&mut emu(&["points", "nonsense"]));
    assert_eq!((none.status, none.stderr.lines().count()), (125, 1), "{}", none.stderr);
}

/// Each CPU has a column in which its steps stand, and what it is in the middle of goes on
/// beside the steps of the others.
#[test]
fn cpus_have_columns() {
    let dir = scratch("timeline-cpus");
    let text = timeline(&dir, &["--cpus", "2", "--timeline", "tasks"]);
    let mut lines = text.lines();
    let head: Vec<char> = lines.next().unwrap().chars().collect();
    let column = |name: &str| {
        let name: Vec<char> = name.chars().collect();
        head.windows(name.len()).position(|w| w == name).unwrap()
    };
    let columns = [column("cpu 0"), column("cpu 1"), column("what happens")];
    let mut alone = [0; 2];
    let mut beside = 0;
    for line in lines.filter(|l| number(l).is_some()) {
        let line: Vec<char> = line.chars().collect();
        let cell = |c: usize| -> String {
            line[columns[c].min(line.len())..columns[c + 1].min(line.len())].iter().collect()
        };
        let named = |c: usize| cell(c).contains(|c: char| c.is_ascii_alphabetic());
        // A step stands in one column.
        assert!(named(0) != named(1), "{}", line.iter().collect::<String>());
        let cpu = usize::from(named(1));
        alone[cpu] += 1;
        beside += usize::from(cell(1 - cpu).contains('│'));
    }
    assert!(alone[0] > 1000 && alone[1] > 1000 && beside > 100, "{alone:?} {beside}");
    // Of many CPUs all steps stand in one column, with the number of the CPU.
    let many = timeline(&dir, &["--cpus", "5", "--timeline=1..9", "tasks"]);
    assert!(many.contains("cpu   task  step"), "{many}");
}
