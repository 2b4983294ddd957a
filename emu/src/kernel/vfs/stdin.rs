//! The host's standard input.

use std::io;

use arch::Errno;
use rustix::event::{PollFd, PollFlags, poll};

/// Reads until `buf` is full or the input ends, so that what a guest gets does not depend
/// on the pace of whoever writes; a terminal gives a line at a time.
///
/// # Errors
///
/// `EINTR`, or `EIO` if the host cannot read; what came before is not lost.
pub fn read(buf: &mut [u8]) -> Result<usize, Errno> {
    let whole = !io::IsTerminal::is_terminal(&io::stdin());
    let mut done = 0;
    while done < buf.len() {
        match read_some(&mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
        if !whole {
            break;
        }
    }
    Ok(done)
}

/// Reads what is there, or waits for it. A signal that the emulator catches ends the wait
/// with `EINTR`: a poll is never started again, as a read is.
///
/// # Errors
///
/// `EINTR`, or `EIO` if the host cannot read.
fn read_some(buf: &mut [u8]) -> Result<usize, Errno> {
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
