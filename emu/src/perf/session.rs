//! Events that are open, and records on their way to the exporter.

use crate::perf::pmu::Counter;
use crate::perf::record::{Event, EventKind, Record, Session, Time};

/// Modelled kernel code branches once in so many instructions, steps of which may be
/// shorter.
const KERNEL_BRANCH_EVERY: u64 = 6;

/// Perf's part of the kernel state.
#[derive(Debug)]
pub struct Perf {
    /// What the profile's reader is told.
    pub session: Session,
    /// One for each event of the session.
    pub counters: Vec<Counter>,
    /// Records not yet handed to the exporter, in time order.
    pub records: Vec<Record>,
    /// The PMU counts; false from its interrupt to the return from it.
    pub counting: bool,
    /// The task's events are gone.
    pub closed: bool,
    /// Kernel instructions since the last modelled branch, less than
    /// [`KERNEL_BRANCH_EVERY`].
    since_branch: u64,
    /// When the `cpu-clock` or `task-clock` timer of each event fires; one entry an event, `Time::MAX`
    /// for events of another kind.
    pub deadlines: Vec<Time>,
}

impl Perf {
    /// Opens the events of `session`.
    pub fn open(session: Session) -> Perf {
        let counters: Vec<Counter> = session.events.iter().map(Counter::new).collect();
        let deadlines = session
            .events
            .iter()
            .zip(&counters)
            .map(|(event, counter)| match event.kind {
                EventKind::CpuClock | EventKind::TaskClock => counter.period,
                _ => Time::MAX,
            })
            .collect();
        Perf {
            session,
            counters,
            records: Vec::new(),
            counting: true,
            closed: false,
            since_branch: 0,
            deadlines,
        }
    }

    /// Events with their counters.
    pub fn events(&self) -> impl Iterator<Item = (&Event, &Counter)> {
        self.session.events.iter().zip(&self.counters)
    }

    /// Whether an event of this kind is open.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.session.events.iter().any(|e| e.kind == kind)
    }

    /// User code ran: adds to the hardware counters.
    pub fn count_user(&mut self, instructions: u64, branches: u64) {
        for (event, counter) in self.session.events.iter().zip(&mut self.counters) {
            if event.exclude_user {
                continue;
            }
            match event.kind {
                EventKind::Cycles | EventKind::Instructions => counter.count(instructions),
                EventKind::Branches => counter.count(branches),
                _ => false,
            };
        }
    }

    /// Kernel steps ran: adds to the hardware counters unless the PMU stands still.
    pub fn count_kernel(&mut self, cost: u64) {
        if !self.counting || self.closed {
            return;
        }
        let since = self.since_branch + cost;
        self.since_branch = since % KERNEL_BRANCH_EVERY;
        for (event, counter) in self.session.events.iter().zip(&mut self.counters) {
            if event.exclude_kernel {
                continue;
            }
            match event.kind {
                EventKind::Cycles | EventKind::Instructions => counter.count(cost),
                EventKind::Branches => counter.count(since / KERNEL_BRANCH_EVERY),
                _ => false,
            };
        }
    }

    /// Whether a hardware counter has overflowed. An event that does not count in kernel
    /// mode does not interrupt there: its overflow waits for the return to user mode.
    pub fn overflowed(&self, in_user: bool) -> Option<usize> {
        if self.closed {
            return None;
        }
        self.events().position(|(event, counter)| {
            event.kind.is_hardware()
                && counter.left <= 0
                && (in_user || !event.exclude_kernel)
                && (!in_user || !event.exclude_user)
        })
    }

    /// When the next `cpu-clock` or `task-clock` timer fires.
    pub fn next_deadline(&self) -> Time {
        if self.closed {
            return Time::MAX;
        }
        self.deadlines.iter().copied().min().unwrap_or(Time::MAX)
    }
}
