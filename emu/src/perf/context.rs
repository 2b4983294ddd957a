//! The events that are open on one task, or on one CPU (`struct perf_event_context`).
//!
//! ```text
//! Session::events, Opened   what is counted and sampled: the attributes
//!   └─ Instance             one of them on one task or CPU, with its counter
//! ```
//!
//! An instance's records go to its session's profile or to the ring of the event that a guest
//! opened ([`Output`]); all else is the same. A task that is forked gets instances of its parent's
//! events (`inherit`), each at the beginning of a period. When a context is closed, what its
//! instances counted is added to the totals.

use std::rc::Rc;

use crate::perf::opened::{Opened, Totals};
use crate::perf::pmu::Counter;
use crate::perf::record::{Event, Time};
use crate::perf::session::SessionId;

/// Where the records of an instance go.
#[derive(Clone, Debug)]
pub enum Output {
    /// To a session's profile.
    Session(SessionEvent),
    /// To the ring of an event that a guest opened.
    Ring(Rc<Opened>),
}

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionEvent {
    /// Which session.
    pub session: SessionId,
    /// Which of its events.
    pub event: usize,
}

/// What a guest's event needs besides its counter; a session's are on while it is open.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    /// `PERF_EVENT_STATE_INACTIVE` or above; below: off.
    pub on: bool,
    /// The next `execve` turns it on.
    pub on_exec: bool,
    /// It was opened on this task, not inherited.
    pub own: bool,
    /// Its own id, of an inherited one not its parent's.
    pub stream_id: u64,
    /// Its event can no longer be reached: it is passed over, and taken out when nobody
    /// works with its place.
    pub gone: bool,
    /// What its counter showed when it was set back.
    base: u64,
    /// Time until [`Switch::since`].
    times: Totals,
    /// When the times were brought up to date; they run while the context is on a CPU.
    since: Option<Time>,
    /// It is on and so is its leader.
    enabled: bool,
    /// The CPU is the one that it is bound to, if it is.
    here: bool,
}

/// Samples of the present tick (`hw.interrupts`, `hw.interrupts_seq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interrupts {
    /// Which tick.
    tick: u64,
    /// Samples since then.
    count: u64,
    /// It stands still until the next tick, or until its task is scheduled in
    /// (`MAX_INTERRUPTS`).
    pub throttled: bool,
}

impl Interrupts {
    /// One more in tick number `tick`; whether that makes `most`, with which it is throttled.
    pub const fn account(&mut self, tick: u64, most: u64) -> bool {
        if self.tick != tick {
            (self.tick, self.count) = (tick, 0);
        }
        self.count += 1;
        self.count >= most
    }
}

/// One event, open somewhere.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its attributes.
    pub event: Rc<Event>,
    /// Where its records go.
    pub output: Output,
    /// Its counter.
    pub counter: Counter,
    /// It counts: always true of the session's.
    pub active: bool,
    /// The state of a guest's.
    pub switch: Switch,
    /// Its group has counters of the PMU, or needs none; always true where there are enough.
    pub scheduled: bool,
    /// How many samples it has taken lately.
    pub interrupts: Interrupts,
    /// When the timer of a `cpu-clock` or `task-clock` fires; `Time::MAX` for other events.
    pub deadline: Time,
    /// What was left until then when the task was switched out.
    left: Time,
}

/// The events of one task or CPU.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// In the order in which they were opened.
    pub instances: Vec<Instance>,
    /// Some of them are gone.
    stale: bool,
    /// How far those that need a counter are rotated.
    pub rotation: usize,
}

/// Which instance of those that are active: the task's come before the CPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// It is in the CPU's context.
    pub of_cpu: bool,
    /// Its place there.
    pub index: usize,
}

impl Switch {
    /// That of an event's own instance: on or off, until `execve` or not.
    pub fn new(on: bool, on_exec: bool, id: u64) -> Switch {
        Switch { on, on_exec, own: true, stream_id: id, ..Switch::default() }
    }
}

impl Instance {
    /// An event of a session, opened at `now`.
    pub fn new(of: SessionEvent, event: &Event, now: Time) -> Instance {
        let counter = Counter::new(event);
        let deadline = match event.kind.is_clock() {
            true => now.saturating_add(counter.period),
            false => Time::MAX,
        };
        Instance {
            event: Rc::new(event.clone()),
            output: Output::Session(of),
            counter,
            active: true,
            switch: Switch { enabled: true, since: Some(now), ..Switch::default() },
            scheduled: true,
            interrupts: Interrupts::default(),
            deadline,
            left: 0,
        }
    }

    /// An event that a guest opened, not active yet.
    pub fn of_guest(opened: &Rc<Opened>, switch: Switch) -> Instance {
        let counter = Counter::new(&opened.event);
        let left = counter.period;
        let output = Output::Ring(opened.clone());
        let (event, deadline) = (opened.event.clone(), Time::MAX);
        let interrupts = Interrupts::default();
        Instance {
            event,
            output,
            counter,
            active: false,
            switch,
            scheduled: true,
            interrupts,
            deadline,
            left,
        }
    }

    /// The guest's event that it belongs to.
    pub const fn opened(&self) -> Option<&Rc<Opened>> {
        match &self.output {
            Output::Ring(opened) => Some(opened),
            Output::Session(_) => None,
        }
    }

    /// Whether it belongs to this event.
    pub fn is_of(&self, event: &Rc<Opened>) -> bool {
        self.opened().is_some_and(|opened| Rc::ptr_eq(opened, event)) && !self.switch.gone
    }

    /// What it has counted until `now`.
    pub fn totals(&self, now: Time) -> Totals {
        let switch = &self.switch;
        let more = switch.since.map_or(0, |since| now.saturating_sub(since));
        let enabled = switch.times.enabled + if switch.enabled { more } else { 0 };
        let running = switch.times.running + if self.active { more } else { 0 };
        let count = if self.event.kind.is_clock() { running } else { self.counter.total };
        Totals { count: count.wrapping_sub(switch.base), enabled, running }
    }

    /// Its count is 0 from now on (`PERF_EVENT_IOC_RESET`).
    pub fn reset(&mut self, now: Time) {
        let base = self.switch.base;
        self.switch.base = base.wrapping_add(self.totals(now).count);
    }

    /// A period of its own (`PERF_EVENT_IOC_PERIOD`), begun at once.
    pub fn set_period(&mut self, event: Rc<Event>, now: Time) {
        let counter = self.counter.with_rate(&event);
        self.left = counter.period;
        if self.deadline != Time::MAX {
            self.deadline = now.saturating_add(counter.period);
        }
        (self.counter, self.event) = (counter, event);
    }

    /// Whether it gets records of its task: it counts, or would but that it is throttled or waits
    /// for a counter (`perf_iterate_ctx`: its state is not below INACTIVE).
    pub const fn receives(&self) -> bool {
        let stands_still = self.interrupts.throttled || !self.scheduled;
        self.active || self.switch.enabled && stands_still
    }

    /// The times until `now` are counted.
    fn accrue(&mut self, now: Time) {
        let Totals { enabled, running, .. } = self.totals(now);
        self.switch.times = Totals { count: 0, enabled, running };
        self.switch.since = self.switch.since.map(|_| now);
    }

    fn set_active(&mut self, active: bool, now: Time) {
        if self.active == active {
            return;
        }
        self.active = active;
        if self.event.kind.is_clock() {
            match active {
                true => self.deadline = now.saturating_add(self.left),
                false => {
                    self.left = self.deadline.saturating_sub(now);
                    self.deadline = Time::MAX;
                }
            }
        }
    }

    /// It stands still (`perf_event_throttle`).
    pub fn throttle(&mut self, now: Time) {
        /// As `perf_swevent_start_hrtimer` goes on with a timer that was late.
        const LEAST: Time = 10_000;
        self.interrupts.throttled = true;
        self.accrue(now);
        self.set_active(false, now);
        self.left = self.left.max(LEAST);
    }

    /// It goes on, the session's at once, a guest's when its context is settled.
    pub fn unthrottle(&mut self, now: Time) {
        self.interrupts = Interrupts::default();
        if self.session_event().is_some() {
            self.accrue(now);
            self.set_active(self.scheduled, now);
        }
    }

    /// It gets a counter, if it needs one, or has to wait for one.
    pub fn schedule(&mut self, scheduled: bool, now: Time) {
        if self.scheduled != scheduled {
            self.accrue(now);
            self.scheduled = scheduled;
            let on = self.opened().is_none() || self.switch.enabled && self.switch.here;
            self.set_active(scheduled && on && !self.interrupts.throttled, now);
        }
    }

    /// Its task is on no CPU: times and timers stand still.
    fn rest(&mut self, now: Time) {
        self.accrue(now);
        self.switch.since = None;
        if self.deadline != Time::MAX {
            self.left = self.deadline.saturating_sub(now);
        }
    }

    /// A session's event is closed; returns what it was.
    fn close(&mut self, now: Time) -> Instance {
        self.rest(now);
        let closed = self.clone();
        self.set_active(false, now);
        (self.switch.enabled, self.switch.gone) = (false, true);
        self.deadline = Time::MAX;
        closed
    }

    /// Whether it has a turn when counters are given out: it is enabled, on this CPU.
    pub fn wants_to_count(&self) -> bool {
        match self.opened() {
            Some(_) => self.switch.enabled && self.switch.here,
            None => self.session_event().is_some(),
        }
    }

    /// Its group is pinned and found no counters (`PERF_EVENT_STATE_ERROR`): it is off, and a
    /// `read` gives nothing until it is enabled again.
    pub fn fail(&mut self, now: Time) {
        self.follow_failed(now);
        self.switch.on = false;
        if let Some(opened) = self.opened().filter(|_| self.switch.own) {
            opened.failed.set(true);
        }
    }

    /// The leader of its group has failed: it is on, but not enabled while its leader is not.
    pub fn follow_failed(&mut self, now: Time) {
        self.accrue(now);
        self.switch.enabled = false;
        self.set_active(false, now);
    }

    /// Whether this one is of the same group.
    pub fn is_grouped_with(&self, other: &Instance) -> bool {
        match (self.opened(), other.opened()) {
            (Some(a), Some(b)) => Rc::ptr_eq(&a.group_leader(), &b.group_leader()),
            (None, None) => self.session_event() == other.session_event(),
            _ => false,
        }
    }

    /// Whether it leads its group, as every event of the session does.
    pub fn is_leader(&self) -> bool {
        self.opened().is_none_or(|opened| Rc::ptr_eq(&opened.group_leader(), opened))
    }

    /// Which event of which session it is, if it still is one of those.
    pub fn session_event(&self) -> Option<SessionEvent> {
        match &self.output {
            _ if self.switch.gone => None,
            Output::Session(of) => Some(*of),
            Output::Ring(_) => None,
        }
    }

    /// That of a child: the parent's present period, begun anew.
    fn child(&self, stream_id: u64) -> Instance {
        let counter = self.counter.inherited();
        let period = counter.period;
        let of_session = matches!(self.output, Output::Session(_));
        let timer = of_session && self.deadline != Time::MAX;
        Instance {
            event: self.event.clone(),
            output: self.output.clone(),
            counter,
            active: of_session,
            switch: Switch {
                on: self.switch.on,
                on_exec: self.switch.on_exec,
                stream_id,
                enabled: of_session,
                ..Switch::default()
            },
            scheduled: true,
            interrupts: Interrupts::default(),
            deadline: if timer { period } else { Time::MAX },
            left: period,
        }
    }
}

impl Context {
    /// Opens all `events` of a session at `now`, beside what is open.
    pub fn open(&mut self, session: SessionId, events: &[Event], now: Time) {
        let of = |event| SessionEvent { session, event };
        let new = events.iter().enumerate().map(|(i, e)| Instance::new(of(i), e, now));
        self.instances.extend(new);
    }

    /// The same for a task that is on no CPU.
    pub fn open_at_rest(&mut self, session: SessionId, events: &[Event], now: Time) {
        let first = self.instances.len();
        self.open(session, events, now);
        self.instances[first..].iter_mut().for_each(|instance| instance.rest(now));
    }

    /// Closes the events of a session; returns them as they were.
    pub fn close(&mut self, session: SessionId, now: Time) -> Vec<Instance> {
        let of = |i: &&mut Instance| i.session_event().is_some_and(|of| of.session == session);
        let closed: Vec<_> =
            self.instances.iter_mut().filter(of).map(|instance| instance.close(now)).collect();
        self.stale |= !closed.is_empty();
        closed
    }

    /// What a child of the task gets (`inherit_event`): the events of sessions for which `follows`
    /// holds, and of the guest's those for which `wanted` does. `next_id` gives them ids.
    pub fn inherited(
        &self,
        follows: impl Fn(SessionId) -> bool,
        wanted: impl Fn(&Opened) -> bool,
        mut next_id: impl FnMut() -> u64,
    ) -> Context {
        let inherits = |i: &&Instance| match &i.output {
            Output::Session(of) => !i.switch.gone && follows(of.session),
            Output::Ring(opened) => !i.switch.gone && wanted(opened),
        };
        let child = |i: &Instance| match &i.output {
            Output::Session(_) => i.child(0),
            Output::Ring(_) => i.child(next_id()),
        };
        let instances = self.instances.iter().filter(inherits).map(child).collect();
        Context { instances, stale: false, rotation: 0 }
    }

    /// The task leaves its CPU at `now`: its timers stand still, and the guest's events count
    /// no more.
    pub fn sched_out(&mut self, now: Time) {
        for instance in &mut self.instances {
            if instance.opened().is_some() {
                instance.accrue(now);
                instance.set_active(false, now);
                instance.switch.since = None;
                continue;
            }
            instance.rest(now);
        }
    }

    /// The task runs again, from `now` on, on this CPU.
    pub fn sched_in(&mut self, now: Time, cpu: u32) {
        for instance in &mut self.instances {
            instance.switch.since = Some(now);
            if instance.opened().is_none() && instance.deadline != Time::MAX {
                instance.deadline = now.saturating_add(instance.left);
            }
        }
        self.settle(now, cpu);
    }

    /// Events were opened, turned on or off, or are gone: which count from now on. The context
    /// is on `cpu`.
    pub fn settle(&mut self, now: Time, cpu: u32) {
        for index in 0..self.instances.len() {
            let Some(opened) = self.instances[index].opened().cloned() else { continue };
            let leader = opened.group_leader();
            let on = |i: &Instance| i.is_of(&leader) && i.switch.on;
            let leads = Rc::ptr_eq(&leader, &opened);
            let led = leads || self.instances.iter().any(on);
            let instance = &mut self.instances[index];
            instance.accrue(now);
            self.stale |= instance.switch.gone;
            instance.switch.enabled = instance.switch.on && led && !instance.switch.gone;
            let here = opened.target.cpu().is_none_or(|wanted| wanted == cpu);
            instance.switch.here = here;
            let active = instance.switch.enabled
                && here
                && instance.scheduled
                && !instance.interrupts.throttled;
            instance.set_active(active, now);
            instance.switch.since = Some(now);
        }
    }

    /// Takes out what is gone. Nobody may work with a [`Slot`] of it.
    pub fn compact(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.instances.retain(|instance| !instance.switch.gone);
        }
    }

    /// The same of a context that is on no CPU, where nothing is settled.
    pub fn compact_at_rest(&mut self) {
        self.stale = true;
        self.compact();
    }

    /// When the next timer fires.
    pub fn next_deadline(&self) -> Time {
        self.instances.iter().map(|i| i.deadline).min().unwrap_or(Time::MAX)
    }
}
