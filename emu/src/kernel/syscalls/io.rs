//! Reading and writing: `read`, `write` and their families, positions, lengths.

use std::rc::Rc;

use arch::signal::code;
use arch::syscalls::Sysno;
use arch::{Errno, Signal};

use super::SysResult;
use super::files::{AT_FDCWD, resolve};
use crate::engine::Access;
use crate::kernel::perf_event::read::read as read_event;
use crate::kernel::task::rlimit;
use crate::kernel::vfs::host::Stream;
use crate::kernel::vfs::open_file::flags;
use crate::kernel::vfs::pipe::ATOMIC;
use crate::kernel::vfs::{File, Lookup, Node, OpenFile, proc};
use crate::kernel::wait::{Block, Wait};
use crate::kernel::{State, signal};
use crate::mem::object::MAX_LEN;
use crate::mem::{PAGE, page_down};

/// `MAX_RW_COUNT`
const MAX_RW: u64 = 0x7fff_f000;
/// `UIO_MAXIOV`
const MAX_IOV: u64 = 1024;
/// Bytes that are copied in one go.
const CHUNK: u64 = 64 << 10;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    let fd = a[0] as i32;
    Some(match sysno {
        Sysno::Read => one(s, fd, (a[1], a[2]), None, Read),
        Sysno::Pread64 => one(s, fd, (a[1], a[2]), Some(a[3]), Read),
        Sysno::Readv => vector(s, fd, a, None, Read),
        Sysno::Preadv => vector(s, fd, a, Some(a[3]), Read),
        Sysno::Preadv2 => vector_with_flags(s, fd, a, Read),
        Sysno::Write => one(s, fd, (a[1], a[2]), None, Write),
        Sysno::Pwrite64 => one(s, fd, (a[1], a[2]), Some(a[3]), Write),
        Sysno::Writev => vector(s, fd, a, None, Write),
        Sysno::Pwritev => vector(s, fd, a, Some(a[3]), Write),
        Sysno::Pwritev2 => vector_with_flags(s, fd, a, Write),
        Sysno::Lseek => lseek(s, fd, a[1] as i64, a[2] as u32),
        Sysno::Truncate => truncate(s, a[0], a[1]),
        Sysno::Ftruncate => ftruncate(s, fd, a[1]),
        Sysno::Fallocate => fallocate(s, fd, a[1] as u32, a[2], a[3]),
        _ => return None,
    })
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the guest's buffer.
    Read,
    /// To the file.
    Write,
}
use Way::{Read, Write};

/// One buffer.
fn one(s: &mut State, fd: i32, buffer: (u64, u64), at: Option<u64>, way: Way) -> SysResult {
    let file = s.task.fds.get(fd)?.clone();
    check_mode(&file, way, at)?;
    s.check_range(buffer.0, buffer.1)?;
    // What a call that waited in between has moved already.
    let before = std::mem::take(&mut s.task.moved);
    if must_wait(s, &file, buffer.1 - before, way)? {
        s.task.moved = before;
        return Ok(before);
    }
    let rest = (buffer.0 + before, buffer.1 - before);
    let done = before + all(s, &file, &[rest], at, way)?;
    if way == Write && done < buffer.1 && must_wait(s, &file, ATOMIC as u64, way).unwrap_or(false) {
        s.task.moved = done;
    }
    Ok(done)
}

/// Several buffers, with the flags of `preadv2` and `pwritev2`; position -1 is the file's.
fn vector_with_flags(s: &mut State, fd: i32, a: [u64; 6], way: Way) -> SysResult {
    // RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT: nothing here waits for a disk.
    const KNOWN: u64 = 0xf;
    if a[5] & 0xffff_ffff & !KNOWN != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let at = if a[3] == u64::MAX { None } else { Some(a[3]) };
    vector(s, fd, a, at, way)
}

/// Several buffers (`import_iovec`): each is checked first, the total is cut to the most
/// that one call moves.
fn vector(s: &mut State, fd: i32, a: [u64; 6], at: Option<u64>, way: Way) -> SysResult {
    let file = s.task.fds.get(fd)?.clone();
    check_mode(&file, way, at)?;
    if a[2] > MAX_IOV {
        return Err(Errno::EINVAL);
    }
    let mut pieces = Vec::new();
    let mut total = 0;
    for i in 0..a[2] {
        let (addr, len) = s.read_pair(a[1].wrapping_add(16 * i))?;
        if len > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        s.check_range(addr, len)?;
        let len = len.min(MAX_RW - total);
        total += len;
        pieces.push((addr, len));
    }
    if must_wait(s, &file, total, way)? {
        return Ok(0);
    }
    all(s, &file, &pieces, at, way)
}

/// Whether the file is open for this, and has positions if one is given.
fn check_mode(file: &OpenFile, way: Way, at: Option<u64>) -> Result<(), Errno> {
    let pipe = file.node.is_stream();
    match at {
        Some(at) if at > MAX_LEN => return Err(Errno::EINVAL),
        Some(_) if pipe => return Err(Errno::ESPIPE),
        _ => {}
    }
    let open = if way == Write { file.writable() } else { file.readable() };
    if open { Ok(()) } else { Err(Errno::EBADF) }
}

/// Whether the call waits for the other end of a pipe: to read from an empty one that has writers,
/// to write what does not fit. It is made again then.
fn must_wait(s: &mut State, file: &OpenFile, len: u64, way: Way) -> Result<bool, Errno> {
    const NONBLOCK: u32 = 0o4000;
    let Node::Pipe(end) = &file.node else { return Ok(false) };
    let pipe = &end.pipe;
    let waits = len > 0
        && match way {
            Read => pipe.is_empty() && pipe.has_writers(),
            // A short write is whole; a longer one is made in pieces.
            Write => pipe.has_readers() && (pipe.room() as u64) < len.min(ATOMIC as u64),
        };
    if waits && file.flags.get() & NONBLOCK != 0 {
        return Err(Errno::EAGAIN);
    }
    if waits {
        s.wait_for(Block::on(Wait::Files));
    }
    Ok(waits)
}

/// Transfers pieces until one is short.
fn all(
    s: &mut State,
    file: &Rc<OpenFile>,
    pieces: &[(u64, u64)],
    at: Option<u64>,
    way: Way,
) -> SysResult {
    let total: u64 = pieces.iter().map(|p| p.1.min(MAX_RW)).sum();
    let mut offset = at.unwrap_or(file.offset.get());
    if let (Node::File(node), true) =
        (&file.node, way == Write && file.flags.get() & flags::APPEND != 0)
    {
        offset = node.object.len();
    }
    // `rw_verify_area`
    if pieces.iter().any(|p| p.1 > MAX_LEN) || offset + total > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    for &(addr, len) in pieces {
        let len = len.min(MAX_RW);
        let moved = match way {
            Read => read(s, file, (addr, len), offset + done),
            Write => write(s, file, (addr, len), offset + done),
        };
        match moved {
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
    if at.is_none() && !file.node.is_stream() {
        file.offset.set(offset + done);
    }
    if done > 0 && matches!(file.node, Node::Pipe(_)) {
        s.wake(Wait::Files, usize::MAX);
    }
    s.spend(done / 16);
    Ok(done)
}

fn read(s: &mut State, file: &OpenFile, (addr, len): (u64, u64), offset: u64) -> SysResult {
    let mut done = 0;
    let mut chunk = vec![0; len.min(CHUNK) as usize];
    while done < len {
        let mut n = (len - done).min(CHUNK) as usize;
        if file.node.is_stream() {
            // What the guest cannot take stays in the pipe.
            n = s.mm.reachable(&mut s.arena, addr + done, n, Access::Write);
            if n == 0 {
                return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) };
            }
        }
        let got = match read_chunk(s, file, offset + done, &mut chunk[..n]) {
            Err(_) if done > 0 => break,
            other => other?,
        };
        let copied = s.copy_out(addr + done, &chunk[..got]);
        done += copied as u64;
        if copied < got && done == 0 {
            return Err(Errno::EFAULT);
        }
        if copied < n || file.node.is_stream() {
            break;
        }
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
        Node::File(file) => file.object.read_at(&s.arena, offset, chunk),
        Node::Stdin => s.vfs.host.read_input(chunk),
        Node::Pipe(end) => Ok(end.pipe.read(chunk)),
        Node::Null => Ok(0),
        Node::Zero => {
            chunk.fill(0);
            Ok(chunk.len())
        }
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
        Node::Perf(event) => {
            let bytes = read_event(s, event.event(), chunk.len() as u64)?;
            chunk[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
        Node::Directory(_) => Err(Errno::EISDIR),
        Node::Symlink(_) | Node::Stdout | Node::Stderr | Node::Other(..) => Err(Errno::EBADF),
    }
}

fn write(s: &mut State, file: &OpenFile, (addr, len): (u64, u64), offset: u64) -> SysResult {
    // These do not look at the bytes.
    if matches!(file.node, Node::Null | Node::Zero) {
        return Ok(len);
    }
    let len = match &file.node {
        Node::File(_) => len.min(room(s, offset, len)?),
        _ => len,
    };
    let mut done = 0;
    let mut chunk = vec![0; len.min(CHUNK) as usize];
    while done < len {
        let n = (len - done).min(CHUNK) as usize;
        let got = s.copy_in(addr + done, &mut chunk[..n]);
        if got == 0 {
            return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) };
        }
        match write_chunk(s, file, offset + done, &chunk[..got]) {
            Ok(written) => {
                done += written as u64;
                if written < n {
                    break;
                }
            }
            Err(Errno::EPIPE) => {
                signal::send_to_self(s, Signal::SIGPIPE, code::SI_USER);
                return if done > 0 { Ok(done) } else { Err(Errno::EPIPE) };
            }
            Err(_) if done > 0 => break,
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Bytes that may be written at `offset` below `RLIMIT_FSIZE` (`generic_write_checks`).
fn room(s: &mut State, offset: u64, len: u64) -> Result<u64, Errno> {
    if len == 0 {
        return Ok(0);
    }
    let limit = s.task.limits[rlimit::FSIZE].0;
    if offset >= limit {
        signal::send_to_self(s, Signal::SIGXFSZ, code::SI_USER);
        return Err(Errno::EFBIG);
    }
    Ok(limit - offset)
}

fn write_chunk(s: &mut State, file: &OpenFile, offset: u64, chunk: &[u8]) -> Result<usize, Errno> {
    match &file.node {
        Node::File(file) => file.object.write_at(&mut s.arena, offset, chunk),
        Node::Pipe(end) if !end.pipe.has_readers() => Err(Errno::EPIPE),
        Node::Pipe(end) => Ok(end.pipe.write(chunk)),
        Node::Stdout => s.vfs.host.write_output(Stream::Out, chunk).map(|()| chunk.len()),
        Node::Stderr => s.vfs.host.write_output(Stream::Error, chunk).map(|()| chunk.len()),
        Node::Null | Node::Zero | Node::Random => Ok(chunk.len()),
        Node::Perf(_) => Err(Errno::EINVAL),
        Node::Proc(which) => proc::write(s, *which, offset, chunk),
        _ => Err(Errno::EBADF),
    }
}

fn lseek(s: &mut State, fd: i32, offset: i64, whence: u32) -> SysResult {
    let file = s.task.fds.get(fd)?;
    let size = match &file.node {
        node if node.is_stream() => return Err(Errno::ESPIPE),
        // `null_lseek`
        Node::Null | Node::Zero => {
            file.offset.set(0);
            return Ok(0);
        }
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

fn truncate(s: &mut State, path: u64, len: u64) -> SysResult {
    if len > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    match resolve(s, AT_FDCWD, path, Lookup::Follow)?.1 {
        Node::File(file) => {
            file.object.open().map_err(|e| crate::kernel::vfs::tree::errno_of(&e))?;
            set_len(s, &file, len)
        }
        Node::Directory(_) => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn ftruncate(s: &mut State, fd: i32, len: u64) -> SysResult {
    if len > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    let file = s.task.fds.get(fd)?.clone();
    match &file.node {
        Node::File(node) if file.writable() => set_len(s, node, len),
        _ => Err(Errno::EINVAL),
    }
}

/// A longer file gets a hole: no memory.
fn set_len(s: &mut State, file: &File, len: u64) -> SysResult {
    if len > file.object.len() && len > s.task.limits[rlimit::FSIZE].0 {
        signal::send_to_self(s, Signal::SIGXFSZ, code::SI_USER);
        return Err(Errno::EFBIG);
    }
    s.mm.truncate(&mut s.arena, &file.object, len);
    Ok(0)
}

/// `fallocate`: nothing is kept free for a file, so growing it only sets its length.
fn fallocate(s: &mut State, fd: i32, mode: u32, offset: u64, len: u64) -> SysResult {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    let file = s.task.fds.get(fd)?.clone();
    if offset > MAX_LEN || len == 0 || len > MAX_LEN {
        return Err(Errno::EINVAL);
    }
    if !matches!(mode, 0 | KEEP_SIZE) && mode != PUNCH_HOLE | KEEP_SIZE {
        return Err(Errno::EOPNOTSUPP);
    }
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    let node = match &file.node {
        Node::File(node) => node,
        Node::Directory(_) => return Err(Errno::EISDIR),
        Node::Stdin | Node::Stdout | Node::Stderr | Node::Pipe(_) => return Err(Errno::ESPIPE),
        _ => return Err(Errno::ENODEV),
    };
    let end = offset.checked_add(len).filter(|&e| e <= MAX_LEN).ok_or(Errno::EFBIG)?;
    match mode {
        PUNCH_HOLE.. => punch(s, node, offset, end.min(node.object.len())),
        0 if end > node.object.len() => {
            if (end - node.object.len()) / PAGE > s.vfs.tree.free_pages() {
                return Err(Errno::ENOSPC);
            }
            set_len(s, node, end)
        }
        _ => Ok(0),
    }
}

/// Zeros at the borders, holes for the whole pages between.
fn punch(s: &mut State, file: &File, from: u64, to: u64) -> SysResult {
    if from >= to {
        return Ok(0);
    }
    let (first, last) = (from.next_multiple_of(PAGE).min(to), page_down(to).max(from));
    let object = &file.object;
    let mut zero = |from: u64, to: u64| {
        let zeros = [0; PAGE as usize];
        let len = to.saturating_sub(from).min(PAGE) as usize;
        object.write_at(&mut s.arena, from, &zeros[..len])
    };
    zero(from, first)?;
    // The last page may reach beyond the end of the file, and is then whole.
    let whole_end = if to == object.len() { to.div_ceil(PAGE) } else { last / PAGE };
    if to != object.len() && last >= first {
        zero(last, to)?;
    }
    let whole = first.div_ceil(PAGE)..whole_end;
    if whole.start < whole.end {
        s.mm.punch(&mut s.arena, object, whole)?;
    }
    Ok(0)
}
