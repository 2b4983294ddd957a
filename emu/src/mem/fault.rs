//! Bringing a page in, or the signal that says why not.

use arch::Errno;

use crate::engine::{Access, Arena, Frame, Perms};
use crate::mem::mm::{MIN_ADDR, STACK_GUARD};
use crate::mem::object::ObjectError;
use crate::mem::{Area, Backing, Mm, PAGE, Prot, Pte, page_down};

/// Why a page cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No area: `SIGSEGV`, `SEGV_MAPERR`.
    NotMapped,
    /// The area forbids the access: `SIGSEGV`, `SEGV_ACCERR`.
    Forbidden,
    /// The file ends before the page, or has no room for it: `SIGBUS`, `BUS_ADRERR`.
    BeyondFile,
    /// Guest memory is exhausted: the kernel would kill the task.
    NoMemory,
}

/// A fault that could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The byte that could not be accessed.
    pub addr: u64,
    /// What was tried.
    pub access: Access,
    /// Why not.
    pub kind: FaultKind,
}

impl From<Fault> for Errno {
    fn from(_: Fault) -> Errno {
        Errno::EFAULT
    }
}

impl Mm {
    /// Makes the page of `addr` present for `access`.
    pub fn fault(&mut self, arena: &mut Arena, addr: u64, access: Access) -> Result<(), Fault> {
        let fail = |kind| Fault { addr, access, kind };
        let page = page_down(addr);
        if self.area(addr).is_none() && !self.grow_stack(addr) {
            return Err(fail(FaultKind::NotMapped));
        }
        let Some(area) = self.area(addr).cloned() else {
            return Err(fail(FaultKind::NotMapped));
        };
        if !area.prot.allows(access) {
            return Err(fail(FaultKind::Forbidden));
        }
        // Page tables are memory of the machine too.
        if arena.used() + self.table.nodes() >= arena.len() / PAGE {
            return Err(fail(FaultKind::NoMemory));
        }
        let old = self.table.get(page);
        if let Some(pte) = old
            && pte.perms.allow(access)
        {
            return Ok(());
        }
        let pte = match old {
            // Another address space has it too, since a fork: copied at the first store.
            Some(pte) if pte.owned && pte.cow && arena.is_shared(pte.frame) => match access {
                Access::Write => {
                    let copy = self.copy_page(arena, &area, pte.frame).map_err(fail)?;
                    arena.free(pte.frame);
                    copy
                }
                _ => {
                    let perms = Perms { write: false, ..area.prot.hardware() };
                    Pte { perms, ..pte }
                }
            },
            Some(pte) if pte.owned => Pte { perms: area.prot.hardware(), cow: false, ..pte },
            // Never a copy: all who map it see the store.
            Some(_) if area.flags.shared => {
                self.new_page(arena, &area, page, access).map_err(fail)?
            }
            Some(pte) => self.copy_page(arena, &area, pte.frame).map_err(fail)?,
            None => self.new_page(arena, &area, page, access).map_err(fail)?,
        };
        self.table.set(page, pte);
        if old.is_some() {
            self.stale = true;
        }
        Ok(())
    }

    /// A private copy of a shared frame, at the first store.
    pub(super) fn copy_page(
        &self,
        arena: &mut Arena,
        area: &Area,
        from: Frame,
    ) -> Result<Pte, FaultKind> {
        let frame = arena.alloc().ok_or(FaultKind::NoMemory)?;
        if from != self.zero {
            let mut page = [0; PAGE as usize];
            page.copy_from_slice(arena.bytes(from));
            arena.bytes_mut(frame).copy_from_slice(&page);
        }
        Ok(Pte { frame, perms: area.prot.hardware(), owned: true, cow: false })
    }

    /// The page as its first access finds it.
    fn new_page(
        &self,
        arena: &mut Arena,
        area: &Area,
        page: u64,
        access: Access,
    ) -> Result<Pte, FaultKind> {
        let mut perms = area.prot.hardware();
        let frame = match &area.backing {
            Backing::Special { frames, first } => {
                let index = first + ((page - area.start) / PAGE) as usize;
                *frames.get(index).ok_or(FaultKind::BeyondFile)?
            }
            Backing::Anonymous => self.zero,
            Backing::File { object, .. } => {
                let store = area.flags.shared && perms.write;
                let index = area.offset_of(page) / PAGE;
                object.page(arena, index, store).map_err(|e| match e {
                    ObjectError::BeyondEnd | ObjectError::Full => FaultKind::BeyondFile,
                    ObjectError::NoMemory => FaultKind::NoMemory,
                })?
            }
        };
        if area.flags.shared {
            return Ok(Pte { frame, perms, owned: false, cow: false });
        }
        if access == Access::Write {
            return self.copy_page(arena, area, frame);
        }
        // Shared until the first store.
        perms.write = false;
        Ok(Pte { frame, perms, owned: false, cow: false })
    }

    /// Grows an area of the stack kind down to `addr` if `RLIMIT_STACK`, `RLIMIT_AS` and
    /// the guard gap allow it (`expand_downwards`).
    fn grow_stack(&mut self, addr: u64) -> bool {
        let start = page_down(addr);
        let Some(stack) = self.area_above(addr) else { return false };
        let (key, end) = (stack.start, stack.end);
        if !stack.flags.grows_down
            || start < MIN_ADDR
            || end - start > self.layout.stack_limit
            || self.may_expand(key - start, 0).is_err()
        {
            return false;
        }
        if let Some((_, below)) = self.areas.range(..key).next_back()
            && !below.flags.grows_down
            && start - below.end < STACK_GUARD
            && below.prot != Prot::NONE
        {
            return false;
        }
        self.resize(key, start, end);
        true
    }

    /// Copies from the address space, bringing pages in.
    ///
    /// # Errors
    ///
    /// The fault that ended the copy; what came before has been copied.
    pub fn read(&mut self, arena: &mut Arena, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.read_some(arena, addr, buf).1
    }

    /// As [`Mm::read`], with the number of bytes copied before the fault.
    pub fn read_some(
        &mut self,
        arena: &mut Arena,
        addr: u64,
        buf: &mut [u8],
    ) -> (usize, Result<(), Fault>) {
        self.each_page(addr, buf.len(), |mm, at, range| {
            let frame = mm.present(arena, at, Access::Read)?;
            let from = (at % PAGE) as usize;
            buf[range.clone()].copy_from_slice(&arena.bytes(frame)[from..from + range.len()]);
            Ok(())
        })
    }

    /// Copies into the address space, bringing pages in.
    ///
    /// # Errors
    ///
    /// The fault that ended the copy; what came before has been copied.
    pub fn write(&mut self, arena: &mut Arena, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.write_some(arena, addr, bytes).1
    }

    /// As [`Mm::write`], with the number of bytes copied before the fault.
    pub fn write_some(
        &mut self,
        arena: &mut Arena,
        addr: u64,
        bytes: &[u8],
    ) -> (usize, Result<(), Fault>) {
        self.each_page(addr, bytes.len(), |mm, at, range| {
            let frame = mm.present(arena, at, Access::Write)?;
            let to = (at % PAGE) as usize;
            arena.bytes_mut(frame)[to..to + range.len()].copy_from_slice(&bytes[range]);
            Ok(())
        })
    }

    /// Brings the pages of a buffer in; returns how many of its bytes can be accessed.
    pub fn reachable(&mut self, arena: &mut Arena, addr: u64, len: usize, access: Access) -> usize {
        self.each_page(addr, len, |mm, at, _| mm.present(arena, at, access).map(drop)).0
    }

    /// Copies from present, readable pages only, as code that may not fault does.
    pub fn peek(&self, arena: &Arena, addr: u64, buf: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buf.len() {
            let Some(at) = addr.checked_add(done as u64) else { return false };
            let Some(pte) = self.table.get(at).filter(|p| p.perms.read) else { return false };
            let from = (at % PAGE) as usize;
            let n = (PAGE as usize - from).min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&arena.bytes(pte.frame)[from..from + n]);
            done += n;
        }
        true
    }

    fn each_page(
        &mut self,
        addr: u64,
        len: usize,
        mut visit: impl FnMut(&mut Mm, u64, std::ops::Range<usize>) -> Result<(), Fault>,
    ) -> (usize, Result<(), Fault>) {
        let mut done = 0;
        while done < len {
            let at = addr.wrapping_add(done as u64);
            let n = ((PAGE - at % PAGE) as usize).min(len - done);
            if let Err(fault) = visit(self, at, done..done + n) {
                return (done, Err(fault));
            }
            done += n;
        }
        (len, Ok(()))
    }

    /// The frame of the page at `at`, brought in for `access` if it is not there.
    fn present(&mut self, arena: &mut Arena, at: u64, access: Access) -> Result<Frame, Fault> {
        if at >= self.arch.task_size() {
            return Err(Fault { addr: at, access, kind: FaultKind::NotMapped });
        }
        if let Some(pte) = self.table.get(at)
            && pte.perms.allow(access)
        {
            return Ok(pte.frame);
        }
        self.fault(arena, at, access)?;
        self.kernel_faults.push(at);
        let missing = Fault { addr: at, access, kind: FaultKind::NotMapped };
        self.table.get(at).map(|p| p.frame).ok_or(missing)
    }
}
