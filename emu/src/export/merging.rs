//! A sink before another one: puts deferred callchains together while records stream by.
//!
//! ```text
//! records ─► [ waiting sample, …, records behind it ] ─► inner sink, in the same order
//!                     ▲ its stack, by (tid, cookie)
//! ```
//!
//! A deferred sample holds back what comes after it until its stack is there. It gives up when
//! its thread shows another cookie, since the entries of a thread do not interleave, at the
//! thread's end, or when too much is held back; then it goes on without user addresses. A stack
//! is kept until its thread has the next one, for samples that are taken later than it.

use std::collections::{HashMap, VecDeque};

use crate::export::{ExportError, Sink};
use crate::perf::merge::{self, Report};
use crate::perf::record::{Record, Sample};

/// Records that are held back at most.
const MOST: usize = 1 << 16;

/// See the module.
pub struct Merging {
    inner: Box<dyn Sink>,
    held: VecDeque<Held>,
    /// The newest stack of each thread: its cookie, its addresses, whether it was used.
    stacks: HashMap<u32, Stack>,
    report: Report,
}

/// The newest stack of a thread.
struct Stack {
    cookie: u64,
    addresses: Vec<u64>,
    used: bool,
    orphan: merge::Orphan,
}

/// A record that is held back; `waits`: for the stack with this thread and cookie.
struct Held {
    record: Record,
    waits: Option<(u32, u64)>,
}

impl Merging {
    /// In front of `inner`, which sees no cookie and no stack.
    pub fn new(inner: Box<dyn Sink>) -> Merging {
        let (held, stacks) = (VecDeque::new(), HashMap::new());
        Merging { inner, held, stacks, report: Report::default() }
    }

    /// What became of samples and stacks so far.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    fn sample(&mut self, mut sample: Sample) {
        self.report.samples += 1;
        let waits = merge::cookie(&sample.callchain).map(|cookie| (sample.tid, cookie));
        if let Some((tid, cookie)) = waits {
            match self.stacks.get_mut(&tid).filter(|stack| stack.cookie == cookie) {
                Some(stack) => {
                    stack.used = true;
                    merge::complete(&mut sample.callchain, &stack.addresses);
                    self.report.merged += 1;
                    self.report.late += 1;
                    return self.held.push_back(Held::of(Record::Sample(sample)));
                }
                None => self.give_up(tid, Some(cookie)),
            }
        }
        self.held.push_back(Held { record: Record::Sample(sample), waits });
    }

    fn stack(&mut self, tid: u32, time: u64, cookie: u64, addresses: &[u64]) {
        self.report.stacks += 1;
        let mut used = false;
        for held in &mut self.held {
            if held.waits == Some((tid, cookie))
                && let Record::Sample(sample) = &mut held.record
            {
                merge::complete(&mut sample.callchain, addresses);
                held.waits = None;
                used = true;
                self.report.merged += 1;
            }
        }
        self.give_up(tid, Some(cookie));
        let orphan = merge::Orphan { tid: Some(tid), cookie, time: Some(time) };
        let stack = Stack { cookie, addresses: addresses.to_vec(), used, orphan };
        let before = self.stacks.insert(tid, stack);
        self.report.stacks_alone.extend(before.filter(|s| !s.used).map(|s| s.orphan));
    }

    /// No stack will come for the thread's samples with another cookie than this.
    fn give_up(&mut self, tid: u32, but: Option<u64>) {
        for held in &mut self.held {
            let Some((of, cookie)) = held.waits else { continue };
            if of == tid && but != Some(cookie) {
                held.give_up(&mut self.report);
            }
        }
    }

    /// Hands on what waits for nothing.
    fn release(&mut self) -> Result<(), ExportError> {
        let waits = |held: &VecDeque<Held>| held.front().is_some_and(|h| h.waits.is_some());
        while self.held.len() > MOST || !waits(&self.held) {
            let Some(mut first) = self.held.pop_front() else { break };
            first.give_up(&mut self.report);
            self.inner.record(&first.record)?;
        }
        Ok(())
    }
}

impl Held {
    const fn of(record: Record) -> Held {
        Held { record, waits: None }
    }

    /// The sample goes on without user addresses.
    fn give_up(&mut self, report: &mut Report) {
        let Some((tid, cookie)) = self.waits.take() else { return };
        let Record::Sample(sample) = &mut self.record else { return };
        merge::complete(&mut sample.callchain, &[]);
        let (tid, time) = (Some(tid), Some(sample.time));
        report.samples_alone.push(merge::Orphan { tid, cookie, time });
    }
}

impl Sink for Merging {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        match record {
            Record::Sample(sample) => self.sample(sample.clone()),
            Record::CallchainDeferred { tid, time, cookie, ips, .. } => {
                self.stack(*tid, *time, *cookie, ips);
            }
            other => self.held.push_back(Held::of(other.clone())),
        }
        self.release()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        for held in &mut self.held {
            held.give_up(&mut self.report);
        }
        let unused = self.stacks.drain().map(|(_, s)| s).filter(|s| !s.used);
        self.report.stacks_alone.extend(unused.map(|s| s.orphan));
        self.report.stacks_alone.sort_unstable();
        self.release()?;
        self.inner.finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::export::testing::sample;
    use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};

    struct List(Rc<RefCell<Vec<Record>>>);

    impl Sink for List {
        fn record(&mut self, record: &Record) -> Result<(), ExportError> {
            self.0.borrow_mut().push(record.clone());
            Ok(())
        }

        fn finish(&mut self) -> Result<(), ExportError> {
            Ok(())
        }
    }

    fn deferred(tid: u32, time: u64, cookie: u64) -> Record {
        let callchain = vec![KERNEL, 0x10, USER_DEFERRED, cookie];
        Record::Sample(Sample { tid, callchain, ..sample(0, time) })
    }

    fn stack(tid: u32, time: u64, cookie: u64) -> Record {
        Record::CallchainDeferred { pid: 1, tid, time, cpu: 0, cookie, ips: vec![cookie, 0xb] }
    }

    /// (time, words of the user part) of each sample, and what became of all.
    fn merged(records: &[Record]) -> (Vec<(u64, Vec<u64>)>, Report) {
        let list = Rc::new(RefCell::new(Vec::new()));
        let mut merging = Merging::new(Box::new(List(list.clone())));
        records.iter().for_each(|r| merging.record(r).unwrap());
        merging.finish().unwrap();
        let list = list.borrow();
        let samples = list.iter().map(|r| match r {
            Record::Sample(s) => {
                assert_eq!(s.callchain[..3], [KERNEL, 0x10, USER]);
                (s.time, s.callchain[3..].to_vec())
            }
            other => panic!("{other:?}"),
        });
        (samples.collect(), merging.report)
    }

    #[test]
    fn a_stack_completes_the_samples_before_and_behind_it() {
        let records = [
            deferred(1, 1, 3),
            deferred(2, 2, 3),
            deferred(1, 3, 3),
            stack(1, 4, 3),
            deferred(1, 5, 3),
            stack(2, 6, 3),
            deferred(1, 7, 5),
            stack(1, 8, 5),
        ];
        let (samples, report) = merged(&records);
        let times: Vec<u64> = samples.iter().map(|s| s.0).collect();
        assert_eq!(times, [1, 2, 3, 5, 7], "the order stays");
        assert!(samples[..4].iter().all(|s| s.1 == [3, 0xb]) && samples[4].1 == [5, 0xb]);
        assert_eq!((report.samples, report.merged, report.late, report.stacks), (5, 5, 1, 3));
        assert!(report.samples_alone.is_empty() && report.stacks_alone.is_empty());
    }

    #[test]
    fn orphans_go_on_and_are_told() {
        let records = [deferred(1, 1, 3), deferred(1, 2, 5), stack(1, 3, 7), deferred(2, 4, 9)];
        let (samples, report) = merged(&records);
        assert_eq!(samples, [(1, vec![]), (2, vec![]), (4, vec![])]);
        let alone: Vec<u64> = report.samples_alone.iter().map(|o| o.cookie).collect();
        assert_eq!(alone, [3, 5, 9]);
        assert_eq!(report.stacks_alone.len(), 1);
    }

    #[test]
    fn a_sample_whose_stack_never_comes_does_not_hold_back_for_ever() {
        let list = Rc::new(RefCell::new(Vec::new()));
        let mut merging = Merging::new(Box::new(List(list.clone())));
        merging.record(&deferred(1, 1, 3)).unwrap();
        for time in 0..2 * MOST as u64 {
            merging.record(&Record::Sample(sample(0, time))).unwrap();
        }
        assert!(list.borrow().len() > MOST && merging.held.len() <= MOST);
    }
}
