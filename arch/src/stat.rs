//! What `stat`, `statx`, `statfs` and `getdents64` write.

use crate::bytes::{put, put_words};
use crate::time::Timespec;
use crate::{Arch, aarch64, x86_64};

/// The type bits of a file mode.
pub const S_IFMT: u32 = 0o170_000;
/// Mode: socket.
pub const S_IFSOCK: u32 = 0o140_000;
/// Mode: symbolic link.
pub const S_IFLNK: u32 = 0o120_000;
/// Mode: regular file.
pub const S_IFREG: u32 = 0o100_000;
/// Mode: block device.
pub const S_IFBLK: u32 = 0o060_000;
/// Mode: directory.
pub const S_IFDIR: u32 = 0o040_000;
/// Mode: character device.
pub const S_IFCHR: u32 = 0o020_000;
/// Mode: FIFO.
pub const S_IFIFO: u32 = 0o010_000;

/// `STATX_BASIC_STATS`: all that `stat` tells.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// `STATX_BTIME`: the time of creation.
pub const STATX_BTIME: u32 = 0x800;
/// `STATX_MNT_ID`.
pub const STATX_MNT_ID: u32 = 0x1000;

/// A device number in its two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// Class of the device, 12 bits.
    pub major: u32,
    /// Which one of the class, 20 bits.
    pub minor: u32,
}

impl Device {
    /// As `stat` writes it (`new_encode_dev`).
    pub const fn encoded(self) -> u64 {
        let (major, minor) = (self.major as u64, self.minor as u64);
        (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
    }
}

/// A file's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatFields {
    /// Device that holds the file.
    pub dev: Device,
    /// Inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device that the file is.
    pub rdev: Device,
    /// Bytes.
    pub size: u64,
    /// Preferred size of an access in bytes.
    pub blksize: u32,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timespec,
    /// Last change of the contents.
    pub mtime: Timespec,
    /// Last change of the metadata.
    pub ctime: Timespec,
    /// Creation; only `statx` tells.
    pub btime: Timespec,
    /// Mount; only `statx` tells.
    pub mnt_id: u64,
}

impl StatFields {
    /// Bytes of `struct statx`.
    pub const STATX_SIZE: usize = 256;

    /// `struct stat`: 144 bytes on x86_64, 128 on aarch64.
    pub fn to_stat(&self, arch: Arch) -> Vec<u8> {
        match arch {
            Arch::X86_64 => x86_64::stat::stat(self).to_vec(),
            Arch::Aarch64 => aarch64::stat::stat(self).to_vec(),
        }
    }

    /// `struct statx` with all fields of this type, whatever was asked for,
    /// as the kernel does when they cost nothing.
    pub fn to_statx(&self) -> [u8; StatFields::STATX_SIZE] {
        let mut out = [0; StatFields::STATX_SIZE];
        let mask = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;
        put(&mut out, 0, mask.to_le_bytes());
        put(&mut out, 4, self.blksize.to_le_bytes());
        put(&mut out, 16, self.nlink.to_le_bytes());
        put(&mut out, 20, self.uid.to_le_bytes());
        put(&mut out, 24, self.gid.to_le_bytes());
        put(&mut out, 28, (self.mode as u16).to_le_bytes());
        put_words(&mut out, 32, &[self.ino, self.size, self.blocks]);
        let times = [self.atime, self.btime, self.ctime, self.mtime];
        for (i, time) in times.into_iter().enumerate() {
            put(&mut out, 64 + 16 * i, time.sec.to_le_bytes());
            put(&mut out, 72 + 16 * i, (time.nsec as u32).to_le_bytes());
        }
        put(&mut out, 128, self.rdev.major.to_le_bytes());
        put(&mut out, 132, self.rdev.minor.to_le_bytes());
        put(&mut out, 136, self.dev.major.to_le_bytes());
        put(&mut out, 140, self.dev.minor.to_le_bytes());
        put(&mut out, 144, self.mnt_id.to_le_bytes());
        out
    }
}

/// A file system's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatFs {
    /// Magic number of its type.
    pub kind: u64,
    /// Bytes of a block.
    pub bsize: u64,
    /// Blocks.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for ordinary users.
    pub bavail: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Identity.
    pub fsid: u64,
    /// Longest file name in bytes.
    pub namelen: u64,
    /// Bytes of a fragment.
    pub frsize: u64,
    /// `ST_*` mount flags.
    pub flags: u64,
}

impl StatFs {
    /// Bytes of `struct statfs`, the same on both architectures.
    pub const SIZE: usize = 120;

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; StatFs::SIZE] {
        let mut out = [0; StatFs::SIZE];
        let words = [
            self.kind,
            self.bsize,
            self.blocks,
            self.bfree,
            self.bavail,
            self.files,
            self.ffree,
            self.fsid,
            self.namelen,
            self.frsize,
            self.flags,
        ];
        put_words(&mut out, 0, &words);
        out
    }
}

/// Bytes of a `struct linux_dirent64` for a name.
pub const fn dirent64_size(name: &[u8]) -> usize {
    (DIRENT_NAME + name.len() + 1).next_multiple_of(8)
}

/// Offset of the name.
const DIRENT_NAME: usize = 19;

/// Appends a `struct linux_dirent64`: `offset` is the position of the next
/// entry, `mode` gives the type.
pub fn push_dirent64(out: &mut Vec<u8>, ino: u64, offset: i64, mode: u32, name: &[u8]) {
    let size = dirent64_size(name);
    let start = out.len();
    out.extend_from_slice(&ino.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes());
    // DT_* are the type bits of the mode.
    out.push((mode >> 12 & 0xf) as u8);
    out.extend_from_slice(name);
    out.resize(start + size, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{u16_at, u32_at, u64_at};

    fn fields() -> StatFields {
        StatFields {
            dev: Device { major: 8, minor: 1 },
            ino: 2,
            mode: S_IFREG | 0o644,
            nlink: 3,
            uid: 4,
            gid: 5,
            rdev: Device { major: 0x123, minor: 0x45678 },
            size: 7,
            blksize: 4096,
            blocks: 8,
            atime: Timespec { sec: 10, nsec: 11 },
            mtime: Timespec { sec: 12, nsec: 13 },
            ctime: Timespec { sec: 14, nsec: 15 },
            btime: Timespec { sec: 16, nsec: 17 },
            mnt_id: 18,
        }
    }

    #[test]
    fn device_numbers_interleave() {
        assert_eq!(fields().dev.encoded(), 0x801);
        assert_eq!(fields().rdev.encoded(), 0x4561_2378);
    }

    // Offsets as C compilers give them for the kernel's headers.
    #[test]
    fn stat_of_x86_64() {
        let out = fields().to_stat(Arch::X86_64);
        assert_eq!(out.len(), 144);
        assert_eq!((u64_at(&out, 0), u64_at(&out, 8), u64_at(&out, 16)), (0x801, 2, 3));
        let ids = [24, 28, 32].map(|at| u32_at(&out, at));
        assert_eq!(ids, [S_IFREG | 0o644, 4, 5]);
        let words = [40, 48, 56, 64, 72, 80, 88, 104, 112].map(|at| u64_at(&out, at));
        assert_eq!(words, [0x4561_2378, 7, 4096, 8, 10, 11, 12, 14, 15]);
    }

    #[test]
    fn stat_of_aarch64() {
        let out = fields().to_stat(Arch::Aarch64);
        assert_eq!(out.len(), 128);
        let ids = [16, 20, 24, 28, 56].map(|at| u32_at(&out, at));
        assert_eq!(ids, [S_IFREG | 0o644, 3, 4, 5, 4096]);
        let words = [0, 8, 32, 48, 64, 72, 80, 88, 104].map(|at| u64_at(&out, at));
        assert_eq!(words, [0x801, 2, 0x4561_2378, 7, 8, 10, 11, 12, 14]);
    }

    #[test]
    fn statx_on_both() {
        let out = fields().to_statx();
        assert_eq!((u32_at(&out, 0), u32_at(&out, 4), u32_at(&out, 16)), (0x1fff, 4096, 3));
        assert_eq!(u32::from(u16_at(&out, 28)), S_IFREG | 0o644);
        let words = [32, 40, 48, 64, 80, 96, 112, 144].map(|at| u64_at(&out, at));
        assert_eq!(words, [2, 7, 8, 10, 16, 14, 12, 18]);
        let devices = [128, 132, 136, 140].map(|at| u32_at(&out, at));
        assert_eq!(devices, [0x123, 0x45678, 8, 1]);
    }

    #[test]
    fn statfs_on_both() {
        let out = StatFs { kind: 0x0102_1994, namelen: 255, flags: 6, ..StatFs::default() };
        let out = out.to_bytes();
        assert_eq!((u64_at(&out, 0), u64_at(&out, 64), u64_at(&out, 80)), (0x0102_1994, 255, 6));
    }

    #[test]
    fn directory_entries_are_padded() {
        let mut out = Vec::new();
        push_dirent64(&mut out, 1, 2, S_IFDIR, b".");
        push_dirent64(&mut out, 3, 4, S_IFREG, b"abcde");
        assert_eq!(out.len(), 24 + 32);
        assert_eq!((u16_at(&out, 16), out[18], &out[19..21]), (24, 4, b".\0".as_slice()));
        assert_eq!((u16_at(&out, 40), out[42], &out[43..49]), (32, 8, b"abcde\0".as_slice()));
    }
}
