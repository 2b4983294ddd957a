//! More hardware events than the PMU has counters: they take turns (`perf_rotate_context`).
//!
//! ```text
//! tick: did a flexible group of a context get no counters? ─► its order is rotated by one
//! then, when a task is scheduled in, and when events are opened, turned on or off, or closed:
//! counters to pinned groups, then to flexible ones, each time the CPU's before the task's
//! ```

use crate::kernel::State;
use crate::perf::context::Context;
use crate::perf::counters::{Class, Free};

impl State {
    /// The counters of the present CPU are given out.
    pub fn assign_counters(&mut self) -> [bool; 2] {
        self.assign_counters_of(self.cpu.id)
    }

    /// Those of a CPU (`ctx_sched_in`). Whether some of its events, and of its task's, have to
    /// wait.
    pub fn assign_counters_of(&mut self, cpu: u32) -> [bool; 2] {
        let Some(counters) = self.config.pmu_counters else { return [false; 2] };
        let mut free = Free::new(counters as usize);
        let mut waits = [false; 2];
        for class in [Class::Pinned, Class::Flexible] {
            for (of_task, waits) in [false, true].into_iter().zip(&mut waits) {
                let Some(now) = self.cpu_of(cpu).map(|cpu| cpu.clock) else { continue };
                if let Some(context) = self.context_on(cpu, of_task) {
                    *waits |= context.assign(class, &mut free, now);
                }
            }
        }
        waits
    }

    /// The events of a CPU, or of the task that runs there.
    fn context_on(&mut self, cpu: u32, of_task: bool) -> Option<&mut Context> {
        if !of_task {
            return self.cpu_mut(cpu).map(|cpu| &mut cpu.events);
        }
        let task = if cpu == self.cpu.id { self.task.id } else { self.cpu_of(cpu)?.current };
        self.task_mut(task).map(|task| &mut task.events)
    }

    /// The counters are given out anew at a tick: those that got none have their turn.
    pub fn rotate_counters(&mut self) {
        let [of_cpu, of_task] = self.assign_counters();
        self.cpu.events.rotation += usize::from(of_cpu);
        self.task.events.rotation += usize::from(of_task);
        if of_cpu || of_task {
            self.assign_counters();
        }
    }
}
