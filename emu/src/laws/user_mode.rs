//! What is left of the deferred unwinder's state in user mode, and what that costs.

use crate::kernel::Point;
use crate::laws::hazard::Hazard;
use crate::laws::law::{COUNTED_G, Law, Level, MASK_X, Mode};
use crate::laws::moment::Moment;
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::timeline::facts::bits;

/// See its words.
pub const CLEAN: Law = Law {
    number: 15,
    words: "in user mode mask = 0, id = 0, nothing cached, nobody completed (but between an NMI \
            that hit user mode and its self-interrupt)",
    levels: MASK_X,
};

/// [`CLEAN`]
#[derive(Debug, Default)]
pub struct Clean;

impl Monitor for Clean {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let task = &m.now.task;
        if !m.is(Point::Leave) || task.ended || m.story.from_nmi && task.mask & 1 != 0 {
            return;
        }
        let (mask, id, cached, completed) = (task.mask, task.id, task.cached(), task.completed());
        if (mask, id, cached, completed) != (0, 0, 0, 0) {
            let kinds = [Hazard::H1, Hazard::H4, Hazard::H18, Hazard::H5, Hazard::H6];
            let hazard = m.story.hazards.find(&kinds, |h| h.entry == m.story.entry);
            let (mask, completed) = (bits(mask), bits(completed));
            let seen =
                format!("mask {mask}, id {id:#x}, {cached} in the cache, completed {completed}");
            found.push(Broken::or(hazard, seen));
        }
    }
}

/// See its words.
pub const STORES: Law = Law {
    number: 24,
    words: "stores to a task's unwind state per return to user mode: timestamp ≥ 1; the others, \
            while nobody has asked, 0",
    levels: &[(Mode::Timestamp, Level::General), COUNTED_G[0], COUNTED_G[1], COUNTED_G[2]],
};

/// [`STORES`]
#[derive(Debug, Default)]
pub struct Stores {
    before: u64,
    asked: bool,
}

impl Monitor for Stores {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        self.asked |= m.story.ever_asked;
        let stores = m.now.exit_stores - std::mem::replace(&mut self.before, m.now.exit_stores);
        let wrong = match m.machine.mode {
            Mode::Timestamp => m.is(Point::ExitX5) && stores == 0,
            _ => stores != 0 && !self.asked,
        };
        if wrong {
            found.push(Broken::new(format!("{stores} stores")));
        }
    }
}
