//! What paths of several tasks exclude each other with: the deferred unwinder's mutex
//! (`callback_mutex`), and sections protected by SRCU.
//!
//! ```text
//! mutex   lock: free: taken, also while others wait; else the task waits
//!         unlock: the first who waits is woken; if somebody else has taken it meanwhile, he is
//!         given it at the next unlock (handoff)
//! SRCU    a reader enters and leaves, and may sleep between;
//!         synchronize: waits for all readers that entered before it
//! ```
//!
//! Not modelled: that a task spins while the owner runs, in place of sleeping.
//!
//! A task that waits cannot be interrupted by a signal. One that waits for a mutex that it holds
//! itself waits for ever, as in the kernel (H13).

use crate::kernel::task::TaskId;
use crate::kernel::wait::{self, Wait, Woken};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

/// The state of a mutex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mutex {
    /// Who has it.
    pub owner: Option<TaskId>,
    /// Who was woken for it, found it taken, and gets it next.
    pub handoff: Option<TaskId>,
    /// Nanoseconds that tasks have waited for it.
    pub waited: Time,
    /// The most who waited at a time.
    pub longest_queue: u32,
}

/// An SRCU domain: readers by the number of their entry, which only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Srcu {
    entered: u64,
    inside: Vec<u64>,
}

impl Srcu {
    /// A reader enters; what it leaves with.
    pub fn enter(&mut self) -> u64 {
        self.entered += 1;
        self.inside.push(self.entered);
        self.entered
    }

    /// A reader leaves.
    pub fn leave(&mut self, reader: u64) {
        self.inside.retain(|&r| r != reader);
    }

    /// Readers inside.
    pub fn readers(&self) -> usize {
        self.inside.len()
    }

    /// Whether one is inside that entered at `until` or before.
    fn holds_up(&self, until: u64) -> bool {
        self.inside.iter().any(|&r| r <= until)
    }
}

/// Takes the mutex; `point` is the step in which it is had.
pub async fn lock(k: &Kernel, point: Point) {
    let began = k.step(point, |s| s.try_lock(false)).await;
    let Err(began) = began else { return };
    loop {
        wait::finish(k).await;
        if k.step(Point::MutexRetry, |s| s.try_lock(true)).await.is_ok() {
            break;
        }
    }
    k.step(Point::MutexGot, |s| {
        let waited = s.cpu.clock.saturating_sub(began);
        s.unwind.mutex.waited += waited;
    })
    .await;
}

/// Gives it back in this step.
pub async fn unlock(k: &Kernel, point: Point) {
    k.step(point, |s| {
        s.unwind.mutex.owner = s.unwind.mutex.handoff.take();
        match s.unwind.mutex.owner {
            Some(next) => s.wake_task(next, Woken::Up),
            None => drop(s.wake(Wait::Mutex, 1)),
        }
    })
    .await;
}

/// `synchronize_srcu`: waits until those readers are gone that are inside now.
pub async fn synchronize(k: &Kernel, point: Point) {
    let until = k.step(point, |s| s.unwind.srcu.entered).await;
    let waits = |s: &mut State| {
        let busy = s.unwind.srcu.holds_up(until);
        if busy {
            s.prepare_to_wait(Wait::Srcu, None, false);
        }
        busy
    };
    while k.step(Point::SrcuLook, waits).await {
        wait::finish(k).await;
    }
}

impl State {
    /// Takes the mutex if it is free, or given to the task that was woken for it; else the task
    /// begins to wait, and the time is returned.
    fn try_lock(&mut self, woken: bool) -> Result<(), Time> {
        let me = self.task.id;
        let mutex = &mut self.unwind.mutex;
        if mutex.owner.is_none() || woken && mutex.owner == Some(me) {
            mutex.owner = Some(me);
            return Ok(());
        }
        if woken {
            mutex.handoff.get_or_insert(me);
        }
        self.prepare_to_wait(Wait::Mutex, None, false);
        let queue = self.waiters(Wait::Mutex).len() as u32;
        let longest = &mut self.unwind.mutex.longest_queue;
        *longest = (*longest).max(queue);
        Err(self.cpu.clock)
    }

    /// A reader of the callbacks' SRCU section leaves; who waits for it looks.
    pub fn leave_srcu(&mut self, reader: u64) {
        self.unwind.srcu.leave(reader);
        self.wake(Wait::Srcu, usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_over_when_the_readers_before_it_are_gone() {
        let mut srcu = Srcu::default();
        let (a, b) = (srcu.enter(), srcu.enter());
        let until = srcu.entered;
        let c = srcu.enter();
        assert!(srcu.holds_up(until));
        srcu.leave(a);
        assert!(srcu.holds_up(until));
        srcu.leave(b);
        assert!(!srcu.holds_up(until), "{c} entered later");
        assert_eq!(srcu.readers(), 1);
    }
}
