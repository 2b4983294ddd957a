//! Whether standard output was open when the program began.
//!
//! Before `main`, Rust's runtime opens `/dev/null` for standard streams that are closed, and
//! what is written there is lost without an error. So somebody has to look earlier. It is in
//! this folder for its `unsafe` code alone.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// What the C runtime calls before `main`.
// SAFETY: an entry of `.init_array` is a pointer to a C function; `look` takes no argument and
// ignores those that glibc passes, and needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the descriptor is asked about only. If it is closed the kernel says so.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    CLOSED.store(rustix::io::fcntl_getfd(stdout).is_err(), Ordering::Relaxed);
}

/// Whether the program was started with its standard output closed, as by `>&-`.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
