//! What a monitor sees: one thing that happened, with the state before and after it.

use arch::Arch;

use crate::kernel::Point;
use crate::kernel::task::WorkBits;
use crate::kernel::task_work::TaskWorks;
use crate::kernel::unwind::{Call, Clock, Requested, Work, WorkId};
use crate::laws::law::Mode;
use crate::laws::story::TaskStory;
use crate::perf::buffers;
use crate::perf::record::{Event, Record, Time};
use crate::perf::ring::Losses;
use crate::perf::session::SessionId;

/// What never changes in a run.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Architecture.
    pub arch: Arch,
    /// Design of the deferred unwinder.
    pub mode: Mode,
    /// Number of CPUs.
    pub cpus: u32,
    /// The deferred unwinder's clock.
    pub clock: Clock,
    /// Samples of an event that may be in a tick, if that is limited.
    pub most_samples: Option<u64>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The step at this point.
    Step(Point),
    /// User code ran, so many instructions of it.
    User(u64),
    /// A request on behalf of a tracer was answered.
    Answer(WorkId, Requested),
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuView {
    /// Number.
    pub id: u32,
    /// Interrupts are on.
    pub irqs_on: bool,
    /// Nesting of preemption, softirq, hardirq, NMI.
    pub preempt_count: u32,
    /// 0 task, 1 softirq, 2 hardirq, 3 NMI.
    pub level: u8,
    /// It runs kernel code.
    pub in_kernel: bool,
    /// The self-interrupt of irq_work is on its way.
    pub irq_work: bool,
    /// Another CPU's request to look at the work bits and the queue is on its way.
    pub resched_ipi: bool,
    /// `unwind_ctx_ctr`
    pub counter: u32,
    /// Ticks of perf so far.
    pub ticks: u64,
    /// User code does not get ahead: any event that samples is throttled.
    pub stalled: bool,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Thread.
    pub tid: u32,
    /// `PF_EXITING`
    pub exiting: bool,
    /// It has an address space.
    pub has_mm: bool,
    /// It has ended, or is about to.
    pub ended: bool,
    /// Work for the exit loop.
    pub work: WorkBits,
    /// Task work.
    pub works: TaskWorks,
    /// See [`crate::kernel::unwind::TaskInfo`].
    pub mask: u64,
    /// Likewise.
    pub id: u64,
    /// Likewise.
    pub pending: bool,
    /// Addresses in the cache, and bits of the works that were served from it.
    pub cache: Option<(usize, u64)>,
}

impl TaskView {
    /// Addresses in the cache.
    pub fn cached(&self) -> usize {
        self.cache.map_or(0, |c| c.0)
    }

    /// Bits of the works that were served from the cache.
    pub fn completed(&self) -> u64 {
        self.cache.map_or(0, |c| c.1)
    }

    /// A stack is asked for and still to come.
    pub const fn waits(&self) -> bool {
        self.mask & 1 != 0 || self.pending || self.works.is_pending()
    }

    /// The unwinder's state: mask, id, pending flag, addresses in the cache.
    pub fn unwind(&self) -> (u64, u64, bool, usize) {
        (self.mask, self.id, self.pending, self.cached())
    }
}

/// The registers that a walk by frame pointer starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegs {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
}

/// A stack that was captured, and what other walks make of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The addresses in the cache.
    pub entries: Vec<u64>,
    /// Instruction and stack pointer of each frame, of a walk that takes none of the
    /// specification's steps on trust; `None` if the walk is not by frame pointer alone.
    pub frames: Option<Vec<(u64, u64)>>,
    /// That walk ended at a frame pointer of 0: the stack is well formed.
    pub well_formed: bool,
    /// What the immediate walk finds.
    pub immediate: Vec<u64>,
}

/// Which ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingId {
    /// A session's, of a CPU.
    Cpu(SessionId, u32),
    /// That of a guest's event, by the event's id and where the ring is kept: an event can be
    /// given another one.
    Event {
        /// The event's id.
        id: u64,
        /// Of no meaning but to tell rings apart.
        place: usize,
    },
}

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingView {
    /// Which.
    pub id: RingId,
    /// Bytes that were ever written to it.
    pub written: u64,
    /// Records that found no room. Of a session's rings only how many are untold.
    pub losses: Losses,
}

/// A session of perf.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    /// It is open.
    pub open: bool,
    /// The events are those of these CPUs, a bit each; 0: they are those of tasks.
    pub wide: u64,
    /// Its events.
    pub events: &'a [Event],
    /// Records that were written for it.
    pub records: &'a [Record],
}

/// One thing that happened, as it is afterwards.
#[derive(Clone, Debug)]
pub struct Now<'a> {
    /// Its event number in the timeline.
    pub event: u64,
    /// What.
    pub what: What,
    /// When it began.
    pub began: Time,
    /// When it was over.
    pub ended: Time,
    /// The CPU.
    pub cpu: CpuView,
    /// Its task.
    pub task: TaskView,
    /// The unwinder's works, registered or not.
    pub works: &'a [Work],
    /// Those that are registered.
    pub list: &'a [WorkId],
    /// Traversals of that list which go on.
    pub traversals: u32,
    /// Stores to tasks' unwind state on exit paths, so far.
    pub exit_stores: u64,
    /// The task's events are gone.
    pub closed: bool,
    /// The sessions, the main one first, and what it wrote for them.
    pub sessions: Vec<SessionView<'a>>,
    /// What callchains are walked into.
    pub callchains: buffers::View,
    /// The rings that a slow reader or a guest has.
    pub rings: Vec<RingView>,
    /// Records of the sessions that were dropped so far.
    pub dropped: u64,
    /// Some were at this moment.
    pub drops: bool,
    /// A software event of the task or CPU is throttled.
    pub software_throttled: bool,
    /// Callbacks that it made to tracers other than perf.
    pub calls: &'a [Call],
    /// The addresses in the task's cache.
    pub cache: &'a [u64],
    /// The user registers, where a monitor wants them.
    pub user: Option<UserRegs>,
    /// The stack that was captured.
    pub capture: Option<Capture>,
}

/// The same with what was before.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// What never changes.
    pub machine: &'a Machine,
    /// After it.
    pub now: &'a Now<'a>,
    /// The CPU before it.
    pub cpu: &'a CpuView,
    /// The task before it.
    pub task: &'a TaskView,
    /// What led to it.
    pub story: &'a TaskStory,
}

impl<'a> Now<'a> {
    /// The records of all sessions.
    pub fn records(&self) -> impl Iterator<Item = &'a Record> {
        self.sessions.iter().flat_map(|session| session.records)
    }
}

impl Moment<'_> {
    /// Whether it is the step at `point`.
    pub fn is(&self, point: Point) -> bool {
        self.now.what == What::Step(point)
    }

    /// The step's point.
    pub const fn point(&self) -> Option<Point> {
        match self.now.what {
            What::Step(point) => Some(point),
            _ => None,
        }
    }

    /// A request that was not refused.
    pub const fn granted(&self) -> Option<(WorkId, Requested)> {
        match self.now.what {
            What::Answer(work, answer) if answer.ret >= 0 => Some((work, answer)),
            _ => None,
        }
    }

    /// The bit of a work in a mask, if it has one.
    pub fn bit(&self, work: WorkId) -> Option<u64> {
        let bit = self.now.works.get(work.0 as usize)?.bit;
        (0..64).contains(&bit).then(|| 1 << bit)
    }

    /// No interrupt of kernel code is going on.
    pub fn is_outermost(&self) -> bool {
        self.story.nest.is_empty()
    }

    /// A number for the task that tells tasks apart: each CPU's idle task has thread id 0.
    pub fn key(&self) -> u64 {
        key(self.now)
    }
}

/// See [`Moment::key`].
pub fn key(now: &Now<'_>) -> u64 {
    match now.task.tid {
        0 => u64::from(now.cpu.id) << 32 | 1 << 63,
        tid => u64::from(tid),
    }
}

/// The bits of a [`WorkBits`] as a number.
pub fn bits(work: WorkBits) -> u8 {
    let all = [
        work.need_resched,
        work.uprobe,
        work.patch_pending,
        work.signal_pending,
        work.notify_resume,
    ];
    all.iter().enumerate().fold(0, |set, (n, &bit)| set | u8::from(bit) << n)
}
