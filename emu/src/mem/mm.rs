//! An address space: areas in order, the program break, the stack; finding room.

use std::collections::BTreeMap;

use arch::{Arch, Errno};

use crate::engine::{Arena, Frame};
use crate::mem::{Area, PAGE, PageCache, PageTable, page_down};

/// `vm.max_map_count`
const MAX_AREAS: usize = 65530;
/// `vm.mmap_min_addr`
pub const MIN_ADDR: u64 = 0x10000;
/// Pages kept free below a growing stack (`stack_guard_gap`).
pub const STACK_GUARD: u64 = 256 * PAGE;

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

/// One address space.
#[derive(Debug)]
pub struct Mm {
    /// Architecture, for limits.
    pub arch: Arch,
    /// Fixed places.
    pub layout: MmLayout,
    /// Areas by first address, not overlapping.
    pub areas: BTreeMap<u64, Area>,
    /// Present pages.
    pub table: PageTable,
    /// Current program break.
    pub brk: u64,
    /// The shared page of zeros.
    pub zero: Frame,
    /// The CPU may hold translations that are no longer true.
    pub stale: bool,
    /// Pages of files.
    pub cache: PageCache,
    /// Addresses at which copies by the kernel faulted, not yet accounted.
    pub kernel_faults: Vec<u64>,
}

impl Mm {
    /// An address space without areas; `None` when guest memory is exhausted.
    pub fn new(arch: Arch, layout: MmLayout, arena: &mut Arena) -> Option<Mm> {
        Some(Mm {
            arch,
            layout,
            areas: BTreeMap::new(),
            table: PageTable::default(),
            brk: layout.brk_start,
            zero: arena.alloc()?,
            stale: false,
            cache: PageCache::default(),
            kernel_faults: Vec::new(),
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

    /// Total length of all areas in bytes.
    pub fn total(&self) -> u64 {
        self.areas.values().map(Area::len).sum()
    }

    /// The highest free range of `len` bytes below the mapping base, as a top-down
    /// `mmap` finds it.
    pub fn find_gap(&self, len: u64) -> Result<u64, Errno> {
        let mut end = self.layout.mmap_base;
        for area in self.areas.range(..end).rev().map(|(_, a)| a) {
            if area.end < end && end - area.end >= len {
                return Ok(end - len);
            }
            let guard = if area.flags.grows_down { STACK_GUARD } else { 0 };
            end = end.min(area.start.saturating_sub(guard));
        }
        if end >= len && end - len >= MIN_ADDR { Ok(end - len) } else { Err(Errno::ENOMEM) }
    }

    /// Adds an area, which must not overlap another, merged with its neighbours.
    pub fn insert(&mut self, mut area: Area) -> Result<(), Errno> {
        if self.areas.len() >= MAX_AREAS {
            return Err(Errno::ENOMEM);
        }
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
        Ok(keys.into_iter().filter_map(|k| self.areas.remove(&k)).collect())
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
