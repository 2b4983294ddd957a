//! Whole walks.

use std::ops::Deref;

use crate::unwind::step;
use crate::{CodeAddress, Context, End, Memory, Method, Modules, Policy, Registers};

/// A frame of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it is.
    pub address: CodeAddress,
    /// Canonical frame address of the frame that it called, where the method knows it: this
    /// frame's stack pointer, unless a signal came between.
    pub cfa: Option<u64>,
    /// How it was found; `None` for the topmost frame.
    pub method: Option<Method>,
}

/// A walk from a thread's registers to the outermost frame.
#[derive(Debug)]
pub struct Walk<'a, D, M> {
    policy: Policy,
    modules: &'a Modules<D>,
    memory: M,
    context: &'a mut Context,
    address: CodeAddress,
    registers: Registers,
    left: usize,
    next: Option<Frame>,
    end: Option<End>,
}

impl<'a, D: Deref<Target = [u8]>, M: Memory> Walk<'a, D, M> {
    /// Frames that a walk gives at most, if nothing else is said.
    pub const LIMIT: usize = 1 << 16;

    /// A walk that begins with the frame at `address`.
    pub fn new(
        policy: Policy,
        modules: &'a Modules<D>,
        address: CodeAddress,
        registers: &Registers,
        memory: M,
        context: &'a mut Context,
    ) -> Walk<'a, D, M> {
        Walk {
            policy,
            modules,
            memory,
            context,
            address,
            registers: *registers,
            left: Self::LIMIT,
            next: Some(Frame { address, cfa: None, method: None }),
            end: None,
        }
    }

    /// Gives `frames` frames at most.
    #[must_use]
    pub fn limit(mut self, frames: usize) -> Walk<'a, D, M> {
        self.left = frames;
        self
    }

    /// Why there is no further frame, once there is none.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    fn advance(&mut self) -> Result<Frame, End> {
        let unwound = step(
            &self.policy,
            self.modules,
            self.address,
            &self.registers,
            &mut self.memory,
            self.context,
        )?;
        (self.address, self.registers) = (unwound.caller.address, unwound.caller.registers);
        let method = Some(unwound.method);
        Ok(Frame { address: self.address, cfa: unwound.caller.cfa, method })
    }
}

impl<D: Deref<Target = [u8]>, M: Memory> Iterator for Walk<'_, D, M> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.end.is_some() {
            return None;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.end = Some(End::Limit);
            return None;
        };
        let frame = match self.next.take() {
            Some(first) => Ok(first),
            None => self.advance(),
        };
        self.left = left;
        frame.map_err(|end| self.end = Some(end)).ok()
    }
}
