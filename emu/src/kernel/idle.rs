//! What a CPU does when no task can run (`do_idle`).

use crate::kernel::scheduler::{self, pause};
use crate::kernel::{Kernel, Point, State};

/// The idle task's whole life: it halts until an interrupt comes, and looks whether there is
/// somebody to run.
pub async fn idle(k: Kernel) {
    scheduler::first_run(&k).await;
    loop {
        let wanted = |s: &mut State| s.task.work.need_resched || !s.cpu.queue.is_empty();
        if k.step(Point::IdleLook, wanted).await {
            scheduler::schedule(&k).await;
            continue;
        }
        k.last_step(Point::Idle, |s| s.cpu.halted = true);
        pause().await;
        // Whatever ended the halt arrives in this step.
        k.step(Point::IdleWake, |_| ()).await;
    }
}
