//! Deferred sampling, system calls, and many tasks and CPUs.

use std::path::Path;

use arch::Arch;
use guests::Catalogue;

use crate::emulate::{Setup, guest, run};
use crate::table::{Bound, Row, Table};
use crate::{RUNS, Result, shortest, timed};

/// Sampling at this period must cost next to nothing more when the user stack is walked later.
const PERIOD: u64 = 100_000;

/// What deferred user stacks cost, against those that are walked in the interrupt.
pub fn deferred(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "bench", arch)?;
    let fp = Setup::sampled(PERIOD);
    let fp_defer = Setup { defer: true, ..fp };
    let ways = [
        ("fp", fp),
        ("fp,defer: × of fp", fp_defer),
        ("sframe,defer: × of fp", Setup { sframe: true, ..fp_defer }),
    ];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..RUNS {
        for ((_, setup), best) in ways.iter().zip(&mut best) {
            *best = best.min(timed(|| run(&path, setup))?.as_secs_f64());
        }
    }
    for (n, ((what, _), time)) in ways.iter().zip(best).enumerate() {
        let row = Row::new("samples, period 10^5", arch.name(), what, time, "s");
        table.push(match n {
            0 => row,
            _ => row.ratio(time / best[0]).promise(Bound::AtMost(1.1)),
        });
    }
    Ok(())
}

/// System calls of the loop.
const CALLS: u64 = 400_000;

/// A system call that does nothing, with no event open.
pub fn syscalls(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "crowd", arch)?;
    let time = |calls: u64| quickest(&path, 1, 0, calls);
    let each = (time(CALLS)? - time(0)?) / CALLS as f64 * 1e6;
    let row = Row::new("getpid in a loop", arch.name(), "no tracer, each call", each, "µs");
    table.push(row.promise(Bound::AtMost(1.5)));
    Ok(())
}

/// The time of `crowd TASKS CALLS` on `cpus`, in seconds.
fn quickest(path: &Path, cpus: u32, tasks: u64, calls: u64) -> Result<f64> {
    let words = [tasks.to_string(), calls.to_string()];
    let args = [words[0].as_str(), words[1].as_str()];
    let setup = Setup { args: &args, period: None, cpus, ..Setup::sampled(PERIOD) };
    shortest(|| run(path, &setup))
}

/// What a task costs, and a system call, as tasks and CPUs double.
pub fn crowds(catalogue: &Catalogue, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "crowd", Arch::X86_64)?;
    for tasks in [125, 250, 500, 1000] {
        let each = quickest(&path, 4, tasks, 10)? / tasks as f64 * 1e6;
        let what = format!("{tasks} tasks on 4 CPUs, each with 10 calls");
        table.push(Row::new("cost per task", "x86_64", &what, each, "µs"));
    }
    let (tasks, calls) = (64, 200);
    let mut cpus = 1;
    while cpus <= 64 {
        let each = quickest(&path, cpus, tasks, calls)? / (tasks * calls) as f64 * 1e6;
        let what = format!("{cpus} CPUs, {tasks} tasks that call");
        table.push(Row::new("cost per call, CPUs in step", "x86_64", &what, each, "µs"));
        cpus *= 2;
    }
    Ok(())
}
