//! Events that sample too often.

use std::collections::BTreeMap;

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, SessionView};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::record::Record;
use crate::perf::session::SessionId;

/// See its words.
pub const LIMIT: Law = Law {
    number: 45,
    words: "samples of a hardware or clock event in a tick ≤ limit, counted anew where it was \
            unthrottled; THROTTLE precedes the last of them; software events are never throttled",
    levels: ALL_G,
};

/// An event on a task, or on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Task(u32, SessionId, usize),
    Cpu(u32, SessionId, usize),
}

/// Its samples.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    tick: u64,
    count: u64,
    throttled: bool,
}

/// [`LIMIT`]
#[derive(Debug, Default)]
pub struct Limit {
    events: BTreeMap<Counted, Samples>,
}

impl Monitor for Limit {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(most) = m.machine.most_samples else { return };
        if m.now.software_throttled {
            found.push(Broken::new("a software event of the task or CPU is throttled"));
        }
        let dropped = m.now.drops;
        for (n, session) in m.now.sessions.iter().enumerate() {
            for record in session.records {
                self.record(m, (SessionId(n), session), record, (most, dropped), found);
            }
        }
        if dropped {
            // One of them may have told of a throttling.
            self.events.clear();
        }
        if m.is(Point::ExitDead) {
            let dead = m.now.task.tid;
            self.events.retain(|of, _| !matches!(of, Counted::Task(tid, ..) if *tid == dead));
        }
    }
}

impl Limit {
    fn record(
        &mut self,
        m: &Moment<'_>,
        (id, session): (SessionId, &SessionView<'_>),
        record: &Record,
        (most, dropped): (u64, bool),
        found: &mut Vec<Broken>,
    ) {
        let (tid, cpu) = match record {
            Record::Sample(sample) => (sample.tid, sample.cpu),
            Record::Throttle { tid, cpu, .. } => (*tid, *cpu),
            _ => return,
        };
        let index = record.event();
        let Some(event) = session.events.get(index) else { return };
        let limited = event.kind.interrupts();
        let of = match session.wide != 0 {
            true => Counted::Cpu(cpu, id, index),
            false => Counted::Task(tid, id, index),
        };
        let samples = self.events.entry(of).or_default();
        if let Record::Throttle { throttled, .. } = record {
            samples.throttled = *throttled;
            if !throttled {
                samples.count = 0;
            }
            if !limited {
                found.push(Broken::new(format!("{} is throttled, a software event", event.name)));
            }
            return;
        }
        if !limited {
            return;
        }
        if samples.tick != m.now.cpu.ticks {
            (samples.tick, samples.count) = (m.now.cpu.ticks, 0);
        }
        samples.count += 1;
        let (count, name) = (samples.count, &event.name);
        let silent = count >= most && !samples.throttled && !dropped;
        if count > most || silent {
            let said = if silent { ", and no THROTTLE" } else { "" };
            found.push(Broken::new(format!("{of:?}: sample {count} of {most} of {name}{said}")));
        }
    }
}
