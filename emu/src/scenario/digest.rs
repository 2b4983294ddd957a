//! A hash of the machine, for searches that do not go twice into the same state.
//!
//! ```text
//! H = hash of  the shared state: works, list, mask, mutex, SRCU, tracers, who waits
//!              each CPU: what runs, interrupts, preempt count, queue, cookies given
//!              each task: mask, id, cache, task work, work bits
//! and, which the walk and the judge keep:
//!              each context's history since it began: every (point, what its path learned there)
//!              each task's answers, callbacks, samples, records and hazards
//! ```
//!
//! A path is an async function: its locals cannot be hashed, but they come from nothing but what
//! its steps returned, so that equal histories are equal locals, and equal hashes mean equal
//! futures. Clocks are left out: with a schedule, time only says what came before what, and where a
//! design reads it, the value that it keeps is in the state. So is what the laws' monitors remember
//! of the order of events in *different* tasks: of two orders with one outcome the first is judged.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::kernel::State;
use crate::kernel::state::Cpu;
use crate::kernel::task::Task;

/// The shared state: what tasks and CPUs can learn of each other's doing.
pub fn shared(state: &State, hasher: &mut FxHasher) {
    let unwind = &state.unwind;
    unwind.works.hash(hasher);
    unwind.list.hash(hasher);
    unwind.mask.hash(hasher);
    (unwind.mutex.owner, unwind.mutex.handoff).hash(hasher);
    unwind.srcu.hash(hasher);
    unwind.failing_pages.hash(hasher);
    state.others.sleepers.hash(hasher);
    for tracer in &state.tracers {
        tracer.phase.hash(hasher);
    }
    for task in state.tasks() {
        // Others change a task's mask and cache when they cancel, and its bits when they wake it.
        (task.id, task.unwind.mask, task.place, task.work, task.dead, task.affinity).hash(hasher);
        task.unwind.cache.as_ref().map(|cache| cache.completed).hash(hasher);
        task.waiting.map(|w| (w.on, w.interruptible, w.woken)).hash(hasher);
        task.signals.pending_set().0.hash(hasher);
    }
    for cpu in state.cpus() {
        (cpu.current, cpu.resched_ipi).hash(hasher);
        cpu.queue.hash(hasher);
    }
}

/// What only the task itself, or what interrupts it, reads and changes.
pub fn own(task: &Task, hasher: &mut FxHasher) {
    task.unwind.hash(hasher);
    task.works.hash(hasher);
    (task.exiting, task.mm.is_some(), task.ending).hash(hasher);
    task.events.instances.len().hash(hasher);
}

/// What only the CPU itself reads and changes.
pub fn cpu(cpu: &Cpu, hasher: &mut FxHasher) {
    (cpu.id, cpu.irqs_on, cpu.nmi_masked, cpu.preempt_count, cpu.halted).hash(hasher);
    (cpu.kernel.is_some(), cpu.unwind_ctx_ctr, cpu.counting).hash(hasher);
    cpu.irq_work.is_raised().hash(hasher);
    cpu.tracer_nmis.hash(hasher);
}

/// The machine's part of it.
pub fn machine(state: &State) -> u64 {
    let mut hasher = FxHasher::default();
    shared(state, &mut hasher);
    state.tasks().for_each(|task| own(task, &mut hasher));
    state.cpus().for_each(|c| cpu(c, &mut hasher));
    state.ending.hash(&mut hasher);
    hasher.finish()
}
