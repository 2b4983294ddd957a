//! Events that are open, and records on their way to the exporter.

use crate::perf::pmu::Counter;
use crate::perf::record::{EventKind, Record, Session};

/// Perf's part of the kernel state that is not a task's or a CPU's.
#[derive(Debug)]
pub struct Perf {
    /// What the profile's reader is told.
    pub session: Session,
    /// For each event of the session: what the contexts that are closed have counted.
    pub totals: Vec<Counter>,
    /// Records not yet handed to the exporter. Those of one CPU are in time order.
    pub records: Vec<Record>,
}

impl Perf {
    /// The events of `session`, open nowhere yet.
    pub fn new(session: Session) -> Perf {
        let totals = session.events.iter().map(Counter::new).collect();
        Perf { session, totals, records: Vec::new() }
    }

    /// Whether an event of this kind was asked for.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.session.events.iter().any(|e| e.kind == kind)
    }
}
