//! Live frames from calls, returns, jumps and signals.
//!
//! A call at stack pointer `sp` makes a frame with
//!
//! ```text
//! CFA = sp before the call
//! ra  = address after the call
//! ```
//!
//! and a return to `ra` with `sp = CFA` ends it. Anything else that moves control by a
//! register or the stack is one of these, tried in this order:
//!
//! ```text
//! R1  to = ra and sp = CFA of the innermost frame         a return
//! R2  the same of an outer frame                          returns at once from several
//! R3  the same of the innermost frame of another stack    a coroutine goes on
//! R4  sp was not set by itself, only moved                a return to ra of the innermost frame:
//!                                                         it took its arguments off the stack
//!                                                         (ret imm16) or left a frame there for
//!                                                         its caller (an outlined prologue);
//!                                                         else a jump in the function, a tail
//!                                                         call
//! R5  sp is that before the call of a live frame's        longjmp, a C++ landing pad: frames up
//!     callee, or above CFAs of live frames                to there are dead
//! R6  sp lies in the span of another stack                the same on that stack
//! R7  sp is not in the span of any stack                  a new stack begins
//! ```
//!
//! "Set by itself" is `mov rsp, …`, `leave`, `mov sp, …` and the like, since the last event:
//! only they can change stacks. A call never does: a function that moves to another stack and
//! calls there will come back, so its frames stay live.

use arch::{Arch, Regs};
use unwinder::{CodeAddress, InstructionPointer, InterruptedAddress, ReturnAddress};

use crate::engine::flow::{CalleeSaved, Event, Transfer};

/// A live frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// Where its caller goes on; the interrupted address of a signal.
    goes_on: u64,
    /// The caller's stack pointer there.
    cfa: u64,
    /// Where the function was entered.
    entry: u64,
    signal: bool,
}

/// One stack of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Strand {
    /// Outermost first.
    frames: Vec<Frame>,
    /// For each frame, if they are kept: what the callee-saved registers were before it.
    saved: Vec<CalleeSaved>,
    /// Lowest and highest stack pointer seen on it.
    low: u64,
    high: u64,
}

/// A frame of the true stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueFrame {
    /// Where the frame is: the thread's instruction, or where it goes on.
    pub address: CodeAddress,
    /// Its CFA: the caller's stack pointer when this frame has gone. `None` for the
    /// outermost frame.
    pub cfa: Option<u64>,
    /// First instruction of the function, as it was called; `None` for the outermost frame
    /// and for one that a signal interrupted before it called anything.
    pub entry: Option<u64>,
}

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
    strands: Vec<Strand>,
    current: usize,
}

/// Stacks that are remembered at most: those that were left longest ago are forgotten.
const MAX_STRANDS: usize = 4096;

impl Stack {
    /// A thread that starts with this stack pointer.
    pub fn new(arch: Arch, sp: u64) -> Stack {
        Stack { arch, strands: vec![Strand::at(sp)], current: 0 }
    }

    /// Takes transfers of control. `saved` has the callee-saved registers at each call among
    /// them, if they are kept.
    pub fn events(&mut self, events: &[Event], saved: &[CalleeSaved]) {
        let mut saved = saved.iter();
        for e in events {
            let registers = if e.kind == Transfer::Call { saved.next() } else { None };
            self.event(e, registers);
        }
    }

    /// Takes a transfer of control.
    #[inline]
    fn event(&mut self, e: &Event, saved: Option<&CalleeSaved>) {
        match e.kind {
            Transfer::Call => {
                // x86_64 has pushed the return address.
                let cfa = if self.arch == Arch::X86_64 { e.sp.wrapping_add(8) } else { e.sp };
                let frame = Frame { goes_on: e.next, cfa, entry: e.to, signal: false };
                self.strands[self.current].push(frame, saved);
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

    /// R2 to R7.
    #[cold]
    fn other_transfer(&mut self, e: &Event) {
        if e.kind == Transfer::Jump && !e.sp_was_set {
            return; // R4, by far the most frequent: no search
        }
        if self.strands[self.current].pop_through(|f| f.is_left_by(e)) {
            return; // R2
        }
        let resumed = |s: &Strand| s.frames.last().is_some_and(|f| f.is_left_by(e));
        if let Some(other) = self.strands.iter().position(resumed) {
            self.current = other; // R3
            self.strands[other].pop();
            return;
        }
        if !e.sp_was_set {
            let strand = &mut self.strands[self.current];
            let innermost = strand.frames.last();
            if e.kind == Transfer::Return && innermost.is_some_and(|f| f.is_left_for(e.to)) {
                strand.pop();
            }
            return; // R4
        }
        if self.strands[self.current].spans(e.sp) || self.is_near(e.sp) {
            self.strands[self.current].unwind_to(self.arch, e); // R5
            return;
        }
        match self.strands.iter().position(|s| s.spans(e.sp)) {
            Some(other) => {
                self.current = other; // R6
                self.strands[other].unwind_to(self.arch, e);
            }
            None => {
                if self.strands.len() >= MAX_STRANDS {
                    self.strands.remove(usize::from(self.current == 0));
                }
                self.strands.push(Strand::at(e.sp)); // R7
                self.current = self.strands.len() - 1;
            }
        }
    }

    /// Just below what was seen of the current stack: a function's own frame, since calls
    /// and signals show where the stack pointer was.
    fn is_near(&self, sp: u64) -> bool {
        const FRAME: u64 = 64 << 10;
        let s = &self.strands[self.current];
        let below = s.low.saturating_sub(FRAME)..s.low;
        below.contains(&sp) && !self.strands.iter().any(|s| s.spans(sp))
    }

    /// The kernel interrupted the thread at `regs` and made it enter a handler, which returns
    /// to `restorer`.
    pub fn signal(&mut self, regs: &Regs, handler: &Regs, restorer: u64) {
        let strand = &mut self.strands[self.current];
        let (before, inside) = (callee_saved(regs), callee_saved(handler));
        let frame = Frame { goes_on: regs.pc, cfa: regs.sp(), entry: restorer, signal: true };
        strand.push(frame, Some(&before));
        let cfa = match self.arch {
            Arch::X86_64 => handler.sp().wrapping_add(8),
            Arch::Aarch64 => handler.sp(),
        };
        let frame = Frame { goes_on: restorer, cfa, entry: handler.pc, signal: false };
        strand.push(frame, Some(&inside));
    }

    /// `rt_sigreturn` gave the thread these registers.
    pub fn sigreturn(&mut self, regs: &Regs) {
        let returns = |f: &Frame| f.signal;
        if !self.strands[self.current].pop_through(returns) {
            // The handler changed stacks: the signal's frame is on another one.
            let holds = |s: &Strand| s.frames.iter().any(|f| f.signal);
            if let Some(other) = self.strands.iter().rposition(holds) {
                self.current = other;
                self.strands[other].pop_through(returns);
            }
        }
        // The handler may have edited the context.
        let (to, sp) = (regs.pc, regs.sp());
        let e = Event { kind: Transfer::Jump, next: to, to, sp, sp_was_set: true };
        if !self.strands[self.current].reaches(sp) {
            self.other_transfer(&e);
        }
    }

    /// The frames of a thread that is at `pc`, innermost first.
    pub fn frames(&self, pc: u64) -> impl Iterator<Item = TrueFrame> + '_ {
        let mut address = CodeAddress::from(InstructionPointer(pc));
        let frames = self.strands[self.current].frames.iter().rev();
        let ends = frames.map(Some).chain([None]);
        ends.map(move |frame| {
            let here = TrueFrame {
                address,
                cfa: frame.map(|f| f.cfa),
                entry: frame.filter(|f| !f.signal).map(|f| f.entry),
            };
            if let Some(f) = frame {
                address = match f.signal {
                    true => InterruptedAddress(f.goes_on).into(),
                    false => ReturnAddress(f.goes_on).into(),
                };
            }
            here
        })
    }

    /// What one step from the innermost frame must give; `None` if that is the outermost one.
    pub fn caller(&self) -> Option<TrueCaller<'_>> {
        let strand = &self.strands[self.current];
        let frame = strand.frames.last()?;
        let address = match frame.signal {
            true => InterruptedAddress(frame.goes_on).into(),
            false => ReturnAddress(frame.goes_on).into(),
        };
        let kept = strand.saved.len() == strand.frames.len();
        let saved = if kept { strand.saved.last() } else { None };
        Some(TrueCaller { address, sp: frame.cfa, saved, signal: frame.signal })
    }

    /// Whether a thread with this stack pointer is in the innermost frame, as far as that can
    /// be told. It is not when the stack pointer has left the frame, and the transfer of
    /// control that ends it has not happened yet: inside `longjmp`, or a switch of stacks.
    /// `sp_was_set`: as in [`Event`], since the last one.
    ///
    /// ```text
    /// sp ≤ CFA − (x86_64: 8, the return address)
    /// and, if it was set, sp is on the current stack or just below
    /// ```
    pub fn holds(&self, sp: u64, sp_was_set: bool) -> bool {
        let strand = &self.strands[self.current];
        let slot = if self.arch == Arch::X86_64 { 8 } else { 0 };
        let inside = match strand.frames.last() {
            Some(f) if f.signal => sp <= f.cfa || !sp_was_set || strand.spans(sp),
            Some(f) => sp.checked_add(slot).is_some_and(|end| end <= f.cfa),
            None => true,
        };
        inside && (!sp_was_set || strand.spans(sp) || self.is_near(sp))
    }

    /// Live frames, the outermost aside.
    pub fn depth(&self) -> usize {
        self.strands[self.current].frames.len()
    }
}

impl Frame {
    #[inline]
    const fn is_left_by(&self, e: &Event) -> bool {
        self.goes_on == e.to && self.cfa == e.sp && !self.signal
    }

    const fn is_left_for(&self, to: u64) -> bool {
        self.goes_on == to && !self.signal
    }
}

impl Strand {
    fn at(sp: u64) -> Strand {
        Strand { frames: Vec::new(), saved: Vec::new(), low: sp, high: sp }
    }

    #[inline]
    fn push(&mut self, frame: Frame, saved: Option<&CalleeSaved>) {
        self.low = self.low.min(frame.cfa);
        // Of this frame only if of all outer ones.
        if self.saved.len() == self.frames.len() {
            self.saved.extend(saved);
        }
        self.frames.push(frame);
    }

    /// Ends the innermost frame.
    #[inline]
    fn pop(&mut self) {
        self.frames.pop();
        self.saved.truncate(self.frames.len());
    }

    /// Ends all frames but the `len` outermost ones.
    fn truncate(&mut self, len: usize) {
        self.frames.truncate(len);
        self.saved.truncate(len);
    }

    const fn spans(&self, sp: u64) -> bool {
        self.low <= sp && sp <= self.high
    }

    /// Whether `sp` is on this stack at or below its innermost frame's CFA.
    fn reaches(&self, sp: u64) -> bool {
        self.frames.last().map_or(self.high, |f| f.cfa) >= sp
    }

    /// Ends the innermost frames up to the first that is `last`; none if there is no such.
    fn pop_through(&mut self, last: impl Fn(&Frame) -> bool) -> bool {
        match self.frames.iter().rposition(last) {
            Some(index) => {
                self.truncate(index);
                true
            }
            None => false,
        }
    }

    /// Ends the frames that are not live with this stack pointer (R5). The function that goes
    /// on called, at the stack pointer that it has now, the outermost of them.
    ///
    /// ```text
    /// some frame's CFA = sp           it and all inside it are dead
    /// else                            frames with CFA < sp (x86_64: ≤, the return address
    ///                                 is below the CFA) are dead
    /// ```
    fn unwind_to(&mut self, arch: Arch, e: &Event) {
        self.high = self.high.max(e.sp);
        // On aarch64 a leaf's CFA is its stack pointer: a jump inside it ends nothing.
        let leaf = arch == Arch::Aarch64 && self.frames.last().is_some_and(|f| f.cfa == e.sp);
        if leaf && e.kind == Transfer::Jump && !e.sp_was_set {
            return;
        }
        // The outermost of several: on aarch64 functions that use no stack share a CFA.
        if let Some(index) = self.frames.iter().position(|f| f.cfa == e.sp) {
            self.truncate(index);
            return;
        }
        let dead = |f: &Frame| f.cfa < e.sp;
        while self.frames.last().is_some_and(dead) {
            self.pop();
        }
    }
}

/// The callee-saved registers of a thread.
pub fn callee_saved(regs: &Regs) -> CalleeSaved {
    let mut saved = CalleeSaved::default();
    let mask = unwinder::registers::callee_saved(regs.arch);
    let numbers = (0..regs.gp.len()).filter(|n| mask >> n & 1 == 1);
    saved.iter_mut().zip(numbers).for_each(|(place, n)| *place = regs.gp[n]);
    saved
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0x7fff_0000;

    struct Thread {
        stack: Stack,
        arch: Arch,
    }

    impl Thread {
        fn new(arch: Arch) -> Thread {
            Thread { stack: Stack::new(arch, TOP), arch }
        }

        fn event(&mut self, kind: Transfer, next: u64, to: u64, sp: u64, sp_was_set: bool) {
            self.stack.event(&Event { kind, next, to, sp, sp_was_set }, None);
        }

        /// A call whose CFA is `sp`.
        fn call(&mut self, next: u64, to: u64, sp: u64) {
            let pushed = if self.arch == Arch::X86_64 { 8 } else { 0 };
            self.event(Transfer::Call, next, to, sp - pushed, false);
        }

        fn addresses(&self) -> Vec<u64> {
            self.stack.frames(0).map(|f| f.address.value()).collect()
        }
    }

    fn both(test: impl Fn(Thread)) {
        Arch::ALL.into_iter().for_each(|arch| test(Thread::new(arch)));
    }

    #[test]
    fn calls_and_returns() {
        both(|mut t| {
            t.call(0x101, 0x200, TOP - 16);
            t.call(0x201, 0x300, TOP - 64);
            assert_eq!(t.addresses(), [0, 0x201, 0x101]);
            let frames: Vec<_> = t.stack.frames(0x305).collect();
            assert_eq!(frames[0].address, InstructionPointer(0x305).into());
            assert_eq!((frames[0].cfa, frames[0].entry), (Some(TOP - 64), Some(0x300)));
            assert_eq!((frames[2].cfa, frames[2].entry), (None, None));
            t.event(Transfer::Return, 0x310, 0x201, TOP - 64, false);
            assert_eq!(t.addresses(), [0, 0x101]);
        });
    }

    #[test]
    fn jumps_and_returns_that_are_jumps_change_nothing() {
        both(|mut t| {
            t.call(0x101, 0x200, TOP - 16);
            t.event(Transfer::Jump, 0x210, 0x400, TOP - 16, false);
            t.event(Transfer::Return, 0x410, 0x500, TOP - 48, false);
            assert_eq!(t.addresses(), [0, 0x101]);
        });
    }

    /// `ret imm16`; an outlined prologue, which leaves the stack pointer lower.
    #[test]
    fn a_return_may_move_the_stack() {
        for moved in [TOP - 64 + 8, TOP - 64 - 32] {
            both(|mut t| {
                t.call(0x101, 0x200, TOP - 16);
                t.call(0x201, 0x300, TOP - 64);
                t.event(Transfer::Return, 0x310, 0x201, moved, false);
                assert_eq!(t.addresses(), [0, 0x101]);
            });
        }
    }

    /// A tail-called function returns to its caller's caller.
    #[test]
    fn a_tail_call_takes_its_callers_place() {
        both(|mut t| {
            t.call(0x101, 0x200, TOP - 16);
            t.event(Transfer::Jump, 0x210, 0x300, TOP - 24, false);
            t.event(Transfer::Return, 0x310, 0x101, TOP - 16, false);
            assert_eq!(t.addresses(), [0]);
        });
    }

    #[test]
    fn longjmp_ends_the_frames_in_between() {
        both(|mut t| {
            t.call(0x101, 0x200, TOP - 16); // f, which calls setjmp at TOP - 64
            t.call(0x201, 0x900, TOP - 64);
            t.event(Transfer::Return, 0x910, 0x201, TOP - 64, false);
            for depth in 1..6 {
                t.call(0x300 + depth, 0x300, TOP - 64 * depth);
            }
            t.call(0x401, 0xa00, TOP - 512); // longjmp
            t.event(Transfer::Jump, 0xa10, 0x201, TOP - 64, true);
            assert_eq!(t.addresses(), [0, 0x101]);
        });
    }

    /// To a landing pad in a function whose stack pointer is not that of a call.
    #[test]
    fn a_landing_pad_ends_the_frames_below_it() {
        both(|mut t| {
            t.call(0x101, 0x200, TOP - 16);
            t.call(0x202, 0x300, TOP - 80);
            t.call(0x303, 0x400, TOP - 160);
            t.event(Transfer::Return, 0x410, 0x280, TOP - 72, true);
            assert_eq!(t.addresses(), [0, 0x101]);
        });
    }

    #[test]
    fn coroutines_keep_their_frames() {
        both(|mut t| {
            let other = 0x6000_0000;
            t.call(0x101, 0x200, TOP - 16);
            t.call(0x202, 0x800, TOP - 64); // switch, to a stack built by hand
            t.event(Transfer::Return, 0x820, 0x500, other, true);
            assert_eq!(t.addresses(), [0]);
            t.call(0x505, 0x600, other - 32);
            t.call(0x606, 0x800, other - 96); // back
            t.event(Transfer::Return, 0x820, 0x202, TOP - 64, true);
            assert_eq!(t.addresses(), [0, 0x101]);
            t.call(0x203, 0x800, TOP - 64); // and on
            t.event(Transfer::Return, 0x820, 0x606, other - 96, true);
            assert_eq!(t.addresses(), [0, 0x505]);
        });
    }

    fn regs(arch: Arch, pc: u64, sp: u64) -> Regs {
        let mut regs = Regs::new(arch);
        regs.pc = pc;
        regs.set_sp(sp);
        regs
    }

    #[test]
    fn signals_on_any_stack() {
        for (arch, handler_sp) in
            Arch::ALL.into_iter().flat_map(|a| [(a, TOP - 1208), (a, 0x5000_0ff8)])
        {
            let mut t = Thread::new(arch);
            t.call(0x101, 0x200, TOP - 16);
            let interrupted = regs(arch, 0x222, TOP - 100);
            t.stack.signal(&interrupted, &regs(arch, 0x700, handler_sp), 0x900);
            assert_eq!(t.addresses(), [0, 0x900, 0x222, 0x101]);
            let frames: Vec<_> = t.stack.frames(0).collect();
            assert_eq!(frames[1].address, ReturnAddress(0x900).into());
            assert_eq!(frames[2].address, InterruptedAddress(0x222).into());
            t.call(0x707, 0x800, handler_sp - 64);
            t.event(Transfer::Return, 0x810, 0x707, handler_sp - 64, false);
            let popped = if arch == Arch::X86_64 { 8 } else { 0 };
            t.event(Transfer::Return, 0x720, 0x900, handler_sp + popped, false);
            assert_eq!(t.addresses(), [0, 0x222, 0x101]);
            t.stack.sigreturn(&interrupted);
            assert_eq!(t.addresses(), [0, 0x101]);
        }
    }

    #[test]
    fn longjmp_out_of_a_handler() {
        for handler_sp in [TOP - 1208, 0x5000_0ff8, TOP + 0x10_0000] {
            both(|mut t| {
                t.call(0x101, 0x200, TOP - 16);
                t.call(0x201, 0x900, TOP - 64); // sigsetjmp
                t.event(Transfer::Return, 0x910, 0x201, TOP - 64, false);
                t.call(0x202, 0x300, TOP - 64);
                let interrupted = regs(t.arch, 0x333, TOP - 128);
                t.stack.signal(&interrupted, &regs(t.arch, 0x700, handler_sp), 0x950);
                t.call(0x707, 0xa00, handler_sp - 64); // siglongjmp
                t.event(Transfer::Jump, 0xa10, 0x201, TOP - 64, true);
                assert_eq!(t.addresses(), [0, 0x101]);
            });
        }
    }
}
