//! Events that sample too often stand still for a while (`perf_event_max_sample_rate`).
//!
//! ```text
//!  overflow ─► samples of this tick = rate / HZ ─► THROTTLE, the sample itself, the group stops
//!  tick, or the task is scheduled in ─► UNTHROTTLE, the group goes on
//! ```
//!
//! A tick comes every 4 ms (`HZ` = 250) on a CPU that is not idle, if there is a limit or too few
//! counters. Else there is none: samples then come exactly at their period.

use crate::kernel::State;
use crate::kernel::timers::Timer;
use crate::perf::context::{Instance, Output, Slot};
use crate::perf::pmu::{HZ, TICK};
use crate::perf::record::{EventKind, Record};

/// Ticks a second.
const TICKS: u64 = HZ / TICK;

impl State {
    /// The tick of the CPU that runs a task, if anything depends on it.
    pub fn start_tick(&mut self) {
        let wanted = self.config.max_sample_rate.is_some() || self.config.pmu_counters.is_some();
        if wanted && self.cpu.tick.is_none() && !self.task.is_idle() {
            let at = (self.cpu.clock / TICK + 1) * TICK;
            self.cpu.tick = Some(self.cpu.timers.start(at, Timer::Tick));
        }
    }

    /// `perf_event_task_tick`
    pub fn perf_tick(&mut self) {
        self.cpu.tick = None;
        self.cpu.ticks += 1;
        self.unthrottle(true);
        self.unthrottle(false);
        self.rotate_counters();
        self.start_tick();
    }

    /// Samples of an event that may be in a tick (`max_samples_per_tick`).
    pub fn most_samples(&self) -> Option<u64> {
        Some(self.config.max_sample_rate?.div_ceil(TICKS))
    }

    /// `perf_event_account_interrupt` of an event whose overflow interrupts: with the last sample
    /// that it may take in this tick its group stops.
    pub fn account_interrupt(&mut self, slot: Slot) {
        let Some(most) = self.most_samples() else { return };
        let kind = self.event(slot).kind;
        let timer = matches!(kind, EventKind::CpuClock | EventKind::TaskClock);
        let (tick, now) = (self.cpu.ticks, self.cpu.clock);
        let reached = self.instance_mut(slot).interrupts.account(tick, most);
        if !reached || !(kind.is_hardware() || timer) {
            return;
        }
        let of = self.instance(slot).clone();
        let context = if slot.of_cpu { &mut self.cpu.events } else { &mut self.task.events };
        let group = context.instances.iter_mut().filter(|i| i.is_grouped_with(&of));
        let stopped: Vec<Instance> = group
            .filter(|i| i.active)
            .map(|instance| {
                instance.throttle(now);
                instance.clone()
            })
            .collect();
        stopped.iter().for_each(|instance| self.log_throttle(instance, true));
    }

    /// The throttled events of the present CPU or task go on.
    pub fn unthrottle(&mut self, of_cpu: bool) {
        let (now, cpu) = (self.cpu.clock, self.cpu.id);
        let context = if of_cpu { &mut self.cpu.events } else { &mut self.task.events };
        let throttled = context.instances.iter_mut().filter(|i| i.interrupts.throttled);
        let going: Vec<Instance> = throttled
            .map(|instance| {
                instance.unthrottle(now);
                instance.clone()
            })
            .collect();
        if !going.is_empty() {
            context.settle(now, cpu);
        }
        going.iter().for_each(|instance| self.log_throttle(instance, false));
    }

    /// `perf_log_throttle`: of a group the leader alone says it.
    fn log_throttle(&mut self, instance: &Instance, throttled: bool) {
        if !instance.is_leader() {
            return;
        }
        match &instance.output {
            Output::Session(event) => {
                let (pid, tid, event) = (self.task.pid, self.task.tid, *event);
                let (time, cpu) = (self.cpu.clock, self.cpu.id);
                self.record_in_profile(Record::Throttle { pid, tid, time, cpu, event, throttled });
            }
            Output::Ring(opened) => {
                self.throttle_in_ring(opened, instance.switch.stream_id, throttled);
            }
        }
    }
}
