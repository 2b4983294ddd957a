//! Where something happens in a run: before which step of which task, for the how manieth time.

use std::fmt;

use crate::kernel::boot::PID;
use crate::kernel::{Point, State};

/// A place in a task's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Before the step at this point, in whatever context of the task: also of an interrupt.
    Step(Point),
    /// Before user code goes on.
    User,
}

impl Place {
    const COUNT: usize = Point::ALL.len() + 1;

    const fn index(self) -> usize {
        match self {
            Place::Step(point) => point as usize,
            Place::User => Point::ALL.len(),
        }
    }

    /// The point's name, or `user`.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Step(point) => point.name(),
            Place::User => "user",
        }
    }
}

/// A task of the scenario, by its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskIndex(pub usize);

impl TaskIndex {
    /// The present task, unless it is a thread of the kernel.
    pub fn present(state: &State) -> Option<TaskIndex> {
        state.task.tid.checked_sub(PID).map(|index| TaskIndex(index as usize))
    }
}

/// The moment at which a task comes to a place for the `nth` time, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// Whose path.
    pub task: TaskIndex,
    /// Where.
    pub place: Place,
    /// The how manieth time.
    pub nth: u32,
}

/// How often each task has come to each place.
#[derive(Debug, Default)]
pub struct Visits(Vec<OfTask>);

struct OfTask {
    counts: Box<[u32; Place::COUNT]>,
    /// Steps that are still to be taken: how deep they are in functions, where, for the how
    /// manieth time. What an interrupt has pushed in between is deeper.
    open: Vec<(usize, Place, u32)>,
}

impl fmt::Debug for OfTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfTask").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Default for OfTask {
    fn default() -> OfTask {
        OfTask { counts: Box::new([0; Place::COUNT]), open: Vec::new() }
    }
}

impl Visits {
    /// Nobody has been anywhere.
    pub fn clear(&mut self) {
        for task in &mut self.0 {
            task.counts.fill(0);
            task.open.clear();
        }
    }

    /// The present task has come to `place`, or asks again there. `None` for a thread of the
    /// kernel.
    pub fn come(&mut self, state: &State, place: Place) -> Option<At> {
        let index = TaskIndex::present(state)?;
        if self.0.len() <= index.0 {
            self.0.resize_with(index.0 + 1, OfTask::default);
        }
        let task = &mut self.0[index.0];
        let depth = state.cpu.functions.len();
        let nth = match task.open.last() {
            Some(&(at, open, nth)) if (at, open) == (depth, place) => nth,
            _ => {
                let count = &mut task.counts[place.index()];
                *count += 1;
                task.open.push((depth, place, *count));
                *count
            }
        };
        Some(At { task: index, place, nth })
    }

    /// The present task goes on from where it came last.
    pub fn go(&mut self, state: &State) {
        if let Some(index) = TaskIndex::present(state)
            && let Some(task) = self.0.get_mut(index.0)
        {
            task.open.pop();
        }
    }
}
