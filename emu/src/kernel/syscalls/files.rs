//! Files: opening, reading and writing, attributes, folders, descriptors.

use std::io::Write;
use std::rc::Rc;

use arch::signal::code;
use arch::syscalls::Sysno;
use arch::{Arch, Errno, Signal};

use super::SysResult;
use crate::kernel::task::rlimit;
use crate::kernel::vfs::open_file::flags;
use crate::kernel::vfs::{Attributes, Lookup, Node, OpenFile, proc, stdin};
use crate::kernel::{State, signal};
use crate::mem::PageSource;

const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_EMPTY_PATH: u64 = 0x1000;
/// `MAX_RW_COUNT`
const MAX_RW: u64 = 0x7fff_f000;
/// `UIO_MAXIOV`
const MAX_IOV: u64 = 1024;
/// Largest file of the overlay.
const MAX_FILE: u64 = 1 << 30;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    let fd = a[0] as i32;
    Some(match sysno {
        Sysno::Read => read(s, fd, a[1], a[2], None),
        Sysno::Pread64 => read(s, fd, a[1], a[2], Some(a[3])),
        Sysno::Readv => vector(s, fd, a, read, None),
        Sysno::Preadv | Sysno::Preadv2 => vector(s, fd, a, read, Some(a[3])),
        Sysno::Write => write(s, fd, a[1], a[2], None),
        Sysno::Pwrite64 => write(s, fd, a[1], a[2], Some(a[3])),
        Sysno::Writev => vector(s, fd, a, write, None),
        Sysno::Pwritev | Sysno::Pwritev2 => vector(s, fd, a, write, Some(a[3])),
        Sysno::Open => open(s, AT_FDCWD, a[0], a[1] as u32, a[2]),
        Sysno::Creat => open(s, AT_FDCWD, a[0], flags::CREAT | flags::WRONLY | flags::TRUNC, a[1]),
        Sysno::Openat => open(s, fd, a[1], a[2] as u32, a[3]),
        Sysno::Close => s.vfs.fds.close(fd).map(|()| 0),
        Sysno::CloseRange => close_range(s, a),
        Sysno::Lseek => lseek(s, fd, a[1] as i64, a[2]),
        Sysno::Fstat => fstat(s, fd, a[1]),
        Sysno::Stat => stat_at(s, AT_FDCWD, a[0], a[1], 0),
        Sysno::Lstat => stat_at(s, AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW),
        Sysno::Newfstatat => stat_at(s, fd, a[1], a[2], a[3]),
        Sysno::Statx => statx(s, a),
        Sysno::Access => access(s, AT_FDCWD, a[0], a[1]),
        Sysno::Faccessat | Sysno::Faccessat2 => access(s, fd, a[1], a[2]),
        Sysno::Readlink => readlink(s, AT_FDCWD, a[0], a[1], a[2]),
        Sysno::Readlinkat => readlink(s, fd, a[1], a[2], a[3]),
        Sysno::Getdents64 => getdents64(s, fd, a[1], a[2]),
        Sysno::Getcwd => getcwd(s, a),
        Sysno::Chdir => chdir(s, a[0]),
        Sysno::Mkdir => mkdir(s, AT_FDCWD, a[0]),
        Sysno::Mkdirat => mkdir(s, fd, a[1]),
        Sysno::Unlink => unlink(s, AT_FDCWD, a[0], 0),
        Sysno::Rmdir => unlink(s, AT_FDCWD, a[0], AT_REMOVEDIR),
        Sysno::Unlinkat => unlink(s, fd, a[1], a[2]),
        Sysno::Rename => rename(s, (AT_FDCWD, a[0]), (AT_FDCWD, a[1]), 0),
        Sysno::Renameat => rename(s, (fd, a[1]), (a[2] as i32, a[3]), 0),
        Sysno::Renameat2 => rename(s, (fd, a[1]), (a[2] as i32, a[3]), a[4]),
        Sysno::Symlink => symlink(s, a[0], AT_FDCWD, a[1]),
        Sysno::Symlinkat => symlink(s, a[0], a[1] as i32, a[2]),
        Sysno::Ftruncate => ftruncate(s, fd, a[1]),
        Sysno::Fallocate => fallocate(s, a),
        Sysno::Fsync | Sysno::Fdatasync => s.vfs.fds.get(fd).map(|_| 0),
        Sysno::Fadvise64 => s.vfs.fds.get(fd).map(|_| 0),
        Sysno::Dup => dup(s, fd, 0, false),
        Sysno::Dup2 => dup_to(s, fd, a[1] as i32, 0, true),
        Sysno::Dup3 => dup_to(s, fd, a[1] as i32, a[2] as u32, false),
        Sysno::Fcntl => fcntl(s, fd, a[1], a[2]),
        Sysno::Ioctl => ioctl(s, fd, a),
        Sysno::Poll => poll(s, a),
        Sysno::Ppoll => poll(s, a),
        _ => return None,
    })
}

/// The folder that relative paths of an `…at` call start from.
fn base(s: &State, dirfd: i32) -> Result<String, Errno> {
    if dirfd == AT_FDCWD {
        return Ok(s.vfs.tree.cwd.clone());
    }
    match &s.vfs.fds.get(dirfd)?.node {
        Node::Directory(path) => Ok(path.clone()),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Looks a user's path up.
fn resolve(s: &mut State, dirfd: i32, path: u64, how: Lookup) -> Result<(String, Node), Errno> {
    let path = s.read_path(path)?;
    let base = if path.starts_with(b"/") { String::new() } else { base(s, dirfd)? };
    s.vfs.tree.lookup(&base, &path, how)
}

fn open(s: &mut State, dirfd: i32, path: u64, flags: u32, mode: u64) -> SysResult {
    let (directory, nofollow) = match s.arch {
        Arch::X86_64 => (0o200000, 0o400000),
        Arch::Aarch64 => (0o40000, 0o100000),
    };
    let bytes = s.read_path(path)?;
    let base = if bytes.starts_with(b"/") { String::new() } else { base(s, dirfd)? };
    let exclusive = flags & flags::CREAT != 0 && flags & flags::EXCL != 0;
    let how = if flags & nofollow != 0 || exclusive { Lookup::NoFollow } else { Lookup::Follow };
    let node = match s.vfs.tree.lookup(&base, &bytes, how) {
        Ok(_) if exclusive => return Err(Errno::EEXIST),
        Ok((_, Node::Symlink(_))) if flags & flags::PATH == 0 => return Err(Errno::ELOOP),
        Ok((path, node)) => prepare(s, &path, node, flags, flags & directory != 0)?,
        Err(Errno::ENOENT) if flags & flags::CREAT != 0 => {
            if bytes.ends_with(b"/") {
                return Err(Errno::EISDIR);
            }
            let path = s.vfs.tree.parent(&base, &bytes)?;
            let mode = mode as u32 & !s.task.umask;
            s.vfs.tree.create(&path, mode)
        }
        Err(e) => return Err(e),
    };
    let limit = s.task.limits[rlimit::NOFILE].0;
    let file = OpenFile::new(node, flags);
    s.vfs.fds.install(file, flags & flags::CLOEXEC != 0, 0, limit).map(|fd| fd as u64)
}

/// Checks and changes of an existing file at opening.
fn prepare(
    s: &mut State,
    path: &str,
    node: Node,
    flags: u32,
    wants_directory: bool,
) -> Result<Node, Errno> {
    let is_directory = matches!(node, Node::Directory(_));
    if wants_directory && !is_directory {
        return Err(Errno::ENOTDIR);
    }
    if flags & flags::PATH != 0 || flags & flags::ACCMODE == 0 && flags & flags::TRUNC == 0 {
        if is_directory && flags & flags::CREAT != 0 {
            return Err(Errno::EISDIR);
        }
        return Ok(node);
    }
    let node = s.vfs.tree.writable(path, node)?;
    if let (Node::Memory(file), true) = (&node, flags & flags::TRUNC != 0) {
        file.bytes.borrow_mut().clear();
    }
    Ok(node)
}

/// Reads from an open file at `at`, or at its offset.
fn read(s: &mut State, fd: i32, addr: u64, len: u64, at: Option<u64>) -> SysResult {
    let file = s.vfs.fds.get(fd)?.clone();
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let len = len.min(MAX_RW);
    if at.is_some_and(|at| at > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    let mut offset = at.unwrap_or(file.offset.get());
    let mut done = 0;
    while done < len {
        let mut chunk = vec![0; (len - done).min(64 << 10) as usize];
        let n = read_chunk(s, &file, offset, &mut chunk)?;
        match s.write_user(addr.wrapping_add(done), &chunk[..n]) {
            Ok(()) => {}
            Err(_) if done > 0 => break,
            Err(e) => return Err(e),
        }
        done += n as u64;
        offset += n as u64;
        s.spend(n as u64 / 16);
        if n < chunk.len() || matches!(file.node, Node::Stdin) {
            break;
        }
    }
    if at.is_none() {
        file.offset.set(offset);
    }
    Ok(done)
}

fn read_chunk(
    s: &mut State,
    file: &OpenFile,
    offset: u64,
    chunk: &mut [u8],
) -> Result<usize, Errno> {
    match &file.node {
        Node::Host(host) => host.map.read_at(offset, chunk).map_err(|_| Errno::EIO),
        Node::Memory(memory) => Ok(memory.read_at(offset, chunk)),
        Node::Stdin => stdin::read(chunk),
        Node::Null => Ok(0),
        Node::Zero => Ok(chunk.len()),
        Node::Random => {
            s.random.fill(chunk);
            Ok(chunk.len())
        }
        Node::Proc(which) => {
            let mut snapshot = file.snapshot.borrow_mut();
            let bytes = snapshot.get_or_insert_with(|| proc::contents(s, *which));
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let n = chunk.len().min(bytes.len() - from);
            chunk[..n].copy_from_slice(&bytes[from..from + n]);
            Ok(n)
        }
        Node::Directory(_) => Err(Errno::EISDIR),
        Node::Symlink(_) => Err(Errno::EBADF),
        Node::Stdout | Node::Stderr => Err(Errno::EBADF),
    }
}

/// Writes to an open file at `at`, or at its offset.
fn write(s: &mut State, fd: i32, addr: u64, len: u64, at: Option<u64>) -> SysResult {
    let file = s.vfs.fds.get(fd)?.clone();
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    let len = len.min(MAX_RW);
    if at.is_some_and(|at| at > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    if let Node::Memory(memory) = &file.node
        && at.is_none()
        && file.flags.get() & flags::APPEND != 0
    {
        file.offset.set(memory.len());
    }
    let mut offset = at.unwrap_or(file.offset.get());
    let mut done = 0;
    while done < len {
        let mut chunk = vec![0; (len - done).min(64 << 10) as usize];
        match s.read_user(addr.wrapping_add(done), &mut chunk) {
            Ok(()) => {}
            Err(_) if done > 0 => break,
            Err(e) => return Err(e),
        }
        let n = match write_chunk(s, &file, offset, &chunk) {
            Err(Errno::EPIPE) => {
                signal::send_to_self(s, Signal::SIGPIPE, code::SI_USER);
                return Err(Errno::EPIPE);
            }
            other => other?,
        };
        done += n as u64;
        offset += n as u64;
        s.spend(n as u64 / 16);
        if n < chunk.len() {
            break;
        }
    }
    if at.is_none() {
        file.offset.set(offset);
    }
    Ok(done)
}

fn write_chunk(s: &State, file: &OpenFile, offset: u64, chunk: &[u8]) -> Result<usize, Errno> {
    // A closed pipe on the host's side is one on the guest's.
    let host = |result: std::io::Result<()>| match result {
        Ok(()) => Ok(chunk.len()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(Errno::EPIPE),
        Err(_) => Err(Errno::EIO),
    };
    match &file.node {
        Node::Memory(memory) => {
            let end = offset.checked_add(chunk.len() as u64).filter(|&e| e <= MAX_FILE);
            let end = end.ok_or(Errno::EFBIG)? as usize;
            let mut bytes = memory.bytes.borrow_mut();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset as usize..end].copy_from_slice(chunk);
            Ok(chunk.len())
        }
        Node::Stdout if !s.vfs.stdout_is_taken => {
            let mut out = std::io::stdout();
            host(out.write_all(chunk).and_then(|()| out.flush()))
        }
        Node::Stdout | Node::Stderr => host(std::io::stderr().write_all(chunk)),
        Node::Null | Node::Zero | Node::Random => Ok(chunk.len()),
        _ => Err(Errno::EBADF),
    }
}

type Transfer = fn(&mut State, i32, u64, u64, Option<u64>) -> SysResult;

/// `readv` and friends: one transfer a piece, until one is short.
fn vector(s: &mut State, fd: i32, a: [u64; 6], transfer: Transfer, at: Option<u64>) -> SysResult {
    if a[2] > MAX_IOV {
        return Err(Errno::EINVAL);
    }
    s.vfs.fds.get(fd)?;
    let mut pieces = Vec::new();
    let mut total = 0u64;
    for i in 0..a[2] {
        let piece = s.read_pair(a[1].wrapping_add(16 * i))?;
        total =
            total.checked_add(piece.1).filter(|&t| t <= i64::MAX as u64).ok_or(Errno::EINVAL)?;
        pieces.push(piece);
    }
    let mut done = 0;
    for (addr, len) in pieces {
        match transfer(s, fd, addr, len, at.map(|at| at + done)) {
            Ok(n) => {
                done += n;
                if n < len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

fn close_range(s: &mut State, a: [u64; 6]) -> SysResult {
    let (first, last) = (a[0] as u32, a[1] as u32);
    if first > last {
        return Err(Errno::EINVAL);
    }
    // CLOSE_RANGE_CLOEXEC keeps them open; there is no exec yet that it would matter to.
    if a[2] & 4 == 0 {
        s.vfs.fds.close_range(first, last);
    }
    Ok(0)
}

fn lseek(s: &mut State, fd: i32, offset: i64, whence: u64) -> SysResult {
    let file = s.vfs.fds.get(fd)?;
    let size = match &file.node {
        Node::Stdin | Node::Stdout | Node::Stderr => return Err(Errno::ESPIPE),
        node => node.attributes().size as i64,
    };
    let from = match whence {
        0 => 0,
        1 => file.offset.get() as i64,
        2 => size,
        // SEEK_DATA and SEEK_HOLE: a file without holes.
        3 if (0..size).contains(&offset) => 0,
        4 if (0..size).contains(&offset) => size - offset,
        3 | 4 => return Err(Errno::ENXIO),
        _ => return Err(Errno::EINVAL),
    };
    let to = from.checked_add(offset).filter(|&t| t >= 0).ok_or(Errno::EINVAL)?;
    file.offset.set(to as u64);
    Ok(to as u64)
}

/// `struct stat` of the architecture.
fn stat_bytes(s: &State, at: &Attributes) -> Vec<u8> {
    let boot = s.config.boot_time / 1_000_000_000;
    let mut bytes = vec![0u8; if s.arch == Arch::X86_64 { 144 } else { 128 }];
    let mut put = |offset: usize, value: u64, len: usize| {
        bytes[offset..offset + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    let mode = u64::from(at.kind as u32 | at.mode);
    let blocks = at.size.div_ceil(512);
    put(0, 0x801, 8);
    put(8, at.inode, 8);
    // Field order differs: x86_64 has nlink, mode, uid, gid; the generic one mode, nlink.
    let (nlink, mode_at, uid, rdev, size, blksize, blocks_at, times) = match s.arch {
        Arch::X86_64 => ((16, 8), 24, 28, 40, 48, (56, 8), 64, 72),
        Arch::Aarch64 => ((20, 4), 16, 24, 32, 48, (56, 4), 64, 72),
    };
    put(nlink.0, 1, nlink.1);
    put(mode_at, mode, 4);
    put(uid, u64::from(s.task.uid), 4);
    put(uid + 4, u64::from(s.task.gid), 4);
    put(rdev, at.rdev, 8);
    put(size, at.size, 8);
    put(blksize.0, 4096, blksize.1);
    put(blocks_at, blocks, 8);
    for i in 0..3 {
        put(times + 16 * i, boot, 8);
    }
    bytes
}

fn fstat(s: &mut State, fd: i32, addr: u64) -> SysResult {
    let attributes = s.vfs.fds.get(fd)?.node.attributes();
    let bytes = stat_bytes(s, &attributes);
    s.write_user(addr, &bytes).map(|()| 0)
}

/// Attributes of what an `…at` call with `AT_EMPTY_PATH` and friends names.
fn attributes_at(s: &mut State, dirfd: i32, path: u64, how: u64) -> Result<Attributes, Errno> {
    if how & AT_EMPTY_PATH != 0 && (path == 0 || s.read_path(path)?.is_empty()) {
        return Ok(match dirfd {
            AT_FDCWD => Node::Directory(s.vfs.tree.cwd.clone()).attributes(),
            fd => s.vfs.fds.get(fd)?.node.attributes(),
        });
    }
    let follow = if how & AT_SYMLINK_NOFOLLOW != 0 { Lookup::NoFollow } else { Lookup::Follow };
    Ok(resolve(s, dirfd, path, follow)?.1.attributes())
}

fn stat_at(s: &mut State, dirfd: i32, path: u64, addr: u64, how: u64) -> SysResult {
    if how & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | 0x800) != 0 {
        return Err(Errno::EINVAL);
    }
    let attributes = attributes_at(s, dirfd, path, how)?;
    let bytes = stat_bytes(s, &attributes);
    s.write_user(addr, &bytes).map(|()| 0)
}

fn statx(s: &mut State, a: [u64; 6]) -> SysResult {
    let at = attributes_at(s, a[0] as i32, a[1], a[2])?;
    let boot = s.config.boot_time / 1_000_000_000;
    let mut bytes = [0u8; 256];
    let mut put = |offset: usize, value: u64, len: usize| {
        bytes[offset..offset + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    // STATX_BASIC_STATS | STATX_BTIME
    put(0, 0xfff, 4);
    put(4, 4096, 4);
    put(16, 1, 4);
    put(20, u64::from(s.task.uid), 4);
    put(24, u64::from(s.task.gid), 4);
    put(28, u64::from(at.kind as u32 | at.mode), 2);
    put(32, at.inode, 8);
    put(40, at.size, 8);
    put(48, at.size.div_ceil(512), 8);
    for i in 0..4 {
        put(64 + 16 * i, boot, 8);
    }
    put(128, at.rdev >> 8 & 0xfff, 4);
    put(132, at.rdev & 0xff, 4);
    put(136, 8, 4);
    put(140, 1, 4);
    s.write_user(a[4], &bytes).map(|()| 0)
}

fn access(s: &mut State, dirfd: i32, path: u64, mode: u64) -> SysResult {
    if mode & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let attributes = resolve(s, dirfd, path, Lookup::Follow)?.1.attributes();
    let wants_exec = mode & 1 != 0;
    if wants_exec && attributes.mode & 0o111 == 0 { Err(Errno::EACCES) } else { Ok(0) }
}

fn readlink(s: &mut State, dirfd: i32, path: u64, addr: u64, len: u64) -> SysResult {
    if (len as i32) <= 0 {
        return Err(Errno::EINVAL);
    }
    match resolve(s, dirfd, path, Lookup::NoFollow)?.1 {
        Node::Symlink(target) => {
            let n = target.len().min(len as usize);
            s.write_user(addr, &target.as_bytes()[..n])?;
            Ok(n as u64)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `struct linux_dirent64`: inode, next position, length, type, name.
fn getdents64(s: &mut State, fd: i32, addr: u64, len: u64) -> SysResult {
    let file: Rc<OpenFile> = s.vfs.fds.get(fd)?.clone();
    let Node::Directory(path) = &file.node else { return Err(Errno::ENOTDIR) };
    let dots = [".", ".."].map(|n| (n.to_owned(), file.node.clone()));
    let entries = dots.into_iter().chain(s.vfs.tree.entries(path)?);
    let mut bytes: Vec<u8> = Vec::new();
    let first = file.offset.get();
    let mut position = first;
    for (name, node) in entries.skip(first as usize) {
        let attributes = node.attributes();
        let size = (19 + name.len() + 1).next_multiple_of(8);
        if (bytes.len() + size) as u64 > len {
            break;
        }
        position += 1;
        let start = bytes.len();
        bytes.extend_from_slice(&attributes.inode.to_le_bytes());
        bytes.extend_from_slice(&position.to_le_bytes());
        bytes.extend_from_slice(&(size as u16).to_le_bytes());
        bytes.push((attributes.kind as u32 >> 12) as u8);
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(start + size, 0);
    }
    if bytes.is_empty() && position == first {
        let more = s.vfs.tree.entries(path)?.len() as u64 + 2 > first;
        return if more { Err(Errno::EINVAL) } else { Ok(0) };
    }
    s.write_user(addr, &bytes)?;
    file.offset.set(position);
    Ok(bytes.len() as u64)
}

fn getcwd(s: &mut State, a: [u64; 6]) -> SysResult {
    let mut bytes = s.vfs.tree.cwd.clone().into_bytes();
    bytes.push(0);
    if bytes.len() as u64 > a[1] {
        return Err(Errno::ERANGE);
    }
    s.write_user(a[0], &bytes)?;
    Ok(bytes.len() as u64)
}

fn chdir(s: &mut State, path: u64) -> SysResult {
    match resolve(s, AT_FDCWD, path, Lookup::Follow)? {
        (path, Node::Directory(_)) => {
            s.vfs.tree.cwd = path;
            Ok(0)
        }
        _ => Err(Errno::ENOTDIR),
    }
}

fn mkdir(s: &mut State, dirfd: i32, path: u64) -> SysResult {
    let path = s.read_path(path)?;
    let base = base(s, dirfd)?;
    s.vfs.tree.make_directory(&base, &path).map(|()| 0)
}

fn unlink(s: &mut State, dirfd: i32, path: u64, how: u64) -> SysResult {
    let path = s.read_path(path)?;
    let base = base(s, dirfd)?;
    s.vfs.tree.remove(&base, &path, how & AT_REMOVEDIR != 0).map(|()| 0)
}

fn rename(s: &mut State, from: (i32, u64), to: (i32, u64), how: u64) -> SysResult {
    const NOREPLACE: u64 = 1;
    if how & !NOREPLACE != 0 {
        return Err(Errno::EINVAL);
    }
    let (source, target) = (s.read_path(from.1)?, s.read_path(to.1)?);
    let (from_base, to_base) = (base(s, from.0)?, base(s, to.0)?);
    let no_replace = how & NOREPLACE != 0;
    s.vfs.tree.rename((&from_base, &source), (&to_base, &target), no_replace).map(|()| 0)
}

fn symlink(s: &mut State, target: u64, dirfd: i32, path: u64) -> SysResult {
    let target = String::from_utf8(s.read_path(target)?).map_err(|_| Errno::EINVAL)?;
    let path = s.read_path(path)?;
    let base = base(s, dirfd)?;
    s.vfs.tree.make_symlink(target, &base, &path).map(|()| 0)
}

fn ftruncate(s: &mut State, fd: i32, len: u64) -> SysResult {
    let file = s.vfs.fds.get(fd)?;
    match &file.node {
        Node::Memory(memory) if file.writable() => {
            if len > MAX_FILE {
                return Err(Errno::EFBIG);
            }
            memory.bytes.borrow_mut().resize(len as usize, 0);
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn fallocate(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[1] != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let end = a[2].checked_add(a[3]).ok_or(Errno::EFBIG)?;
    let size = s.vfs.fds.get(a[0] as i32)?.node.attributes().size;
    if end > size { ftruncate(s, a[0] as i32, end) } else { Ok(0) }
}

fn dup(s: &mut State, fd: i32, from: u64, cloexec: bool) -> SysResult {
    let file = s.vfs.fds.get(fd)?.clone();
    let limit = s.task.limits[rlimit::NOFILE].0;
    if from >= limit {
        return Err(Errno::EINVAL);
    }
    s.vfs.fds.install(file, cloexec, from as usize, limit).map(|fd| fd as u64)
}

fn dup_to(s: &mut State, fd: i32, to: i32, how: u32, same_is_fine: bool) -> SysResult {
    let file = s.vfs.fds.get(fd)?.clone();
    if fd == to {
        return if same_is_fine { Ok(to as u64) } else { Err(Errno::EINVAL) };
    }
    if how & !flags::CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let limit = s.task.limits[rlimit::NOFILE].0;
    s.vfs.fds.replace(to, file, how != 0, limit).map(|()| to as u64)
}

fn fcntl(s: &mut State, fd: i32, command: u64, argument: u64) -> SysResult {
    const DUPFD: u64 = 0;
    const GETFD: u64 = 1;
    const SETFD: u64 = 2;
    const GETFL: u64 = 3;
    const SETFL: u64 = 4;
    const GETLK: u64 = 5;
    const SETLKW: u64 = 7;
    const DUPFD_CLOEXEC: u64 = 1030;
    let file = s.vfs.fds.get(fd)?;
    match command {
        DUPFD => dup(s, fd, argument, false),
        DUPFD_CLOEXEC => dup(s, fd, argument, true),
        GETFD => s.vfs.fds.cloexec(fd).map(u64::from),
        SETFD => s.vfs.fds.set_cloexec(fd, argument & 1 != 0).map(|()| 0),
        GETFL => Ok(u64::from(file.flags.get() & !(flags::CLOEXEC | flags::CREAT))),
        SETFL => {
            // O_APPEND and O_NONBLOCK can be changed.
            let changeable = flags::APPEND | 0o4000;
            let flags = file.flags.get();
            file.flags.set(flags & !changeable | argument as u32 & changeable);
            Ok(0)
        }
        // Locks of a single process never conflict.
        GETLK..=SETLKW => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

fn ioctl(s: &mut State, fd: i32, a: [u64; 6]) -> SysResult {
    const FIONREAD: u64 = 0x541b;
    const FIOCLEX: u64 = 0x5451;
    const FIONCLEX: u64 = 0x5450;
    let file = s.vfs.fds.get(fd)?.clone();
    match a[1] {
        FIOCLEX | FIONCLEX => s.vfs.fds.set_cloexec(fd, a[1] == FIOCLEX).map(|()| 0),
        FIONREAD => {
            let left = file.node.attributes().size.saturating_sub(file.offset.get());
            s.write_user(a[2], &(left as u32).to_le_bytes()).map(|()| 0)
        }
        // Nothing here is a terminal.
        _ => Err(Errno::ENOTTY),
    }
}

/// `poll`, `ppoll`: every file here is ready at once.
fn poll(s: &mut State, a: [u64; 6]) -> SysResult {
    const READY: u16 = 0x001 | 0x004;
    const INVALID: u16 = 0x020;
    if a[1] > s.task.limits[rlimit::NOFILE].0 {
        return Err(Errno::EINVAL);
    }
    let mut ready = 0;
    for i in 0..a[1] {
        let at = a[0].wrapping_add(8 * i);
        let entry: [u8; 8] = s.read_array(at)?;
        let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let events = u16::from_le_bytes([entry[4], entry[5]]);
        let answer = match s.vfs.fds.get(fd) {
            _ if fd < 0 => 0,
            Ok(_) => events & READY,
            Err(_) => INVALID,
        };
        s.write_user(at + 6, &answer.to_le_bytes())?;
        ready += u64::from(answer != 0);
    }
    Ok(ready)
}
