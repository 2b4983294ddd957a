//! What led to a moment, for each task: the interrupts that it is in, what was asked for and
//! given since the last reset, and the hazards that happened on the way.

use arch::{Arch, Errno};

use crate::kernel::Point;
use crate::kernel::unwind::{PERF, Requested, Work, WorkId};
use crate::laws::hazard::{Happened, Hazard, Hazards};
use crate::laws::law::Mode;
use crate::laws::moment::{CpuView, Machine, Now, TaskView, UserRegs, What, bits};

/// A request that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// On behalf of whom.
    pub work: WorkId,
    /// What it was answered.
    pub answer: Requested,
    /// At which event.
    pub event: u64,
    /// The bit that it has, or had, in the mask.
    pub bit: u64,
}

/// A callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Of whom.
    pub work: WorkId,
    /// The stack's name.
    pub cookie: u64,
}

/// A request that is going on: the state before its first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The task was one whose request must be refused: ending, or without memory.
    pub of_no_user: bool,
    /// The context that asks.
    pub level: u8,
    /// The unwinder's state.
    pub unwind: (u64, u64, bool, usize),
    /// The bit that it has set in the mask (Q9).
    pub bit: u64,
    /// Works whose own item was on another task's list when this one wanted to queue its own.
    pub elsewhere: Vec<WorkId>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct TaskStory {
    /// Preempt counts of the contexts that interrupts of kernel code have interrupted.
    pub nest: Vec<u32>,
    /// Entries that ended with a way back to user mode through X5.
    pub entry: u64,
    /// What was asked for since the last reset that was done, once for each tracer and cookie.
    pub asked: Vec<Asked>,
    /// The callbacks since then.
    pub called: Vec<Called>,
    /// This moment's callback.
    pub callback: Option<Called>,
    /// Requests that go on, innermost last.
    pub requests: Vec<Request>,
    /// The one that was answered at this moment.
    pub answered: Option<Request>,
    /// Somebody asked at some time.
    pub ever_asked: bool,
    /// The work bits were read for the last time before the return to user mode.
    pub tail: bool,
    /// Bits that were set in the tail and may be.
    pub late: u8,
    /// An NMI of x86_64 has interrupted user mode.
    pub from_nmi: bool,
    /// X5 has begun.
    pub at_x5: bool,
    /// The task is being taken to its end: the deferred unwinder is flushed.
    pub flush: bool,
    /// What was noted.
    pub hazards: Hazards,
    /// What was noted at this moment.
    pub noted: Vec<Hazard>,
    /// Works whose own item this task has queued and not come to yet (`per-work`).
    items: Vec<WorkId>,
    /// The unwinder's task work has begun since the last reset: its item can be queued again.
    begun: bool,
    /// R3 was done and R4 not yet.
    window: bool,
    /// An allocation of the cache page has failed since R4.
    starved: bool,
    /// The way out of a system call has begun, or there is none.
    out: bool,
    /// The cookie that callbacks are about to get.
    cookie: u64,
    /// The user registers when they were last seen in this entry.
    user: Option<UserRegs>,
    /// The traversal of P8: bits of the works that are to be called, and where it is.
    wanted: u64,
    at: Option<WorkId>,
    /// Bits of the works that were served when they were loaded.
    loaded: u64,
    /// The last cookie of an earlier entry.
    last: Option<(u64, u64)>,
}

/// PENDING and USED.
const RESERVED: u64 = 0b11;
/// What a bit of -1 is shifted to.
const LAST: u64 = 1 << 63;

/// The work behind one, whether that is still in the list or not.
fn after(now: &Now<'_>, at: WorkId) -> Option<WorkId> {
    match now.list.iter().position(|&w| w == at) {
        Some(place) => now.list.get(place + 1).copied(),
        None => now.works.get(at.0 as usize)?.next,
    }
}

/// First steps of requests.
const REQUESTS: [Point; 4] =
    [Point::RequestQ2, Point::TimestampRequest2, Point::CookieRequest2, Point::WorkRequest1];

impl TaskStory {
    /// Takes what happened, before the monitors see it.
    pub fn begin(&mut self, machine: &Machine, cpu: &CpuView, task: &TaskView, now: &Now<'_>) {
        (self.callback, self.answered) = (None, None);
        match now.what {
            What::Step(point) => self.step(machine, cpu, task, now, point),
            What::Answer(work, answer) => self.answer(machine, now, work, answer),
            What::User(_) => {}
        }
        if let (Some(before), Some(user)) = (self.user, now.user)
            && before != user
            && !self.asked.is_empty()
        {
            self.note(now, Hazard::H11, 0, None);
        }
        self.user = now.user.or(self.user);
        self.loses(machine, task, now);
        self.cancels(now);
        self.orphans(now);
    }

    fn step(
        &mut self,
        machine: &Machine,
        cpu: &CpuView,
        task: &TaskView,
        now: &Now<'_>,
        point: Point,
    ) {
        match point {
            Point::EntryRaw => {
                (self.out, self.from_nmi, self.at_x5, self.user) = (false, false, false, None);
            }
            Point::EntryN7 | Point::NmiEnter | Point::IrqEnter if self.nest.is_empty() => {
                self.out = true;
                self.from_nmi = now.cpu.level == 3 && machine.arch == Arch::X86_64;
            }
            Point::IrqDeliver => self.nest.push(cpu.preempt_count),
            Point::ExitX1 | Point::ExitX3 => {
                (self.tail, self.late) = (bits(now.task.work) == 0 || now.task.ended, 0);
            }
            Point::ExitX5 => {
                self.at_x5 = true;
                self.keeps_name(machine, now);
            }
            Point::UnwindFlush => self.flush = true,
            Point::ExitMm => self.flush = false,
            Point::ExitPerf if task.waits() => self.note(now, Hazard::TornDown, task.id, None),
            Point::DeferredOutput => self.writes(now),
            Point::CallbackLog => {
                if let Some(call) = now.calls.last() {
                    self.call(call.work, call.cookie);
                }
            }
            _ => self.unwinds(task, now, point),
        }
        if REQUESTS.contains(&point) {
            self.requests.push(Request {
                of_no_user: task.exiting || !task.has_mm,
                level: cpu.level,
                unwind: task.unwind(),
                bit: 0,
                elsewhere: Vec::new(),
            });
        }
        self.is_late(task, now);
    }

    /// A step of the deferred unwinder.
    fn unwinds(&mut self, task: &TaskView, now: &Now<'_>, point: Point) {
        match point {
            Point::CaptureAllocate => self.starved |= now.task.cache.is_none(),
            Point::ResetR4 => self.starved = false,
            Point::TimestampWork2 | Point::CookieWork2 | Point::WorkWork1 => self.begun = true,
            Point::RequestQ9 => {
                if let Some(request) = self.requests.last_mut() {
                    request.bit = now.task.mask & !task.mask & !RESERVED;
                }
            }
            Point::WorkRequest3 => self.finds_items(now),
            Point::ProcessP8Completed if now.task.cache.is_none() => {
                self.note(now, Hazard::H15, self.cookie, None);
            }
            Point::ProcessP8Completed => self.completes(task, now),
            Point::ProcessP2 => self.wanted = now.task.mask,
            Point::ProcessP5 => self.wanted &= !now.task.completed(),
            Point::ProcessP6 | Point::TimestampWork5 | Point::CookieWork5 | Point::WorkWork3 => {
                self.cookie = now.task.id
            }
            Point::ProcessP7 => self.at = now.list.first().copied(),
            Point::ProcessP8 => self.meets(now),
            Point::ProcessP8Load => self.loaded = now.task.completed(),
            Point::ProcessP8Next => self.at = self.at.and_then(|at| after(now, at)),
            _ => {}
        }
    }

    /// Bits that are set in the tail: by an NMI, by code of the tail itself that asks (E-3a), or
    /// by another CPU, whose interrupt is then on its way.
    fn is_late(&mut self, task: &TaskView, now: &Now<'_>) {
        let set = bits(now.task.work) & !bits(task.work);
        let elsewhere = now.cpu.resched_ipi;
        if self.tail && (now.cpu.level == 3 || !self.requests.is_empty() || elsewhere) {
            self.late |= set;
        }
    }

    /// Perf's callback writes a record to each session, which may lose it, or not be of this CPU.
    fn writes(&mut self, now: &Now<'_>) {
        let cookie = self.written(now).unwrap_or(self.cookie);
        if now.drops {
            self.note(now, Hazard::Lost, cookie, Some(PERF));
        }
        let CpuView { id, .. } = now.cpu;
        let without = |wide: u64| wide != 0 && (id > 63 || wide >> id & 1 == 0);
        if now.sessions.iter().any(|session| session.open && without(session.wide)) {
            self.note(now, Hazard::Elsewhere, cookie, Some(PERF));
        }
        self.call(PERF, cookie);
    }

    /// The cookie of the record that was written.
    fn written(&self, now: &Now<'_>) -> Option<u64> {
        use crate::perf::record::Record;
        now.records().find_map(|r| match r {
            Record::CallchainDeferred { cookie, .. } => Some(*cookie),
            _ => None,
        })
    }

    fn call(&mut self, work: WorkId, cookie: u64) {
        let called = Called { work, cookie };
        self.callback = Some(called);
        if let Some(at) = self.items.iter().position(|&item| item == work) {
            self.items.remove(at);
        }
        // Whether there is more than one is all that matters.
        if self.calls_of(work) < 2 {
            self.called.push(called);
        }
    }

    fn answer(&mut self, machine: &Machine, now: &Now<'_>, work: WorkId, answer: Requested) {
        self.answered = self.requests.pop();
        let Requested { ret, cookie } = answer;
        if ret < 0 {
            let refused =
                ret == Errno::EINVAL.to_ret() as i64 || ret == Errno::ENOSYS.to_ret() as i64;
            if machine.mode == Mode::Mask && cookie != 0 && !refused {
                self.note(now, Hazard::H6, cookie, Some(work));
            }
            return;
        }
        self.ever_asked = true;
        if machine.mode == Mode::PerWork && ret == 0 {
            self.items.push(work);
        }
        if let Some(hazard) = self.hazard_of(machine, now, work, answer) {
            self.note(now, hazard, cookie, Some(work));
        }
        if !self.asked.iter().any(|a| a.work == work && a.answer.cookie == cookie) {
            let bit = match now.works.get(work.0 as usize).map_or(-1, |w| w.bit) {
                bit @ 0..64 => 1 << bit,
                _ => self.answered.as_ref().map_or(0, |request| request.bit),
            };
            self.asked.push(Asked { work, answer, event: now.event, bit });
        }
        self.last = match self.last {
            Some((_, entry)) if entry < self.entry => Some((cookie, self.entry)),
            None => Some((cookie, self.entry)),
            same => same,
        };
    }

    /// The hazard that a granted request completes.
    fn hazard_of(
        &self,
        machine: &Machine,
        now: &Now<'_>,
        work: WorkId,
        answer: Requested,
    ) -> Option<Hazard> {
        let called = self.called.iter().any(|c| c.work == work);
        let nameless = self.answered.as_ref().is_some_and(|request| request.unwind.1 == 0);
        let by_this_name = self.called.contains(&Called { work, cookie: answer.cookie });
        if machine.mode != Mode::Mask {
            let same = self.last.is_some_and(|(c, entry)| c == answer.cookie && entry < self.entry);
            let clock = machine.mode == Mode::Timestamp && same;
            let elsewhere = self.answered.as_ref().is_some_and(|r| r.elsewhere.contains(&work));
            if elsewhere && answer.ret > 0 {
                return Some(Hazard::Shared);
            }
            return match clock {
                true => Some(Hazard::CoarseClock),
                false => (called || self.begun).then_some(Hazard::Again),
            };
        }
        let bit = now.works.get(work.0 as usize).map_or(0, |w| w.bit);
        let nmi = now.cpu.level == 3;
        let set = self.answered.as_ref().map_or(0, |request| request.bit);
        match () {
            () if bit < 0 && set & !LAST != 0 => Some(Hazard::H17),
            () if bit < 0 && set == 0 && answer.ret > 0 => Some(Hazard::Cancelled),
            () if bit < 0 => Some(Hazard::H7),
            () if bit == 0 => Some(Hazard::H14),
            () if self.window && nmi => Some(Hazard::H1),
            () if self.tail && answer.ret == 0 && nmi => Some(Hazard::H4),
            () if self.tail && answer.ret == 0 => Some(Hazard::H18),
            () if by_this_name && answer.ret > 0 && self.out => Some(Hazard::H2),
            () if by_this_name && answer.ret > 0 => Some(Hazard::H3),
            // The stack that comes, or came, has lost its name, and this one is new.
            () if nameless && answer.ret > 0 => self.recent(&[Hazard::H1]).map(|h| h.hazard),
            () => None,
        }
    }

    /// The items of `per-work` that other tasks have queued: one of them may be what is asked for.
    fn finds_items(&mut self, now: &Now<'_>) {
        let other = |work: &Work| work.queued.is_some_and(|tid| tid != now.task.tid);
        let works = now.works.iter().enumerate().filter(|(_, work)| other(work));
        if let Some(request) = self.requests.last_mut() {
            request.elsewhere = works.map(|(at, _)| WorkId(at as u32)).collect();
        }
    }

    /// The bit of the work that was called is read again: it may be -1 by now.
    fn completes(&mut self, task: &TaskView, now: &Now<'_>) {
        let gained = now.task.completed() & !task.completed();
        let cancelled = |c: &Called| now.works.get(c.work.0 as usize).is_some_and(|w| w.bit < 0);
        if gained == LAST && self.called.last().is_some_and(cancelled) {
            self.note(now, Hazard::H20, now.task.id, None);
        }
        let dead = |a: &Asked| now.works.get(a.work.0 as usize).is_some_and(|w| w.bit < 0);
        let stale = self.asked.iter().filter(|a| dead(a)).fold(0, |set, a| set | a.bit);
        if self.loaded & now.task.completed() & stale != 0 {
            self.note(now, Hazard::H10, self.cookie, None);
        }
    }

    /// R1 of a mask that is empty, because the capture that would have set USED failed: the cookie
    /// is kept, in this entry and in all that follow until somebody asks.
    fn keeps_name(&mut self, machine: &Machine, now: &Now<'_>) {
        let named = now.task.mask == 0 && now.task.id != 0;
        if machine.mode == Mode::Mask && self.starved && named {
            self.note(now, Hazard::H5, now.task.id, None);
        }
    }

    /// P8 looks at a work: one that has just lost its bit, or one that has got another's.
    fn meets(&mut self, now: &Now<'_>) {
        let Some(at) = self.at else { return };
        let bit = now.works.get(at.0 as usize).map_or(0, |w| w.bit);
        let asked = self.asked.iter().any(|a| a.work == at);
        if bit < 0 && asked {
            self.note(now, Hazard::H8, self.cookie, Some(at));
        } else if bit >= 0 && self.wanted >> (bit & 63) & 1 != 0 && !asked {
            self.note(now, Hazard::H19, self.cookie, Some(at));
        }
    }

    /// K9 of a work that is cancelled for the second time takes bit 63 out of every task's mask.
    fn loses(&mut self, machine: &Machine, task: &TaskView, now: &Now<'_>) {
        let lost = task.mask & !now.task.mask & LAST != 0;
        if machine.mode != Mode::Mask || !lost || self.is_reset(machine, task, now) {
            return;
        }
        let owner = |a: &&Asked| now.works.get(a.work.0 as usize).is_some_and(|w| w.bit == 63);
        if let Some(asked) = self.asked.iter().find(owner).copied() {
            self.note(now, Hazard::H9, asked.answer.cookie, Some(asked.work));
        }
    }

    /// A work that asked is out of the list, where no traversal that begins now meets it, or has lost
    /// its bit.
    fn cancels(&mut self, now: &Now<'_>) {
        for at in 0..self.asked.len() {
            let Asked { work, answer, .. } = self.asked[at];
            let bit = now.works.get(work.0 as usize).map(|w| w.bit);
            let gone = bit.is_some_and(|bit| bit < 0 || !now.list.contains(&work));
            let known = |h: &Happened| h.work == Some(work) && h.entry == self.entry;
            let kinds = [Hazard::Cancelled, Hazard::H7, Hazard::H8, Hazard::H17];
            if gone && self.hazards.find(&kinds, known).is_none() {
                self.note(now, Hazard::Cancelled, answer.cookie, Some(work));
            }
        }
    }

    /// A tracer has gone whose item this task has queued, or is about to run.
    fn orphans(&mut self, now: &Now<'_>) {
        for at in 0..self.items.len() {
            let work = self.items[at];
            let known = |h: &Happened| h.work == Some(work);
            let noted = self.hazards.find(&[Hazard::Orphaned], known).is_some();
            if !noted && !now.list.contains(&work) {
                self.note(now, Hazard::Orphaned, now.task.id, Some(work));
            }
        }
    }

    fn note(&mut self, now: &Now<'_>, hazard: Hazard, cookie: u64, work: Option<WorkId>) {
        let (event, entry) = (now.event, self.entry);
        self.noted.push(hazard);
        self.hazards.push(Happened { hazard, event, entry, cookie, work });
    }

    /// The newest of `hazards` in this entry or the one before it.
    pub fn recent(&self, hazards: &[Hazard]) -> Option<Happened> {
        self.hazards.find(hazards, |h| h.entry + 1 >= self.entry)
    }

    /// The newest of `hazards` that is about this stack.
    pub fn about(&self, hazards: &[Hazard], cookie: u64) -> Option<Happened> {
        self.hazards.find(hazards, |h| h.cookie == cookie)
    }

    /// Callbacks to `work` since the last reset.
    pub fn calls_of(&self, work: WorkId) -> usize {
        self.called.iter().filter(|c| c.work == work).count()
    }

    /// Whether this moment is the one at which a reset was done: what was asked for is over.
    pub fn is_reset(&self, machine: &Machine, task: &TaskView, now: &Now<'_>) -> bool {
        let What::Step(point) = now.what else { return false };
        match (machine.mode, point) {
            (Mode::Mask, Point::ResetR3) => task.mask != 0 && now.task.mask == 0,
            (Mode::Mask, Point::ExitX5) => now.task.mask == 0,
            (_, Point::ExitX5) => now.task.id == 0,
            _ => false,
        }
    }

    /// Takes what happened, after the monitors saw it.
    pub fn end(&mut self, machine: &Machine, task: &TaskView, now: &Now<'_>) {
        if self.is_reset(machine, task, now) {
            self.window = now.what == What::Step(Point::ResetR3);
            self.asked.clear();
            self.called.clear();
            self.begun = false;
        }
        match now.what {
            What::Step(Point::ResetR4) => self.window = false,
            What::Step(Point::IrqReturn) => drop(self.nest.pop()),
            What::Step(Point::Leave) => {
                self.entry += u64::from(self.at_x5);
                (self.tail, self.at_x5, self.from_nmi, self.late) = (false, false, false, 0);
            }
            _ => {}
        }
    }
}
