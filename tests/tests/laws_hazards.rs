//! Hazards of Linux 7.3 that need a cancelling on another CPU at a certain step (H8, H9, H10, H19),
//! or memory that is not to be had (H5, H15): two paths of one machine are moved step by step, one
//! as the traced task, one as the tracer's, and what breaks is reported with its hazard.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arch::Arch;
use emu::kernel::symbols::Named;
use emu::kernel::task::WorkBits;
use emu::kernel::unwind::{Requested, Tracer, WorkId};
use emu::kernel::{Kernel, Point, State, task_work};
use emu::laws::hazard::Hazard;
use emu::laws::{Handle, Settings};
use tests::harness::Harness;

/// A task that has just entered the kernel of Linux 7.3, and the laws.
struct Machine(Kernel, Handle);

/// The task calls the kernel.
fn enter(s: &mut State) {
    let regs = s.core.regs();
    s.enter_kernel(Named::EntrySyscall.into(), false);
    s.save_user_regs(&regs, 0);
    s.cpu.irqs_on = true;
}

/// A path that is moved step by step.
type Moved<'a, T> = Pin<&'a mut dyn Future<Output = T>>;

impl Machine {
    fn new() -> Machine {
        let harness = Harness::new(Arch::X86_64, "hello").events("cycles", u64::MAX >> 2);
        let kernel = harness.deferred("mask").start("hazards");
        let handle = kernel.with(|s| {
            enter(s);
            let names = Box::new(|_| String::new());
            let tell = Box::new(|_: &str| ());
            Handle::start(s, Settings { lines: 0, names, stop: Arc::default(), tell })
        });
        Machine(kernel, handle)
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        self.0.with(f)
    }

    /// One step of a path; what it came to, if that was its last one.
    fn step<T>(&self, path: &mut Moved<'_, T>) -> Option<T> {
        self.with(|s| s.horizon = s.cpu.clock);
        match path.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Steps until this holds.
    fn until<T>(&self, path: &mut Moved<'_, T>, mut holds: impl FnMut(&mut State) -> bool) {
        for _ in 0..10_000 {
            if self.with(&mut holds) {
                return;
            }
            assert!(self.step(path).is_none(), "the path is over");
        }
        panic!("that never holds");
    }

    /// The rest of a path.
    fn end<T>(&self, path: &mut Moved<'_, T>) -> T {
        (0..10_000).find_map(|_| self.step(path)).unwrap()
    }

    fn whole<T>(&self, path: impl Future<Output = T>) -> T {
        let mut path: Moved<'_, T> = pin!(path);
        self.end(&mut path)
    }

    fn init(&self) -> Option<WorkId> {
        let design = self.0.design();
        self.whole(design.init(&self.0, Tracer::Log)).ok()
    }

    fn cancel(&self, work: WorkId) {
        let design = self.0.design();
        self.whole(design.cancel(&self.0, work));
    }

    fn request(&self, work: WorkId) -> Requested {
        let design = self.0.design();
        let answer = self.whole(design.request(&self.0, work));
        self.0.answered(work, answer);
        answer
    }

    fn task_work(&self) {
        self.whole(task_work::run(&self.0));
    }

    /// Who was called since the last look.
    fn called(&self) -> Vec<WorkId> {
        self.with(|s| std::mem::take(&mut s.unwind.calls)).iter().map(|c| c.work).collect()
    }

    /// X5, and the return to user mode.
    fn leave(&self) {
        // What the exit loop does before.
        self.with(|s| (s.cpu.irqs_on, s.task.work) = (false, WorkBits::default()));
        let design = self.0.design();
        self.whole(async {
            if self.0.step(Point::ExitX5, |s| design.begin_reset(s)).await {
                design.reset(&self.0).await;
            }
            self.0.step(Point::Leave, State::leave_kernel).await;
        });
    }

    /// [`Machine::leave`]; then the breaks, by law, with the hazards that explain them. None is
    /// fatal.
    fn breaks(&self) -> BTreeSet<(u8, Hazard)> {
        self.leave();
        assert_eq!(self.1.fatal(), None);
        self.1.counts().explained.into_keys().collect()
    }
}

/// There is no memory for the cache, and the only work that asked is cancelled: nothing resets the
/// cookie of an empty mask, and the next entry has it too.
#[test]
fn h5_a_cookie_outlives_its_entry() {
    let m = Machine::new();
    let (x, y) = (m.init().unwrap(), m.init().unwrap());
    m.with(|s| s.unwind.failing_pages = 1);
    let first = m.request(x);
    m.task_work();
    let traces: Vec<usize> = m.with(|s| s.unwind.calls.iter().map(|c| c.trace.len()).collect());
    assert_eq!((m.called(), traces), (vec![x], vec![0]));
    m.cancel(x);
    m.leave();
    assert_eq!(m.with(|s| (s.task.unwind.mask, s.task.unwind.id)), (0, first.cookie));
    m.with(enter);
    assert_eq!(m.request(y), Requested { ret: 0, cookie: first.cookie });
    m.task_work();
    let breaks = m.breaks();
    for expected in [(15, Hazard::H5), (12, Hazard::H5)] {
        assert!(breaks.contains(&expected), "{expected:?}: {breaks:?}");
    }
    assert_eq!(m.with(|s| s.task.unwind.id), 0, "the capture of this entry has set USED");
}

/// Without a cache nobody knows who was served: the second request of an entry has the first
/// tracer called again, now with a stack.
#[test]
fn h15_a_tracer_is_called_twice() {
    let m = Machine::new();
    let (x, y) = (m.init().unwrap(), m.init().unwrap());
    m.with(|s| s.unwind.failing_pages = 1);
    m.request(x);
    m.task_work();
    m.request(y);
    m.task_work();
    let empty = m.with(|s| s.unwind.calls.iter().map(|c| c.trace.is_empty()).collect::<Vec<_>>());
    assert_eq!((m.called(), empty), (vec![x, y, x], vec![true, false, false]));
    assert!(m.breaks().contains(&(9, Hazard::H15)), "{:?}", m.1.counts());
}

/// A traversal meets a work whose bit became -1: no callback.
#[test]
fn h8_a_traversal_meets_a_cancelled_work() {
    let m = Machine::new();
    let x = m.init().unwrap();
    assert_eq!(m.request(x).ret, 0);
    let design = m.0.design();
    let (work, cancel) = (task_work::run(&m.0), design.cancel(&m.0, x));
    let (mut work, mut cancel): (Moved<'_, _>, Moved<'_, _>) = (pin!(work), pin!(cancel));
    m.until(&mut work, |s| s.unwind.srcu.readers() == 1);
    m.until(&mut cancel, |s| s.unwind.works[x.0 as usize].bit == -1);
    m.end(&mut work);
    m.end(&mut cancel);
    assert_eq!(m.called(), []);
    assert!(m.breaks().contains(&(10, Hazard::H8)), "{:?}", m.1.counts());
}

/// The second cancelling of a work takes bit 63 from each task: the 62nd tracer is not called.
#[test]
fn h9_a_work_is_cancelled_twice() {
    let m = Machine::new();
    let all: Vec<WorkId> = std::iter::from_fn(|| m.init()).collect();
    let (first, last) = (all[0], all[60]);
    assert_eq!(m.with(|s| s.unwind.works[last.0 as usize].bit), 63);
    m.cancel(first);
    assert_eq!(m.request(last).ret, 0);
    m.cancel(first);
    m.task_work();
    assert_eq!(m.called(), []);
    assert!(m.breaks().contains(&(10, Hazard::H9)), "{:?}", m.1.counts());
    // The registry itself is whole: what was changed there is the word before it.
    assert_ne!(m.with(|s| s.unwind.mask) >> 63, 0);
}

/// The store of who was served brings back a bit that cancelling has cleared after the load: who
/// gets the bit is not called.
#[test]
fn h10_a_dead_tracers_bit_comes_back() {
    let m = Machine::new();
    let (x, y) = (m.init().unwrap(), m.init().unwrap());
    m.request(y);
    m.task_work();
    assert_eq!(m.called(), [y]);
    let design = m.0.design();
    let cancel = design.cancel(&m.0, y);
    let mut cancel: Moved<'_, _> = pin!(cancel);
    // K8 begins before the traversal, which it need not wait for.
    m.until(&mut cancel, |s| s.unwind.mask & 0b1_0000 == 0);
    assert!(m.step(&mut cancel).is_none());
    m.request(x);
    let work = task_work::run(&m.0);
    let mut work: Moved<'_, _> = pin!(work);
    m.until(&mut work, |s| s.unwind.calls.len() == 1);
    assert!(m.step(&mut work).is_none(), "the load");
    m.end(&mut cancel);
    m.end(&mut work);
    assert_eq!(m.called(), [x]);
    let z = m.init().unwrap();
    assert_eq!(m.with(|s| s.unwind.works[z.0 as usize].bit), 4, "that of the dead one");
    assert_eq!(m.request(z).ret, 0);
    m.task_work();
    assert_eq!(m.called(), []);
    assert!(m.breaks().contains(&(10, Hazard::H10)), "{:?}", m.1.counts());
}

/// A bit is given to another tracer between P2 and the callbacks: it counts as served before it
/// has a function, and its own request is swallowed.
#[test]
fn h19_a_bit_changes_its_owner() {
    let m = Machine::new();
    let x = m.init().unwrap();
    m.request(x);
    let design = m.0.design();
    let work = task_work::run(&m.0);
    let mut work: Moved<'_, _> = pin!(work);
    m.until(&mut work, |s| s.task.unwind.mask == 0b1000);
    m.cancel(x);
    let init = design.init(&m.0, Tracer::Log);
    let mut init: Moved<'_, _> = pin!(init);
    m.until(&mut init, |s| s.unwind.list.len() == 2);
    m.end(&mut work);
    let z = m.end(&mut init).unwrap();
    assert_eq!(m.request(z).ret, 0);
    m.task_work();
    assert_eq!(m.called(), []);
    let breaks = m.breaks();
    for expected in [(10, Hazard::H19), (16, Hazard::H19), (10, Hazard::Cancelled)] {
        assert!(breaks.contains(&expected), "{expected:?}: {breaks:?}");
    }
}
