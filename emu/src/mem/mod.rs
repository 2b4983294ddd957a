//! Guest memory: page tables, virtual memory areas, demand paging.
//!
//! ```text
//!  mmap, brk, mprotect … ─► Mm (areas)          what may be there
//!            page fault ──► Mm::fault ─► PageTable   what is there
//!                 CPU ────► PageTable as engine::Mmu
//!     kernel model ───────► Mm::read / write         copies, faulting pages in
//! ```
//!
//! * [`page_table`]: the tree from virtual page to frame and permissions.
//! * [`area`]: one virtual memory area and what backs it.
//! * [`mm`]: an address space: areas in order, `brk`, the stack; finding room.
//! * [`ops`]: the system calls' work on it (`mmap`, `munmap`, `mprotect`, `brk`);
//!   [`remap`]: `mremap`; [`advise`]: `madvise`.
//! * [`fork`]: a copy for a child.
//! * [`fault`]: bringing a page in, or the signal that says why not.
//! * `page_out`: pages that leave memory. * `poke`: changes of code by the kernel.
//! * [`object`]: memory of files and of shared anonymous mappings.
//!
//! Errors are the kernel's: [`arch::Errno`]. Page tables never hold a permission that
//! the area does not allow; a private page is copied at the first store.

pub mod advise;
pub mod area;
pub mod fault;
pub mod fork;
pub mod mm;
pub mod object;
pub mod ops;
mod page_out;
pub mod page_table;
mod poke;
pub mod remap;

#[cfg(test)]
mod tests;

pub use area::{Area, AreaFlags, Backing, Prot};
pub use fault::{Fault, FaultKind};
pub use mm::{Mm, MmLayout, Uprobe};
pub use object::{Object, Quota, Source};
pub use page_table::{PageTable, Pte};

/// Bytes in a page.
pub const PAGE: u64 = crate::engine::FRAME_SIZE;

/// Rounds down to a page boundary.
pub const fn page_down(addr: u64) -> u64 {
    addr & !(PAGE - 1)
}

/// Rounds up to a page boundary; `None` on overflow.
pub const fn page_up(addr: u64) -> Option<u64> {
    match addr.checked_add(PAGE - 1) {
        Some(a) => Some(a & !(PAGE - 1)),
        None => None,
    }
}
