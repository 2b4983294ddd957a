//! `mremap` (`mm/mremap.c`).

use arch::Errno;

use crate::engine::Arena;
use crate::mem::mm::MAX_AREAS;
use crate::mem::ops::Place;
use crate::mem::{Area, Backing, Mm, PAGE, page_up};

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

/// A range that moves: where it is, what is there and how long it shall be.
struct Move {
    area: Area,
    old: u64,
    old_len: u64,
    new_len: u64,
}

impl Mm {
    /// `mremap`: the new address.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EFAULT` or `ENOMEM` as the kernel gives them; nothing has changed then.
    pub fn remap(
        &mut self,
        arena: &mut Arena,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<u64, Errno> {
        let old_end = self.range(old, old_len)?;
        let limit = self.arch.task_size();
        let new_len = page_up(new_len).filter(|&l| l != 0 && l <= limit).ok_or(Errno::EINVAL)?;
        let old_len = old_end - old;
        if flags.keep && old_len != new_len {
            return Err(Errno::EINVAL);
        }
        self.check_target(old, old_end, new_len, flags)?;
        let area = self.area(old).cloned().ok_or(Errno::EFAULT)?;
        if flags.fixed.is_none() && !flags.keep && old_len != 0 && new_len <= old_len {
            if new_len < old_len {
                self.unmap(arena, old + new_len, old_len - new_len)?;
            }
            return Ok(old);
        }
        self.check_growth(&area, old, old_len, new_len, flags)?;
        if flags.fixed.is_none() && !flags.keep && old_len != 0 {
            let grown = old.checked_add(new_len).filter(|&e| e <= self.arch.task_size());
            if let Some(end) = grown
                && old_end == area.end
                && self.fits(old_end, end)
            {
                self.resize(area.start, area.start, end);
                return Ok(old);
            }
            if !flags.may_move {
                return Err(Errno::ENOMEM);
            }
        }
        self.move_area(arena, Move { area, old, old_len, new_len }, flags)
    }

    /// The fixed new place: aligned, in user space, apart from the old one.
    fn check_target(
        &self,
        old: u64,
        old_end: u64,
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<(), Errno> {
        let Some(to) = flags.fixed else { return Ok(()) };
        let highest = self.arch.task_size().checked_sub(new_len).ok_or(Errno::EINVAL)?;
        if to % PAGE != 0 || to > highest || to < old_end && old < to + new_len {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Whether the range may have its new length (`vma_to_resize`).
    fn check_growth(
        &self,
        area: &Area,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<(), Errno> {
        let special = matches!(area.backing, Backing::Special { .. });
        // Nothing moves: only a shared area can be had twice.
        if old_len == 0 && !area.flags.shared || flags.keep && special {
            return Err(Errno::EINVAL);
        }
        // What is beyond the new length is cut off and may be anything.
        let moves = old_len.min(new_len);
        if moves > area.end - old || new_len > moves && special {
            return Err(Errno::EFAULT);
        }
        area.offset_of(old).checked_add(new_len).ok_or(Errno::EINVAL)?;
        self.may_promise(new_len - moves, area.prot, area.flags, &area.backing)?;
        self.may_expand(new_len, if flags.keep { 0 } else { moves })
    }

    fn move_area(&mut self, arena: &mut Arena, m: Move, flags: RemapFlags) -> Result<u64, Errno> {
        let place = flags.fixed.map_or(Place::Hint(0), Place::Fixed);
        let to = self.choose(place, m.new_len)?;
        // At most three borders are new, and the area itself.
        if self.areas.len() + 4 >= MAX_AREAS {
            return Err(Errno::ENOMEM);
        }
        self.clear(arena, to, to + m.new_len)?;
        let mut moved = m.area;
        if m.old > moved.start {
            moved = moved.split_off(m.old);
        }
        (moved.start, moved.end) = (to, to + m.new_len);
        if moved.flags.heap || moved.flags.grows_down {
            moved.flags.heap = false;
            moved.name = "";
        }
        for va in self.table.present_in(m.old, m.old + m.old_len.min(m.new_len)) {
            if let Some(pte) = self.table.remove(va) {
                self.table.set(to + (va - m.old), pte);
                self.stale = true;
            }
        }
        if !flags.keep && m.old_len != 0 {
            self.unmap(arena, m.old, m.old_len)?;
        }
        self.insert(moved)?;
        Ok(to)
    }
}
