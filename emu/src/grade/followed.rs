//! One true stack, kept up to date by the engine and by the kernel.

use std::cell::{Ref, RefCell, RefMut};
use std::fmt::Debug;
use std::rc::Rc;

use arch::Regs;

use crate::engine::EngineError;
use crate::engine::flow::{CalleeSaved, Event, FlowSink};
use crate::kernel::State;
use crate::kernel::observer::Observer;
use crate::kernel::user::Present;
use crate::perf::record::Record;
use crate::truth::Stack;

/// Who uses a true stack, and has it.
pub trait Follower: Debug {
    /// Whether the stack shall know the callee-saved registers of each frame.
    const REGISTERS: bool = false;

    /// The stack.
    fn stack(&self) -> &Stack;

    /// The same, for those who tell what happens to it.
    fn stack_mut(&mut self) -> &mut Stack;

    /// Code was mapped: file offset `pgoff` of `path` is at `addr`.
    fn map(&mut self, path: &str, addr: u64, pgoff: u64);

    /// A sample was taken, see [`Observer::sampled`].
    fn sampled(&mut self, _regs: &Regs, _sp_was_set: bool, _memory: Present<'_>) {}
}

/// A handle to a [`Follower`]; clones lead to the same one. It passes on to the stack every
/// transfer of control that the engine sees, and what the kernel does to the thread.
#[derive(Debug)]
pub struct Followed<T>(Rc<RefCell<T>>);

impl<T> Clone for Followed<T> {
    fn clone(&self) -> Followed<T> {
        Followed(self.0.clone())
    }
}

impl<T: Follower + 'static> Followed<T> {
    /// Follows a machine whose guest has not run yet.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the engine cannot follow transfers of control.
    pub fn start(state: &mut State, mut follower: T) -> Result<Followed<T>, EngineError> {
        for record in &state.perf.records {
            if let Record::Mmap2 { addr, pgoff, path, .. } = record {
                follower.map(path, *addr, *pgoff);
            }
        }
        let followed = Followed(Rc::new(RefCell::new(follower)));
        state.core.follow(Box::new(followed.clone()))?;
        state.observer = Some(Box::new(followed.clone()));
        Ok(followed)
    }

    /// Reads it.
    ///
    /// # Panics
    ///
    /// While it is changed.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow()
    }

    /// Changes it.
    ///
    /// # Panics
    ///
    /// While it is read or changed.
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}

impl<T: Follower> FlowSink for Followed<T> {
    fn take(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        self.0.borrow_mut().stack_mut().events(events, saved);
    }

    fn is_function(&self, addr: u64) -> bool {
        self.0.borrow().stack().functions().starts_at(addr)
    }

    fn wants_registers(&self) -> bool {
        T::REGISTERS
    }
}

impl<T: Follower> Observer for Followed<T> {
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64, sp_was_set: bool) {
        self.0.borrow_mut().stack_mut().signal(interrupted, handler, restorer, sp_was_set);
    }

    fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>) {
        self.0.borrow_mut().stack_mut().sigreturn(regs, return_address);
    }

    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64) {
        self.0.borrow_mut().map(path, addr, pgoff);
    }

    fn sampled(&mut self, regs: &Regs, sp_was_set: bool, memory: Present<'_>) {
        self.0.borrow_mut().sampled(regs, sp_was_set, memory);
    }
}
