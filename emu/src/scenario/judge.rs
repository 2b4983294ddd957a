//! The laws over one run of a scenario.

use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rustc_hash::FxHasher;

use crate::kernel::timeline::Timeline;
use crate::kernel::unwind::{Requested, WorkId};
use crate::kernel::{Point, State};
use crate::laws::Laws;
use crate::laws::hazard::Hazard;
use crate::laws::moment::{Machine, Now, What};
use crate::laws::report::Break;
use crate::laws::view::Seen;
use crate::perf::record::{Record, Time, context};

/// What a run is found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Finding {
    /// This law was broken; a break that no hazard explains is a fault of the model.
    Broken(u8, Option<Hazard>),
    /// This hazard happened, whether it broke a law or not.
    Happened(Hazard),
}

impl Finding {
    fn of(found: &Break) -> Finding {
        Finding::Broken(found.law.number, found.hazard())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Broken(law, Some(hazard)) => write!(f, "LAW-{law} by {}", hazard.name()),
            Finding::Broken(law, None) => write!(f, "LAW-{law}"),
            Finding::Happened(hazard) => write!(f, "{}", hazard.name()),
        }
    }
}

/// Watches a run.
#[derive(Clone, Debug)]
pub struct Judge(Rc<RefCell<Judging>>);

#[derive(Debug)]
struct Judging {
    laws: Laws,
    seen: Seen,
    events: u64,
    findings: Vec<Finding>,
    fatal: bool,
    /// By task: what laws are about, in its order.
    history: Vec<u64>,
}

impl Judge {
    /// Begins to watch a machine that has not run yet.
    pub fn start(state: &mut State) -> Judge {
        let laws = Laws::new(Machine::of(state), |_| true);
        let seen = Seen::default();
        let judge = Judge(Rc::new(RefCell::new(Judging {
            laws,
            seen,
            events: 0,
            findings: Vec::new(),
            fatal: false,
            history: Vec::new(),
        })));
        state.listen(Box::new(judge.clone()));
        judge
    }

    /// Whether a law was broken that nothing may break.
    pub fn is_fatal(&self) -> bool {
        self.0.borrow().fatal
    }

    /// How many findings there are.
    pub fn found(&self) -> usize {
        self.0.borrow().findings.len()
    }

    /// The findings so far, each once, in the order in which they were made.
    pub fn findings(&self) -> Vec<Finding> {
        self.0.borrow().findings.clone()
    }

    /// Hashes what laws may remember of each task, in its order: answers to requests, callbacks,
    /// samples, records, hazards.
    pub fn hash_history(&self, hasher: &mut impl Hasher) {
        self.0.borrow().history.hash(hasher);
    }

    fn see(&self, state: &State, what: What, began: Time) {
        let judging = &mut *self.0.borrow_mut();
        judging.events += 1;
        let now = judging.seen.look(state, judging.events, what, began);
        if judging.fatal {
            return;
        }
        let told = judging.told(&now);
        let found = judging.laws.see(&now);
        let noted = judging.laws.noted();
        let happened = noted.iter().map(|&hazard| Finding::Happened(hazard));
        for finding in happened.chain(found.iter().map(Finding::of)) {
            if !judging.findings.contains(&finding) {
                judging.findings.push(finding);
            }
        }
        if told != 0 || !noted.is_empty() {
            let id = state.task.id.0 as usize;
            let len = judging.history.len().max(id + 1);
            judging.history.resize(len, 0);
            let mut hasher = FxHasher::default();
            (judging.history[id], told, noted).hash(&mut hasher);
            judging.history[id] = hasher.finish();
        }
        judging.fatal = found.iter().any(Break::is_fatal);
    }
}

/// A callchain from where the user's stack, or what stands for it, begins.
fn user_part(chain: &[u64]) -> &[u64] {
    let user = |ip: &u64| [context::USER, context::USER_DEFERRED].contains(ip);
    chain.iter().position(user).map_or(&[], |at| &chain[at..])
}

impl Judging {
    /// A hash of what a law may remember of this moment; 0: nothing.
    fn told(&self, now: &Now<'_>) -> u64 {
        let mut hasher = FxHasher::default();
        if let What::Answer(work, answer) = now.what {
            (work, answer).hash(&mut hasher);
        }
        for call in now.calls {
            (call.work, call.cookie, &call.trace).hash(&mut hasher);
        }
        for record in now.records() {
            match record {
                Record::Sample(sample) => user_part(&sample.callchain).hash(&mut hasher),
                Record::CallchainDeferred { cookie, ips, .. } => (cookie, ips).hash(&mut hasher),
                _ => {}
            }
        }
        hasher.finish()
    }
}

impl Timeline for Judge {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        // As for any watch: nothing that a law is about changes there.
        if !matches!(point, Point::Call | Point::Return) {
            self.see(state, What::Step(point), began);
        }
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        self.see(state, What::User(retired), began);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        self.see(state, What::Answer(work, answer), state.cpu.clock);
    }
}
