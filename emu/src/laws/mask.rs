//! The mask of Linux 7.3: whose bits are in it, and what PENDING stands for.

use crate::kernel::Point;
use crate::kernel::task_work::{TaskWork, TaskWorks};
use crate::laws::hazard::{Happened, Hazard};
use crate::laws::law::{Law, MASK_G, MASK_X};
use crate::laws::moment::Moment;
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;
use crate::timeline::facts::bits;

/// PENDING and USED.
const RESERVED: u64 = 0b11;

/// See its words.
pub const ASKED: Law = Law {
    number: 7,
    words: "a work's bit is in the mask => the work has asked since the last reset that was done",
    levels: MASK_X,
};

/// [`ASKED`]
#[derive(Debug, Default)]
pub struct BitsAsked;

impl Monitor for BitsAsked {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        // A request sets its bit some steps before it is answered.
        let settled = m.story.requests.is_empty();
        // What a task that has ended leaves in its mask is nobody's.
        let settled = settled && m.now.task.has_mm;
        if !settled || m.task.mask == m.now.task.mask && m.story.answered.is_none() {
            return;
        }
        let asked = m.story.asked.iter().fold(0, |set, a| set | a.bit);
        let extra = m.now.task.mask & !RESERVED & !asked;
        if extra != 0 {
            let hazard = m.story.recent(&[Hazard::H7]).filter(|_| extra == 1 << 63);
            found.push(Broken::or(hazard, format!("{} did not ask", bits(extra))));
        }
    }
}

/// See its words.
pub const PENDING: Law = Law {
    number: 8,
    words: "PENDING <=> the item is being queued (Q9 to Q11), on the list, or taken and before P2 \
            (but for the flush at the task's end)",
    levels: MASK_G,
};

/// [`PENDING`]
#[derive(Debug, Default)]
pub struct PendingItem(ByTask<Item>);

#[derive(Debug, Default)]
struct Item {
    queuing: bool,
    taken: bool,
    /// It was told; once is enough until it holds again.
    told: bool,
}

impl Monitor for PendingItem {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let item = self.0.of(m);
        let is_listed = |works: &TaskWorks| match works {
            TaskWorks::List(list) => list.contains(&TaskWork::Unwind),
            TaskWorks::Exited => false,
        };
        let pending = m.now.task.mask & 1 != 0;
        match m.point() {
            Some(Point::RequestQ9) if m.task.mask & 1 == 0 => item.queuing = pending,
            Some(Point::RequestQ11) => item.queuing = false,
            Some(Point::TaskWorkTake) => item.taken = is_listed(&m.task.works),
            Some(Point::ProcessP1) if !pending => item.taken = false,
            Some(Point::ProcessP2) => item.taken = false,
            _ => {}
        }
        let listed = is_listed(&m.now.task.works);
        let held = m.story.flush || pending == (item.queuing || listed || item.taken);
        if !held && !item.told {
            found.push(Broken::new(format!(
                "PENDING: {pending}, being queued: {}, listed: {listed}, taken: {}",
                item.queuing, item.taken
            )));
        }
        item.told = !held;
    }
}

/// See its words.
pub const COMPLETED: Law = Law {
    number: 16,
    words: "completed ⊆ bits of the works called in this entry; whom it names is not called",
    levels: MASK_X,
};

/// [`COMPLETED`]
#[derive(Debug, Default)]
pub struct Completed(ByTask<u64>);

impl Monitor for Completed {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let called = self.0.of(m);
        if m.is(Point::ResetR6) || m.is(Point::ResetR5) && m.now.task.cache.is_none() {
            *called = 0;
        }
        if let Some(call) = m.story.callback {
            let bit = m.bit(call.work).unwrap_or(0);
            if m.task.completed() & bit != 0 {
                found.push(Broken::new(format!("{} is called again", bits(bit))));
            }
            *called |= bit;
        }
        let extra = m.now.task.completed() & !m.task.completed() & !*called;
        if extra != 0 {
            let last = m.story.recent(&[Hazard::H20]).filter(|_| extra == 1 << 63);
            let its = |h: &Happened| h.work.and_then(|work| m.bit(work)) == Some(extra);
            let hazard = last.or_else(|| m.story.recent(&[Hazard::H19]).filter(its));
            found.push(Broken::or(hazard, format!("{} was not called", bits(extra))));
        }
    }
}
