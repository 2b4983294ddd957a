//! Records of deferred stacks, and the samples that wait for them.

use std::collections::BTreeMap;

use crate::kernel::Point;
use crate::laws::hazard::Hazard;
use crate::laws::law::{ALL_G, ALL_X, Law};
use crate::laws::moment::{Moment, SessionView};
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
        for record in m.now.records() {
            let Record::CallchainDeferred { ips, .. } = record else { continue };
            // Without a stack the record is empty.
            if ips.len() > 512 || !ips.is_empty() && ips != m.now.cache {
                found.push(Broken::new(format!("{ips:x?}, cached {:x?}", m.now.cache)));
            }
        }
    }
}

/// A cookie of the present entry, in the profile of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Stack {
    session: usize,
    cookie: u64,
    /// Event and time of the last sample that waits for it.
    sample: Option<(u64, Time)>,
    /// Event and time of its last record.
    record: Option<(u64, Time)>,
    records: usize,
}

/// The cookies of a task, from its last way back to user mode with nothing pending on.
#[derive(Debug, Default)]
struct Stacks {
    open: Vec<Stack>,
    /// The one before these, of which there was a record; of each session.
    last: BTreeMap<usize, u64>,
    /// Sessions that were open when the entry began; `None`: it is the task's first.
    sessions: Option<Vec<bool>>,
}

/// Cookies kept; a task has a few at a time.
const KEPT: usize = 1024;

impl Stacks {
    fn of(&mut self, session: usize, cookie: u64) -> Option<&mut Stack> {
        let same = |s: &Stack| s.session == session && s.cookie == cookie;
        let at = self.open.iter().position(same).unwrap_or(self.open.len());
        if at == self.open.len() && at < KEPT {
            self.open.push(Stack { session, cookie, ..Stack::default() });
        }
        self.open.get_mut(at)
    }

    /// Takes the records of a moment.
    fn take(&mut self, m: &Moment<'_>) {
        for (id, session) in m.now.sessions.iter().enumerate() {
            self.take_of(m.now.event, id, session);
        }
    }

    fn take_of(&mut self, event: u64, id: usize, session: &SessionView<'_>) {
        for record in session.records {
            match record {
                Record::Sample(sample) => {
                    let Some(cookie) = cookie(&sample.callchain) else { continue };
                    if session.events.get(sample.event).is_none_or(|e| !e.defer) {
                        continue;
                    }
                    if let Some(stack) = self.of(id, cookie) {
                        stack.sample = Some((event, sample.time));
                    }
                }
                Record::CallchainDeferred { cookie, time, .. } => {
                    if let Some(stack) = self.of(id, *cookie) {
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
        if m.now.records().next().is_none() && !over {
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

    /// Whether a session was open during the whole entry, which is over: one that came in the
    /// middle may have samples of a stack whose record it has missed, one that went may miss it.
    fn was_open(&self, m: &Moment<'_>, session: usize) -> bool {
        let at_first = self.sessions.as_ref().is_none_or(|open| open.get(session) == Some(&true));
        at_first && m.now.sessions.get(session).is_some_and(|s| s.open)
    }

    /// The entry is over.
    fn close(&mut self, m: &Moment<'_>) {
        for stack in self.open.drain(..).filter(|s| s.records > 0) {
            self.last.insert(stack.session, stack.cookie);
        }
        let open = self.sessions.get_or_insert_default();
        open.clear();
        open.extend(m.now.sessions.iter().map(|s| s.open));
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
            let before = usize::from(stacks.last.get(&stack.session) == Some(&stack.cookie));
            let records = stack.records + before;
            if records == 1 || !stacks.was_open(m, stack.session) {
                continue;
            }
            let kinds: &[Hazard] = match records {
                0 => {
                    &[Hazard::H1, Hazard::TornDown, Hazard::Shared, Hazard::Elsewhere, Hazard::Lost]
                }
                _ => &[Hazard::Again, Hazard::CoarseClock, Hazard::H15],
            };
            let (cookie, has) = (stack.cookie, format!("{records} records"));
            let seen = format!("cookie {cookie:#x} of the sample of event {event} has {has}");
            found.push(Broken::or(m.story.about(kinds, cookie), seen));
        }
        stacks.close(m);
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
        // Until the way out is over, the stack of a sample may be to come that has one already.
        let Some((stacks, true)) = Stacks::see(&mut self.0, m) else { return };
        for stack in &stacks.open {
            let (Some((sample, asked)), Some((record, written))) = (stack.sample, stack.record)
            else {
                continue;
            };
            // A session that has ended may miss the second record of a stack.
            if asked <= written || !m.now.sessions.get(stack.session).is_some_and(|s| s.open) {
                continue;
            }
            // Of designs that call again the second record never came; of `per-work` also where
            // the item that was to write it is another task's.
            let kinds = [
                Hazard::H1,
                Hazard::H2,
                Hazard::H3,
                Hazard::TornDown,
                Hazard::Shared,
                Hazard::Elsewhere,
                Hazard::Lost,
            ];
            let cookie = stack.cookie;
            let seen = format!(
                "the sample of event {sample} has cookie {cookie:#x}, whose record was written at \
                 event {record}"
            );
            found.push(Broken::or(m.story.about(&kinds, cookie), seen));
        }
        stacks.close(m);
    }
}
