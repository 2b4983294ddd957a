//! Takes the kernel's steps and gives lines to a format.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};

use arch::Arch;

use crate::kernel::timeline::Timeline;
use crate::kernel::unwind::{Requested, WorkId};
use crate::kernel::{Point, State};
use crate::perf::record::Time;
use crate::perf::session::Written;
use crate::timeline::facts::{CpuFacts, Facts, TaskFacts, counted};
use crate::timeline::range::Range;
use crate::timeline::words::{self, Told};
use crate::timeline::{
    Cookie, Edge, Format, Handle, Line, Names, Settings, What, Writer, chrome, text,
};

/// See the module.
pub struct Teller {
    range: Range,
    calls: bool,
    names: Names,
    writer: Box<dyn Writer>,
    out: Box<dyn Write>,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
    begun: bool,
    /// Number of the last event.
    events: u64,
    /// How many CPUs there are.
    machine: u32,
    cpus: BTreeMap<u32, CpuStory>,
    tasks: BTreeMap<u32, TaskFacts>,
    records: Written,
    calls_made: usize,
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug)]
struct CpuStory {
    facts: CpuFacts,
    /// 0 in user mode, 1 in the kernel, more in interrupts of it.
    depth: usize,
}

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Teller").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Teller {
    pub(super) fn new(arch: Arch, set: Settings, names: Names, out: Box<dyn Write>) -> Teller {
        let writer: Box<dyn Writer> = match set.format {
            Format::Text => Box::new(text::Text::default()),
            Format::Chrome => Box::new(chrome::Chrome::new(arch)),
        };
        Teller {
            range: set.range,
            calls: set.calls,
            names,
            writer,
            out,
            failed: None,
            begun: false,
            events: 0,
            machine: 1,
            cpus: BTreeMap::new(),
            tasks: BTreeMap::new(),
            records: Written::default(),
            calls_made: 0,
        }
    }

    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.begin();
        let last = |t: &mut Teller| t.writer.end(&mut t.out).and_then(|()| t.out.flush());
        self.write(last);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.write(|t| t.writer.begin(&mut t.out, t.machine));
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut Teller) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(error) = write(self)
        {
            self.failed = Some(error);
        }
    }

    fn line(&mut self, line: Line<'_>) {
        self.begin();
        let depth = |cpu| self.cpus.get(&cpu).map_or(0, |story| story.depth);
        let columns = if text::has_columns(self.machine) { self.machine } else { 0 };
        let depths: Vec<usize> = (0..columns).map(depth).collect();
        let line = Line { depths: &depths, ..line };
        self.write(|t| t.writer.line(&mut t.out, &line));
    }

    /// Facts and depth before what is told, which are replaced by those of now.
    fn turn(&mut self, state: &State, depth: impl FnOnce(usize) -> usize) -> (Facts, Facts, usize) {
        let now = Facts::of(state);
        let cpu = self.cpus.get(&state.cpu.id).copied();
        let cpu = cpu.unwrap_or(CpuStory { facts: now.cpu, depth: 0 });
        let story = CpuStory { facts: now.cpu, depth: depth(cpu.depth) };
        self.cpus.insert(state.cpu.id, story);
        self.machine = state.config.cpus;
        let task = self.tasks.insert(state.task.tid, now.task).unwrap_or(now.task);
        let old = Facts { cpu: cpu.facts, task, records: self.records, calls: self.calls_made };
        (self.records, self.calls_made) = (now.records, now.calls);
        (old, now, cpu.depth)
    }

    /// Counts an event; whether it is shown.
    fn count(&mut self) -> (u64, bool) {
        self.events += 1;
        (self.events, self.failed.is_none() && self.range.holds(self.events))
    }
}

impl Timeline for Handle {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        self.0.borrow_mut().step(state, point, began);
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        self.0.borrow_mut().user(state, began, retired);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        self.0.borrow_mut().answered(state, work, answer);
    }
}

impl Timeline for Teller {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        let (old, new, before) = self.turn(state, |depth| match point {
            Point::EntryRaw => 1,
            Point::IrqDeliver => depth + 1,
            Point::IrqReturn => depth.saturating_sub(1),
            _ if state.cpu.kernel.is_none() => 0,
            _ => depth,
        });
        let after = self.cpus.get(&state.cpu.id).map_or(before, |c| c.depth);
        let is_call = matches!(point, Point::Call | Point::Return);
        let (number, shown) = match is_call {
            false => {
                let (number, shown) = self.count();
                (Some(number), shown)
            }
            // Between two events that are shown.
            true => (None, self.range.holds(self.events.max(1)) && self.wants_calls()),
        };
        if !shown {
            return;
        }
        let told = Told { state, point, old: &old, new: &new, names: &self.names };
        let line = Line {
            number,
            depth: before.max(after),
            edge: match after.cmp(&before) {
                Ordering::Greater => Edge::First,
                Ordering::Equal => Edge::Inner,
                Ordering::Less => Edge::Last,
            },
            what: if is_call { What::Call(point.name()) } else { What::Step(point.name()) },
            words: told.words(),
            changes: old.changes(&new),
            cookie: told.cookie(),
            ..blank(state, began)
        };
        self.line(line);
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        self.turn(state, |_| 0);
        if retired == 0 {
            return;
        }
        let (number, shown) = self.count();
        if !shown {
            return;
        }
        let pc = (self.names)(state.hw_regs().pc);
        let words = format!("{}, then at {pc}", counted(retired, "instruction"));
        let line = Line { number: Some(number), what: What::User, words, ..blank(state, began) };
        self.line(line);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        let (number, shown) = self.count();
        if !shown {
            return;
        }
        let depth = self.cpus.get(&state.cpu.id).map_or(1, |c| c.depth);
        let asked = answer.ret >= 0 && answer.cookie != 0;
        let line = Line {
            number: Some(number),
            depth,
            what: What::Answer(answer),
            words: words::answer(state, work, answer),
            cookie: asked.then_some(Cookie::Asked(answer.cookie)),
            ..blank(state, state.cpu.clock)
        };
        self.line(line);
    }
}

impl Teller {
    /// The trace format draws every function.
    fn wants_calls(&self) -> bool {
        self.failed.is_none() && (self.calls || self.writer.draws_calls())
    }
}

/// A line of the CPU and task of now, without content.
fn blank(state: &State, began: Time) -> Line<'_> {
    Line {
        number: None,
        began,
        ended: state.cpu.clock,
        cpu: state.cpu.id,
        pid: state.task.pid,
        tid: state.task.tid,
        comm: &state.task.comm,
        depth: 0,
        edge: Edge::Inner,
        depths: &[],
        what: What::User,
        words: String::new(),
        changes: Vec::new(),
        functions: &state.cpu.functions,
        cookie: None,
    }
}
