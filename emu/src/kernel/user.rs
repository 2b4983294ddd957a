//! Copies between the kernel and user memory, faulting pages in.

use arch::Errno;
use arch::time::Timespec;

use unwinder::Memory;

use crate::engine::Arena;
use crate::kernel::{State, hw_breakpoint};
use crate::mem::Mm;

/// `PATH_MAX`, the terminating NUL included.
pub const PATH_MAX: usize = 4096;

/// User memory for those who may not fault: what is present, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// Which addresses are where.
    pub mm: &'a Mm,
    /// The frames.
    pub arena: &'a Arena,
}

impl Memory for Present<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.mm.peek(self.arena, address, bytes)
    }
}

impl State {
    /// The user's memory as it is now.
    pub const fn present(&self) -> Present<'_> {
        Present { mm: &self.mm, arena: &self.arena }
    }

    /// `copy_from_user`
    pub fn read_user(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.mm.read(&mut self.arena, addr, buf)?;
        hw_breakpoint::copied(self, addr, buf.len(), false);
        Ok(())
    }

    /// `copy_to_user`
    pub fn write_user(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.mm.write(&mut self.arena, addr, bytes)?;
        hw_breakpoint::copied(self, addr, bytes.len(), true);
        Ok(())
    }

    /// As [`State::read_user`], up to the first byte that cannot be read; returns how many.
    pub fn copy_in(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        let copied = self.mm.read_some(&mut self.arena, addr, buf).0;
        hw_breakpoint::copied(self, addr, copied, false);
        copied
    }

    /// As [`State::write_user`], up to the first byte that cannot be written; returns how
    /// many.
    pub fn copy_out(&mut self, addr: u64, bytes: &[u8]) -> usize {
        let copied = self.mm.write_some(&mut self.arena, addr, bytes).0;
        hw_breakpoint::copied(self, addr, copied, true);
        copied
    }

    /// `access_ok`: the range lies in user space.
    ///
    /// # Errors
    ///
    /// `EFAULT` if not.
    pub fn check_range(&self, addr: u64, len: u64) -> Result<(), Errno> {
        match addr.checked_add(len) {
            Some(end) if end <= self.arch.task_size() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Reads `N` bytes.
    pub fn read_array<const N: usize>(&mut self, addr: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.read_user(addr, &mut bytes)?;
        Ok(bytes)
    }

    /// `get_user` of 64 bits.
    pub fn read_u64(&mut self, addr: u64) -> Result<u64, Errno> {
        self.read_array(addr).map(u64::from_le_bytes)
    }

    /// `get_user` of 32 bits.
    pub fn read_u32(&mut self, addr: u64) -> Result<u32, Errno> {
        self.read_array(addr).map(u32::from_le_bytes)
    }

    /// Two 64-bit words: `struct timespec`, `struct iovec`, `struct rlimit64`.
    pub fn read_pair(&mut self, addr: u64) -> Result<(u64, u64), Errno> {
        Ok((self.read_u64(addr)?, self.read_u64(addr.wrapping_add(8))?))
    }

    /// Reads a `struct timespec` as nanoseconds.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL` for a negative time or nanoseconds that are a second or more.
    pub fn read_timespec(&mut self, addr: u64) -> Result<u64, Errno> {
        Timespec::from_bytes(&self.read_array(addr)?).to_nanos().ok_or(Errno::EINVAL)
    }

    /// Writes two 64-bit words.
    pub fn write_pair(&mut self, addr: u64, first: u64, second: u64) -> Result<(), Errno> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        self.write_user(addr, &bytes)
    }

    /// Reads a NUL-terminated path (`getname`): -ENAMETOOLONG beyond [`PATH_MAX`].
    pub fn read_path(&mut self, addr: u64) -> Result<Vec<u8>, Errno> {
        self.read_string(addr, PATH_MAX).ok_or(Errno::EFAULT)?.ok_or(Errno::ENAMETOOLONG)
    }

    /// Reads a NUL-terminated string of less than `max` bytes; the inner `None` says that
    /// it is longer, the outer one that it cannot be read.
    pub fn read_string(&mut self, addr: u64, max: usize) -> Option<Option<Vec<u8>>> {
        let mut string = Vec::new();
        while string.len() < max {
            let at = addr.wrapping_add(string.len() as u64);
            // Up to the end of the page: the next page may not be there.
            let n = ((crate::mem::PAGE - at % crate::mem::PAGE) as usize).min(max - string.len());
            let mut chunk = vec![0; n];
            self.read_user(at, &mut chunk).ok()?;
            if let Some(end) = chunk.iter().position(|&b| b == 0) {
                string.extend_from_slice(&chunk[..end]);
                return Some(Some(string));
            }
            string.extend_from_slice(&chunk);
        }
        Some(None)
    }
}
