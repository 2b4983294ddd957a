//! When a stack is captured, and with which registers.

use crate::kernel::Point;
use crate::kernel::unwind::WorkId;
use crate::laws::hazard::Hazard;
use crate::laws::law::{ALL_G, ALL_X, Law};
use crate::laws::moment::{Moment, UserRegs, What};
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;

/// See its words.
pub const ONCE: Law = Law {
    number: 6,
    words: "a stack is walked in task context, with an mm, and never while the cache has one",
    levels: ALL_G,
};

/// [`ONCE`]
#[derive(Debug, Default)]
pub struct Once;

impl Monitor for Once {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if !m.is(Point::CaptureC5) {
            return;
        }
        let (level, has_mm, cached) = (m.now.cpu.level, m.task.has_mm, m.task.cached());
        if level != 0 || !m.is_outermost() || !has_mm || cached != 0 {
            let seen = format!("a walk at level {level}, mm: {has_mm}, {cached} in the cache");
            found.push(Broken::new(seen));
        }
    }
}

/// See its words.
pub const SAME_REGISTERS: Law = Law {
    number: 20,
    words: "registers of the capture = registers at the sample (no user instruction runs between \
            them: the self-interrupt comes first)",
    levels: ALL_X,
};

/// [`SAME_REGISTERS`]
#[derive(Debug, Default)]
pub struct SameRegisters(ByTask<Walked>);

#[derive(Debug, Default)]
struct Walked {
    /// What asked since the last capture: event, tracer, registers.
    open: Vec<(u64, WorkId, UserRegs)>,
    /// Those of the stack in the cache.
    captured: Option<UserRegs>,
}

/// Requests kept between two captures.
const KEPT: usize = 4096;

impl Monitor for SameRegisters {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let walked = self.0.of(m);
        match m.now.what {
            What::User(retired) if retired > 0 => {
                if m.cpu.irq_work {
                    found.push(Broken::new("user code ran before the self-interrupt"));
                }
                // Whatever is captured now has other registers, and may.
                walked.open.clear();
            }
            What::Answer(work, answer) if answer.ret >= 0 => {
                let Some(user) = m.now.user else { return };
                let served = m.story.calls_of(work) > 0 && answer.ret > 0;
                match walked.captured.filter(|_| served) {
                    Some(captured) => differ(m, m.now.event, user, captured, found),
                    None if walked.open.len() < KEPT => {
                        walked.open.push((m.now.event, work, user));
                    }
                    None => {}
                }
            }
            What::Step(Point::CaptureC5) => walked.captured = m.now.user,
            What::Step(Point::CaptureC4) if m.task.cached() == 0 => return,
            What::Step(Point::CaptureC4) => {}
            _ if m.now.task.cached() == 0 && m.task.cached() != 0 => walked.captured = None,
            _ => return,
        }
        let captures = [Point::CaptureC4, Point::CaptureC5];
        if let (Some(captured), true) =
            (walked.captured, m.point().is_some_and(|p| captures.contains(&p)))
        {
            for (event, _, user) in walked.open.drain(..) {
                differ(m, event, user, captured, found);
            }
        }
    }
}

fn differ(
    m: &Moment<'_>,
    event: u64,
    sample: UserRegs,
    capture: UserRegs,
    found: &mut Vec<Broken>,
) {
    if sample != capture {
        let seen = format!("at event {event} {sample:x?}, captured {capture:x?}");
        found.push(Broken::or(m.story.recent(&[Hazard::H11]), seen));
    }
}
