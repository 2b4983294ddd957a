//! `madvise` and populating (`mm/madvise.c`).

use arch::Errno;

use crate::engine::{Access, Arena};
use crate::mem::{Mm, PAGE};

const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;
const MADV_DONTNEED_LOCKED: u64 = 24;
/// Advice that changes nothing a guest can see: NORMAL..WILLNEED, DONTFORK..HWPOISON-1,
/// MERGEABLE..COLD, PAGEOUT, COLLAPSE.
const MADV_HINTS: [u64; 16] = [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];

impl Mm {
    /// `madvise`
    pub fn advise(
        &mut self,
        arena: &mut Arena,
        start: u64,
        len: u64,
        advice: u64,
    ) -> Result<(), Errno> {
        let zaps = matches!(advice, MADV_DONTNEED | MADV_FREE | MADV_DONTNEED_LOCKED);
        let populates = matches!(advice, MADV_POPULATE_READ | MADV_POPULATE_WRITE);
        if !zaps && !populates && advice != MADV_REMOVE && !MADV_HINTS.contains(&advice) {
            return Err(Errno::EINVAL);
        }
        let end = self.range(start, len)?;
        let mut at = start;
        let mut hole = false;
        while at < end {
            let Some(area) = self.area_above(at).filter(|a| a.start < end) else {
                hole = true;
                break;
            };
            hole |= area.start > at;
            let (from, to) = (area.start.max(at), area.end.min(end));
            if zaps {
                self.zap(arena, from, to);
            } else if populates {
                self.populate(arena, from, to, advice == MADV_POPULATE_WRITE)?;
            }
            at = to;
        }
        if hole { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Brings all pages of `start..end` in.
    pub fn populate(
        &mut self,
        arena: &mut Arena,
        start: u64,
        end: u64,
        write: bool,
    ) -> Result<(), Errno> {
        let access = if write { Access::Write } else { Access::Read };
        for page in (start..end).step_by(PAGE as usize) {
            self.fault(arena, page, access).map_err(|_| Errno::EFAULT)?;
        }
        Ok(())
    }
}
