//! Records of deferred stacks, and the samples that wait for them.

use crate::kernel::Point;
use crate::laws::hazard::Hazard;
use crate::laws::law::{ALL_G, ALL_X, Law};
use crate::laws::moment::Moment;
use crate::laws::monitor::{ByTask, Monitor};
use crate::laws::report::Broken;
use crate::perf::merge::cookie;
use crate::perf::record::{Record, Time};

/// See its words.
pub const CONTENT: Law = Law {
    number: 35,
    words: "a record's addresses are those of the cache, at most 512, and no marker is put among \
            them (size = 24 + 8 × addresses + trailer: in the file)",
    levels: ALL_G,
};

/// [`CONTENT`]
#[derive(Debug, Default)]
pub struct Content;

impl Monitor for Content {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        for record in m.now.records {
            let Record::CallchainDeferred { ips, .. } = record else { continue };
            // Without a stack the record is empty.
            if ips.len() > 512 || !ips.is_empty() && ips != m.now.cache {
                found.push(Broken::new(format!("{ips:x?}, cached {:x?}", m.now.cache)));
            }
        }
    }
}

/// A cookie of the present entry.
#[derive(Clone, Copy, Debug, Default)]
struct Stack {
    cookie: u64,
    /// Event and time of the last sample that waits for it.
    sample: Option<(u64, Time)>,
    /// Event and time of its last record.
    record: Option<(u64, Time)>,
    records: usize,
    told: bool,
}

/// The cookies of a task, from its last way back to user mode with nothing pending on.
#[derive(Debug, Default)]
struct Stacks {
    open: Vec<Stack>,
    /// The one before these, of which there was a record.
    last: Option<u64>,
}

/// Cookies kept; a task has a few at a time.
const KEPT: usize = 1024;

impl Stacks {
    fn of(&mut self, cookie: u64) -> Option<&mut Stack> {
        let at = self.open.iter().position(|s| s.cookie == cookie).unwrap_or(self.open.len());
        if at == self.open.len() && at < KEPT {
            self.open.push(Stack { cookie, ..Stack::default() });
        }
        self.open.get_mut(at)
    }

    /// Takes the records of a moment.
    fn take(&mut self, m: &Moment<'_>) {
        let event = m.now.event;
        for record in m.now.records {
            match record {
                Record::Sample(sample) => {
                    let Some(cookie) = cookie(&sample.callchain) else { continue };
                    if m.now.events.get(sample.event).is_none_or(|e| !e.defer) {
                        continue;
                    }
                    if let Some(stack) = self.of(cookie) {
                        stack.sample = Some((event, sample.time));
                    }
                }
                Record::CallchainDeferred { cookie, time, .. } => {
                    if let Some(stack) = self.of(*cookie) {
                        stack.record = Some((event, *time));
                        stack.records += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Those of the task with the records of a moment, if that matters; and whether nothing that
    /// was asked for is still to come.
    fn see<'a>(tasks: &'a mut ByTask<Stacks>, m: &Moment<'_>) -> Option<(&'a mut Stacks, bool)> {
        let over = Stacks::is_over(m);
        if m.now.records.is_empty() && !over {
            return None;
        }
        let stacks = tasks.of(m);
        stacks.take(m);
        Some((stacks, over))
    }

    /// Whether nothing that was asked for is still to come.
    fn is_over(m: &Moment<'_>) -> bool {
        (m.is(Point::Leave) || m.is(Point::ExitMm)) && !m.now.task.waits()
    }

    /// The entry is over.
    fn close(&mut self) {
        let with_record = |s: &Stack| (s.records > 0).then_some(s.cookie);
        self.last = self.open.iter().rev().find_map(with_record).or(self.last);
        self.open.clear();
    }
}

/// See its words.
pub const ONE_RECORD: Law =
    Law { number: 36, words: "every USER_DEFERRED cookie has exactly one record", levels: ALL_X };

/// [`ONE_RECORD`]
#[derive(Debug, Default)]
pub struct OneRecord(ByTask<Stacks>);

impl Monitor for OneRecord {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some((stacks, true)) = Stacks::see(&mut self.0, m) else { return };
        for stack in &stacks.open {
            let Some((event, _)) = stack.sample else { continue };
            let before = usize::from(stacks.last == Some(stack.cookie));
            let records = stack.records + before;
            if records == 1 {
                continue;
            }
            let kinds: &[Hazard] = match records {
                0 => {
                    &[Hazard::H1, Hazard::TornDown, Hazard::Shared, Hazard::Elsewhere, Hazard::Lost]
                }
                _ => &[Hazard::Again, Hazard::CoarseClock],
            };
            let (cookie, has) = (stack.cookie, format!("{records} records"));
            let seen = format!("cookie {cookie:#x} of the sample of event {event} has {has}");
            found.push(Broken::or(m.story.about(kinds, cookie), seen));
        }
        stacks.close();
    }
}

/// See its words.
pub const RECORD_LATER: Law = Law {
    number: 37,
    words: "for each (tid, cookie): time of the record ≥ time of the sample",
    levels: ALL_X,
};

/// [`RECORD_LATER`]
#[derive(Debug, Default)]
pub struct RecordLater(ByTask<Stacks>);

impl Monitor for RecordLater {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        let Some((stacks, over)) = Stacks::see(&mut self.0, m) else { return };
        // While a stack is to come it may be that of a sample which has one already.
        let settled = over || !m.now.task.waits();
        for stack in stacks.open.iter_mut().filter(|_| settled) {
            let (Some(sample), Some(record)) = (stack.sample, stack.record) else { continue };
            if sample.1 <= record.1 {
                stack.told = false;
            } else if !stack.told {
                stack.told = true;
                // Of designs that call again: the second record is one that never came.
                let kinds = [Hazard::H1, Hazard::H2, Hazard::H3, Hazard::TornDown];
                let (cookie, (sample, _), (record, _)) = (stack.cookie, sample, record);
                let seen = format!(
                    "the sample of event {sample} has cookie {cookie:#x}, whose record was \
                     written at event {record}"
                );
                found.push(Broken::or(m.story.about(&kinds, cookie), seen));
            }
        }
        if over {
            stacks.close();
        }
    }
}
