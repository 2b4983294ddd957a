//! `emu scenario`: what people see.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;

use tests::program::{Finished, emu, finish};
use tests::scratch;

fn said(words: &[&str]) -> Finished {
    finish(&mut emu(words))
}

#[test]
fn the_list_names_what_can_be_shown_and_run() {
    let list = said(&["scenario", "list"]);
    let names: Vec<&str> =
        list.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        let shown = said(&["scenario", "show", name]);
        assert!(shown.stdout.starts_with("title = "), "{}", shown.stdout);
        let run = said(&["scenario", "run", "-q", name]);
        assert_eq!(run.status, 0, "{name}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("\nas expected\n"), "{name}: {}", run.stdout);
    }
}

#[test]
fn a_run_tells_its_steps_and_is_the_same_twice() {
    let [a, b] = [(); 2].map(|()| said(&["scenario", "run", "nmi-in-reset"]));
    assert_eq!(a.stdout, b.stdout);
    let lines: Vec<&str> = a.stdout.lines().collect();
    let at = |what: &str| lines.iter().position(|line| line.contains(what)).unwrap();
    assert!(at("unwind.reset.R3") < at("irq.deliver"));
    assert!(at("irq.deliver") < at("unwind.reset.R4"));
}

#[test]
fn what_is_not_expected_has_a_status_of_its_own() {
    let dir = scratch("scenario");
    fs::create_dir_all(&dir).unwrap();
    let shown = said(&["scenario", "show", "nmi-in-reset"]).stdout;
    let file = dir.join("mine.toml");
    fs::write(&file, shown.replace("X = 1 }", "X = 2 }")).unwrap();
    let run = said(&["scenario", "run", "-q", file.to_str().unwrap()]);
    assert_eq!(run.status, 1);
    assert!(run.stdout.contains("NOT AS EXPECTED: 2 callbacks to X are expected, 1 came"));
    fs::write(&file, "title = 1").unwrap();
    let run = said(&["scenario", "run", file.to_str().unwrap()]);
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("mine.toml: line 1, column 9: "), "{}", run.stderr);
    let run = said(&["scenario", "run", "nmi-in-rest"]);
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("did you mean nmi-in-reset?"), "{}", run.stderr);
}

#[test]
fn a_search_says_what_it_has_covered() {
    let whole = said(&["scenario", "explore", "cancel-in-request"]);
    assert_eq!(whole.status, 0);
    assert!(whole.stdout.starts_with("mask: all orders with at most 1"), "{}", whole.stdout);
    let found = "\n  LAW-10 by H17    CPU 1 goes on before unwind.request.Q11 of A\n";
    assert!(whole.stdout.contains(found), "{}", whole.stdout);
    let cut = said(&["scenario", "compare", "--states", "100"]);
    assert_eq!(cut.status, 124);
    assert!(cut.stdout.contains("mask: NOT ALL orders with at most 1"), "{}", cut.stdout);
}

#[test]
fn what_a_search_saves_is_a_scenario_that_does_as_expected() {
    let dir = scratch("scenario-saved");
    let path = dir.to_str().unwrap();
    let search = said(&["scenario", "explore", "cancel-in-request", "--save", path]);
    assert_eq!(search.status, 0, "{}", search.stderr);
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let found = search.stdout.lines().filter(|line| line.starts_with("  ")).count();
    assert!(files.len() == found && found >= 10, "{files:?} {}", search.stdout);
    for file in files {
        let run = said(&["scenario", "run", "-q", file.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{}: {}{}", file.display(), run.stdout, run.stderr);
    }
}
