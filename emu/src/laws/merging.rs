//! What the merger makes of samples and stacks.

use std::collections::BTreeMap;
use std::fmt;

use crate::laws::law::{ALL_G, Law};
use crate::laws::moment::Moment;
use crate::laws::monitor::Monitor;
use crate::laws::report::Broken;
use crate::perf::merge::{Stream, cookie};
use crate::perf::record::{Record, Time, context};

/// See its words.
pub const LENGTH: Law = Law {
    number: 47,
    words: "merged length = original length - 1 + addresses of the record; the part has its \
            marker (USER, as in a chain that was never deferred), the cookie is gone",
    levels: ALL_G,
};

/// The merger that the law is about.
pub trait Merge: fmt::Debug + Default {
    /// Takes a sample of a thread, taken at this time, with its chain.
    fn sample(&mut self, sample: Original, time: Time);
    /// Takes a stack of a thread: its cookie and addresses.
    fn stack(&mut self, tid: u32, time: Time, cookie: u64, addresses: Vec<u64>);
    /// The next sample that need not wait any more, with its merged chain.
    fn next(&mut self) -> Option<(Original, Option<Vec<u64>>)>;
    /// Whether no sample waits.
    fn is_empty(&self) -> bool;
}

impl Merge for Stream<Original> {
    fn sample(&mut self, sample: Original, time: Time) {
        let (tid, chain) = (sample.tid, sample.chain.clone());
        Stream::sample(self, sample, tid, time, &chain);
    }

    fn stack(&mut self, tid: u32, time: Time, cookie: u64, addresses: Vec<u64>) {
        Stream::stack(self, tid, time, cookie, addresses);
    }

    fn next(&mut self) -> Option<(Original, Option<Vec<u64>>)> {
        Stream::next(self)
    }

    fn is_empty(&self) -> bool {
        Stream::is_empty(self)
    }
}

/// [`LENGTH`]: the records of each session go through a merger of the monitor's own.
#[derive(Debug, Default)]
pub struct Length<M = Stream<Original>>(Vec<Merged<M>>);

/// Of one session.
#[derive(Debug, Default)]
struct Merged<M> {
    stream: M,
    /// The newest stacks of each thread: cookie and addresses.
    stacks: BTreeMap<u32, Vec<(u64, Vec<u64>)>>,
    /// Threads that have ended; samples of theirs may still wait in the merger.
    ended: Vec<u32>,
}

/// A sample as it was.
#[derive(Debug)]
pub struct Original {
    /// Thread.
    pub tid: u32,
    /// Its chain, which ends in a cookie.
    pub chain: Vec<u64>,
}

/// Stacks of a thread that a sample may get which comes when none is held back.
const KEPT: usize = 16;

impl<M: Merge> Monitor for Length<M> {
    fn see(&mut self, m: &Moment<'_>, found: &mut Vec<Broken>) {
        self.0.resize_with(m.now.sessions.len(), Merged::default);
        for (merged, session) in self.0.iter_mut().zip(&m.now.sessions) {
            merged.see(session.records, found);
        }
    }
}

impl<M: Merge> Merged<M> {
    fn see(&mut self, records: &[Record], found: &mut Vec<Broken>) {
        for record in records {
            match record {
                Record::Sample(s) if cookie(&s.callchain).is_some() => {
                    let original = Original { tid: s.tid, chain: s.callchain.clone() };
                    self.stream.sample(original, s.time);
                }
                Record::CallchainDeferred { tid, time, cookie, ips, .. } => {
                    let stacks = self.stacks.entry(*tid).or_default();
                    // A sample that waits for another thread's stack holds back all later ones.
                    if self.stream.is_empty() {
                        stacks.drain(..stacks.len().saturating_sub(KEPT - 1));
                    }
                    stacks.push((*cookie, ips.clone()));
                    self.stream.stack(*tid, *time, *cookie, ips.clone());
                }
                Record::Exit { tid, .. } => self.ended.push(*tid),
                _ => {}
            }
        }
        while let Some((original, merged)) = self.stream.next() {
            let stacks = self.stacks.get(&original.tid).map_or(&[][..], |s| s);
            if !merged.as_ref().is_some_and(|merged| keeps(&original.chain, merged, stacks)) {
                let chain = &original.chain;
                found.push(Broken::new(format!("{chain:x?} becomes {merged:x?}")));
            }
        }
        if self.stream.is_empty() {
            for tid in self.ended.drain(..) {
                self.stacks.remove(&tid);
            }
        }
    }
}

/// Whether the chain is the original with the addresses of a stack of its cookie in the cookie's
/// place, or with none if there is no such stack.
fn keeps(original: &[u64], merged: &[u64], stacks: &[(u64, Vec<u64>)]) -> bool {
    let Some((cookie, kept)) = original.split_last() else { return false };
    let Some((_, kept)) = kept.split_last() else { return false };
    let Some(rest) = merged.strip_prefix(kept) else { return false };
    let Some((&context::USER, addresses)) = rest.split_first() else { return false };
    let mut its = stacks.iter().filter(|(of, _)| of == cookie).peekable();
    match its.peek() {
        None => addresses.is_empty(),
        Some(_) => its.any(|(_, ips)| ips == addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::keeps;
    use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};

    #[test]
    fn what_a_merged_chain_keeps() {
        let original = [KERNEL, 1, USER_DEFERRED, 7];
        let stacks = [(7, vec![2, 3]), (9, vec![4])];
        assert!(keeps(&original, &[KERNEL, 1, USER, 2, 3], &stacks));
        assert!(keeps(&original, &[KERNEL, 1, USER], &stacks[1..]), "no stack came");
        for wrong in [
            &[KERNEL, 1, USER][..],
            &[KERNEL, 1, USER, 2],
            &[KERNEL, 1, USER, 4],
            &[KERNEL, 1, 2, 3],
            &[KERNEL, 1, USER, 7, 2, 3],
            &[KERNEL, 1, USER_DEFERRED, 2, 3],
            &[KERNEL, 5, USER, 2, 3],
        ] {
            assert!(!keeps(&original, wrong, &stacks), "{wrong:x?}");
        }
    }
}
