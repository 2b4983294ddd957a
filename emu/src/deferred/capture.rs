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
use unwinder::{Memory, fp};

use crate::engine::Arena;
use crate::kernel::unwind::Cache;
use crate::kernel::{Kernel, Point, State};
use crate::mem::Mm;

/// User memory for those who may sleep.
struct Faultable<'a> {
    mm: &'a mut Mm,
    arena: &'a mut Arena,
}

impl Memory for Faultable<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.mm.read(self.arena, address, bytes).is_ok()
    }
}

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
    if k.step(Point::CaptureC1, |s| refused(s) || !s.task.has_mm).await {
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

/// U1 to U5 and the walk by frame pointer.
fn walk(s: &mut State, max: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    let regs = s.user_regs();
    // The "at a function's start" mark is set only while a uprobe's handlers run.
    if let Some(start) = fp::unwind_user::State::start(&regs, false) {
        let State { mm, arena, .. } = s;
        fp::unwind_user::walk(start, max, &mut Faultable { mm, arena }, &mut |ip| trace.push(ip));
    }
    s.spend(FRAME_COST * trace.len() as u64);
    trace
}
