//! Each hazard with each law that it explains. `docs/hazards.md` has the same pairs.

use arch::Errno;

use super::script::{C1, C2, Script, TID, mask};
use crate::kernel::Point;
use crate::kernel::unwind::{Call, PERF, Requested, Tracer, Work, WorkId};
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;
use crate::laws::moment::What;
use crate::perf::record::context::USER_DEFERRED;

/// See [`super::script::verdicts`].
pub const SCRIPTS: &[fn()] = &[
    h1_between_r3_and_r4,
    h4_and_h18_in_the_tail,
    h5_no_memory_and_a_cancel,
    h6_the_queue_refuses,
    h8_the_traversal_meets_it,
    h9_cancelled_twice,
    h10_the_bit_comes_back,
    h15_nobody_knows_who_was_served,
    h17_cancelled_in_a_request,
    h19_the_bit_has_another_owner,
    h20_cancelled_in_its_callback,
    rv9_one_item_for_many_tasks,
    rv10_a_tracer_that_is_gone,
    records_that_are_not_there,
    second_records_that_are_not_there,
    the_events_are_gone_before_the_second_record,
];

/// A second tracer, whose bit is 3.
const OTHER: WorkId = WorkId(1);
const ESRCH: i64 = Errno::ESRCH.to_ret() as i64;

/// The mask design with two tracers.
fn two(law: u8) -> Script {
    let mut script = mask(law);
    script.works.push(Work { bit: 3, tracer: Some(Tracer::Log), next: None, queued: None });
    script.list.insert(0, OTHER);
    script
}

fn set(mask: u64) -> impl FnOnce(&mut Script) {
    move |s| s.task.mask = mask
}

/// The other tracer is called.
fn call(s: &mut Script) {
    s.calls.push(Call { work: OTHER, tid: TID, cookie: C1, trace: Vec::new() });
}

/// Perf has asked, was called, and R3 has emptied the mask.
fn reset(law: u8) -> Script {
    let asked = mask(law).asks(PERF, 0, C1).sample(&[USER_DEFERRED, C1]);
    asked.then(Point::RequestQ9, set(0b101)).record(C1).reset()
}

#[test]
fn h1_between_r3_and_r4() {
    let named = |s: &mut Script| (s.task.mask, s.task.id) = (0b101, C2);
    let late = || reset(12).nmi_asks(0, C2).steps(&[Point::ResetR4]).leaves();
    late().asks(PERF, 1, C2).is_explained(Hazard::H1);
    late().asks(PERF, 0, C1).is_broken();
    reset(15).nmi_asks(0, C2).then(Point::Leave, named).is_explained(Hazard::H1);
    reset(37).nmi_asks(0, C1).sample(&[USER_DEFERRED, C1]).leaves().is_explained(Hazard::H1);
}

#[test]
fn h4_and_h18_in_the_tail() {
    let pending = |s: &mut Script| (s.task.mask, s.task.id) = (0b101, C1);
    let tail = || mask(15).steps(&[Point::ExitX3]);
    tail().nmi_asks(0, C1).then(Point::Leave, pending).is_explained(Hazard::H4);
    tail().asks(PERF, 0, C1).then(Point::Leave, pending).is_explained(Hazard::H18);
}

#[test]
fn h5_no_memory_and_a_cancel() {
    let named = |s: &mut Script| s.task.id = C1;
    let starved = |law| mask(law).asks(PERF, 0, C1).steps(&[Point::CaptureAllocate]);
    let kept = |law| starved(law).then(Point::ExitX5, named);
    kept(15).steps(&[Point::Leave]).is_explained(Hazard::H5);
    kept(12).steps(&[Point::Leave, Point::EntryRaw]).asks(PERF, 0, C1).is_explained(Hazard::H5);
    // With a cache the same is nothing that is known.
    mask(15).then(Point::ExitX5, named).steps(&[Point::Leave]).is_broken();
}

#[test]
fn h6_the_queue_refuses() {
    let refused = |law| {
        let asked = mask(law).asks(PERF, 0, C1).then(Point::RequestQ9, set(0b101));
        asked.asks(PERF, ESRCH, C1)
    };
    refused(9).record(C1).record(C1).is_explained(Hazard::H6);
    refused(10).reset().is_explained(Hazard::H6);
    refused(12).leaves().asks(PERF, 0, C1).is_explained(Hazard::H6);
    refused(15).then(Point::Leave, |s| s.task.id = C1).is_explained(Hazard::H6);
}

#[test]
fn h8_the_traversal_meets_it() {
    let asked = two(10).asks(OTHER, 0, C1).then(Point::RequestQ9, set(0b1001));
    let traversed = asked.steps(&[Point::ProcessP7]);
    let met = traversed.then(Point::ProcessP8, |s| s.works[1].bit = -1);
    met.reset().is_explained(Hazard::H8);
}

#[test]
fn h9_cancelled_twice() {
    let mut last = mask(10);
    last.works[0].bit = 63;
    let asked = last.asks(PERF, 0, C1).then(Point::RequestQ9, set(1 << 63 | 1));
    asked.then(Point::CancelK9, set(1)).reset().is_explained(Hazard::H9);
}

#[test]
fn h10_the_bit_comes_back() {
    let completed = |bits| move |s: &mut Script| s.task.cache = Some((1, bits));
    let served = two(10).asks(OTHER, 0, C1).then(Point::CallbackLog, call);
    let loaded = served
        .then(Point::ProcessP6, |s| s.task.id = C1)
        .then(Point::ProcessP8Load, completed(0b1000))
        .then(Point::CancelK9, |s| (s.works[1].bit, s.task.cache) = (-1, Some((1, 0))));
    let stored = loaded.then(Point::ProcessP8Completed, completed(0b1100));
    // The heir of the bit.
    let heir = stored.asks(PERF, 0, C1).then(Point::RequestQ9, set(0b101));
    heir.reset().is_explained(Hazard::H10);
}

#[test]
fn h15_nobody_knows_who_was_served() {
    let served = || mask(9).asks(PERF, 0, C1).record(C1);
    served().steps(&[Point::ProcessP8Completed]).record(C1).is_explained(Hazard::H15);
    let complete = |s: &mut Script| s.task.cache = Some((1, 0b100));
    served().then(Point::ProcessP8Completed, complete).record(C1).is_broken();
    // Perf, which is called again, writes a second record.
    let named = |s: &mut Script| s.task.id = C1;
    let waits =
        || mask(36).asks(PERF, 0, C1).sample(&[USER_DEFERRED, C1]).then(Point::ProcessP6, named);
    let twice = |completed: fn(&mut Script)| {
        let once = waits().record(C1).then(Point::ProcessP8Completed, completed);
        once.record(C1).also(|s| s.task.id = 0).leaves()
    };
    twice(|_| ()).is_explained(Hazard::H15);
    twice(|s| s.task.cache = Some((1, 0b100))).is_broken();
}

#[test]
fn h17_cancelled_in_a_request() {
    let asks = two(10).steps(&[Point::RequestQ2]);
    let mut asked =
        asks.then(Point::CancelK6, |s| s.works[1].bit = -1).then(Point::RequestQ9, set(0b1001));
    asked.tell(What::Answer(OTHER, Requested { ret: 0, cookie: C1 }));
    asked.reset().is_explained(Hazard::H17);
}

/// Taken out of the list before the traversal begins, its bit not yet.
#[test]
fn cancelled_before_the_callbacks() {
    let asked = || two(10).then(Point::ProcessP2, set(0b1000)).asks(OTHER, 0, C1);
    let gone = |s: &mut Script| s.list.retain(|work| *work != OTHER);
    asked().then(Point::ProcessP7, gone).reset().is_explained(Hazard::Cancelled);
    asked().steps(&[Point::ProcessP7]).reset().is_broken();
}

#[test]
fn h19_the_bit_has_another_owner() {
    let met = |law| {
        let wanted = two(law).then(Point::ProcessP2, set(0b1000));
        wanted.steps(&[Point::ProcessP7, Point::ProcessP8])
    };
    let complete = |s: &mut Script| s.task.cache = Some((1, 0b1000));
    met(10).asks(OTHER, 0, C1).reset().is_explained(Hazard::H19);
    met(16).then(Point::ProcessP8Completed, complete).is_explained(Hazard::H19);
    two(16).then(Point::ProcessP8Completed, complete).is_broken();
}

#[test]
fn h20_cancelled_in_its_callback() {
    let called = || two(16).asks(OTHER, 0, C1).then(Point::CallbackLog, call);
    let complete = |s: &mut Script| s.task.cache = Some((1, 1 << 63));
    let cancelled = called().then(Point::CancelK6, |s| s.works[1].bit = -1);
    cancelled.then(Point::ProcessP8Completed, complete).is_explained(Hazard::H20);
    called().then(Point::ProcessP8Completed, complete).is_broken();
}

/// Another task has queued the work's one item.
#[test]
fn rv9_one_item_for_many_tasks() {
    let asked = |queued| {
        let mut script = Script::new(Mode::PerWork, 36);
        script.works[0].queued = queued;
        let mut script = script.steps(&[Point::WorkRequest1, Point::WorkRequest3]);
        script.tell(What::Answer(PERF, Requested { ret: 1, cookie: C1 }));
        script.sample(&[USER_DEFERRED, C1]).leaves()
    };
    asked(Some(TID + 1)).is_explained(Hazard::Shared);
    asked(Some(TID)).is_broken();
    // It had its own stack already, under the same cookie.
    let again = |queued| {
        let first = Script::new(Mode::PerWork, 37).asks_from(Point::WorkRequest1, PERF, 0, C1);
        let served = first.sample(&[USER_DEFERRED, C1]).record(C1);
        let mut script = served.also(|s| s.works[0].queued = queued);
        script = script.steps(&[Point::WorkRequest1, Point::WorkRequest3]);
        script.tell(What::Answer(PERF, Requested { ret: 1, cookie: C1 }));
        script.sample(&[USER_DEFERRED, C1]).leaves()
    };
    again(Some(TID + 1)).is_explained(Hazard::Shared);
    again(Some(TID)).is_broken();
}

#[test]
fn rv10_a_tracer_that_is_gone() {
    let registered = || {
        let mut script = Script::new(Mode::PerWork, 19);
        script.works.push(Work { bit: 0, tracer: Some(Tracer::Log), next: None, queued: None });
        script.list.insert(0, OTHER);
        script
    };
    let gone = |s: &mut Script| s.list.retain(|work| *work != OTHER);
    let asks = |s: Script| s.asks_from(Point::WorkRequest1, OTHER, 0, C1);
    asks(registered()).then(Point::CallbackLog, call).is_kept();
    let cancelled = || asks(registered()).then(Point::CancelK5, gone);
    cancelled().then(Point::CallbackLog, call).is_explained(Hazard::Orphaned);
    // Nothing of it is queued: it never asked, or was called before.
    registered().then(Point::CancelK5, gone).then(Point::CallbackLog, call).is_broken();
    let called = asks(registered()).then(Point::CallbackLog, call).then(Point::CancelK5, gone);
    called.then(Point::CallbackLog, call).is_broken();
}

/// The record found no room, or the task went on, on a CPU that is not sampled.
#[test]
fn records_that_are_not_there() {
    let sampled = || {
        let asked = mask(36).asks(PERF, 0, C1).sample(&[USER_DEFERRED, C1]);
        asked.then(Point::ProcessP6, |s| s.task.id = C1)
    };
    let dropped = sampled().then(Point::DeferredOutput, |s| s.drops = true);
    dropped.also(|s| s.drops = false).leaves().is_explained(Hazard::Lost);
    let elsewhere = |wide| sampled().then(Point::DeferredOutput, move |s| s.wide = wide);
    elsewhere(0b10).leaves().is_explained(Hazard::Elsewhere);
    elsewhere(0b01).leaves().is_broken();
}

/// The same of the second record of an entry, which designs without a mask have.
#[test]
fn second_records_that_are_not_there() {
    let ends = |change: fn(&mut Script)| {
        let asks = |s: Script| {
            s.asks_from(Point::CookieRequest2, PERF, 0, C1).sample(&[USER_DEFERRED, C1])
        };
        let pending = |s: &mut Script| (s.task.pending, s.task.id) = (true, C1);
        let served = asks(Script::new(Mode::Cookie, 37)).record(C1);
        let again = asks(served.then(Point::CookieRequest8, pending));
        let taken = again.then(Point::CookieWork2, |s| s.task.pending = false);
        let called = taken.steps(&[Point::CookieWork5]).then(Point::DeferredOutput, change);
        called.also(|s| s.drops = false).leaves()
    };
    ends(|s| s.drops = true).is_explained(Hazard::Lost);
    ends(|s| s.wide = 0b10).is_explained(Hazard::Elsewhere);
    ends(|_| ()).is_broken();
}

#[test]
fn the_events_are_gone_before_the_second_record() {
    let asks =
        |s: Script| s.asks_from(Point::CookieRequest2, PERF, 0, C1).sample(&[USER_DEFERRED, C1]);
    let pending = |s: &mut Script| (s.task.pending, s.task.id) = (true, C1);
    let served = asks(Script::new(Mode::Cookie, 37)).record(C1);
    let again = asks(served.then(Point::CookieRequest8, pending)).steps(&[Point::ExitPerf]);
    again.then(Point::ExitMm, |s| s.task.pending = false).is_explained(Hazard::TornDown);
}
