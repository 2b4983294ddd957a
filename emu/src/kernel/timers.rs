//! The kernel's own timers of a CPU (hrtimers): who is to be woken, or sent a signal, when.

use std::collections::BTreeMap;

use crate::kernel::task::TaskId;
use crate::perf::record::Time;

/// What happens when a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// A task that waits has waited long enough.
    Timeout(TaskId),
    /// `ITIMER_REAL` of the process: `SIGALRM`.
    Real(u32),
    /// The time slice of the running task is over.
    Slice,
    /// The tick.
    Tick,
}

/// Names one timer of a CPU: when it fires, and which of those that fire then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(Time, u64);

/// The timers of one CPU, in the order in which they fire.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    queue: BTreeMap<TimerId, Timer>,
    started: u64,
}

impl Timers {
    /// Starts a timer.
    pub fn start(&mut self, at: Time, timer: Timer) -> TimerId {
        self.started += 1;
        let id = TimerId(at, self.started);
        self.queue.insert(id, timer);
        id
    }

    /// Stops a timer; whether it had not fired.
    pub fn cancel(&mut self, id: TimerId) -> bool {
        self.queue.remove(&id).is_some()
    }

    /// When the next one fires.
    pub fn next(&self) -> Time {
        self.queue.first_key_value().map_or(Time::MAX, |(id, _)| id.0)
    }

    /// Takes the next one that has fired by `now`.
    pub fn fired(&mut self, now: Time) -> Option<Timer> {
        match self.queue.first_entry() {
            Some(first) if first.key().0 <= now => Some(first.remove()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_once() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), Time::MAX);
        let late = timers.start(30, Timer::Slice);
        timers.start(20, Timer::Real(7));
        timers.start(20, Timer::Timeout(TaskId(1)));
        assert_eq!((timers.next(), timers.fired(19)), (20, None));
        assert_eq!(timers.fired(25), Some(Timer::Real(7)));
        assert_eq!(timers.fired(25), Some(Timer::Timeout(TaskId(1))));
        assert_eq!(timers.fired(25), None);
        assert!(timers.cancel(late) && !timers.cancel(late));
        assert_eq!(timers.next(), Time::MAX);
    }
}
