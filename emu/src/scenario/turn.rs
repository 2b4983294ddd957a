//! Whose turn it is, where nobody says otherwise: the CPU that goes on goes on, and when it has
//! nothing to do, the lowest that has.

use crate::kernel::State;

/// The CPU whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn(pub u32);

impl Turn {
    /// The CPU that goes on; `None`: all wait.
    pub fn next(self, state: &State) -> Option<u32> {
        let can = |cpu: &u32| state.can_go_on(*cpu);
        Some(self.0).filter(can).or_else(|| state.cpus().map(|cpu| cpu.id).find(can))
    }
}

/// CPUs other than the present one that have something to do: user code or a path that is under
/// way, not only a halt that an interrupt will end.
pub fn others(state: &State) -> impl Iterator<Item = u32> {
    state
        .others
        .cpus
        .values()
        .filter(|cpu| !cpu.halted || !cpu.queue.is_empty() || cpu.resched_ipi)
        .map(|cpu| cpu.id)
}
