//! The executor: kernel paths as async functions made of indivisible steps.

use std::cell::RefCell;
use std::future::Future;
use std::hash::Hash;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use arch::Arch;

use crate::kernel::interrupt::{self, Pending};
use crate::kernel::schedule::{self, Next};
use crate::kernel::symbols::{Function, Named};
use crate::kernel::throttle::Stall;
use crate::kernel::unwind::Design;
use crate::kernel::{Point, State, sampling, scheduler};

/// A boxed path: of an interrupt, which may arrive inside any step, or behind a trait.
pub type Path<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A handle on the machine, for kernel paths.
#[derive(Clone, Debug)]
pub struct Kernel {
    state: Rc<RefCell<State>>,
    arch: Arch,
}

impl Kernel {
    /// Takes the machine.
    pub fn new(state: State) -> Kernel {
        Kernel { arch: state.arch, state: Rc::new(RefCell::new(state)) }
    }

    /// The architecture, which never changes.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Looks at or changes the state outside any path: set-up, user mode, reports.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.borrow_mut())
    }

    /// The machine, if no path has a handle on it any more.
    pub fn into_state(self) -> Option<State> {
        Rc::into_inner(self.state).map(RefCell::into_inner)
    }

    /// What never changes in a run: options, attributes of events, the design. A path may know
    /// it without a step.
    pub fn constant<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.state.borrow())
    }

    /// Something that the kernel has done before the run begins; `None`: it would have to wait.
    pub fn before_the_run<T>(&self, path: impl Future<Output = T>) -> Option<T> {
        match pin!(path).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// The deferred unwinder's design.
    pub fn design(&self) -> Rc<dyn Design> {
        self.constant(|s| s.unwind.design.clone())
    }

    /// One indivisible step. The closure cannot await, and what it returns is all that a
    /// path knows of the state. Interrupts that are due arrive before this returns.
    pub async fn step<T: Hash>(&self, point: Point, f: impl FnOnce(&mut State) -> T) -> T {
        // A CPU that is ahead lets the others catch up.
        loop {
            match self.before(point) {
                Next::Go => break,
                Next::Look => self.arrivals().await,
                Next::GiveWay => scheduler::pause().await,
            }
        }
        let result = self.last_step(point, f);
        self.arrivals().await;
        result
    }

    /// Interrupts that are due arrive, until none is.
    async fn arrivals(&self) {
        let mut stall = Stall::default();
        loop {
            let due = interrupt::due(&mut self.state.borrow_mut());
            if matches!(due, Some(Pending::Pmu)) {
                stall.interrupted(&mut self.state.borrow_mut().cpu.tick);
            }
            match due {
                Some(Pending::Overflow(o)) => sampling::overflow(self.clone(), o).await,
                Some(Pending::Pmu) => interrupt::pmu_in_kernel(self.clone()).await,
                Some(Pending::IrqWork) => interrupt::irq_work_in_kernel(self.clone()).await,
                Some(Pending::Resched) => interrupt::resched_in_kernel(self.clone()).await,
                Some(Pending::Timer) => interrupt::timer_in_kernel(self.clone()).await,
                None => return,
            }
        }
    }

    /// Work that takes long: as many steps, so that interrupts need not wait for its end.
    pub async fn parts(&self, point: Point, count: usize) {
        for _ in 0..count {
            self.step(point, |_| ()).await;
        }
    }

    /// The last step of an interrupt of kernel code: what is due then arrives in the step
    /// that was interrupted.
    pub fn last_step<T: Hash>(&self, point: Point, f: impl FnOnce(&mut State) -> T) -> T {
        let state = &mut *self.state.borrow_mut();
        let began = state.cpu.clock;
        state.begin_step(point);
        let result = f(state);
        state.end_step(point);
        if state.timeline.is_some() {
            state.tell_step(point, began);
        }
        if state.schedule.is_some() {
            let learned = schedule::learned(&result);
            state.ask(|schedule, state| schedule.after(state, point, learned));
        }
        result
    }

    /// `functions` call each other, outermost first: each gets a frame record on the
    /// kernel stack.
    pub async fn enter(&self, functions: &[Named]) {
        for &named in functions {
            self.call(named.into()).await;
        }
    }

    /// One function is called.
    pub async fn call(&self, function: Function) {
        self.step(Point::Call, |s| s.push_function(function)).await;
    }

    /// Ends [`Kernel::enter`].
    pub async fn leave(&self, functions: &[Named]) {
        for _ in functions {
            self.ret().await;
        }
    }

    /// The innermost function returns.
    pub async fn ret(&self) {
        self.step(Point::Return, State::pop_function).await;
    }
}
