//! Tracers beside perf that ask for deferred stacks, while the guest runs and at the same
//! entries as perf does.
//!
//! ```text
//!  ftrace   at every nth system call, in the task's own context, as a tracing instance does
//!           that has a user stack with each event
//!  bpf      from a timer of each CPU that is not idle, in an interrupt, as a BPF program does
//!           that samples
//!
//!  thread of the kernel, one for each tracer:
//!    sleeps until `from` ─► init ─► requests on … `until` ─► requests off ─► cancel ─► sleeps
//! ```
//!
//! Registering and cancelling sleep (on the unwinder's mutex, for its readers), so that they
//! need a task: a thread of the kernel, which the scheduler runs as any other. Nothing waits
//! between turning the requests off and the cancelling for requests that are under way on other
//! CPUs: that is a tracer's duty which a careless one neglects, and what the hazards of
//! cancelling come from.

use arch::Errno;

use crate::kernel::scheduler;
use crate::kernel::step::Path;
use crate::kernel::symbols::Named;
use crate::kernel::task::KernelThread;
use crate::kernel::unwind::{Requested, Tracer, Work, WorkId};
use crate::kernel::wait::{self, Wait};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

/// When a tracer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asks {
    /// At the entry of every system call of this number, counted over all tasks; from 1 on.
    SystemCalls(u64),
    /// Every so many nanoseconds on each CPU, from 1 on.
    Timer(Time),
    /// Where a script says so.
    Script,
}

impl Asks {
    /// What such a tracer is called.
    pub const fn name(self) -> &'static str {
        match self {
            Asks::SystemCalls(_) => "ftrace",
            Asks::Timer(_) => "bpf",
            Asks::Script => "script",
        }
    }
}

/// What a tracer is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// When it asks.
    pub asks: Asks,
    /// When it is registered, in nanoseconds since boot; 0: before the guest goes on after its
    /// first entry.
    pub from: Time,
    /// When it is cancelled.
    pub until: Option<Time>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is not registered yet.
    Waits,
    /// The unwinder refused it: no bit is free (H14).
    Refused(Errno),
    /// It asks, on behalf of this work.
    Asks(WorkId),
    /// It asks no more, and is being cancelled.
    Ends(WorkId),
    /// It was cancelled.
    Gone(WorkId),
}

/// What became of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Requests.
    pub asked: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Callbacks, those without a stack among them.
    pub called: u64,
    /// Callbacks without a stack.
    pub empty: u64,
    /// Addresses of all stacks.
    pub addresses: u64,
    /// When it was registered.
    pub registered: Option<Time>,
    /// When its cancelling began and was over.
    pub cancelled: Option<(Time, Option<Time>)>,
}

/// A tracer of this run.
#[derive(Clone, Debug)]
pub struct Attached {
    /// What it is to be.
    pub plan: Plan,
    /// How far it is.
    pub phase: Phase,
    /// What became of its requests.
    pub tally: Tally,
    /// System calls since it last asked.
    calls: u64,
}

/// Shortest time from the end of one timer's requests to the next on a CPU, of whichever tracer.
pub const SHORTEST: Time = 2_000;

/// Thread id of the first tracer's thread; below those of the guest, so that there is room for
/// [`MOST`].
const FIRST_TID: u32 = 100;

/// Most tracers of a run: more than the mask design has bits.
pub const MOST: usize = 128;

/// The life of a tracer's thread.
pub async fn thread(k: Kernel, index: usize) {
    scheduler::first_run(&k).await;
    let Some(plan) = k.constant(|s| s.tracers.get(index).map(|t| t.plan)) else { return };
    sleep(&k, Point::TracerSleep, Some(plan.from)).await;
    let work = register(&k, index).await;
    if let (Some(_), Some(until)) = (work, plan.until) {
        sleep(&k, Point::TracerSleep, Some(until)).await;
        cancel(&k, index).await;
    }
    // The thread stays, as one whose module is not unloaded.
    loop {
        sleep(&k, Point::TracerSleep, None).await;
    }
}

/// The tracer is registered; `None`: it was refused.
pub async fn register(k: &Kernel, index: usize) -> Option<WorkId> {
    let registered = k.design().init(k, Tracer::Attached(index)).await;
    k.step(Point::TracerOn, |s| s.turn_on(index, registered)).await
}

/// The tracer asks no more, and is cancelled; nothing happens if it is not registered.
pub async fn cancel(k: &Kernel, index: usize) {
    if let Some(work) = k.step(Point::TracerOff, |s| s.turn_off(index)).await {
        k.design().cancel(k, work).await;
        k.step(Point::TracerGone, |s| s.note_gone(index, work)).await;
    }
}

/// Its last work is cancelled, whatever was before.
pub async fn cancel_anyway(k: &Kernel, index: usize) {
    if let Some(work) = k.step(Point::TracerAsk, |s| s.tracers[index].phase.work()).await {
        k.design().cancel(k, work).await;
    }
}

/// The thread sleeps until that time, or for ever; it looks at the clock at this point.
pub async fn sleep(k: &Kernel, point: Point, until: Option<Time>) {
    let sleeps = |s: &mut State| {
        let over = until.is_some_and(|at| at <= s.cpu.clock);
        if !over {
            s.prepare_to_wait(Wait::Time, until, false);
        }
        !over
    };
    while k.step(point, sleeps).await {
        wait::finish(k).await;
    }
}

/// N4 of a system call: the tracers whose turn it is ask.
pub async fn at_system_call(k: &Kernel) {
    let due = k.step(Point::TracerLook, State::tracers_at_system_call).await;
    if due.is_empty() {
        return;
    }
    k.call(Named::TraceEnter.into()).await;
    for index in due {
        ask(k, index).await;
    }
    k.ret().await;
}

/// A timer interrupt: the tracers whose timer has fired ask.
pub fn at_timer(k: &Kernel) -> Path<'_, ()> {
    Box::pin(async move {
        let due = k.step(Point::TracerFired, State::tracer_timers_fired).await;
        for index in due {
            ask(k, index).await;
        }
        k.step(Point::TracerRearm, |s| {
            // However many there are, the CPU has time for something else.
            let earliest = s.cpu.clock + SHORTEST;
            for at in &mut s.cpu.tracer_timers {
                *at = earliest.max(*at);
            }
        })
        .await;
    })
}

/// The work is read once more: the tracer may have been turned off meanwhile. From there on
/// nothing holds up its cancelling.
pub async fn ask(k: &Kernel, index: usize) {
    let work = |s: &mut State| match s.tracers[index].phase {
        Phase::Asks(work) => Some(work),
        _ => None,
    };
    if let Some(work) = k.step(Point::TracerAsk, work).await {
        request(k, index, work).await;
    }
}

/// It asks on behalf of its last work, whatever became of that; one that was refused has a work
/// that was zeroed (H14).
pub async fn ask_anyway(k: &Kernel, index: usize) {
    let work = k.step(Point::TracerAsk, |s| s.last_work(index)).await;
    request(k, index, work).await;
}

async fn request(k: &Kernel, index: usize, work: WorkId) {
    let answer = k.design().request(k, work).await;
    k.answered(work, answer);
    k.step(Point::TracerNote, |s| s.note_answer(index, answer)).await;
}

impl Phase {
    /// Its work, whether that is registered or not.
    pub const fn work(self) -> Option<WorkId> {
        match self {
            Phase::Waits | Phase::Refused(_) => None,
            Phase::Asks(work) | Phase::Ends(work) | Phase::Gone(work) => Some(work),
        }
    }
}

impl State {
    /// A tracer that asks, comes and goes where scripts say so. Before the run.
    pub fn add_tracer(&mut self) -> usize {
        let plan = Plan { asks: Asks::Script, from: 0, until: None };
        self.push_tracer(plan, Time::MAX)
    }

    /// A tracer, and the thread that registers it. Before the run; `None`: no memory is left.
    pub fn attach(&mut self, plan: Plan) -> Option<()> {
        let index = self.tracers.len();
        let comm = format!("{}/{index}", plan.asks.name()).into_bytes();
        let tid = FIRST_TID + index as u32;
        self.add_kernel_thread(tid, comm, KernelThread::Tracer(index))?;
        let timer = match plan.asks {
            Asks::Timer(_) => plan.from,
            Asks::SystemCalls(_) | Asks::Script => Time::MAX,
        };
        self.push_tracer(plan, timer);
        Some(())
    }

    fn push_tracer(&mut self, plan: Plan, timer: Time) -> usize {
        let tracer = Attached { plan, phase: Phase::Waits, tally: Tally::default(), calls: 0 };
        self.tracers.push(tracer);
        let cpus: Vec<u32> = self.cpus().map(|c| c.id).collect();
        for id in cpus {
            if let Some(cpu) = self.cpu_mut(id) {
                cpu.tracer_timers.push(timer);
            }
        }
        self.tracers.len() - 1
    }

    /// When the next timer of a tracer fires on the present CPU. They stand still while it is
    /// idle.
    pub fn next_tracer_timer(&self) -> Time {
        match self.task.is_idle() {
            true => Time::MAX,
            false => self.cpu.tracer_timers.iter().copied().min().unwrap_or(Time::MAX),
        }
    }

    /// The tracer is registered, or refused.
    fn turn_on(&mut self, index: usize, registered: Result<WorkId, Errno>) -> Option<WorkId> {
        let now = self.cpu.clock;
        let tracer = &mut self.tracers[index];
        tracer.phase = match registered {
            Ok(work) => Phase::Asks(work),
            Err(errno) => Phase::Refused(errno),
        };
        tracer.tally.registered = registered.is_ok().then_some(now);
        registered.ok()
    }

    /// The tracer asks no more; its work, if it is registered.
    fn turn_off(&mut self, index: usize) -> Option<WorkId> {
        let began = self.cpu.clock;
        let tracer = &mut self.tracers[index];
        let Phase::Asks(work) = tracer.phase else { return None };
        tracer.phase = Phase::Ends(work);
        tracer.tally.cancelled = Some((began, None));
        Some(work)
    }

    /// Its cancelling is over.
    fn note_gone(&mut self, index: usize, work: WorkId) {
        let over = self.cpu.clock;
        let tracer = &mut self.tracers[index];
        tracer.phase = Phase::Gone(work);
        if let Some((_, end)) = &mut tracer.tally.cancelled {
            *end = Some(over);
        }
    }

    /// See [`ask_anyway`].
    fn last_work(&mut self, index: usize) -> WorkId {
        self.tracers[index].phase.work().unwrap_or_else(|| {
            let zeroed = Work { bit: 0, tracer: None, next: None, queued: None };
            self.unwind.works.push(zeroed);
            WorkId(self.unwind.works.len() as u32 - 1)
        })
    }

    fn tracers_at_system_call(&mut self) -> Vec<usize> {
        let mut due = Vec::new();
        for (index, tracer) in self.tracers.iter_mut().enumerate() {
            let (Phase::Asks(_), Asks::SystemCalls(every)) = (tracer.phase, tracer.plan.asks)
            else {
                continue;
            };
            tracer.calls += 1;
            if tracer.calls >= every {
                tracer.calls = 0;
                due.push(index);
            }
        }
        due
    }

    /// Those that have fired are forwarded past now.
    fn tracer_timers_fired(&mut self) -> Vec<usize> {
        let now = self.cpu.clock;
        let mut due = Vec::new();
        for (index, at) in self.cpu.tracer_timers.iter_mut().enumerate() {
            if *at > now {
                continue;
            }
            let tracer = &self.tracers[index];
            let (Asks::Timer(every), Phase::Waits | Phase::Asks(_)) =
                (tracer.plan.asks, tracer.phase)
            else {
                *at = Time::MAX;
                continue;
            };
            *at = now.saturating_add(every);
            due.push(index);
        }
        due
    }

    fn note_answer(&mut self, index: usize, answer: Requested) {
        let tally = &mut self.tracers[index].tally;
        tally.asked += 1;
        tally.refused += u64::from(answer.ret < 0);
    }

    /// A callback to a tracer of the run.
    pub fn note_call(&mut self, index: usize, addresses: usize) {
        let Some(tracer) = self.tracers.get_mut(index) else { return };
        tracer.tally.called += 1;
        tracer.tally.empty += u64::from(addresses == 0);
        tracer.tally.addresses += addresses as u64;
    }
}
