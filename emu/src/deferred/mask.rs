//! Linux 7.3: a bit for each tracer, a mask in each task, SRCU around the callbacks.
//!
//! ```text
//! task.mask = PENDING | USED | bits of the tracers that asked since the last reset
//! ```

use arch::Errno;
use unwinder::fp::unwind_user::MAX_ENTRIES;

use crate::deferred::{capture, id};
use crate::kernel::step::Path;
use crate::kernel::symbols::Named;
use crate::kernel::task::TaskId;
use crate::kernel::task_work::{Notify, TaskWork};
use crate::kernel::unwind::{Design, Mode, Requested, Tracer, Work, WorkId, call_back};
use crate::kernel::{Kernel, Point, State, lock};

/// Task work is queued.
pub const PENDING: u64 = 1;
/// Something was captured.
pub const USED: u64 = 2;
/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Mask;

impl Design for Mask {
    fn mode(&self) -> Mode {
        Mode::Mask
    }

    fn request<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, Requested> {
        Box::pin(request(k, work))
    }

    fn task_work<'a>(&'a self, k: &'a Kernel, _item: TaskWork) -> Path<'a, ()> {
        Box::pin(process(k))
    }

    /// R1.
    fn begin_reset(&self, s: &mut State) -> bool {
        s.task.unwind.mask != 0
    }

    fn reset<'a>(&'a self, k: &'a Kernel) -> Path<'a, ()> {
        Box::pin(reset(k))
    }

    fn exit_flush<'a>(&'a self, k: &'a Kernel) -> Path<'a, ()> {
        Box::pin(async move {
            if k.step(Point::UnwindFlush, |s| s.task.unwind.mask & PENDING != 0).await {
                process(k).await;
                k.step(Point::UnwindFlushCancel, |s| s.task.works.cancel(TaskWork::Unwind)).await;
            }
        })
    }

    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        Box::pin(init(k, tracer))
    }

    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()> {
        Box::pin(cancel(k, work))
    }
}

/// Q1 to Q12.
async fn request(k: &Kernel, work: WorkId) -> Requested {
    if !k.step(Point::RequestQ2, |s| s.task.is_user()).await {
        return Requested::refused(Errno::EINVAL);
    }
    let in_nmi = k.step(Point::RequestQ3, |s| s.cpu.level() == 3).await;
    let notify = if in_nmi { Notify::NmiCurrent } else { Notify::Resume };
    // Q4: the guard against -1 never fires, the variable has no sign. Q5: the shift takes the
    // low six bits (H7).
    let bit = k.step(Point::RequestQ4, |s| s.unwind.works[work.0 as usize].bit).await;
    let bit = 1u64.wrapping_shl(bit as u32);
    let irqs_on = k.step(Point::RequestQ6, |s| std::mem::replace(&mut s.cpu.irqs_on, false)).await;
    let answer = request_irqs_off(k, bit, notify).await;
    k.step(Point::RequestQ12, |s| s.cpu.irqs_on = irqs_on).await;
    answer
}

/// Q7 to Q11.
async fn request_irqs_off(k: &Kernel, bit: u64, notify: Notify) -> Requested {
    let cookie = id::get(k).await;
    let old = k.step(Point::RequestQ8, |s| s.task.unwind.mask).await;
    if old & bit != 0 {
        return Requested { ret: 1, cookie };
    }
    let old = k
        .step(Point::RequestQ9, |s| {
            let mask = s.task.unwind.mask;
            s.task.unwind.mask = mask | PENDING | bit;
            mask
        })
        .await;
    if old & (PENDING | bit) != 0 {
        // Q10: the bit itself, as an `int`.
        return Requested { ret: i64::from((old & bit) as i32), cookie };
    }
    let added = k
        .step(Point::RequestQ11, |s| {
            let added = s.add_task_work(TaskWork::Unwind, notify);
            if added.is_err() {
                s.task.unwind.mask = 0;
            }
            added
        })
        .await;
    let ret = added.map_or_else(|errno| errno.to_ret() as i64, |()| 0);
    Requested { ret, cookie }
}

/// P1 to P9.
async fn process(k: &Kernel) {
    k.call(Named::ProcessUnwind.into()).await;
    let pending = |s: &mut State| s.task.unwind.mask & PENDING != 0;
    if k.step(Point::ProcessP1, pending).await {
        let bits = k
            .step(Point::ProcessP2, |s| {
                let mask = s.task.unwind.mask;
                s.task.unwind.mask = mask & !PENDING;
                mask
            })
            .await;
        serve(k, bits).await;
    }
    k.ret().await;
}

/// P3 to P9.
async fn serve(k: &Kernel, mut bits: u64) {
    let captured = capture::capture(k, MAX_ENTRIES, |_| false).await;
    if captured.is_ok() {
        k.step(Point::CaptureC7, |s| s.task.unwind.mask |= USED).await;
    }
    let completed = |s: &mut State| s.task.unwind.cache.as_ref().map(|c| c.completed);
    if let Some(completed) = k.step(Point::ProcessP5, completed).await {
        bits &= !completed;
    }
    let (cookie, trace) = k
        .step(Point::ProcessP6, |s| {
            let trace = if captured.is_ok() { capture::cached(s) } else { Vec::new() };
            (s.task.unwind.id, trace)
        })
        .await;
    let (reader, mut next) =
        k.step(Point::ProcessP7, |s| (s.unwind.srcu.enter(), s.unwind.list.first().copied())).await;
    while let Some(work) = next {
        let asked = |s: &mut State| {
            let bit = s.unwind.works[work.0 as usize].bit;
            bit >= 0 && bits >> bit & 1 != 0
        };
        if k.step(Point::ProcessP8, asked).await {
            call_back(k, work, &trace, cookie).await;
            complete(k, work).await;
        }
        next = k.step(Point::ProcessP8Next, |s| s.unwind.after(work)).await;
    }
    k.step(Point::ProcessP9, |s| s.leave_srcu(reader)).await;
}

/// The end of P8: the bit is read again after the callback, and what was served is changed by a
/// plain load and store, between which K9 may clear a bit there (H10).
async fn complete(k: &Kernel, work: WorkId) {
    let load = |s: &mut State| {
        let bit = s.unwind.works[work.0 as usize].bit;
        (bit, s.task.unwind.cache.as_ref().map(|c| c.completed))
    };
    let (bit, completed) = k.step(Point::ProcessP8Load, load).await;
    k.step(Point::ProcessP8Completed, |s| {
        if let (Some(completed), Some(cache)) = (completed, &mut s.task.unwind.cache) {
            cache.completed = completed | 1u64.wrapping_shl(bit as u32);
        }
    })
    .await;
}

/// R2 to R6; R1 was [`Design::begin_reset`].
async fn reset(k: &Kernel) {
    // R3: an NMI's change in between starts it again.
    let mut bits = k.step(Point::ResetR2, |s| s.task.unwind.mask).await;
    loop {
        if bits & PENDING != 0 {
            return;
        }
        let found = k
            .step(Point::ResetR3, |s| {
                let mask = s.task.unwind.mask;
                if mask == bits {
                    s.task.unwind.mask = 0;
                    s.unwind.exit_stores += 1;
                }
                mask
            })
            .await;
        if found == bits {
            break;
        }
        bits = found;
    }
    k.step(Point::ResetR4, |s| s.task.unwind.id = 0).await;
    let clear = |s: &mut State| s.task.unwind.cache.as_mut().map(|c| c.entries.clear()).is_some();
    if k.step(Point::ResetR5, clear).await {
        k.step(Point::ResetR6, |s| {
            if let Some(cache) = &mut s.task.unwind.cache {
                cache.completed = 0;
            }
        })
        .await;
    }
}

async fn init(k: &Kernel, tracer: Tracer) -> Result<WorkId, Errno> {
    lock::lock(k, Point::InitLock).await;
    let registered = k
        .step(Point::InitList, |s| {
            let free = (!s.unwind.mask).trailing_zeros();
            if free == 64 {
                return Err(Errno::EBUSY);
            }
            s.unwind.mask |= 1 << free;
            // A traversal may meet it before it has its function.
            Ok(s.unwind.push_front(Work {
                bit: free as i32,
                tracer: None,
                next: None,
                queued: None,
            }))
        })
        .await;
    if let Ok(WorkId(index)) = registered {
        k.step(Point::InitFunction, |s| s.unwind.works[index as usize].tracer = Some(tracer)).await;
    }
    lock::unlock(k, Point::InitUnlock).await;
    registered
}

/// K1 to K9.
async fn cancel(k: &Kernel, work: WorkId) {
    let bit = k.step(Point::CancelK2, |s| s.unwind.works[work.0 as usize].bit).await;
    // K3: the shift takes the low six bits, so that -1 passes for 63 (H9).
    let mask = 1u64.wrapping_shl(bit as u32);
    if k.step(Point::CancelK3, |_| mask & (PENDING | USED) != 0).await {
        return;
    }
    lock::lock(k, Point::CancelK4).await;
    // K5: of a work that is not in the list any more the kernel's list debugging keeps it from
    // harm.
    k.step(Point::CancelK5, |s| s.unwind.unlink(work)).await;
    k.step(Point::CancelK6, |s| s.unwind.works[work.0 as usize].bit = -1).await;
    // Of a bit of -1 (H9) the words before the global mask and before each cache are changed, which
    // are somebody else's; but of each task's mask it is bit 63.
    let own = if bit < 0 { 0 } else { mask };
    k.step(Point::CancelK7, |s| s.unwind.mask &= !own).await;
    lock::synchronize(k, Point::CancelK8).await;
    let mut from = Some(TaskId(0));
    while let Some(id) = from {
        // Every thread in the task list, one after the other.
        from = k
            .step(Point::CancelK9, |s| {
                let next = s.tasks().map(|t| t.id).find(|&t| t > id)?;
                let info = &mut s.task_mut(next)?.unwind;
                info.mask &= !mask;
                if let Some(cache) = &mut info.cache {
                    cache.completed &= !own;
                }
                Some(next)
            })
            .await;
    }
    lock::unlock(k, Point::CancelUnlock).await;
}
