//! The run's story, step by step: what `emu run --timeline` writes.
//!
//! ```text
//! kernel ─► Teller: numbers, range ─► Line ─┬─► text: one line a step, nested
//!   steps     facts: what changed           └─► chrome: slices and flows, for Perfetto
//!             words: what happened
//! ```
//!
//! Every step but the modelled functions' calls and returns has an event number, and so have
//! user code between two entries and the answers to requests. The numbers do not depend on
//! what is printed.
//!
//! * [`facts`]: the state that steps change. * [`words`]: a step in words.
//! * [`range`]: which events. * [`text`], [`chrome`]: the formats.
//! * [`tail`]: the last lines, for whoever finds something wrong.

pub mod chrome;
pub mod facts;
pub mod range;
pub mod tail;
pub mod text;
pub mod words;

mod teller;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::kernel::State;
use crate::kernel::symbols::Function;
use crate::kernel::unwind::Requested;
use crate::perf::record::Time;
use crate::timeline::range::Range;
use crate::timeline::teller::Teller;

/// How a timeline is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line a step.
    Text,
    /// Trace events in JSON, as Chrome and Perfetto load them.
    Chrome,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How.
    pub format: Format,
    /// Which events.
    pub range: Range,
    /// Also the calls and returns of modelled functions.
    pub calls: bool,
}

/// Names a user code address.
pub type Names = Box<dyn Fn(u64) -> String>;

/// What happened, as the formats see it.
#[derive(Debug)]
pub struct Line<'a> {
    /// Its event number, from 1; `None` for calls and returns.
    pub number: Option<u64>,
    /// When it began, nanoseconds since boot.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// The CPU.
    pub cpu: u32,
    /// Process id of its task.
    pub pid: u32,
    /// Thread id of its task.
    pub tid: u32,
    /// Name of its task.
    pub comm: &'a [u8],
    /// 0 user code, 1 the kernel, 2 an interrupt of the kernel, 3 one of that.
    pub depth: usize,
    /// Whether the depth begins or ends with it.
    pub edge: Edge,
    /// The depths of all CPUs, by number, if each has a column; else none.
    pub depths: &'a [usize],
    /// What it was.
    pub what: What,
    /// In words.
    pub words: String,
    /// The state that it changed, in words.
    pub changes: Vec<String>,
    /// Modelled functions on the stack afterwards, outermost first.
    pub functions: &'a [Function],
    /// The stack that it asked for, or gave.
    pub cookie: Option<Cookie>,
}

/// Where a line is in its depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The first: the kernel is entered, or interrupted.
    First,
    /// Between the two.
    Inner,
    /// The last.
    Last,
}

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// User code ran.
    User,
    /// A step with this name.
    Step(&'static str),
    /// A function was called or returned.
    Call(&'static str),
    /// A request was answered.
    Answer(Requested),
}

/// What a step has to do with a deferred stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// It asked for this one.
    Asked(u64),
    /// It handed this one over.
    Given(u64),
}

/// A format.
pub trait Writer: std::fmt::Debug {
    /// Before the first line of a machine with so many CPUs; also if there is none.
    fn begin(&mut self, out: &mut dyn Write, cpus: u32) -> io::Result<()>;
    /// One thing that happened.
    fn line(&mut self, out: &mut dyn Write, line: &Line<'_>) -> io::Result<()>;
    /// After the last.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
    /// Whether it is told of calls and returns in any case.
    fn draws_calls(&self) -> bool {
        false
    }
}

/// A timeline that is being written.
#[derive(Clone, Debug)]
pub struct Handle(Rc<RefCell<Teller>>);

impl Handle {
    /// Begins to write the story of a machine that has not run yet to `out`.
    pub fn start(
        state: &mut State,
        settings: Settings,
        names: Names,
        out: Box<dyn Write>,
    ) -> Handle {
        let teller = Rc::new(RefCell::new(Teller::new(state.arch, settings, names, out)));
        state.listen(Box::new(Handle(teller.clone())));
        Handle(teller)
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// The first error of a write; nothing was written after it.
    pub fn finish(&self) -> io::Result<()> {
        self.0.borrow_mut().finish()
    }

    /// Events so far, which is the number of the last one.
    pub fn events(&self) -> u64 {
        self.0.borrow().events()
    }
}
