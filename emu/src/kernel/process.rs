//! What the threads of a process share besides memory (`struct signal_struct`), and what is left of
//! a process until its parent has waited for it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kernel::task::Ending;
use crate::kernel::timers::TimerId;
use crate::perf::record::Time;

/// `ITIMER_REAL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RealTimer {
    /// The timer that runs, the CPU that it is on, and when it fires.
    pub running: Option<(u32, TimerId, Time)>,
    /// Nanoseconds between two signals; 0: there is only one.
    pub interval: u64,
}

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuTime {
    /// In user mode: instructions retired.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

impl CpuTime {
    /// Both.
    pub const fn total(self) -> u64 {
        self.user + self.system
    }

    /// Adds another's.
    pub const fn add(&mut self, other: CpuTime) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Process {
    /// Its id: the first thread's.
    pub pid: u32,
    /// Who gets its exit status.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Threads that are not dead.
    pub live: u32,
    /// All threads end with this: `exit_group`, or a deadly signal.
    pub group_exit: Option<Ending>,
    /// How the last thread ended, until the parent has waited.
    pub zombie: Option<Ending>,
    /// The signal that the parent gets at the end; 0: none.
    pub exit_signal: u8,
    /// `setitimer(ITIMER_REAL)`
    pub real_timer: RealTimer,
    /// Times of threads that are dead.
    pub dead_threads: CpuTime,
    /// Times of children that were waited for.
    pub children: CpuTime,
}

/// A process that several tasks share.
pub type Shared = Rc<RefCell<Process>>;
