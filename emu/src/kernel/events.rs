//! The events that are active on the CPU: those of the task that runs and those of the CPU
//! itself.
//!
//! ```text
//! retired user code, kernel steps ─► count ─► left <= 0: overflowed, an interrupt is due
//! ```

use crate::engine::Budget;
use crate::kernel::State;
use crate::perf::context::{Context, Instance, Output, Slot};
use crate::perf::record::{Event, EventKind, Time};
use crate::perf::session::SessionId;

/// Modelled kernel code branches once in so many instructions, steps of which may be
/// shorter.
const KERNEL_BRANCH_EVERY: u64 = 6;

impl State {
    /// The active instances, the task's first.
    pub fn instances(&self) -> impl Iterator<Item = (Slot, &Event, &Instance)> {
        self.opened_instances().filter(|(_, _, instance)| instance.active)
    }

    /// Those that get records of the task and CPU: also the ones that stand still.
    pub fn receivers(&self) -> impl Iterator<Item = (Slot, &Event, &Instance)> {
        self.opened_instances().filter(|(_, _, instance)| instance.receives())
    }

    fn opened_instances(&self) -> impl Iterator<Item = (Slot, &Event, &Instance)> {
        let slots = |of_cpu, context: &'_ Context| {
            (0..context.instances.len()).map(move |index| Slot { of_cpu, index })
        };
        slots(false, &self.task.events).chain(slots(true, &self.cpu.events)).map(|slot| {
            let instance = self.instance(slot);
            (slot, &*instance.event, instance)
        })
    }

    /// One of them.
    pub fn instance(&self, slot: Slot) -> &Instance {
        let context = if slot.of_cpu { &self.cpu.events } else { &self.task.events };
        &context.instances[slot.index]
    }

    /// Whether there is such an instance. A path that was preempted may go on where other events
    /// are open.
    pub fn is_there(&self, slot: Slot) -> bool {
        let context = if slot.of_cpu { &self.cpu.events } else { &self.task.events };
        context.instances.get(slot.index).is_some_and(|instance| !instance.switch.gone)
    }

    /// The same, to be changed.
    pub fn instance_mut(&mut self, slot: Slot) -> &mut Instance {
        let context = if slot.of_cpu { &mut self.cpu.events } else { &mut self.task.events };
        &mut context.instances[slot.index]
    }

    /// The attributes of an instance.
    pub fn event(&self, slot: Slot) -> &Event {
        &self.instance(slot).event
    }

    /// The active instances of events for which `wanted` holds, with these.
    pub fn active(&self, wanted: impl Fn(EventKind) -> bool) -> Vec<(Slot, EventKind)> {
        let all = self.instances().map(|(slot, event, _)| (slot, event.kind));
        all.filter(|(_, kind)| wanted(*kind)).collect()
    }

    /// User code ran: adds to the hardware counters.
    pub fn count_user(&mut self, instructions: u64, branches: u64) {
        for instance in self.task.events.instances.iter_mut().chain(&mut self.cpu.events.instances)
        {
            let event = &instance.event;
            if event.exclude_user || !instance.active {
                continue;
            }
            match event.kind {
                EventKind::Cycles | EventKind::Instructions => instance.counter.count(instructions),
                EventKind::Branches => instance.counter.count(branches),
                _ => false,
            };
        }
    }

    /// Kernel steps ran: adds to the hardware counters unless the PMU stands still.
    pub fn count_kernel(&mut self, cost: u64) {
        if !self.cpu.counting || self.instances_are_none() {
            return;
        }
        let since = self.cpu.since_branch + cost;
        self.cpu.since_branch = since % KERNEL_BRANCH_EVERY;
        for instance in self.task.events.instances.iter_mut().chain(&mut self.cpu.events.instances)
        {
            let event = &instance.event;
            if event.exclude_kernel || !instance.active {
                continue;
            }
            match event.kind {
                EventKind::Cycles | EventKind::Instructions => instance.counter.count(cost),
                EventKind::Branches => instance.counter.count(since / KERNEL_BRANCH_EVERY),
                _ => false,
            };
        }
    }

    /// Whether no event is open on the task or the CPU.
    pub fn instances_are_none(&self) -> bool {
        self.task.events.instances.is_empty() && self.cpu.events.instances.is_empty()
    }

    /// Whether events of the session are open on the task or the CPU.
    pub fn is_profiled_by(&self, session: SessionId) -> bool {
        self.receivers().filter_map(|(_, _, i)| i.session_event()).any(|of| of.session == session)
    }

    /// A hardware counter that has overflowed. An event that does not count in kernel
    /// mode does not interrupt there: its overflow waits for the return to user mode.
    pub fn overflowed(&self, in_user: bool) -> Option<Slot> {
        let hit = |event: &Event, instance: &Instance| {
            event.kind.is_hardware()
                && instance.counter.left <= 0
                && (in_user || !event.exclude_kernel)
                && (!in_user || !event.exclude_user)
        };
        self.instances().find(|(_, event, i)| hit(event, i)).map(|(slot, _, _)| slot)
    }

    /// A `cpu-clock` or `task-clock` whose timer has expired.
    pub fn expired_clock(&self) -> Option<Slot> {
        self.instances().find(|(_, _, i)| i.deadline <= self.cpu.clock).map(|(slot, _, _)| slot)
    }

    /// When the next timer of the CPU fires, of an event or the kernel's own.
    pub fn next_deadline(&self) -> Time {
        let events = self.task.events.next_deadline().min(self.cpu.events.next_deadline());
        events.min(self.cpu.timers.next()).min(self.next_tracer_timer())
    }

    /// How far the CPU may run in user mode before a counter overflows.
    pub fn counters_budget(&self) -> Budget {
        let mut budget = Budget::UNLIMITED;
        for (_, event, instance) in self.instances().filter(|(_, event, _)| !event.exclude_user) {
            let left = instance.counter.left.max(0) as u64;
            match event.kind {
                EventKind::Cycles | EventKind::Instructions => {
                    budget.instructions = budget.instructions.min(left);
                }
                EventKind::Branches => budget.branches = budget.branches.min(left),
                _ => {}
            }
        }
        budget
    }

    /// The task's events are gone: what they counted is kept.
    pub fn close_task_events(&mut self) {
        let instances = std::mem::take(&mut self.task.events.instances);
        self.add_totals(instances);
    }

    /// What these instances, which are gone, have counted is kept.
    pub fn add_totals(&mut self, instances: Vec<Instance>) {
        self.add_totals_at(instances, self.cpu.clock);
    }

    /// The same at the time of the CPU that they were on.
    pub fn add_totals_at(&mut self, instances: Vec<Instance>, now: Time) {
        for instance in instances {
            match &instance.output {
                Output::Session(_) if instance.switch.gone => {}
                Output::Session(of) => {
                    let Some(profile) = self.perf.profile_mut(of.session) else { continue };
                    let totals = instance.totals(now);
                    let mut counter = instance.counter;
                    if instance.event.kind.is_clock() {
                        // Also what has passed since the last sample (`task_clock_event_update`).
                        counter.total = totals.count;
                    }
                    profile.totals[of.event].add(&counter);
                    let times = &mut profile.times[of.event];
                    *times = times.plus(totals);
                }
                Output::Ring(opened) => {
                    let kept = if instance.switch.own { &opened.own } else { &opened.children };
                    kept.set(kept.get().plus(instance.totals(now)));
                    opened.exited.set(opened.exited.get() || instance.switch.own);
                }
            }
        }
    }
}
