//! The way back to user mode: X1 to X6.

use arch::Arch;

use crate::kernel::symbols::Named;
use crate::kernel::task::WorkBits;
use crate::kernel::{Kernel, Point, aarch64, signal, x86_64};

/// The whole way back, from an interrupt or exception. `kept` are those of its functions
/// that have not returned yet.
pub async fn to_user_mode(k: &Kernel, kept: &[Named]) {
    let exit = k.with(|s| match s.arch {
        Arch::X86_64 => x86_64::paths::INTERRUPT_EXIT_LOOP,
        Arch::Aarch64 => aarch64::paths::INTERRUPT_EXIT_LOOP,
    });
    exit_loop(k, exit).await;
    k.end(kept).await;
    leave(k);
}

/// X1 to X6. Entered with interrupts off; `function` holds the loop.
pub async fn exit_loop(k: &Kernel, function: Named) {
    let mut work = k
        .step(Point::ExitX1, |s| {
            s.cpu.irqs_on = false;
            s.task.work
        })
        .await;
    if work.any() {
        k.call(function.into()).await;
        // Every test of a pass uses the snapshot.
        while work.any() && k.with(|s| s.task.ending.is_none()) {
            pass(k, work).await;
            work = k
                .step(Point::ExitX3, |s| {
                    s.cpu.irqs_on = false;
                    s.task.work
                })
                .await;
        }
        k.ret().await;
    }
    k.step(Point::ExitX4, |_| ()).await;
    k.step(Point::ExitX5, |_| ()).await;
    k.step(Point::ExitX6, |_| ()).await;
}

/// One pass of the loop body (X2), in its fixed order.
async fn pass(k: &Kernel, work: WorkBits) {
    k.step(Point::ExitX2, |s| s.cpu.irqs_on = true).await;
    if work.need_resched {
        k.step(Point::ExitResched, |s| s.task.work.need_resched = false).await;
    }
    if work.uprobe {
        k.step(Point::ExitUprobe, |s| s.task.work.uprobe = false).await;
    }
    if work.patch_pending {
        k.step(Point::ExitPatch, |s| s.task.work.patch_pending = false).await;
    }
    if work.signal_pending {
        signal::deliver(k).await;
    }
    if work.notify_resume {
        k.step(Point::ExitResume, |s| s.task.work.notify_resume = false).await;
    }
    k.step(Point::ExitArch, |_| ()).await;
}

/// The return instruction: the slot's registers become the CPU's.
pub fn leave(k: &Kernel) {
    k.with(|s| {
        s.cpu.functions.clear();
        s.cpu.kernel = None;
        s.cpu.irqs_on = true;
        if s.task.ending.is_some() {
            return;
        }
        let regs = s.user_regs();
        if regs != s.core.regs() {
            s.core.set_regs(&regs);
        }
    });
}
