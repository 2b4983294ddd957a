//! The way back to user mode: X1 to X6.

use arch::Arch;

use crate::kernel::paths::{EntryPath, ExitLoop};
use crate::kernel::symbols::Named;
use crate::kernel::task::WorkBits;
use crate::kernel::{Kernel, Point, State, scheduler, signal, task_work, uprobe};

/// The whole way back, from where all but the first [`EntryPath::exit`] functions of
/// `path` have returned. Entered with interrupts off.
pub async fn to_user_mode(k: &Kernel, path: &EntryPath) {
    let (always, if_work) = match path.exit_loop {
        ExitLoop::Always(function) => (Some(function), None),
        ExitLoop::IfWork(function) => (None, Some(function)),
    };
    k.enter(always.as_slice()).await;
    if exit_loop(k, if_work).await == Task::Gone {
        return;
    }
    k.leave(always.as_slice()).await;
    leave(k, path).await;
}

/// The remaining functions of `path` return, the last one to user mode.
pub async fn leave(k: &Kernel, path: &EntryPath) {
    k.leave(&path.functions[1..path.exit]).await;
    k.step(Point::Leave, State::leave_kernel).await;
}

/// What became of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It goes on.
    Lives,
    /// It ended, and its path with it.
    Gone,
}

/// X1 to X6. `called` is the function that the loop is in, if it is one of its own.
async fn exit_loop(k: &Kernel, called: Option<Named>) -> Task {
    let mut work = k.step(Point::ExitX1, read_work).await;
    if work.any() {
        let called = called.as_slice();
        k.enter(called).await;
        // Every test of a pass uses the snapshot.
        while work.any() {
            if pass(k, work).await == Task::Gone {
                return Task::Gone;
            }
            // What is asked for where that is told is seen.
            k.irqs_go_off(Named::HardirqsOff).await;
            work = k.step(Point::ExitX3, read_work).await;
        }
        k.leave(called).await;
    }
    k.step(Point::ExitX4, |s| {
        s.cpu.nmi_masked |= s.arch == Arch::Aarch64;
        s.activate_fpu();
    })
    .await;
    let design = k.design();
    if k.step(Point::ExitX5, |s| design.begin_reset(s)).await {
        design.reset(k).await;
    }
    k.irqs_go_on(Named::HardirqsOnPrepare).await;
    k.step(Point::ExitX6, |_| ()).await;
    Task::Lives
}

/// Interrupts off, the work bits read; a task that ends has no work left.
fn read_work(state: &mut State) -> WorkBits {
    state.cpu.irqs_on = false;
    match state.task.ending {
        None => state.task.work,
        Some(_) => WorkBits::default(),
    }
}

/// One pass of the loop body (X2), in its fixed order.
async fn pass(k: &Kernel, work: WorkBits) -> Task {
    k.irqs_go_on(Named::HardirqsOn).await;
    let turn_on = |s: &mut State| {
        s.cpu.irqs_on = true;
        s.held_up();
    };
    k.step(Point::ExitX2, turn_on).await;
    if work.need_resched {
        k.step(Point::ExitResched, |_| ()).await;
        scheduler::schedule(k).await;
    }
    if work.uprobe {
        k.step(Point::ExitUprobe, |s| s.task.work.uprobe = false).await;
        uprobe::notify_resume(k).await;
    }
    if work.patch_pending {
        k.step(Point::ExitPatch, |s| s.task.work.patch_pending = false).await;
    }
    if work.signal_pending && signal::deliver(k).await == Task::Gone {
        return Task::Gone;
    }
    if work.notify_resume {
        let queued = |s: &mut State| {
            s.task.work.notify_resume = false;
            s.task.works.is_pending()
        };
        if k.step(Point::ExitResume, queued).await {
            task_work::run(k).await;
        }
    }
    k.step(Point::ExitArch, |_| ()).await;
    Task::Lives
}
