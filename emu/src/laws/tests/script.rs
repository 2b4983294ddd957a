//! A machine that tests of monitors move by hand.

use std::cell::RefCell;
use std::collections::BTreeSet;

use arch::Arch;

use crate::kernel::Point;
use crate::kernel::state::{HARDIRQ, NMI};
use crate::kernel::task::WorkBits;
use crate::kernel::task_work::TaskWorks;
use crate::kernel::unwind::{Call, Clock, PERF, Requested, Tracer, Work, WorkId};
use crate::laws::all;
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;
use crate::laws::moment::{
    Capture, CpuView, Machine, Now, RingView, SessionView, TaskView, UserRegs, What,
};
use crate::laws::monitor::Monitor;
use crate::laws::watch::Laws;
use crate::perf::buffers;
use crate::perf::record::{CpuMode, Event, EventKind, Rate, Record, Sample, UserStack};

/// What a script is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Kept,
    Broken,
    Explained(Hazard),
}

thread_local! {
    /// What this thread's scripts were found to be, by law.
    static VERDICTS: RefCell<BTreeSet<(u8, Verdict)>> = const { RefCell::new(BTreeSet::new()) };
}

/// Runs tests; what their scripts are found to be.
pub fn verdicts(tests: &[fn()]) -> BTreeSet<(u8, Verdict)> {
    VERDICTS.take();
    tests.iter().for_each(|test| test());
    VERDICTS.take()
}

/// A machine that a test moves by hand, with the monitor of one law.
pub struct Script {
    law: u8,
    pub laws: Laws,
    pub event: u64,
    pub time: u64,
    pub cpu: CpuView,
    pub task: TaskView,
    pub works: Vec<Work>,
    pub list: Vec<WorkId>,
    pub traversals: u32,
    pub exit_stores: u64,
    pub closed: bool,
    pub events: Vec<Event>,
    pub records: Vec<Record>,
    pub callchains: buffers::View,
    pub rings: Vec<RingView>,
    pub dropped: u64,
    pub drops: bool,
    pub wide: u64,
    pub software_throttled: bool,
    pub calls: Vec<Call>,
    pub cache: Vec<u64>,
    pub user: Option<UserRegs>,
    pub capture: Option<Capture>,
    /// The breaks: what explains them.
    pub found: Vec<Option<Hazard>>,
}

pub const C1: u64 = 3 << 32 | 1;
pub const C2: u64 = 5 << 32 | 1;
pub const TID: u32 = 7;

impl Script {
    /// A task in kernel code, that has perf for a tracer, under one law.
    pub fn new(mode: Mode, law: u8) -> Script {
        Script::limited(mode, law, Some(2))
    }

    /// The same where so many samples of an event may be in a tick.
    pub fn limited(mode: Mode, law: u8, most_samples: Option<u64>) -> Script {
        let laws = |machine| Laws::new(machine, |number| number == law);
        Script::watched(mode, law, most_samples, laws)
    }

    /// The same under this monitor of the law.
    pub fn under(mode: Mode, law: u8, monitor: Box<dyn Monitor>) -> Script {
        let found = all().find(|l| l.number == law).unwrap();
        Script::watched(mode, law, None, |machine| Laws::of(machine, vec![(found, monitor)]))
    }

    /// The same under the laws that `laws` makes.
    fn watched(
        mode: Mode,
        law: u8,
        most_samples: Option<u64>,
        laws: impl FnOnce(Machine) -> Laws,
    ) -> Script {
        let machine = Machine {
            arch: Arch::X86_64,
            mode,
            cpus: 1,
            clock: Clock { granularity: 100, start: 0, skew: 0 },
            most_samples,
        };
        let laws = laws(machine);
        assert_eq!(laws.counts.watched, 1, "LAW-{law} in {mode:?}");
        Script {
            law,
            laws,
            event: 0,
            time: 1000,
            cpu: kernel_code(),
            task: user_task(),
            works: vec![Work { bit: 2, tracer: Some(Tracer::Perf), next: None, queued: None }],
            list: vec![PERF],
            traversals: 0,
            exit_stores: 0,
            closed: false,
            events: vec![cycles()],
            records: Vec::new(),
            callchains: buffers::View::default(),
            rings: Vec::new(),
            dropped: 0,
            drops: false,
            wide: 0,
            software_throttled: false,
            calls: Vec::new(),
            cache: Vec::new(),
            user: None,
            capture: None,
            found: Vec::new(),
        }
        .then(Point::EntryN1, |_| ())
    }

    pub fn tell(&mut self, what: What) {
        self.event += 1;
        self.time += 10;
        let now = Now {
            event: self.event,
            what,
            began: self.time - 10,
            ended: self.time,
            cpu: self.cpu,
            task: self.task.clone(),
            works: &self.works,
            list: &self.list,
            traversals: self.traversals,
            exit_stores: self.exit_stores,
            closed: self.closed,
            sessions: vec![SessionView {
                open: true,
                wide: self.wide,
                events: &self.events,
                records: &self.records,
            }],
            callchains: self.callchains,
            rings: self.rings.clone(),
            dropped: self.dropped,
            drops: self.drops,
            software_throttled: self.software_throttled,
            calls: &self.calls,
            cache: &self.cache,
            user: self.user,
            capture: self.capture.take(),
        };
        let breaks = self.laws.see(&now);
        self.found.extend(breaks.iter().map(|b| b.hazard()));
        for found in &breaks {
            let text = found.render(&["a line".to_owned()]);
            assert!(text.contains(found.law.words) && text.ends_with("  a line\n"), "{text}");
        }
        (self.records, self.calls) = (Vec::new(), Vec::new());
    }

    /// The step at `point`, which does `change`.
    pub fn then(mut self, point: Point, change: impl FnOnce(&mut Script)) -> Script {
        change(&mut self);
        self.tell(What::Step(point));
        self
    }

    /// Something that the next step has done, too.
    pub fn also(mut self, change: impl FnOnce(&mut Script)) -> Script {
        change(&mut self);
        self
    }

    /// Steps that do nothing to what a law sees.
    pub fn steps(self, points: &[Point]) -> Script {
        points.iter().fold(self, |script, &point| script.then(point, |_| ()))
    }

    pub fn level(&mut self, level: u8) {
        self.cpu.level = level;
        self.cpu.preempt_count = [0, 1 << 8, HARDIRQ, NMI + HARDIRQ][usize::from(level)];
    }

    /// A request of Linux 7.3 from its first step to the answer.
    pub fn asks(self, work: WorkId, ret: i64, cookie: u64) -> Script {
        self.asks_from(Point::RequestQ2, work, ret, cookie)
    }

    pub fn asks_from(self, first: Point, work: WorkId, ret: i64, cookie: u64) -> Script {
        let mut script = self.steps(&[first]);
        script.tell(What::Answer(work, Requested { ret, cookie }));
        script
    }

    /// The same in an NMI that interrupts kernel code.
    pub fn nmi_asks(self, ret: i64, cookie: u64) -> Script {
        let entered = self.steps(&[Point::IrqDeliver]).then(Point::NmiEnter, |s| s.level(3));
        entered
            .asks(PERF, ret, cookie)
            .then(Point::NmiExit, |s| s.level(0))
            .steps(&[Point::IrqReturn])
    }

    /// Perf's callback, which writes a record.
    pub fn record(self, cookie: u64) -> Script {
        self.then(Point::DeferredOutput, |s| {
            let ips = s.cache.clone();
            let (pid, tid, time, cpu) = (TID, TID, s.time, 0);
            s.records.push(Record::CallchainDeferred { pid, tid, time, cpu, cookie, ips });
        })
    }

    pub fn sample(self, callchain: &[u64]) -> Script {
        self.then(Point::NmiSample, |s| {
            s.records.push(Record::Sample(Sample {
                event: 0,
                mode: CpuMode::Kernel,
                ip: 1,
                pid: TID,
                tid: TID,
                time: s.time,
                cpu: 0,
                period: 1,
                callchain: callchain.to_vec(),
                user_lr: None,
                dump: None,
                raw: None,
            }));
        })
    }

    /// R3: what was asked for is over.
    pub fn reset(self) -> Script {
        self.then(Point::ResetR3, |s| s.task.mask = 0)
    }

    /// X5 and the return to user mode, then back.
    pub fn leaves(self) -> Script {
        self.steps(&[Point::ExitX5, Point::Leave, Point::EntryRaw, Point::EntryN1])
    }

    #[track_caller]
    pub fn is_kept(&self) {
        assert_eq!(self.found, []);
        self.is(Verdict::Kept);
    }

    #[track_caller]
    pub fn is_broken(&self) {
        assert_eq!(self.found, [None]);
        self.is(Verdict::Broken);
    }

    #[track_caller]
    pub fn is_explained(&self, hazard: Hazard) {
        assert_eq!(self.found, [Some(hazard)]);
        self.is(Verdict::Explained(hazard));
    }

    fn is(&self, verdict: Verdict) {
        VERDICTS.with_borrow_mut(|verdicts| verdicts.insert((self.law, verdict)));
    }
}

/// Every cycle is sampled, with a deferred callchain of two addresses.
fn cycles() -> Event {
    Event {
        kind: EventKind::Cycles,
        name: "cycles".to_owned(),
        rate: Rate::Period(1),
        exclude_user: false,
        exclude_kernel: false,
        callchain: true,
        exclude_callchain_user: false,
        exclude_callchain_kernel: false,
        defer: true,
        user_stack: UserStack::default(),
        max_stack: 2,
    }
}

/// A CPU in kernel code that can be interrupted.
fn kernel_code() -> CpuView {
    CpuView {
        id: 0,
        irqs_on: true,
        preempt_count: 0,
        level: 0,
        in_kernel: true,
        irq_work: false,
        resched_ipi: false,
        counter: 0,
        ticks: 0,
        stalled: false,
    }
}

/// A task of user code that nobody has asked anything.
fn user_task() -> TaskView {
    TaskView {
        tid: TID,
        exiting: false,
        has_mm: true,
        ended: false,
        work: WorkBits::default(),
        works: TaskWorks::default(),
        mask: 0,
        id: 0,
        pending: false,
        cache: None,
    }
}

pub fn mask(law: u8) -> Script {
    Script::new(Mode::Mask, law)
}
