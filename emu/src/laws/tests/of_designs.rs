//! The laws of requests, callbacks and cookies.

use super::script::{C1, C2, Script, TID, mask};
use crate::kernel::Point;
use crate::kernel::task_work::{TaskWork, TaskWorks};
use crate::kernel::unwind::{Call, PERF, Tracer, Work, WorkId};
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;

/// See [`super::script::verdicts`].
pub const SCRIPTS: &[fn()] = &[
    law_7_only_who_asked_is_in_the_mask,
    law_8_pending_is_an_item,
    law_9_at_most_one_callback,
    law_10_a_callback_for_each,
    law_11_the_cookie_that_was_answered,
    law_12_distinct_cookies,
    law_13_form_of_a_cookie,
    law_14_counter,
    law_15_clean_in_user_mode,
    law_16_completed_were_called,
    law_19_cancelled_works_are_not_called,
    law_23_one_timestamp_a_tick,
    law_24_stores,
    law_25_one_task_under_the_mutex,
];

#[test]
fn law_7_only_who_asked_is_in_the_mask() {
    let set = |mask: u64| move |s: &mut Script| s.task.mask = mask;
    mask(7).then(Point::RequestQ2, |_| ()).then(Point::RequestQ9, set(0b101)).is_kept();
    mask(7).asks(PERF, 0, C1).then(Point::ProcessP2, set(0b110)).is_kept();
    mask(7).asks(PERF, 0, C1).then(Point::ProcessP2, set(0b1100)).is_broken();
    let mut cancelled = mask(7);
    cancelled.works.push(Work { bit: -1, tracer: None, next: None, queued: None });
    cancelled.asks(WorkId(1), 0, C1).then(Point::ProcessP2, set(1 << 63)).is_explained(Hazard::H7);
}

#[test]
fn law_8_pending_is_an_item() {
    let asks = || mask(8).then(Point::RequestQ9, |s| s.task.mask = 0b101);
    let queued = |s: &mut Script| s.task.works = TaskWorks::List(vec![TaskWork::Unwind]);
    let taken = || {
        asks()
            .then(Point::RequestQ11, queued)
            .then(Point::TaskWorkTake, |s| s.task.works = TaskWorks::default())
    };
    taken().steps(&[Point::ProcessP1]).then(Point::ProcessP2, |s| s.task.mask = 0b100).is_kept();
    taken().steps(&[Point::ProcessP1, Point::ProcessP2]).is_broken();
    asks().steps(&[Point::RequestQ11]).is_broken();
    mask(8).then(Point::RequestQ11, queued).is_broken();
}

#[test]
fn law_9_at_most_one_callback() {
    let asks = |s: Script| s.asks(PERF, 0, C1).then(Point::RequestQ9, |s| s.task.mask = 0b101);
    asks(mask(9)).record(C1).reset().record(C2).is_kept();
    asks(mask(9)).record(C1).record(C1).is_broken();
}

#[test]
fn law_10_a_callback_for_each() {
    let ask = |s: Script| s.asks(PERF, 0, C1).then(Point::RequestQ9, |s| s.task.mask = 0b101);
    ask(mask(10)).record(C1).reset().is_kept();
    ask(mask(10)).reset().is_broken();
    ask(mask(10)).steps(&[Point::ExitMm]).is_broken();
    ask(mask(10))
        .then(Point::Body, |s| s.works[0].bit = -1)
        .reset()
        .is_explained(Hazard::Cancelled);
    let mut refused = mask(10);
    refused.works[0].bit = 0;
    ask(refused).reset().is_explained(Hazard::H14);
    let mut cancelled = mask(10);
    cancelled.works[0].bit = -1;
    ask(cancelled).reset().is_explained(Hazard::H7);
}

#[test]
fn law_11_the_cookie_that_was_answered() {
    mask(11).asks(PERF, 0, C1).record(C1).is_kept();
    mask(11).asks(PERF, 0, C1).record(C2).is_broken();
    let served =
        mask(11).asks(PERF, 0, C1).then(Point::RequestQ9, |s| s.task.mask = 0b101).record(C1);
    served.reset().nmi_asks(0, C1).steps(&[Point::ResetR4]).record(0).is_explained(Hazard::H1);
}

#[test]
fn law_12_distinct_cookies() {
    mask(12).asks(PERF, 0, C1).asks(PERF, 1, C1).leaves().asks(PERF, 0, C2).is_kept();
    mask(12).asks(PERF, 0, C1).leaves().asks(PERF, 0, C1).is_broken();
    mask(12).asks(PERF, 0, C2).leaves().asks(PERF, 0, C1).is_broken();
    let tail = || mask(12).steps(&[Point::ExitX3]);
    tail().nmi_asks(0, C1).leaves().asks(PERF, 1, C1).is_explained(Hazard::H4);
    tail().asks(PERF, 0, C1).leaves().asks(PERF, 1, C1).is_explained(Hazard::H18);
}

#[test]
fn law_13_form_of_a_cookie() {
    mask(13).asks(PERF, 0, C1).is_kept();
    for wrong in [0, 4 << 32 | 1, 3 << 32, 3 << 32 | 2] {
        mask(13).asks(PERF, 0, wrong).is_broken();
    }
}

#[test]
fn law_14_counter() {
    let set = |counter: u32| move |s: &mut Script| s.cpu.counter = counter;
    let three = || mask(14).then(Point::CookieG4, set(3));
    three().then(Point::CookieG4, set(5)).is_kept();
    three().then(Point::CookieG4, set(7)).is_broken();
    three().then(Point::CookieG4, set(4)).is_broken();
    mask(14).then(Point::CookieG4, set(1)).is_broken();
}

#[test]
fn law_15_clean_in_user_mode() {
    mask(15).steps(&[Point::Leave]).is_kept();
    mask(15).then(Point::Leave, |s| s.task.id = C1).is_broken();
    mask(15).then(Point::Leave, |s| s.task.cache = Some((1, 0))).is_broken();
    let pending = |s: &mut Script| (s.task.mask, s.task.id) = (0b101, C1);
    mask(15)
        .then(Point::NmiEnter, |s| s.level(3))
        .then(Point::RequestQ9, pending)
        .steps(&[Point::Leave])
        .is_kept();
    mask(15)
        .steps(&[Point::ExitX3])
        .nmi_asks(0, C1)
        .then(Point::Leave, pending)
        .is_explained(Hazard::H4);
}

#[test]
fn law_16_completed_were_called() {
    let complete = |s: &mut Script| s.task.cache = Some((1, 0b100));
    mask(16).record(C1).then(Point::ProcessP8Completed, complete).is_kept();
    mask(16).then(Point::ProcessP8Completed, complete).is_broken();
    mask(16).record(C1).then(Point::ProcessP8Completed, complete).record(C1).is_broken();
}

#[test]
fn law_19_cancelled_works_are_not_called() {
    let call = |s: &mut Script| {
        s.calls.push(Call { work: WorkId(1), tid: TID, cookie: C1, trace: Vec::new() });
    };
    let with = |bit| {
        let mut script = mask(19);
        script.works.push(Work { bit, tracer: Some(Tracer::Log), next: None, queued: None });
        script
    };
    let mut listed = with(3);
    listed.list.push(WorkId(1));
    listed.then(Point::CallbackLog, call).is_kept();
    with(-1).steps(&[Point::Body]).then(Point::CallbackLog, call).is_broken();
    with(3).steps(&[Point::Body]).is_broken();
    // A traversal that goes on may have seen it.
    let mut seen = with(-1);
    seen.traversals = 1;
    seen.steps(&[Point::Body]).then(Point::CallbackLog, call).is_kept();
}

#[test]
fn law_23_one_timestamp_a_tick() {
    let stamps = |first: u64, second: u64| {
        let script = Script::new(Mode::Timestamp, 23);
        let script = script.then(Point::TimestampRequest5, |s| s.task.id = first);
        script
            .then(Point::ExitX5, |s| s.task.id = 0)
            .then(Point::TimestampRequest5, |s| s.task.id = second)
    };
    stamps(1000, 1000).is_kept();
    stamps(1000, 1020).is_broken();
}

#[test]
fn law_24_stores() {
    let store = |s: &mut Script| s.exit_stores += 1;
    Script::new(Mode::Timestamp, 24).then(Point::ExitX5, store).is_kept();
    Script::new(Mode::Timestamp, 24).steps(&[Point::ExitX5]).is_broken();
    for mode in [Mode::Mask, Mode::Cookie, Mode::PerWork] {
        Script::new(mode, 24).steps(&[Point::ExitX5]).is_kept();
        Script::new(mode, 24).then(Point::ExitX5, store).is_broken();
        Script::new(mode, 24).asks(PERF, 0, C1).then(Point::ExitX5, store).is_kept();
    }
}

#[test]
fn law_25_one_task_under_the_mutex() {
    let enter =
        |tasks| Script::new(Mode::Cookie, 25).then(Point::CookieWork6, |s| s.traversals = tasks);
    enter(1).is_kept();
    enter(2).is_broken();
}
