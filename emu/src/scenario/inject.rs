//! What a scenario lets happen that no task does by itself, and where.

use crate::kernel::State;
use crate::kernel::schedule::Next;
use crate::scenario::place::At;
use crate::scenario::turn::Turn;

/// Whose program an interrupt of the PMU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// Perf: its event has overflowed.
    Perf,
    /// The tracer with this place in [`State::tracers`], as a BPF program on an event.
    Tracer(usize),
}

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The PMU interrupts, as soon as it may.
    Interrupt(Who),
    /// This CPU goes on, until it has nothing to do or another injection says otherwise.
    Switch(u32),
    /// So many nanoseconds pass on all CPUs.
    Pass(u64),
    /// So many allocations of a cache page, from now on, fail.
    FailPages(u64),
}

/// An action, and where it happens: said in a file, or chosen by a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Injection {
    /// Where.
    pub at: At,
    /// What.
    pub action: Action,
}

impl Action {
    /// It happens before the step that the present path is about to take; what that path does next.
    pub fn happen(self, state: &mut State, turn: &mut Turn) -> Next {
        match self {
            Action::Interrupt(who) => interrupt(state, who),
            Action::Switch(cpu) => {
                *turn = Turn(cpu);
                return Next::GiveWay;
            }
            Action::Pass(time) => pass(state, time),
            Action::FailPages(count) => {
                let failing = &mut state.unwind.failing_pages;
                *failing = failing.saturating_add(count);
            }
        }
        Next::Look
    }
}

/// Whether an interrupt of the PMU on behalf of `who` would arrive at once.
pub fn may_interrupt(state: &State, who: Who) -> bool {
    let ready = match who {
        Who::Perf => state
            .instances()
            .any(|(_, event, instance)| event.kind.is_hardware() && instance.counter.left > 0),
        Who::Tracer(index) => !state.cpu.tracer_nmis.contains(&index) && !state.task.is_idle(),
    };
    ready && !state.cpu.masks_pmu(state.config.pmu_irq)
}

fn interrupt(state: &mut State, who: Who) {
    match who {
        Who::Perf => {
            let hardware = state.instances().find(|(_, event, _)| event.kind.is_hardware());
            if let Some(slot) = hardware.map(|(slot, ..)| slot) {
                state.instance_mut(slot).counter.left = 0;
            }
        }
        Who::Tracer(index) => state.cpu.tracer_nmis.push(index),
    }
}

fn pass(state: &mut State, time: u64) {
    let cpus: Vec<u32> = state.cpus().map(|cpu| cpu.id).collect();
    for cpu in cpus {
        if let Some(cpu) = state.cpu_mut(cpu) {
            cpu.clock = cpu.clock.saturating_add(time);
        }
    }
}
