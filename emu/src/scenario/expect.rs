//! Whether a run did what its scenario expects.

use std::collections::BTreeSet;

use crate::scenario::file::{Expect, Scenario};
use crate::scenario::judge::Finding;
use crate::scenario::play::Played;

/// All that came and is not expected, did not come and is, or could not happen, in words. A design
/// of which the scenario says nothing may do anything, but each injection has to be reached.
pub fn unexpected(scenario: &Scenario, design: &str, played: &Played) -> Vec<String> {
    let mut wrong: Vec<String> = played.missed.iter().map(|&i| missed(scenario, i)).collect();
    if let Some(expect) = scenario.expect.get(design) {
        wrong.extend(findings(expect, played));
        wrong.extend(calls(scenario, expect, played));
        if let Some(state) = expect.state.as_ref().filter(|state| **state != played.state()) {
            let came = played.state();
            wrong.push(format!("state {state} is expected at the end, {came} came"));
        }
        if expect.stuck != played.stuck {
            let not = if expect.stuck { "" } else { " not" };
            wrong.push(format!("tasks are{not} expected to wait for ever"));
        }
    }
    wrong
}

/// An injection whose place was never reached.
fn missed(scenario: &Scenario, index: usize) -> String {
    let at = scenario.injections[index].at;
    let task = &scenario.setup.tasks[at.task.0].name;
    let (number, place) = (index + 1, at.place.name());
    let times = if at.nth == 1 { String::new() } else { format!(" {} times", at.nth) };
    format!("injection {number} was never reached: {task} does not come to {place}{times}")
}

fn findings(expect: &Expect, played: &Played) -> Vec<String> {
    let wanted: BTreeSet<String> = expect.found.iter().cloned().collect();
    let came: BTreeSet<String> = played.findings.iter().map(Finding::to_string).collect();
    let absent = wanted.difference(&came).map(|f| format!("{f} is expected and did not come"));
    let extra = came.difference(&wanted).map(|f| format!("{f} came and is not expected"));
    absent.chain(extra).collect()
}

fn calls(scenario: &Scenario, expect: &Expect, played: &Played) -> Vec<String> {
    let wrong = expect.calls.iter().filter_map(|(name, &wanted)| {
        let mut tracers = scenario.setup.tracers.iter().zip(&played.calls);
        let came = tracers.find(|(tracer, _)| tracer.name == *name).map(|(_, calls)| *calls);
        let came = match came {
            Some(calls) if calls == wanted => return None,
            Some(calls) => format!("{calls} came"),
            None => "there is no such tracer".to_owned(),
        };
        Some(format!("{wanted} callbacks to {name} are expected, {came}"))
    });
    wrong.collect()
}
