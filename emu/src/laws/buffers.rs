//! What callchains are walked into: who has it, and whether it is there.

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, What};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::buffers::View;

/// See its words.
pub const SLOTS: Law = Law {
    number: 26,
    words: "recursion slots are 0 or 1, and 0 when the CPU is in user mode",
    levels: ALL_G,
};

/// [`SLOTS`]
#[derive(Debug, Default)]
pub struct Slots;

impl Monitor for Slots {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let View { slots, most, .. } = m.now.callchains;
        if most > 1 || slots.iter().any(|&slot| slot > 1) {
            found.push(Broken::new(format!("slots {slots:?}, and at most {most} so far")));
        }
        let in_user = matches!(m.now.what, What::User(_)) || m.is(Point::Leave);
        if in_user && slots.iter().any(|&slot| slot != 0) {
            found.push(Broken::new(format!("user mode with slots {slots:?}")));
        }
    }
}

/// See its words.
pub const EXIST: Law = Law {
    number: 28,
    words: "callchain buffers exist if and only if nr_callchain_events > 0; a sysctl of their \
            size changes only at 0",
    levels: ALL_G,
};

/// [`EXIST`]
#[derive(Debug, Default)]
pub struct Exist(Option<View>);

impl Monitor for Exist {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let now = m.now.callchains;
        if now.allocated != (now.users > 0) {
            let are = if now.allocated { "are buffers" } else { "is none" };
            found.push(Broken::new(format!("there {are}, with {} users", now.users)));
        }
        let before = self.0.replace(now);
        let changed = before.filter(|b| b.users > 0 && now.users > 0 && b.limits != now.limits);
        if let Some(before) = changed {
            found.push(Broken::new(format!("{:?} became {:?}", before.limits, now.limits)));
        }
    }
}
