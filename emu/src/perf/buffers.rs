//! The buffers that callchains are walked into (`kernel/events/callchain.c`): whether there are
//! any, and which of them are in use.
//!
//! ```text
//! nr_callchain_events   0 ─► 1: a set of buffers on each CPU, one buffer a level
//!                       1 ─► 0: they are freed;   above 0: the sysctls of their size are frozen
//! callchain_recursion   of each CPU and level: taken while a chain is walked there
//! ```
//!
//! The chain itself is a value of its own ([`crate::perf::callchain::Chain`]): nobody reads a
//! buffer after it was given back. An allocation never fails here.

use std::cell::Cell;
use std::rc::Rc;

use crate::perf::callchain::Limits;

/// Levels at which chains are walked: task, softirq, hardirq, NMI.
pub const LEVELS: usize = 4;

/// Buffers, their users, and who walks.
#[derive(Debug, Default)]
pub struct Buffers {
    shared: Rc<Shared>,
    /// `callchain_recursion` of each CPU that has ever walked.
    slots: Vec<[u8; LEVELS]>,
    /// The most that a slot ever was.
    most: u8,
}

#[derive(Debug, Default)]
struct Shared {
    users: Cell<u64>,
    allocated: Cell<bool>,
}

/// What an event with callchains holds as long as it lives: one of `nr_callchain_events`.
#[derive(Debug)]
pub struct BufferUse(Rc<Shared>);

/// What there is to see of them on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `nr_callchain_events`
    pub users: u64,
    /// There are buffers.
    pub allocated: bool,
    /// What the sysctls say.
    pub limits: Limits,
    /// `callchain_recursion` of the CPU.
    pub slots: [u8; LEVELS],
    /// The most that a slot of any CPU ever was.
    pub most: u8,
}

impl Buffers {
    /// `get_callchain_buffers`: the first user allocates.
    pub fn get(&self) -> BufferUse {
        self.shared.users.set(self.shared.users.get() + 1);
        self.shared.allocated.set(true);
        BufferUse(self.shared.clone())
    }

    /// Whether the sysctls of their size may be written.
    pub fn are_unused(&self) -> bool {
        self.shared.users.get() == 0
    }

    /// `get_callchain_entry`: the buffer of a CPU and level is taken, if there is one and nobody
    /// has it.
    pub fn acquire(&mut self, cpu: u32, level: u8) -> bool {
        let cpu = cpu as usize;
        if self.slots.len() <= cpu {
            self.slots.resize(cpu + 1, [0; LEVELS]);
        }
        let slot = &mut self.slots[cpu][usize::from(level) % LEVELS];
        if *slot != 0 || !self.shared.allocated.get() {
            return false;
        }
        *slot += 1;
        self.most = self.most.max(*slot);
        true
    }

    /// `put_callchain_entry`
    pub fn release(&mut self, cpu: u32, level: u8) {
        if let Some(slots) = self.slots.get_mut(cpu as usize) {
            let slot = &mut slots[usize::from(level) % LEVELS];
            *slot = slot.saturating_sub(1);
        }
    }

    /// As they are on a CPU; `limits` are the sysctls.
    pub fn view(&self, cpu: u32, limits: Limits) -> View {
        View {
            users: self.shared.users.get(),
            allocated: self.shared.allocated.get(),
            limits,
            slots: self.slots.get(cpu as usize).copied().unwrap_or_default(),
            most: self.most,
        }
    }
}

impl Drop for BufferUse {
    /// `put_callchain_buffers`: the last user frees.
    fn drop(&mut self) {
        let left = self.0.users.get().saturating_sub(1);
        self.0.users.set(left);
        if left == 0 {
            self.0.allocated.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_allocates_and_the_last_frees() {
        let mut buffers = Buffers::default();
        assert!(!buffers.acquire(0, 0) && buffers.are_unused(), "there are none");
        let (first, second) = (buffers.get(), buffers.get());
        drop(first);
        assert!(!buffers.are_unused() && buffers.acquire(0, 0));
        drop(second);
        let view = buffers.view(0, Limits::default());
        assert!(!view.allocated && buffers.are_unused());
        assert_eq!(view.slots, [1, 0, 0, 0], "who walks keeps his slot");
    }

    #[test]
    fn a_level_of_a_cpu_has_one_buffer() {
        let mut buffers = Buffers::default();
        let _user = buffers.get();
        assert!(buffers.acquire(1, 0) && !buffers.acquire(1, 0), "taken");
        assert!(buffers.acquire(1, 3) && buffers.acquire(0, 0), "another level, another CPU");
        buffers.release(1, 0);
        assert!(buffers.acquire(1, 0));
        assert_eq!(buffers.view(1, Limits::default()).most, 1);
    }
}
