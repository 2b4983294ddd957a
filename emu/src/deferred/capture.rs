//! `unwind_user_faultable`: the user stack goes into the task's cache.
//!
//! ```text
//! C1  no memory: -EINVAL                  C5  walk of at most 510 entries
//! C2  no cache: allocated, or -ENOMEM     C6  the cache has them
//! C3, C4  something is cached: that       C7  USED (mask design)
//! ```
//!
//! Loads fault pages in: this is task context. The walk stops at an absent page, which a page
//! fault brings in, step by step, and begins again.

use arch::Errno;
use unwinder::sframe::process;
use unwinder::{Memory, fp};

use crate::engine::{Access, Arena};
use crate::kernel::{Kernel, Point, State, fault};
use crate::mem::{Mm, PAGE, page_down};

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
        let allocate = |s: &mut State| {
            s.task.unwind.cache = s.unwind.allocate_cache();
            s.task.unwind.cache.is_none()
        };
        if k.step(Point::CaptureAllocate, allocate).await {
            return Err(Errno::ENOMEM);
        }
    }
    let cached = |s: &mut State| s.task.unwind.cache.as_ref().map_or(0, |c| c.entries.len());
    if k.step(Point::CaptureC4, cached).await != 0 {
        return Ok(());
    }
    let walked = walk_faulting(k, entries).await;
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

/// C5, from the beginning again after each page that came in. One that cannot be had is
/// unreadable from then on.
async fn walk_faulting(k: &Kernel, max: usize) -> Vec<u64> {
    let mut lost = Vec::new();
    loop {
        match k.step(Point::CaptureC5, |s| walk(s, max, &lost)).await {
            Walk::Whole(trace) => return trace,
            Walk::Absent(page) => {
                if !fault::of_kernel(k, page).await {
                    lost.push(page);
                }
            }
        }
    }
}

/// What a walk came to.
#[derive(Debug, Hash)]
enum Walk {
    /// Its end.
    Whole(Vec<u64>),
    /// A page that is absent and could come in.
    Absent(u64),
}

/// A walk up to the first page that has to be brought in.
fn walk(s: &mut State, max: usize, lost: &[u64]) -> Walk {
    let registry = s.mm.sframe.clone();
    match walk_present(s, max, lost) {
        (_, Some(page)) => {
            // A section that is absent is not one that is broken.
            s.mm.sframe = registry;
            Walk::Absent(page)
        }
        (trace, None) => {
            s.spend(FRAME_COST * trace.len() as u64);
            Walk::Whole(trace)
        }
    }
}

/// U1 to U5 and the walk: by frame pointer, or at each frame by the process's SFrame sections
/// first. Also the first page that was absent.
fn walk_present(s: &mut State, max: usize, lost: &[u64]) -> (Vec<u64>, Option<u64>) {
    let mut trace = Vec::new();
    let regs = s.user_regs();
    let mut store = |ip| trace.push(ip);
    let mut registry = s.mm.sframe.take();
    let mut memory = Probe { mm: &s.mm, arena: &s.arena, lost, absent: None };
    if let Some(registry) = &mut registry {
        process::walk(registry, &regs, max, &mut memory, &mut store);
    } else if let Some(start) = fp::unwind_user::State::start(&regs, false) {
        // The "at a function's start" mark is set only while a uprobe's handlers run.
        fp::unwind_user::walk(start, max, &mut memory, &mut store);
    }
    let absent = memory.absent;
    s.mm.sframe = registry;
    (trace, absent)
}

/// User memory that is present; what is absent and could be brought in is noted.
struct Probe<'a> {
    mm: &'a Mm,
    arena: &'a Arena,
    /// Pages that cannot be had.
    lost: &'a [u64],
    /// The first such page.
    absent: Option<u64>,
}

impl Memory for Probe<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        // After a page that is absent the walk is none.
        if self.absent.is_some() {
            return false;
        }
        if self.mm.peek(self.arena, address, bytes) {
            return true;
        }
        let end = address.saturating_add(bytes.len() as u64);
        let readable = |page: &u64| {
            let area = self.mm.area(*page).filter(|a| a.prot.allows(Access::Read));
            let lost = self.lost.contains(page);
            area.is_some() && !lost && self.mm.table.get(*page).is_none_or(|pte| !pte.perms.read)
        };
        let mut pages = (page_down(address)..end).step_by(PAGE as usize);
        self.absent = pages.find(readable);
        false
    }
}
