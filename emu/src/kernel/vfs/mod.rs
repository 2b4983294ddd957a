//! Files as the guest sees them.
//!
//! ```text
//! path ─► Vfs::lookup ─► overlay (memory, dropped at the end)
//!                    ├─► /dev and /proc nodes
//!                    └─► host files: below --root, or the few that the command line names
//! fd ───► OpenFile (offset, flags) ─► Node
//! ```
//!
//! The host is never written: a file opened for writing is copied into the overlay
//! first. What a guest reads of a file does not depend on the host beyond the file's
//! bytes and its execute permission: owners, times, device and inode numbers are fixed or
//! derived from the path.
//!
//! * [`node`]: what a path leads to, with its attributes; [`tree`]: looking up, creating,
//!   removing; [`open_file`]: descriptors; [`proc`]: the contents of `/proc/self`;
//!   [`stdin`]: the host's standard input.

pub mod node;
pub mod open_file;
pub mod proc;
pub mod stdin;
pub mod tree;

pub use node::{Attributes, FileType, HostFile, Node};
pub use open_file::{FdTable, OpenFile};
pub use tree::{Lookup, Tree};

use std::rc::Rc;

use arch::Errno;

use crate::mem::{Area, Backing, PageSource};
use crate::perf::record::FileId;

/// The task's view of files.
#[derive(Debug)]
pub struct Vfs {
    /// Paths.
    pub tree: Tree,
    /// Open files.
    pub fds: FdTable,
    /// The guest's standard output goes to the emulator's standard error, because the
    /// profile is written to standard output.
    pub stdout_is_taken: bool,
}

impl Vfs {
    /// How a profile names the file behind an area: its build-id, or an inode number
    /// made from its path; and the path where `perf` finds it.
    pub fn identify(&self, area: &Area) -> (FileId, String) {
        let Backing::File { source, .. } = &area.backing else {
            let name = if area.name.is_empty() { "//anon" } else { area.name };
            return (FileId::None, name.to_owned());
        };
        let path = source.path();
        let host = self.tree.profile_path(path);
        let id = match self.tree.build_id(path) {
            Some(id) => FileId::BuildId(id),
            None => FileId::Inode { ino: source.inode() },
        };
        (id, host)
    }

    /// The file behind a descriptor, for `mmap`. `writes` says that stores shall reach
    /// the file.
    pub fn page_source(&self, fd: i32, writes: bool) -> Result<Rc<dyn PageSource>, Errno> {
        let file = self.fds.get(fd)?;
        if !file.readable() || writes && !file.writable() {
            return Err(Errno::EACCES);
        }
        match &file.node {
            Node::Host(host) => Ok(host.clone()),
            Node::Memory(memory) => Ok(memory.clone()),
            Node::Zero => Err(Errno::ENODEV),
            _ => Err(Errno::ENODEV),
        }
    }
}
