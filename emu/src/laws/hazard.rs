//! Known flaws of the designs, recognised when they happen.
//!
//! A hazard is an interleaving, not an excuse: it is noted at the event that completes it,
//! with the cookie and the tracer that it is about, and explains a break of these alone.

use std::collections::VecDeque;

use crate::kernel::unwind::WorkId;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// Between R3 and R4.
    H1,
    /// After the callback.
    H2,
    /// After a callback in the middle of a system call.
    H3,
    /// An NMI in the tail of the exit.
    H4,
    /// No memory for the cache, and the mask was cleared by a cancel: the name stays.
    H5,
    /// The queue refused.
    H6,
    /// A cancelled work asks.
    H7,
    /// A traversal meets a work that is being cancelled.
    H8,
    /// Cancelled twice.
    H9,
    /// A cancelled tracer's bit is completed again.
    H10,
    /// The user registers were changed.
    H11,
    /// A work that was refused a bit asks.
    H14,
    /// No memory for the cache: nobody knows who was served.
    H15,
    /// Cancelled in the middle of a request.
    H17,
    /// No NMI, in the tail of the exit.
    H18,
    /// A bit was given to another work before the callbacks.
    H19,
    /// Cancelled while its callback ran.
    H20,
    /// The tracer went away.
    Cancelled,
    /// Designs without a mask: asked again after the task work began.
    Again,
    /// `per-work`: the work's one item is queued by another task.
    Shared,
    /// The clock did not tick.
    CoarseClock,
    /// The task's events were gone before its stack.
    TornDown,
    /// The task's stack was captured on a CPU that is not sampled.
    Elsewhere,
    /// The reader was too slow for the record.
    Lost,
}

impl Hazard {
    /// Its number in the specification, or its rule's.
    pub const fn name(self) -> &'static str {
        match self {
            Hazard::H1 => "H1",
            Hazard::H2 => "H2",
            Hazard::H3 => "H3",
            Hazard::H4 => "H4",
            Hazard::H5 => "H5",
            Hazard::H6 => "H6",
            Hazard::H7 => "H7",
            Hazard::H8 => "H8",
            Hazard::H9 => "H9",
            Hazard::H10 => "H10",
            Hazard::H11 => "H11",
            Hazard::H14 => "H14",
            Hazard::H15 => "H15",
            Hazard::H17 => "H17",
            Hazard::H18 => "H18",
            Hazard::H19 => "H19",
            Hazard::H20 => "H20",
            Hazard::Cancelled => "cancel",
            Hazard::Again => "RV12",
            Hazard::CoarseClock => "RV1",
            Hazard::TornDown => "E-17",
            Hazard::Elsewhere => "CPU filter",
            Hazard::Lost => "LOST",
            Hazard::Shared => "RV9",
        }
    }

    /// What happened.
    pub const fn words(self) -> &'static str {
        match self {
            Hazard::H1 => {
                "an NMI asked between R3 and R4: it got the old cookie, which R4 then erased"
            }
            Hazard::H2 => "a tracer that had been called asked again before the reset",
            Hazard::H3 => {
                "task work ran in the middle of a system call, and the tracer asked again"
            }
            Hazard::H4 => {
                "an NMI asked after the work bits were read for the last time: what it asked for \
                 is done in the next entry, under this one's name"
            }
            Hazard::H5 => {
                "there was no memory for the cache, and the only tracer that had asked was \
                 cancelled: of an empty mask the cookie is not reset"
            }
            Hazard::H6 => "task work was refused: the mask was wiped and the cookie kept",
            Hazard::H7 => "a cancelled work asked: a bit of -1 is bit 63",
            Hazard::H8 => {
                "the callbacks came to a work that had asked and was being cancelled: its bit is -1"
            }
            Hazard::H9 => {
                "a tracer was cancelled twice: its bit of -1 cleared bit 63, which is another's"
            }
            Hazard::H10 => {
                "the store of who was served brought back the bit of a tracer that was cancelled \
                 after the load: who gets that bit next counts as served"
            }
            Hazard::H11 => {
                "the registers with which the task will go on were changed in the kernel: by a \
                 signal, its return, a restart or exec"
            }
            Hazard::H14 => "a work asked that had been refused a bit: 0 is the bit of PENDING",
            Hazard::H15 => {
                "there is no memory for the cache, where who was served would be kept: whoever \
                 asks next has all called again"
            }
            Hazard::H17 => {
                "a tracer was cancelled in the middle of its request: its bit came into the mask \
                 after the cancelling had cleaned that"
            }
            Hazard::H20 => {
                "a tracer was cancelled while its callback ran: its bit was read again, as -1, \
                 and bit 63 is completed"
            }
            Hazard::H18 => {
                "a request outside NMI after the work bits were read for the last time: nothing \
                 brings the task back"
            }
            Hazard::H19 => {
                "a bit that was asked for belonged to another tracer when the callbacks came: that \
                 one is called, or counts as served without a function"
            }
            Hazard::Cancelled => "the tracer was cancelled after it had asked",
            Hazard::Again => {
                "a request after the task work had begun: all is queued and called again"
            }
            Hazard::Shared => {
                "a request while the work's one item was queued by another task: this one's stack \
                 is never captured"
            }
            Hazard::CoarseClock => "the clock showed the same at two entries",
            Hazard::Elsewhere => {
                "the task went on, and its stack was captured, on a CPU that is not sampled"
            }
            Hazard::Lost => "the record found no room in the ring",
            Hazard::TornDown => "the task's events were torn down before its stack was captured",
        }
    }
}

/// One that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Which.
    pub hazard: Hazard,
    /// At which event.
    pub event: u64,
    /// The entry in which it did, by number.
    pub entry: u64,
    /// About this stack; 0: about none in particular.
    pub cookie: u64,
    /// On behalf of this tracer.
    pub work: Option<WorkId>,
}

/// The last ones of a task.
#[derive(Clone, Debug, Default)]
pub struct Hazards(VecDeque<Happened>);

/// Nothing looks further back than two entries.
const KEPT: usize = 64;

impl Hazards {
    /// Notes one.
    pub fn push(&mut self, happened: Happened) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(happened);
    }

    /// The newest of `hazards` that fits.
    pub fn find(&self, hazards: &[Hazard], fits: impl Fn(&Happened) -> bool) -> Option<Happened> {
        self.0.iter().rev().find(|h| hazards.contains(&h.hazard) && fits(h)).copied()
    }
}
