//! The true stack of each task, kept up to date by the engine and by the kernel.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::rc::Rc;

use arch::Regs;

use crate::engine::EngineError;
use crate::engine::flow::{CalleeSaved, Event, FlowSink, Transfer};
use crate::export::Images;
use crate::grade::files::{Files, Mapped};
use crate::kernel::State;
use crate::kernel::observer::Observer;
use crate::kernel::task::TaskId;
use crate::kernel::user::Present;
use crate::perf::encode::PROT_EXEC;
use crate::perf::record::Record;
use crate::truth::Stack;

/// Name of the page that probed functions return to.
const TRAMPOLINE: &str = "[uprobes]";

/// Who uses a true stack, and has it.
pub trait Follower: Debug {
    /// Whether the stack shall know the callee-saved registers of each frame.
    const REGISTERS: bool = false;

    /// The stack of the task that runs.
    fn stack(&self) -> &Stack;

    /// The same, for those who tell what happens to it.
    fn stack_mut(&mut self) -> &mut Stack;

    /// A file of code was mapped: each once for each place. The stack has it already.
    fn map(&mut self, file: Mapped);

    /// A sample was taken, see [`Observer::sampled`].
    fn sampled(&mut self, _regs: &Regs, _kernel: &[u64], _sp_was_set: bool, _memory: Present<'_>) {}

    /// A sample has the registers of an earlier entry, see [`Observer::sampled_unsaved`].
    fn sampled_unsaved(&mut self, _regs: &Regs) {}

    /// A sample of a task that has begun another program: the methods have the first one's
    /// tables.
    fn sampled_elsewhere(&mut self, _regs: &Regs) {}
}

/// A handle to a [`Follower`]; clones lead to the same one. It passes on to the stack every
/// transfer of control that the engine sees, and what the kernel does to the thread.
#[derive(Debug)]
pub struct Followed<T>(Rc<RefCell<Shared<T>>>);

#[derive(Debug)]
struct Shared<T> {
    follower: T,
    files: Files,
    /// Whose stack the follower has.
    task: TaskId,
    /// Those of the other tasks.
    others: BTreeMap<TaskId, Stack>,
    /// Tasks with another program than the first: the files of that are not theirs.
    elsewhere: BTreeSet<TaskId>,
    /// Where the kernel has mapped its trampoline, in any process.
    trampolines: BTreeSet<u64>,
    /// Tasks that have returned there: how.
    returning: BTreeMap<TaskId, Event>,
}

impl<T: Follower> Shared<T> {
    fn about(&mut self, task: TaskId) {
        if task == self.task {
            return;
        }
        let stack = self.follower.stack_mut();
        let next = self.others.remove(&task).unwrap_or_else(|| stack.clone());
        let before = std::mem::replace(stack, next);
        self.others.insert(std::mem::replace(&mut self.task, task), before);
    }

    fn fork(&mut self, parent: TaskId, child: TaskId, sp: u64) {
        self.about(parent);
        let stack = self.follower.stack();
        // A child without a stack of its own has a copy of its parent's, frames and all.
        let copy = if sp == 0 { stack.clone() } else { stack.of_thread(sp) };
        self.others.insert(child, copy);
        if self.elsewhere.contains(&parent) {
            self.elsewhere.insert(child);
        }
    }

    /// A return to the trampoline is none yet: the kernel will say where it leads.
    fn events(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        let there = |e: &&Event| e.kind != Transfer::Call && self.trampolines.contains(&e.to);
        let Some(last) = events.iter().rfind(there).copied() else {
            return self.follower.stack_mut().events(events, saved);
        };
        let others: Vec<Event> = events.iter().filter(|e| !there(e)).copied().collect();
        self.returning.insert(self.task, last);
        self.follower.stack_mut().events(&others, saved);
    }

    fn map(&mut self, path: &str, addr: u64, pgoff: u64) {
        if self.elsewhere.contains(&self.task) {
            return;
        }
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
        let mut shared = Shared {
            follower,
            files: Files::new(images),
            task: state.task.id,
            others: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            trampolines: BTreeSet::new(),
            returning: BTreeMap::new(),
        };
        for record in &state.perf.main.records {
            if let Record::Mmap2 { addr, pgoff, path, prot, .. } = record
                && prot & PROT_EXEC != 0
            {
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
        let shared = &mut *self.0.borrow_mut();
        if shared.trampolines.is_empty() {
            return shared.follower.stack_mut().events(events, saved);
        }
        shared.events(events, saved);
    }

    fn is_function(&self, addr: u64) -> bool {
        self.borrow().stack().functions().starts_at(addr)
    }

    fn wants_registers(&self) -> bool {
        T::REGISTERS
    }
}

impl<T: Follower> Observer for Followed<T> {
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64, sp_was_set: bool) {
        self.borrow_mut().stack_mut().signal(interrupted, handler, restorer, sp_was_set);
    }

    fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>) {
        self.borrow_mut().stack_mut().sigreturn(regs, return_address);
    }

    fn about(&mut self, task: TaskId) {
        self.0.borrow_mut().about(task);
    }

    fn forked(&mut self, parent: TaskId, child: TaskId, stack: u64) {
        self.0.borrow_mut().fork(parent, child, stack);
    }

    fn exec(&mut self, regs: &Regs) {
        let shared = &mut *self.0.borrow_mut();
        let stack = shared.follower.stack_mut();
        *stack = stack.of_thread(regs.sp());
        shared.elsewhere.insert(shared.task);
    }

    fn exited(&mut self, task: TaskId) {
        let shared = &mut *self.0.borrow_mut();
        shared.others.remove(&task);
        shared.elsewhere.remove(&task);
        shared.returning.remove(&task);
    }

    fn transferred(&mut self, event: &Event, direct: bool) {
        let shared = &mut *self.0.borrow_mut();
        if !direct || shared.follower.stack().functions().starts_at(event.to) {
            shared.events(&[*event], &[]);
        }
    }

    fn returned(&mut self, to: u64) {
        let shared = &mut *self.0.borrow_mut();
        if let Some(event) = shared.returning.remove(&shared.task) {
            shared.follower.stack_mut().events(&[Event { to, ..event }], &[]);
        }
    }

    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64) {
        if path == TRAMPOLINE {
            self.0.borrow_mut().trampolines.insert(addr);
        }
        self.0.borrow_mut().map(path, addr, pgoff);
    }

    fn sampled(&mut self, regs: &Regs, kernel: &[u64], sp_was_set: bool, memory: Present<'_>) {
        let shared = &mut *self.0.borrow_mut();
        if shared.elsewhere.contains(&shared.task) {
            return shared.follower.sampled_elsewhere(regs);
        }
        shared.follower.sampled(regs, kernel, sp_was_set, memory);
    }

    fn sampled_unsaved(&mut self, regs: &Regs) {
        self.borrow_mut().sampled_unsaved(regs);
    }
}
