//! The memory system calls' work on an address space, with the kernel's errors
//! (`mm/mmap.c`, `mm/vma.c`, `mm/mprotect.c`).

use std::rc::Rc;

use arch::Errno;

use crate::engine::Arena;
use crate::mem::mm::{MAX_AREAS, MIN_ADDR, guarded};
use crate::mem::{Area, AreaFlags, Backing, Mm, Object, PAGE, Prot, page_down, page_up};

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

impl Mm {
    /// Checks `start`, `len` as the memory calls do; returns the end.
    pub(super) fn range(&self, start: u64, len: u64) -> Result<u64, Errno> {
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
        self.map_named(arena, place, (len, ""), prot, flags, backing)
    }

    /// The same, with a name for `/proc/self/maps`.
    pub fn map_named(
        &mut self,
        arena: &mut Arena,
        place: Place,
        (len, name): (u64, &'static str),
        prot: Prot,
        flags: AreaFlags,
        mut backing: Backing,
    ) -> Result<u64, Errno> {
        let len = page_up(len).filter(|&l| l != 0).ok_or(Errno::ENOMEM)?;
        if len > self.arch.task_size() {
            return Err(Errno::ENOMEM);
        }
        let start = self.choose(place, len)?;
        let end = start + len;
        // All checks come before the first change.
        self.may_expand(len, self.mapped_in(start, end))?;
        self.may_promise(len, prot, flags, &backing)?;
        if self.areas.len() + self.splits(start, end) >= MAX_AREAS {
            return Err(Errno::ENOMEM);
        }
        if flags.shared && matches!(backing, Backing::Anonymous) {
            backing = Backing::File { object: Rc::new(Object::anonymous(len)), offset: 0 };
        }
        self.clear(arena, start, end)?;
        self.insert(Area { start, end, prot, flags, backing, name })?;
        Ok(start)
    }

    /// Where a mapping of `len` bytes goes; changes nothing.
    pub(super) fn choose(&self, place: Place, len: u64) -> Result<u64, Errno> {
        let highest = self.arch.task_size().checked_sub(len).ok_or(Errno::ENOMEM)?;
        match place {
            Place::Fixed(addr) | Place::FixedNoReplace(addr) => {
                if addr % PAGE != 0 {
                    return Err(Errno::EINVAL);
                }
                if addr > highest {
                    return Err(Errno::ENOMEM);
                }
                if addr < MIN_ADDR {
                    return Err(Errno::EPERM);
                }
                if matches!(place, Place::FixedNoReplace(_)) && self.occupied(addr, addr + len) {
                    return Err(Errno::EEXIST);
                }
                Ok(addr)
            }
            Place::Hint(hint) => {
                let hint = page_down(hint);
                let fits = hint >= MIN_ADDR && hint <= highest && self.fits(hint, hint + len);
                if fits { Ok(hint) } else { self.find_gap(len) }
            }
        }
    }

    /// Whether `start..end` is free and keeps off the guard gap of a stack above.
    pub(super) fn fits(&self, start: u64, end: u64) -> bool {
        self.area_above(start).is_none_or(|a| a.start >= end && guarded(a) >= end)
    }

    /// `munmap`
    pub fn unmap(&mut self, arena: &mut Arena, start: u64, len: u64) -> Result<(), Errno> {
        let end = self.range(start, len)?;
        if len == 0 || end > self.arch.task_size() {
            return Err(Errno::EINVAL);
        }
        self.clear(arena, start, end)
    }

    /// `mprotect`
    pub fn protect(&mut self, start: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(());
        }
        let end = page_up(len).and_then(|l| start.checked_add(l)).ok_or(Errno::ENOMEM)?;
        // The kernel works area by area and stops at the first that will not have it: what
        // comes before is changed.
        let stop = self.first_refusal(start, end, prot);
        let end = stop.map_or(end, |(at, _)| at);
        for mut area in self.take(start, end)? {
            area.prot = prot;
            self.insert(area)?;
        }
        self.narrow(start, end, prot);
        stop.map_or(Ok(()), |(_, errno)| Err(errno))
    }

    /// Where `start..end` cannot get `prot`: at a hole, at an area that may never be
    /// written, where more memory would be promised than there is.
    fn first_refusal(&self, start: u64, end: u64, prot: Prot) -> Option<(u64, Errno)> {
        let mut at = start;
        while at < end {
            let Some(area) = self.area(at) else { return Some((at, Errno::ENOMEM)) };
            if prot.write && area.flags.read_only {
                return Some((at, Errno::EACCES));
            }
            let part = area.end.min(end) - at;
            if !area.prot.write
                && !area.flags.shared
                && let Err(e) = self.may_promise(part, prot, area.flags, &area.backing)
            {
                return Some((at, e));
            }
            at = area.end;
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
                pte.perms.write &= pte.owned && !pte.cow;
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
            if new_end >= self.arch.task_size()
                || !self.fits(old_end, new_end + PAGE)
                || self.may_expand(new_end - old_end, 0).is_err()
                || new_end - old_end > self.memory
            {
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
}
