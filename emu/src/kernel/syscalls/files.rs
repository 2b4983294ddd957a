//! Files: opening, folders, descriptors.

use std::rc::Rc;

use arch::syscalls::Sysno;
use arch::system::PollFd;
use arch::{Arch, Errno};

use super::SysResult;
use crate::kernel::State;
use crate::kernel::perf_event::{ioctl as perf_ioctl, notify};
use crate::kernel::task::rlimit;
use crate::kernel::vfs::open_file::flags;
use crate::kernel::vfs::tree::errno_of;
use crate::kernel::vfs::{Lookup, Node, OpenFile};
use crate::kernel::wait::{Block, Wait, restart};

pub(super) const AT_FDCWD: i32 = -100;
const AT_REMOVEDIR: u64 = 0x200;
/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    let fd = a[0] as i32;
    Some(match sysno {
        Sysno::Open => open(s, AT_FDCWD, a[0], a[1] as u32, a[2]),
        Sysno::Creat => open(s, AT_FDCWD, a[0], flags::CREAT | flags::WRONLY | flags::TRUNC, a[1]),
        Sysno::Openat => open(s, fd, a[1], a[2] as u32, a[3]),
        Sysno::Close => {
            let closed = s.task.fds.close(fd).map(|()| 0);
            s.wake(Wait::Files, usize::MAX);
            closed
        }
        Sysno::CloseRange => close_range(s, a),
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
        Sysno::Fsync | Sysno::Fdatasync => s.task.fds.get(fd).map(|_| 0),
        Sysno::Fadvise64 => match s.task.fds.get(fd) {
            Ok(_) if a[3] as u32 > 5 => Err(Errno::EINVAL),
            known => known.map(|_| 0),
        },
        Sysno::Dup => dup(s, fd, 0, false),
        Sysno::Dup2 => dup_to(s, fd, a[1] as i32, 0, true),
        Sysno::Dup3 => dup_to(s, fd, a[1] as i32, a[2] as u32, false),
        Sysno::Fcntl => fcntl(s, fd, a[1], a[2]),
        Sysno::Ioctl => ioctl(s, fd, a),
        Sysno::Poll | Sysno::Ppoll => poll(s, sysno, a),
        _ => return None,
    })
}

/// The folder that relative paths of an `…at` call start from.
fn base(s: &State, dirfd: i32) -> Result<String, Errno> {
    if dirfd == AT_FDCWD {
        return Ok(s.task.cwd.borrow().clone());
    }
    match &s.task.fds.get(dirfd)?.node {
        Node::Directory(path) => Ok(path.clone()),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Looks a user's path up.
pub(super) fn resolve(
    s: &mut State,
    dirfd: i32,
    path: u64,
    how: Lookup,
) -> Result<(String, Node), Errno> {
    let path = s.read_path(path)?;
    let base = if path.starts_with(b"/") { String::new() } else { base(s, dirfd)? };
    s.vfs.tree.lookup(&base, &path, how)
}

fn open(s: &mut State, dirfd: i32, path: u64, flags: u32, mode: u64) -> SysResult {
    let (directory, nofollow) = match s.arch {
        Arch::X86_64 => (0o200000, 0o400000),
        Arch::Aarch64 => (0o40000, 0o100000),
    };
    if flags & flags::CREAT != 0 && flags & directory != 0 {
        return Err(Errno::EINVAL);
    }
    let bytes = s.read_path(path)?;
    let base = if bytes.starts_with(b"/") { String::new() } else { base(s, dirfd)? };
    let exclusive = flags & flags::CREAT != 0 && flags & flags::EXCL != 0;
    let how = if flags & nofollow != 0 || exclusive { Lookup::NoFollow } else { Lookup::Follow };
    let node = match s.vfs.tree.lookup(&base, &bytes, how) {
        Ok(_) if exclusive => return Err(Errno::EEXIST),
        Ok((path, Node::Directory(_))) if flags & flags::TMPFILE != 0 => {
            if flags & flags::ACCMODE == 0 {
                return Err(Errno::EINVAL);
            }
            s.vfs.tree.unnamed(&path, mode as u32 & !s.task.umask)
        }
        Ok((_, Node::Symlink(_))) if flags & flags::PATH == 0 => return Err(Errno::ELOOP),
        Ok((_, node)) => prepare(s, node, flags, flags & directory != 0)?,
        Err(Errno::ENOENT) if flags & flags::CREAT != 0 => {
            if bytes.ends_with(b"/") {
                return Err(Errno::EISDIR);
            }
            let path = s.vfs.tree.place_for(&base, &bytes)?;
            let mode = mode as u32 & !s.task.umask;
            s.vfs.tree.create(&path, mode)
        }
        Err(e) => return Err(e),
    };
    let large = match s.arch {
        Arch::X86_64 => 0o100000,
        Arch::Aarch64 => 0o400000,
    };
    let limit = s.task.limits[rlimit::NOFILE].0;
    // The kernel opens everything for 64-bit programs as large, and keeps no flag that is
    // about the opening alone.
    let file = OpenFile::new(node, (flags | large) & !flags::ONCE);
    s.task.fds.install(file, flags & flags::CLOEXEC != 0, 0, limit).map(|fd| fd as u64)
}

/// Checks and changes of an existing file at opening.
fn prepare(s: &mut State, node: Node, flags: u32, wants_directory: bool) -> Result<Node, Errno> {
    let is_directory = matches!(node, Node::Directory(_));
    if wants_directory && !is_directory {
        return Err(Errno::ENOTDIR);
    }
    if flags & flags::PATH != 0 {
        return Ok(node);
    }
    let changes = flags & flags::ACCMODE != 0 || flags & flags::TRUNC != 0;
    match &node {
        Node::Directory(_) if changes || flags & flags::CREAT != 0 => return Err(Errno::EISDIR),
        Node::Proc(which) if changes && !(which.is_sysctl() && s.task.uid == 0) => {
            return Err(Errno::EACCES);
        }
        Node::Other(..) => return Err(Errno::ENXIO),
        Node::File(file) => {
            file.object.open().map_err(|e| errno_of(&e))?;
            if flags & flags::TRUNC != 0 {
                s.mm.truncate(&mut s.arena, &file.object, 0);
            }
        }
        _ => {}
    }
    Ok(node)
}

fn close_range(s: &mut State, a: [u64; 6]) -> SysResult {
    let (first, last) = (a[0] as u32, a[1] as u32);
    // CLOSE_RANGE_UNSHARE, CLOSE_RANGE_CLOEXEC
    if first > last || a[2] as u32 & !6 != 0 {
        return Err(Errno::EINVAL);
    }
    if a[2] & 4 == 0 {
        s.task.fds.close_range(first, last);
        s.wake(Wait::Files, usize::MAX);
    } else {
        s.task.fds.cloexec_range(first, last);
    }
    Ok(0)
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
    let file: Rc<OpenFile> = s.task.fds.get(fd)?.clone();
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
    if s.vfs.tree.is_gone(&s.task.cwd.borrow()) {
        return Err(Errno::ENOENT);
    }
    let mut bytes = s.task.cwd.borrow().clone().into_bytes();
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
            *s.task.cwd.borrow_mut() = path;
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
    if how & 0xffff_ffff & !AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL);
    }
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
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let path = s.read_path(path)?;
    let base = base(s, dirfd)?;
    s.vfs.tree.make_symlink(target, &base, &path).map(|()| 0)
}

fn dup(s: &mut State, fd: i32, from: u64, cloexec: bool) -> SysResult {
    let file = s.task.fds.get(fd)?.clone();
    let limit = s.task.limits[rlimit::NOFILE].0;
    if from >= limit {
        return Err(Errno::EINVAL);
    }
    s.task.fds.install(file, cloexec, from as usize, limit).map(|fd| fd as u64)
}

fn dup_to(s: &mut State, fd: i32, to: i32, how: u32, same_is_fine: bool) -> SysResult {
    if how & !flags::CLOEXEC != 0 || fd == to && !same_is_fine {
        return Err(Errno::EINVAL);
    }
    let file = s.task.fds.get(fd)?.clone();
    if fd == to {
        return Ok(to as u64);
    }
    let limit = s.task.limits[rlimit::NOFILE].0;
    s.task.fds.replace(to, file, how != 0, limit).map(|()| to as u64)
}

fn fcntl(s: &mut State, fd: i32, command: u64, argument: u64) -> SysResult {
    const DUPFD: u64 = 0;
    const GETFD: u64 = 1;
    const SETFD: u64 = 2;
    const GETFL: u64 = 3;
    const SETFL: u64 = 4;
    const GETLK: u64 = 5;
    const SETLK: u64 = 6;
    const SETLKW: u64 = 7;
    const DUPFD_CLOEXEC: u64 = 1030;
    let file = s.task.fds.get(fd)?;
    match command {
        DUPFD => dup(s, fd, argument, false),
        DUPFD_CLOEXEC => dup(s, fd, argument, true),
        GETFD => s.task.fds.cloexec(fd).map(u64::from),
        SETFD => s.task.fds.set_cloexec(fd, argument & 1 != 0).map(|()| 0),
        GETFL => Ok(u64::from(file.flags.get())),
        SETFL => {
            // O_APPEND and O_NONBLOCK can be changed, and O_ASYNC of what knows it.
            let mut changeable = flags::APPEND | 0o4000;
            if let Node::Perf(event) = &file.node {
                changeable |= notify::ASYNC;
                event.event().notify.borrow_mut().on = argument as u32 & notify::ASYNC != 0;
            }
            let flags = file.flags.get();
            file.flags.set(flags & !changeable | argument as u32 & changeable);
            Ok(0)
        }
        // Locks of a single process never conflict.
        GETLK => {
            const F_UNLCK: u16 = 2;
            let _: [u8; 32] = s.read_array(argument)?;
            s.write_user(argument, &F_UNLCK.to_le_bytes()).map(|()| 0)
        }
        SETLK | SETLKW => s.read_array::<32>(argument).map(|_| 0),
        _ => match &file.node {
            Node::Perf(event) => {
                notify::fcntl(s, event.event(), fd, command, argument).unwrap_or(Err(Errno::EINVAL))
            }
            _ => Err(Errno::EINVAL),
        },
    }
}

fn ioctl(s: &mut State, fd: i32, a: [u64; 6]) -> SysResult {
    const FIONREAD: u64 = 0x541b;
    const FIOCLEX: u64 = 0x5451;
    const FIONCLEX: u64 = 0x5450;
    let file = s.task.fds.get(fd)?.clone();
    match a[1] {
        FIOCLEX | FIONCLEX => s.task.fds.set_cloexec(fd, a[1] == FIOCLEX).map(|()| 0),
        command if let Node::Perf(event) = &file.node => {
            perf_ioctl::ioctl(s, event.event(), command, a[2])
        }
        FIONREAD if matches!(file.node, Node::Null | Node::Zero | Node::Random) => {
            Err(Errno::ENOTTY)
        }
        FIONREAD => {
            let left = file.node.attributes().size.saturating_sub(file.offset.get());
            s.write_user(a[2], &(left as u32).to_le_bytes()).map(|()| 0)
        }
        // Nothing here is a terminal.
        _ => Err(Errno::ENOTTY),
    }
}

/// `poll` (milliseconds) and `ppoll` (`struct timespec`).
fn poll(s: &mut State, sysno: Sysno, a: [u64; 6]) -> SysResult {
    let wait = match (sysno, a[2]) {
        (Sysno::Ppoll, 0) => None,
        (Sysno::Ppoll, at) => Some(s.read_timespec(at)?),
        (_, millis) => u64::try_from(millis as i32).ok().map(|m| m * 1_000_000),
    };
    let count = a[1] & 0xffff_ffff;
    if count > s.task.limits[rlimit::NOFILE].0 {
        return Err(Errno::EINVAL);
    }
    s.check_range(a[0], PollFd::SIZE as u64 * count)?;
    let ready = poll_once(s, a[0], count)?;
    match wait {
        _ if ready > 0 => {}
        Some(0) => {}
        wait => {
            let until = wait.map(|span| s.call_deadline(span));
            // Late, no file is ready.
            let interrupted = restart::NO_HANDLER;
            s.wait_for(Block { until, interrupted, ..Block::on(Wait::Files) });
        }
    }
    Ok(ready)
}

/// Which of the wanted events a file has. Of a pipe also whether the other end is closed.
fn readiness(node: &Node, wanted: u16) -> u16 {
    const IN: u16 = 0x001;
    const OUT: u16 = 0x004;
    const ERR: u16 = 0x008;
    const HUP: u16 = 0x010;
    let Node::Pipe(end) = node else { return wanted };
    let pipe = &end.pipe;
    match end.writes {
        false => {
            let hangup = if pipe.has_writers() { 0 } else { HUP };
            hangup | if pipe.is_empty() { 0 } else { wanted & IN }
        }
        true => {
            let broken = if pipe.has_readers() { 0 } else { ERR };
            broken | if pipe.room() > 0 { wanted & OUT } else { 0 }
        }
    }
}

fn poll_once(s: &mut State, entries: u64, count: u64) -> SysResult {
    const READY: u16 = 0x001 | 0x004;
    const INVALID: u16 = 0x020;
    let mut ready = 0;
    for i in 0..count {
        let at = entries.wrapping_add(PollFd::SIZE as u64 * i);
        let mut entry = PollFd::from_bytes(&s.read_array(at)?);
        entry.revents = match s.task.fds.get(entry.fd) {
            _ if entry.fd < 0 => 0,
            Ok(file) => match &file.node {
                Node::Perf(event) => notify::poll(s, event.event(), entry.events),
                node => readiness(node, entry.events & READY),
            },
            Err(_) => INVALID,
        };
        s.write_user(at + 6, &entry.revents.to_le_bytes())?;
        ready += u64::from(entry.revents != 0);
    }
    Ok(ready)
}
