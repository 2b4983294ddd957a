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
    /// The session of the command line itself, open during the whole run.
    pub main: Profile,
    /// The sessions beside it.
    pub beside: Vec<Profile>,
    /// What callchains are walked into.
    pub callchains: Buffers,
    /// Where user probes are, whatever process runs the file.
    pub uprobes: Vec<ProbePlace>,
    /// There are probes of kernel functions among the sessions' events.
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

/// Which session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub usize);

impl SessionId {
    /// That of the command line itself; those beside it follow.
    pub const MAIN: SessionId = SessionId(0);
}

/// Most sessions beside the main one.
pub const MOST_BESIDE: usize = 16;

/// Numbers of records, of each session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written([usize; MOST_BESIDE + 1]);

impl Written {
    /// That of one session.
    pub fn of(&self, session: SessionId) -> usize {
        self.0.get(session.0).copied().unwrap_or(0)
    }
}

/// When a session is open, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Its beginning; 0: it is open before the guest's first instruction.
    pub from: Time,
    /// Its end; `None`: that of the run.
    pub until: Option<Time>,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Its events are not open yet.
    Waits,
    /// They are.
    Open,
    /// They were.
    Closed,
}

/// One session, as `perf record` has one: its events, its rings, its records.
#[derive(Debug)]
pub struct Profile {
    /// What the profile's reader is told.
    pub session: Session,
    /// The attributes of its events, and the bytes of its records.
    pub encoder: Encoder,
    /// The rings, if their reader is slow.
    pub rings: Option<Rings>,
    /// When it is open.
    pub span: Span,
    /// Whether it is now.
    pub phase: Phase,
    /// Its part of the users of callchain buffers, while it is open.
    users: Vec<BufferUse>,
    /// For each event of the session: what the contexts that are closed have counted.
    pub totals: Vec<Counter>,
    /// The same: for how long they were open, and counted.
    pub times: Vec<Totals>,
    /// Records not yet handed to the exporter. Those of one CPU are in time order.
    pub records: Vec<Record>,
    /// Records that were handed to it before these.
    pub taken: usize,
}

/// Whether it has a tracepoint of interrupts or preemption.
fn asks_preemptirq(session: &Session) -> bool {
    session.events.iter().any(|e| matches!(e.kind, EventKind::Preemptirq(_)))
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

impl Profile {
    /// The events of `session`, open nowhere yet.
    fn new(session: Session, span: Span) -> Profile {
        let totals: Vec<Counter> = session.events.iter().map(Counter::new).collect();
        let encoder = Encoder::new(Attr::all(&session));
        let times = vec![Totals::default(); totals.len()];
        Profile {
            session,
            encoder,
            rings: None,
            span,
            phase: Phase::Waits,
            users: Vec::new(),
            totals,
            times,
            records: Vec::new(),
            taken: 0,
        }
    }

    /// The session's records are read slowly from now on.
    pub fn read_slowly(&mut self, settings: Settings) {
        self.rings = Some(Rings::new(settings, self.session.cpus, self.session.events.len()));
    }

    /// Its events are open from now on.
    pub fn open(&mut self, callchains: &Buffers) {
        let with = self.session.events.iter().filter(|event| event.callchain);
        self.users = with.map(|_| callchains.get()).collect();
        self.phase = Phase::Open;
    }

    /// They are closed at `time`: what the tool writes last is written.
    pub fn close(&mut self, time: Time) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closed;
        self.users.clear();
        let lost = self.lost_samples(time);
        self.records.extend(lost);
    }

    /// The records that the tool writes at the end: what each event has lost.
    fn lost_samples(&self, time: Time) -> Vec<Record> {
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
}

impl Perf {
    /// The events of `session`, which is open from now on.
    pub fn new(session: Session) -> Perf {
        let last_id = session.events.len() as u64;
        let preemptirq = asks_preemptirq(&session);
        let callchains = Buffers::default();
        let mut main = Profile::new(session, Span::default());
        main.open(&callchains);
        Perf {
            main,
            beside: Vec::new(),
            callchains,
            uprobes: Vec::new(),
            kprobes: false,
            preemptirq,
            has_breakpoints: false,
            armed: Vec::new(),
            opened: Vec::new(),
            last_id,
        }
    }

    /// One more session, open nowhere yet; `None`: there are too many.
    pub fn add(&mut self, session: Session, span: Span) -> Option<&mut Profile> {
        if self.beside.len() >= MOST_BESIDE {
            return None;
        }
        self.preemptirq |= asks_preemptirq(&session);
        self.beside.push(Profile::new(session, span));
        self.beside.last_mut()
    }

    /// All sessions, the main one first.
    pub fn profiles(&self) -> impl Iterator<Item = (SessionId, &Profile)> {
        std::iter::once(&self.main)
            .chain(&self.beside)
            .enumerate()
            .map(|(n, profile)| (SessionId(n), profile))
    }

    /// The same, to be changed.
    pub fn profiles_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Profile)> {
        std::iter::once(&mut self.main)
            .chain(&mut self.beside)
            .enumerate()
            .map(|(n, profile)| (SessionId(n), profile))
    }

    /// One session.
    pub fn profile(&self, id: SessionId) -> Option<&Profile> {
        match id.0.checked_sub(1) {
            None => Some(&self.main),
            Some(n) => self.beside.get(n),
        }
    }

    /// The same, to be changed.
    pub fn profile_mut(&mut self, id: SessionId) -> Option<&mut Profile> {
        match id.0.checked_sub(1) {
            None => Some(&mut self.main),
            Some(n) => self.beside.get_mut(n),
        }
    }

    /// Records that were written so far, of each session.
    pub fn written(&self) -> Written {
        let mut written = Written::default();
        for (at, (_, profile)) in written.0.iter_mut().zip(self.profiles()) {
            *at = profile.written();
        }
        written
    }

    /// Those that were written after so many, as far as they have not been handed on.
    pub fn since(&self, before: Written) -> impl Iterator<Item = (SessionId, &Record)> {
        let each = self.profiles().zip(before.0);
        each.flat_map(|((id, p), before)| p.since(before).iter().map(move |r| (id, r)))
    }

    /// Those that are open and for which `wanted` holds.
    pub fn open_sessions(&self, wanted: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let open = self.profiles().filter(|(_, p)| p.phase == Phase::Open && wanted(&p.session));
        open.map(|(id, _)| id).collect()
    }

    /// Whether an event of this kind was asked for.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.kinds().any(|k| k == kind)
    }

    /// The kinds of all events that were asked for.
    pub fn kinds(&self) -> impl Iterator<Item = EventKind> {
        let sessions = self.profiles().flat_map(|(_, p)| p.session.events.iter().map(|e| e.kind));
        sessions.chain(self.opened.iter().map(|o| o.event.kind))
    }

    /// An id for one more event.
    pub const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
