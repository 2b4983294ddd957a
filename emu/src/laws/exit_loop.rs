//! The order of a pass of the exit loop.

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::Moment;
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;

/// See its words.
pub const ORDER: Law = Law {
    number: 3,
    words: "in a pass: rescheduling < uprobe < livepatch < signal code < resume work < \
            architecture; task work that is queued runs before a signal is taken",
    levels: ALL_G,
};

/// [`ORDER`]
#[derive(Debug, Default)]
pub struct Order(ByTask<Pass>);

#[derive(Debug, Default)]
struct Pass {
    /// How far it has come.
    rank: u8,
    /// Task work waits, and the signal code has begun.
    owed: bool,
}

const fn rank(point: Point) -> Option<u8> {
    Some(match point {
        Point::ExitResched => 1,
        Point::ExitUprobe => 2,
        Point::ExitPatch => 3,
        Point::ExitSignalWork => 4,
        Point::ExitSignal => 5,
        Point::ExitResume => 6,
        Point::ExitArch => 7,
        _ => return None,
    })
}

impl Monitor for Order {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(point) = m.point() else { return };
        if !m.is_outermost() {
            return;
        }
        let pass = self.0.of(m);
        match point {
            Point::ExitX2 => *pass = Pass::default(),
            Point::TaskWorkTake => pass.owed = false,
            Point::ExitSignalWork => pass.owed = m.task.works.is_pending(),
            Point::ExitSignal if pass.owed => {
                found.push(Broken::new("a signal is taken while task work waits"));
                pass.owed = false;
            }
            _ => {}
        }
        if let Some(rank) = rank(point) {
            // The signal code takes a signal, then builds its frame.
            if rank < pass.rank || rank == pass.rank && point != Point::ExitSignal {
                found.push(Broken::new(format!("{} comes too late in the pass", point.name())));
            }
            pass.rank = rank;
        }
    }
}
