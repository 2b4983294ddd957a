//! Hand-made sequences of events.

use unwinder::InstructionPointer;

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
