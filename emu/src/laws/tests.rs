//! Each monitor on crafted moments: it is silent where its law is kept, speaks where it is
//! broken, and finds the hazard that explains it.

use std::collections::BTreeSet;
use std::path::Path;

use self::script::{Verdict, verdicts};
use crate::laws::hazard::Hazard;
use crate::laws::law::Level;

mod of_designs;
mod of_hazards;
mod of_kernel;
mod of_perf;
mod of_records;
mod script;

/// What the scripts of all files found: law by law.
fn all_verdicts() -> BTreeSet<(u8, Verdict)> {
    let files = [
        of_kernel::SCRIPTS,
        of_designs::SCRIPTS,
        of_records::SCRIPTS,
        of_perf::SCRIPTS,
        of_hazards::SCRIPTS,
    ];
    verdicts(&files.concat())
}

/// Laws and the hazards that explain breaks of them.
fn explained() -> BTreeSet<(u8, Hazard)> {
    let pairs = all_verdicts().into_iter().filter_map(|(law, verdict)| match verdict {
        Verdict::Explained(hazard) => Some((law, hazard)),
        _ => None,
    });
    pairs.collect()
}

/// Every law that is watched has a number of its own.
#[test]
fn laws_are_in_order() {
    let numbers: Vec<u8> = super::all().map(|law| law.number).collect();
    let missing = |n: &u8| !(29..34).contains(n) && !(38..44).contains(n);
    assert_eq!(numbers, (1..=47).filter(missing).collect::<Vec<_>>());
}

/// A monitor that never speaks, or that has no script, is found here.
#[test]
fn every_law_is_kept_and_broken_by_a_script() {
    let seen = all_verdicts();
    for law in super::all() {
        for verdict in [Verdict::Kept, Verdict::Broken] {
            let number = law.number;
            assert!(seen.contains(&(number, verdict)), "LAW-{number}: no script is {verdict:?}");
        }
    }
}

/// `X` is said of a law only where a hazard is known to break it.
#[test]
fn every_x_law_is_explained_by_a_hazard() {
    let explained = explained();
    for law in super::all() {
        let except = law.levels.iter().any(|(_, level)| *level == Level::Except);
        let number = law.number;
        let by = explained.iter().any(|(of, _)| *of == number);
        assert_eq!(except, by, "LAW-{number}: {:?}", law.levels);
    }
}

/// A row of the table: hazard, tests that provoke it, laws that it explains.
struct Row {
    name: String,
    tests: Vec<String>,
    laws: BTreeSet<u8>,
}

/// The rows of `docs/hazards.md`.
fn table() -> Vec<Row> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/hazards.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| hazard"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, _what, _designs, tests, laws, ""] = cells[..] else { panic!("{line}") };
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let laws = laws.split(", ").filter_map(|law| law.parse().ok()).collect();
        Row { name: name.to_owned(), tests, laws }
    })
    .collect()
}

/// The table has every hazard that the specification or the code names, each once, with the laws
/// that scripts find it to explain.
#[test]
fn the_table_has_every_hazard() {
    let (table, explained) = (table(), explained());
    let numbered = (1..=21).map(|n| format!("H{n}"));
    let named = Hazard::ALL.iter().map(|h| h.name().to_owned());
    for name in numbered.chain(named).collect::<BTreeSet<_>>() {
        let rows: Vec<&Row> = table.iter().filter(|row| row.name == name).collect();
        assert_eq!(rows.len(), 1, "rows of {name} in docs/hazards.md");
        let of = |(_, hazard): &&(u8, Hazard)| hazard.name() == name;
        let laws: BTreeSet<u8> = explained.iter().filter(of).map(|(law, _)| *law).collect();
        assert_eq!(rows[0].laws, laws, "{name}: what docs/hazards.md says, and what scripts find");
    }
}

/// The tests that the table names are there, and a hazard that explains a law has one.
#[test]
fn the_tables_tests_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../tests/tests", "src/laws/tests", "src/deferred"].map(|f| root.join(f));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|entry| entry.unwrap().path());
    let rust = paths.filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let sources: String = rust.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for row in table() {
        assert!(row.laws.is_empty() || !row.tests.is_empty(), "{} has no test", row.name);
        for test in &row.tests {
            let is_there = sources.contains(&format!("#[test]\nfn {test}()"));
            assert!(is_there, "{}: no test is called {test}", row.name);
        }
    }
}
