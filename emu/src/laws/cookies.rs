//! Names of stacks: cookies and timestamps.

use std::collections::BTreeMap;

use crate::kernel::Point;
use crate::laws::hazard::Hazard;
use crate::laws::law::{CLOCK_G, COUNTED_G, Law, MASK_X};
use crate::laws::moment::Moment;
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;
use crate::perf::record::Time;

/// See its words.
pub const DISTINCT: Law = Law {
    number: 12,
    words: "cookies of two entries differ (for 2^31 cookies of one CPU)",
    levels: MASK_X,
};

/// [`DISTINCT`]: a cookie is that of the task's present entry, or newer than all of its CPU.
#[derive(Debug, Default)]
pub struct Distinct {
    /// Of each task, its last cookie and the entry of that.
    tasks: ByTask<Option<(u64, u64)>>,
    /// The last count of each CPU half.
    counts: BTreeMap<u32, u32>,
}

impl Monitor for Distinct {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some((_, answer)) = m.granted() else { return };
        let (cookie, entry) = (answer.cookie, m.story.entry);
        let last = self.tasks.of(m).replace((cookie, entry));
        if last == Some((cookie, entry)) {
            return;
        }
        let (cpu, count) = (cookie as u32, (cookie >> 32) as u32);
        let newest = self.counts.insert(cpu, count);
        let newer = newest.is_none_or(|n| count.wrapping_sub(n).cast_signed() > 0);
        if !newer || last.is_some_and(|l| l.0 == cookie) {
            // H1: a second NMI in the same tail gets a new name, which nothing resets.
            let kinds = [Hazard::H1, Hazard::H4, Hazard::H18, Hazard::H5, Hazard::H6];
            let hazard = m.story.about(&kinds, cookie);
            let seen = format!("{cookie:#x} is answered again in a later entry");
            found.push(Broken::or(hazard, seen));
        }
    }
}

/// See its words.
pub const FORM: Law = Law {
    number: 13,
    words: "a cookie that is answered is ≠ 0; its low half is in 1..=CPUs; its high half is odd",
    levels: COUNTED_G,
};

/// [`FORM`]
#[derive(Debug, Default)]
pub struct Form;

impl Monitor for Form {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some((_, answer)) = m.granted() else { return };
        let (cpu, count) = (answer.cookie as u32, (answer.cookie >> 32) as u32);
        if !(1..=m.machine.cpus).contains(&cpu) || count.is_multiple_of(2) {
            found.push(Broken::new(format!("cookie {:#x}", answer.cookie)));
        }
    }
}

/// See its words.
pub const COUNTER: Law = Law {
    number: 14,
    words: "a CPU's counter: 0, then 3, then + 2 for each new cookie (mod 2^32), and odd",
    levels: COUNTED_G,
};

/// [`COUNTER`]
#[derive(Debug, Default)]
pub struct Counter;

impl Monitor for Counter {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let (before, now) = (m.cpu.counter, m.now.cpu.counter);
        if before != now && now != before.wrapping_add(2) | 1 {
            found.push(Broken::new(format!("{before} becomes {now}")));
        }
    }
}

/// See its words.
pub const TICK: Law = Law {
    number: 23,
    words: "two entries of a task within one tick of the clock have equal timestamps",
    levels: CLOCK_G,
};

/// [`TICK`]
#[derive(Debug, Default)]
pub struct Tick(ByTask<Option<(Time, u64)>>);

impl Monitor for Tick {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        // The first request of an entry looks at the clock.
        if !m.is(Point::TimestampRequest5) || m.task.id != 0 {
            return;
        }
        let tick = m.machine.clock.tick(m.now.cpu.id, m.now.began);
        let stamp = m.now.task.id;
        let last = self.0.of(m).replace((tick, stamp));
        if last.is_some_and(|(t, s)| t == tick && s != stamp) {
            found.push(Broken::new(format!("{stamp:#x} in tick {tick}, {last:x?} before")));
        }
    }
}
