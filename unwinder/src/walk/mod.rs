//! Whole walks.
//!
//! ```text
//! start: all registers              (address, sp, fp, lr): all that usual rules need
//!   │                                  │
//!   │   ┌─ usual rule ─────────────────┼─► caller's (address, sp, fp)
//!   │   ├─ any other that needs no more ─┘
//!   │   │
//!   └───┴─ any other ─► from the start again with all registers, through the rules of the
//!                       frames since then; the caller is the new start
//! ```
//!
//! The result is that of steps with all registers ([`crate::step()`]), and two checks more:
//! no frame lies below one that it called, and signals change stacks downwards only so often.
//! With the limit, no stack makes a walk endless.
//!
//! A [`Walk`] is an iterator; [`Walk::visit`] is quicker, and has the reason for the end at once.

mod quick;

use std::ops::Deref;

use arch::Arch;

use crate::brief::{Brief, Known, Spot};
use crate::cache::Table;
use crate::fp::{plain, unwind_user};
use crate::policy::OnFailure;
use crate::step::Caller;
use crate::unwind::{Failure, step};
use crate::{
    CodeAddress, Context, End, Memory, Method, Modules, Policy, Registers, ReturnAddress, signal,
};
use quick::{Near, Way};

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

/// A walk from a thread's registers to the outermost frame: an iterator over frames, which
/// tells afterwards why it ended.
#[derive(Debug)]
pub struct Walk<'a, D, M> {
    arch: Arch,
    policy: Policy,
    modules: &'a Modules<D>,
    memory: M,
    context: &'a mut Context,
    start: Start<'a>,
    spot: Spot,
    /// What the stack pointer of the frame is at least.
    floor: u64,
    /// Signals on a stack below that of their handler, so far.
    switches: u32,
    left: usize,
    started: bool,
    way: Way,
    /// There is one method only.
    alone: bool,
    /// The frame, as long as it is the quick way that finds it: `spot` and `floor` are those of
    /// the frame at which this began, and `left` was `before`.
    known: Option<Known>,
    before: usize,
    /// Where the quick way has looked last.
    near: Option<Near<'a, D>>,
    end: Option<End>,
}

/// A frame all of whose registers are there.
#[derive(Debug)]
struct Start<'a> {
    address: CodeAddress,
    registers: All<'a>,
    /// Frames since then.
    steps: usize,
}

/// Registers: those that a walk begins with, which it need not copy, or others.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nothing may allocate")]
enum All<'a> {
    Given(&'a Registers),
    Found(Registers),
}

impl All<'_> {
    fn all(&self) -> &Registers {
        match self {
            All::Given(registers) => registers,
            All::Found(registers) => registers,
        }
    }
}

/// Stacks that signal handlers may have been on.
const MAX_SWITCHES: u32 = 64;

/// What is done for the next frame.
enum Next {
    Found(Spot, Option<u64>),
    /// The rule is not a usual one.
    Step,
}

impl<'a, D: Deref<Target = [u8]>, M: Memory> Walk<'a, D, M> {
    /// Frames that a walk gives at most, if nothing else is said.
    pub const LIMIT: usize = 1 << 16;

    /// A walk that begins with the frame at `address`.
    #[inline]
    pub fn new(
        policy: Policy,
        modules: &'a Modules<D>,
        address: CodeAddress,
        registers: &'a Registers,
        memory: M,
        context: &'a mut Context,
    ) -> Walk<'a, D, M> {
        Walk {
            arch: registers.arch(),
            policy,
            modules,
            memory,
            way: Way::new(policy.first(), context.remembers()),
            alone: policy.is_single(),
            context,
            start: Start { address, registers: All::Given(registers), steps: 0 },
            spot: Spot::new(address, registers),
            floor: registers.sp().unwrap_or(0),
            switches: 0,
            left: Self::LIMIT,
            started: false,
            known: None,
            before: 0,
            near: None,
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

    /// The topmost frame, if it was not given yet, and what is known of it.
    #[inline(always)]
    fn first(&mut self) -> Option<(Frame, Option<Known>)> {
        if self.started || self.left == 0 {
            return None;
        }
        self.started = true;
        self.left -= 1;
        self.before = self.left;
        // Not out of `self.spot`, where all of this is, too: it was written just now, and to be
        // read in pieces of another size it would have to reach memory first.
        let (address, registers) = (self.start.address, self.start.registers.all());
        let spot = Spot::new(address, registers);
        let known = self.known_of(&spot, registers.sp().unwrap_or(0));
        Some((Frame { address, cfa: None, method: None }, known))
    }

    /// There is no further frame.
    fn close(&mut self, end: End) {
        (self.end, self.left, self.known) = (Some(end), 0, None);
    }

    #[inline(never)]
    fn careful(&mut self) -> Option<Frame> {
        if self.end.is_some() {
            return None;
        }
        self.settle();
        let Some(left) = self.left.checked_sub(1) else {
            self.end = Some(End::Limit);
            return None;
        };
        self.left = left;
        match self.advance() {
            Ok(frame) => {
                self.hurry();
                Some(frame)
            }
            Err(end) => {
                self.close(end);
                None
            }
        }
    }

    fn advance(&mut self) -> Result<Frame, End> {
        let mut end = End::NoRow(self.spot.address);
        for method in self.policy.methods() {
            match self.attempt(method) {
                Ok(Next::Found(spot, cfa)) => {
                    self.start.steps += 1;
                    return self.go(spot, cfa, method);
                }
                Ok(Next::Step) => return self.by_a_step(),
                Err(failure) => end = failure.go_on(&self.policy)?,
            }
        }
        Err(end)
    }

    fn attempt(&mut self, method: Method) -> Result<Next, Failure> {
        match method {
            Method::Dwarf => self.table(Table::Dwarf),
            Method::Sframe => self.table(Table::Sframe),
            Method::FramePointer => self.frame_pointer().map_err(Failure::Rule),
            Method::UnwindUser => self.unwind_user().map_err(Failure::Rule),
            Method::SignalCode => {
                match signal::is_trampoline(self.spot.address, &mut self.memory) {
                    true => Ok(Next::Step),
                    false => Err(Failure::NoRule(End::NoRow(self.spot.address))),
                }
            }
        }
    }

    fn table(&mut self, table: Table) -> Result<Next, Failure> {
        let address = self.spot.address;
        match self.context.brief(self.modules, address.lookup(), table) {
            Brief::Usual(rule) => {
                let arch = self.arch;
                let caller = rule.apply(arch, &self.spot, &mut self.memory);
                let (spot, cfa) = caller.map_err(Failure::Rule)?;
                Ok(Next::Found(spot, Some(cfa)))
            }
            Brief::Outermost => Err(Failure::Rule(End::Undefined)),
            Brief::NoModule => Err(Failure::NoRule(End::NoModule(address))),
            Brief::NotCovered => Err(Failure::NoRule(End::NoRow(address))),
            Brief::Long => Ok(Next::Step),
        }
    }

    fn frame_pointer(&mut self) -> Result<Next, End> {
        let arch = self.arch;
        let fp = self.spot.fp.ok_or(End::UnknownRegister(arch.fp() as u8))?;
        let record = plain::record(arch, self.spot.sp, fp, &mut self.memory)?;
        let address = ReturnAddress(record.return_address).into();
        let spot = Spot { address, sp: record.cfa, fp: Some(record.next), lr: None };
        Ok(Next::Found(spot, record.cfa))
    }

    fn unwind_user(&mut self) -> Result<Next, End> {
        let arch = self.arch;
        let sp = self.spot.sp.ok_or(End::UnknownRegister(arch.sp() as u8))?;
        let fp = self.spot.fp.ok_or(End::UnknownRegister(arch.fp() as u8))?;
        let record = unwind_user::record(sp, fp, &mut self.memory)?;
        let address = ReturnAddress(arch.strip_pac(record.return_address)).into();
        let spot = Spot { address, sp: Some(record.cfa), fp: Some(record.fp), lr: None };
        Ok(Next::Found(spot, Some(record.cfa)))
    }

    /// The next frame by a rule that is not usual.
    #[cold]
    fn by_a_step(&mut self) -> Result<Frame, End> {
        if let Some(frame) = self.with_these_registers() {
            return frame;
        }
        for _ in 0..self.start.steps {
            self.step_from_start()?;
        }
        let (cfa, method) = self.step_from_start()?;
        self.start.steps = 0;
        self.go(Spot::new(self.start.address, self.start.registers.all()), cfa, method)
    }

    /// The next frame, if its rules need no register that is not at hand.
    fn with_these_registers(&mut self) -> Option<Result<Frame, End>> {
        if self.policy.on_failure != OnFailure::End {
            return None; // what fails for want of a register might hide a rule
        }
        let registers = self.spot.registers(self.arch);
        let (address, memory) = (self.spot.address, &mut self.memory);
        let unwound =
            step(&self.policy, self.modules, address, &registers, memory, self.context).ok()?;
        let Caller { address, registers, cfa } = unwound.caller;
        registers.sp().and(registers.fp())?;
        self.start.steps += 1;
        if registers.known() == Registers::all(self.arch) {
            // A signal's frame, which has all of them.
            self.start = Start { address, registers: All::Found(registers), steps: 0 };
        }
        Some(self.go(Spot::new(address, &registers), cfa, unwound.method))
    }

    fn step_from_start(&mut self) -> Result<(Option<u64>, Method), End> {
        let Start { address, registers, .. } = &self.start;
        let unwound = step(
            &self.policy,
            self.modules,
            *address,
            registers.all(),
            &mut self.memory,
            self.context,
        )?;
        self.start.address = unwound.caller.address;
        self.start.registers = All::Found(unwound.caller.registers);
        Ok((unwound.caller.cfa, unwound.method))
    }

    /// Takes the caller for the frame, if it can be one.
    fn go(&mut self, spot: Spot, cfa: Option<u64>, method: Method) -> Result<Frame, End> {
        let signal = matches!(spot.address, CodeAddress::Interrupted(_));
        let floor = match cfa {
            _ if signal => spot.sp.unwrap_or(0),
            Some(cfa) => cfa,
            // The frame record is in the frame.
            None => self.spot.fp.map_or(self.floor, |fp| fp.saturating_add(16)),
        };
        let leaf = !signal && self.spot.address.is_exact() && floor == self.floor;
        if floor <= self.floor && !leaf {
            if !signal || self.switches == MAX_SWITCHES {
                return Err(End::NoProgress { sp: self.floor, cfa: floor });
            }
            self.switches += 1;
        }
        self.floor = floor;
        self.spot = spot;
        Ok(Frame { address: spot.address, cfa, method: Some(method) })
    }
}

impl<D: Deref<Target = [u8]>, M: Memory> Iterator for Walk<'_, D, M> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        match self.quick() {
            None => match self.first() {
                Some((frame, known)) => {
                    self.known = known;
                    Some(frame)
                }
                None => self.careful(),
            },
            found => found,
        }
    }
}
