//! An address space: areas in order, the program break, the stack; finding room.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use arch::{Arch, Errno};
use unwinder::sframe::Registry;

use crate::engine::{Arena, Frame};
use crate::mem::{Area, AreaFlags, Backing, Object, PAGE, PageTable, Prot, page_down};

/// `vm.max_map_count`
pub const MAX_AREAS: usize = 65530;
/// `vm.mmap_min_addr`
pub const MIN_ADDR: u64 = 0x10000;
/// Pages kept free below a growing stack (`stack_guard_gap`).
pub const STACK_GUARD: u64 = 256 * PAGE;

/// Sizes of free ranges are told apart by their power of two in pages.
const CLASSES: usize = 52;

/// Fixed places of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmLayout {
    /// One past the highest address that `mmap` chooses.
    pub mmap_base: u64,
    /// First address of the program break.
    pub brk_start: u64,
    /// One past the stack.
    pub stack_top: u64,
    /// Soft limit of the stack in bytes (`RLIMIT_STACK`).
    pub stack_limit: u64,
    /// Soft limit of data in bytes (`RLIMIT_DATA`).
    pub data_limit: u64,
    /// Soft limit of the address space in bytes (`RLIMIT_AS`).
    pub address_limit: u64,
}

/// Names an address space; none is used twice in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MmId(pub u32);

/// A breakpoint of the kernel's in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uprobe {
    /// Where.
    pub addr: u64,
    /// The code that was there, zeros behind the end of its page.
    pub code: [u8; 16],
    /// Number of its place.
    pub place: u16,
}

/// One address space.
#[derive(Debug)]
pub struct Mm {
    /// Its name.
    pub id: MmId,
    /// Tasks that have it; at 0 its pages are free.
    pub users: u32,
    /// Architecture, for limits.
    pub arch: Arch,
    /// Fixed places.
    pub layout: MmLayout,
    /// Areas by first address, not overlapping.
    pub(super) areas: BTreeMap<u64, Area>,
    /// Sum of the areas' lengths.
    pub(super) total: u64,
    /// `tops[k]`: no free range of 2^k pages or more ends above it.
    pub(super) tops: Cell<[u64; CLASSES]>,
    /// Present pages.
    pub table: PageTable,
    /// Current program break.
    pub brk: u64,
    /// The shared page of zeros.
    pub zero: Frame,
    /// The CPU may hold translations that are no longer true.
    pub stale: bool,
    /// Bytes of the machine's memory: one request may not be for more (the heuristic
    /// overcommit of `__vm_enough_memory`).
    pub memory: u64,
    /// Addresses at which copies by the kernel faulted, not yet accounted.
    pub kernel_faults: Vec<u64>,
    /// SFrame sections that were registered for it, in a kernel that takes them.
    pub sframe: Option<Registry>,
    /// Breakpoints in its code.
    pub uprobes: Vec<Uprobe>,
    /// Where probed functions return to, once there is such a page.
    pub trampoline: Option<u64>,
}

impl Mm {
    /// An address space without areas; `None` when guest memory is exhausted.
    pub fn new(id: MmId, arch: Arch, layout: MmLayout, arena: &mut Arena) -> Option<Mm> {
        Some(Mm {
            id,
            users: 1,
            arch,
            layout,
            areas: BTreeMap::new(),
            total: 0,
            tops: Cell::new([u64::MAX; CLASSES]),
            table: PageTable::default(),
            brk: layout.brk_start,
            zero: arena.alloc()?,
            stale: false,
            memory: arena.len(),
            kernel_faults: Vec::new(),
            sframe: None,
            uprobes: Vec::new(),
            trampoline: None,
        })
    }

    /// The area that holds `addr`.
    pub fn area(&self, addr: u64) -> Option<&Area> {
        let (_, area) = self.areas.range(..=addr).next_back()?;
        (addr < area.end).then_some(area)
    }

    /// The lowest area that ends above `addr` (the kernel's `find_vma`).
    pub fn area_above(&self, addr: u64) -> Option<&Area> {
        self.area(addr).or_else(|| self.areas.range(addr..).next().map(|(_, a)| a))
    }

    /// Whether any area overlaps `start..end`.
    pub fn occupied(&self, start: u64, end: u64) -> bool {
        self.area_above(start).is_some_and(|a| a.start < end)
    }

    /// All areas in order of address.
    pub fn areas(&self) -> impl Iterator<Item = &Area> {
        self.areas.values()
    }

    /// Total length of all areas in bytes.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Whether `more` bytes fit below `RLIMIT_AS` once `less` of the present ones are gone
    /// (`may_expand_vm`).
    pub fn may_expand(&self, more: u64, less: u64) -> Result<(), Errno> {
        let after = (self.total - less.min(self.total)).checked_add(more);
        match after {
            Some(total) if total <= self.layout.address_limit => Ok(()),
            _ => Err(Errno::ENOMEM),
        }
    }

    /// Whether `len` more bytes can be promised to an area of this kind: private memory
    /// that can be written and shared anonymous memory are accounted, unless
    /// `MAP_NORESERVE` says not to.
    pub(super) fn may_promise(
        &self,
        len: u64,
        prot: Prot,
        flags: AreaFlags,
        backing: &Backing,
    ) -> Result<(), Errno> {
        let shared_memory = flags.shared && matches!(backing, Backing::Anonymous);
        let accounted = !flags.no_reserve && (shared_memory || !flags.shared && prot.write);
        if accounted && len > self.memory { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The highest free range of `len` bytes (a multiple of the page size) below the
    /// mapping base, as a top-down `mmap` finds it.
    pub fn find_gap(&self, len: u64) -> Result<u64, Errno> {
        let class = (len / PAGE).checked_ilog2().unwrap_or(0) as usize;
        let wanted = 1 << class;
        let mut tops = self.tops.get();
        let mut end = self.layout.mmap_base.min(tops[class]);
        // Where the first free range of this class was seen: later searches start there.
        let mut top = None;
        for area in self.areas.range(..end).rev().map(|(_, a)| a) {
            let room = end.saturating_sub(area.end);
            if room / PAGE >= wanted {
                top.get_or_insert(end);
            }
            if room >= len {
                tops[class] = top.unwrap_or(end);
                self.tops.set(tops);
                return Ok(end - len);
            }
            end = end.min(guarded(area));
        }
        tops[class] = top.unwrap_or(end);
        self.tops.set(tops);
        if end >= len && end - len >= MIN_ADDR { Ok(end - len) } else { Err(Errno::ENOMEM) }
    }

    /// Removes what is mapped in `start..end`.
    pub(super) fn clear(&mut self, arena: &mut Arena, start: u64, end: u64) -> Result<(), Errno> {
        if self.occupied(start, end) {
            self.take(start, end)?;
            self.zap(arena, start, end);
            self.freed(end);
        }
        Ok(())
    }

    /// Remembers that the addresses below `end` may be free.
    fn freed(&mut self, end: u64) {
        let next = self.areas.range(end..).next().map_or(u64::MAX, |(_, a)| guarded(a));
        let mut tops = self.tops.get();
        for top in &mut tops {
            *top = next.max(end).max(*top);
        }
        self.tops.set(tops);
    }

    /// Adds an area, which must not overlap another, merged with its neighbours.
    pub fn insert(&mut self, mut area: Area) -> Result<(), Errno> {
        if self.areas.len() >= MAX_AREAS {
            return Err(Errno::ENOMEM);
        }
        self.total += area.len();
        if let Some((&key, before)) = self.areas.range(..area.start).next_back()
            && before.continues(&area)
            && let Some(mut before) = self.areas.remove(&key)
        {
            before.end = area.end;
            area = before;
        }
        if let Some(after) = self.areas.get(&area.end)
            && area.continues(after)
            && let Some(after) = self.areas.remove(&area.end)
        {
            area.end = after.end;
        }
        self.areas.insert(area.start, area);
        Ok(())
    }

    /// Makes `at` a boundary between areas.
    pub fn split_at(&mut self, at: u64) -> Result<(), Errno> {
        let Some((&key, area)) = self.areas.range(..at).next_back() else { return Ok(()) };
        if at >= area.end {
            return Ok(());
        }
        if self.areas.len() >= MAX_AREAS {
            return Err(Errno::ENOMEM);
        }
        if let Some(area) = self.areas.get_mut(&key) {
            let tail = area.split_off(at);
            self.areas.insert(at, tail);
        }
        Ok(())
    }

    /// Takes the areas of `start..end` out, split at the borders; their pages stay.
    pub fn take(&mut self, start: u64, end: u64) -> Result<Vec<Area>, Errno> {
        self.split_at(start)?;
        self.split_at(end)?;
        let keys: Vec<u64> = self.areas.range(start..end).map(|(&k, _)| k).collect();
        let areas: Vec<Area> = keys.into_iter().filter_map(|k| self.areas.remove(&k)).collect();
        self.total -= areas.iter().map(Area::len).sum::<u64>();
        Ok(areas)
    }

    /// Moves a border of the area that starts at `key`; the new range is free.
    pub(super) fn resize(&mut self, key: u64, start: u64, end: u64) {
        if let Some(mut area) = self.areas.remove(&key) {
            self.total = self.total - area.len() + (end - start);
            (area.start, area.end) = (start, end);
            self.areas.insert(start, area);
        }
    }

    /// Borders inside areas that [`Mm::take`] of `start..end` would split.
    pub(super) fn splits(&self, start: u64, end: u64) -> usize {
        [start, end].into_iter().filter(|&at| self.area(at).is_some_and(|a| a.start < at)).count()
    }

    /// Mapped bytes in `start..end`.
    pub(super) fn mapped_in(&self, start: u64, end: u64) -> u64 {
        let first = self.area(start).map_or(start, |a| a.start);
        let inside = |a: &Area| a.end.min(end) - a.start.max(start);
        self.areas.range(first..end).map(|(_, a)| inside(a)).sum()
    }

    /// Drops the pages of `object` in `pages` from all its mappings; `private` says that
    /// private copies go too (`unmap_mapping_range`).
    fn forget(&mut self, arena: &mut Arena, object: &Rc<Object>, pages: Range<u64>, private: bool) {
        let ranges: Vec<(u64, u64)> = (self.areas.values())
            .filter_map(|area| match &area.backing {
                Backing::File { object: o, offset } if Rc::ptr_eq(o, object) => {
                    let first = offset / PAGE;
                    let at = |page: u64| {
                        let before = page.saturating_sub(first).saturating_mul(PAGE);
                        area.start + before.min(area.len())
                    };
                    Some((at(pages.start), at(pages.end)))
                }
                _ => None,
            })
            .collect();
        for (start, end) in ranges {
            if private {
                self.zap(arena, start, end);
                continue;
            }
            for va in self.table.present_in(start, end) {
                if self.table.get(va).is_some_and(|pte| !pte.owned) {
                    self.table.remove(va);
                    self.stale = true;
                }
            }
        }
    }

    /// Sets the length of a file; pages beyond it leave all mappings.
    pub fn truncate(&mut self, arena: &mut Arena, object: &Rc<Object>, len: u64) {
        if len < object.len() {
            self.forget(arena, object, len.div_ceil(PAGE)..u64::MAX, true);
        }
        object.set_len(arena, len);
    }

    /// Makes whole pages of a file zeros (`FALLOC_FL_PUNCH_HOLE`).
    ///
    /// # Errors
    ///
    /// `ENOSPC`, with a part of the pages changed.
    pub fn punch(
        &mut self,
        arena: &mut Arena,
        object: &Rc<Object>,
        pages: Range<u64>,
    ) -> Result<(), Errno> {
        self.forget(arena, object, pages.clone(), false);
        object.punch(arena, pages)
    }

    /// Frees the pages of `start..end`.
    pub fn zap(&mut self, arena: &mut Arena, start: u64, end: u64) {
        for va in self.table.present_in(page_down(start), end) {
            if let Some(pte) = self.table.remove(va) {
                self.stale = true;
                if pte.owned {
                    arena.free(pte.frame);
                }
            }
        }
    }
}

/// The lowest address that a mapping below `area` may reach.
pub(super) fn guarded(area: &Area) -> u64 {
    let guard = if area.flags.grows_down { STACK_GUARD } else { 0 };
    area.start.saturating_sub(guard)
}
