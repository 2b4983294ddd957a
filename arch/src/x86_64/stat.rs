//! `struct stat` of x86_64 (`arch/x86/include/uapi/asm/stat.h`).

use crate::bytes::{put, put_words};
use crate::stat::StatFields;

/// The structure in memory.
pub(crate) fn stat(f: &StatFields) -> [u8; 144] {
    let mut out = [0; 144];
    put_words(&mut out, 0, &[f.dev.encoded(), f.ino, u64::from(f.nlink)]);
    put(&mut out, 24, f.mode.to_le_bytes());
    put(&mut out, 28, f.uid.to_le_bytes());
    put(&mut out, 32, f.gid.to_le_bytes());
    put_words(&mut out, 40, &[f.rdev.encoded(), f.size, u64::from(f.blksize), f.blocks]);
    put(&mut out, 72, f.atime.to_bytes());
    put(&mut out, 88, f.mtime.to_bytes());
    put(&mut out, 104, f.ctime.to_bytes());
    out
}
