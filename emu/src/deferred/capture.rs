//! `unwind_user_faultable`: the user stack goes into the task's cache.
//!
//! ```text
//! C1  no memory: -EINVAL                  C5  walk of at most 510 entries
//! C2  no cache: allocated, or -ENOMEM     C6  the cache has them
//! C3, C4  something is cached: that       C7  USED (mask design)
//! ```
//!
//! Loads fault pages in: this is task context.

use arch::Errno;
use unwinder::fp;
use unwinder::sframe::process;

use crate::kernel::unwind::Cache;
use crate::kernel::{Kernel, Point, State};

/// Instructions that the walk spends on a frame.
const FRAME_COST: u64 = 24;

/// C1 to C6. `refused`: the design does not capture this task's stack now.
///
/// # Errors
///
/// `EINVAL`, `ENOMEM`: nothing was captured.
pub async fn capture(
    k: &Kernel,
    entries: usize,
    refused: impl FnOnce(&State) -> bool,
) -> Result<(), Errno> {
    if k.step(Point::CaptureC1, |s| refused(s) || s.task.mm.is_none()).await {
        return Err(Errno::EINVAL);
    }
    if k.step(Point::CaptureC2, |s| s.task.unwind.cache.is_none()).await {
        k.step(Point::CaptureAllocate, |s| s.task.unwind.cache = Some(Cache::default())).await;
    }
    let cached = |s: &mut State| s.task.unwind.cache.as_ref().map_or(0, |c| c.entries.len());
    if k.step(Point::CaptureC4, cached).await != 0 {
        return Ok(());
    }
    let walked = k.step(Point::CaptureC5, |s| walk(s, entries)).await;
    k.step(Point::CaptureC6, |s| {
        if let Some(cache) = &mut s.task.unwind.cache {
            cache.entries = walked;
        }
    })
    .await;
    Ok(())
}

/// The stack in the cache.
pub fn cached(s: &State) -> Vec<u64> {
    s.task.unwind.cache.as_ref().map_or_else(Vec::new, |c| c.entries.clone())
}

/// U1 to U5 and the walk: by frame pointer, or at each frame by the process's SFrame sections
/// first.
fn walk(s: &mut State, max: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    let regs = s.user_regs();
    let mut store = |ip| trace.push(ip);
    if let Some(mut registry) = s.mm.sframe.take() {
        process::walk(&mut registry, &regs, max, &mut s.faultable(), &mut store);
        s.mm.sframe = Some(registry);
    } else if let Some(start) = fp::unwind_user::State::start(&regs, false) {
        // The "at a function's start" mark is set only while a uprobe's handlers run.
        fp::unwind_user::walk(start, max, &mut s.faultable(), &mut store);
    }
    s.spend(FRAME_COST * trace.len() as u64);
    trace
}
