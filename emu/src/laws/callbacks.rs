//! Whom the deferred unwinder calls, how often, and with which name.

use std::collections::BTreeSet;

use crate::kernel::Point;
use crate::laws::hazard::{Happened, Hazard};
use crate::laws::law::{Law, Level, MASK_X, MUTEX_G, Mode};
use crate::laws::moment::Moment;
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;

/// See its words.
pub const AT_MOST_ONE: Law =
    Law { number: 9, words: "callbacks for each (work, entry) ≤ 1", levels: MASK_X };

/// [`AT_MOST_ONE`]
#[derive(Debug, Default)]
pub struct AtMostOne;

impl Monitor for AtMostOne {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(call) = m.story.callback else { return };
        let calls = m.story.calls_of(call.work);
        if calls > 1 {
            let hazard = m.story.recent(&[Hazard::H6, Hazard::H15]);
            found.push(Broken::or(hazard, format!("work {} is called again", call.work.0)));
        }
    }
}

/// See its words.
pub const AT_LEAST_ONE: Law = Law {
    number: 10,
    words: "callbacks = 1 for each work that was answered ≥ 0, once the task is back in user mode \
            or has ended",
    levels: MASK_X,
};

/// [`AT_LEAST_ONE`]
#[derive(Debug, Default)]
pub struct AtLeastOne;

impl Monitor for AtLeastOne {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let over = m.story.is_reset(m.machine, m.task, m.now) || m.is(Point::ExitMm);
        let mut told = BTreeSet::new();
        for asked in m.story.asked.iter().filter(|_| over) {
            if m.story.calls_of(asked.work) == 0 && told.insert(asked.work.0) {
                let kinds = [
                    Hazard::H6,
                    Hazard::H7,
                    Hazard::H8,
                    Hazard::H9,
                    Hazard::H10,
                    Hazard::H14,
                    Hazard::H17,
                    Hazard::H19,
                    Hazard::Cancelled,
                ];
                // Whoever gets the dead tracer's bit.
                let heir =
                    |h: &Happened| h.hazard == Hazard::H10 && h.cookie == asked.answer.cookie;
                let about = |h: &Happened| h.work == Some(asked.work) || heir(h);
                let hazard = m.story.hazards.find(&kinds, about);
                let (work, event) = (asked.work.0, asked.event);
                let seen = format!("work {work} asked at event {event} and was not called");
                found.push(Broken::or(hazard, seen));
            }
        }
    }
}

/// See its words.
pub const SAME_COOKIE: Law = Law {
    number: 11,
    words: "cookie of a callback = every cookie that was answered in its entry",
    levels: MASK_X,
};

/// [`SAME_COOKIE`]
#[derive(Debug, Default)]
pub struct SameCookie;

impl Monitor for SameCookie {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(call) = m.story.callback else { return };
        let other = m.story.asked.iter().find(|a| a.answer.cookie != call.cookie);
        if let Some(asked) = other {
            let hazard = m.story.about(&[Hazard::H1], asked.answer.cookie);
            let (work, cookie) = (call.work.0, call.cookie);
            let (answered, event) = (asked.answer.cookie, asked.event);
            let seen = format!(
                "work {work} is called with {cookie:#x}; the answer of event {event} was \
                 {answered:#x}"
            );
            found.push(Broken::or(hazard, seen));
        }
    }
}

/// See its words.
pub const GONE: Law = Law {
    number: 19,
    words: "after cancel returns (off the list, no traversal goes on that may have seen it) a work \
            is not called, and its bit is free",
    levels: &[
        (Mode::Timestamp, Level::General),
        (Mode::Cookie, Level::General),
        (Mode::Mask, Level::General),
        (Mode::PerWork, Level::Except),
    ],
};

/// [`GONE`]
#[derive(Debug, Default)]
pub struct Gone {
    /// Works that are off the list and cannot be seen any more.
    gone: BTreeSet<u32>,
}

impl Monitor for Gone {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if let Some(call) = m.story.callback
            && self.gone.contains(&call.work.0)
        {
            let owed = |h: &Happened| h.work == Some(call.work);
            let hazard = m.story.hazards.find(&[Hazard::Orphaned], owed);
            found.push(Broken::or(hazard, format!("work {} is called", call.work.0)));
        }
        if m.now.list.len() + self.gone.len() == m.now.works.len() {
            return;
        }
        for (at, work) in m.now.works.iter().enumerate() {
            let listed = m.now.list.iter().any(|w| w.0 as usize == at);
            // It is being registered, or a traversal may have seen it.
            if listed || m.now.traversals != 0 || !self.gone.insert(at as u32) {
                continue;
            }
            if m.machine.mode == Mode::Mask && work.bit >= 0 {
                found.push(Broken::new(format!("work {at} has kept bit {}", work.bit)));
            }
        }
    }
}

/// See its words.
pub const ONE_AT_A_TIME: Law =
    Law { number: 25, words: "tasks in the callback loop ≤ 1", levels: MUTEX_G };

/// [`ONE_AT_A_TIME`]
#[derive(Debug, Default)]
pub struct OneAtATime;

impl Monitor for OneAtATime {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let entered = m.is(Point::TimestampWork6) || m.is(Point::CookieWork6);
        if entered && m.now.traversals > 1 {
            found.push(Broken::new(format!("{} tasks", m.now.traversals)));
        }
    }
}
