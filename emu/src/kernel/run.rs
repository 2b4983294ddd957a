//! The task's life: user code, and the kernel paths that interrupt it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{Budget, EngineError, Exit};
use crate::kernel::step::Stuck;
use crate::kernel::task::Ending;
use crate::kernel::{Kernel, State, do_exit, entry, fault, interrupt};
use crate::perf::pmu;
use crate::perf::record::Record;

/// User instructions between two looks at the interrupt flag: about a tenth of a second.
/// Counts are exact, so nothing that a guest or a profile shows depends on it.
const SLICE: u64 = 50_000_000;

/// Our own failure while a guest runs; `E` is that of whoever takes the records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The CPU failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The kernel model failed.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The records could not be handed on.
    #[error(transparent)]
    Emit(E),
}

/// Runs the guest to its end. Records go to `emit` in time order, in batches;
/// `interrupted` is looked at often.
pub fn run<E>(
    k: &Kernel,
    interrupted: &AtomicBool,
    mut emit: impl FnMut(&[Record]) -> Result<(), E>,
) -> Result<Ending, RunError<E>> {
    loop {
        let exit = k.with(run_user)?;
        match exit {
            Exit::Syscall => k.run(entry::syscall(k))?,
            Exit::PageFault { page, access } => {
                let cause = k.with(|s| fault::of_page(s, page, access));
                k.run(fault::handle(k, cause))?;
            }
            Exit::Exception(e) => {
                let cause = k.with(|s| fault::of_exception(s, e));
                k.run(fault::handle(k, cause))?;
            }
            Exit::Budget => {}
        }
        if k.with(|s| s.task.ending.is_none()) {
            k.run(user_interrupts(k))?;
        }
        let records = k.with(|s| std::mem::take(&mut s.perf.records));
        if !records.is_empty() {
            emit(&records).map_err(RunError::Emit)?;
        }
        let stop = interrupted.load(Ordering::Relaxed);
        if let Some(ending) = k.with(|s| ending(s, stop)) {
            // A limit of ours, or Ctrl-C, does not go through the end of a task.
            k.with(do_exit::close_events);
            let last = k.with(|s| std::mem::take(&mut s.perf.records));
            emit(&last).map_err(RunError::Emit)?;
            return Ok(ending);
        }
    }
}

fn ending(state: &mut State, interrupted: bool) -> Option<Ending> {
    let limit = state.stats.instructions >= state.config.max_instructions;
    state.task.ending.or(match (interrupted, limit) {
        (true, _) => Some(Ending::Interrupted),
        (false, true) => Some(Ending::Limit),
        (false, false) => None,
    })
}

/// Runs user code until something happens.
fn run_user(state: &mut State) -> Result<Exit, EngineError> {
    let budget = user_budget(state);
    if state.mm.stale {
        state.mm.stale = false;
        state.core.flush_tlb();
    }
    state.core.set_clock(state.cpu.clock);
    let began = state.cpu.clock;
    let State { core, arena, mm, .. } = state;
    let run = core.run(arena, &mut mm.table, budget)?;
    state.cpu.clock += run.retired;
    state.stats.instructions += run.retired;
    state.stats.branches += run.branches;
    state.perf.count_user(run.retired, run.branches);
    state.tell(|timeline, s| timeline.user(s, began, run.retired));
    Ok(run.exit)
}

/// How far user code may run: to the next overflow, timer, limit or look at the flag.
fn user_budget(state: &State) -> Budget {
    let mut budget = pmu::user_budget(state.perf.events());
    let timer = state.perf.next_deadline().saturating_sub(state.cpu.clock);
    let limit = state.config.max_instructions.saturating_sub(state.stats.instructions);
    budget.instructions = budget.instructions.min(timer).min(limit).min(SLICE);
    budget
}

/// Interrupts that arrive between two user instructions.
async fn user_interrupts(k: &Kernel) {
    loop {
        let (pmu, irq_work, timer) = k.with(|s| {
            let pmu = s.perf.overflowed(true).is_some();
            (pmu, s.cpu.irq_work.is_raised(), s.perf.next_deadline() <= s.cpu.clock)
        });
        if pmu {
            interrupt::pmu_in_user(k).await;
        } else if irq_work {
            interrupt::irq_work_in_user(k).await;
        } else if timer {
            interrupt::timer_in_user(k).await;
        } else {
            return;
        }
        if k.with(|s| s.task.ending.is_some()) {
            return;
        }
    }
}
