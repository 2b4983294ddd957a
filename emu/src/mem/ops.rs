//! The memory system calls' work on an address space, with the kernel's errors
//! (`mm/mmap.c`, `mm/mprotect.c`, `mm/mremap.c`, `mm/madvise.c`).

use arch::Errno;

use crate::engine::Arena;
use crate::mem::mm::MIN_ADDR;
use crate::mem::{Area, AreaFlags, Backing, Mm, PAGE, Prot, page_down, page_up};

/// Where a new mapping shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere; near `hint` if that is free and not 0.
    Hint(u64),
    /// Exactly there, replacing what is there (`MAP_FIXED`).
    Fixed(u64),
    /// Exactly there or not at all (`MAP_FIXED_NOREPLACE`).
    FixedNoReplace(u64),
}

/// Flags of `mremap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RemapFlags {
    /// `MREMAP_MAYMOVE`
    pub may_move: bool,
    /// `MREMAP_FIXED` with the new address.
    pub fixed: Option<u64>,
    /// `MREMAP_DONTUNMAP`
    pub keep: bool,
}

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
    /// Checks `start`, `len` as the memory calls do; returns the end.
    fn range(&self, start: u64, len: u64) -> Result<u64, Errno> {
        let len = page_up(len).ok_or(Errno::EINVAL)?;
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        start.checked_add(len).ok_or(Errno::EINVAL)
    }

    /// Maps `len` bytes (already known to be more than 0); returns the address.
    pub fn map(
        &mut self,
        arena: &mut Arena,
        place: Place,
        len: u64,
        prot: Prot,
        flags: AreaFlags,
        backing: Backing,
    ) -> Result<u64, Errno> {
        let len = page_up(len).filter(|&l| l != 0).ok_or(Errno::ENOMEM)?;
        let limit = self.arch.task_size();
        if len > limit {
            return Err(Errno::ENOMEM);
        }
        let start = self.choose(arena, place, len)?;
        if self.total() + len > self.layout.address_limit {
            return Err(Errno::ENOMEM);
        }
        self.insert(Area { start, end: start + len, prot, flags, backing, name: "" })?;
        Ok(start)
    }

    fn choose(&mut self, arena: &mut Arena, place: Place, len: u64) -> Result<u64, Errno> {
        let limit = self.arch.task_size();
        match place {
            Place::Fixed(addr) | Place::FixedNoReplace(addr) => {
                if addr % PAGE != 0 {
                    return Err(Errno::EINVAL);
                }
                if addr > limit - len {
                    return Err(Errno::ENOMEM);
                }
                if addr < MIN_ADDR {
                    return Err(Errno::EPERM);
                }
                if self.occupied(addr, addr + len) {
                    if matches!(place, Place::FixedNoReplace(_)) {
                        return Err(Errno::EEXIST);
                    }
                    self.unmap(arena, addr, len)?;
                }
                Ok(addr)
            }
            Place::Hint(hint) => {
                let hint = page_down(hint);
                let fits = hint >= MIN_ADDR && hint <= limit - len;
                if fits && !self.occupied(hint, hint + len) {
                    return Ok(hint);
                }
                self.find_gap(len)
            }
        }
    }

    /// `munmap`
    pub fn unmap(&mut self, arena: &mut Arena, start: u64, len: u64) -> Result<(), Errno> {
        let end = self.range(start, len)?;
        if len == 0 || end > self.arch.task_size() {
            return Err(Errno::EINVAL);
        }
        self.take(start, end)?;
        self.zap(arena, start, end);
        Ok(())
    }

    /// `mprotect`
    pub fn protect(&mut self, start: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        let end = page_up(len).and_then(|l| start.checked_add(l)).ok_or(Errno::ENOMEM)?;
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(());
        }
        // The kernel works area by area and stops at the first hole: what comes before
        // it is changed.
        let hole = self.first_hole(start, end);
        let areas = self.take(start, hole.unwrap_or(end))?;
        for mut area in areas {
            area.prot = prot;
            self.insert(area)?;
        }
        self.narrow(start, hole.unwrap_or(end), prot);
        if hole.is_some() { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    fn first_hole(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        while at < end {
            match self.area(at) {
                Some(area) => at = area.end,
                None => return Some(at),
            }
        }
        None
    }

    /// Brings the present pages' permissions down to the area's. Pages that are shared
    /// until the first store stay read-only.
    fn narrow(&mut self, start: u64, end: u64, prot: Prot) {
        let perms = prot.hardware();
        for va in self.table.present_in(start, end) {
            if prot == Prot::NONE {
                if let Some(pte) = self.table.get_mut(va) {
                    pte.perms = perms;
                }
            } else if let Some(pte) = self.table.get_mut(va) {
                pte.perms = perms;
                pte.perms.write &= pte.owned;
            }
            self.stale = true;
        }
    }

    /// `brk`: the new break, or the old one if `want` cannot be had.
    pub fn set_brk(&mut self, arena: &mut Arena, want: u64) -> u64 {
        let start = self.layout.brk_start;
        if want < start || want - start > self.layout.data_limit {
            return self.brk;
        }
        let (Some(old_end), Some(new_end)) = (page_up(self.brk), page_up(want)) else {
            return self.brk;
        };
        if new_end > old_end {
            let flags = AreaFlags { heap: true, ..AreaFlags::default() };
            // One page is kept free before the next mapping.
            if new_end >= self.arch.task_size() || self.occupied(old_end, new_end + PAGE) {
                return self.brk;
            }
            let heap = Area {
                start: old_end,
                end: new_end,
                prot: Prot::RW,
                flags,
                backing: Backing::Anonymous,
                name: "[heap]",
            };
            if self.insert(heap).is_err() {
                return self.brk;
            }
        } else if new_end < old_end && self.unmap(arena, new_end, old_end - new_end).is_err() {
            return self.brk;
        }
        self.brk = want;
        want
    }

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
        use crate::engine::Access;
        let access = if write { Access::Write } else { Access::Read };
        for page in (start..end).step_by(PAGE as usize) {
            self.fault(arena, page, access).map_err(|_| Errno::EFAULT)?;
        }
        Ok(())
    }

    /// `mremap`: the new address.
    pub fn remap(
        &mut self,
        arena: &mut Arena,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<u64, Errno> {
        let old_end = self.range(old, old_len)?;
        let new_len = page_up(new_len).filter(|&l| l != 0).ok_or(Errno::EINVAL)?;
        let old_len = old_end - old;
        if flags
            .fixed
            .is_some_and(|to| to % PAGE != 0 || to < old_end && old < to.saturating_add(new_len))
        {
            return Err(Errno::EINVAL);
        }
        let area = self.area(old).cloned().ok_or(Errno::EFAULT)?;
        if old_len == 0 || flags.keep && (old_len != new_len || area.flags.shared) {
            return Err(Errno::EINVAL);
        }
        if flags.fixed.is_none() && !flags.keep {
            if new_len <= old_len {
                if new_len < old_len {
                    self.unmap(arena, old + new_len, old_len - new_len)?;
                }
                return Ok(old);
            }
            if old_end > area.end {
                return Err(Errno::EFAULT);
            }
            if old_end == area.end && self.grow_in_place(&area, old, new_len) {
                return Ok(old);
            }
            if !flags.may_move {
                return Err(Errno::ENOMEM);
            }
        }
        if old_end > area.end {
            return Err(Errno::EFAULT);
        }
        self.move_area(arena, &area, (old, old_len), new_len, flags)
    }

    fn grow_in_place(&mut self, area: &Area, old: u64, new_len: u64) -> bool {
        let Some(end) = old.checked_add(new_len) else { return false };
        if end > self.arch.task_size() || self.occupied(area.end, end) {
            return false;
        }
        if let Some(area) = self.areas.get_mut(&area.start) {
            area.end = end;
        }
        true
    }

    fn move_area(
        &mut self,
        arena: &mut Arena,
        area: &Area,
        (old, old_len): (u64, u64),
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<u64, Errno> {
        let place = flags.fixed.map_or(Place::Hint(0), Place::Fixed);
        let to = self.choose(arena, place, new_len)?;
        let mut moved = area.clone();
        if old > moved.start {
            moved = moved.split_off(old);
        }
        (moved.start, moved.end) = (to, to + new_len);
        moved.flags.heap = false;
        moved.name = "";
        for va in self.table.present_in(old, old + old_len.min(new_len)) {
            if let Some(pte) = self.table.remove(va) {
                self.table.set(to + (va - old), pte);
                self.stale = true;
            }
        }
        if !flags.keep {
            self.unmap(arena, old, old_len)?;
        }
        self.insert(moved)?;
        Ok(to)
    }
}
