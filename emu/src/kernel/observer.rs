//! Someone who looks over the kernel's shoulder.
//!
//! The kernel tells what it does to a thread's registers behind the back of the program's own
//! calls and returns, and when it samples. It takes no answer: whether somebody looks changes
//! nothing.

use arch::Regs;

use crate::engine::flow::Event;
use crate::kernel::task::TaskId;
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

    /// The kernel has executed a call, return or jump for the program; `direct`: a jump to an
    /// address in the instruction.
    fn transferred(&mut self, event: &Event, direct: bool) {
        let _ = (event, direct);
    }

    /// A probed function has returned to the kernel's trampoline, and goes on at `to`, where it
    /// was to return.
    fn returned(&mut self, to: u64) {
        let _ = to;
    }

    /// Code was mapped: file offset `pgoff` of `path` is at `addr`.
    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64);

    /// What is told from now on, here and by the engine, is of this task.
    fn about(&mut self, task: TaskId) {
        let _ = task;
    }

    /// `parent` made `child`, which begins where it is; with a stack of its own if `stack` is not
    /// 0.
    fn forked(&mut self, parent: TaskId, child: TaskId, stack: u64) {
        let _ = (parent, child, stack);
    }

    /// The task begins a new program with these registers; its memory has nothing of the old one.
    fn exec(&mut self, regs: &Regs) {
        let _ = regs;
    }

    /// A task is gone.
    fn exited(&mut self, task: TaskId) {
        let _ = task;
    }

    /// A sample was taken; user code is, or will go on, at `regs`. `sp_was_set`: since the
    /// last transfer of control, see [`crate::engine::flow::Event`]. `kernel`: addresses on the
    /// kernel's stack, innermost first, if it was the kernel that was sampled.
    fn sampled(&mut self, regs: &Regs, kernel: &[u64], sp_was_set: bool, memory: Present<'_>);

    /// The same before the kernel has saved the registers of this entry: the sample has those of
    /// an earlier one.
    fn sampled_unsaved(&mut self, regs: &Regs) {
        let _ = regs;
    }
}
