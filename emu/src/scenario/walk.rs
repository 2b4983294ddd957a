//! One way through all orders of a scenario, and how it goes on to the next.
//!
//! ```text
//! run 1   ●───●───●───●───● end          ● a node: other choices were possible here
//! run 2   ●───●───●───◆ …                ◆ the last node with a choice that is not tried yet
//! ```
//!
//! Paths can be neither copied nor put back, so that each run begins anew and follows the choices
//! of the one before it up to its last open node (search by re-execution). A state that was met
//! before with as much of the bounds left ends the run: what comes of it is known.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rustc_hash::{FxHashSet, FxHasher};

use crate::kernel::schedule::{Next, Schedule};
use crate::kernel::{Point, State};
use crate::scenario::digest;
use crate::scenario::inject::{self, Action, Injection, Who};
use crate::scenario::judge::Judge;
use crate::scenario::place::{Place, Visits};
use crate::scenario::touch::{self, Touch};
use crate::scenario::turn::{self, Turn};

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Times that another CPU goes on although the present one could.
    pub preemptions: u32,
    /// Interrupts of the PMU.
    pub interrupts: u32,
    /// Steps of a run.
    pub steps: u32,
}

/// A step before which something can be chosen: to take it, or one of these.
#[derive(Clone, Debug)]
struct Node {
    actions: Vec<Action>,
    /// The actions that have been tried, after the step itself: the last of them is taken now.
    tried: usize,
}

impl Node {
    /// What is chosen; `None`: the step is taken.
    fn chosen(&self) -> Option<Action> {
        self.tried.checked_sub(1).map(|at| self.actions[at])
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stopped {
    /// It goes on, or came to its own end.
    #[default]
    Not,
    /// In a state that was met before.
    Known,
    /// At the bound on steps.
    Steps,
    /// Because somebody said so.
    Told,
}

/// See the module.
#[derive(Debug)]
pub struct Walk {
    bounds: Bounds,
    who: Vec<Who>,
    trail: Vec<Node>,
    visited: FxHashSet<u64>,
    /// Steps of all runs.
    pub steps: u64,
    run: Run,
}

/// Of the present run.
#[derive(Debug, Default)]
struct Run {
    depth: usize,
    turn: Turn,
    /// The CPU whose turn it is has been given it and not taken a step yet.
    fresh: bool,
    preemptions: u32,
    interrupts: u32,
    steps: u32,
    stopped: Stopped,
    taken: Vec<Injection>,
    /// By task: what each of its contexts has learned since it began, user code first, which has
    /// gone from address to address, then the kernel, then what interrupts that.
    histories: Vec<Vec<u64>>,
    judge: Option<Judge>,
    visits: Visits,
}

impl Run {
    /// The innermost context of the present task goes on by this.
    fn goes_on(&mut self, state: &State, by: impl Hash) {
        let history = self.history(state);
        let mut hasher = FxHasher::default();
        (history.pop(), by).hash(&mut hasher);
        history.push(hasher.finish());
    }

    fn history(&mut self, state: &State) -> &mut Vec<u64> {
        let id = state.task.id.0 as usize;
        if self.histories.len() <= id {
            self.histories.resize(id + 1, vec![0]);
        }
        &mut self.histories[id]
    }

    /// A step was taken: what a context knows begins and ends with it, and what it has interrupted
    /// knows nothing of it.
    fn step(&mut self, state: &State, point: Point, learned: u64) {
        match point {
            Point::IrqReturn => drop(self.history(state).pop()),
            Point::Leave => self.history(state).truncate(1),
            _ => {
                if matches!(point, Point::EntryRaw | Point::IrqDeliver) {
                    self.history(state).push(0);
                }
                self.goes_on(state, (point, learned));
            }
        }
    }
}

impl Walk {
    /// The first of all ways within the bounds; `who`: on behalf of whom the PMU may interrupt.
    pub fn new(bounds: Bounds, who: Vec<Who>) -> Walk {
        let (trail, visited) = (Vec::new(), FxHashSet::default());
        Walk { bounds, who, trail, visited, steps: 0, run: Run::default() }
    }

    /// Different states at which there was something to choose.
    pub fn states(&self) -> usize {
        self.visited.len()
    }

    /// Bytes of the set of them: of seven eighths of its places a hash and a byte each.
    pub fn bytes(&self) -> usize {
        self.visited.capacity() / 7 * 8 * (size_of::<u64>() + 1)
    }

    /// What was injected in the present run so far.
    pub fn taken(&self) -> &[Injection] {
        &self.run.taken
    }

    /// Why it stopped.
    pub const fn stopped(&self) -> Stopped {
        self.run.stopped
    }

    /// The next run is watched by this one.
    pub fn watch(&mut self, judge: &Judge) {
        self.run.judge = Some(judge.clone());
    }

    /// The present run ends.
    pub const fn stop(&mut self) {
        self.run.stopped = Stopped::Told;
    }

    /// Goes on to the next way; `false`: there is none.
    pub fn advance(&mut self) -> bool {
        self.steps += u64::from(self.run.steps);
        let mut visits = std::mem::take(&mut self.run.visits);
        visits.clear();
        self.run = Run { visits, ..Run::default() };
        while let Some(node) = self.trail.last_mut() {
            if node.tried < node.actions.len() {
                node.tried += 1;
                return true;
            }
            self.trail.pop();
        }
        false
    }

    /// How much of the search is done, from 0 to 1, if all branches are alike.
    pub fn done(&self) -> f64 {
        let (mut share, mut done) = (1.0, 0.0);
        for node in &self.trail {
            share /= (node.actions.len() + 1) as f64;
            done += share * node.tried as f64;
        }
        done
    }

    fn hash(&self, state: &State, place: Place) -> u64 {
        let run = &self.run;
        let mut hasher = FxHasher::default();
        digest::machine(state).hash(&mut hasher);
        (run.turn, run.fresh, run.preemptions, run.interrupts).hash(&mut hasher);
        (state.cpu.id, place).hash(&mut hasher);
        run.histories.hash(&mut hasher);
        if let Some(judge) = &run.judge {
            judge.hash_history(&mut hasher);
        }
        hasher.finish()
    }

    /// What can happen before the present step.
    fn actions(&self, state: &State, touch: Touch) -> Vec<Action> {
        let mut actions = Vec::new();
        if touch == Touch::Nothing {
            return actions;
        }
        if self.run.interrupts < self.bounds.interrupts {
            let who = self.who.iter().filter(|&&who| inject::may_interrupt(state, who));
            actions.extend(who.map(|&who| Action::Interrupt(who)));
        }
        let switches = touch == Touch::Shared && !self.run.fresh;
        if switches && self.run.preemptions < self.bounds.preemptions {
            actions.extend(turn::others(state).map(Action::Switch));
        }
        actions
    }

    /// Whether the run has left the way of the one before it and is in a state that was met before;
    /// then it ends.
    fn is_known(&mut self, state: &State, place: Place) -> bool {
        if self.run.depth < self.trail.len() || self.visited.insert(self.hash(state, place)) {
            return false;
        }
        self.run.stopped = Stopped::Known;
        true
    }

    fn decide(&mut self, state: &mut State, place: Place, touch: Touch) -> Next {
        if self.run.stopped != Stopped::Not || state.ending.is_some() {
            return Next::GiveWay;
        }
        let Some(at) = self.run.visits.come(state, place) else { return Next::Go };
        let actions = self.actions(state, touch);
        if (touch == Touch::Shared || !actions.is_empty()) && self.is_known(state, place) {
            return Next::GiveWay;
        }
        let Some(action) = self.choose(actions) else {
            self.run.visits.go(state);
            return Next::Go;
        };
        self.run.taken.push(Injection { at, action });
        match action {
            Action::Switch(_) => {
                (self.run.preemptions, self.run.fresh) = (self.run.preemptions + 1, true)
            }
            _ => self.run.interrupts += 1,
        }
        action.happen(state, &mut self.run.turn)
    }

    /// What is chosen of these; `None`: the step is taken.
    fn choose(&mut self, actions: Vec<Action>) -> Option<Action> {
        if actions.is_empty() {
            return None;
        }
        if self.run.depth == self.trail.len() {
            self.trail.push(Node { actions, tried: 0 });
        }
        self.run.depth += 1;
        self.trail[self.run.depth - 1].chosen()
    }
}

/// A walk that a machine and a search share.
#[derive(Clone, Debug)]
pub struct Shared(pub Rc<RefCell<Walk>>);

impl Schedule for Shared {
    fn before(&mut self, state: &mut State, point: Point) -> Next {
        self.0.borrow_mut().decide(state, Place::Step(point), touch::of(point))
    }

    fn before_user(&mut self, state: &mut State) -> Next {
        let walk = &mut *self.0.borrow_mut();
        let next = walk.decide(state, Place::User, Touch::Own);
        if next == Next::Go {
            walk.run.fresh = false;
            walk.run.goes_on(state, state.hw_regs().pc);
        }
        next
    }

    fn after(&mut self, state: &State, point: Point, learned: u64) {
        let walk = &mut *self.0.borrow_mut();
        let run = &mut walk.run;
        (run.steps, run.fresh) = (run.steps + 1, false);
        if run.steps >= walk.bounds.steps && run.stopped == Stopped::Not {
            run.stopped = Stopped::Steps;
        }
        run.step(state, point, learned);
    }

    fn elect(&mut self, state: &State) -> Option<u32> {
        let walk = &mut *self.0.borrow_mut();
        if walk.run.stopped != Stopped::Not || state.ending.is_some() {
            return None;
        }
        let cpu = walk.run.turn.next(state)?;
        if walk.run.turn != Turn(cpu) {
            (walk.run.turn, walk.run.fresh) = (Turn(cpu), true);
        }
        Some(cpu)
    }
}
