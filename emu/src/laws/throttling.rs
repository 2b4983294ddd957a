//! Events that sample too often.

use std::collections::BTreeMap;

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, SessionView};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::record::{Event, Record};
use crate::perf::session::SessionId;

/// See its words.
pub const LIMIT: Law = Law {
    number: 45,
    words: "samples of a hardware or clock event in a tick ≤ limit, counted anew where it was \
            unthrottled; THROTTLE precedes the last of them, also where user code does not get \
            ahead, and UNTHROTTLE the next; software events are never throttled",
    levels: ALL_G,
};

/// An event on a task, or on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Task(u32, SessionId, usize),
    Cpu(u32, SessionId, usize),
}

/// What its records say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It samples.
    #[default]
    Runs,
    /// THROTTLE was told: one sample comes yet.
    Ends,
    /// That one has come: none may come until UNTHROTTLE.
    Stands,
}

/// Its samples.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    tick: u64,
    count: u64,
    phase: Phase,
}

/// [`LIMIT`]
#[derive(Debug, Default)]
pub struct Limit {
    events: BTreeMap<Counted, Samples>,
}

impl Monitor for Limit {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if m.now.software_throttled {
            found.push(Broken::new("a software event of the task or CPU is throttled"));
        }
        for (n, session) in m.now.sessions.iter().enumerate() {
            for record in session.records {
                match record {
                    Record::Sample(s) => {
                        let of = counted(SessionId(n), session, s.event, (s.tid, s.cpu));
                        self.sample(m, of, session.events.get(s.event), found);
                    }
                    Record::Throttle { tid, cpu, event, throttled, .. } => {
                        let of = counted(SessionId(n), session, *event, (*tid, *cpu));
                        self.throttle(of, session.events.get(*event), *throttled, found);
                    }
                    _ => {}
                }
            }
        }
        if m.now.drops {
            // One of them may have told of a throttling.
            self.events.clear();
        }
        if m.is(Point::ExitDead) {
            let dead = m.now.task.tid;
            self.events.retain(|of, _| !matches!(of, Counted::Task(tid, ..) if *tid == dead));
        }
    }
}

/// Which event a record of this thread, on this CPU, is of.
const fn counted(
    id: SessionId,
    session: &SessionView<'_>,
    index: usize,
    (tid, cpu): (u32, u32),
) -> Counted {
    match session.wide != 0 {
        true => Counted::Cpu(cpu, id, index),
        false => Counted::Task(tid, id, index),
    }
}

impl Limit {
    /// THROTTLE, or UNTHROTTLE.
    fn throttle(
        &mut self,
        of: Counted,
        event: Option<&Event>,
        throttled: bool,
        found: &mut Vec<Broken>,
    ) {
        let Some(event) = event else { return };
        if !event.kind.interrupts() {
            found.push(Broken::new(format!("{} is throttled, a software event", event.name)));
        }
        let samples = self.events.entry(of).or_default();
        if throttled && samples.phase != Phase::Runs {
            let name = &event.name;
            found.push(Broken::new(format!("{of:?}: {name} is throttled, which it is already")));
        }
        match throttled {
            true => samples.phase = Phase::Ends,
            false => (samples.phase, samples.count) = (Phase::Runs, 0),
        }
    }

    fn sample(
        &mut self,
        m: &Moment<'_>,
        of: Counted,
        event: Option<&Event>,
        found: &mut Vec<Broken>,
    ) {
        let Some(event) = event.filter(|event| event.kind.interrupts()) else { return };
        let samples = self.events.entry(of).or_default();
        if samples.tick != m.now.cpu.ticks {
            (samples.tick, samples.count) = (m.now.cpu.ticks, 0);
        }
        samples.count += 1;
        let most = m.machine.most_samples.unwrap_or(u64::MAX);
        let last = samples.count >= most || m.now.cpu.stalled;
        let wrong = match samples.phase {
            Phase::Runs if last && !m.now.drops => Some("no THROTTLE is before it"),
            Phase::Runs | Phase::Ends if samples.count > most => Some("it is one too many"),
            Phase::Runs => None,
            Phase::Ends => {
                samples.phase = Phase::Stands;
                None
            }
            Phase::Stands => Some("it has been throttled, and no UNTHROTTLE is before it"),
        };
        if let Some(wrong) = wrong {
            let (count, name) = (samples.count, &event.name);
            found.push(Broken::new(format!("{of:?}: sample {count} of {name} in a tick: {wrong}")));
        }
    }
}
