//! One virtual memory area.

use std::rc::Rc;

use crate::engine::{Access, Frame, Perms};
use crate::mem::Object;

/// `PROT_*` bits of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Prot {
    /// `PROT_READ`
    pub read: bool,
    /// `PROT_WRITE`
    pub write: bool,
    /// `PROT_EXEC`
    pub exec: bool,
}

impl Prot {
    /// No access.
    pub const NONE: Prot = Prot { read: false, write: false, exec: false };
    /// Read only.
    pub const R: Prot = Prot { read: true, write: false, exec: false };
    /// Read and write.
    pub const RW: Prot = Prot { read: true, write: true, exec: false };
    /// Read and execute.
    pub const RX: Prot = Prot { read: true, write: false, exec: true };

    /// From the system call's bits.
    pub const fn from_bits(bits: u64) -> Prot {
        Prot { read: bits & 1 != 0, write: bits & 2 != 0, exec: bits & 4 != 0 }
    }

    /// The system call's bits.
    pub const fn bits(self) -> u32 {
        self.read as u32 | (self.write as u32) << 1 | (self.exec as u32) << 2
    }

    /// What the hardware grants: neither architecture has pages that may be written or
    /// executed but not read.
    pub const fn hardware(self) -> Perms {
        Perms { read: self.read || self.write || self.exec, write: self.write, exec: self.exec }
    }

    /// Whether `access` is allowed.
    pub const fn allows(self, access: Access) -> bool {
        self.hardware().allow(access)
    }
}

/// Properties of an area beyond its protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AreaFlags {
    /// `MAP_SHARED`
    pub shared: bool,
    /// Grows towards lower addresses on a fault below it (the stack).
    pub grows_down: bool,
    /// Part of the program break.
    pub heap: bool,
    /// Stores can never be allowed (`VM_MAYWRITE` is clear): a shared mapping of a file
    /// that is not open for writing.
    pub read_only: bool,
    /// A child does not get it (`VM_DONTCOPY`).
    pub dont_copy: bool,
    /// `MAP_NORESERVE`: the length may exceed the machine's memory.
    pub no_reserve: bool,
}

/// What the pages of an area hold before they are written.
#[derive(Clone, Debug)]
pub enum Backing {
    /// Zeros, private to the address space.
    Anonymous,
    /// A file, or shared anonymous memory, from byte `offset` on.
    File {
        /// Where pages come from.
        object: Rc<Object>,
        /// File offset of the area's first byte, page aligned.
        offset: u64,
    },
    /// Fixed frames of the kernel's (vDSO, vvar).
    Special {
        /// One for each page.
        frames: Rc<[Frame]>,
        /// Index of the area's first page.
        first: usize,
    },
}

/// A virtual memory area.
#[derive(Clone, Debug)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Protection.
    pub prot: Prot,
    /// Other properties.
    pub flags: AreaFlags,
    /// Contents.
    pub backing: Backing,
    /// Name in `/proc/self/maps` where no file gives one: `[stack]`, `[vdso]`, …
    pub name: &'static str,
}

impl Area {
    /// Length in bytes.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the area is empty; areas in an address space never are.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// File offset of `addr`, 0 for other backings.
    pub fn offset_of(&self, addr: u64) -> u64 {
        match &self.backing {
            Backing::File { offset, .. } => offset + (addr - self.start),
            _ => 0,
        }
    }

    /// The part from `at` on, cut off; `self` keeps the part before. `at` is inside.
    pub fn split_off(&mut self, at: u64) -> Area {
        let mut tail = self.clone();
        tail.start = at;
        match &mut tail.backing {
            Backing::File { offset, .. } => *offset += at - self.start,
            Backing::Special { first, .. } => *first += ((at - self.start) / super::PAGE) as usize,
            Backing::Anonymous => {}
        }
        self.end = at;
        tail
    }

    /// Whether `next` continues this area so that one can stand for both.
    pub fn continues(&self, next: &Area) -> bool {
        let backing = match (&self.backing, &next.backing) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (Backing::File { object: a, offset }, Backing::File { object: b, offset: o }) => {
                Rc::ptr_eq(a, b) && offset + self.len() == *o
            }
            _ => false,
        };
        backing
            && self.end == next.start
            && self.prot == next.prot
            && self.flags == next.flags
            && self.name == next.name
    }
}
