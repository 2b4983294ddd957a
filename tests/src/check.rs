//! `emu check`, run as a program, and its report in JSON.

use arch::Arch;
use serde_json::Value;

use crate::program::{Finished, emu, finish};

/// Checks a guest.
pub fn check(arch: Arch, words: &[&str]) -> Finished {
    finish(emu(&["check", "--arch", arch.name()]).args(words))
}

/// A report in JSON, as objects.
#[derive(Debug)]
pub struct Report(pub Vec<Value>);

impl Report {
    /// Of a check that found something or nothing.
    pub fn of(arch: Arch, words: &[&str]) -> Report {
        let finished = check(arch, &[&["--format", "json"], words].concat());
        assert!(matches!(finished.status, 0 | 1), "{words:?}: {finished:?}");
        let report = Report::parse(&finished.stdout);
        assert_eq!(finished.status == 1, report.kind("fault").next().is_some(), "{words:?}");
        report
    }

    /// Of its lines.
    pub fn parse(text: &str) -> Report {
        let lines = text.lines().map(|line| serde_json::from_str(line).expect(line));
        Report(lines.collect())
    }

    /// Its lines of this kind.
    pub fn kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |line| line["kind"] == kind)
    }

    /// Its first line.
    pub fn header(&self) -> &Value {
        &self.0[0]
    }

    /// Its last line.
    pub fn summary(&self) -> &Value {
        self.0.last().unwrap()
    }

    /// The faults of a method.
    pub fn faults_of<'r>(&'r self, method: &'r str) -> impl Iterator<Item = &'r Value> {
        self.kind("fault").filter(move |fault| fault["method"] == method)
    }

    /// The names of its methods.
    pub fn methods(&self) -> Vec<&str> {
        strings(&self.header()["methods"])
    }
}

/// A list of texts.
pub fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

/// A count.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// One line with these words, and nothing is run.
pub fn refused(words: &[&str], all: &[&str]) {
    let finished = check(Arch::X86_64, words);
    assert_eq!((finished.status, &*finished.stdout), (125, ""), "{words:?}: {finished:?}");
    let line = &finished.stderr;
    assert!(line.starts_with("emu: ") && line.lines().count() == 1, "{line:?}");
    all.iter().for_each(|part| assert!(line.contains(part), "{part:?} is not in {line:?}"));
}
