//! Someone who is told of every step, and writes the run's story.
//!
//! As for [`crate::kernel::observer`]: whether somebody listens changes nothing, and without
//! a listener a step pays for one test.

use crate::kernel::unwind::{Requested, WorkId};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

/// See the module. `state` is what the machine is after what is told, times are nanoseconds
/// since boot, and its clock is the time of the end.
pub trait Timeline: std::fmt::Debug {
    /// The step at `point`, begun at `began`, is over. Interrupts that are due come next.
    fn step(&mut self, state: &State, point: Point, began: Time);

    /// User code ran since `began`, `retired` instructions of it.
    fn user(&mut self, state: &State, began: Time, retired: u64);

    /// A request on behalf of `work`, whose steps have been told, has its answer.
    fn answered(&mut self, state: &State, work: WorkId, answer: Requested);
}

/// Two listeners as one.
#[derive(Debug)]
struct Both(Box<dyn Timeline>, Box<dyn Timeline>);

impl Timeline for Both {
    fn step(&mut self, state: &State, point: Point, began: Time) {
        self.0.step(state, point, began);
        self.1.step(state, point, began);
    }

    fn user(&mut self, state: &State, began: Time, retired: u64) {
        self.0.user(state, began, retired);
        self.1.user(state, began, retired);
    }

    fn answered(&mut self, state: &State, work: WorkId, answer: Requested) {
        self.0.answered(state, work, answer);
        self.1.answered(state, work, answer);
    }
}

impl State {
    /// `listener` is told from now on, after those that already are.
    pub fn listen(&mut self, listener: Box<dyn Timeline>) {
        self.timeline = Some(match self.timeline.take() {
            Some(first) => Box::new(Both(first, listener)),
            None => listener,
        });
    }

    /// Tells of a step; out of line, since every step is a place that calls it.
    #[cold]
    pub fn tell_step(&mut self, point: Point, began: Time) {
        self.tell(|timeline, s| timeline.step(s, point, began));
    }

    /// Tells the timeline, if there is one.
    pub fn tell(&mut self, tell: impl FnOnce(&mut dyn Timeline, &State)) {
        if let Some(mut timeline) = self.timeline.take() {
            tell(timeline.as_mut(), self);
            self.timeline = Some(timeline);
        }
    }
}

impl Kernel {
    /// The request for `work` got this answer.
    pub fn answered(&self, work: WorkId, answer: Requested) {
        self.with(|s| s.tell(|timeline, s| timeline.answered(s, work, answer)));
    }
}
