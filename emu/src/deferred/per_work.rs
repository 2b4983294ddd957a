//! The reviewer's sketch: the task-work item is inside the tracer's work, nothing is global but
//! the counts that cookies are made of, one on each CPU.
//!
//! ```text
//! request  1 in NMI, no user task: -EINVAL   2 interrupts off, the cookie   3 queued: 1
//!          4 the work's item goes on the task's list
//! work     1 the item is free again   2 capture   3 the one callback
//! init, cancel   the work is the tracer's own: nobody is told, there is no list and no lock
//! ```
//!
//! A work has one item, but many tasks may ask for it: while it is queued for one of them,
//! another's request changes nothing (the item cannot be on two lists), and its stack never
//! comes (RV9).
//!
//! The sketch has no cancelling, and could have none: `task_work_cancel` needs the task, and a
//! work does not say on whose list its item is. A tracer that goes away while its item is queued
//! is called afterwards (RV10).

use arch::Errno;
use unwinder::fp::unwind_user::MAX_ENTRIES;

use crate::deferred::{capture, id, listed};
use crate::kernel::step::Path;
use crate::kernel::symbols::Named;
use crate::kernel::task_work::{Notify, TaskWork};
use crate::kernel::unwind::{Design, Mode, Requested, Tracer, Work, WorkId, call_back};
use crate::kernel::{Kernel, Point, State};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct PerWork;

impl Design for PerWork {
    fn mode(&self) -> Mode {
        Mode::PerWork
    }

    fn request<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, Requested> {
        Box::pin(request(k, work))
    }

    fn task_work<'a>(&'a self, k: &'a Kernel, item: TaskWork) -> Path<'a, ()> {
        Box::pin(async move {
            if let TaskWork::UnwindOf(work) = item {
                process(k, work).await;
            }
        })
    }

    fn begin_reset(&self, s: &mut State) -> bool {
        listed::empty_cache(s);
        if s.task.unwind.id != 0 && !s.task.works.is_pending() {
            s.task.unwind.id = 0;
            s.unwind.exit_stores += 1;
        }
        false
    }

    /// What waits is done while there is a stack.
    fn exit_flush<'a>(&'a self, k: &'a Kernel) -> Path<'a, ()> {
        Box::pin(async move {
            let next = |s: &mut State| {
                let work = s.task.works.newest_unwind()?;
                s.task.works.cancel(TaskWork::UnwindOf(work));
                Some(work)
            };
            while let Some(work) = k.step(Point::UnwindFlush, next).await {
                process(k, work).await;
            }
        })
    }

    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        let work = Work { bit: 0, tracer: Some(tracer), next: None, queued: None };
        Box::pin(k.step(Point::InitList, move |s| Ok(s.unwind.push_front(work))))
    }

    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()> {
        Box::pin(k.step(Point::CancelK5, move |s| s.unwind.unlink(work)))
    }
}

async fn request(k: &Kernel, work: WorkId) -> Requested {
    let may = |s: &mut State| s.cpu.level() != 3 && s.task.is_user();
    if !k.step(Point::WorkRequest1, may).await {
        return Requested::refused(Errno::EINVAL);
    }
    let off = |s: &mut State| std::mem::replace(&mut s.cpu.irqs_on, false);
    let irqs_on = k.step(Point::WorkRequest2, off).await;
    let cookie = id::get(k).await;
    let queue = |s: &mut State| {
        let tid = s.task.tid;
        match &mut s.unwind.works[work.0 as usize].queued {
            Some(_) => 1,
            free => {
                *free = Some(tid);
                let added = s.add_task_work(TaskWork::UnwindOf(work), Notify::Resume);
                added.map_or_else(|errno| errno.to_ret() as i64, |()| 0)
            }
        }
    };
    let ret = k.step(Point::WorkRequest3, queue).await;
    k.step(Point::WorkRequest4, |s| s.cpu.irqs_on = irqs_on).await;
    Requested { ret, cookie }
}

async fn process(k: &Kernel, work: WorkId) {
    k.call(Named::ProcessUnwind.into()).await;
    k.step(Point::WorkWork1, |s| s.unwind.works[work.0 as usize].queued = None).await;
    let captured = capture::capture(k, MAX_ENTRIES, |_| false).await;
    let (cookie, trace) = k
        .step(Point::WorkWork3, |s| {
            let trace = if captured.is_ok() { capture::cached(s) } else { Vec::new() };
            (s.task.unwind.id, trace)
        })
        .await;
    call_back(k, work, &trace, cookie).await;
    k.ret().await;
}
