//! Events that sample too often stand still for a while (`perf_event_max_sample_rate`).
//!
//! ```text
//!  overflow ─► samples of this tick = rate / HZ ─► THROTTLE, the sample itself, the group stops
//!  tick, or the task is scheduled in ─► UNTHROTTLE, the group goes on
//! ```
//!
//! A tick comes every 4 ms (`HZ` = 250) on a CPU that is not idle, if there is a limit, too few
//! counters, or a frequency of events whose rate is not known; it fits the periods of all
//! frequencies to what was counted ([`Counter::tick`](crate::perf::pmu::Counter::tick)). Else there
//! is none: samples then come exactly at their period.
//!
//! Where interrupts follow each other with no user instruction, or no step of the kernel, between
//! them, as they do if their way out is longer than the period, or the exit loop or its task work
//! is asked for once more in each, nothing but the limit lets a task go on. There Linux's own limit
//! holds if none is given.

use crate::kernel::State;
use crate::kernel::task::Ending;
use crate::kernel::timers::{Timer, TimerId};
use crate::perf::context::{Context, Instance, Output, SessionEvent, Slot};
use crate::perf::pmu::{HZ, MAX_SAMPLE_RATE, TICK};
use crate::perf::record::Record;

/// Ticks a second.
const TICKS: u64 = HZ / TICK;

/// Interrupts of a CPU, passes of the exit loop and lists of task work between two user
/// instructions after which its events are throttled: the samples that Linux allows in a tick.
const MOST_STALLED: u64 = MAX_SAMPLE_RATE.div_ceil(TICKS);

/// What may hold user code up before the run is given up: no throttle stops it.
const MOST_HELD_UP: u64 = 100 * LOOKED_AT;

/// After so many of them the run is looked at: its records are written, Ctrl-C ends it.
const LOOKED_AT: u64 = 200;

/// The tick of a CPU, and what it is needed for.
#[derive(Clone, Debug, Default)]
pub struct Ticking {
    /// The timer of the next tick, if one is wanted.
    timer: Option<TimerId>,
    /// Ticks so far (`perf_throttled_seq`).
    pub count: u64,
    /// What has held user code up since it retired an instruction.
    stalled: u64,
}

/// PMU interrupts between two steps of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall(u64);

impl Stall {
    /// One more; with too many of them the CPU is stalled as where user code does not get ahead.
    pub fn interrupted(&mut self, tick: &mut Ticking) {
        self.0 += 1;
        if self.0 >= MOST_STALLED {
            tick.stalled = tick.stalled.max(MOST_STALLED);
        }
    }
}

impl Ticking {
    /// User code retired so many instructions.
    pub const fn went_on(&mut self, retired: u64) {
        if retired > 0 {
            self.stalled = 0;
        }
    }

    /// Whether user code does not get ahead.
    pub const fn is_stalled(&self) -> bool {
        self.stalled >= MOST_STALLED
    }
}

impl State {
    /// User code is interrupted, or its way out of the kernel takes one more pass of the exit loop
    /// or one more list of task work. Where this goes on for ever, as no throttle holds it, the run
    /// ends.
    pub fn held_up(&mut self) {
        let stalled = &mut self.cpu.tick.stalled;
        *stalled += 1;
        self.gives_way |= stalled.is_multiple_of(LOOKED_AT);
        if *stalled >= MOST_HELD_UP {
            self.ending.get_or_insert(Ending::Livelock);
        }
    }

    /// The tick of the present CPU, if anything depends on it.
    pub fn start_tick(&mut self) {
        self.start_tick_of(self.cpu.id);
    }

    /// The tick of a CPU that runs a task, if anything depends on it.
    pub fn start_tick_of(&mut self, id: u32) {
        let limited = self.config.max_sample_rate.is_some() || self.config.pmu_counters.is_some();
        let adapts = |context: &Context| {
            context.instances.iter().any(|i| i.counter.needs_ticks(i.event.kind))
        };
        let Some(cpu) = self.cpu_of(id) else { return };
        let Some(task) = self.task_of(cpu.current).filter(|task| !task.is_idle()) else { return };
        let adapts = adapts(&task.events) || adapts(&cpu.events);
        let wanted = limited || adapts || cpu.tick.is_stalled();
        if let Some(cpu) = self.cpu_mut(id).filter(|cpu| wanted && cpu.tick.timer.is_none()) {
            let at = (cpu.clock / TICK + 1) * TICK;
            cpu.tick.timer = Some(cpu.timers.start(at, Timer::Tick));
        }
    }

    /// `perf_event_task_tick`
    pub fn perf_tick(&mut self) {
        self.cpu.tick.timer = None;
        self.cpu.tick.count += 1;
        self.unthrottle(true);
        self.unthrottle(false);
        let State { cpu, task, .. } = self;
        let instances = cpu.events.instances.iter_mut().chain(&mut task.events.instances);
        for instance in instances.filter(|i| i.active && !i.event.kind.is_clock()) {
            instance.counter.tick();
        }
        self.rotate_counters();
        self.start_tick();
    }

    /// Samples of an event that may be in a tick (`max_samples_per_tick`).
    pub fn most_samples(&self) -> Option<u64> {
        Some(self.config.max_sample_rate?.div_ceil(TICKS))
    }

    /// `perf_event_account_interrupt` of an event whose overflow interrupts: with the last sample
    /// that it may take in this tick its group stops; with the next one if user code is stalled.
    pub fn account_interrupt(&mut self, slot: Slot) {
        let stalled = self.cpu.tick.is_stalled();
        let most = match self.most_samples() {
            Some(most) => most,
            None if stalled => MOST_STALLED,
            None => return,
        };
        let kind = self.event(slot).kind;
        let (tick, now) = (self.cpu.tick.count, self.cpu.clock);
        let reached = self.instance_mut(slot).interrupts.account(tick, most) || stalled;
        if !reached || !kind.interrupts() {
            return;
        }
        self.start_tick();
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
            Output::Session(SessionEvent { session, event }) => {
                let (pid, tid, event) = (self.task.pid, self.task.tid, *event);
                let (time, cpu) = (self.cpu.clock, self.cpu.id);
                let told = Record::Throttle { pid, tid, time, cpu, event, throttled };
                self.record_in(*session, told);
            }
            Output::Ring(opened) => {
                self.throttle_in_ring(opened, instance.switch.stream_id, throttled);
            }
        }
    }
}
