//! A check as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cli::output::{Style, one_line};
use crate::cli::summary::grouped;
use crate::grade::check::report::{ByMethod, Caller, Counts, Fault, Function, Registers};
use crate::grade::check::{Baseline, Report};

/// Functions that the table shows.
const FUNCTIONS: usize = 25;
/// Columns of the first column.
const NAME: usize = 30;

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
        let mut out = String::new();
        self.head(&mut out);
        self.points(&mut out);
        self.functions(&mut out);
        self.details(&mut out);
        out
    }

    fn head(&self, out: &mut String) {
        let Report { header, summary, functions, .. } = self.report;
        let _ = writeln!(
            out,
            "{} on {}: {} instructions of {} functions, {} checks{}",
            self.style.bold(&one_line(&header.guest)),
            header.arch,
            grouped(summary.pcs),
            grouped(functions.len() as u64),
            grouped(summary.checks),
            if header.every { " (every execution)" } else { "" },
        );
        if summary.undecided > 0 {
            let _ = writeln!(
                out,
                "{} more were executed between two stacks only, where nothing is true",
                grouped(summary.undecided)
            );
        }
    }

    fn titles(&self, out: &mut String, first: &str) {
        let _ = write!(out, "\n{:NAME$}{:>9}", "", "");
        for method in &self.report.header.methods {
            let _ = write!(out, "  {}", self.style.bold(&format!("{method:^23}")));
        }
        let _ = write!(out, "\n{}{:>9}", self.style.dim(&format!("{first:NAME$}")), "instr.");
        for _ in &self.report.header.methods {
            let words = format!("{:>9}{:>7}{:>7}", "right", "wrong", "no row");
            let _ = write!(out, "  {}", self.style.dim(&words));
        }
        out.push('\n');
    }

    fn row(&self, out: &mut String, name: &str, counts: &ByMethod) {
        let total = counts.first().map_or(0, |c| c.total());
        let _ = write!(out, "{}{:>9}", fit(name, NAME), grouped(total));
        for c in counts {
            let wrong = number(c.wrong);
            let wrong = format!("{wrong:>7}");
            let wrong = if c.wrong > 0 { self.style.red(&wrong) } else { wrong };
            let _ = write!(out, "  {:>9}{wrong}{:>7}", share(*c), number(c.no_coverage));
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }

    fn points(&self, out: &mut String) {
        let summary = &self.report.summary;
        self.titles(out, "program point");
        let mut sum = vec![Counts::default(); self.report.header.methods.len()];
        for (point, counts) in &summary.points {
            self.row(out, point.name(), counts);
            sum.iter_mut().zip(counts).for_each(|(s, c)| s.add(*c));
        }
        self.row(out, "all", &sum);
    }

    fn functions(&self, out: &mut String) {
        let mut modules: BTreeMap<&str, ByMethod> = BTreeMap::new();
        let mut functions: Vec<(&Function, ByMethod)> = Vec::new();
        for function in &self.report.functions {
            let mut sum = vec![Counts::default(); self.report.header.methods.len()];
            for counts in function.points.values() {
                sum.iter_mut().zip(counts).for_each(|(s, c)| s.add(*c));
            }
            let module = modules.entry(&function.module);
            let of_module = module.or_insert_with(|| vec![Counts::default(); sum.len()]);
            of_module.iter_mut().zip(&sum).for_each(|(s, c)| s.add(*c));
            if sum.iter().any(|c| c.wrong > 0) {
                functions.push((function, sum));
            }
        }
        self.titles(out, "module");
        for (name, counts) in &modules {
            self.row(out, name, counts);
        }
        if functions.is_empty() {
            return;
        }
        // The tables' faults first: frame pointers are wrong at every function's ends.
        functions.sort_by_key(|(f, sum)| {
            let tables: u64 = sum.iter().skip(1).map(|c| c.wrong).sum();
            let all: u64 = sum.iter().map(|c| c.wrong).sum();
            (std::cmp::Reverse((tables, all)), f.start)
        });
        self.titles(out, "function with wrong steps");
        for (function, sum) in functions.iter().take(FUNCTIONS) {
            self.row(out, &function_name(function), sum);
        }
        if functions.len() > FUNCTIONS {
            let more = functions.len() - FUNCTIONS;
            let _ = writeln!(out, "{}", self.style.dim(&format!("and {more} more functions")));
        }
    }

    fn details(&self, out: &mut String) {
        for method in &self.report.header.methods {
            let faults: Vec<&&Fault> = self.new.iter().filter(|f| f.method == *method).collect();
            if faults.is_empty() {
                continue;
            }
            let most = if self.details == 0 { usize::MAX } else { self.details };
            let new = if self.baseline.is_some() { "newly wrong" } else { "wrong" };
            let title = format!("{method}: {} {new}", grouped(faults.len() as u64));
            let _ = writeln!(out, "\n{}", self.style.bold(&title));
            for fault in faults.iter().take(most) {
                self.fault(out, fault);
            }
            if faults.len() > most {
                let more = format!("and {} more; --details 0 shows all", faults.len() - most);
                let _ = writeln!(out, "  {}", self.style.dim(&more));
            }
        }
    }

    fn fault(&self, out: &mut String, fault: &Fault) {
        let function = fault.function.as_deref().map_or("?".into(), one_line);
        let name = self.style.cyan(&function);
        let _ = writeln!(
            out,
            "\n  {} {name}+{} in {} ({}): {} in {} of {} checks, {} executions",
            fault.pc,
            fault.offset,
            fault.module,
            fault.point.name(),
            self.style.red(&fault.wrong),
            fault.times,
            fault.checked,
            grouped(fault.executions),
        );
        for (address, text) in &fault.listing {
            let here = *address == fault.pc;
            let line = format!("{address:>12}  {}", one_line(text));
            let _ = match here {
                true => writeln!(out, "  > {}", self.style.bold(&line)),
                false => writeln!(out, "    {line}"),
            };
        }
        let _ = writeln!(out, "    row       {}", fault.row.as_deref().unwrap_or("(none)"));
        let _ = writeln!(out, "    registers {}", registers(&fault.registers));
        let _ = writeln!(out, "    expected  {}", caller(fault.expected.as_ref(), None));
        let found = match (&fault.found, &fault.reason) {
            (None, Some(reason)) => one_line(reason).into_owned(),
            (found, _) => caller(found.as_ref(), fault.expected.as_ref()),
        };
        let _ = writeln!(out, "    found     {found}");
    }
}

fn function_name(function: &Function) -> String {
    match &function.function {
        Some(name) => one_line(name).into_owned(),
        None => format!("{} {}", function.module, function.start),
    }
}

fn registers(registers: &Registers) -> String {
    let list: Vec<String> = registers.iter().map(|(name, v)| format!("{name}={v}")).collect();
    list.join(" ")
}

/// A caller; with another one, only those registers that differ from its.
fn caller(caller: Option<&Caller>, other: Option<&Caller>) -> String {
    let Some(c) = caller else { return "no caller".to_owned() };
    let cfa = c.cfa.map_or(String::new(), |cfa| format!("cfa={cfa} "));
    let place = match c.place.is_empty() {
        true => "in no file".to_owned(),
        false => one_line(&c.place).into_owned(),
    };
    let mut text = format!("{cfa}ra={} ({place})", c.return_address);
    let differ = c.registers.iter().filter(|(name, value)| match other {
        Some(other) => other.registers.get(*name).is_some_and(|v| v != *value),
        None => true,
    });
    for (name, value) in differ {
        let _ = write!(text, " {name}={value}");
    }
    text
}

fn number(n: u64) -> String {
    if n == 0 { "·".to_owned() } else { grouped(n) }
}

/// A share that says 100 and 0 only where it is all or none.
fn share(c: Counts) -> String {
    match (c.right, c.total()) {
        (_, 0) => "·".to_owned(),
        (a, b) if a == b => "100 %".to_owned(),
        (0, _) => "0 %".to_owned(),
        (a, b) => format!("{:.1} %", (a as f64 / b as f64 * 100.0).clamp(0.1, 99.9)),
    }
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
