//! Contexts: levels, counts, and what is on or off at the return to user mode.

use crate::kernel::Point;
use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::{Moment, What, bits};
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;

/// See its words.
pub const LEVELS: Law = Law {
    number: 1,
    words: "level ≤ 3; level in an interrupt ≥ level of what it interrupts; the preempt count is \
            as before when it returns, and 0 in user mode",
    levels: ALL_G,
};

/// The level of a preempt count.
const fn level(count: u32) -> u8 {
    let (nmi, hardirq) = (count >> 28 != 0, count >> 24 & 15 != 0);
    nmi as u8 + (nmi || hardirq) as u8 + (nmi || hardirq || count >> 8 & 1 != 0) as u8
}

/// [`LEVELS`]
#[derive(Debug, Default)]
pub struct Levels;

impl Monitor for Levels {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let (now, nest) = (&m.now.cpu, &m.story.nest);
        let counts = || format!("count {:#x}, interrupted {:#x?}", now.preempt_count, nest);
        if now.level > 3 || nest.last().is_some_and(|outer| now.level < level(*outer)) {
            found.push(Broken::new(format!("level {}; {}", now.level, counts())));
        }
        if m.is(Point::IrqReturn) && nest.last() != Some(&now.preempt_count) {
            found.push(Broken::new(format!("an interrupt returns with {}", counts())));
        }
        let in_user = matches!(m.now.what, What::User(_)) || m.is(Point::Leave);
        if in_user && (now.preempt_count != 0 || !nest.is_empty() || now.in_kernel) {
            found.push(Broken::new(format!("user mode with {}", counts())));
        }
    }
}

/// See its words.
pub const QUIET_EXIT: Law = Law {
    number: 2,
    words: "at X5 interrupts are off and no work bit is set, except by an NMI, by another CPU, or by code of the \
            exit's tail after the last read",
    levels: ALL_G,
};

/// [`QUIET_EXIT`]
#[derive(Debug, Default)]
pub struct QuietExit;

/// The steps of X5.
const X5: [Point; 6] =
    [Point::ExitX5, Point::ResetR2, Point::ResetR3, Point::ResetR4, Point::ResetR5, Point::ResetR6];

impl Monitor for QuietExit {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        if !m.is_outermost() || !m.point().is_some_and(|p| X5.contains(&p)) {
            return;
        }
        if m.now.cpu.irqs_on {
            found.push(Broken::new("interrupts are on"));
        }
        if !m.now.task.ended && bits(m.now.task.work) & !m.story.late != 0 {
            found.push(Broken::new(format!("work bits: {:?}", m.now.task.work)));
        }
    }
}
