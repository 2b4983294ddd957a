//! The events that are open on one task, or on one CPU (`struct perf_event_context`).
//!
//! ```text
//! Session::events     what is counted and sampled: the attributes
//!   └─ Instance       one of them on one task or CPU, with its counter
//! ```
//!
//! A task that is forked gets instances of its parent's events (`inherit`), each at the beginning of a
//! period. When a context is closed, what its instances counted is added to the totals.

use crate::perf::pmu::Counter;
use crate::perf::record::{Event, EventKind, Time};

/// One event, open somewhere.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Index into the session's events.
    pub event: usize,
    /// Its counter.
    pub counter: Counter,
    /// When the timer of a `cpu-clock` or `task-clock` fires; `Time::MAX` for other events.
    pub deadline: Time,
    /// What was left until then when the task was switched out.
    left: Time,
}

/// The events of one task or CPU.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// In the order in which they were opened.
    pub instances: Vec<Instance>,
}

/// Which instance of those that are active: the task's come before the CPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// It is in the CPU's context.
    pub of_cpu: bool,
    /// Its place there.
    pub index: usize,
}

impl Instance {
    /// Event number `index`, opened at `now`.
    pub fn new(index: usize, event: &Event, now: Time) -> Instance {
        let counter = Counter::new(event);
        let deadline = match event.kind {
            EventKind::CpuClock | EventKind::TaskClock => now.saturating_add(counter.period),
            _ => Time::MAX,
        };
        Instance { event: index, counter, deadline, left: 0 }
    }
}

impl Context {
    /// Opens all of `events` at `now`.
    pub fn open(events: &[Event], now: Time) -> Context {
        let instances = events.iter().enumerate().map(|(i, e)| Instance::new(i, e, now)).collect();
        Context { instances }
    }

    /// What a child of the task gets (`inherit_event`): the parent's present period, begun
    /// anew.
    pub fn inherited(&self) -> Context {
        let instances = self.instances.iter().map(|instance| {
            let counter = instance.counter.inherited();
            let period = counter.period;
            let deadline = if instance.deadline == Time::MAX { Time::MAX } else { period };
            Instance { event: instance.event, counter, deadline, left: period }
        });
        Context { instances: instances.collect() }
    }

    /// The task leaves its CPU at `now`: its timers stand still.
    pub fn sched_out(&mut self, now: Time) {
        for instance in self.instances.iter_mut().filter(|i| i.deadline != Time::MAX) {
            instance.left = instance.deadline.saturating_sub(now);
        }
    }

    /// The task runs again, from `now` on.
    pub fn sched_in(&mut self, now: Time) {
        for instance in self.instances.iter_mut().filter(|i| i.deadline != Time::MAX) {
            instance.deadline = now.saturating_add(instance.left);
        }
    }

    /// When the next timer fires.
    pub fn next_deadline(&self) -> Time {
        self.instances.iter().map(|i| i.deadline).min().unwrap_or(Time::MAX)
    }
}
