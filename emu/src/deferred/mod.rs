//! Designs of the deferred user unwinder, side by side: one file a design.
//!
//! ```text
//!              identifier     who is called     NMI may ask   callbacks under   at task exit
//! timestamp    clock          every tracer      no            a mutex           empty trace
//! cookie       CPU, count     every tracer      no            a mutex           empty trace
//! mask         CPU, count     those that asked  yes           SRCU              the stack
//! per-work     CPU, count     who asked         no            nothing           the stack
//! ```
//!
//! `timestamp` and `cookie` were posted before `mask`, which is Linux 7.3; `per-work` is a
//! reviewer's sketch: the task-work item is inside the tracer's work, and of global state there are
//! only the counts of the cookies.
//! Each is modelled with its flaws. All implement [`Design`] with the kernel's named steps
//! (`unwind.…`: rules of `mask`; `unwind_a.…`, `unwind_b.…`: of the two before it;
//! `unwind_w.…`: of the sketch), so that whatever may interrupt the kernel may interrupt them
//! between any two.
//!
//! * [`id`]: cookies (rules G1 to G6). * `capture`: the walk into the task's cache (C1 to C7).
//! * `listed`: what `timestamp` and `cookie` share: a list of tracers and a mutex.
//!
//! Tracers beside perf are registered and cancelled by [`crate::kernel::tracer`].

mod capture;
pub mod cookie;
pub mod id;
mod listed;
pub mod mask;
pub mod per_work;
pub mod timestamp;

use std::rc::Rc;

use crate::kernel::unwind::Design;

/// All designs, Linux 7.3's first.
pub fn all() -> [Rc<dyn Design>; 4] {
    [
        Rc::new(mask::Mask),
        Rc::new(cookie::Cookie),
        Rc::new(timestamp::Timestamp),
        Rc::new(per_work::PerWork),
    ]
}

/// The design with this name.
pub fn by_name(name: &str) -> Option<Rc<dyn Design>> {
    all().into_iter().find(|d| d.name() == name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
