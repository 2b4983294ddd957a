//! Merging while records come, in the order of time.
//!
//! A deferred sample is held back until its stack is there, and with it all that came after
//! it, so that what leaves has the order of what came. Entries of one thread into the kernel
//! do not overlap: the first sample of another cookie ends the wait of those before it. A
//! thread that sleeps in a system call with a sample holds back everything until it wakes.
//!
//! The stack of an entry is kept for samples that are later than it. Where two entries have
//! one cookie (cookies that are times, in one tick of the clock), a sample of the second
//! entry gets the stack of the first one; [`super::Merger`], which sees all stacks before the
//! first sample, can tell them apart.

use std::collections::{HashMap, VecDeque};

use super::{Orphan, Report, cookie};
use crate::perf::record::{Time, context};

/// Merges samples of type `T` as they come.
///
/// ```
/// use emu::perf::merge::Stream;
/// use emu::perf::record::context::{USER, USER_DEFERRED};
///
/// let mut stream = Stream::default();
/// stream.sample("sample", 7, 10, &[USER_DEFERRED, 3]);
/// stream.other("mapping");
/// assert_eq!(stream.next(), None, "nothing overtakes the sample");
/// stream.stack(7, 20, 3, vec![0x401000]);
/// assert_eq!(stream.next(), Some(("sample", Some(vec![USER, 0x401000]))));
/// assert_eq!(stream.next(), Some(("mapping", None)));
/// ```
#[derive(Debug)]
pub struct Stream<T> {
    /// What came and did not leave yet.
    held: VecDeque<Held<T>>,
    /// How many have left: what is held has numbers from here on.
    left: u64,
    threads: HashMap<u32, Thread>,
    report: Report,
}

#[derive(Debug)]
struct Held<T> {
    item: T,
    /// The new chain, or what there is of it.
    chain: Option<Vec<u64>>,
    waits: bool,
}

/// The entry into the kernel that a thread's newest deferred sample or stack is of.
#[derive(Debug, Default)]
struct Thread {
    cookie: Option<u64>,
    /// Numbers and times of the samples that wait for its stack.
    waiting: Vec<(u64, Time)>,
    stack: Option<Stack>,
}

/// The newest stack of a thread.
#[derive(Debug)]
struct Stack {
    cookie: u64,
    addresses: Vec<u64>,
    /// A sample has it.
    used: bool,
    /// When it came, once or several times; those that count as repeated are not here.
    times: Vec<Time>,
}

impl<T> Default for Stream<T> {
    fn default() -> Stream<T> {
        Stream {
            held: VecDeque::new(),
            left: 0,
            threads: HashMap::new(),
            report: Report::default(),
        }
    }
}

impl<T> Stream<T> {
    /// Whether all that came has left.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes what is neither a sample nor a stack.
    pub fn other(&mut self, item: T) {
        self.held.push_back(Held { item, chain: None, waits: false });
    }

    /// Takes a sample of thread `tid`.
    pub fn sample(&mut self, item: T, tid: u32, time: Time, chain: &[u64]) {
        self.report.samples += 1;
        let Some(cookie) = cookie(chain) else { return self.other(item) };
        let mut merged = chain[..chain.len() - 2].to_vec();
        merged.push(context::USER);
        let thread = self.threads.entry(tid).or_default();
        if thread.cookie != Some(cookie) {
            let waiting = std::mem::take(&mut thread.waiting);
            let before = thread.cookie.replace(cookie);
            self.give_up(tid, before, waiting);
        }
        let number = self.left + self.held.len() as u64;
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let mut waits = true;
        match &mut thread.stack {
            Some(stack) if stack.cookie == cookie => {
                merged.extend(&stack.addresses);
                waits = false;
                self.report.merged += 1;
                self.report.late += u64::from(stack.times.last().is_some_and(|at| time > *at));
                self.report.repeated += stack.first_use();
            }
            _ => thread.waiting.push((number, time)),
        }
        self.held.push_back(Held { item, chain: Some(merged), waits });
    }

    /// Takes a stack of thread `tid`: user addresses, innermost first, without a marker.
    pub fn stack(&mut self, tid: u32, time: Time, cookie: u64, addresses: Vec<u64>) {
        self.report.stacks += 1;
        let thread = self.threads.entry(tid).or_default();
        let waiting = match thread.cookie {
            Some(of) if of == cookie => std::mem::take(&mut thread.waiting),
            _ => Vec::new(),
        };
        self.report.merged += waiting.len() as u64;
        for (number, _) in &waiting {
            let held = self.held.get_mut((number - self.left) as usize);
            if let Some(Held { chain: Some(chain), waits, .. }) = held {
                chain.extend(&addresses);
                *waits = false;
            }
        }
        match &mut thread.stack {
            Some(stack) if stack.cookie == cookie && stack.addresses == addresses => {
                stack.times.push(time);
                if stack.used {
                    self.report.repeated += stack.first_use();
                }
            }
            before => {
                let used = !waiting.is_empty();
                let new = Stack { cookie, addresses, used, times: vec![time] };
                if let Some(stack) = before.replace(new) {
                    stack.forget(tid, &mut self.report);
                }
            }
        }
    }

    /// What may leave: the item, and its new chain if it is a deferred sample.
    #[allow(clippy::should_implement_trait, reason = "more may come after a None")]
    pub fn next(&mut self) -> Option<(T, Option<Vec<u64>>)> {
        if self.held.front()?.waits {
            return None;
        }
        self.left += 1;
        self.held.pop_front().map(|held| (held.item, held.chain))
    }

    /// The stream is at its end: what waits does so in vain, and all may leave.
    pub fn end(&mut self) {
        let mut threads: Vec<(u32, Thread)> = self.threads.drain().collect();
        threads.sort_by_key(|(tid, _)| *tid);
        for (tid, thread) in threads {
            self.give_up(tid, thread.cookie, thread.waiting);
            if let Some(stack) = thread.stack {
                stack.forget(tid, &mut self.report);
            }
        }
        self.report.samples_alone.sort_by_key(|orphan| orphan.time);
        self.report.stacks_alone.sort();
    }

    /// What became of samples and stacks so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Samples that wait for a stack that does not come.
    fn give_up(&mut self, tid: u32, cookie: Option<u64>, waiting: Vec<(u64, Time)>) {
        let Some(cookie) = cookie else { return };
        for (number, time) in waiting {
            let alone = Orphan { tid: Some(tid), cookie, time: Some(time) };
            self.report.samples_alone.push(alone);
            if let Some(held) = self.held.get_mut((number - self.left) as usize) {
                held.waits = false;
            }
        }
    }
}

impl Stack {
    /// A sample has it. How many others say the same.
    fn first_use(&mut self) -> u64 {
        self.used = true;
        let last = self.times.len().saturating_sub(1);
        self.times.drain(..last).len() as u64
    }

    /// No further sample can have it.
    fn forget(self, tid: u32, report: &mut Report) {
        let Stack { cookie, used: false, times, .. } = self else { return };
        let alone = |time| Orphan { tid: Some(tid), cookie, time: Some(time) };
        report.stacks_alone.extend(times.into_iter().map(alone));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Merger;
    use super::context::{KERNEL, USER, USER_DEFERRED};
    use super::*;

    #[derive(Clone, Debug)]
    enum Event {
        Sample(u32, Time, Vec<u64>),
        Stack(u32, Time, u64, Vec<u64>),
        Other,
    }

    /// Entries of a few threads, as kernels make them: samples, a stack, late samples; any of
    /// them may be lost, and a stack may come twice.
    fn events(state: &mut u64) -> Vec<Event> {
        let mut below = |n: u64| {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            *state % n
        };
        let mut all: Vec<(Time, Event)> = Vec::new();
        for tid in 1..=3 {
            let mut time = below(10);
            for cookie in 0..below(12) {
                let mut sample = |time: &mut Time, count| {
                    for _ in 0..count {
                        *time += 1;
                        let chain = vec![KERNEL, *time, USER_DEFERRED, cookie];
                        all.push((*time, Event::Sample(tid, *time, chain)));
                    }
                };
                sample(&mut time, below(3));
                let stacks = [0, 1, 1, 1, 2][below(5) as usize];
                let addresses: Vec<u64> = (0..below(4)).map(|n| 1000 * time + n).collect();
                let late = below(2);
                time += 1;
                let stack = Event::Stack(tid, time, cookie, addresses);
                sample(&mut time, late);
                all.extend(std::iter::repeat_n((time - late, stack), stacks));
                time += below(20);
                all.push((time, Event::Other));
            }
        }
        all.sort_by_key(|(time, event)| (*time, !matches!(event, Event::Stack(..))));
        all.into_iter().map(|(_, event)| event).collect()
    }

    /// What leaves is what [`Merger`] makes of the same records, in their order.
    #[test]
    fn as_if_all_stacks_were_known_before() {
        let mut state = 11;
        let (mut merged, mut late, mut repeated) = (0, 0, 0);
        for _ in 0..500 {
            let events = events(&mut state);
            let (mut merger, mut stream) = (Merger::default(), Stream::default());
            for event in &events {
                if let Event::Stack(tid, time, cookie, addresses) = event {
                    merger.stack(Some(*tid), Some(*time), *cookie, addresses.clone());
                }
            }
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Sample(tid, time, chain) => {
                        wanted.push((number, merger.sample(Some(tid), Some(time), &chain)));
                        stream.sample(number, tid, time, &chain);
                    }
                    Event::Stack(tid, time, cookie, addresses) => {
                        stream.stack(tid, time, cookie, addresses);
                    }
                    Event::Other => {
                        wanted.push((number, None));
                        stream.other(number);
                    }
                }
                found.extend(std::iter::from_fn(|| stream.next()));
            }
            stream.end();
            found.extend(std::iter::from_fn(|| stream.next()));
            assert_eq!(found, wanted);
            let mut report = merger.report();
            report.samples_alone.sort_by_key(|orphan| (orphan.time, orphan.tid));
            let mut other = stream.report().clone();
            other.samples_alone.sort_by_key(|orphan| (orphan.time, orphan.tid));
            assert_eq!(other, report);
            merged += report.merged;
            late += report.late;
            repeated += report.repeated;
        }
        assert!(merged > 1000 && late > 100 && repeated > 100, "{merged} {late} {repeated}");
    }

    #[test]
    fn another_cookie_ends_the_wait() {
        let mut stream = Stream::default();
        stream.sample(1, 7, 10, &[KERNEL, 5, USER_DEFERRED, 3]);
        stream.sample(2, 8, 11, &[KERNEL, 6]);
        assert_eq!(stream.next(), None);
        stream.sample(3, 7, 12, &[USER_DEFERRED, 5]);
        assert_eq!(stream.next(), Some((1, Some(vec![KERNEL, 5, USER]))));
        assert_eq!(stream.next(), Some((2, None)));
        assert_eq!(stream.next(), None);
        stream.end();
        assert_eq!(stream.next(), Some((3, Some(vec![USER]))));
        assert_eq!((stream.next(), stream.report().samples_alone.len()), (None, 2));
    }
}
