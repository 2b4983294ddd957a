//! Changes of a process's code by the kernel, as for breakpoints.

use crate::engine::{Access, Arena};
use crate::mem::{Mm, PAGE, page_down};

impl Mm {
    /// Writes `bytes`, which lie in one page, to private memory that the process itself may not
    /// be able to write: the page becomes its own copy. Returns what was there; `None` if there
    /// is no such memory.
    pub fn poke(&mut self, arena: &mut Arena, addr: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let area = self.area(addr).filter(|area| !area.flags.shared)?.clone();
        let at = (addr % PAGE) as usize;
        if at + bytes.len() > PAGE as usize {
            return None;
        }
        if self.table.get(addr).is_none_or(|pte| !pte.perms.read) {
            self.fault(arena, addr, Access::Read).ok()?;
        }
        let pte = self.table.get(addr)?;
        let shared = pte.cow && arena.is_shared(pte.frame);
        let frame = match pte.owned && !shared {
            true => pte.frame,
            false => {
                let copy = self.copy_page(arena, &area, pte.frame).ok()?;
                if pte.owned {
                    arena.free(pte.frame);
                }
                self.table.set(page_down(addr), copy);
                self.stale = true;
                copy.frame
            }
        };
        let place = &mut arena.bytes_mut(frame)[at..at + bytes.len()];
        let before = place.to_vec();
        place.copy_from_slice(bytes);
        Some(before)
    }
}
