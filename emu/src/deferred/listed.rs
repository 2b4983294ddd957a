//! What the two designs before Linux 7.3's share: a list of tracers under one mutex, all of
//! which are called; a flag in the task that its work is queued.
//!
//! ```text
//! request  1 id = 0   2 in NMI: -EINVAL   3 no user task: -EINVAL   4 interrupts off
//!          5 the identifier   6 pending: 1   7 task work queued   8 pending, 0
//! work     1, 2 pending is taken   4 capture   5 the identifier   6 mutex   7 every tracer
//!          8 mutex
//! ```

use std::future::Future;

use arch::Errno;

use crate::deferred::capture;
use crate::kernel::symbols::Named;
use crate::kernel::task_work::{Notify, TaskWork};
use crate::kernel::unwind::{Requested, Tracer, Work, WorkId, call_back};
use crate::kernel::{Kernel, Point, State, lock};

/// The steps' points, which are named after the design.
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// 2 to 4, 6 to 8.
    pub request: [Point; 6],
    /// 2, 5 to 8.
    pub work: [Point; 5],
}

/// 2 and 3. `None`: go on.
pub async fn refuse(k: &Kernel, points: &Points) -> Option<Requested> {
    let in_nmi = k.step(points.request[0], |s| s.cpu.level() == 3).await;
    let refused = in_nmi || !k.step(points.request[1], |s| s.task.is_user()).await;
    refused.then_some(Requested::refused(Errno::EINVAL))
}

/// 4 to 8, with 5 as the design has it.
pub async fn request(
    k: &Kernel,
    points: &Points,
    identify: impl Future<Output = u64>,
) -> Requested {
    let irqs_on = k.step(points.request[2], |s| std::mem::replace(&mut s.cpu.irqs_on, false)).await;
    let cookie = identify.await;
    let queued = queue(k, points).await;
    k.step(points.request[5], |s| {
        s.task.unwind.pending |= queued == Some(Ok(()));
        s.cpu.irqs_on = irqs_on;
    })
    .await;
    let ret = match queued {
        None => 1,
        Some(Ok(())) => 0,
        Some(Err(errno)) => errno.to_ret() as i64,
    };
    Requested { ret, cookie }
}

/// 6 and 7; `None`: it was queued already.
async fn queue(k: &Kernel, points: &Points) -> Option<Result<(), Errno>> {
    if k.step(points.request[3], |s| s.task.unwind.pending).await {
        return None;
    }
    let add = |s: &mut State| s.add_task_work(TaskWork::Unwind, Notify::Resume);
    Some(k.step(points.request[4], add).await)
}

/// The task work. `refused`: as for the capture.
pub async fn process(
    k: &Kernel,
    points: &Points,
    entries: usize,
    refused: impl FnOnce(&State) -> bool,
) {
    k.call(Named::ProcessUnwind.into()).await;
    let take = |s: &mut State| std::mem::take(&mut s.task.unwind.pending);
    if k.step(points.work[0], take).await {
        let captured = capture::capture(k, entries, refused).await;
        let (cookie, trace) = k
            .step(points.work[1], |s| {
                let trace = if captured.is_ok() { capture::cached(s) } else { Vec::new() };
                (s.task.unwind.id, trace)
            })
            .await;
        lock::lock(k, points.work[2]).await;
        let works = k.step(Point::ListRead, |s| s.unwind.list.clone()).await;
        for work in works {
            k.step(points.work[3], |_| ()).await;
            call_back(k, work, &trace, cookie).await;
        }
        lock::unlock(k, points.work[4]).await;
    }
    k.ret().await;
}

/// Registers a tracer: pushed in front under the mutex.
pub async fn init(k: &Kernel, tracer: Tracer) -> Result<WorkId, Errno> {
    let work = Work { bit: 0, tracer: Some(tracer), next: None, queued: None };
    lock::lock(k, Point::InitLock).await;
    let id = k.step(Point::InitList, |s| s.unwind.push_front(work)).await;
    lock::unlock(k, Point::InitUnlock).await;
    Ok(id)
}

/// A tracer goes away: unlinked under the mutex, so that no callback of it runs any more. Tasks
/// that have asked keep their work queued.
pub async fn cancel(k: &Kernel, work: WorkId) {
    lock::lock(k, Point::CancelK4).await;
    k.step(Point::CancelK5, |s| s.unwind.unlink(work)).await;
    lock::unlock(k, Point::CancelUnlock).await;
}

/// What is cached is forgotten.
pub fn empty_cache(s: &mut State) {
    if let Some(cache) = &mut s.task.unwind.cache {
        cache.entries.clear();
    }
}
