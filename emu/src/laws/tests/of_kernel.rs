//! The laws of contexts, of task work, of what is captured, and of a task's end.

use arch::Errno;

use super::script::{C1, Script, TID, mask};
use crate::kernel::Point;
use crate::kernel::task_work::{TaskWork, TaskWorks};
use crate::kernel::unwind::{PERF, Tracer, Work, WorkId};
use crate::laws::hazard::Hazard;
use crate::laws::law::Mode;
use crate::laws::moment::{Capture, UserRegs, What};

/// See [`super::script::verdicts`].
pub const SCRIPTS: &[fn()] = &[
    law_1_levels,
    law_2_quiet_exit,
    law_3_order_of_a_pass,
    law_4_place_of_task_work,
    law_5_newest_first,
    law_6_one_walk,
    law_17_and_18_refusals,
    law_20_registers_of_the_capture,
    law_20_without_a_hazard,
    law_21_and_22_walks,
    law_46_end_of_a_task,
];

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
fn law_46_end_of_a_task() {
    let ending = || mask(46).then(Point::ExitSignals, |s| s.task.exiting = true);
    let closed = || ending().then(Point::ExitPerf, |s| s.closed = true);
    closed().steps(&[Point::ExitUnwind]).then(Point::ExitMm, |s| s.task.has_mm = false).is_kept();
    mask(46).then(Point::ExitPerf, |s| s.closed = true).is_broken();
    ending().steps(&[Point::UnwindFlush]).is_broken();
    closed().then(Point::Body, |s| s.task.has_mm = false).steps(&[Point::ExitUnwind]).is_broken();
    mask(46).then(Point::Body, |s| s.task.has_mm = false).is_broken();
}
