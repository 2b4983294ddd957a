//! An event that a guest opened (`struct perf_event`, the one that its descriptor names).
//!
//! ```text
//! descriptor ─► Opened ◄─ Instance, one on the task or CPU, one on each child that inherits it
//!                 └─► Ring, its own or another event's
//! ```
//!
//! It lives as long as a descriptor or a mapping of its ring does.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::perf::attr::{Attr, Clock};
use crate::perf::buffers::BufferUse;
use crate::perf::record::{Event, Time};
use crate::perf::ring::Ring;

/// What was counted, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Events.
    pub count: u64,
    /// Nanoseconds of the task (or CPU) while it was enabled.
    pub enabled: Time,
    /// Nanoseconds while it counted.
    pub running: Time,
}

impl Totals {
    /// Both together.
    pub const fn plus(self, other: Totals) -> Totals {
        Totals {
            count: self.count.wrapping_add(other.count),
            enabled: self.enabled + other.enabled,
            running: self.running + other.running,
        }
    }
}

/// Whom it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A task by its number in the machine, on any CPU or on one.
    Task(u32, Option<u32>),
    /// A CPU, whoever runs there.
    Cpu(u32),
}

impl Target {
    /// The CPU that it is bound to.
    pub const fn cpu(self) -> Option<u32> {
        match self {
            Target::Task(_, cpu) => cpu,
            Target::Cpu(cpu) => Some(cpu),
        }
    }
}

/// An opened event.
#[derive(Debug)]
pub struct Opened {
    /// Its id, which no other event of the run has.
    pub id: u64,
    /// How it was opened.
    pub attr: Attr,
    /// The same as the counters see it.
    pub event: Rc<Event>,
    /// What its callchains are walked into, until it is closed.
    pub buffers: RefCell<Option<BufferUse>>,
    /// The clock of its times.
    pub clock: Clock,
    /// Whom it measures.
    pub target: Target,
    /// The leader of its group; of a leader, and of an event alone, none.
    pub leader: RefCell<Option<Weak<Opened>>>,
    /// The others of its group, if it leads one.
    pub siblings: RefCell<Vec<Weak<Opened>>>,
    /// Where its records go.
    pub ring: RefCell<Option<Rc<Ring>>>,
    /// What its own instance had counted when its task ended.
    pub own: Cell<Totals>,
    /// What those of children had that are gone.
    pub children: Cell<Totals>,
    /// A mapping of the ring was made through its descriptor, which keeps it.
    pub mapped: Cell<bool>,
    /// Records that found no room in the ring.
    pub lost: Cell<u64>,
    /// Overflows until it is disabled (`PERF_EVENT_IOC_REFRESH`), 0 without a limit.
    pub limit: Cell<u64>,
    /// Descriptors (open files) that name it.
    pub files: Cell<u32>,
    /// It is pinned and found no counter (`PERF_EVENT_STATE_ERROR`).
    pub failed: Cell<bool>,
    /// Its task has ended.
    pub exited: Cell<bool>,
    /// A signal is wanted when there is something to read.
    pub notify: RefCell<Notify>,
}

/// `F_SETOWN`, `F_SETSIG` and `O_ASYNC` of its open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Notify {
    /// `O_ASYNC`
    pub on: bool,
    /// Thread id, or minus a process's; 0: nobody.
    pub owner: i32,
    /// Number of the signal, 0 for `SIGIO` without more.
    pub signal: u8,
    /// The descriptor that the signal names.
    pub fd: i32,
    /// An overflow has happened; true: the last one that the limit allows.
    pub pending: Option<bool>,
}

impl Opened {
    /// The leader of its group, perhaps itself.
    pub fn group_leader(self: &Rc<Opened>) -> Rc<Opened> {
        let leader = self.leader.borrow().as_ref().and_then(Weak::upgrade);
        leader.unwrap_or_else(|| self.clone())
    }

    /// The leader, which this is, and its siblings, in the order in which they were opened.
    pub fn group(self: &Rc<Opened>) -> Vec<Rc<Opened>> {
        let siblings = self.siblings.borrow();
        std::iter::once(self.clone()).chain(siblings.iter().filter_map(Weak::upgrade)).collect()
    }

    /// Whether the program can still reach it.
    pub fn is_live(&self) -> bool {
        let mapped = || self.ring.borrow().as_ref().is_some_and(|ring| ring.is_mapped());
        self.files.get() > 0 || self.mapped.get() && mapped()
    }

    /// A time of the CPU on its clock; `boot` is the epoch's time at the boot.
    pub const fn time(&self, now: Time, boot: u64) -> u64 {
        match self.clock {
            Clock::Boot => now,
            Clock::Epoch => now.wrapping_add(boot),
        }
    }
}

/// An open file that names an event.
#[derive(Debug)]
pub struct EventFile(Rc<Opened>);

impl EventFile {
    /// One more.
    pub fn new(opened: Rc<Opened>) -> EventFile {
        opened.files.set(opened.files.get() + 1);
        EventFile(opened)
    }

    /// The event.
    pub const fn event(&self) -> &Rc<Opened> {
        &self.0
    }
}

impl Drop for EventFile {
    fn drop(&mut self) {
        self.0.files.set(self.0.files.get() - 1);
    }
}
