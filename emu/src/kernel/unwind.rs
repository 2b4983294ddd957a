//! Deferred user unwinding as the rest of the kernel sees it: the state, and the trait that the
//! designs in [`crate::deferred`] implement.
//!
//! ```text
//!  sample ─► request ─► cookie in the sample, task work queued
//!                            │
//!  exit loop ─► task work ─► capture, callbacks of the tracers ─► record with the cookie
//!           └─► X5 reset
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use arch::{Arch, Errno};

use crate::kernel::lock::{Mutex, Srcu};
use crate::kernel::step::Path;
use crate::kernel::symbols::Named;
use crate::kernel::task_work::TaskWork;
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Record;
use crate::perf::session::SessionId;

/// A tracer's work, by its place in [`Unwind::works`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(pub u32);

/// Perf's single work, registered at boot.
pub const PERF: WorkId = WorkId(0);

/// What a request answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requested {
    /// 0: a callback will come; positive: it was already due or made; else minus an errno.
    pub ret: i64,
    /// Names the stack; 0 if there is none.
    pub cookie: u64,
}

impl Requested {
    /// Refused, with no cookie.
    pub const fn refused(errno: Errno) -> Requested {
        Requested { ret: errno.to_ret() as i64, cookie: 0 }
    }
}

/// Which design: it decides what holds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Stacks are named by the clock.
    Timestamp,
    /// By a count, with a list and a mutex.
    Cookie,
    /// Linux 7.3.
    Mask,
    /// The item is inside the tracer's work.
    PerWork,
    /// A kernel without the unwinder.
    NotBuilt,
}

impl Mode {
    /// The word of `--deferred`; `none` of a kernel without the unwinder.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Timestamp => "timestamp",
            Mode::Cookie => "cookie",
            Mode::Mask => "mask",
            Mode::PerWork => "per-work",
            Mode::NotBuilt => "none",
        }
    }
}

/// A design of the deferred unwinder: who is asked, what is kept, who is called.
pub trait Design: fmt::Debug {
    /// Which.
    fn mode(&self) -> Mode;

    /// The word of `--deferred`.
    fn name(&self) -> &'static str {
        self.mode().name()
    }

    /// Asks for the current task's user stack on behalf of `work`. In any context.
    fn request<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, Requested>;

    /// A task-work item of the design runs: stack captured, tracers called.
    fn task_work<'a>(&'a self, k: &'a Kernel, item: TaskWork) -> Path<'a, ()>;

    /// What the exit to user mode does in any case (the first step of X5), in one step.
    /// Returns whether [`Design::reset`] has more to do.
    fn begin_reset(&self, state: &mut State) -> bool;

    /// The rest of X5, if [`Design::begin_reset`] leaves any.
    fn reset<'a>(&'a self, _k: &'a Kernel) -> Path<'a, ()> {
        Box::pin(async {})
    }

    /// The task ends, its memory is still there: what is pending is done, or left to the task
    /// work that comes later.
    fn exit_flush<'a>(&'a self, _k: &'a Kernel) -> Path<'a, ()> {
        Box::pin(async {})
    }

    /// Registers a tracer. May sleep.
    fn init<'a>(&'a self, k: &'a Kernel, tracer: Tracer) -> Path<'a, Result<WorkId, Errno>>;

    /// A tracer goes away. May sleep; not from a callback.
    fn cancel<'a>(&'a self, k: &'a Kernel, work: WorkId) -> Path<'a, ()>;
}

/// A kernel without the unwinder: requests are refused.
#[derive(Clone, Copy, Debug)]
pub struct NotBuilt;

impl Design for NotBuilt {
    fn mode(&self) -> Mode {
        Mode::NotBuilt
    }

    fn request<'a>(&'a self, _k: &'a Kernel, _work: WorkId) -> Path<'a, Requested> {
        Box::pin(async { Requested::refused(Errno::ENOSYS) })
    }

    fn task_work<'a>(&'a self, _k: &'a Kernel, _item: TaskWork) -> Path<'a, ()> {
        Box::pin(async {})
    }

    fn begin_reset(&self, _state: &mut State) -> bool {
        false
    }

    fn init<'a>(&'a self, _k: &'a Kernel, _tracer: Tracer) -> Path<'a, Result<WorkId, Errno>> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }

    fn cancel<'a>(&'a self, _k: &'a Kernel, _work: WorkId) -> Path<'a, ()> {
        Box::pin(async {})
    }
}

/// Who is called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tracer {
    /// `perf_unwind_deferred_callback`: a record for every event that has `defer_output`.
    Perf,
    /// Keeps what it is told in [`Unwind::calls`], as an ftrace instance would in its buffer.
    Log,
    /// One of [`State::tracers`]: it counts.
    Attached(usize),
}

/// A registered work (`struct unwind_work`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// Its bit, where the design has bits; -1 after it was cancelled.
    pub bit: i32,
    /// Its callback; `None` while it is being registered.
    pub tracer: Option<Tracer>,
    /// What was behind it in the list when it was taken out.
    pub next: Option<WorkId>,
    /// Thread on whose list its own task-work item is, where it has one.
    pub queued: Option<u32>,
}

/// Callbacks that are kept.
const CALLS: usize = 1024;

/// A callback that was made to a tracer other than perf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// To whom.
    pub work: WorkId,
    /// Thread that the stack is of.
    pub tid: u32,
    /// Its name.
    pub cookie: u64,
    /// The stack.
    pub trace: Vec<u64>,
}

/// The per-task cache page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cache {
    /// Works that have been served from it, by bit (mask design).
    pub completed: u64,
    /// The walked stack, empty if there is none.
    pub entries: Vec<u64>,
}

/// Per-task state (`struct unwind_task_info`), as far as the design uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskInfo {
    /// Bits of the works that asked, with the reserved ones (mask design).
    pub mask: u64,
    /// The cookie, or the timestamp; 0 if nobody asked.
    pub id: u64,
    /// Task work is queued (designs without a mask).
    pub pending: bool,
    /// Allocated when first needed, kept until the task is gone.
    pub cache: Option<Cache>,
}

/// Global state.
#[derive(Debug)]
pub struct Unwind {
    /// Which design.
    pub design: Rc<dyn Design>,
    /// Works that were ever registered.
    pub works: Vec<Work>,
    /// Those that are, newest first. In `per-work` no path of the kernel reads it.
    pub list: Vec<WorkId>,
    /// Bits in use, the reserved ones included (mask design).
    pub mask: u64,
    /// `callback_mutex`
    pub mutex: Mutex,
    /// `unwind_srcu` (mask design).
    pub srcu: Srcu,
    /// What the clock of the timestamp design shows.
    pub clock: Clock,
    /// SFrame sections of a process are looked into first; else the kernel has only the walk by
    /// frame pointer, which is that of x86_64.
    pub sframe: bool,
    /// The last calls of tracers other than perf, the newest last.
    pub calls: Vec<Call>,
    /// Stores on the exit path to the word that says whether there is anything to reset: the
    /// timestamp, the cookie (`cookie`, `per-work`), the mask (R3). What a reset stores beside
    /// is not counted, so that a count is to be compared with 0 (RV6), not with that of another
    /// design.
    pub exit_stores: u64,
    /// So many allocations of a cache page, from now on, fail: `failslab` of Linux, for this page
    /// alone.
    pub failing_pages: u64,
}

/// `local_clock()`: the virtual clock as a kernel with a coarse one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    /// Nanoseconds between two values: 1, or a tick where it is made from jiffies.
    pub granularity: u64,
    /// What it shows at boot.
    pub start: u64,
    /// How far each CPU's is ahead of that of the CPU before it, in nanoseconds.
    pub skew: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { granularity: 1, start: 0, skew: 0 }
    }
}

impl Clock {
    /// Its ticks on a CPU, `now` nanoseconds after boot.
    pub const fn tick(self, cpu: u32, now: u64) -> u64 {
        now.wrapping_add(self.skew.wrapping_mul(cpu as u64)) / self.granularity
    }

    /// Its value on a CPU, `now` nanoseconds after boot.
    pub const fn at(self, cpu: u32, now: u64) -> u64 {
        self.start.wrapping_add(self.tick(cpu, now) * self.granularity)
    }
}

impl Unwind {
    /// This design, with perf's work, which is registered at boot: it gets the first bit that
    /// is not reserved.
    pub fn new(design: Rc<dyn Design>) -> Unwind {
        Unwind {
            design,
            works: vec![Work { bit: 2, tracer: Some(Tracer::Perf), next: None, queued: None }],
            list: vec![PERF],
            mask: 0b111,
            mutex: Mutex::default(),
            srcu: Srcu::default(),
            clock: Clock::default(),
            sframe: false,
            calls: Vec::new(),
            exit_stores: 0,
            failing_pages: 0,
        }
    }

    /// Whether the unwinder is built: on x86_64 in Linux 7.3, with SFrame everywhere. Elsewhere
    /// perf takes the attribute bit and ignores it.
    pub const fn available(&self, arch: Arch) -> bool {
        matches!(arch, Arch::X86_64) || self.sframe
    }

    /// Keeps a call; of those before it not more than [`CALLS`].
    fn note_call(&mut self, call: Call) {
        if self.calls.len() >= CALLS {
            self.calls.clear();
        }
        self.calls.push(call);
    }

    /// A page for a task's cache; `None`: there is no memory.
    pub fn allocate_cache(&mut self) -> Option<Cache> {
        let there_is = self.failing_pages == 0;
        if !there_is && self.failing_pages != u64::MAX {
            self.failing_pages -= 1;
        }
        there_is.then(Cache::default)
    }

    /// Takes a work out of the list. A traversal that is at it goes on behind it.
    pub fn unlink(&mut self, work: WorkId) {
        if let Some(at) = self.list.iter().position(|&w| w == work) {
            self.works[work.0 as usize].next = self.list.get(at + 1).copied();
            self.list.remove(at);
        }
    }

    /// The work behind `work`, whether that is still in the list or not.
    pub fn after(&self, work: WorkId) -> Option<WorkId> {
        match self.list.iter().position(|&w| w == work) {
            Some(at) => self.list.get(at + 1).copied(),
            None => self.works[work.0 as usize].next,
        }
    }

    /// Puts a work in front of the list.
    pub fn push_front(&mut self, work: Work) -> WorkId {
        let id = WorkId(self.works.len() as u32);
        self.works.push(work);
        self.list.insert(0, id);
        id
    }
}

/// Calls a work's callback, if it has one already.
pub async fn call_back(k: &Kernel, work: WorkId, trace: &[u64], cookie: u64) {
    let function = |s: &mut State| s.unwind.works[work.0 as usize].tracer;
    let tracer = k.step(Point::CallbackCall, function).await;
    match tracer {
        Some(Tracer::Perf) => perf_callback(k, trace, cookie).await,
        Some(tracer @ (Tracer::Log | Tracer::Attached(_))) => {
            let call = |s: &mut State| {
                let tid = s.task.tid;
                s.unwind.note_call(Call { work, tid, cookie, trace: trace.to_vec() });
                if let Tracer::Attached(index) = tracer {
                    s.note_call(index, trace.len());
                }
            };
            k.step(Point::CallbackLog, call).await;
        }
        None => {}
    }
}

/// `perf_unwind_deferred_callback`: every event with `defer_output` gets a record, whoever
/// asked.
async fn perf_callback(k: &Kernel, trace: &[u64], cookie: u64) {
    const FUNCTIONS: [Named; 4] =
        [Named::UnwindCallback, Named::IterateSb, Named::IterateCtx, Named::DeferredOutput];
    k.enter(&FUNCTIONS).await;
    k.step(Point::DeferredOutput, |s| {
        let record = Record::CallchainDeferred {
            pid: s.task.pid,
            tid: s.task.tid,
            time: s.cpu.clock,
            cpu: s.cpu.id,
            cookie,
            ips: trace.to_vec(),
        };
        s.record_in_rings(&record);
        let defers = s.receivers().filter(|(_, event, _)| event.defer);
        let sessions = defers.filter_map(|(_, _, i)| i.session_event()).map(|of| of.session);
        let sessions: BTreeSet<SessionId> = sessions.collect();
        s.record_in_each(&Vec::from_iter(sessions), record);
    })
    .await;
    k.leave(&FUNCTIONS).await;
}
