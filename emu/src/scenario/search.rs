//! All orders of a scenario, up to bounds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::kernel::run::Paths;
use crate::kernel::{Kernel, State};
use crate::scenario::inject::{Injection, Who};
use crate::scenario::judge::{Finding, Judge};
use crate::scenario::machine::{SetupError, Workshop};
use crate::scenario::walk::{Bounds, Shared, Stopped, Walk};

/// What a search has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Different states at which there was something to choose.
    pub states: u64,
    /// Bytes of the set of these states' hashes.
    pub bytes: u64,
    /// Runs.
    pub runs: u64,
    /// Steps of all runs, prefixes that were run again included.
    pub steps: u64,
    /// Runs that were cut at the bound on steps.
    pub cut: u64,
    /// Runs in which tasks waited for ever.
    pub stuck: u64,
    /// All orders within the bounds were tried.
    pub complete: bool,
    /// What was found, each with the fewest injections that led to it.
    pub found: BTreeMap<Finding, Vec<Injection>>,
}

/// Searches; `go_on` is asked after each run.
///
/// # Errors
///
/// [`SetupError`]
pub fn search(
    workshop: &mut Workshop,
    bounds: Bounds,
    who: Vec<Who>,
    mut go_on: impl FnMut(&Report, f64) -> bool,
) -> Result<Report, SetupError> {
    let walk = Rc::new(RefCell::new(Walk::new(bounds, who)));
    let mut report = Report::default();
    loop {
        let k = workshop.machine()?;
        let judge = k.with(Judge::start);
        walk.borrow_mut().watch(&judge);
        k.with(|s| s.set_schedule(Box::new(Shared(walk.clone()))));
        let stuck = run(&k, &judge, &walk, &mut report.found);
        report.runs += 1;
        report.stuck += u64::from(stuck);
        report.cut += u64::from(walk.borrow().stopped() == Stopped::Steps);
        k.with(State::take_schedule);
        workshop.take_back(k);
        let more = walk.borrow_mut().advance();
        (report.states, report.steps) = (walk.borrow().states() as u64, walk.borrow().steps);
        report.bytes = walk.borrow().bytes() as u64;
        if !more {
            report.complete = report.cut == 0;
            return Ok(report);
        }
        if !go_on(&report, walk.borrow().done()) {
            return Ok(report);
        }
    }
}

/// One run; whether tasks waited for ever.
fn run(
    k: &Kernel,
    judge: &Judge,
    walk: &RefCell<Walk>,
    found: &mut BTreeMap<Finding, Vec<Injection>>,
) -> bool {
    let mut paths = Paths::new(k);
    let mut known = 0;
    while paths.go_on(k) {
        if judge.found() > known {
            for finding in judge.findings().into_iter().skip(known) {
                let taken = walk.borrow().taken().to_vec();
                let shortest = found.entry(finding).or_insert_with(|| taken.clone());
                if taken.len() < shortest.len() {
                    *shortest = taken;
                }
            }
            known = judge.found();
            if judge.is_fatal() {
                walk.borrow_mut().stop();
            }
        }
    }
    drop(paths);
    let ended = k.with(|s| s.ending.is_some());
    !ended && walk.borrow().stopped() == Stopped::Not
}
