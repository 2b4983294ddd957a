//! How well each way to unwind did, in a line.

use crate::grade::{MethodTally, Verdict};

/// `412 samples: fp 93.0 % (29 missing frame), dwarf 100 %, sframe 0 % (412 no coverage)`:
/// the share of exact stacks, then what the others were.
pub fn line(tallies: &[MethodTally]) -> String {
    let samples = tallies.first().map_or(0, MethodTally::samples);
    let methods: Vec<String> = tallies.iter().map(method).collect();
    let s = if samples == 1 { "" } else { "s" };
    match samples {
        0 => "0 samples: no stack to compare with the true one".to_owned(),
        n => format!("{n} sample{s} against the true stack: {}", methods.join(", ")),
    }
}

fn method(tally: &MethodTally) -> String {
    let wrong: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|v| *v != Verdict::Exact)
        .map(|v| (tally.count(v), v))
        .filter(|(n, _)| *n > 0)
        .map(|(n, v)| format!("{n} {}", v.name()))
        .collect();
    let share = share(tally.count(Verdict::Exact), tally.samples());
    match wrong.is_empty() {
        true => format!("{} {share}", tally.name),
        false => format!("{} {share} ({})", tally.name, wrong.join(", ")),
    }
}

/// A percentage with one digit, which says 100 and 0 only where it is all or none.
fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) => "0 %".to_owned(),
        (a, b) if a == b => "100 %".to_owned(),
        (a, b) => format!("{:.1} %", (a as f64 / b as f64 * 100.0).clamp(0.1, 99.9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn tally(name: &str, verdicts: &[(Verdict, u64)]) -> MethodTally {
        MethodTally {
            name: name.to_owned(),
            verdicts: BTreeMap::from_iter(verdicts.iter().copied()),
        }
    }

    #[test]
    fn a_line() {
        let tallies = [
            tally("fp", &[(Verdict::Exact, 383), (Verdict::MissingFrame, 29)]),
            tally("dwarf", &[(Verdict::Exact, 412)]),
            tally("sframe", &[(Verdict::NoCoverage, 412)]),
        ];
        let expected = "412 samples against the true stack: fp 93.0 % (29 missing frame), \
            dwarf 100 %, sframe 0 % (412 no coverage)";
        assert_eq!(line(&tallies), expected);
        assert!(line(&[]).starts_with("0 samples"));
        assert_eq!((share(1, 100_000), share(99_999, 100_000)), ("0.1 %".into(), "99.9 %".into()));
    }
}
