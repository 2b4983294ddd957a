//! A sink before another one: puts deferred callchains together while records stream by.

use crate::export::{ExportError, Sink};
use crate::perf::merge::{Report, Stream};
use crate::perf::record::Record;

/// See the module. The inner sink sees no cookie and no stack.
pub struct Merging {
    inner: Box<dyn Sink>,
    stream: Stream<Record>,
}

impl Merging {
    /// In front of `inner`.
    pub fn new(inner: Box<dyn Sink>) -> Merging {
        Merging { inner, stream: Stream::default() }
    }

    /// What became of samples and stacks so far.
    pub fn report(&self) -> &Report {
        self.stream.report()
    }

    /// Hands on what waits for nothing.
    fn release(&mut self) -> Result<(), ExportError> {
        while let Some((mut record, chain)) = self.stream.next() {
            if let (Record::Sample(sample), Some(chain)) = (&mut record, chain) {
                sample.callchain = chain;
            }
            self.inner.record(&record)?;
        }
        Ok(())
    }
}

impl Sink for Merging {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        match record {
            Record::Sample(s) => self.stream.sample(record.clone(), s.tid, s.time, &s.callchain),
            Record::CallchainDeferred { tid, time, cookie, ips, .. } => {
                self.stream.stack(*tid, *time, *cookie, ips.clone());
            }
            other => self.stream.other(other.clone()),
        }
        self.release()
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.stream.end();
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
    use crate::perf::record::Sample;
    use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};
    use crate::perf::testing::sample;

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

    #[test]
    fn the_inner_sink_sees_whole_chains_in_order() {
        let list = Rc::new(RefCell::new(Vec::new()));
        let mut merging = Merging::new(Box::new(List(list.clone())));
        let with = |time, callchain| Record::Sample(Sample { callchain, ..sample(0, time) });
        merging.record(&with(1, vec![KERNEL, 0x10, USER_DEFERRED, 3])).unwrap();
        merging.record(&with(2, vec![USER, 0x40_0000])).unwrap();
        assert!(list.borrow().is_empty());
        let (tid, ips) = (sample(0, 0).tid, vec![0x40_1000]);
        let stack = Record::CallchainDeferred { pid: 1, tid, time: 3, cpu: 0, cookie: 3, ips };
        merging.record(&stack).unwrap();
        merging.record(&with(4, vec![USER_DEFERRED, 5])).unwrap();
        merging.finish().unwrap();
        let expected = [
            with(1, vec![KERNEL, 0x10, USER, 0x40_1000]),
            with(2, vec![USER, 0x40_0000]),
            with(4, vec![USER]),
        ];
        assert_eq!(*list.borrow(), expected);
        let report = merging.report();
        assert_eq!((report.samples, report.merged, report.samples_alone.len()), (3, 1, 1));
    }
}
