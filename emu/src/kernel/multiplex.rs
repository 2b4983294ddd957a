//! More hardware events than the PMU has counters: they take turns (`perf_rotate_context`).
//!
//! ```text
//! tick: did one of a context get no counter? ─► its order is rotated by one
//! then, and when a task is scheduled in: counters to the CPU's events, the rest to the task's
//! ```
//!
//! Only the session's events take part; those that a guest opens have counters of their own.

use crate::kernel::State;

impl State {
    /// The counters of the present CPU are given out (`ctx_sched_in`: the CPU's events first).
    pub fn assign_counters(&mut self) -> [bool; 2] {
        let Some(counters) = self.config.pmu_counters else { return [false; 2] };
        let now = self.cpu.clock;
        let (free, of_cpu) = self.cpu.events.assign(counters as usize, now);
        let (_, of_task) = self.task.events.assign(free, now);
        [of_cpu, of_task]
    }

    /// The same at a tick, where those that got none have their turn.
    pub fn rotate_counters(&mut self) {
        let [of_cpu, of_task] = self.assign_counters();
        self.cpu.events.rotation += usize::from(of_cpu);
        self.task.events.rotation += usize::from(of_task);
        if of_cpu || of_task {
            self.assign_counters();
        }
    }
}
