//! The order in which a task ends.

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::Moment;
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;

/// See its words.
pub const ORDER: Law = Law {
    number: 46,
    words: "EXITING < perf teardown < flush of the deferred unwinder < mm released",
    levels: ALL_G,
};

/// [`ORDER`]
#[derive(Debug, Default)]
pub struct Order;

impl Monitor for Order {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some(point) = m.point() else { return };
        let (task, closed) = (&m.now.task, m.now.closed);
        let holds = match point {
            Point::ExitPerf => task.exiting && task.has_mm && closed,
            Point::ExitUnwind | Point::UnwindFlush | Point::UnwindFlushCancel => {
                task.exiting && closed && task.has_mm
            }
            Point::ExitMm => task.exiting && closed && !task.has_mm,
            // Nothing else takes them away.
            _ => m.task.has_mm == task.has_mm || task.exiting,
        };
        if !holds {
            let (exiting, has_mm) = (task.exiting, task.has_mm);
            let seen = format!("EXITING {exiting}, events gone {closed}, mm {has_mm}");
            found.push(Broken::new(seen));
        }
    }
}
