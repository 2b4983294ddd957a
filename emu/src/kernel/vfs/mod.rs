//! Files as the guest sees them.
//!
//! ```text
//! path ─► Vfs::lookup ─► overlay (memory, dropped at the end)
//!                    ├─► /dev and /proc nodes
//!                    └─► files of the Host: below --root, or the few that the command line names
//! fd ───► OpenFile (offset, flags) ─► Node
//! ```
//!
//! The host is never written: what a guest writes stays in the file's [`Object`], over the
//! host's bytes. What a guest reads of a file does not depend on the host beyond the file's
//! bytes and its execute permission: owners and times are fixed, the inode numbers of
//! host files are derived from the path.
//!
//! * [`node`]: what a path leads to, with its attributes; [`tree`]: looking up, creating,
//!   removing; [`open_file`]: descriptors; [`pipe`]; [`proc`]: the contents of `/proc/self`
//!   and of some sysctls;
//!   [`host`]: the machine below, the only way to it.

pub mod host;
pub mod node;
pub mod open_file;
pub mod pipe;
pub mod proc;
pub mod tree;

pub use host::{Host, RealHost};
pub use node::{Attributes, File, FileType, Node};
pub use open_file::{FdTable, OpenFile};
pub use pipe::{Pipe, PipeEnd};
pub use tree::{Lookup, Tree};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use arch::Errno;
use sha1::{Digest, Sha1};

use crate::engine::FileMap;
use crate::mem::{Area, Backing, Object};
use crate::perf::record::FileId;

/// The machine's files.
#[derive(Debug)]
pub struct Vfs {
    /// Paths.
    pub tree: Tree,
    /// The machine below.
    pub host: Rc<dyn Host>,
    /// How a profile names host files, by inode number.
    ids: RefCell<BTreeMap<u64, FileId>>,
}

/// Bytes of a file that its number in a profile is made from.
const HASHED: u64 = 64 << 20;

impl Vfs {
    /// The files of `tree`.
    pub fn new(host: Rc<dyn Host>, tree: Tree) -> Vfs {
        let ids = RefCell::default();
        Vfs { tree, host, ids }
    }

    /// How a profile names the file behind an area: its build-id, or a number made from
    /// its contents; and the path where `perf` finds it. A file that the guest made or
    /// changed has its inode number: what the host has at the path is another file.
    pub fn identify(&self, area: &Area) -> (FileId, String) {
        let Backing::File { object, .. } = &area.backing else {
            let name = if area.name.is_empty() { "//anon" } else { area.name };
            return (FileId::None, name.to_owned());
        };
        let host = self.tree.profile_path(&object.name());
        let ino = object.inode();
        let Some(file) = object.pristine() else {
            return (FileId::Inode { ino: ino | 1 << 62 }, host);
        };
        let mut ids = self.ids.borrow_mut();
        let id = ids.entry(ino).or_insert_with(|| {
            match crate::loader::elf::parse(file.bytes()).ok().and_then(|image| image.build_id) {
                Some(id) => FileId::BuildId(id),
                None => FileId::Inode { ino: number_of(file) },
            }
        });
        (id.clone(), host)
    }

    /// An open file, for `mmap`: its memory, or `None` for `/dev/zero`.
    /// `writes` says that stores shall reach the file. The second value tells whether they
    /// may.
    ///
    /// # Errors
    ///
    /// `EACCES` if it is not open for that, `ENODEV` if it cannot be mapped.
    pub fn mappable(file: &OpenFile, writes: bool) -> Result<(Option<Rc<Object>>, bool), Errno> {
        if !file.readable() || writes && !file.writable() {
            return Err(Errno::EACCES);
        }
        match &file.node {
            Node::File(node) => Ok((Some(node.object.clone()), file.writable())),
            Node::Zero => Ok((None, true)),
            _ => Err(Errno::ENODEV),
        }
    }
}

/// A positive number made from a file's length and first bytes (SHA-1).
fn number_of(file: &FileMap) -> u64 {
    let mut hash = Sha1::new();
    hash.update(file.len().to_le_bytes());
    let mut chunk = vec![0; 1 << 20];
    let mut at = 0;
    while at < HASHED {
        match file.read_at(at, &mut chunk) {
            Ok(n) if n > 0 => {
                hash.update(&chunk[..n]);
                at += n as u64;
            }
            _ => break,
        }
    }
    let digest = hash.finalize();
    digest[..6].iter().fold(0, |number, &byte| number << 8 | u64::from(byte)) + 4096
}
