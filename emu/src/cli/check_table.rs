//! A check as a table.

use std::fmt::Write;

use crate::cli::output::{Style, one_line};
use crate::grade::check::overview::{Overview, has_table, kind, share, times, varied, wrong};
use crate::grade::check::report::{ByMethod, Caller, Fault, Function};
use crate::grade::check::{Baseline, Report};
use crate::grade::file::FrameKind;
use crate::numbers::grouped;

/// Functions that the table shows.
const FUNCTIONS: usize = 25;
/// Columns of the first column.
const NAME: usize = 30;
/// Columns of a line, and of the label at the start of those about a fault.
const WIDTH: usize = 139;
const LABEL: usize = 14;

/// Faults of each method that are shown in full, if nobody says how many.
pub const DETAILS: usize = 3;

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Table<'r> {
    /// The report.
    pub report: &'r Report,
    /// Its faults that are not in the baseline.
    pub new: &'r [&'r Fault],
    /// The baseline, if there is one.
    pub baseline: Option<&'r Baseline>,
    /// Faults of each method that are shown in full; 0: all.
    pub details: usize,
    /// With colours or without.
    pub style: Style,
}

impl Table<'_> {
    /// The text.
    pub fn render(&self) -> String {
        let overview = Overview::new(self.report);
        let mut out = String::new();
        self.head(&mut out);
        self.points(&mut out, &overview);
        self.functions(&mut out, &overview);
        self.details(&mut out);
        out
    }

    fn head(&self, out: &mut String) {
        let Report { header, summary, functions, .. } = self.report;
        let how = match header.every {
            true => "every execution",
            false => "first 8 executions, then powers of two",
        };
        let _ = writeln!(
            out,
            "{} on {}: {}, {}, {} ({how})",
            self.style.bold(&one_line(&header.guest)),
            header.arch,
            counted(summary.pcs, "instruction"),
            counted(functions.len() as u64, "function"),
            counted(summary.checks, "check"),
        );
        if summary.undecided > 0 {
            let _ = writeln!(
                out,
                "{} not counted below: executed only between two stacks, or too deep, where no caller is known",
                counted(summary.undecided, "instruction")
            );
        }
    }

    fn titles(&self, out: &mut String, first: &str) {
        let methods = &self.report.header.methods;
        let mut line = " ".repeat(NAME + 9);
        for (n, method) in methods.iter().enumerate() {
            let centred = format!("{:^23}", one_line(method));
            let text = if n + 1 == methods.len() { centred.trim_end() } else { &*centred };
            let _ = write!(line, "  {}", self.style.bold(text));
        }
        let _ =
            write!(out, "\n{line}\n{}", self.style.dim(&format!("{first:NAME$}{:>9}", "instr.")));
        for _ in methods {
            let words = format!("{:>9}{:>7}{:>7}", "right", "wrong", "no row");
            let _ = write!(out, "  {}", self.style.dim(&words));
        }
        out.push('\n');
    }

    fn row(&self, out: &mut String, name: &str, counts: &ByMethod) {
        let total = counts.first().map_or(0, |c| c.total());
        let _ = write!(out, "{}{:>9}", fit(name, NAME), grouped(total));
        for c in counts {
            let wrong = format!("{:>7}", number(c.wrong));
            let wrong = if c.wrong > 0 { self.style.red(&wrong) } else { wrong };
            let _ = write!(out, "  {:>9}{wrong}{:>7}", share(*c), number(c.no_coverage));
        }
        out.push('\n');
    }

    fn points(&self, out: &mut String, overview: &Overview<'_>) {
        self.titles(out, "program point");
        for (point, counts) in &self.report.summary.points {
            self.row(out, point.name(), counts);
        }
        self.row(out, "all", &overview.total);
    }

    fn functions(&self, out: &mut String, overview: &Overview<'_>) {
        // A single one is what "all" says.
        if overview.modules.len() > 1 {
            self.titles(out, "module");
            overview.modules.iter().for_each(|(name, counts)| self.row(out, name, counts));
        }
        let wrong = |(_, sum): &&(&Function, ByMethod)| sum.iter().any(|c| c.wrong > 0);
        let functions: Vec<_> = overview.functions.iter().filter(wrong).collect();
        if functions.is_empty() {
            return;
        }
        self.titles(out, "function with wrong steps");
        for (function, sum) in functions.iter().take(FUNCTIONS) {
            self.row(out, &function_name(function), sum);
        }
        if let Some(more) = functions.len().checked_sub(FUNCTIONS).filter(|n| *n > 0) {
            let more = counted(more as u64, "more function");
            let _ = writeln!(
                out,
                "{}",
                self.style.dim(&format!("and {more}; --format html or json has all"))
            );
        }
    }

    fn details(&self, out: &mut String) {
        for method in &self.report.header.methods {
            let faults = self.new.iter().copied().filter(|f| f.method == *method);
            let faults: Vec<&Fault> = faults.collect();
            if faults.is_empty() {
                continue;
            }
            let most = if self.details == 0 { usize::MAX } else { self.details };
            let title = format!("{method}: {}", wrong(&faults, self.baseline.is_some(), grouped));
            let _ = writeln!(out, "\n{}", self.style.bold(&title));
            let total = faults.len();
            let shown = if total > most { varied(faults) } else { faults };
            shown.into_iter().take(most).for_each(|fault| self.fault(out, fault));
            if let Some(more) = total.checked_sub(most).filter(|n| *n > 0) {
                let more = format!("and {} more; --details 0 shows all", grouped(more as u64));
                let _ = writeln!(out, "\n  {}", self.style.dim(&more));
            }
        }
    }

    fn fault(&self, out: &mut String, fault: &Fault) {
        let place = match &fault.function {
            Some(name) => format!("{}+{}", self.style.cyan(&one_line(name)), fault.offset),
            None => format!("{} (no name)", fault.pc),
        };
        let _ = writeln!(
            out,
            "\n  {place} in {}, {}: {} in {} of {}",
            one_line(&fault.module),
            fault.point.name(),
            self.style.red(&kind(fault)),
            times(fault),
            counted(fault.executions, "execution"),
        );
        for (address, text) in &fault.listing {
            let line = format!("{:>12}  {}", address.to_string(), one_line(text));
            let _ = match *address == fault.pc {
                true => writeln!(out, "  > {}", self.style.bold(&line)),
                false => writeln!(out, "    {line}"),
            };
        }
        if has_table(fault) {
            let row = fault.row.as_deref().map_or("none".into(), one_line);
            self.items(out, "row", row.split(' ').map(plain));
        }
        let registers = fault.registers.iter().map(|(name, v)| plain(&format!("{name}={v}")));
        self.items(out, "registers", registers);
        let (expected, found) = (fault.expected.as_ref(), fault.found.as_ref());
        let outermost = "no caller: this is the outermost frame";
        let expects = expected.map_or_else(|| vec![plain(outermost)], |c| caller(c, found));
        self.items(out, "expected", expects.into_iter().map(|(text, _)| (text, false)));
        let reason =
            fault.reason.as_deref().map_or(String::new(), |r| format!(": {}", one_line(r)));
        let none = || vec![plain(&format!("no caller{reason}"))];
        self.items(out, "found", found.map_or_else(none, |c| caller(c, expected)));
    }

    /// A line with a label, or several if its items need them. Those that are marked are red.
    fn items(&self, out: &mut String, label: &str, items: impl IntoIterator<Item = Item>) {
        let _ = write!(out, "    {label:<10}");
        let mut column = LABEL;
        for (text, marked) in items {
            let length = 1 + text.chars().count();
            if column + length > WIDTH && column > LABEL {
                let _ = write!(out, "\n{:LABEL$}", "");
                column = LABEL;
            }
            column += length;
            let text = if marked { self.style.red(&text) } else { text };
            let _ = write!(out, " {text}");
        }
        out.push('\n');
    }
}

/// A piece of a line, and whether it is marked.
type Item = (String, bool);

fn plain(text: &str) -> Item {
    (text.to_owned(), false)
}

/// Whether both tell the kind of their address, and not the same.
fn kinds_differ(a: &Caller, b: &Caller) -> bool {
    matches!((a.address_kind, b.address_kind), (Some(a), Some(b)) if a != b)
}

/// A caller: stack pointer, return address and, of its registers, those that differ from
/// another one's. What differs is marked.
fn caller(caller: &Caller, other: Option<&Caller>) -> Vec<Item> {
    let mut items = Vec::new();
    if let Some(cfa) = caller.cfa {
        let differs = other.is_some_and(|o| o.cfa.is_some_and(|o| o != cfa));
        items.push((format!("cfa={cfa}"), differs));
    }
    let ra = caller.return_address;
    let place = if caller.place.is_empty() { "in no file".into() } else { one_line(&caller.place) };
    let differs = other.is_some_and(|o| o.return_address != ra || kinds_differ(caller, o));
    let kind = match caller.address_kind {
        Some(FrameKind::Interrupted) => ", interrupted",
        // Where it matters only.
        Some(_) if other.is_some_and(|o| kinds_differ(caller, o)) => ", a return address",
        _ => "",
    };
    items.push((format!("ra={ra} ({place}{kind})"), differs));
    for (name, v) in &caller.registers {
        if other.is_some_and(|o| o.registers.get(name).is_some_and(|o| o != v)) {
            items.push((format!("{name}={v}"), true));
        }
    }
    items
}

fn function_name(function: &Function) -> String {
    match &function.function {
        Some(name) => one_line(name).into_owned(),
        None => format!("{} {}", function.module, function.start),
    }
}

fn number(n: u64) -> String {
    if n == 0 { "·".to_owned() } else { grouped(n) }
}

/// `1 check`, `2 checks`.
fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `text` in so many columns, cut if it is longer.
fn fit(text: &str, width: usize) -> String {
    let mut cut: String = text.chars().take(width - 1).collect();
    if text.chars().count() >= width {
        cut.pop();
        cut.push('…');
    }
    format!("{cut:width$}")
}
