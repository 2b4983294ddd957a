//! Known flaws of the designs, recognised when they happen.
//!
//! A hazard is an interleaving, not an excuse: it is noted at the event that completes it,
//! with the cookie and the tracer that it is about, and explains a break of these alone.
//!
//! `docs/hazards.md` says of each one which designs have it, what provokes it and which laws it
//! explains.

use std::collections::VecDeque;

use crate::kernel::unwind::WorkId;

macro_rules! hazards {
    ($($id:ident, $name:literal, $words:literal;)*) => {
        /// Which.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Hazard {
            $(#[doc = $words] $id,)*
        }

        impl Hazard {
            /// All of them, in the order of this file.
            pub const ALL: &[Hazard] = &[$(Hazard::$id,)*];

            /// Its number in the specification, or its rule's.
            pub const fn name(self) -> &'static str {
                match self { $(Hazard::$id => $name,)* }
            }

            /// What happened.
            pub const fn words(self) -> &'static str {
                match self { $(Hazard::$id => $words,)* }
            }
        }
    };
}

hazards! {
    H1, "H1", "an NMI asked between R3 and R4: it got the old cookie, which R4 then erased";
    H2, "H2", "a tracer that had been called asked again before the reset";
    H3, "H3", "task work ran in the middle of a system call, and the tracer asked again";
    H4, "H4", "an NMI asked after the work bits were read for the last time: what it asked for is done in the next entry, under this one's name";
    H5, "H5", "there was no memory for the cache, and the only tracer that had asked was cancelled: of an empty mask the cookie is not reset";
    H6, "H6", "task work was refused: the mask was wiped and the cookie kept";
    H7, "H7", "a cancelled work asked: a bit of -1 is bit 63";
    H8, "H8", "the callbacks came to a work that had asked and was being cancelled: its bit is -1";
    H9, "H9", "a tracer was cancelled twice: its bit of -1 cleared bit 63, which is another's";
    H10, "H10", "the store of who was served brought back the bit of a tracer that was cancelled after the load: who gets that bit next counts as served";
    H11, "H11", "the registers with which the task will go on were changed in the kernel: by a signal, its return, a restart or exec";
    H14, "H14", "a work asked that had been refused a bit: 0 is the bit of PENDING";
    H15, "H15", "there is no memory for the cache, where who was served would be kept: whoever asks next has all called again";
    H17, "H17", "a tracer was cancelled in the middle of its request: its bit came into the mask after the cancelling had cleaned that";
    H18, "H18", "a request outside NMI after the work bits were read for the last time: nothing brings the task back";
    H19, "H19", "a bit that was asked for belonged to another tracer when the callbacks came: that one is called, or counts as served without a function";
    H20, "H20", "a tracer was cancelled while its callback ran: its bit was read again, as -1, and bit 63 is completed";
    Cancelled, "cancel", "the tracer was cancelled after it had asked";
    Again, "RV12", "a request after the task work had begun: all is queued and called again";
    Shared, "RV9", "a request while the work's one item was queued by another task: this one's stack is never captured";
    Orphaned, "RV10", "the tracer went away while its item was queued: nobody knows on which task's list that is";
    CoarseClock, "RV1", "the clock showed the same at two entries";
    TornDown, "E-17", "the task's events were torn down before its stack was captured";
    Elsewhere, "CPU filter", "the task went on, and its stack was captured, on a CPU that is not sampled";
    Lost, "LOST", "the record found no room in the ring";
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

/// The last ones of a task, one of each kind for an entry, a stack and a tracer.
#[derive(Clone, Debug, Default)]
pub struct Hazards(VecDeque<Happened>);

/// Nothing looks further back than two entries. One that holds the task up may have many stacks.
const KEPT: usize = 1024;

impl Hazards {
    /// Notes one.
    pub fn push(&mut self, happened: Happened) {
        let key = |h: &Happened| (h.hazard, h.entry, h.cookie, h.work);
        if let Some(before) = self.0.iter().rposition(|h| key(h) == key(&happened)) {
            self.0.remove(before);
        }
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
