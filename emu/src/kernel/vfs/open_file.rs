//! Open files and descriptors.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use arch::Errno;

use crate::kernel::vfs::Node;

/// `O_*` flags that mean the same on both architectures.
pub mod flags {
    /// Access mode.
    pub const ACCMODE: u32 = 3;
    /// Write only.
    pub const WRONLY: u32 = 1;
    /// Read and write.
    pub const RDWR: u32 = 2;
    /// Create.
    pub const CREAT: u32 = 0o100;
    /// Fail if it exists.
    pub const EXCL: u32 = 0o200;
    /// Do not make a terminal the controlling one.
    pub const NOCTTY: u32 = 0o400;
    /// Cut to nothing.
    pub const TRUNC: u32 = 0o1000;
    /// Write at the end.
    pub const APPEND: u32 = 0o2000;
    /// Close on exec.
    pub const CLOEXEC: u32 = 0o2000000;
    /// A file without a path (its bit beside `O_DIRECTORY`).
    pub const TMPFILE: u32 = 0o20000000;
    /// Flags that are about the opening alone.
    pub const ONCE: u32 = CREAT | EXCL | NOCTTY | TRUNC | CLOEXEC;
    /// Reference only.
    pub const PATH: u32 = 0o10000000;
}

/// An open file description (`struct file`).
#[derive(Debug)]
pub struct OpenFile {
    /// What is open.
    pub node: Node,
    /// Position in bytes; for a directory, index of the next entry.
    pub offset: Cell<u64>,
    /// Flags of `open`.
    pub flags: Cell<u32>,
    /// Generated contents, fixed at the first read.
    pub snapshot: RefCell<Option<Vec<u8>>>,
}

impl OpenFile {
    /// An open file at offset 0.
    pub fn new(node: Node, flags: u32) -> Rc<OpenFile> {
        Rc::new(OpenFile {
            node,
            offset: Cell::new(0),
            flags: Cell::new(flags),
            snapshot: RefCell::new(None),
        })
    }

    /// Whether reads are allowed.
    pub fn readable(&self) -> bool {
        let flags = self.flags.get();
        flags & flags::ACCMODE != flags::WRONLY && flags & flags::PATH == 0
    }

    /// Whether writes are allowed.
    pub fn writable(&self) -> bool {
        let flags = self.flags.get();
        flags & flags::ACCMODE != 0 && flags & flags::PATH == 0
    }
}

#[derive(Clone, Debug)]
struct Descriptor {
    file: Rc<OpenFile>,
    cloexec: bool,
}

/// The descriptors of a task, or of several that share them (`CLONE_FILES`).
#[derive(Debug, Default)]
pub struct FdTable(Rc<RefCell<Vec<Option<Descriptor>>>>);

/// `RLIMIT_NOFILE` can be raised to this many.
const MOST: usize = 1 << 20;

impl FdTable {
    /// Standard input, output and error.
    pub fn standard() -> FdTable {
        let open =
            |node, flags| Some(Descriptor { file: OpenFile::new(node, flags), cloexec: false });
        FdTable(Rc::new(RefCell::new(vec![
            open(Node::Stdin, 0),
            open(Node::Stdout, flags::WRONLY),
            open(Node::Stderr, flags::WRONLY),
        ])))
    }

    /// The same table, for a task that shares it.
    pub fn shared(&self) -> FdTable {
        FdTable(self.0.clone())
    }

    /// The same open files in a table of its own.
    pub fn copied(&self) -> FdTable {
        FdTable(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// A new program: a table of its own, without what is closed on exec.
    pub fn exec(&mut self) {
        let kept = |d: &Option<Descriptor>| d.clone().filter(|d| !d.cloexec);
        let slots = self.0.borrow().iter().map(kept).collect();
        self.0 = Rc::new(RefCell::new(slots));
    }

    /// The open file behind `fd`.
    ///
    /// # Errors
    ///
    /// `EBADF`, as all of these.
    pub fn get(&self, fd: i32) -> Result<Rc<OpenFile>, Errno> {
        self.slot(fd).map(|d| d.file)
    }

    fn slot(&self, fd: i32) -> Result<Descriptor, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.0.borrow().get(index).cloned().flatten().ok_or(Errno::EBADF)
    }

    /// Installs `file` at the lowest free descriptor from `from` on, below `limit`.
    pub fn install(
        &self,
        file: Rc<OpenFile>,
        cloexec: bool,
        from: usize,
        limit: u64,
    ) -> Result<i32, Errno> {
        let limit = usize::try_from(limit).unwrap_or(MOST).min(MOST);
        let index = {
            let slots = self.0.borrow();
            let free = (from..slots.len()).find(|&i| slots[i].is_none());
            free.unwrap_or(slots.len().max(from))
        };
        if index >= limit {
            return Err(Errno::EMFILE);
        }
        self.put(index, file, cloexec);
        Ok(index as i32)
    }

    /// Installs `file` at `fd`, closing what was there.
    pub fn replace(
        &self,
        fd: i32,
        file: Rc<OpenFile>,
        cloexec: bool,
        limit: u64,
    ) -> Result<(), Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        if index as u64 >= limit.min(MOST as u64) {
            return Err(Errno::EBADF);
        }
        self.put(index, file, cloexec);
        Ok(())
    }

    fn put(&self, index: usize, file: Rc<OpenFile>, cloexec: bool) {
        let mut slots = self.0.borrow_mut();
        if index >= slots.len() {
            slots.resize(index + 1, None);
        }
        slots[index] = Some(Descriptor { file, cloexec });
    }

    /// Closes `fd`.
    pub fn close(&self, fd: i32) -> Result<(), Errno> {
        self.slot(fd)?;
        self.0.borrow_mut()[fd as usize] = None;
        Ok(())
    }

    /// Closes all descriptors in `first..=last`.
    pub fn close_range(&self, first: u32, last: u32) {
        self.each_of(first, last, |slot| *slot = None);
    }

    /// All descriptors in `first..=last` are closed on exec.
    pub fn cloexec_range(&self, first: u32, last: u32) {
        self.each_of(first, last, |slot| slot.iter_mut().for_each(|d| d.cloexec = true));
    }

    fn each_of(&self, first: u32, last: u32, change: impl Fn(&mut Option<Descriptor>)) {
        let mut slots = self.0.borrow_mut();
        let end = (last as usize).saturating_add(1).min(slots.len());
        slots.iter_mut().take(end).skip(first as usize).for_each(change);
    }

    /// The close-on-exec flag.
    pub fn cloexec(&self, fd: i32) -> Result<bool, Errno> {
        self.slot(fd).map(|d| d.cloexec)
    }

    /// Sets the close-on-exec flag.
    pub fn set_cloexec(&self, fd: i32, on: bool) -> Result<(), Errno> {
        self.slot(fd)?;
        if let Some(Some(descriptor)) = self.0.borrow_mut().get_mut(fd as usize) {
            descriptor.cloexec = on;
        }
        Ok(())
    }
}
