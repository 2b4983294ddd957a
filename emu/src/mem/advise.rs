//! `madvise` and populating (`mm/madvise.c`).

use std::rc::Rc;

use arch::Errno;

use crate::engine::{Access, Arena};
use crate::mem::{Area, Backing, FaultKind, Mm, PAGE};

const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_WIPEONFORK: u64 = 18;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;
const MADV_DONTNEED_LOCKED: u64 = 24;
/// Advice that changes nothing a guest can see: NORMAL to WILLNEED, DONTFORK, DOFORK,
/// MERGEABLE to DODUMP, KEEPONFORK, COLD, PAGEOUT. There are no huge pages to COLLAPSE.
const MADV_HINTS: [u64; 15] = [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21];

impl Mm {
    /// `madvise`
    ///
    /// # Errors
    ///
    /// `EINVAL` for unknown advice and areas that it is not for, `ENOMEM` for a hole in
    /// the range, after the rest has been done.
    pub fn advise(
        &mut self,
        arena: &mut Arena,
        start: u64,
        len: u64,
        advice: u64,
    ) -> Result<(), Errno> {
        let known = matches!(
            advice,
            MADV_DONTNEED
                | MADV_FREE
                | MADV_REMOVE
                | MADV_WIPEONFORK
                | MADV_POPULATE_READ
                | MADV_POPULATE_WRITE
                | MADV_DONTNEED_LOCKED
        );
        if !known && !MADV_HINTS.contains(&advice) {
            return Err(Errno::EINVAL);
        }
        let end = self.range(start, len)?;
        let mut at = start;
        let mut hole = false;
        while at < end {
            let Some(area) = self.area_above(at).filter(|a| a.start < end).cloned() else {
                hole = true;
                break;
            };
            hole |= area.start > at;
            let (from, to) = (area.start.max(at), area.end.min(end));
            self.advise_area(arena, &area, (from, to), advice)?;
            at = to;
        }
        if hole { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    fn advise_area(
        &mut self,
        arena: &mut Arena,
        area: &Area,
        (from, to): (u64, u64),
        advice: u64,
    ) -> Result<(), Errno> {
        let anonymous = matches!(area.backing, Backing::Anonymous);
        match advice {
            // The pages of files and of shared memory stay with their object.
            MADV_DONTNEED | MADV_DONTNEED_LOCKED => match area.backing {
                Backing::Special { .. } => return Err(Errno::EINVAL),
                _ => self.zap(arena, from, to),
            },
            MADV_FREE | MADV_WIPEONFORK if !anonymous => return Err(Errno::EINVAL),
            MADV_FREE => self.zap(arena, from, to),
            MADV_REMOVE => return self.remove_pages(arena, area, (from, to)),
            MADV_POPULATE_READ | MADV_POPULATE_WRITE => {
                return self.populate(arena, from, to, advice == MADV_POPULATE_WRITE);
            }
            _ => {}
        }
        Ok(())
    }

    fn remove_pages(
        &mut self,
        arena: &mut Arena,
        area: &Area,
        (from, to): (u64, u64),
    ) -> Result<(), Errno> {
        let Backing::File { object, .. } = &area.backing else { return Err(Errno::EINVAL) };
        if !area.flags.shared || area.flags.read_only {
            return Err(Errno::EACCES);
        }
        let first = area.offset_of(from) / PAGE;
        self.punch(arena, &Rc::clone(object), first..first + (to - from) / PAGE)
    }

    /// Brings the pages of `start..end` in, as many as the machine has memory for.
    ///
    /// # Errors
    ///
    /// `EINVAL` if an area forbids the access, `EFAULT` beyond the end of a file,
    /// `ENOMEM` if there is no area or not enough memory.
    pub fn populate(
        &mut self,
        arena: &mut Arena,
        start: u64,
        end: u64,
        write: bool,
    ) -> Result<(), Errno> {
        let access = if write { Access::Write } else { Access::Read };
        let most = end.min(start.saturating_add(self.memory));
        for page in (start..most).step_by(PAGE as usize) {
            self.fault(arena, page, access).map_err(|fault| match fault.kind {
                FaultKind::Forbidden => Errno::EINVAL,
                FaultKind::BeyondFile => Errno::EFAULT,
                FaultKind::NotMapped | FaultKind::NoMemory => Errno::ENOMEM,
            })?;
        }
        if most < end { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}
