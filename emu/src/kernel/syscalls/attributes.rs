//! What files are: `stat` and its family, `access`.

use arch::Errno;
use arch::stat::{Device, StatFields};
use arch::syscalls::Sysno;
use arch::time::Timespec;

use super::SysResult;
use super::files::{AT_FDCWD, resolve};
use crate::kernel::State;
use crate::kernel::vfs::{Attributes, Lookup, Node};

const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_NO_AUTOMOUNT: u64 = 0x800;
const AT_EMPTY_PATH: u64 = 0x1000;
/// `AT_STATX_FORCE_SYNC`, `AT_STATX_DONT_SYNC`; both together are an error.
const STATX_SYNC: u64 = 0x6000;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    let fd = a[0] as i32;
    Some(match sysno {
        Sysno::Fstat => fstat(s, fd, a[1]),
        Sysno::Stat => stat_at(s, AT_FDCWD, a[0], a[1], 0),
        Sysno::Lstat => stat_at(s, AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW),
        Sysno::Newfstatat => stat_at(s, fd, a[1], a[2], a[3]),
        Sysno::Statx => statx(s, a),
        Sysno::Access => access(s, AT_FDCWD, a[0], a[1]),
        Sysno::Faccessat | Sysno::Faccessat2 => access(s, fd, a[1], a[2]),
        _ => return None,
    })
}

fn fields(s: &State, at: &Attributes) -> StatFields {
    let boot = Timespec::from_nanos(s.config.boot_time / 1_000_000_000 * 1_000_000_000);
    // A device number as `makedev` packs small ones.
    let rdev = Device { major: (at.rdev >> 8) as u32, minor: (at.rdev & 0xff) as u32 };
    StatFields {
        dev: Device { major: 8, minor: 1 },
        ino: at.inode,
        mode: at.kind as u32 | at.mode,
        nlink: at.links,
        uid: s.task.uid,
        gid: s.task.gid,
        rdev,
        size: at.size,
        blksize: 4096,
        blocks: at.blocks,
        atime: boot,
        mtime: boot,
        ctime: boot,
        btime: boot,
        mnt_id: 1,
    }
}

fn fstat(s: &mut State, fd: i32, addr: u64) -> SysResult {
    let attributes = s.task.fds.get(fd)?.node.attributes();
    let bytes = fields(s, &attributes).to_stat(s.arch);
    s.write_user(addr, &bytes).map(|()| 0)
}

/// Attributes of what an `…at` call with `AT_EMPTY_PATH` and friends names.
fn attributes_at(s: &mut State, dirfd: i32, path: u64, how: u64) -> Result<Attributes, Errno> {
    if how & AT_EMPTY_PATH != 0 && (path == 0 || s.read_path(path)?.is_empty()) {
        return Ok(match dirfd {
            AT_FDCWD => Node::Directory(s.task.cwd.borrow().clone()).attributes(),
            fd => s.task.fds.get(fd)?.node.attributes(),
        });
    }
    let follow = if how & AT_SYMLINK_NOFOLLOW != 0 { Lookup::NoFollow } else { Lookup::Follow };
    Ok(resolve(s, dirfd, path, follow)?.1.attributes())
}

fn stat_at(s: &mut State, dirfd: i32, path: u64, addr: u64, how: u64) -> SysResult {
    if how & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT) != 0 {
        return Err(Errno::EINVAL);
    }
    let attributes = attributes_at(s, dirfd, path, how)?;
    let bytes = fields(s, &attributes).to_stat(s.arch);
    s.write_user(addr, &bytes).map(|()| 0)
}

fn statx(s: &mut State, a: [u64; 6]) -> SysResult {
    const RESERVED: u64 = 1 << 31;
    const KNOWN: u64 = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | STATX_SYNC;
    let how = a[2] & 0xffff_ffff;
    if a[3] & RESERVED != 0 || how & !KNOWN != 0 || how & STATX_SYNC == STATX_SYNC {
        return Err(Errno::EINVAL);
    }
    let attributes = attributes_at(s, a[0] as i32, a[1], how)?;
    let bytes = fields(s, &attributes).to_statx();
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
