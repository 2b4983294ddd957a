//! A copy of an address space: areas at once, private pages at the first store.

use arch::Errno;

use crate::engine::Arena;
use crate::mem::mm::MmId;
use crate::mem::{Mm, PageTable};

impl Mm {
    /// The child's address space (`dup_mm`). Pages that only one of them would see the other's
    /// stores in become read-only in both, until one stores.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when guest memory is exhausted.
    pub fn fork(&mut self, id: MmId, arena: &mut Arena) -> Result<Mm, Errno> {
        let nodes = self.table.nodes() + self.table.nodes();
        if arena.used() + nodes >= arena.len() / crate::mem::PAGE {
            return Err(Errno::ENOMEM);
        }
        let mut table = PageTable::default();
        for va in self.table.present_in(0, u64::MAX) {
            if self.area(va).is_some_and(|area| area.flags.dont_copy) {
                continue;
            }
            let Some(pte) = self.table.get_mut(va) else { continue };
            if pte.owned {
                pte.perms.write = false;
                pte.cow = true;
                arena.share(pte.frame);
            }
            table.set(va, *pte);
        }
        self.stale = true;
        let mut child = Mm {
            id,
            users: 1,
            arch: self.arch,
            layout: self.layout,
            areas: self.areas.clone(),
            table,
            brk: self.brk,
            zero: self.zero,
            stale: false,
            memory: self.memory,
            kernel_faults: Vec::new(),
            sframe: None,
            uprobes: self.uprobes.clone(),
            trampoline: None,
            total: self.total,
            tops: self.tops.clone(),
        };
        let not_copied: Vec<(u64, u64)> = self
            .areas()
            .filter(|area| area.flags.dont_copy)
            .map(|area| (area.start, area.end))
            .collect();
        for (start, end) in not_copied {
            child.clear(arena, start, end)?;
        }
        Ok(child)
    }

    /// The last task that had it is gone: its pages are free.
    pub fn release(&mut self, arena: &mut Arena) {
        self.zap(arena, 0, u64::MAX);
        self.areas.clear();
    }
}
