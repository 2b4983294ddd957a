//! The host's standard input.

use std::io;

use arch::Errno;
use rustix::event::{PollFd, PollFlags, poll};

/// Reads what is there, or waits for it. A signal that the emulator catches ends the wait
/// with `EINTR`: a poll is never started again, as a read is.
///
/// # Errors
///
/// `EINTR`, or `EIO` if the host cannot read.
pub fn read(buf: &mut [u8]) -> Result<usize, Errno> {
    let stdin = io::stdin();
    // Any other failure is one of the read as well, which reports it.
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {
        return Err(Errno::EINTR);
    }
    rustix::io::read(&stdin, buf).map_err(|e| match e {
        rustix::io::Errno::INTR => Errno::EINTR,
        _ => Errno::EIO,
    })
}
