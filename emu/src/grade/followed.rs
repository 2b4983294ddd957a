//! One true stack, kept up to date by the engine and by the kernel.

use std::cell::{Ref, RefCell, RefMut};
use std::fmt::Debug;
use std::rc::Rc;

use arch::Regs;

use crate::engine::EngineError;
use crate::engine::flow::{CalleeSaved, Event, FlowSink};
use crate::export::Images;
use crate::grade::files::{Files, Mapped};
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

    /// A file of code was mapped: each once for each place. The stack has it already.
    fn map(&mut self, file: Mapped);

    /// A sample was taken, see [`Observer::sampled`].
    fn sampled(&mut self, _regs: &Regs, _sp_was_set: bool, _memory: Present<'_>) {}

    /// A sample has the registers of an earlier entry, see [`Observer::sampled_unsaved`].
    fn sampled_unsaved(&mut self, _regs: &Regs) {}
}

/// A handle to a [`Follower`]; clones lead to the same one. It passes on to the stack every
/// transfer of control that the engine sees, and what the kernel does to the thread.
#[derive(Debug)]
pub struct Followed<T>(Rc<RefCell<Shared<T>>>);

#[derive(Debug)]
struct Shared<T> {
    follower: T,
    files: Files,
}

impl<T: Follower> Shared<T> {
    fn map(&mut self, path: &str, addr: u64, pgoff: u64) {
        if let Some(file) = self.files.map(path, addr, pgoff) {
            self.follower.stack_mut().functions_mut().map_at(&file.bytes, file.bias);
            self.follower.map(file);
        }
    }
}

impl<T> Clone for Followed<T> {
    fn clone(&self) -> Followed<T> {
        Followed(self.0.clone())
    }
}

impl<T: Follower + 'static> Followed<T> {
    /// Follows a machine whose guest has not run yet. The bytes of what it maps are in
    /// `images`.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the engine cannot follow transfers of control.
    pub fn start(
        state: &mut State,
        images: Images,
        follower: T,
    ) -> Result<Followed<T>, EngineError> {
        let mut shared = Shared { follower, files: Files::new(images) };
        for record in &state.perf.records {
            if let Record::Mmap2 { addr, pgoff, path, .. } = record {
                shared.map(path, *addr, *pgoff);
            }
        }
        let followed = Followed(Rc::new(RefCell::new(shared)));
        state.core.follow(Box::new(followed.clone()))?;
        state.observer = Some(Box::new(followed.clone()));
        Ok(followed)
    }
}

impl<T> Followed<T> {
    /// Reads it.
    ///
    /// # Panics
    ///
    /// While it is changed.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref::map(self.0.borrow(), |shared| &shared.follower)
    }

    /// Mappings of code that the follower does not know, because there were too many files.
    ///
    /// # Panics
    ///
    /// While it is changed.
    pub fn refused_mappings(&self) -> u64 {
        self.0.borrow().files.refused()
    }

    /// Changes it.
    ///
    /// # Panics
    ///
    /// While it is read or changed.
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        RefMut::map(self.0.borrow_mut(), |shared| &mut shared.follower)
    }
}

impl<T: Follower> FlowSink for Followed<T> {
    fn take(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        self.borrow_mut().stack_mut().events(events, saved);
    }

    fn is_function(&self, addr: u64) -> bool {
        self.borrow().stack().functions().starts_at(addr)
    }

    fn wants_registers(&self) -> bool {
        T::REGISTERS
    }
}

impl<T: Follower> Observer for Followed<T> {
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64) {
        self.borrow_mut().stack_mut().signal(interrupted, handler, restorer);
    }

    fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>) {
        self.borrow_mut().stack_mut().sigreturn(regs, return_address);
    }

    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64) {
        self.0.borrow_mut().map(path, addr, pgoff);
    }

    fn sampled(&mut self, regs: &Regs, sp_was_set: bool, memory: Present<'_>) {
        self.borrow_mut().sampled(regs, sp_was_set, memory);
    }

    fn sampled_unsaved(&mut self, regs: &Regs) {
        self.borrow_mut().sampled_unsaved(regs);
    }
}
