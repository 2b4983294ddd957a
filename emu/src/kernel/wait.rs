//! Waiting: a task that cannot go on says for what it waits, and is not run until that comes, its
//! time is over, or a signal interrupts it.
//!
//! ```text
//! body of a call ─► State::wait_for(Block) ─► the dispatcher: finish() ─► schedule()
//!                      ▲                                               │
//!                      └────────── again ◄── woken ◄── wake(Wait) ─────┘
//! ```
//!
//! A call's body is one step. It looks whether it can go on, and if not, it waits from the same
//! step on, so that no wake-up is lost. Nobody polls.

use arch::Errno;

use crate::kernel::scheduler;
use crate::kernel::task::TaskId;
use crate::kernel::timers::{Timer, TimerId};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// Nothing but the time, or a signal.
    Time,
    /// A futex: address space (0 for memory that several share) and address.
    Futex(u32, u64),
    /// A child of this process changes state.
    Child(u32),
    /// The other threads of this process are gone.
    Threads(u32),
    /// The child that borrowed the address space is done with it.
    Vfork(TaskId),
    /// Something happens to a file: a pipe, or what `poll` looks at.
    Files,
    /// A signal of a set is pending.
    Signal,
    /// A mutex of the kernel.
    Mutex,
    /// The readers of a section that is protected by SRCU are gone.
    Srcu,
}

/// Results that the signal code turns into a restart or `EINTR` (`include/linux/errno.h`), as
/// they stand in the result register.
pub mod restart {
    /// `ERESTARTSYS`: restarted unless a handler without `SA_RESTART` runs.
    pub const SYS: u64 = -512i64 as u64;
    /// `ERESTARTNOHAND`: restarted unless a handler runs.
    pub const NO_HANDLER: u64 = -514i64 as u64;
    /// `ERESTART_RESTARTBLOCK`: the same, of calls that have used up a part of their time.
    pub const BLOCK: u64 = -516i64 as u64;
}

/// How a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// For what.
    pub on: Wait,
    /// At most until then.
    pub until: Option<Time>,
    /// The result register when the time is over.
    pub late: u64,
    /// The result register when a signal comes: of [`restart`], or minus an error number.
    pub interrupted: u64,
    /// Woken, the body runs again; else the call returns 0.
    pub again: bool,
}

impl Block {
    /// Without a limit; then the body runs again. Interrupted, the call is restarted.
    pub const fn on(on: Wait) -> Block {
        Block { on, until: None, late: 0, interrupted: restart::SYS, again: true }
    }

    /// At most until `at`; then the call fails with `errno`.
    pub const fn until(self, at: Option<Time>, errno: Errno) -> Block {
        Block { until: at, late: errno.to_ret(), ..self }
    }
}

/// Why a task that waited goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Woken {
    /// What it waited for may have come.
    Up,
    /// The time is over.
    Late,
    /// A signal is pending.
    Interrupted,
}

/// A task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// For what.
    pub on: Wait,
    /// A signal ends it.
    pub interruptible: bool,
    /// The timer that ends it, and whose CPU's it is.
    timer: Option<(u32, TimerId)>,
    /// Set when it is over.
    pub woken: Option<Woken>,
}

impl State {
    /// The body of the present call cannot go on: it waits from this step on.
    pub fn wait_for(&mut self, block: Block) {
        self.prepare_to_wait(block.on, block.until, true);
        self.task.block = Some(block);
    }

    /// The present task begins to wait. The path goes on until [`finish`].
    pub fn prepare_to_wait(&mut self, on: Wait, until: Option<Time>, interruptible: bool) {
        let (cpu, id) = (self.cpu.id, self.task.id);
        let timer = until.map(|at| (cpu, self.cpu.timers.start(at, Timer::Timeout(id))));
        let interrupted = interruptible && self.task.work.signal_pending;
        let woken = interrupted.then_some(Woken::Interrupted);
        self.task.waiting = Some(Waiting { on, interruptible, timer, woken });
        self.others.sleepers.push(id);
    }

    /// Wakes at most `most` tasks that wait for `on`, those that have waited longest first;
    /// returns how many.
    pub fn wake(&mut self, on: Wait, most: usize) -> usize {
        let mut waiters = self.waiters(on);
        waiters.truncate(most);
        for &id in &waiters {
            self.wake_task(id, Woken::Up);
        }
        waiters.len()
    }

    /// Tasks that wait for `on` and are not woken yet, in the order in which they began.
    pub fn waiters(&self, on: Wait) -> Vec<TaskId> {
        let waits = |id: &TaskId| {
            let waiting = self.task_of(*id).and_then(|t| t.waiting);
            waiting.is_some_and(|w| w.on == on && w.woken.is_none())
        };
        self.others.sleepers.iter().copied().filter(waits).collect()
    }

    /// A task that waits for `from` waits for `to` from now on (`FUTEX_REQUEUE`).
    pub fn requeue(&mut self, id: TaskId, to: Wait) {
        if let Some(waiting) = self.task_mut(id).and_then(|t| t.waiting.as_mut()) {
            waiting.on = to;
        }
    }

    /// The present task's wait is over.
    fn end_wait(&mut self) -> Woken {
        let id = self.task.id;
        self.others.sleepers.retain(|&sleeper| sleeper != id);
        let Some(waiting) = self.task.waiting.take() else { return Woken::Up };
        if let Some((cpu, timer)) = waiting.timer
            && let Some(cpu) = self.cpu_mut(cpu)
        {
            cpu.timers.cancel(timer);
        }
        waiting.woken.unwrap_or(Woken::Up)
    }
}

/// Waits for `on`. The caller looks again at what it waits for, in a step of its own.
pub async fn sleep(k: &Kernel, on: Wait, until: Option<Time>, interruptible: bool) -> Woken {
    k.step(Point::WaitPrepare, |s| s.prepare_to_wait(on, until, interruptible)).await;
    finish(k).await
}

/// The rest of a wait that was prepared.
pub async fn finish(k: &Kernel) -> Woken {
    scheduler::schedule(k).await;
    k.step(Point::WaitFinish, State::end_wait).await
}
