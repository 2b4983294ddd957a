//! The executor: kernel paths as async functions made of indivisible steps.

use std::cell::RefCell;
use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::kernel::interrupt::{self, Pending};
use crate::kernel::symbols::{Function, Named};
use crate::kernel::{Point, State};

/// A handle on the machine, for kernel paths.
#[derive(Clone, Debug)]
pub struct Kernel(Rc<RefCell<State>>);

/// A path did not finish although nothing can make it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel model: a path waits for something that never comes; please report it")]
pub struct Stuck;

impl Kernel {
    /// Takes the machine.
    pub fn new(state: State) -> Kernel {
        Kernel(Rc::new(RefCell::new(state)))
    }

    /// Looks at or changes the state outside any path: set-up, user mode, reports.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.borrow_mut())
    }

    /// One indivisible step. The closure cannot await, and what it returns is all that a
    /// path knows of the state. Interrupts that are due arrive before this returns.
    pub async fn step<T: Hash>(&self, point: Point, f: impl FnOnce(&mut State) -> T) -> T {
        let (result, mut due) = {
            let state = &mut *self.0.borrow_mut();
            state.begin_step(point);
            let result = f(state);
            state.end_step(point);
            (result, interrupt::due(state))
        };
        while let Some(pending) = due {
            match pending {
                Pending::Pmu => interrupt::pmu_in_kernel(self.clone()).await,
                Pending::Timer => interrupt::timer_in_kernel(self.clone()).await,
            }
            due = interrupt::due(&self.0.borrow());
        }
        result
    }

    /// The processor enters the first of `path` by an exception or interrupt, so it has
    /// no frame record; the others call each other.
    pub async fn begin(&self, path: &[Named]) {
        if let Some((&first, rest)) = path.split_first() {
            self.step(Point::Call, |s| s.begin_function(first.into())).await;
            self.enter(rest).await;
        }
    }

    /// Ends [`Kernel::begin`].
    pub async fn end(&self, path: &[Named]) {
        if let Some((_, rest)) = path.split_first() {
            self.leave(rest).await;
            self.step(Point::Return, State::end_function).await;
        }
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

    /// Runs a path to its end. With one CPU and a seeded schedule a step never waits.
    pub fn run<T>(&self, path: impl Future<Output = T>) -> Result<T, Stuck> {
        let mut path = pin!(path);
        match path.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => Err(Stuck),
        }
    }
}
