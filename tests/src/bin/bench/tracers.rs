//! What a deferred stack costs in virtual time as tracers, CPUs and tasks double, in the four
//! designs side by side. The numbers are the same on every host.

use tests::latency::{Latency, Setup, measure};

use crate::table::{Bound, Row, Table};

const DESIGNS: [&str; 4] = ["timestamp", "cookie", "mask", "per-work"];
/// Calls of each task.
const CALLS: u32 = 10;
/// Tracers beside perf where something else doubles.
const SOME: usize = 8;

fn setup(design: &'static str) -> Setup {
    Setup { design, cpus: 1, tasks: 1, calls: CALLS, asking: SOME, silent: 0, laws: false }
}

/// All three tables.
pub fn tracers(table: &mut Table) {
    per_tracer(table);
    per_cpu(table);
    per_task(table);
}

/// The mask has bits for 61 beside perf.
fn per_tracer(table: &mut Table) {
    for (heading, silent) in [("tracers that ask", false), ("silent tracers", true)] {
        for design in DESIGNS {
            let time = |count| {
                let (asking, silent) = if silent { (0, count) } else { (count, 0) };
                measure(&Setup { asking, silent, ..setup(design) }).mean
            };
            let alone = time(0);
            for count in [1, 2, 4, 8, 16, 32, 61] {
                let time = time(count);
                let each = (time - alone) / count as f64;
                let what = format!("{design}, {count}: {each:.0} ns for each");
                table.push(Row::new(heading, "virtual", &what, time / 1e3, "µs"));
            }
        }
    }
}

/// As many tasks as CPUs, which ask at once.
fn per_cpu(table: &mut Table) {
    for design in DESIGNS {
        let mut one = f64::NAN;
        for cpus in [1, 2, 4, 8, 16, 32, 64] {
            let latency = measure(&Setup { cpus, tasks: cpus, ..setup(design) });
            let (time, lost) = (latency.mean, lost(&latency));
            if cpus == 1 {
                one = time;
            }
            let plural = if cpus == 1 { "" } else { "s" };
            let what = format!("{design}, {cpus} CPU{plural}{lost}: × of one");
            let row = Row::new("CPUs that ask at once", "virtual", &what, time / 1e3, "µs");
            let row = row.ratio(time / one);
            table.push(match (design, cpus) {
                ("mask", 32) => row.promise(Bound::AtMost(1.5)),
                ("timestamp", 32) => row.promise(Bound::AtLeast(8.0)),
                _ => row,
            });
        }
    }
}

/// What share of the stacks was never made, if any.
fn lost(latency: &Latency) -> String {
    let Latency { samples, lost, .. } = latency;
    match lost {
        0 => String::new(),
        lost => format!(" ({lost} of {} stacks lost)", lost + samples),
    }
}

/// On four CPUs.
fn per_task(table: &mut Table) {
    for design in DESIGNS {
        for tasks in [125, 250, 500, 1000] {
            let latency = measure(&Setup { cpus: 4, tasks, ..setup(design) });
            let (longest, lost) = (latency.longest as f64 / 1e3, lost(&latency));
            let what = format!("{design}, {tasks}{lost}: the longest {longest:.0} µs");
            table.push(Row::new("tasks on 4 CPUs", "virtual", &what, latency.mean / 1e3, "µs"));
        }
    }
}
