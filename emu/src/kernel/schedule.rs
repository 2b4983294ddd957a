//! Who decides what happens next, where that is not the clocks.
//!
//! ```text
//!  step at POINT:  before ─► Go ─────────────────► the step ─► after(what the path learns of it)
//!                    ▲  ├──► Look: what is due interrupts first ─┐
//!                    │  └──► GiveWay: the executor elects a CPU ─┤
//!                    └───────────────────────────────────────────┘
//! ```
//!
//! Without a schedule the CPUs take their steps in the order of their clocks. With one, every
//! step of every CPU is a place where it may inject an interrupt, or let another CPU go on. Time
//! is then that of one clock: each step begins when the one before it, of whatever CPU, is over.
//! The schedule is a value, so that the same one gives the same run.

use std::fmt;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::kernel::machine::Elected;
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

/// What a path does before its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// It takes the step.
    Go,
    /// Interrupts that are due arrive first; then it asks again.
    Look,
    /// Another CPU goes on, or this one again; then it asks again.
    GiveWay,
}

/// See the module.
pub trait Schedule: fmt::Debug {
    /// The present CPU's path is about to take a step.
    fn before(&mut self, state: &mut State, point: Point) -> Next;

    /// The present CPU is about to run user code. [`Next::Look`]: what is due arrives first.
    fn before_user(&mut self, state: &mut State) -> Next;

    /// The step was taken; `learned`: a hash of what the path knows by it.
    fn after(&mut self, state: &State, point: Point, learned: u64);

    /// The CPU that goes on; `None`: the run is over, or nobody can.
    fn elect(&mut self, state: &State) -> Option<u32>;
}

/// A hash of what a step has returned.
pub fn learned(result: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    result.hash(&mut hasher);
    hasher.finish()
}

impl State {
    /// From now on this decides. Before the run.
    pub fn set_schedule(&mut self, schedule: Box<dyn Schedule>) {
        self.schedule = Some(schedule);
        // Every step is one at which the run is looked at.
        self.gives_way = true;
    }

    /// Takes it back.
    pub fn take_schedule(&mut self) -> Option<Box<dyn Schedule>> {
        self.gives_way = false;
        self.schedule.take()
    }

    /// Asks the schedule, if there is one.
    pub fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Schedule, &mut State) -> T) -> Option<T> {
        let mut schedule = self.schedule.take()?;
        let answer = ask(schedule.as_mut(), self);
        self.schedule = Some(schedule);
        Some(answer)
    }

    /// The CPU that goes on, by the schedule or by the clocks.
    pub fn elect_next(&mut self) -> Option<Elected> {
        if self.schedule.is_none() {
            return self.elect();
        }
        let cpu = self.ask(|schedule, state| schedule.elect(state)).flatten()?;
        let at = self.cpus().map(|cpu| cpu.clock).max().unwrap_or_default();
        Some(Elected { cpu, at, horizon: Time::MAX })
    }

    /// A CPU that is halted has nothing to do until an interrupt or a task comes; one that waits
    /// only for a timer counts as having something to do.
    pub fn can_go_on(&self, cpu: u32) -> bool {
        self.cpu_of(cpu).is_some_and(|cpu| cpu.ready_at() != Time::MAX)
    }
}

impl Kernel {
    /// Whether the present step is to wait: another CPU is behind, the run is to be looked at, or
    /// the schedule says so.
    pub fn before(&self, point: Point) -> Next {
        self.with(|state| {
            if !state.gives_way {
                return if state.cpu.clock > state.horizon { Next::GiveWay } else { Next::Go };
            }
            state.ask(|schedule, state| schedule.before(state, point)).unwrap_or_else(|| {
                state.gives_way = false;
                Next::GiveWay
            })
        })
    }
}
