//! The search through a scenario's orders.

use std::time::Instant;

use emu::scenario::catalogue;
use emu::scenario::file;
use emu::scenario::inject::Who;
use emu::scenario::machine::Workshop;
use emu::scenario::search::{Report, search};
use emu::scenario::walk::Bounds;

use crate::table::{Bound, Row, Table};
use crate::{RUNS, Result};

/// The standard situation with one preemption and one NMI, under each design, all laws watched.
pub fn scenarios(table: &mut Table) -> Result<()> {
    let text = catalogue::find(catalogue::STANDARD).ok_or("no standard scenario")?;
    let standard = file::read(text)?;
    for design in &standard.designs {
        let (mut best, mut report) = (f64::INFINITY, Report::default());
        for _ in 0..RUNS {
            let mut workshop = Workshop::new(standard.setup.under(design));
            let bounds = Bounds { preemptions: 1, interrupts: 1, steps: 100_000 };
            let began = Instant::now();
            report = search(&mut workshop, bounds, vec![Who::Perf], |_, _| true)?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        let name = design.name();
        let row = |what: &str, value, unit| Row::new("all orders, 1 + 1", name, what, value, unit);
        let [steps, states] = [report.steps, report.states].map(|n| n as f64 / 1e6);
        table.push(row("the whole search", best, "s").promise(Bound::AtMost(60.0)));
        table.push(row("steps, all laws on", steps / best, "M/s").promise(Bound::AtLeast(1.0)));
        table.push(row("states", states / best, "M/s"));
        let bytes = report.bytes as f64 / 1e6;
        table.push(row("memory for a million states", bytes / states, "MB"));
    }
    Ok(())
}
