//! Each monitor on crafted moments: it is silent where its law is kept, speaks where it is
//! broken, and finds the hazard that explains it.

use arch::Errno;

use self::script::{C1, C2, Script, TID, mask};
use crate::kernel::Point;
use crate::kernel::task_work::{TaskWork, TaskWorks};
use crate::kernel::unwind::{Call, PERF, Tracer, Work, WorkId};
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;
use crate::laws::moment::{Capture, UserRegs, What};
use crate::perf::record::Record;
use crate::perf::record::context::{KERNEL, USER, USER_DEFERRED};

mod of_perf;
mod script;

#[test]
fn law_1_levels() {
    let enter = || mask(1).steps(&[Point::IrqDeliver]).then(Point::NmiEnter, |s| s.level(3));
    enter().then(Point::NmiExit, |s| s.level(0)).steps(&[Point::IrqReturn]).is_kept();
    enter().steps(&[Point::IrqReturn]).is_broken();
    mask(1)
        .then(Point::IrqEnter, |s| s.level(2))
        .then(Point::Leave, |s| s.cpu.in_kernel = false)
        .is_broken();
    let nested = mask(1).then(Point::IrqEnter, |s| s.level(2)).steps(&[Point::IrqDeliver]);
    nested.then(Point::NmiEnter, |s| s.level(1)).is_broken();
}

#[test]
fn law_2_quiet_exit() {
    let off = || mask(2).then(Point::ExitX3, |s| s.cpu.irqs_on = false);
    off().steps(&[Point::ExitX5]).is_kept();
    mask(2).steps(&[Point::ExitX5]).is_broken();
    let bit = |s: &mut Script| s.task.work.notify_resume = true;
    off().then(Point::ExitX4, bit).steps(&[Point::ExitX5]).is_broken();
    let nmi = off().steps(&[Point::IrqDeliver]).then(Point::NmiEnter, |s| s.level(3));
    let nmi = nmi.then(Point::RequestQ11, bit).then(Point::NmiExit, |s| s.level(0));
    nmi.steps(&[Point::IrqReturn, Point::ExitX5]).is_kept();
}

#[test]
fn law_3_order_of_a_pass() {
    let order = [
        Point::ExitX2,
        Point::ExitUprobe,
        Point::ExitSignalWork,
        Point::ExitSignal,
        Point::ExitSignal,
        Point::ExitResume,
    ];
    mask(3).steps(&order).steps(&order).is_kept();
    mask(3).steps(&[Point::ExitX2, Point::ExitResume, Point::ExitPatch]).is_broken();
    let queued = |s: &mut Script| s.task.works = TaskWorks::List(vec![TaskWork::Unwind]);
    let queued =
        || mask(3).then(Point::RequestQ11, queued).steps(&[Point::ExitX2, Point::ExitSignalWork]);
    queued().steps(&[Point::ExitSignal]).is_broken();
    queued().steps(&[Point::TaskWorkTake, Point::ExitSignal]).is_kept();
}

#[test]
fn law_4_place_of_task_work() {
    mask(4).steps(&[Point::TaskWorkTake]).is_kept();
    mask(4).then(Point::TaskWorkTake, |s| s.cpu.irqs_on = false).is_broken();
    mask(4).then(Point::ProcessP1, |s| s.level(2)).is_broken();
    let nmi = mask(4).then(Point::NmiEnter, |s| s.level(3)).then(Point::NmiExit, |s| s.level(0));
    nmi.steps(&[Point::TaskWorkTake]).is_broken();
}

#[test]
fn law_5_newest_first() {
    let items = || {
        let mut script = Script::new(Mode::PerWork, 5);
        script.works.push(Work { bit: 0, tracer: Some(Tracer::Log), next: None, queued: None });
        script.works.iter_mut().for_each(|w| w.queued = Some(TID));
        let both = [0, 1].map(|n| TaskWork::UnwindOf(WorkId(n))).to_vec();
        let script = script.then(Point::WorkRequest3, |s| s.task.works = TaskWorks::List(both));
        script.then(Point::TaskWorkTake, |s| s.task.works = TaskWorks::default())
    };
    let runs = |n: usize| move |s: &mut Script| s.works[n].queued = None;
    items().then(Point::WorkWork1, runs(1)).then(Point::WorkWork1, runs(0)).is_kept();
    items().then(Point::WorkWork1, runs(0)).is_broken();
    items().steps(&[Point::TaskWorkTake]).is_broken();
    let twice = TaskWorks::List(vec![TaskWork::Unwind; 2]);
    mask(5).then(Point::RequestQ11, |s| s.task.works = twice).is_broken();
    mask(5).then(Point::TaskWorkTake, |s| s.task.works = TaskWorks::Exited).is_broken();
    let exits = |s: &mut Script| (s.task.exiting, s.task.works) = (true, TaskWorks::Exited);
    let closed = || mask(5).then(Point::TaskWorkTake, exits);
    closed().is_kept();
    closed().then(Point::RequestQ11, |s| s.task.works = TaskWorks::default()).is_broken();
    closed().asks(PERF, 0, C1).is_broken();
}

#[test]
fn law_6_one_walk() {
    mask(6).steps(&[Point::CaptureC5]).is_kept();
    mask(6).then(Point::CaptureC5, |s| s.level(3)).is_broken();
    mask(6)
        .then(Point::CaptureC6, |s| s.task.cache = Some((3, 0)))
        .steps(&[Point::CaptureC5])
        .is_broken();
    mask(6).then(Point::ExitMm, |s| s.task.has_mm = false).steps(&[Point::CaptureC5]).is_broken();
}

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
fn law_17_and_18_refusals() {
    const EINVAL: i64 = Errno::EINVAL.to_ret() as i64;
    let ending = || mask(17).then(Point::ExitSignals, |s| s.task.exiting = true);
    ending().asks(PERF, EINVAL, 0).is_kept();
    ending().asks(PERF, 0, C1).is_broken();
    ending().asks(PERF, EINVAL, C1).is_broken();
    mask(17).asks(PERF, 0, C1).is_kept();
    let nmi = || Script::new(Mode::Cookie, 18).then(Point::NmiEnter, |s| s.level(3));
    nmi().asks_from(Point::CookieRequest2, PERF, EINVAL, 0).is_kept();
    nmi().asks_from(Point::CookieRequest2, PERF, 1, C1).is_broken();
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
fn law_20_registers_of_the_capture() {
    let regs = |pc: u64| move |s: &mut Script| s.user = Some(UserRegs { pc, sp: 8, fp: 16 });
    let asked = || mask(20).then(Point::Body, regs(1)).asks(PERF, 0, C1);
    asked().then(Point::CaptureC5, regs(1)).is_kept();
    let moved = asked().then(Point::ExitSignal, regs(2)).then(Point::CaptureC5, |_| ());
    moved.is_explained(Hazard::H11);
    let mut ran = mask(20).then(Point::Leave, |s| s.cpu.irq_work = true);
    ran.tell(What::User(1));
    ran.is_broken();
    let mut ran = asked();
    ran.tell(What::User(1));
    ran.then(Point::EntryRaw, |_| ()).then(Point::CaptureC5, regs(2)).is_kept();
}

/// What nothing in the kernel has changed must not differ.
#[test]
fn law_20_without_a_hazard() {
    let regs = |pc: u64| move |s: &mut Script| s.user = Some(UserRegs { pc, sp: 8, fp: 16 });
    let asked = mask(20).then(Point::Body, regs(1)).asks(PERF, 0, C1);
    // A new entry has registers of its own, but no user code has run.
    asked.then(Point::EntryRaw, |s| s.user = None).then(Point::CaptureC5, regs(2)).is_broken();
}

#[test]
fn law_21_and_22_walks() {
    let walk = |law, capture: Capture| {
        let at = |s: &mut Script| s.user = Some(UserRegs { pc: 1, sp: 8, fp: 16 });
        mask(law).then(Point::CaptureC5, at).then(Point::CaptureC6, |s| s.capture = Some(capture))
    };
    let good = Capture {
        entries: vec![1, 2],
        frames: Some(vec![(1, 8), (2, 32)]),
        well_formed: true,
        immediate: vec![1, 2],
    };
    walk(21, good.clone()).is_kept();
    walk(22, good.clone()).is_kept();
    walk(21, Capture { entries: vec![3], frames: None, ..good.clone() }).is_broken();
    walk(21, Capture { entries: vec![1; 511], frames: None, ..good.clone() }).is_broken();
    walk(21, Capture { entries: vec![1, 3], ..good.clone() }).is_broken();
    walk(21, Capture { frames: Some(vec![(1, 8), (2, 8)]), ..good.clone() }).is_broken();
    walk(21, Capture { frames: Some(vec![(1, 8), (2, 33)]), ..good.clone() }).is_broken();
    walk(22, Capture { immediate: vec![1, 3], ..good.clone() }).is_broken();
    walk(22, Capture { immediate: vec![1], ..good.clone() }).is_broken();
    walk(22, Capture { immediate: vec![1], well_formed: false, ..good }).is_kept();
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
    let asks = |s: Script, ret| {
        let asked = s.steps(&[Point::WorkRequest1]).asks_from(Point::WorkRequest3, PERF, ret, C1);
        asked.sample(&[USER_DEFERRED, C1])
    };
    let served = asks(Script::new(Mode::PerWork, 37), 0).record(C1);
    let queued = served.then(Point::Body, |s| s.works[0].queued = Some(TID + 1));
    asks(queued, 1).leaves().is_explained(Hazard::Shared);
    // The item is queued again, taken and not run yet: its record is still to come.
    let served = asks(Script::new(Mode::PerWork, 37), 0).record(C1);
    let taken = served.then(Point::TaskWorkTake, |s| s.works[0].queued = Some(TID));
    let asked = asks(taken, 1).then(Point::WorkWork1, |s| s.works[0].queued = None);
    asked.record(C1).leaves().is_kept();
}

#[test]
fn law_46_end_of_a_task() {
    let ending = || mask(46).then(Point::ExitSignals, |s| s.task.exiting = true);
    let closed = || ending().then(Point::ExitPerf, |s| s.closed = true);
    closed().steps(&[Point::ExitUnwind]).then(Point::ExitMm, |s| s.task.has_mm = false).is_kept();
    mask(46).then(Point::ExitPerf, |s| s.closed = true).is_broken();
    ending().steps(&[Point::UnwindFlush]).is_broken();
    closed().then(Point::Body, |s| s.task.has_mm = false).steps(&[Point::ExitUnwind]).is_broken();
    mask(46).then(Point::Body, |s| s.task.has_mm = false).is_broken();
}

#[test]
fn law_47_merged_chains() {
    let both = mask(47)
        .sample(&[KERNEL, 1, USER_DEFERRED, C1])
        .then(Point::CaptureC6, |s| s.cache = vec![2, 3]);
    both.record(C1).is_kept();
    mask(47).sample(&[USER_DEFERRED, C1]).sample(&[USER_DEFERRED, C2]).is_kept();
}

/// Every law that is watched has a number of its own and is tested above.
#[test]
fn laws_are_in_order() {
    let numbers: Vec<u8> = super::all().map(|law| law.number).collect();
    let missing = |n: &u8| !(29..34).contains(n) && !(38..44).contains(n);
    assert_eq!(numbers, (1..=47).filter(missing).collect::<Vec<_>>());
}
