//! The designs side by side: which laws each breaks, and by what.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cli::output::Style;
use crate::laws::law::Law;
use crate::numbers::grouped;
use crate::scenario::judge::Finding;
use crate::scenario::search::Report;

/// A design and what the search under it has found.
#[derive(Debug)]
pub struct Column {
    /// The design.
    pub name: &'static str,
    /// The laws that say anything about it.
    pub laws: Vec<Law>,
    /// What was found.
    pub report: Report,
}

impl Column {
    /// By what a law is broken: hazards, or nothing that is known; `None` if it is kept.
    fn broken(&self, law: u8) -> Option<String> {
        let by: Vec<&str> = self
            .report
            .found
            .keys()
            .filter_map(|finding| match finding {
                Finding::Broken(of, by) if *of == law => Some(by.map_or("?", |h| h.name())),
                _ => None,
            })
            .collect();
        (!by.is_empty()).then(|| by.join(" "))
    }

    fn cell(&self, law: u8) -> String {
        match self.broken(law) {
            Some(by) => by,
            None if self.laws.iter().any(|l| l.number == law) => "kept".to_owned(),
            None => "-".to_owned(),
        }
    }

    /// Hazards that happen and break no law that is watched.
    fn harmless(&self) -> String {
        let hazards = self.report.found.keys().filter_map(|finding| match finding {
            Finding::Happened(hazard) => Some(*hazard),
            Finding::Broken(..) => None,
        });
        let breaks = |hazard| {
            self.report
                .found
                .keys()
                .any(|f| matches!(f, Finding::Broken(_, by) if *by == Some(hazard)))
        };
        let names: Vec<&str> = hazards.filter(|h| !breaks(*h)).map(|h| h.name()).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    }
}

/// A line for each law that a design breaks, and what was covered.
pub fn table(columns: &[Column], style: Style) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let broken: BTreeMap<u8, &str> = columns
        .iter()
        .flat_map(|column| column.laws.iter().filter(|law| column.broken(law.number).is_some()))
        .map(|law| (law.number, law.words))
        .collect();
    for &number in broken.keys() {
        let cells = columns.iter().map(|column| column.cell(number)).collect();
        rows.push((format!("LAW-{number}"), cells));
    }
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        (name.to_owned(), columns.iter().map(cell).collect::<Vec<_>>())
    };
    rows.push(row("no law, but", &Column::harmless));
    let of = |column: &Column| {
        let kept = column.laws.iter().filter(|law| column.broken(law.number).is_none());
        format!("{} of {}", kept.count(), column.laws.len())
    };
    rows.push(row("laws kept", &of));
    rows.push(row("states", &|column| grouped(column.report.states)));
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| rows.iter().map(|(_, cells)| cells[at].len()).max().unwrap_or_default().max(9))
        .collect();
    let mut head = format!("{:11}", "");
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(head, "  {:width$}", column.name);
    }
    let mut text = format!("{}\n", style.bold(head.trim_end()));
    for (name, cells) in &rows {
        let mut line = format!("{name:11}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "  {cell:width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (number, words) in broken {
        let _ = writeln!(text, "LAW-{number}: {words}");
    }
    text
}
