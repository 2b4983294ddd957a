//! How well each way to unwind did: in a line, and by program point.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cli::output::{Style, one_line};
use crate::grade::files::MAX_FILES;
use crate::grade::methods::NotLoaded;
use crate::grade::{ByPoint, MethodTally, Verdict};
use crate::numbers::grouped;

/// `412 samples: fp 93.0 % (29 missing frame), dwarf 100 %, sframe 0 % (412 no coverage)`:
/// the share of exact stacks, then what the others were. `undecided` more samples were taken
/// while the stack pointer was between two stacks, where no stack is true, or in a recursion
/// of which not all frames are kept; `unsaved` more before the kernel had saved the registers.
pub fn line(tallies: &[MethodTally], undecided: u64, unsaved: u64) -> String {
    let samples = tallies.first().map_or(0, MethodTally::samples);
    let methods: Vec<String> = tallies.iter().map(method).collect();
    let s = if samples == 1 { "" } else { "s" };
    let mut more = match undecided {
        0 => String::new(),
        n => format!(", {} more undecided", grouped(n)),
    };
    if unsaved > 0 {
        let _ = write!(more, ", {} before the kernel had saved the registers", grouped(unsaved));
    }
    match samples {
        0 => format!("0 samples: no stack to compare with the true one{more}"),
        n => {
            let (n, methods) = (grouped(n), methods.join(", "));
            format!("{n} sample{s} against the true stack{more}: {methods}")
        }
    }
}

/// What is said of files whose tables the methods do not have: those that could not be loaded,
/// and `refused` mappings that came when there were too many.
pub fn unknown_files(not_loaded: &[NotLoaded], refused: u64) -> Vec<String> {
    // A file may be mapped at many places.
    let lines: BTreeSet<String> = not_loaded
        .iter()
        .map(|NotLoaded { method, file, why }| {
            format!("{method}: {}: cannot be loaded: {}", one_line(file), one_line(why))
        })
        .collect();
    lines.into_iter().chain(refused_mappings(refused)).collect()
}

fn refused_mappings(count: u64) -> Option<String> {
    let s = if count == 1 { "" } else { "s" };
    (count > 0).then(|| {
        format!(
            "{} mapping{s} of code behind the first {MAX_FILES} files: their names, their unwind \
             tables and the starts of their functions are not known",
            grouped(count)
        )
    })
}

fn method(tally: &MethodTally) -> String {
    let wrong: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|v| *v != Verdict::Exact)
        .map(|v| (tally.count(v), v))
        .filter(|(n, _)| *n > 0)
        .map(|(n, v)| format!("{} {}", grouped(n), v.name()))
        .collect();
    let share = share(tally.count(Verdict::Exact), tally.samples());
    match wrong.is_empty() {
        true => format!("{} {share}", tally.name),
        false => format!("{} {share} ({})", tally.name, wrong.join(", ")),
    }
}

/// Exact stacks of all stacks, for each program point and method; nothing if all are exact.
///
/// ```text
///   program point      fp  dwarf  sframe
///   entry             0/3    3/3     0/3
///   body            25/25  25/25    0/25
/// ```
pub fn table(counts: &ByPoint, methods: &[String], style: Style) -> String {
    let whole = |exact: &u64, samples: u64| *exact == samples;
    if counts.rows().all(|(_, row)| row.exact.iter().all(|e| whole(e, row.samples))) {
        return String::new();
    }
    let cell = |exact: u64, samples: u64| format!("{exact}/{samples}");
    let first = counts.rows().map(|(point, _)| point.name().len()).chain([HEAD.len()]).max();
    let first = first.unwrap_or_default();
    let width = |n: usize, name: &str| {
        let cells = counts.rows().map(|(_, row)| cell(row.exact[n], row.samples).len());
        cells.chain([name.len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = methods.iter().enumerate().map(|(n, name)| width(n, name)).collect();
    let mut head = format!("  {HEAD:<first$}");
    for (name, width) in methods.iter().zip(&widths) {
        let _ = write!(head, "  {name:>width$}");
    }
    let mut text = format!("{}\n", style.bold(&head));
    for (point, row) in counts.rows() {
        let _ = write!(text, "  {:<first$}", point.name());
        for (exact, width) in row.exact.iter().zip(&widths) {
            let cell = format!("{:>width$}", cell(*exact, row.samples));
            let cell = if whole(exact, row.samples) { cell } else { style.red(&cell) };
            let _ = write!(text, "  {cell}");
        }
        text.push('\n');
    }
    text
}

/// Head of the table's first column.
const HEAD: &str = "program point";

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
    use crate::grade::ProgramPoint;
    use std::collections::BTreeMap;

    fn tally(name: &str, verdicts: &[(Verdict, u64)]) -> MethodTally {
        MethodTally {
            name: name.to_owned(),
            verdicts: BTreeMap::from_iter(verdicts.iter().copied()),
        }
    }

    #[test]
    fn files_without_tables_are_named() {
        let not_loaded = |method: &str| NotLoaded {
            method: method.to_owned(),
            file: "/bin/a\n".to_owned(),
            why: "it is no program".to_owned(),
        };
        let lines = unknown_files(&[not_loaded("a"), not_loaded("b"), not_loaded("a")], 1);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("a: /bin/a") && lines[0].ends_with("it is no program"));
        assert!(lines[2].starts_with("1 mapping of code behind the first 256 files: "));
        assert!(lines.iter().all(|line| !line.contains('\n')));
        assert!(unknown_files(&[], 0).is_empty());
    }

    #[test]
    fn a_table() {
        let methods = ["fp".to_owned(), "dwarf".to_owned()];
        let mut counts = ByPoint::default();
        counts.count(ProgramPoint::Body, &[Verdict::Exact; 2]);
        assert_eq!(table(&counts, &methods, Style::PLAIN), "");
        counts.count(ProgramPoint::Entry, &[Verdict::MissingFrame, Verdict::Exact]);
        let expected = [
            "  program point   fp  dwarf\n",
            "  entry          0/1    1/1\n",
            "  body           1/1    1/1\n",
        ];
        let expected = expected.concat();
        assert_eq!(table(&counts, &methods, Style::PLAIN), expected);
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
        assert_eq!(line(&tallies, 0, 0), expected);
        assert!(
            line(&tallies, 1000, 0).starts_with("412 samples against the true stack, 1,000 more")
        );
        assert_eq!(line(&[], 0, 0), "0 samples: no stack to compare with the true one");
        assert!(line(&tallies, 0, 1).contains("true stack, 1 before the kernel had saved the reg"));
        assert!(line(&[], 3, 0).ends_with("the true one, 3 more undecided"));
        assert_eq!((share(1, 100_000), share(99_999, 100_000)), ("0.1 %".into(), "99.9 %".into()));
    }
}
