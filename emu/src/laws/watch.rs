//! Takes the kernel's steps, asks the monitors, and tells what they found.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::timeline::Timeline;
use crate::kernel::unwind::{Requested, WorkId};
use crate::kernel::{Point, State};
use crate::laws::ALL;
use crate::laws::hazard::Hazard;
use crate::laws::law::{Law, Level};
use crate::laws::moment::{CpuView, Machine, Moment, Now, TaskView, What, key};
use crate::laws::monitor::Monitor;
use crate::laws::report::{Break, Broken, Counts};
use crate::laws::story::TaskStory;
use crate::laws::view::{self, Seen};
use crate::perf::record::Time;
use crate::timeline::Names;
use crate::timeline::tail::Tail;

/// How laws are watched.
pub struct Settings {
    /// Lines of the timeline that are told with a break; 0 is quicker by far.
    pub lines: usize,
    /// Names a user code address.
    pub names: Names,
    /// Goes up at a fatal break: the run is to end.
    pub stop: Arc<AtomicBool>,
    /// Gets the text about the first break of its kind, the lines of the timeline included.
    pub tell: Box<dyn FnMut(&str)>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// The watch over a machine.
#[derive(Clone, Debug)]
pub struct Handle(Rc<RefCell<Watch>>);

impl Handle {
    /// Begins to watch a machine that has not run yet, and whose design is chosen.
    pub fn start(state: &mut State, settings: Settings) -> Handle {
        let watch = Watch {
            laws: Laws::new(Machine::of(state), |_| true),
            tail: Tail::new(state.arch, settings.names, settings.lines),
            seen: Seen::default(),
            stop: settings.stop,
            tell: settings.tell,
            fatal: None,
        };
        let handle = Handle(Rc::new(RefCell::new(watch)));
        state.listen(Box::new(handle.clone()));
        handle
    }

    /// The fatal break in one line, if there was one.
    pub fn fatal(&self) -> Option<String> {
        self.0.borrow().fatal.clone()
    }

    /// What was broken how often.
    pub fn counts(&self) -> Counts {
        self.0.borrow().laws.counts.clone()
    }
}

/// Watches, with the timeline at hand.
struct Watch {
    laws: Laws,
    tail: Tail,
    seen: Seen,
    stop: Arc<AtomicBool>,
    tell: Box<dyn FnMut(&str)>,
    fatal: Option<String>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("fatal", &self.fatal).finish_non_exhaustive()
    }
}

impl Watch {
    fn see(&mut self, state: &State, what: What, began: Time) {
        let now = self.seen.look(state, self.tail.events(), what, began);
        // What follows from a fault is no news.
        if self.fatal.is_some() {
            return;
        }
        for found in self.laws.see(&now) {
            let first = self.laws.counts.count(&found);
            if first {
                (self.tell)(&found.render(&self.tail.lines()));
            }
            if found.is_fatal() {
                self.fatal = Some(found.line());
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl Timeline for Handle {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        // Nothing that a law is about changes when a modelled function is called.
        if matches!(point, Point::Call | Point::Return) {
            return;
        }
        let watch = &mut *self.0.borrow_mut();
        watch.tail.step(state, point, began);
        watch.see(state, What::Step(point), began);
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        let watch = &mut *self.0.borrow_mut();
        watch.tail.user(state, began, retired);
        watch.see(state, What::User(retired), began);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        let watch = &mut *self.0.borrow_mut();
        watch.tail.answered(state, work, answer);
        watch.see(state, What::Answer(work, answer), state.cpu.clock);
    }
}

/// The monitors, and what they need to know of before.
#[derive(Debug)]
pub struct Laws {
    machine: Machine,
    monitors: Vec<(Law, Level, Box<dyn Monitor>)>,
    cpus: BTreeMap<u32, CpuView>,
    tasks: BTreeMap<u64, (TaskView, TaskStory)>,
    found: Vec<Broken>,
    noted: Vec<Hazard>,
    /// What was broken how often.
    pub counts: Counts,
}

impl Laws {
    /// The laws of this machine's design among those that are wanted.
    pub fn new(machine: Machine, wanted: impl Fn(u8) -> bool) -> Laws {
        let wanted = ALL.iter().filter(|(law, _)| wanted(law.number));
        Laws::of(machine, wanted.map(|(law, make)| (*law, make())))
    }

    /// Those of these laws that say anything about this machine's design, with their monitors.
    pub fn of(machine: Machine, laws: impl IntoIterator<Item = (Law, Box<dyn Monitor>)>) -> Laws {
        let watched = laws.into_iter().filter_map(|(law, monitor)| {
            let level = law.level(machine.mode)?;
            Some((law, level, monitor))
        });
        let monitors: Vec<_> = watched.collect();
        let counts = Counts { watched: monitors.len(), ..Counts::default() };
        let (cpus, tasks) = (BTreeMap::new(), BTreeMap::new());
        let (found, noted) = (Vec::new(), Vec::new());
        Laws { machine, monitors, cpus, tasks, found, noted, counts }
    }

    /// The hazards that were noted at the last moment.
    pub fn noted(&self) -> &[Hazard] {
        &self.noted
    }

    /// Takes what happened; returns the breaks.
    pub fn see(&mut self, now: &Now<'_>) -> Vec<Break> {
        let cpu = self.cpus.insert(now.cpu.id, now.cpu).unwrap_or(now.cpu);
        let first = || (now.task.clone(), TaskStory::default());
        let (task, story) = self.tasks.entry(key(now)).or_insert_with(first);
        story.begin(&self.machine, &cpu, task, now);
        let moment = Moment { machine: &self.machine, now, cpu: &cpu, task, story };
        let mut breaks = Vec::new();
        for (law, level, monitor) in &mut self.monitors {
            monitor.see(&moment, &mut self.found);
            if self.found.is_empty() {
                continue;
            }
            breaks.extend(self.found.drain(..).map(|broken| Break {
                law: *law,
                level: *level,
                broken,
                event: now.event,
                at: view::name(now.what),
                cpu: now.cpu.id,
                tid: now.task.tid,
            }));
        }
        story.end(&self.machine, task, now);
        self.noted.clear();
        self.noted.append(&mut story.noted);
        if now.what == What::Step(Point::ExitDead) {
            self.tasks.remove(&key(now));
        } else if *task != now.task {
            task.clone_from(&now.task);
        }
        breaks
    }
}
