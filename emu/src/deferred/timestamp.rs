//! The timestamp patch: a stack is named by the clock's value at the first request of an entry.
//!
//! Two entries of a task within one tick of the clock have one name; 0 looks like none. At a
//! task's end nothing is flushed: the task work runs later, when the stack is not walked any
//! more.

use arch::Errno;

use crate::deferred::listed::{self, Points};
use crate::kernel::step::Path;
use crate::kernel::task_work::TaskWork;
use crate::kernel::unwind::{Design, Mode, Requested, Tracer, WorkId};
use crate::kernel::{Kernel, Point, State};

/// Entries of its cache: a header of 8 bytes, 4104 bytes in all.
const ENTRIES: usize = 512;

const POINTS: Points = Points {
    request: [
        Point::TimestampRequest2,
        Point::TimestampRequest3,
        Point::TimestampRequest4,
        Point::TimestampRequest6,
        Point::TimestampRequest7,
        Point::TimestampRequest8,
    ],
    work: [
        Point::TimestampWork2,
        Point::TimestampWork5,
        Point::TimestampWork6,
        Point::TimestampWork7,
        Point::TimestampWork8,
    ],
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp;

impl Design for Timestamp {
    fn mode(&self) -> Mode {
        Mode::Timestamp
    }

    fn request<'a>(&'a self, k: &'a Kernel, _work: WorkId) -> Path<'a, Requested> {
        Box::pin(async move {
            match listed::refuse(k, &POINTS).await {
                Some(refused) => refused,
                None => {
                    let identify = k.step(Point::TimestampRequest5, timestamp);
                    listed::request(k, &POINTS, identify).await
                }
            }
        })
    }

    fn task_work<'a>(&'a self, k: &'a Kernel, _item: TaskWork) -> Path<'a, ()> {
        Box::pin(listed::process(k, &POINTS, ENTRIES, |s| s.task.exiting))
    }

    /// The timestamp is cleared whether it was set or not.
    fn begin_reset(&self, s: &mut State) -> bool {
        listed::empty_cache(s);
        s.task.unwind.id = 0;
        s.unwind.exit_stores += 1;
        false
    }

    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        Box::pin(listed::init(k, tracer))
    }

    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()> {
        Box::pin(listed::cancel(k, work))
    }
}

/// 5: the first request of an entry sets it.
fn timestamp(s: &mut State) -> u64 {
    if s.task.unwind.id == 0 {
        s.task.unwind.id = s.unwind.clock.at(s.cpu.id, s.cpu.clock);
    }
    s.task.unwind.id
}
