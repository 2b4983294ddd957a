//! The cookie patch: as `timestamp`, but a stack is named by a count that each CPU keeps. At a
//! task's end nothing is flushed: the task work runs later, when the memory is gone.

use arch::Errno;

use crate::deferred::id;
use crate::deferred::listed::{self, Points};
use crate::kernel::step::Path;
use crate::kernel::task_work::TaskWork;
use crate::kernel::unwind::{Design, Mode, Requested, Tracer, WorkId};
use crate::kernel::{Kernel, Point, State};

/// Entries of its cache page: a header of 8 bytes.
const ENTRIES: usize = 511;

const POINTS: Points = Points {
    request: [
        Point::CookieRequest2,
        Point::CookieRequest3,
        Point::CookieRequest4,
        Point::CookieRequest6,
        Point::CookieRequest7,
        Point::CookieRequest8,
    ],
    work: [
        Point::CookieWork2,
        Point::CookieWork5,
        Point::CookieWork6,
        Point::CookieWork7,
        Point::CookieWork8,
    ],
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Cookie;

impl Design for Cookie {
    fn mode(&self) -> Mode {
        Mode::Cookie
    }

    fn request<'a>(&'a self, k: &'a Kernel, _work: WorkId) -> Path<'a, Requested> {
        Box::pin(async move {
            match listed::refuse(k, &POINTS).await {
                Some(refused) => refused,
                None => listed::request(k, &POINTS, id::get(k)).await,
            }
        })
    }

    fn task_work<'a>(&'a self, k: &'a Kernel, _item: TaskWork) -> Path<'a, ()> {
        Box::pin(listed::process(k, &POINTS, ENTRIES, |_| false))
    }

    /// Two conditionals: the capture may have been used without a request.
    fn begin_reset(&self, s: &mut State) -> bool {
        listed::empty_cache(s);
        if s.task.unwind.id != 0 {
            s.task.unwind.id = 0;
            s.unwind.exit_stores += 1;
        }
        false
    }

    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        Box::pin(listed::init(k, tracer))
    }

    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()> {
        Box::pin(listed::cancel(k, work))
    }
}
