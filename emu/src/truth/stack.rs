//! Live frames from calls, returns, jumps and signals.
//!
//! A call at stack pointer `sp` makes a frame with
//!
//! ```text
//! CFA = sp before the call
//! ra  = address after the call
//! ```
//!
//! and a return to `ra` with `sp = CFA` ends it. A call over the return address of a frame ends
//! that, too: its `call` only read the PC, or it threw its return address away. What else goes by a
//! register or the stack, or to a function's start, is one of these, tried in this order:
//!
//! ```text
//! R1  to = ra and sp = CFA of the innermost frame         a return
//! R2  the same of an outer frame                          returns at once from several
//!     x86_64: sp ≥ CFA, and was only moved                frames end, whatever `to` is: their
//!                                                         return addresses are off the stack
//!     aarch64: a return at sp = CFA, into the caller      a return over data behind the call
//! R3  the same of the innermost frame of another stack    a coroutine goes on
//! R4  sp was not set by itself, only moved;               a return to ra of the innermost frame:
//!     or it is below the CFA and the function the same;   it took its arguments off the stack
//!     or to is a function's start and sp as at the start  (ret imm16) or left a frame there for
//!                                                         its caller (an outlined prologue);
//!                                                         else a jump in the function, a tail
//!                                                         call
//!     it was set to the start of an outer function, and   a tail call of that one
//!     to is a function's start
//! R5  sp is that before the call of a live frame's        longjmp, a C++ landing pad: frames up
//!     callee, or above CFAs of live frames                to there are dead
//! R6  sp lies in the span of another stack                the same on that stack
//! R7  sp is not in the span of any stack, or is nowhere   a new stack begins
//!     that was called from, at a function's start
//! ```
//!
//! "Set by itself" is `mov rsp, …`, `leave`, `mov sp, …` and the like, since the last event: only
//! they can change stacks. R4 comes first if `sp` is inside the innermost frame and was not set: by
//! far the most jumps. A call never changes stacks: a function that moves to another stack and
//! calls there will come back, so its frames stay live.
//!
//! A jump of R4 to another function's start, with the stack pointer as at the start of the
//! running one, is a tail call. With a lower one it may be a call: see `gap.rs`.

use arch::{Arch, Regs};
use unwinder::{CodeAddress, InterruptedAddress, ReturnAddress};

use crate::engine::flow::{CalleeSaved, Event, Transfer};
use crate::truth::cut::MAX_ELSEWHERE;
use crate::truth::functions::Functions;
use crate::truth::gap::{Site, Until, Was};
use crate::truth::strand::{Frame, Strand};
use crate::truth::tails::Tail;

/// What one step from the innermost frame must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueCaller<'a> {
    /// Where the caller goes on.
    pub address: CodeAddress,
    /// Its stack pointer there.
    pub sp: u64,
    /// Its callee-saved registers, if they are kept.
    pub saved: Option<&'a CalleeSaved>,
    /// The innermost frame is the kernel's: code that calls `rt_sigreturn`.
    pub signal: bool,
}

/// The true stack of one thread.
#[derive(Clone, Debug)]
pub struct Stack {
    arch: Arch,
    functions: Functions,
    strands: Vec<Strand>,
    current: usize,
    /// Changes of stacks so far.
    switches: u64,
    /// Frames and tail calls on the stacks that are not in use.
    elsewhere: usize,
    /// Some stack was forgotten: one that is not known may be it.
    forgotten: bool,
    /// A handler has returned to where the stack pointer was set, and no transfer of control
    /// came since.
    resumed_set: bool,
}

/// Stacks that are remembered at most: those that were left longest ago are forgotten.
pub(super) const MAX_STRANDS: usize = 4096;

/// A function's own frame is not larger, in doubt.
const LARGEST_FRAME: u64 = 64 << 10;

/// A call to the own function, so far ahead at most, may be none: it only pushes.
const AHEAD: u64 = 64;

/// A signal's frame is not larger: one that is further away is on another stack.
const SIGNAL_FRAME: u64 = 8 << 10;

impl Stack {
    /// A thread that starts with this stack pointer.
    pub fn new(arch: Arch, sp: u64) -> Stack {
        let (functions, strands) = (Functions::new(), vec![Strand::at(sp)]);
        let (forgotten, resumed_set, current, switches, elsewhere) = (false, false, 0, 0, 0);
        Stack { arch, functions, strands, current, switches, elsewhere, forgotten, resumed_set }
    }

    /// A thread of the same program that starts with this stack pointer.
    pub fn of_thread(&self, sp: u64) -> Stack {
        Stack { functions: self.functions.clone(), ..Stack::new(self.arch, sp) }
    }

    /// Where functions are known to start.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The same, to add some.
    pub fn functions_mut(&mut self) -> &mut Functions {
        &mut self.functions
    }

    /// Takes transfers of control. `saved` has the callee-saved registers at each call among
    /// them, if they are kept.
    pub fn events(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        let (mut saved, mut events) = (saved.iter(), events);
        // The handler's own transfers have hidden it.
        if let Some((first, others)) = events.split_first().filter(|_| self.resumed_set) {
            self.resumed_set = false;
            let registers = if first.kind == Transfer::Call { saved.next() } else { None };
            self.event(&Event { sp_was_set: true, ..*first }, registers);
            events = others;
        }
        for e in events {
            let registers = if e.kind == Transfer::Call { saved.next() } else { None };
            self.event(e, registers);
        }
    }

    /// Takes a transfer of control.
    #[inline(always)]
    pub(super) fn event(&mut self, e: &Event, saved: Option<&CalleeSaved>) {
        match e.kind {
            Transfer::Call => {
                // x86_64 has pushed the return address.
                let cfa = e.sp.wrapping_add(self.slot());
                // Another stack may be anywhere.
                if !e.sp_was_set {
                    self.end_overwritten(e, cfa);
                }
                let frame = Frame::of_call(e.next, cfa, e.to);
                self.strands[self.current].push(frame, saved);
                if e.to.wrapping_sub(e.next) < AHEAD {
                    self.doubt_call(e);
                }
            }
            Transfer::Return | Transfer::Jump => {
                let strand = &mut self.strands[self.current];
                match strand.frames.last() {
                    Some(f) if f.is_left_by(e) => strand.pop(),
                    _ => self.other_transfer(e),
                }
            }
        }
    }

    /// A call a few instructions ahead, if not to a function: to read the PC, or to have a place
    /// for the address that `ret` jumps to (retpolines).
    #[cold]
    fn doubt_call(&mut self, e: &Event) {
        let functions = &mut self.functions;
        if !functions.is_tail_call(e.next, e.to)
            && functions.same(e.next.wrapping_sub(1), e.to)
            && !functions.starts_at(e.to)
        {
            let strand = &mut self.strands[self.current];
            strand.note();
            strand.gaps.push(strand.frames.len(), Until::FrameEnds);
        }
    }

    /// Control goes on on another stack, or on the same.
    fn switch_to(&mut self, strand: usize) {
        self.elsewhere += self.leave();
        self.elsewhere -= self.strands[strand].weight();
        self.current = strand;
        self.bound_elsewhere();
    }

    /// The current stack is left; returns what it holds.
    fn leave(&mut self) -> usize {
        let strand = &mut self.strands[self.current];
        strand.left = self.switches;
        strand.shrink();
        self.switches += 1;
        strand.weight()
    }

    /// Of the stacks that are not in use the largest ones lose frames until there are few
    /// enough.
    fn bound_elsewhere(&mut self) {
        let current = self.current;
        while self.elsewhere > MAX_ELSEWHERE {
            let others = self.strands.iter_mut().enumerate().filter(|(i, _)| *i != current);
            let Some((_, largest)) = others.max_by_key(|(_, s)| s.weight()) else { break };
            let before = largest.weight();
            largest.forget_half();
            if largest.tails.len() > largest.frames.len() {
                largest.tails.forget_half();
            }
            largest.shrink();
            self.elsewhere -= before - largest.weight();
        }
    }

    /// Frames that a call at `cfa` shows to be dead: their return addresses are gone, as that
    /// of a `call` that only reads the PC.
    ///
    /// ```text
    /// x86_64    CFA ≤ that of the call: its return address lies over theirs
    /// aarch64   CFA < that of the call, or equal with the same return address
    /// ```
    fn end_overwritten(&mut self, e: &Event, cfa: u64) {
        let arch = self.arch;
        let strand = &mut self.strands[self.current];
        let dead = |f: &Frame| {
            let over = match arch {
                Arch::X86_64 => f.cfa <= cfa,
                Arch::Aarch64 => f.cfa < cfa || f.cfa == cfa && f.goes_on == e.next,
            };
            over && !f.signal
        };
        // Nearly always none is.
        if strand.frames.last().is_some_and(dead) {
            strand.end_those(dead, cfa);
        }
    }

    /// How far a function's stack pointer is below its CFA when it starts.
    const fn slot(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => 8,
            Arch::Aarch64 => 0,
        }
    }

    /// R2 to R7.
    #[cold]
    #[inline(never)]
    fn other_transfer(&mut self, e: &Event) {
        let slot = self.slot();
        let strand = &mut self.strands[self.current];
        strand.enter_cut();
        strand.gaps.pass(strand.frames.len(), e, slot, &self.functions);
        let top = |f: &Frame| {
            if e.kind == Transfer::Jump { f.cfa.wrapping_sub(slot) } else { f.cfa.wrapping_sub(1) }
        };
        let inside = strand.frames.last().is_none_or(|f| e.sp <= top(f));
        if !e.sp_was_set && inside {
            return self.stay(e); // R4, by far the most frequent: no search
        }
        // R2 on x86_64, and a return that has thrown away its frame.
        let passed = if e.sp_was_set { None } else { strand.end_passed(e, slot) };
        match passed {
            Some(true) => return,
            Some(false) if slot > 0 => return self.stay(e),
            _ => {}
        }
        if strand.pop_through(|f| f.is_left_by(e)).is_some() {
            return; // R2
        }
        let resumed = |s: &Strand| s.frames.last().is_some_and(|f| f.is_left_by(e));
        if let Some(other) = self.strands.iter().position(resumed) {
            self.switch_to(other); // R3
            self.strands[other].pop();
            return;
        }
        if self.returns_beside(e) {
            return self.strands[self.current].pop();
        }
        if !e.sp_was_set || self.is_at_start(e) || self.is_in_function(e) {
            return self.stay(e); // R4
        }
        if self.is_outer_tail_call(e) {
            return;
        }
        match self.place(e) {
            Some(strand) => {
                self.switch_to(strand); // R5, R6
                self.strands[strand].unwind_to(e, &self.functions);
            }
            None => {
                // A stack that began here is gone: this one is in its memory.
                self.leave();
                self.strands.retain(|s| s.start != e.sp);
                if self.strands.len() >= MAX_STRANDS {
                    self.forgotten = true;
                    let oldest = (0..self.strands.len()).min_by_key(|&i| self.strands[i].left);
                    self.strands.swap_remove(oldest.unwrap_or_default());
                }
                let mut strand = Strand::at(e.sp);
                if self.forgotten && !self.functions.starts_at(e.to) {
                    strand.note();
                    strand.gaps.push(0, Until::FrameEnds);
                }
                self.strands.push(strand); // R7
                self.current = self.strands.len() - 1;
                self.elsewhere = self.strands.iter().map(Strand::weight).sum();
                self.bound_elsewhere();
            }
        }
    }

    /// A return to another place in the caller than behind the call, over data that lies there.
    /// On x86_64 the stack pointer says that it is one.
    fn returns_beside(&self, e: &Event) -> bool {
        let last = self.strands[self.current].frames.last();
        last.is_some_and(|f| {
            e.kind == Transfer::Return
                && (f.cfa == e.sp && !f.signal && !e.sp_was_set)
                && self.functions.same(f.goes_on.wrapping_sub(1), e.to)
                && !self.functions.starts_at(e.to)
        })
    }

    /// The stack pointer was set to where it was at the start of a function that has a frame, and
    /// another function is jumped to: that is a tail call of it, if so, and ends the frames
    /// inside.
    fn is_outer_tail_call(&mut self, e: &Event) -> bool {
        let slot = self.slot();
        let strand = &mut self.strands[self.current];
        let entered = |f: &Frame| !f.signal && f.cfa.wrapping_sub(slot) == e.sp;
        let Some(index) = strand.frames.iter().rposition(entered) else { return false };
        let is_call = self.functions.starts_at(e.to) && !strand.is_in_cut();
        if is_call {
            strand.truncate(index + 1);
            strand.note();
            strand.tails.push(index + 1, Tail { next: e.next, to: e.to });
        }
        is_call
    }

    /// A jump to a function's start, with the stack pointer as at the running one's.
    fn is_at_start(&self, e: &Event) -> bool {
        e.sp == self.start_sp() && self.functions.starts_at(e.to)
    }

    /// The stack pointer at the start of the running function.
    fn start_sp(&self) -> u64 {
        let strand = &self.strands[self.current];
        match strand.frames.last() {
            Some(f) => f.cfa.wrapping_sub(self.slot()),
            None => strand.start,
        }
    }

    /// A jump inside the running function, in its frame, whatever the size of that: behind
    /// `alloca`, say.
    fn is_in_function(&self, e: &Event) -> bool {
        let strand = &self.strands[self.current];
        let slot = self.slot();
        let within = |f: &Frame| !f.signal && e.sp <= f.cfa.wrapping_sub(slot);
        let own = strand.frames.last().is_some_and(within);
        let near = || strand.spans(e.sp) || self.strands.iter().all(|s| !s.spans(e.sp));
        own && self.functions.same(e.next.wrapping_sub(1), e.to) && near()
    }

    /// No frame ends but by a return that moved the stack (R4).
    fn stay(&mut self, e: &Event) {
        let strand = &mut self.strands[self.current];
        // In a recursion the return addresses of frames that are not kept are the same.
        let returns = |f: &Frame| f.goes_on == e.to && !f.signal && !strand.is_in_cut();
        if e.kind == Transfer::Return && !e.sp_was_set && strand.frames.last().is_some_and(returns)
        {
            return strand.pop();
        }
        let (start, slot) = (self.start_sp(), self.slot());
        if e.sp > start || !self.functions.is_tail_call(e.next, e.to) {
            return;
        }
        let strand = &mut self.strands[self.current];
        let depth = strand.frames.len();
        strand.note();
        if e.sp == start {
            strand.tails.push(depth, Tail { next: e.next, to: e.to });
        } else if e.to != e.next {
            // It may have put a return address there.
            let site = Site { next: e.next, to: e.to };
            match strand.gaps.was(site) {
                None => strand.gaps.push(depth, Until::Left { sp: e.sp, site }),
                Some(Was::Jump) => {}
                Some(Was::Call { returned_to }) => {
                    let cfa = e.sp.wrapping_add(slot);
                    strand.push(Frame::of_call(returned_to, cfa, e.to), None);
                }
            }
        }
    }

    /// The stack on which control goes on; `None` for a new one.
    fn place(&self, e: &Event) -> Option<usize> {
        let starts = self.functions.starts_at(e.to);
        let here = &self.strands[self.current];
        if here.spans(e.sp) && !starts {
            return Some(self.current);
        }
        // Stacks may lie in each other: an array in a function's frame.
        let spans = self.strands.iter().enumerate();
        let spans = spans.filter_map(|(i, s)| Some((s.span_around(e.sp)?, i)));
        if let Some((_, other)) = spans.min().filter(|_| !starts) {
            return Some(other);
        }
        // Just below: a function's own frame, since calls and signals show where the stack
        // pointer was.
        let near = !starts && here.is_below(e.sp, LARGEST_FRAME) && !self.forgotten;
        near.then_some(self.current)
    }

    /// The kernel interrupted the thread at `regs` and made it enter a handler, which returns
    /// to `restorer`. `sp_was_set`: as in [`Event`], since the last one.
    pub fn signal(&mut self, regs: &Regs, handler: &Regs, restorer: u64, sp_was_set: bool) {
        let cfa = handler.sp().wrapping_add(self.slot());
        let sp_was_set = sp_was_set || self.resumed_set;
        let is_between = !self.is_inside(regs.sp(), sp_was_set);
        self.resumed_set = false;
        let strand = &mut self.strands[self.current];
        let (before, inside) = (callee_saved(regs), callee_saved(handler));
        let (goes_on, entry) = (regs.pc, restorer);
        let frame = Frame { goes_on, cfa: regs.sp(), entry, signal: true, sp_was_set };
        let low = strand.segment.low;
        if is_between {
            strand.note();
            strand.gaps.push(strand.frames.len(), Until::HandlerReturns);
        }
        strand.push(frame, Some(&before));
        if is_between {
            // What is between the two stacks belongs to none.
            strand.segment.low = low;
        }
        let is_far = regs.sp().checked_sub(cfa).is_none_or(|distance| distance > SIGNAL_FRAME);
        if is_between || is_far {
            strand.enter_segment(cfa);
        }
        let frame = Frame::of_call(restorer, cfa, handler.pc);
        strand.push(frame, Some(&inside));
    }

    /// `rt_sigreturn` gave the thread these registers. A function that is entered with them
    /// returns to `return_address`, if that is known.
    pub fn sigreturn(&mut self, regs: &Regs, return_address: Option<u64>) {
        let returns = |f: &Frame| f.signal;
        if self.strands[self.current].end_removed_signal() {
            return;
        }
        let mut interrupted = self.strands[self.current].pop_through(returns);
        if interrupted.is_none() {
            // The handler changed stacks: the signal's frame is on another one.
            let holds = |s: &Strand| s.frames.iter().any(|f| f.signal);
            if let Some(other) = self.strands.iter().rposition(holds) {
                self.switch_to(other);
                interrupted = self.strands[other].pop_through(returns);
            }
        }
        let strand = &mut self.strands[self.current];
        strand.gaps.handler_returned(strand.frames.len());
        let (to, sp) = (regs.pc, regs.sp());
        // The handler may have stepped over an instruction.
        let functions = &self.functions;
        let same = |f: &Frame| f.cfa == sp && (f.goes_on == to || functions.same(f.goes_on, to));
        self.resumed_set = interrupted.is_some_and(|f| f.sp_was_set && f.cfa == sp);
        if !interrupted.as_ref().is_some_and(same) {
            // The handler has edited the context.
            let faked = |goes_on: &u64| {
                interrupted.as_ref().is_some_and(|f| self.fakes_call(f, regs, *goes_on))
            };
            if let Some(goes_on) = return_address.filter(faked) {
                let cfa = sp.wrapping_add(self.slot());
                let frame = Frame::of_call(goes_on, cfa, to);
                return self.strands[self.current].push(frame, Some(&callee_saved(regs)));
            }
            // The instruction that was interrupted is taken for the one that jumps.
            let next = interrupted.map_or(to, |f| f.goes_on).wrapping_add(1);
            self.other_transfer(&Event { kind: Transfer::Jump, next, to, sp, sp_was_set: true });
        }
    }

    /// Whether a handler made it look as if the code that `signal` interrupted had called a
    /// function, as Go's runtime does for a fault:
    ///
    /// ```text
    /// pc is a function's start, and on the interrupted stack, at or little below its sp;
    /// the function entered there returns into the one that was interrupted
    /// ```
    fn fakes_call(&self, signal: &Frame, regs: &Regs, goes_on: u64) -> bool {
        /// The red zone of x86_64, a frame record of aarch64, a word.
        const MOST: u64 = 128 + 16;
        let (to, sp) = (regs.pc, regs.sp());
        signal.cfa.checked_sub(sp).is_some_and(|pushed| (self.slot()..=MOST).contains(&pushed))
            && self.functions.starts_at(to)
            && self.functions.same(goes_on, signal.goes_on)
    }

    /// What one step from the innermost frame must give; `None` if that is the outermost one.
    pub fn caller(&self) -> Option<TrueCaller<'_>> {
        let strand = self.strand();
        let frame = strand.frames.last()?;
        let kept = strand.saved.len() == strand.frames.len();
        let saved = if kept { strand.saved.last() } else { None };
        let address = frame.caller_address();
        Some(TrueCaller { address, sp: frame.cfa, saved, signal: frame.signal })
    }

    /// Whether a thread with this stack pointer is in the innermost frame, as far as that can be
    /// told. It is not when that frame is not kept (there were more than
    /// [`crate::truth::cut::MAX_LIVE_FRAMES`]), and when the stack pointer has left the frame and
    /// the transfer of control that ends it is yet to come: inside `longjmp`, or a switch of
    /// stacks. `sp_was_set`: as in [`Event`], since the last one.
    ///
    /// ```text
    /// sp ≤ CFA − (x86_64: 8, the return address)
    /// and, if it was set, sp is on the current stack or just below
    /// ```
    pub fn holds(&self, sp: u64, sp_was_set: bool) -> bool {
        let strand = self.strand();
        !strand.gaps.is_at(strand.frames.len())
            && self.is_inside(sp, sp_was_set || self.resumed_set)
    }

    /// [`Stack::holds`] by the stack pointer alone.
    fn is_inside(&self, sp: u64, sp_was_set: bool) -> bool {
        let strand = self.strand();
        if strand.is_in_cut() {
            return false;
        }
        let inside = match strand.frames.last() {
            Some(f) if f.signal => sp <= f.cfa || !sp_was_set || strand.spans(sp),
            Some(f) => sp.checked_add(self.slot()).is_some_and(|end| end <= f.cfa),
            None => true,
        };
        let below =
            || strand.is_below(sp, LARGEST_FRAME) && !self.strands.iter().any(|s| s.spans(sp));
        inside && (!sp_was_set || strand.spans(sp) || below())
    }

    /// Live frames, the outermost aside, with those that are not kept. `None` if some of these
    /// have ended since: nobody knows how many.
    pub fn depth(&self) -> Option<usize> {
        let Strand { frames, cut, .. } = self.strand();
        (!cut.entered).then_some(frames.len() + cut.removed)
    }

    /// Whether the innermost `frames` frames, or all that there are, are kept: more than
    /// [`MAX_LIVE_FRAMES`](crate::truth::cut::MAX_LIVE_FRAMES) are not.
    pub fn knows(&self, frames: usize) -> bool {
        let strand = self.strand();
        let (depth, cut) = (strand.frames.len(), &strand.cut);
        (cut.removed == 0 || depth - cut.index >= frames) && strand.gaps.known(depth) >= frames
    }

    /// Frames and tail calls on the stacks that are not in use.
    #[cfg(test)]
    pub(super) const fn elsewhere(&self) -> usize {
        self.elsewhere
    }

    /// The stack in use.
    pub(super) fn strand(&self) -> &Strand {
        &self.strands[self.current]
    }
}

impl Frame {
    /// A call's.
    const fn of_call(goes_on: u64, cfa: u64, entry: u64) -> Frame {
        Frame { goes_on, cfa, entry, signal: false, sp_was_set: false }
    }

    /// Where its caller goes on.
    pub(super) fn caller_address(&self) -> CodeAddress {
        match self.signal {
            true => InterruptedAddress(self.goes_on).into(),
            false => ReturnAddress(self.goes_on).into(),
        }
    }
}

/// The callee-saved registers of a thread.
pub fn callee_saved(regs: &Regs) -> CalleeSaved {
    let mut saved = CalleeSaved::default();
    let numbers = saved_numbers(regs.arch);
    saved.iter_mut().zip(numbers).for_each(|(place, n)| *place = regs.gp[usize::from(n)]);
    saved
}

/// DWARF numbers of the registers in a [`CalleeSaved`], in its order.
pub fn saved_numbers(arch: Arch) -> impl Iterator<Item = u8> {
    let mask = unwinder::registers::callee_saved(arch);
    (0..32).filter(move |n| mask >> n & 1 == 1)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
