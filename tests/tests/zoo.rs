//! What the catalogue says of unwinding methods is so, at every instruction that its guests
//! execute.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arch::Arch;
use guests::{Expectation, Guest, METHODS};
use tests::catalogue;
use tests::harness::Harness;
use tests::verdicts::{Offsets, Verdict, steps, walks};

type Functions = BTreeMap<String, Offsets>;

/// The offsets at which `verdict` was given.
fn offsets(function: &Offsets, verdict: Verdict) -> Vec<u64> {
    function.iter().filter(|(_, found)| found.contains(&verdict)).map(|(at, _)| *at).collect()
}

/// What is not as expected.
fn differences(expected: &Expectation, found: &Functions) -> Vec<String> {
    let mut differences = Vec::new();
    for name in expected.places().filter_map(|p| p.function()) {
        if !found.contains_key(name) {
            differences.push(format!("{name} is not executed"));
        }
    }
    for (name, function) in found {
        let Some((wrong, uncovered)) = expected.of(name) else { continue };
        for (what, verdict, expected) in
            [("wrong", Verdict::Wrong, wrong), ("uncovered", Verdict::Uncovered, uncovered)]
        {
            let at = offsets(function, verdict);
            if !expected.fits(&at) {
                let expected = format!("expected {expected:x?}").to_lowercase();
                differences.push(format!("{name} is {what} at {at:x?}, {expected}"));
            }
        }
    }
    differences
}

/// What was found, in the catalogue's words.
fn in_words(found: &Functions) -> String {
    let mut words = String::new();
    for (key, verdict) in [("wrong", Verdict::Wrong), ("uncovered", Verdict::Uncovered)] {
        let mut places = Vec::new();
        for (name, function) in found {
            let at = offsets(function, verdict);
            if at.len() == function.len() {
                places.push(format!("\"{name}\""));
            } else {
                places.extend(at.iter().map(|at| format!("\"{name}+{at:#x}\"")));
            }
        }
        if !places.is_empty() {
            write!(words, " {key} = [{}]", places.join(", ")).unwrap();
        }
    }
    words
}

/// Returns how many guests there were expectations of.
fn all_as_expected(arch: Arch) -> usize {
    let catalogue = catalogue();
    let (mut failed, mut guests) = (Vec::new(), 0);
    for guest in catalogue.guests() {
        let program = std::fs::read(catalogue.path(guest, arch.name())).unwrap().into();
        let harness = Harness::new(arch, &guest.name);
        let expects = |of: fn(&Guest, &'static str, &str) -> bool| {
            METHODS.iter().any(|method| of(guest, arch.name(), method))
        };
        let mut found = Vec::new();
        if expects(|guest, arch, method| guest.check(arch, method).is_some()) {
            found.push(("check", steps(&harness, &program)));
        }
        if expects(|guest, arch, method| guest.walk(arch, method).is_some()) {
            found.push(("walk", walks(&harness, &program)));
        }
        for (kind, methods) in &found {
            for (method, found) in methods {
                let expected = match *kind {
                    "check" => guest.check(arch.name(), method),
                    _ => guest.walk(arch.name(), method),
                };
                let differences = expected.map_or(Vec::new(), |e| differences(e, found));
                if !differences.is_empty() {
                    let what = format!("{} on {arch}: {kind}.{method}", guest.name);
                    failed.push(format!("{what}: {}", differences.join("; ")));
                    failed.push(format!("  found:{}", in_words(found)));
                }
            }
        }
        guests += usize::from(!found.is_empty());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    guests
}

#[test]
fn the_zoo_on_x86_64() {
    assert!(all_as_expected(Arch::X86_64) > 30);
}

#[test]
fn the_zoo_on_aarch64() {
    assert!(all_as_expected(Arch::Aarch64) > 30);
}
