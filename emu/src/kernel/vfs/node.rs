//! What a path leads to.

use std::cell::RefCell;
use std::rc::Rc;

use crate::engine::FileMap;
use crate::mem::PageSource;

/// `S_IFMT` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileType {
    /// `S_IFREG`
    Regular = 0o100000,
    /// `S_IFDIR`
    Directory = 0o040000,
    /// `S_IFCHR`
    Character = 0o020000,
    /// `S_IFLNK`
    Symlink = 0o120000,
    /// `S_IFIFO`
    Fifo = 0o010000,
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kind of file.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
    /// Length in bytes.
    pub size: u64,
    /// Inode number, derived from the path.
    pub inode: u64,
    /// Device number of a character device, 0 otherwise.
    pub rdev: u64,
}

/// A regular file of the host, read only.
#[derive(Debug)]
pub struct HostFile {
    /// The open file.
    pub map: FileMap,
    /// Its path in the guest.
    pub path: String,
    /// Whether it may be executed.
    pub executable: bool,
    /// Inode number, derived from the path.
    pub inode: u64,
}

impl PageSource for HostFile {
    fn id(&self) -> u64 {
        self.inode
    }
    fn len(&self) -> u64 {
        self.map.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        self.map.read_at(offset, buf).unwrap_or(0)
    }
    fn path(&self) -> &str {
        &self.path
    }
    fn inode(&self) -> u64 {
        self.inode
    }
}

/// A file of the overlay.
#[derive(Debug)]
pub struct MemoryFile {
    /// Contents.
    pub bytes: RefCell<Vec<u8>>,
    /// Its path in the guest.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Inode number.
    pub inode: u64,
}

impl PageSource for MemoryFile {
    fn id(&self) -> u64 {
        // Apart from the host file that it may be a copy of.
        self.inode ^ 1 << 63
    }
    fn len(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let bytes = self.bytes.borrow();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let n = buf.len().min(bytes.len() - from);
        buf[..n].copy_from_slice(&bytes[from..from + n]);
        n
    }
    fn path(&self) -> &str {
        &self.path
    }
    fn inode(&self) -> u64 {
        self.inode
    }
}

/// Which generated file of `/proc/self`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcFile {
    /// `maps`
    Maps,
    /// `auxv`
    Auxv,
    /// `cmdline`
    Cmdline,
    /// `comm`
    Comm,
    /// `environ`
    Environ,
    /// `stat`
    Stat,
    /// `status`
    Status,
}

/// What a path or descriptor leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A host file.
    Host(Rc<HostFile>),
    /// A file of the overlay.
    Memory(Rc<MemoryFile>),
    /// A directory by its guest path.
    Directory(String),
    /// A symbolic link and its target.
    Symlink(String),
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// `/dev/urandom`, `/dev/random`
    Random,
    /// A file of `/proc/self`.
    Proc(ProcFile),
}

/// A stable inode number for a path (FNV-1a).
pub fn inode_of(path: &str) -> u64 {
    let hash = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    // Positive, and above the numbers of special nodes.
    (hash >> 16) + 4096
}

impl Node {
    /// What `stat` tells.
    pub fn attributes(&self) -> Attributes {
        let plain = |kind, mode, inode| Attributes { kind, mode, size: 0, inode, rdev: 0 };
        let device = |rdev: u64| Attributes {
            kind: FileType::Character,
            mode: 0o666,
            size: 0,
            inode: rdev,
            rdev,
        };
        match self {
            Node::Host(file) => Attributes {
                size: file.map.len(),
                ..plain(FileType::Regular, if file.executable { 0o755 } else { 0o644 }, file.inode)
            },
            Node::Memory(file) => Attributes {
                size: file.bytes.borrow().len() as u64,
                ..plain(FileType::Regular, file.mode, file.inode)
            },
            Node::Directory(path) => {
                Attributes { size: 4096, ..plain(FileType::Directory, 0o755, inode_of(path)) }
            }
            Node::Symlink(target) => Attributes {
                size: target.len() as u64,
                ..plain(FileType::Symlink, 0o777, inode_of(target) ^ 1)
            },
            // Pipes: what a program run under a harness usually has.
            Node::Stdin => plain(FileType::Fifo, 0o600, 10),
            Node::Stdout => plain(FileType::Fifo, 0o600, 11),
            Node::Stderr => plain(FileType::Fifo, 0o600, 12),
            Node::Null => device(0x103),
            Node::Zero => device(0x105),
            Node::Random => device(0x109),
            Node::Proc(file) => plain(FileType::Regular, 0o444, 100 + *file as u64),
        }
    }

    /// Path for `/proc/self/fd` and error texts.
    pub fn path(&self) -> &str {
        match self {
            Node::Host(file) => &file.path,
            Node::Memory(file) => &file.path,
            Node::Directory(path) | Node::Symlink(path) => path,
            Node::Stdin => "pipe:[10]",
            Node::Stdout => "pipe:[11]",
            Node::Stderr => "pipe:[12]",
            Node::Null => "/dev/null",
            Node::Zero => "/dev/zero",
            Node::Random => "/dev/urandom",
            Node::Proc(_) => "/proc/self",
        }
    }
}
