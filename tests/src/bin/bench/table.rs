//! What is printed.

use std::fmt;

use serde::Serialize;

use crate::output::line;

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    bench: String,
    arch: String,
    what: String,
    value: f64,
    unit: &'static str,
    /// Value of this run's baseline by value, or the other way round: see `what`.
    ratio: Option<f64>,
    /// The bound that the project promises for the ratio, or else for the value.
    promise: Option<String>,
    kept: Option<bool>,
}

/// What is promised of a number.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, number: f64) -> bool {
        match self {
            Bound::AtMost(bound) => number <= bound,
            Bound::AtLeast(bound) => number >= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(bound) => write!(f, "<= {bound}"),
            Bound::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

impl Row {
    /// A line under the heading `bench` and `arch`.
    pub fn new(bench: &str, arch: &str, what: &str, value: f64, unit: &'static str) -> Row {
        Row {
            bench: bench.to_owned(),
            arch: arch.to_owned(),
            what: what.to_owned(),
            value,
            unit,
            ratio: None,
            promise: None,
            kept: None,
        }
    }

    pub fn ratio(self, ratio: f64) -> Row {
        Row { ratio: Some(ratio), ..self }
    }

    /// A promise about the ratio, if there is one, or else about the value.
    pub fn promise(self, bound: Bound) -> Row {
        let (number, unit) = match self.ratio {
            Some(ratio) => (ratio, String::new()),
            None => (self.value, format!(" {}", self.unit)),
        };
        Row { promise: Some(format!("{bound}{unit}")), kept: Some(bound.holds(number)), ..self }
    }
}

/// The rows so far. A row is printed when it is known: the whole takes minutes.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    /// The rows that do not keep their promise.
    pub fn broken(&self) -> impl Iterator<Item = String> + '_ {
        let broken = self.rows.iter().filter(|row| row.kept == Some(false));
        broken.map(|row| format!("{} ({}): {}", row.bench, row.arch, row.what))
    }

    /// Prints a row and keeps it.
    pub fn push(&mut self, row: Row) {
        if self.rows.last().is_none_or(|l| (&l.bench, &l.arch) != (&row.bench, &row.arch)) {
            line(format_args!("{} ({})", row.bench, row.arch));
        }
        let ratio = row.ratio.map_or(String::new(), |r| format!("{r:6.2}×"));
        let promise = match (&row.promise, row.kept) {
            (Some(p), Some(true)) => format!("  promised {p}: kept"),
            (Some(p), Some(false)) => format!("  promised {p}: NOT KEPT"),
            _ => String::new(),
        };
        let Row { what, value, unit, .. } = &row;
        line(format_args!("  {what:48} {value:10.3} {unit:3} {ratio:>8}{promise}"));
        self.rows.push(row);
    }
}
