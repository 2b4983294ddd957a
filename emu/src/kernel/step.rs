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

    /// Runs `body` inside the modelled function `function`: a frame record is on the
    /// kernel stack while it runs.
    pub async fn call<T>(&self, function: impl Into<Function>, body: impl Future<Output = T>) -> T {
        let function = function.into();
        self.step(Point::Call, |s| s.push_function(function)).await;
        let result = body.await;
        self.step(Point::Return, |s| s.pop_function()).await;
        result
    }

    /// Runs `body` inside several functions, outermost first. The outermost is entered
    /// by an exception or interrupt and has no frame record.
    pub async fn path<T>(&self, functions: &[Named], body: impl Future<Output = T>) -> T {
        let Some((&first, rest)) = functions.split_first() else { return body.await };
        self.step(Point::Call, |s| s.begin_function(first.into())).await;
        let result = self.calls(rest, body).await;
        self.step(Point::Return, State::end_function).await;
        result
    }

    /// Runs `body` inside several functions that call each other, outermost first.
    pub async fn calls<T>(&self, functions: &[Named], body: impl Future<Output = T>) -> T {
        for &named in functions {
            self.step(Point::Call, |s| s.push_function(named.into())).await;
        }
        let result = body.await;
        for _ in functions {
            self.step(Point::Return, State::pop_function).await;
        }
        result
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
