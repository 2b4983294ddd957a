//! Events that are open, and records on their way to the exporter.

use std::rc::Rc;

use crate::perf::breakpoint::Breakpoint;
use crate::perf::buffers::{BufferUse, Buffers};
use crate::perf::opened::{Opened, Totals};
use crate::perf::pmu::Counter;
use crate::perf::reader::{Rings, Settings};
use crate::perf::record::{EventKind, Record, Session, Time};
use crate::perf::session_attr::Attr;
use crate::perf::session_encode::Encoder;

/// Perf's part of the kernel state that is not a task's or a CPU's.
#[derive(Debug)]
pub struct Perf {
    /// What the profile's reader is told.
    pub session: Session,
    /// The attributes of its events, and the bytes of its records.
    pub encoder: Encoder,
    /// The rings, if their reader is slow.
    pub rings: Option<Rings>,
    /// What callchains are walked into.
    pub callchains: Buffers,
    /// The session's part of their users: it is open until the end of the run.
    _users: Vec<BufferUse>,
    /// For each event of the session: what the contexts that are closed have counted.
    pub totals: Vec<Counter>,
    /// The same: for how long they were open, and counted.
    pub times: Vec<Totals>,
    /// Records not yet handed to the exporter. Those of one CPU are in time order.
    pub records: Vec<Record>,
    /// Records that were handed to it before these.
    pub taken: usize,
    /// Where user probes are, whatever process runs the file.
    pub uprobes: Vec<ProbePlace>,
    /// There are probes of kernel functions among the session's events.
    pub kprobes: bool,
    /// There is a tracepoint of interrupts or preemption, or has been.
    pub preemptirq: bool,
    /// There are hardware breakpoints, or have been.
    pub has_breakpoints: bool,
    /// Those that the CPU watches now, as it is told of them.
    pub armed: Vec<Breakpoint>,
    /// Events that guests opened and can still reach.
    pub opened: Vec<Rc<Opened>>,
    /// The id of the newest of them, or of what inherited it.
    pub last_id: u64,
}

/// A user probe's place: an instruction of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    /// The file's number.
    pub inode: u64,
    /// Offset of the instruction in it.
    pub offset: u64,
    /// Returns of the function that begins there are probed.
    pub returns: bool,
}

impl Perf {
    /// The events of `session`, open nowhere yet.
    pub fn new(session: Session) -> Perf {
        let totals: Vec<Counter> = session.events.iter().map(Counter::new).collect();
        let last_id = totals.len() as u64;
        let encoder = Encoder::new(Attr::all(&session));
        let preemptirq = session.events.iter().any(|e| matches!(e.kind, EventKind::Preemptirq(_)));
        let times = vec![Totals::default(); totals.len()];
        let callchains = Buffers::default();
        let with = session.events.iter().filter(|event| event.callchain);
        let users = with.map(|_| callchains.get()).collect();
        Perf {
            session,
            encoder,
            rings: None,
            callchains,
            _users: users,
            totals,
            times,
            records: Vec::new(),
            taken: 0,
            uprobes: Vec::new(),
            kprobes: false,
            preemptirq,
            has_breakpoints: false,
            armed: Vec::new(),
            opened: Vec::new(),
            last_id,
        }
    }

    /// The session's records are read slowly from now on.
    pub fn read_slowly(&mut self, settings: Settings) {
        self.rings = Some(Rings::new(settings, self.session.cpus, self.session.events.len()));
    }

    /// The records that the tool writes at the end: what each event has lost.
    pub fn lost_samples(&self, time: Time) -> Vec<Record> {
        let lost = self.rings.iter().flat_map(|rings| rings.lost().iter().enumerate());
        let lost = lost.filter(|(_, lost)| **lost > 0);
        lost.map(|(event, &lost)| Record::LostSamples { time, event, lost }).collect()
    }

    /// Hands the records on.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.taken += self.records.len();
        std::mem::take(&mut self.records)
    }

    /// Records that were written so far.
    pub const fn written(&self) -> usize {
        self.taken + self.records.len()
    }

    /// Those that were written after the first `before`, as far as they have not been handed
    /// on.
    pub fn since(&self, before: usize) -> &[Record] {
        self.records.get(before.saturating_sub(self.taken)..).unwrap_or_default()
    }

    /// Whether an event of this kind was asked for.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.kinds().any(|k| k == kind)
    }

    /// The kinds of all events that were asked for.
    pub fn kinds(&self) -> impl Iterator<Item = EventKind> {
        let session = self.session.events.iter().map(|e| e.kind);
        session.chain(self.opened.iter().map(|o| o.event.kind))
    }

    /// An id for one more event.
    pub const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
