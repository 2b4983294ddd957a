//! What a monitor is.

use std::collections::BTreeMap;
use std::fmt;

use crate::kernel::Point;
use crate::laws::moment::Moment;
use crate::laws::report::Broken;

/// Watches one law. It is told of every moment, in order.
pub trait Monitor: fmt::Debug {
    /// Takes a moment; each break that it sees goes to `found`.
    fn see(&mut self, moment: &Moment<'_>, found: &mut Vec<Broken>);
}

/// What a monitor keeps for each task, by [`Moment::key`].
#[derive(Debug)]
pub struct ByTask<T>(BTreeMap<u64, T>);

impl<T> Default for ByTask<T> {
    fn default() -> ByTask<T> {
        ByTask(BTreeMap::new())
    }
}

impl<T: Default> ByTask<T> {
    /// Of the task of `moment`; nothing is kept of one that dies, whose id may be used again.
    pub fn of(&mut self, moment: &Moment<'_>) -> &mut T {
        let kept = self.0.entry(moment.key()).or_default();
        if moment.is(Point::ExitDead) {
            *kept = T::default();
        }
        kept
    }
}
