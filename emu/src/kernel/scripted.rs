//! System calls that do what a script says: kernel code driven without a program.
//!
//! Their numbers begin where no kernel has any, and there are only as many as the machine has
//! scripts ([`State::scripts`]). All around them is a system call like any other: the entry, its
//! tracepoints, the way out.

use std::rc::Rc;

use crate::kernel::syscalls::Outcome;
use crate::kernel::{Kernel, Point, State, task_work, tracer};

/// The number of the first.
pub const FIRST_NUMBER: u64 = 0x5000_0000;

/// What one does, in order. Tracers are named by their place in [`State::tracers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The tracer asks for this task's user stack, if it is registered.
    Ask(usize),
    /// It asks in any case: after it was cancelled (H7), though it was refused (H14).
    AskAnyway(usize),
    /// It is registered.
    Register(usize),
    /// It is cancelled, if it is registered.
    Cancel(usize),
    /// It is cancelled in any case, for the second time too (H9).
    CancelAnyway(usize),
    /// Task work runs in the middle of the call (H3).
    TaskWork,
    /// A step of work.
    Work,
}

/// The script of call `nr`, if it has one.
pub fn of(state: &State, nr: u64) -> Option<Rc<[Act]>> {
    let index = usize::try_from(nr.checked_sub(FIRST_NUMBER)?).ok()?;
    state.scripts.get(index).cloned()
}

/// The body of such a call.
pub async fn call(k: &Kernel, script: &[Act]) -> Outcome {
    for act in script {
        match *act {
            Act::Ask(tracer) => tracer::ask(k, tracer).await,
            Act::AskAnyway(tracer) => tracer::ask_anyway(k, tracer).await,
            Act::Register(tracer) => {
                tracer::register(k, tracer).await;
            }
            Act::Cancel(tracer) => tracer::cancel(k, tracer).await,
            Act::CancelAnyway(tracer) => tracer::cancel_anyway(k, tracer).await,
            Act::TaskWork => task_work::run(k).await,
            Act::Work => k.step(Point::Body, |_| ()).await,
        }
    }
    k.step(Point::Body, |_| Outcome::Return(0)).await
}
