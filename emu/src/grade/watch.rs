//! Keeps the true stack of a run and grades every sample.

use std::cell::RefCell;
use std::rc::Rc;

use arch::Regs;

use crate::engine::EngineError;
use crate::engine::flow::{CalleeSaved, Event, FlowSink};
use crate::export::Images;
use crate::grade::grader::{Grader, MethodTally};
use crate::kernel::State;
use crate::kernel::observer::Observer;
use crate::kernel::user::Present;
use crate::perf::record::{FileId, Record};
use crate::truth::Stack;

/// A handle; clones look at the same run.
#[derive(Clone, Debug)]
pub struct Watch(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    stack: Stack,
    grader: Grader,
    images: Images,
}

impl Watch {
    /// Watches a machine whose guest has not run yet.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if the engine cannot follow transfers of control.
    pub fn start(state: &mut State, images: Images) -> Result<Watch, EngineError> {
        let regs = state.core.regs();
        let stack = Stack::new(regs.arch, regs.sp());
        let grader = Grader::new(regs.arch);
        let watch = Watch(Rc::new(RefCell::new(Inner { stack, grader, images })));
        for record in &state.perf.records {
            if let Record::Mmap2 { addr, pgoff, path, .. } = record {
                watch.0.borrow_mut().map(path, *addr, *pgoff);
            }
        }
        state.core.follow(Box::new(watch.clone()))?;
        state.observer = Some(Box::new(watch.clone()));
        Ok(watch)
    }

    /// Reads the tallies.
    pub fn with_tallies<T>(&self, read: impl FnOnce(&[MethodTally]) -> T) -> T {
        read(self.0.borrow().grader.tallies())
    }
}

impl Inner {
    fn map(&mut self, path: &str, addr: u64, pgoff: u64) {
        // The unwind tables are those of the file as it is mapped, whatever its identity.
        if let Some(bytes) = self.images.get(path, &FileId::None).bytes() {
            self.stack.functions_mut().map(&bytes, addr, pgoff);
            self.grader.map(path, &bytes, addr, pgoff);
        }
    }
}

impl FlowSink for Watch {
    fn take(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        self.0.borrow_mut().stack.events(events, saved);
    }

    fn is_function(&self, addr: u64) -> bool {
        self.0.borrow().stack.functions().starts_at(addr)
    }
}

impl Observer for Watch {
    fn signal(&mut self, interrupted: &Regs, handler: &Regs, restorer: u64) {
        self.0.borrow_mut().stack.signal(interrupted, handler, restorer);
    }

    fn sigreturn(&mut self, regs: &Regs) {
        self.0.borrow_mut().stack.sigreturn(regs);
    }

    fn mapped(&mut self, path: &str, addr: u64, pgoff: u64) {
        self.0.borrow_mut().map(path, addr, pgoff);
    }

    fn sampled(&mut self, regs: &Regs, mut memory: Present<'_>) {
        let Inner { stack, grader, .. } = &mut *self.0.borrow_mut();
        let truth = stack.frames(regs.pc).map(|frame| frame.address.value());
        grader.grade(regs, truth, &mut memory);
    }
}
