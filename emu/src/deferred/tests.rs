//! What the designs answer and whom they call, on a machine with one task and no engine run:
//! the paths are those of a real run.

use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use arch::Arch;

use crate::deferred::{all, by_name};
use crate::kernel::exec::{self, Program};
use crate::kernel::state::Config;
use crate::kernel::symbols::{self, Named};
use crate::kernel::task_work::TaskWorks;
use crate::kernel::unwind::{Call, Clock, PERF, Requested, Tracer, Unwind, WorkId};
use crate::kernel::{Kernel, Point, State, do_exit, task_work};
use crate::perf::event::{self, Defaults};
use crate::perf::record::{Rate, Record, Session, UserStack};

/// A task of the demo guest that has just entered the kernel, under a design.
struct Machine(Kernel);

impl Machine {
    fn new(design: &str) -> Machine {
        let host = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guests/bin/x86_64/hello");
        let program = Program {
            host,
            path: "/hello".to_owned(),
            args: vec![b"hello".to_vec()],
            env: Vec::new(),
            root: None,
            cwd: "/".to_owned(),
            seed: 1,
            aslr: None,
            stdout_is_taken: true,
        };
        let defaults = Defaults {
            rate: Rate::Period(u64::MAX >> 2),
            explicit: true,
            callchain: true,
            exclude_callchain_user: false,
            exclude_callchain_kernel: false,
            defer: true,
            user_stack: UserStack::default(),
            max_stack: 0,
        };
        let session = |arch| Session {
            arch,
            events: event::parse("cycles", defaults).unwrap(),
            cpus: 1,
            wide: 0,
            switches: false,
            no_inherit: false,
            cmdline: Vec::new(),
            kernel_symbols: symbols::all(arch),
        };
        let mut state = exec::exec(&program, Config::default(), session).unwrap();
        state.unwind = Unwind::new(by_name(design).unwrap());
        state.perf.main.records.clear();
        let regs = state.core.regs();
        state.enter_kernel(Named::EntrySyscall.into(), false);
        state.save_user_regs(&regs, 0);
        state.cpu.irqs_on = true;
        Machine(Kernel::new(state))
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        self.0.with(f)
    }

    fn request(&self, work: WorkId) -> Requested {
        let design = self.with(|s| s.unwind.design.clone());
        finished(design.request(&self.0, work))
    }

    fn init(&self) -> Result<WorkId, arch::Errno> {
        let design = self.with(|s| s.unwind.design.clone());
        finished(design.init(&self.0, Tracer::Log))
    }

    fn task_work(&self) {
        finished(task_work::run(&self.0));
    }

    /// X5.
    fn reset(&self) {
        let design = self.with(|s| s.unwind.design.clone());
        finished(async {
            if self.0.step(Point::ExitX5, |s| design.begin_reset(s)).await {
                design.reset(&self.0).await;
            }
        });
    }

    /// Callbacks since the last look: (work, cookie, frames).
    fn calls(&self) -> Vec<(WorkId, u64, usize)> {
        let calls = self.with(|s| std::mem::take(&mut s.unwind.calls));
        calls
            .into_iter()
            .map(|Call { work, cookie, trace, .. }| (work, cookie, trace.len()))
            .collect()
    }

    fn stacks(&self) -> Vec<(u64, usize)> {
        let stack = |r: Record| match r {
            Record::CallchainDeferred { cookie, ips, .. } => Some((cookie, ips.len())),
            _ => None,
        };
        self.with(|s| std::mem::take(&mut s.perf.main.records))
            .into_iter()
            .filter_map(stack)
            .collect()
    }

    fn in_nmi<T>(&self, f: impl FnOnce() -> T) -> T {
        const UNITS: u32 = crate::kernel::state::NMI + crate::kernel::state::HARDIRQ;
        self.with(|s| s.cpu.preempt_count += UNITS);
        let result = f();
        self.with(|s| s.cpu.preempt_count -= UNITS);
        result
    }
}

/// What a path that nothing keeps waiting comes to.
fn finished<T>(path: impl Future<Output = T>) -> T {
    match pin!(path).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the path waits"),
    }
}

const FIRST: u64 = 3 << 32 | 1;
const SECOND: u64 = 5 << 32 | 1;

fn answer(ret: i64, cookie: u64) -> Requested {
    Requested { ret, cookie }
}

#[test]
fn names_are_distinct_and_found() {
    for design in all() {
        assert_eq!(by_name(design.name()).unwrap().name(), design.name());
    }
    assert!(by_name("none").is_none());
}

/// The worked trace: two requests in one entry, one record, the next entry's next cookie.
#[test]
fn one_entry_has_one_cookie_and_one_stack() {
    for design in ["mask", "cookie", "per-work"] {
        let m = Machine::new(design);
        assert_eq!(m.request(PERF), answer(0, FIRST), "{design}");
        assert_eq!(m.request(PERF), answer(1, FIRST), "{design}");
        m.task_work();
        assert_eq!(m.stacks(), [(FIRST, 1)], "{design}");
        m.reset();
        assert_eq!(m.with(|s| (s.task.unwind.id, s.task.unwind.mask)), (0, 0), "{design}");
        assert_eq!(m.request(PERF), answer(0, SECOND), "{design}");
    }
}

/// The mask design answers 1 to a work that was served, the others queue it again.
#[test]
fn a_request_after_the_callback() {
    for (design, ret, stacks) in [("mask", 1, 0), ("cookie", 0, 1), ("per-work", 0, 1)] {
        let m = Machine::new(design);
        m.request(PERF);
        m.task_work();
        assert_eq!(m.stacks().len(), 1, "{design}");
        assert_eq!(m.request(PERF), answer(ret, FIRST), "{design}");
        m.task_work();
        assert_eq!(m.stacks().len(), stacks, "{design}");
    }
}

#[test]
fn who_is_called() {
    for (design, expected) in [("mask", 1), ("cookie", 2), ("timestamp", 2), ("per-work", 1)] {
        let m = Machine::new(design);
        let (x, y) = (m.init().unwrap(), m.init().unwrap());
        let asked = m.request(x);
        assert_eq!(asked.ret, 0, "{design}");
        m.task_work();
        let calls = m.calls();
        assert_eq!(calls.len(), expected, "{design}: {calls:?}");
        assert!(calls.contains(&(x, asked.cookie, 1)), "{design}: {calls:?}");
        assert_eq!(calls.iter().any(|c| c.0 == y), expected == 2, "{design}");
    }
}

/// A second work is served from the cache; the first one is not called again.
#[test]
fn completed_works_are_left_out() {
    let m = Machine::new("mask");
    let (x, y) = (m.init().unwrap(), m.init().unwrap());
    m.request(x);
    m.task_work();
    assert_eq!(m.request(y), answer(0, FIRST));
    m.task_work();
    let calls: Vec<WorkId> = m.calls().into_iter().map(|c| c.0).collect();
    assert_eq!(calls, [x, y]);
}

/// The sketch has no list from which a tracer could be taken (RV10); the others leave it out.
#[test]
fn a_cancelled_tracers_item_stays_queued() {
    for (design, called) in [("mask", 0), ("cookie", 0), ("timestamp", 0), ("per-work", 1)] {
        let m = Machine::new(design);
        let x = m.init().unwrap();
        assert_eq!(m.request(x).ret, 0, "{design}");
        let cancels = m.with(|s| s.unwind.design.clone());
        finished(cancels.cancel(&m.0, x));
        m.task_work();
        assert_eq!(m.calls().len(), called, "{design}");
    }
}

#[test]
fn requests_in_nmi() {
    for design in ["cookie", "timestamp", "per-work"] {
        let m = Machine::new(design);
        let refused = Requested::refused(arch::Errno::EINVAL);
        assert_eq!(m.in_nmi(|| m.request(PERF)), refused, "{design}");
    }
    let m = Machine::new("mask");
    assert_eq!(m.in_nmi(|| m.request(PERF)), answer(0, FIRST));
    assert!(m.with(|s| s.task.work.notify_resume));
    // The nudge was delivered when the request's end turned interrupts on, or waits.
    assert!(m.with(|s| s.cpu.irq_work.is_raised() || s.cpu.irq_work.interrupts == 1));
}

/// 62 tracers have a bit, perf's among them.
#[test]
fn the_mask_is_full_at_some_time() {
    let m = Machine::new("mask");
    let registered = std::iter::from_fn(|| m.init().ok()).take(100).count();
    assert_eq!(registered, 61);
    assert_eq!(m.init(), Err(arch::Errno::EBUSY));
    let m = Machine::new("cookie");
    assert_eq!(std::iter::from_fn(|| m.init().ok()).take(100).count(), 100);
}

/// A bit of -1 is shifted as bit 63 (H7).
#[test]
fn a_cancelled_work_asks_with_bit_63() {
    let m = Machine::new("mask");
    let x = m.init().unwrap();
    m.with(|s| s.unwind.works[x.0 as usize].bit = -1);
    assert_eq!(m.request(x).ret, 0);
    assert_eq!(m.with(|s| s.task.unwind.mask), 1 << 63 | 1);
    m.task_work();
    assert_eq!(m.calls(), []);
}

#[test]
fn a_coarse_clock_names_two_entries_alike() {
    let m = Machine::new("timestamp");
    m.with(|s| s.unwind.clock = Clock { granularity: 4_000_000, start: 7, ..Clock::default() });
    let first = m.request(PERF);
    m.task_work();
    m.reset();
    assert_eq!(m.request(PERF), first);
    assert_eq!(first, answer(0, 7));
}

/// 0 looks like no timestamp: the second request has another.
#[test]
fn a_clock_at_zero_looks_unset() {
    let m = Machine::new("timestamp");
    m.with(|s| s.unwind.clock = Clock { granularity: 1 << 40, ..Clock::default() });
    assert_eq!(m.request(PERF), answer(0, 0));
    m.with(|s| s.unwind.clock.start = 9);
    assert_eq!(m.request(PERF), answer(1, 9));
}

#[test]
fn stores_on_the_way_out_without_any_tracing() {
    for (design, stores) in [("mask", 0), ("cookie", 0), ("timestamp", 10), ("per-work", 0)] {
        let m = Machine::new(design);
        (0..10).for_each(|_| m.reset());
        assert_eq!(m.with(|s| s.unwind.exit_stores), stores, "{design}");
    }
}

/// Pending at the end of the task: flushed with the stack, or an empty trace.
#[test]
fn exit_with_a_stack_pending() {
    for (design, frames) in [("mask", 1), ("cookie", 0), ("timestamp", 0), ("per-work", 1)] {
        let m = Machine::new(design);
        let x = m.init().unwrap();
        let asked = m.request(x);
        let dying = m.with(|s| s.task.id);
        // It ends in another task's turn.
        let end = pin!(do_exit::do_exit(&m.0)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(end.is_pending(), "{design}");
        let calls = m.calls();
        assert_eq!(calls, [(x, asked.cookie, frames)], "{design}");
        let works = m.with(|s| s.task_of(dying).map(|t| t.works.clone()));
        assert_eq!(works, Some(TaskWorks::Exited), "{design}");
        let m = Machine::new(design);
        let x = m.init().unwrap();
        m.with(|s| s.task.exiting = true);
        assert_eq!(m.request(x), Requested::refused(arch::Errno::EINVAL), "{design}");
        // The task's own events were gone before.
        assert_eq!(m.stacks(), [], "{design}");
    }
}

/// PENDING at the reset: everything is kept for the next entry.
#[test]
fn a_reset_leaves_what_is_pending() {
    let m = Machine::new("mask");
    m.request(PERF);
    m.reset();
    assert_eq!(m.request(PERF), answer(1, FIRST));
    m.task_work();
    assert_eq!(m.stacks(), [(FIRST, 1)]);
}

#[test]
fn aarch64_has_no_unwinder() {
    let unwind = Unwind::new(Rc::new(super::mask::Mask));
    assert!(unwind.available(Arch::X86_64) && !unwind.available(Arch::Aarch64));
}
