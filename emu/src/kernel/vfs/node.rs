//! What a path leads to.

use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::kernel::vfs::PipeEnd;
use crate::mem::Object;
use crate::perf::opened::EventFile;

/// `S_IFMT` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// `S_IFBLK`
    Block = 0o060000,
    /// `S_IFSOCK`
    Socket = 0o140000,
    /// None: a file of `anon_inodefs`.
    Anonymous = 0,
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
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// Paths that lead to it.
    pub links: u32,
    /// Inode number.
    pub inode: u64,
    /// Device number of a character device, 0 otherwise.
    pub rdev: u64,
}

/// A regular file.
#[derive(Debug)]
pub struct File {
    /// Contents, name and inode number.
    pub object: Rc<Object>,
    /// Permission bits.
    pub mode: u32,
    /// Paths that lead to it: 0 once it is removed.
    pub links: Cell<u32>,
}

impl File {
    /// A file at one path.
    pub fn new(object: Object, mode: u32) -> Rc<File> {
        Rc::new(File { object: Rc::new(object), mode: mode & 0o7777, links: Cell::new(1) })
    }

    /// The file leaves its path; those who have it open keep it.
    pub fn unlink(&self) {
        self.links.set(0);
        self.object.set_name(format!("{} (deleted)", self.object.name()));
    }
}

/// Which generated file of `/proc/self` or `/proc/sys`.
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
    /// `/proc/sys/kernel/perf_event_max_stack`
    MaxStack,
    /// `/proc/sys/kernel/perf_event_max_contexts_per_stack`
    MaxContexts,
}

impl ProcFile {
    /// Whether it is one that the superuser may write.
    pub const fn is_sysctl(self) -> bool {
        matches!(self, ProcFile::MaxStack | ProcFile::MaxContexts)
    }
}

/// What a path or descriptor leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A regular file.
    File(Rc<File>),
    /// A pipe, socket or device of the host: there, but it cannot be opened.
    Other(FileType, u64),
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
    /// One end of a pipe.
    Pipe(Rc<PipeEnd>),
    /// A performance event.
    Perf(Rc<EventFile>),
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// `/dev/urandom`, `/dev/random`
    Random,
    /// A file of `/proc/self` or `/proc/sys`.
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
    /// Whether it has no positions: a pipe, and the standard files, which are like pipes.
    pub const fn is_stream(&self) -> bool {
        matches!(self, Node::Stdin | Node::Stdout | Node::Stderr | Node::Pipe(_) | Node::Perf(_))
    }

    /// What `stat` tells.
    pub fn attributes(&self) -> Attributes {
        let plain = |kind, mode, inode| Attributes {
            kind,
            mode,
            size: 0,
            blocks: 0,
            links: 1,
            inode,
            rdev: 0,
        };
        let device = |rdev: u64| Attributes { rdev, ..plain(FileType::Character, 0o666, rdev) };
        match self {
            Node::File(file) => Attributes {
                size: file.object.len(),
                blocks: file.object.pages() * 8,
                links: file.links.get(),
                ..plain(FileType::Regular, file.mode, file.object.inode())
            },
            &Node::Other(kind, inode) => plain(kind, 0o600, inode),
            Node::Directory(path) => Attributes {
                size: 4096,
                blocks: 8,
                ..plain(FileType::Directory, 0o755, inode_of(path))
            },
            Node::Symlink(target) => Attributes {
                size: target.len() as u64,
                ..plain(FileType::Symlink, 0o777, inode_of(target) ^ 1)
            },
            // Pipes: what a program run under a harness usually has.
            Node::Stdin => plain(FileType::Fifo, 0o600, 10),
            Node::Stdout => plain(FileType::Fifo, 0o600, 11),
            Node::Stderr => plain(FileType::Fifo, 0o600, 12),
            Node::Pipe(end) => plain(FileType::Fifo, 0o600, end.pipe.inode),
            // Every file of `anon_inodefs` has the same inode.
            Node::Perf(_) => plain(FileType::Anonymous, 0o600, 13),
            Node::Null => device(0x103),
            Node::Zero => device(0x105),
            Node::Random => device(0x109),
            Node::Proc(file) => {
                let mode = if file.is_sysctl() { 0o644 } else { 0o444 };
                plain(FileType::Regular, mode, 100 + *file as u64)
            }
        }
    }
}
