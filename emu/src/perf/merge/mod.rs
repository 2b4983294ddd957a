//! Deferred callchains, put together: samples that end in a cookie and the user stacks that
//! the kernel recorded under it.
//!
//! ```text
//! sample   kernel part, USER_DEFERRED, cookie ─┐ (tid, cookie)
//! stack    cookie, user addresses ─────────────┴─► kernel part, USER, user addresses
//! ```
//!
//! perf's own merger only looks forward: a sample waits for the next stack of its thread, and
//! one that is taken later in the same kernel entry than its stack (`signal:signal_deliver`,
//! a tick while the stack is being written) is never completed; nor is one that waits when a
//! stack comes that another session asked for. Here a stack is found by thread and cookie,
//! wherever it stands: the first one at the time of the sample or later, else the last one
//! before it (the sample is *late*).
//!
//! A merged chain has the words of the sample without its cookie and then those of the stack:
//! original length - 1 + length of the stack. Where perf merges in memory it keeps the marker
//! `USER_DEFERRED`; in a file that does not do: a perf that does not know the marker (6.1)
//! throws the whole chain away. So the marker becomes `USER`, as in a chain that was never
//! deferred. A sample whose stack is not there keeps `USER` with no address behind it, since
//! a cookie would be taken for an address; it is told in the [`Report`], and so is a stack
//! that no sample asked for.
//!
//! [`Merger`] takes all stacks before the first sample, as from a file; [`Stream`] takes both
//! as they come.

mod stream;

use std::collections::BTreeMap;

pub use stream::Stream;

use super::record::{Time, context};

/// A sample or a stack whose counterpart is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// Thread; `None` if it was not recorded, so that nothing can match.
    pub tid: Option<u32>,
    /// What the counterpart would have, too.
    pub cookie: u64,
    /// Nanoseconds, if recorded.
    pub time: Option<Time>,
}

/// What became of samples and stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Samples, deferred or not.
    pub samples: u64,
    /// Samples that got the stack they wait for.
    pub merged: u64,
    /// Those of them that were taken after their stack.
    pub late: u64,
    /// Stacks, all of which leave the stream.
    pub stacks: u64,
    /// Stacks that say again what another one, which a sample has, says of its thread and cookie.
    pub repeated: u64,
    /// Samples whose chain ends where the cookie should follow: the context entry that it is was
    /// one more than `kernel.perf_event_max_contexts_per_stack`.
    pub cut: u64,
    /// Deferred samples without a stack, in the order in which they came.
    pub samples_alone: Vec<Orphan>,
    /// Stacks without a sample, by thread, cookie, and time.
    pub stacks_alone: Vec<Orphan>,
}

/// Thread, cookie, time, and a number that tells equal ones apart.
type Key = (u32, u64, Time, usize);

#[derive(Debug)]
struct Stack {
    addresses: Vec<u64>,
    /// Its time was recorded.
    timed: bool,
    used: bool,
}

/// Matches samples with stacks. It takes all stacks first, then all samples.
///
/// ```
/// use emu::perf::merge::Merger;
/// use emu::perf::record::context::{USER, USER_DEFERRED};
///
/// let mut merger = Merger::default();
/// merger.stack(Some(7), Some(20), 3, vec![0x401000, 0x401080]);
/// let merged = merger.sample(Some(7), Some(10), &[0x1234, USER_DEFERRED, 3]);
/// assert_eq!(merged.as_deref(), Some(&[0x1234, USER, 0x401000, 0x401080][..]));
/// assert_eq!(merger.sample(Some(7), Some(15), &[0x1234]), None, "not deferred");
/// assert_eq!(merger.report().merged, 1);
/// ```
#[derive(Debug, Default)]
pub struct Merger {
    stacks: BTreeMap<Key, Stack>,
    report: Report,
}

/// The cookie of a chain that waits for its user part: the word behind `USER_DEFERRED`, if
/// these two end the chain.
pub fn cookie(chain: &[u64]) -> Option<u64> {
    match chain {
        [.., context::USER_DEFERRED, cookie] => Some(*cookie),
        _ => None,
    }
}

impl Merger {
    /// Takes a stack: user addresses, innermost first, without a marker.
    pub fn stack(
        &mut self,
        tid: Option<u32>,
        time: Option<Time>,
        cookie: u64,
        addresses: Vec<u64>,
    ) {
        self.report.stacks += 1;
        let Some(thread) = tid else {
            self.report.stacks_alone.push(Orphan { tid, cookie, time });
            return;
        };
        let key = (thread, cookie, time.unwrap_or(0), self.stacks.len());
        let stack = Stack { addresses, timed: time.is_some(), used: false };
        self.stacks.insert(key, stack);
    }

    /// Takes a sample; its new chain, or `None` if it is not deferred.
    pub fn sample(
        &mut self,
        tid: Option<u32>,
        time: Option<Time>,
        chain: &[u64],
    ) -> Option<Vec<u64>> {
        self.report.samples += 1;
        self.report.cut += u64::from(chain.last() == Some(&context::USER_DEFERRED));
        let cookie = cookie(chain)?;
        let mut merged = chain[..chain.len() - 2].to_vec();
        merged.push(context::USER);
        match tid.and_then(|tid| self.find(tid, cookie, time.unwrap_or(0))) {
            Some((_, at, stack)) => {
                merged.extend(&stack.addresses);
                let late = stack.timed && time.is_some_and(|time| time > at);
                self.report.merged += 1;
                self.report.late += u64::from(late);
            }
            None => self.report.samples_alone.push(Orphan { tid, cookie, time }),
        }
        Some(merged)
    }

    /// The stack for a sample at `time`, which is marked as used.
    fn find(&mut self, tid: u32, cookie: u64, time: Time) -> Option<(u64, Time, &Stack)> {
        let at = (tid, cookie, time, 0);
        let all = (tid, cookie, 0, 0)..=(tid, cookie, Time::MAX, usize::MAX);
        let after = self.stacks.range(at..=*all.end()).next().map(|(key, _)| *key);
        let key = after.or_else(|| self.stacks.range(all).next_back().map(|(key, _)| *key))?;
        let stack = self.stacks.get_mut(&key)?;
        stack.used = true;
        Some((key.1, key.2, stack))
    }

    /// What became of all that was taken.
    pub fn report(self) -> Report {
        let mut report = self.report;
        let mut stacks = self.stacks.into_iter().peekable();
        while let Some(((tid, cookie, ..), _)) = stacks.peek() {
            let (tid, cookie) = (*tid, *cookie);
            let mut same = Vec::new();
            while let Some(((_, _, time, _), stack)) =
                stacks.next_if(|(key, _)| (key.0, key.1) == (tid, cookie))
            {
                same.push((time, stack));
            }
            for run in same.chunk_by(|(_, a), (_, b)| a.addresses == b.addresses) {
                if run.iter().any(|(_, stack)| stack.used) {
                    report.repeated += run.len() as u64 - 1;
                    continue;
                }
                report.stacks_alone.extend(run.iter().map(|(time, stack)| {
                    let time = stack.timed.then_some(*time);
                    Orphan { tid: Some(tid), cookie, time }
                }));
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::context::{KERNEL, USER, USER_DEFERRED};
    use super::*;

    #[test]
    fn a_stack_is_found_before_and_behind_its_samples() {
        let mut merger = Merger::default();
        merger.stack(Some(1), Some(20), 3, vec![0xa, 0xb]);
        merger.stack(Some(2), Some(20), 3, vec![0xc]);
        let chain = [KERNEL, 0x10, USER_DEFERRED, 3];
        for time in [10, 20, 30] {
            let merged = merger.sample(Some(1), Some(time), &chain);
            assert_eq!(merged, Some(vec![KERNEL, 0x10, USER, 0xa, 0xb]), "{time}");
        }
        assert_eq!(merger.sample(Some(2), Some(5), &chain[2..]), Some(vec![USER, 0xc]));
        let report = merger.report();
        assert_eq!((report.samples, report.merged, report.late), (4, 4, 1));
        assert_eq!((report.stacks, report.repeated), (2, 0));
        assert_eq!((report.samples_alone, report.stacks_alone), (vec![], vec![]));
    }

    /// Two entries in one clock tick have one cookie where cookies are times.
    #[test]
    fn of_several_stacks_the_next_one_is_taken() {
        let mut merger = Merger::default();
        for (time, address) in [(40, 0xb), (20, 0xa), (40, 0xc)] {
            merger.stack(Some(1), Some(time), 3, vec![address]);
        }
        let chain = [USER_DEFERRED, 3];
        let mut at = |time| merger.sample(Some(1), Some(time), &chain);
        assert_eq!(at(20), Some(vec![USER, 0xa]));
        assert_eq!(at(21), Some(vec![USER, 0xb]));
        assert_eq!(at(41), Some(vec![USER, 0xc]));
        let report = merger.report();
        assert_eq!((report.merged, report.late, report.repeated), (3, 1, 0));
        assert_eq!(report.stacks_alone, []);
    }

    #[test]
    fn orphans_of_both_sides_are_told() {
        let mut merger = Merger::default();
        merger.stack(Some(1), Some(20), 3, vec![0xa]);
        merger.stack(Some(1), Some(21), 3, vec![0xa]);
        merger.stack(Some(1), Some(22), 5, vec![]);
        merger.stack(None, None, 7, vec![0xb]);
        merger.stack(Some(1), Some(23), 9, vec![0xc]);
        let alone = |tid, cookie, time| Orphan { tid, cookie, time };
        let sample = [KERNEL, USER_DEFERRED, 3];
        assert_eq!(merger.sample(Some(2), Some(9), &sample), Some(vec![KERNEL, USER]));
        assert_eq!(merger.sample(None, None, &[USER_DEFERRED, 7]), Some(vec![USER]));
        assert_eq!(merger.sample(Some(1), Some(9), &sample), Some(vec![KERNEL, USER, 0xa]));
        assert_eq!(merger.sample(Some(1), Some(9), &[USER_DEFERRED, 5]), Some(vec![USER]));
        let report = merger.report();
        assert_eq!((report.merged, report.stacks, report.repeated), (2, 5, 1));
        assert_eq!(report.samples_alone, [alone(Some(2), 3, Some(9)), alone(None, 7, None)]);
        assert_eq!(report.stacks_alone, [alone(None, 7, None), alone(Some(1), 9, Some(23))]);
    }

    #[test]
    fn only_a_marker_with_a_cookie_at_the_end_is_deferred() {
        assert_eq!(cookie(&[USER_DEFERRED, 1]), Some(1));
        for chain in [&[][..], &[USER_DEFERRED], &[USER_DEFERRED, 1, 2], &[USER, 1]] {
            assert_eq!(cookie(chain), None, "{chain:x?}");
        }
    }

    #[test]
    fn a_cookie_that_found_no_room_is_counted() {
        let mut merger = Merger::default();
        assert_eq!(merger.sample(Some(1), Some(9), &[KERNEL, 0x10, USER_DEFERRED]), None);
        let report = merger.report();
        assert_eq!((report.samples, report.merged, report.cut), (1, 0, 1));
        assert_eq!(report.samples_alone, []);
    }
}
