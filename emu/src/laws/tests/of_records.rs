//! The laws of chains, of the records of deferred stacks, and of what is merged from both.

use super::script::{C1, C2, Script, TID, mask};
use crate::kernel::Point;
use crate::kernel::unwind::PERF;
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;
use crate::laws::merging::{Length, Merge, Original};
use crate::perf::merge::Stream;
use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};
use crate::perf::record::{Record, Time};

/// See [`super::script::verdicts`].
pub const SCRIPTS: &[fn()] = &[
    law_27_and_34_chains,
    law_35_content_of_a_record,
    law_36_one_record_a_cookie,
    law_36_of_a_coarse_clock,
    law_37_the_record_is_later,
    law_47_merged_chains,
    law_47_wrong_mergers,
];

#[test]
fn law_27_and_34_chains() {
    for good in [&[KERNEL, 1, USER, 2][..], &[KERNEL, 1, USER_DEFERRED, C1], &[USER, 1, 2], &[]] {
        mask(27).sample(good).is_kept();
        mask(34).sample(good).is_kept();
    }
    mask(27).sample(&[KERNEL, 1, USER, 2, 3]).is_broken();
    mask(27).sample(&[1, USER, 2]).is_broken();
    mask(34).sample(&[KERNEL, 1, USER_DEFERRED, C1, 2]).is_broken();
    let both = [KERNEL, 1, USER, 2, USER_DEFERRED, C1];
    mask(34).then(Point::RequestQ9, |s| s.task.id = C1).sample(&both).is_broken();
}

#[test]
fn law_35_content_of_a_record() {
    let cached = || mask(35).then(Point::CaptureC6, |s| s.cache = vec![1, 2]);
    cached().record(C1).is_kept();
    let change = |s: &mut Script| {
        let (pid, tid, time, cpu, cookie) = (TID, TID, s.time, 0, C1);
        let ips = vec![USER, 1, 2];
        s.records.push(Record::CallchainDeferred { pid, tid, time, cpu, cookie, ips });
    };
    cached().then(Point::DeferredOutput, change).is_broken();
}

#[test]
fn law_36_one_record_a_cookie() {
    let sampled = || mask(36).asks(PERF, 0, C1).sample(&[USER_DEFERRED, C1]);
    sampled().record(C1).leaves().is_kept();
    sampled().leaves().is_broken();
    sampled().record(C1).record(C1).leaves().is_broken();
    let torn = sampled().then(Point::RequestQ9, |s| (s.task.mask, s.task.id) = (0b101, C1));
    let torn = torn.steps(&[Point::ExitPerf]).then(Point::ProcessP2, |s| s.task.mask = 0);
    torn.steps(&[Point::ExitMm]).is_explained(Hazard::TornDown);
    // H1 has left a stack without a name; who asks then is answered with one that is new.
    let served = mask(36).asks(PERF, 0, C1).then(Point::RequestQ9, |s| s.task.mask = 0b101);
    let erased = served.record(C1).reset().nmi_asks(0, C1).steps(&[Point::ResetR4]);
    let asked = erased.record(0).asks(PERF, 1, C2).sample(&[USER_DEFERRED, C2]);
    asked.then(Point::ProcessP2, |s| s.task.mask = 0).leaves().is_explained(Hazard::H1);
    let again = |s: Script| {
        s.asks_from(Point::CookieRequest2, PERF, 0, C1).sample(&[USER_DEFERRED, C1]).record(C1)
    };
    again(again(Script::new(Mode::Cookie, 36))).leaves().is_explained(Hazard::Again);
}

#[test]
fn law_36_of_a_coarse_clock() {
    let entry = |s: Script| {
        let asked = s.asks_from(Point::TimestampRequest2, PERF, 0, 7);
        asked.sample(&[USER_DEFERRED, 7]).record(7).leaves()
    };
    entry(entry(Script::new(Mode::Timestamp, 36))).is_explained(Hazard::CoarseClock);
}

#[test]
fn law_37_the_record_is_later() {
    let served = || mask(37).asks(PERF, 0, C1).sample(&[USER_DEFERRED, C1]).record(C1);
    served().leaves().is_kept();
    served().sample(&[USER_DEFERRED, C1]).leaves().is_broken();
    let out = served().steps(&[Point::EntryN7]);
    out.asks(PERF, 1, C1).sample(&[USER_DEFERRED, C1]).leaves().is_explained(Hazard::H2);
    served().asks(PERF, 1, C1).sample(&[USER_DEFERRED, C1]).leaves().is_explained(Hazard::H3);
    // The item is queued again, taken and not run yet: its record is still to come.
    let asks = |s: Script, ret| {
        let asked = s.steps(&[Point::WorkRequest1]).asks_from(Point::WorkRequest3, PERF, ret, C1);
        asked.sample(&[USER_DEFERRED, C1])
    };
    let served = asks(Script::new(Mode::PerWork, 37), 0).record(C1);
    let taken = served.then(Point::TaskWorkTake, |s| s.works[0].queued = Some(TID));
    let asked = asks(taken, 1).then(Point::WorkWork1, |s| s.works[0].queued = None);
    asked.record(C1).leaves().is_kept();
}

#[test]
fn law_47_merged_chains() {
    let both = mask(47)
        .sample(&[KERNEL, 1, USER_DEFERRED, C1])
        .then(Point::CaptureC6, |s| s.cache = vec![2, 3]);
    both.record(C1).is_kept();
    mask(47).sample(&[USER_DEFERRED, C1]).sample(&[USER_DEFERRED, C2]).is_kept();
}

/// A merger that puts this in front of a stack's addresses.
#[derive(Debug, Default)]
struct Adding<const WORD: u64>(Stream<Original>);

impl<const WORD: u64> Merge for Adding<WORD> {
    fn sample(&mut self, sample: Original, time: Time) {
        Merge::sample(&mut self.0, sample, time);
    }

    fn stack(&mut self, tid: u32, time: Time, cookie: u64, addresses: Vec<u64>) {
        self.0.stack(tid, time, cookie, [vec![WORD], addresses].concat());
    }

    fn next(&mut self) -> Option<(Original, Option<Vec<u64>>)> {
        Merge::next(&mut self.0)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A merger that loses all stacks.
#[derive(Debug, Default)]
struct Losing(Stream<Original>);

impl Merge for Losing {
    fn sample(&mut self, sample: Original, time: Time) {
        Merge::sample(&mut self.0, sample, time);
    }

    fn stack(&mut self, tid: u32, time: Time, cookie: u64, _: Vec<u64>) {
        self.0.stack(tid, time, cookie, Vec::new());
    }

    fn next(&mut self) -> Option<(Original, Option<Vec<u64>>)> {
        Merge::next(&mut self.0)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The cookie is left in the chain, an address is added, or the stack is lost.
#[test]
fn law_47_wrong_mergers() {
    fn merge<M: Merge + 'static>() -> Script {
        let monitor = Box::new(Length::<M>::default());
        let script = Script::under(Mode::Mask, 47, monitor).sample(&[KERNEL, 1, USER_DEFERRED, C1]);
        script.then(Point::CaptureC6, |s| s.cache = vec![2, 3]).record(C1)
    }
    merge::<Stream<Original>>().is_kept();
    merge::<Adding<C1>>().is_broken();
    merge::<Adding<2>>().is_broken();
    merge::<Losing>().is_broken();
}
