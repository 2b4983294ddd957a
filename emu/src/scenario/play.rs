//! A run in which what a scenario says happens where it says so, and nothing else.
//!
//! Between its injections the CPU whose turn it is goes on ([`Turn`]). A schedule that a search has
//! found is the same thing.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kernel::run::Paths;
use crate::kernel::schedule::{Next, Schedule};
use crate::kernel::{Point, State};
use crate::scenario::digest;
use crate::scenario::inject::Injection;
use crate::scenario::judge::{Finding, Judge};
use crate::scenario::machine::{SetupError, Workshop};
use crate::scenario::place::{Place, Visits};
use crate::scenario::turn::Turn;

/// Most steps of a run.
pub const MOST_STEPS: u64 = 1_000_000;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// What was found, in the order in which it was.
    pub findings: Vec<Finding>,
    /// Callbacks to each tracer.
    pub calls: Vec<u64>,
    /// Injections whose place was never reached, by their places in the scenario.
    pub missed: Vec<usize>,
    /// Tasks waited for ever.
    pub stuck: bool,
    /// Steps taken.
    pub steps: u64,
    /// A hash of the state at the end.
    pub hash: u64,
}

impl Played {
    /// The hash as files have it.
    pub fn state(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

#[derive(Debug)]
struct Playing {
    injections: Vec<(Injection, bool)>,
    visits: Visits,
    turn: Turn,
    steps: u64,
}

#[derive(Clone, Debug)]
struct Play(Rc<RefCell<Playing>>);

impl Playing {
    /// What is to happen before the present step, one thing at a time.
    fn come(&mut self, state: &mut State, place: Place) -> Next {
        if state.ending.is_some() || self.steps >= MOST_STEPS {
            return Next::GiveWay;
        }
        let Some(at) = self.visits.come(state, place) else { return Next::Go };
        let due = self.injections.iter_mut().find(|(injection, done)| !done && injection.at == at);
        let Some((injection, done)) = due else {
            self.visits.go(state);
            return Next::Go;
        };
        *done = true;
        injection.action.happen(state, &mut self.turn)
    }
}

impl Schedule for Play {
    fn before(&mut self, state: &mut State, point: Point) -> Next {
        self.0.borrow_mut().come(state, Place::Step(point))
    }

    fn before_user(&mut self, state: &mut State) -> Next {
        self.0.borrow_mut().come(state, Place::User)
    }

    fn after(&mut self, _state: &State, _point: Point, _learned: u64) {
        self.0.borrow_mut().steps += 1;
    }

    fn elect(&mut self, state: &State) -> Option<u32> {
        let playing = &mut *self.0.borrow_mut();
        if state.ending.is_some() || playing.steps >= MOST_STEPS {
            return None;
        }
        let cpu = playing.turn.next(state)?;
        playing.turn = Turn(cpu);
        Some(cpu)
    }
}

/// Plays a scenario once. `listen` is given the machine before the run: timelines begin there.
///
/// # Errors
///
/// [`SetupError`]
pub fn play(
    workshop: &mut Workshop,
    injections: &[Injection],
    listen: impl FnOnce(&mut State),
) -> Result<Played, SetupError> {
    let k = workshop.machine()?;
    k.with(listen);
    let judge = k.with(Judge::start);
    let injections = injections.iter().map(|injection| (*injection, false)).collect();
    let playing =
        Playing { injections, visits: Visits::default(), turn: Turn::default(), steps: 0 };
    let play = Play(Rc::new(RefCell::new(playing)));
    k.with(|s| s.set_schedule(Box::new(play.clone())));
    let mut paths = Paths::new(&k);
    while paths.go_on(&k) {}
    drop(paths);
    let played = {
        let playing = play.0.borrow();
        let left = playing.injections.iter().enumerate().filter(|(_, (_, done))| !done);
        Played {
            findings: judge.findings(),
            calls: k.with(|s| s.tracers.iter().map(|t| t.tally.called).collect()),
            missed: left.map(|(at, _)| at).collect(),
            stuck: k.with(|s| s.ending.is_none()),
            steps: playing.steps,
            hash: k.constant(digest::machine),
        }
    };
    k.with(State::take_schedule);
    workshop.take_back(k);
    Ok(played)
}

/// Leaves out injections one by one as long as the rest still leads to `finding`.
///
/// # Errors
///
/// [`SetupError`]
pub fn shrink(
    workshop: &mut Workshop,
    injections: &[Injection],
    finding: Finding,
) -> Result<Vec<Injection>, SetupError> {
    let mut kept = injections.to_vec();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        if play(workshop, &fewer, |_| ())?.findings.contains(&finding) {
            kept = fewer;
        } else {
            at += 1;
        }
    }
    Ok(kept)
}
