//! Task work: where it runs, and in which order.

use std::collections::{BTreeMap, VecDeque};

use crate::kernel::Point;
use crate::kernel::task_work::{TaskWork, TaskWorks};
use crate::kernel::unwind::WorkId;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, What};
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;

/// See its words.
pub const PLACE: Law = Law {
    number: 4,
    words: "task work runs at level 0, with interrupts on, and not on an NMI's way out",
    levels: ALL_G,
};

/// [`PLACE`]
#[derive(Debug, Default)]
pub struct Place;

/// First steps of the unwinder's items.
const ITEMS: [Point; 4] =
    [Point::ProcessP1, Point::TimestampWork2, Point::CookieWork2, Point::WorkWork1];

impl Monitor for Place {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let runs = |p| p == Point::TaskWorkTake || ITEMS.contains(&p);
        if !m.point().is_some_and(runs) {
            return;
        }
        let cpu = &m.now.cpu;
        if cpu.level != 0 || !cpu.irqs_on || !m.is_outermost() || m.story.from_nmi {
            let on = if cpu.irqs_on { "on" } else { "off" };
            let from = if m.story.from_nmi { ", on an NMI's way out" } else { "" };
            let level = cpu.level;
            found.push(Broken::new(format!("at level {level}, interrupts {on}{from}")));
        }
    }
}

/// See its words.
pub const LIFO: Law = Law {
    number: 5,
    words: "items run newest first; an item is on at most one list; a list that was closed \
            (`work_exited`, by a task that ends, when it is empty) takes nothing (-ESRCH)",
    levels: ALL_G,
};

/// [`LIFO`]
#[derive(Debug, Default)]
pub struct Lifo {
    tasks: ByTask<VecDeque<TaskWork>>,
    /// On whose list the items of works are.
    lists: BTreeMap<u32, u64>,
    /// The works whose item was queued at the moment before.
    queued: Vec<bool>,
}

impl Monitor for Lifo {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        self.order(m, found);
        if m.task.works != m.now.task.works {
            self.lists(m, found);
        }
        if let (What::Answer(_, answer), TaskWorks::Exited) = (m.now.what, &m.now.task.works)
            && answer.ret == 0
        {
            found.push(Broken::new("a closed list took an item"));
        }
        let queued = m.now.works.iter().map(|w| w.queued.is_some());
        if !self.queued.iter().copied().eq(queued.clone()) {
            self.queued = queued.collect();
        }
    }
}

impl Lifo {
    fn order(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(point) = m.point() else { return };
        let taken = self.tasks.of(m);
        if point == Point::TaskWorkTake {
            if let Some(left) = taken.pop_front() {
                found.push(Broken::new(format!("{left:?} was taken and did not run")));
            }
            taken.clear();
            if let TaskWorks::List(list) = &m.task.works {
                taken.extend(list.iter().rev());
            }
        }
        // At a task's end the unwinder is flushed past the list.
        if !ITEMS.contains(&point) || m.story.flush {
            return;
        }
        let item = match point {
            Point::WorkWork1 => {
                let freed = |(w, before): &(usize, &bool)| {
                    **before && m.now.works.get(*w).is_some_and(|w| w.queued.is_none())
                };
                let freed = self.queued.iter().enumerate().find(freed);
                freed.map(|(w, _)| TaskWork::UnwindOf(WorkId(w as u32)))
            }
            _ => Some(TaskWork::Unwind),
        };
        let next = taken.pop_front();
        if next != item {
            found.push(Broken::new(format!("{item:?} runs where {next:?} is next")));
        }
    }

    /// The task's list has changed.
    fn lists(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let key = m.key();
        self.lists.retain(|_, of| *of != key);
        let list = match (&m.task.works, &m.now.task.works) {
            (_, TaskWorks::List(list)) if m.task.works != TaskWorks::Exited => list,
            (TaskWorks::List(before), TaskWorks::Exited) => {
                if !before.is_empty() || !m.now.task.exiting {
                    found.push(Broken::new("a list was closed too early"));
                }
                return;
            }
            _ => return found.push(Broken::new("a closed list was opened again")),
        };
        for (at, item) in list.iter().enumerate() {
            if list[..at].contains(item) {
                found.push(Broken::new(format!("{item:?} is on the list twice")));
            }
            if let TaskWork::UnwindOf(work) = item
                && self.lists.insert(work.0, key).is_some_and(|other| other != key)
            {
                found.push(Broken::new(format!("{item:?} is on the lists of two tasks")));
            }
        }
    }
}
