//! Someone who looks over the kernel's shoulder.
//!
//! The kernel tells what it does to a thread's registers behind the back of the program's own
//! calls and returns, and when it samples. It takes no answer: whether somebody looks changes
//! nothing.

use arch::Regs;

use crate::kernel::user::Present;

/// See the module.
pub trait Observer: std::fmt::Debug {
    /// A signal's frame was built: the thread was at `interrupted`, enters its handler with
    /// `handler`, and the handler returns to `restorer`. `sp_was_set`: as for
    /// [`Observer::sampled`].
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64, sp_was_set: bool);

    /// `rt_sigreturn` gives the thread these registers. If a function were entered with them,
    /// it would return to `return_address`; `None` if that is not in memory.
    fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>);

    /// Code was mapped: file offset `pgoff` of `path` is at `addr`.
    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64);

    /// A sample was taken; user code is, or will go on, at `regs`. `sp_was_set`: since the
    /// last transfer of control, see [`crate::engine::flow::Event`].
    fn sampled(&mut self, regs: &Regs, sp_was_set: bool, memory: Present<'_>);
}
