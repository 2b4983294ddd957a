//! `struct stat` of the generic 64-bit ABI (`include/uapi/asm-generic/stat.h`).

use crate::bytes::{put, put_words};
use crate::stat::StatFields;

/// The structure in memory.
pub(crate) fn stat(f: &StatFields) -> [u8; 128] {
    let mut out = [0; 128];
    put_words(&mut out, 0, &[f.dev.encoded(), f.ino]);
    put(&mut out, 16, f.mode.to_le_bytes());
    put(&mut out, 20, f.nlink.to_le_bytes());
    put(&mut out, 24, f.uid.to_le_bytes());
    put(&mut out, 28, f.gid.to_le_bytes());
    put(&mut out, 32, f.rdev.encoded().to_le_bytes());
    put(&mut out, 48, f.size.to_le_bytes());
    put(&mut out, 56, f.blksize.to_le_bytes());
    put(&mut out, 64, f.blocks.to_le_bytes());
    put(&mut out, 72, f.atime.to_bytes());
    put(&mut out, 88, f.mtime.to_bytes());
    put(&mut out, 104, f.ctime.to_bytes());
    out
}
