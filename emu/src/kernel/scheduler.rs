//! The scheduler: which task runs on a CPU, and when another does.
//!
//! ```text
//!  wake_task ─► queue of a CPU ─► schedule(): pick ─► switch_to ─► the other task's path goes on
//!  slice over, IPI ─► need_resched ─► X2.ii, or the end of an interrupt (E-10)
//! ```
//!
//! Every CPU has a queue, taken in turn (round robin with slices of [`SLICE`]); a task that wakes
//! up goes to the CPU that it was on if that is idle, else to an idle one, else it waits there. A
//! CPU with nothing to do takes a task from the longest queue. The weights and deadlines of the
//! kernel's own scheduler (EEVDF) are not modelled: every task has nice 0.
//!
//! A path that calls [`schedule`] is suspended in the middle of it, as a kernel stack is, and goes
//! on there when its task is picked again, perhaps by another CPU.

use std::future::poll_fn;
use std::task::Poll;

use crate::kernel::symbols::Named;
use crate::kernel::task::{Place, SwitchedOut, Task, TaskId};
use crate::kernel::timers::Timer;
use crate::kernel::wait::Woken;
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::{EventKind, Raw, Record, Session, Time};

/// How long a task runs before the next one has its turn (`base_slice_ns` of a small machine).
pub const SLICE: Time = 3_000_000;
/// A task that wakes up takes the CPU at once from one that has run so long.
const WAKEUP_GRANULARITY: Time = 750_000;
/// How long an interrupt takes to another CPU.
const IPI_LATENCY: Time = 1_000;

/// The functions of a voluntary switch.
const SCHEDULE: [Named; 2] = [Named::Schedule, Named::InnerSchedule];

/// Suspends the path once: the executor runs whoever is due.
pub async fn pause() {
    let mut first = true;
    poll_fn(|_| match std::mem::take(&mut first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// `schedule`: the present task gives up the CPU, or goes on if it is its own turn.
pub async fn schedule(k: &Kernel) {
    without_preemption(k, SCHEDULE, false).await;
}

/// `preempt_schedule_irq`: at the end of an interrupt of kernel code.
pub async fn preempt(k: &Kernel) {
    const FUNCTIONS: [Named; 2] = [Named::PreemptScheduleIrq, Named::InnerSchedule];
    without_preemption(k, FUNCTIONS, true).await;
}

/// The first function turns preemption off and calls the second; the count stays the CPU's when
/// that switches tasks.
async fn without_preemption(k: &Kernel, [outer, inner]: [Named; 2], preempted: bool) {
    k.call(outer.into()).await;
    let counted = k.count_up(1).await;
    k.step(Point::PreemptCount, |s| s.cpu.preempt_count += 1 - counted).await;
    k.call(inner.into()).await;
    switch(k, preempted).await;
    k.ret().await;
    let counted = k.count_down(1).await;
    k.step(Point::PreemptCount, |s| s.cpu.preempt_count -= 1 - counted).await;
    k.ret().await;
}

/// The innermost function is `__schedule`.
async fn switch(k: &Kernel, preempted: bool) {
    let (next, irqs_on) = k.step(Point::SchedPick, |s| s.pick_next(preempted)).await;
    if irqs_on {
        k.irqs_went_off(Named::HardirqsOff).await;
    }
    let Some(next) = next else {
        if irqs_on {
            k.irqs_go_on(Named::HardirqsOn).await;
        }
        k.step(Point::SchedSame, |s| s.cpu.irqs_on = irqs_on).await;
        return;
    };
    k.step(Point::Sleep, |s| s.sched_out(next, preempted)).await;
    k.last_step(Point::SchedSwitch, |s| s.switch_to(next, preempted));
    pause().await;
    // `finish_task_switch`: the task's events are there before interrupts are on.
    let told = irqs_on && k.traces_toggles();
    k.step(Point::Wake, |s| {
        s.sched_in();
        s.cpu.irqs_on = irqs_on && !told;
    })
    .await;
    if told {
        k.turn_irqs_on().await;
    }
}

/// What a new task does first (`schedule_tail`). An idle task of the boot has not been switched to.
pub async fn first_run(k: &Kernel) {
    let told = k.traces_toggles();
    k.step(Point::Wake, |s| {
        s.sched_in();
        if !told {
            (s.cpu.irqs_on, s.cpu.preempt_count) = (true, 0);
        }
    })
    .await;
    if told {
        k.turn_irqs_on().await;
        k.count_down(1).await;
    }
}

impl Task {
    /// Whether it can run.
    pub fn is_runnable(&self) -> bool {
        !self.dead && self.waiting.is_none_or(|w| w.woken.is_some())
    }

    /// Whether it may run on this CPU.
    pub const fn may_run_on(&self, cpu: u32) -> bool {
        self.affinity >> cpu & 1 != 0
    }
}

impl State {
    /// Interrupts go off, and the next task is chosen; `None`: the present one goes on. Also
    /// whether interrupts were on. A preempted task is runnable even if it is about to wait.
    fn pick_next(&mut self, preempted: bool) -> (Option<TaskId>, bool) {
        let irqs_on = std::mem::replace(&mut self.cpu.irqs_on, false);
        self.task.work.need_resched = false;
        if !preempted {
            self.compact_events();
        }
        let cpu = self.cpu.id;
        let runnable = (preempted || self.task.is_runnable()) && self.task.may_run_on(cpu);
        let next = self.cpu.queue.pop_front().or_else(|| match runnable && !self.task.is_idle() {
            true => None,
            false => self.steal(),
        });
        let next = match next {
            Some(next) => next,
            None if runnable || self.task.is_idle() => {
                self.start_slice();
                return (None, irqs_on);
            }
            None => self.cpu.idle,
        };
        (Some(next), irqs_on)
    }

    /// A task from the longest queue that may run here.
    fn steal(&mut self) -> Option<TaskId> {
        let here = self.cpu.id;
        let fits = |id: &TaskId| self.others.tasks.get(id).is_some_and(|t| t.may_run_on(here));
        let queues = self.others.cpus.values().filter(|cpu| cpu.queue.iter().any(fits));
        let victim = queues.max_by_key(|cpu| (cpu.queue.len(), std::cmp::Reverse(cpu.id)))?.id;
        let queue = &mut self.others.cpus.get_mut(&victim)?.queue;
        let tasks = &self.others.tasks;
        let at = queue.iter().position(|id| tasks.get(id).is_some_and(|t| t.may_run_on(here)))?;
        queue.remove(at)
    }

    /// The present task leaves the CPU (`prepare_task_switch`).
    fn sched_out(&mut self, next: TaskId, preempted: bool) {
        if !self.task.is_idle() || !self.cpu.events.instances.is_empty() {
            self.trace_sched_switch(next, preempted);
            self.software_event(EventKind::ContextSwitches, None);
        }
        self.account();
        let now = self.cpu.clock;
        let other = self.task_of(next).map_or((0, 0), |t| (t.pid, t.tid));
        self.record_switch(true, preempted, other);
        self.task.events.sched_out(now);
    }

    /// The CPU goes on with another task, where that left off. Only now may another CPU run the one
    /// that leaves; if it was woken on its way, it waits for its turn.
    fn switch_to(&mut self, next: TaskId, preempted: bool) {
        let (cpu, me) = (self.cpu.id, self.task.id);
        self.cpu.before = (self.task.pid, self.task.tid);
        let runnable = (preempted || self.task.is_runnable()) && !self.task.is_idle();
        let stays = runnable && self.task.may_run_on(cpu);
        self.task.place = if stays { Place::Queued(cpu) } else { Place::Off(cpu) };
        if stays {
            self.cpu.queue.push_back(me);
        }
        if let Some(slice) = self.cpu.slice.take() {
            self.cpu.timers.cancel(slice);
        }
        self.task.out = SwitchedOut {
            kernel: self.cpu.kernel.take(),
            functions: std::mem::take(&mut self.cpu.functions),
        };
        if self.task.dead {
            self.others.dead.push(self.task.id);
        }
        self.cpu.current = next;
        self.load_current();
        let SwitchedOut { kernel, functions } = std::mem::take(&mut self.task.out);
        self.cpu.kernel = kernel;
        self.cpu.functions = functions;
        self.task.place = Place::Running(self.cpu.id);
        if runnable && !stays {
            // Its affinity has no place for it here.
            self.enqueue(me);
        }
    }

    /// The present task has the CPU (`finish_task_switch`).
    fn sched_in(&mut self) {
        let now = self.cpu.clock;
        self.cpu.since = now;
        self.cpu.accounted = now;
        self.task.events.sched_in(now, self.cpu.id);
        self.unthrottle(false);
        self.assign_counters();
        self.start_tick();
        self.start_slice();
        self.record_switch(false, false, self.cpu.before);
        self.reap();
    }

    /// Tasks that have left their CPU for the last time are gone, with their kernel stacks.
    fn reap(&mut self) {
        for id in std::mem::take(&mut self.others.dead) {
            if let Some(task) = self.others.tasks.remove(&id) {
                task.stack.free(&mut self.arena);
                self.others.gone.push(id);
                if let Some(observer) = &mut self.observer {
                    observer.exited(id);
                }
            }
        }
    }

    /// The slice is measured only while somebody waits for his turn.
    fn start_slice(&mut self) {
        if self.cpu.slice.is_none() && !self.cpu.queue.is_empty() && !self.task.is_idle() {
            let at = self.cpu.clock + SLICE;
            self.cpu.slice = Some(self.cpu.timers.start(at, Timer::Slice));
        }
    }

    /// The time since the last look is the present task's, in kernel mode.
    pub fn account(&mut self) {
        let now = self.cpu.clock;
        let spent = now.saturating_sub(self.cpu.accounted);
        self.cpu.accounted = now;
        if !self.task.is_idle() {
            self.task.times.system += spent;
        }
    }

    /// A task that waits goes on for this reason (`try_to_wake_up`); nothing happens if it does not
    /// wait any more.
    pub fn wake_task(&mut self, id: TaskId, why: Woken) {
        let Some(task) = self.task_mut(id) else { return };
        let Some(waiting) = &mut task.waiting else { return };
        if waiting.woken.is_some() || why == Woken::Interrupted && !waiting.interruptible {
            return;
        }
        waiting.woken = Some(why);
        if !matches!(task.place, Place::Off(_)) {
            // It is still on its way to sleep.
            return;
        }
        self.trace_sched_waking(id);
        self.enqueue(id);
    }

    /// Puts a task that can run into a queue, and sees to it that the CPU looks.
    pub fn enqueue(&mut self, id: TaskId) {
        let Some(task) = self.task_of(id) else { return };
        let (last, affinity) = (task.place.cpu(), task.affinity);
        let idle = |s: &State, cpu: u32| {
            s.cpu_of(cpu).is_some_and(|c| c.current == c.idle && c.queue.is_empty())
        };
        let allowed: Vec<u32> =
            self.cpus().map(|c| c.id).filter(|&c| affinity >> c & 1 != 0).collect();
        let usual =
            if allowed.contains(&last) { last } else { allowed.first().copied().unwrap_or(0) };
        let chosen = match idle(self, usual) {
            true => usual,
            false => allowed.into_iter().find(|&c| idle(self, c)).unwrap_or(usual),
        };
        if let Some(task) = self.task_mut(id) {
            task.place = Place::Queued(chosen);
        }
        let now = self.cpu.clock;
        let Some(cpu) = self.cpu_mut(chosen) else { return };
        cpu.queue.push_back(id);
        self.kick(chosen, now);
    }

    /// A CPU has somebody new in its queue: it looks at once, or when the slice is over.
    fn kick(&mut self, id: u32, now: Time) {
        let Some(cpu) = self.cpu_of(id) else { return };
        let (current, idle) = (cpu.current, cpu.current == cpu.idle);
        let ran = cpu.clock.saturating_sub(cpu.since);
        let preempts = idle || ran >= WAKEUP_GRANULARITY;
        if preempts && let Some(task) = self.task_mut(current) {
            task.work.need_resched = true;
        }
        if id == self.cpu.id {
            self.start_slice();
            return;
        }
        let Some(cpu) = self.others.cpus.get_mut(&id) else { return };
        if cpu.halted {
            cpu.clock = cpu.clock.max(now + IPI_LATENCY);
        }
        if preempts {
            cpu.resched_ipi = true;
        } else if cpu.slice.is_none() {
            cpu.slice = Some(cpu.timers.start(cpu.clock + SLICE, Timer::Slice));
        }
        self.horizon = self.horizon.min(cpu.clock);
    }

    /// A task may run on these CPUs from now on.
    pub fn set_affinity(&mut self, id: TaskId, mask: u64) {
        let Some(task) = self.task_mut(id) else { return };
        task.affinity = mask;
        let place = task.place;
        let stays = mask >> place.cpu() & 1 != 0;
        match place {
            Place::Running(cpu) if !stays => {
                task.work.need_resched = true;
                self.kick_running(id, Place::Running(cpu));
            }
            Place::Queued(cpu) if !stays => {
                if let Some(cpu) = self.cpu_mut(cpu) {
                    cpu.queue.retain(|&queued| queued != id);
                }
                self.enqueue(id);
            }
            _ => {}
        }
    }

    /// A task that runs on another CPU is interrupted there, so that it looks at its work bits.
    pub fn kick_running(&mut self, id: TaskId, place: Place) {
        if let Place::Running(cpu) = place
            && id != self.task.id
            && let Some(cpu) = self.others.cpus.get_mut(&cpu)
        {
            cpu.resched_ipi = true;
        }
    }

    /// The slice of the running task is over.
    pub fn slice_is_over(&mut self) {
        self.cpu.slice = None;
        self.task.work.need_resched |= !self.cpu.queue.is_empty();
    }

    /// Whether an interrupt of the kernel code that it hit ends in another task's turn (E-10).
    pub fn preempts(&self, irqs_were_on: bool) -> bool {
        irqs_were_on && self.cpu.preempt_count == 0 && self.task.work.need_resched
    }

    fn trace_sched_switch(&mut self, next: TaskId, preempted: bool) {
        if !self.perf.wants(EventKind::SchedSwitch) {
            return;
        }
        let Some(next) = self.task_of(next).map(|t| (t.name(), t.tid)) else { return };
        let state = match self.task.waiting {
            _ if preempted => PrevState::Preempted,
            _ if self.task.dead && self.task.tid == self.task.pid => PrevState::Zombie,
            _ if self.task.dead => PrevState::Dead,
            Some(w) if w.woken.is_none() && w.interruptible => PrevState::Interruptible,
            Some(w) if w.woken.is_none() => PrevState::Uninterruptible,
            _ => PrevState::Running,
        };
        let raw = Raw::SchedSwitch {
            prev_comm: self.task.name(),
            prev_pid: self.task.tid,
            prev_state: state as i64,
            next_comm: next.0,
            next_pid: next.1,
        };
        self.tracepoint(EventKind::SchedSwitch, raw);
    }

    fn trace_sched_waking(&mut self, id: TaskId) {
        if !self.perf.wants(EventKind::SchedWaking) {
            return;
        }
        let Some(task) = self.task_of(id) else { return };
        let raw = Raw::SchedWaking {
            comm: task.name(),
            pid: task.tid,
            target_cpu: task.place.cpu() as i32,
        };
        self.tracepoint(EventKind::SchedWaking, raw);
    }

    /// `PERF_RECORD_SWITCH` of the present task, or `_CPU_WIDE` with the `other` one, if it was
    /// asked for.
    fn record_switch(&mut self, out: bool, preempted: bool, other: (u32, u32)) {
        if self.instances_are_none() {
            return;
        }
        let (pid, tid) = (self.task.pid, self.task.tid);
        let (time, cpu, preempted) = (self.cpu.clock, self.cpu.id, out && preempted);
        let record = |other| Record::Switch { pid, tid, time, cpu, out, preempted, other };
        self.record_in_rings(&record(Some(other)));
        for wide in [false, true] {
            let wanted = |s: &Session| s.switches && s.system_wide() == wide;
            let mut sessions = self.perf.open_sessions(wanted);
            sessions.retain(|&session| self.is_profiled_by(session));
            self.record_in_each(&sessions, record(wide.then_some(other)));
        }
    }
}

/// `prev_state` of `sched:sched_switch` (`TASK_*`, and the bit above them for a preemption).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
enum PrevState {
    Running = 0,
    Interruptible = 1,
    Uninterruptible = 2,
    Dead = 0x10,
    Zombie = 0x20,
    Preempted = 0x100,
}
