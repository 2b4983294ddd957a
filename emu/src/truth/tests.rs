//! Hand-made sequences of events.

use unwinder::InstructionPointer;

use super::*;
use crate::truth::tails::{FIRST, LAST};

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
        t.event(Transfer::Jump, 0x210, 0x400, TOP - 32, false);
        t.event(Transfer::Return, 0x410, 0x500, TOP - 48, false);
        assert_eq!(t.addresses(), [0, 0x101]);
    });
}

/// A handler makes a fault look like a call, which then returns.
#[test]
fn a_call_that_a_handler_fakes() {
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        t.stack.functions_mut().add([0x200..0x280, 0x300..0x380]);
        t.call(0x101, 0x200, TOP - 16);
        let interrupted = regs(arch, 0x222, TOP - 64);
        t.stack.signal(&interrupted, &regs(arch, 0x700, TOP - 1208), 0x900, false);
        let pushed = if arch == Arch::X86_64 { 8 } else { 0 };
        let edited = regs(arch, 0x300, TOP - 64 - pushed);
        t.stack.sigreturn(&edited, Some(0x226));
        assert_eq!(t.addresses(), [0, 0x226, 0x101]);
        t.event(Transfer::Return, 0x310, 0x226, TOP - 64, false);
        assert_eq!(t.addresses(), [0, 0x101]);
        // To a function of somebody else it would be no call.
        t.stack.signal(&interrupted, &regs(arch, 0x700, TOP - 1208), 0x900, false);
        t.stack.sigreturn(&edited, Some(0x326));
        assert!(!t.addresses().contains(&0x326));
    }
}

/// The stack that is left longest is forgotten, not the one that was there first.
#[test]
fn many_stacks() {
    both(|mut t| {
        t.call(0x101, 0x200, TOP - 16);
        for n in 0..MAX_STRANDS as u64 + 100 {
            let other = 0x6000_0000 + n * 0x1_0000;
            t.call(0x202, 0x800, TOP - 64);
            t.event(Transfer::Return, 0x820, 0x500, other, true);
            t.call(0x606, 0x800, other - 96);
            t.event(Transfer::Return, 0x820, 0x202, TOP - 64, true);
            assert_eq!(t.addresses(), [0, 0x101], "{n}");
        }
    });
}

/// A `call` that only reads the PC leaves no frame for ever.
#[test]
fn a_call_over_a_return_address() {
    both(|mut t| {
        t.call(0x101, 0x200, TOP - 16);
        for _ in 0..100 {
            t.call(0x205, 0x205, TOP - 64);
        }
        assert_eq!(t.addresses(), [0, 0x205, 0x101]);
        t.event(Transfer::Return, 0x210, 0x101, TOP - 16, false);
        assert_eq!(t.addresses(), [0]);
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

/// R2: `add rsp, N` and `ret` over the frames of several functions; the stack pointer was
/// moved, not set, as in most jumps that end nothing.
#[test]
fn a_return_ends_several_frames() {
    both(|mut t| {
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x201, 0x300, TOP - 64);
        t.call(0x301, 0x400, TOP - 128);
        t.event(Transfer::Return, 0x410, 0x201, TOP - 64, false);
        assert_eq!(t.addresses(), [0, 0x101]);
        t.call(0x202, 0x300, TOP - 64);
        t.event(Transfer::Return, 0x310, 0x101, TOP - 16, false);
        assert_eq!(t.addresses(), [0]);
    });
}

/// R6: `longjmp` from a coroutine to a function on the stack that it was resumed from, and not
/// to where that left off.
#[test]
fn a_jump_to_the_middle_of_another_stack() {
    both(|mut t| {
        let other = 0x6000_0000;
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x202, 0x300, TOP - 64);
        t.call(0x303, 0x800, TOP - 128); // switch
        t.event(Transfer::Return, 0x820, 0x500, other, true);
        t.call(0x505, 0x600, other - 32);
        t.event(Transfer::Jump, 0xa10, 0x280, TOP - 64, true);
        assert_eq!(t.addresses(), [0, 0x101]);
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
        t.stack.signal(&interrupted, &regs(arch, 0x700, handler_sp), 0x900, false);
        assert_eq!(t.addresses(), [0, 0x900, 0x222, 0x101]);
        let frames: Vec<_> = t.stack.frames(0).collect();
        assert_eq!(frames[1].address, ReturnAddress(0x900).into());
        assert_eq!(frames[2].address, InterruptedAddress(0x222).into());
        t.call(0x707, 0x800, handler_sp - 64);
        t.event(Transfer::Return, 0x810, 0x707, handler_sp - 64, false);
        let popped = if arch == Arch::X86_64 { 8 } else { 0 };
        t.event(Transfer::Return, 0x720, 0x900, handler_sp + popped, false);
        assert_eq!(t.addresses(), [0, 0x222, 0x101]);
        t.stack.sigreturn(&interrupted, None);
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
            t.stack.signal(&interrupted, &regs(t.arch, 0x700, handler_sp), 0x950, false);
            t.call(0x707, 0xa00, handler_sp - 64); // siglongjmp
            t.event(Transfer::Jump, 0xa10, 0x201, TOP - 64, true);
            assert_eq!(t.addresses(), [0, 0x101]);
        });
    }
}

/// Functions of 256 bytes from 0x100 to 0x1fff.
fn with_functions(arch: Arch) -> Thread {
    let mut t = Thread::new(arch);
    t.stack.functions_mut().add((1..0x20).map(|n| n << 8..(n + 1) << 8));
    t
}

/// The stack pointer at the start of a function with this CFA.
fn at_start(arch: Arch, cfa: u64) -> u64 {
    cfa - if arch == Arch::X86_64 { 8 } else { 0 }
}

fn logical(t: &Thread, pc: u64) -> Vec<(u64, bool)> {
    t.stack.logical(pc).map(|f| (f.address.value(), f.physical)).collect()
}

#[test]
fn tail_calls_are_kept() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        let sp = at_start(arch, TOP - 16);
        t.call(0x101, 0x200, TOP - 16);
        // Inside the function, to its own start, to another's middle, with a frame: no calls.
        t.event(Transfer::Jump, 0x210, 0x220, sp, false);
        t.event(Transfer::Jump, 0x230, 0x200, sp, false);
        t.event(Transfer::Jump, 0x230, 0x340, sp, false);
        t.event(Transfer::Jump, 0x230, 0x300, sp - 32, false);
        assert_eq!(logical(&t, 0x2ff), [(0x2ff, true), (0x101, true)]);
        // A jump, one behind `leave` or `mov sp, x29`, and a return instruction.
        t.event(Transfer::Jump, 0x240, 0x300, sp, false);
        t.event(Transfer::Jump, 0x350, 0x400, sp, true);
        t.event(Transfer::Return, 0x460, 0x500, sp, false);
        let expected = [(0x501, true), (0x460, false), (0x350, false), (0x240, false)];
        assert_eq!(logical(&t, 0x501), [&expected[..], &[(0x101, true)]].concat());
        let entries: Vec<_> = t.stack.logical(0x501).map(|f| f.entry).collect();
        assert_eq!(entries, [Some(0x500), Some(0x400), Some(0x300), Some(0x200), None]);
        assert_eq!(t.addresses(), [0, 0x101], "they have no frame");
        // What is called now has its own.
        t.call(0x510, 0x600, TOP - 64);
        assert_eq!(logical(&t, 0)[..3], [(0, true), (0x510, true), (0x460, false)]);
        t.event(Transfer::Return, 0x610, 0x510, TOP - 64, false);
        t.event(Transfer::Return, 0x520, 0x101, TOP - 16, false);
        assert_eq!(logical(&t, 0), [(0, true)]);
        t.call(0x121, 0x200, TOP - 16);
        assert_eq!(logical(&t, 0), [(0, true), (0x121, true)], "nothing is left");
    }
}

#[test]
fn a_loop_of_tail_calls_takes_no_memory() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        let sp = at_start(arch, TOP - 16);
        for n in 0..10_000 {
            let (from, to) = if n % 2 == 0 { (0x240, 0x300) } else { (0x350, 0x200) };
            t.event(Transfer::Jump, from, to, sp, false);
        }
        let frames: Vec<_> = t.stack.logical(0x201).collect();
        let kept = FIRST + LAST;
        assert_eq!(frames.len(), 1 + kept + 1);
        let elided: Vec<_> = frames.iter().map(|f| f.elided).collect();
        assert_eq!(elided.iter().sum::<u64>(), 10_000 - kept as u64);
        assert_eq!(elided.iter().position(|&n| n > 0), Some(LAST));
        assert_eq!(frames[LAST].entry, None, "who entered it is not kept");
        assert_eq!(frames[kept].entry, Some(0x200), "as it was called");
    }
}

/// Of very many frames with tail calls, in one a part of them is forgotten: who made the first
/// that is left was not entered by the frame's call.
#[test]
fn the_first_tail_calls_of_a_frame_may_be_forgotten() {
    const EACH: u64 = (FIRST + LAST - 1) as u64;
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        for n in 1..=(1 << 20) / EACH + 1 {
            t.call(0x251, 0x200, TOP - 32 * n);
            let sp = at_start(arch, TOP - 32 * n);
            for n in 0..EACH {
                let (from, to) = if n % 2 == 0 { (0x240, 0x300) } else { (0x350, 0x200) };
                t.event(Transfer::Jump, from, to, sp, false);
            }
        }
        let frames: Vec<_> = t.stack.logical(0x201).collect();
        let partly = frames.iter().rposition(|f| f.elided > 0).expect("one is cut in two");
        assert!(!frames[partly].physical && frames[partly].entry.is_none());
        assert!(frames[partly - 1].entry.is_some());
        assert!(frames[partly + 1..].iter().all(|f| f.physical), "of outer ones nothing is left");
    }
}

/// Stacks that are neighbours, or an array in a function's frame.
#[test]
fn a_new_stack_begins_at_a_function() {
    for other in [TOP - 0x1000, TOP - 0x400] {
        for arch in Arch::ALL {
            let mut t = with_functions(arch);
            t.call(0x101, 0x200, TOP - 16);
            t.call(0x201, 0x300, TOP - 0x800);
            t.event(Transfer::Jump, 0x320, 0x400, other, true);
            assert_eq!(t.addresses(), [0], "{arch} {other:#x}");
            t.call(0x411, 0x300, other - 32);
            t.event(Transfer::Jump, 0x320, 0x201, TOP - 0x800, true);
            assert_eq!(t.addresses(), [0, 0x101], "{arch} {other:#x}");
        }
    }
}

/// A handler's stack is no part of the stack that it interrupted: what lies between is not.
#[test]
fn a_signal_stack_is_apart() {
    for arch in Arch::ALL {
        let (alternate, other) = (TOP - 0x10_0000, TOP - 0x8_0000);
        let mut t = Thread::new(arch);
        t.call(0x101, 0x200, TOP - 16);
        let interrupted = regs(arch, 0x222, TOP - 100);
        t.stack.signal(&interrupted, &regs(arch, 0x700, alternate), 0x900, false);
        t.stack.sigreturn(&interrupted, None);
        assert_eq!(t.addresses(), [0, 0x101]);
        t.event(Transfer::Return, 0x240, 0x500, other, true);
        assert_eq!(t.addresses(), [0], "{arch}: a new stack");
    }
}

/// Behind `alloca` the stack pointer is anywhere below.
#[test]
fn a_jump_in_a_function_ends_nothing() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        t.event(Transfer::Jump, 0x240, 0x260, TOP - 0x20_0000, true);
        assert_eq!(t.addresses(), [0, 0x101]);
        // As in a leaf that was entered behind a caller's `mov sp, x29`.
        t.event(Transfer::Jump, 0x240, 0x260, at_start(arch, TOP - 16), true);
        assert_eq!(t.addresses(), [0, 0x101]);
    }
}

/// A handler may let its thread go on elsewhere, with the same stack pointer.
#[test]
fn an_edited_context() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x201, 0x300, TOP - 64);
        let sp = at_start(arch, TOP - 64);
        t.stack.signal(&regs(arch, 0x305, sp), &regs(arch, 0x700, sp - 1208), 0x900, false);
        t.stack.sigreturn(&regs(arch, 0x30a, sp), None);
        assert_eq!(t.addresses(), [0, 0x201, 0x101]);
        t.stack.signal(&regs(arch, 0x305, sp), &regs(arch, 0x700, sp - 1208), 0x900, false);
        t.stack.sigreturn(&regs(arch, 0x260, TOP - 64), None);
        assert_eq!(t.addresses(), [0, 0x101], "out of the function");
    }
}

/// A retpoline, in its thunk: the call's return address is overwritten with the target, to which
/// `ret` jumps. While it is there nobody knows whether it is one.
#[test]
fn a_call_for_a_place_on_the_stack() {
    let mut t = with_functions(Arch::X86_64);
    t.call(0x101, 0x200, TOP - 16);
    t.call(0x211, 0x400, TOP - 64); // call thunk
    assert!(t.stack.holds(TOP - 72, false) && t.stack.knows(3));
    t.call(0x405, 0x40c, TOP - 72);
    assert!(!t.stack.holds(TOP - 80, false) && !t.stack.knows(1));
    t.event(Transfer::Return, 0x411, 0x300, TOP - 72, false);
    assert_eq!(t.addresses(), [0, 0x211, 0x101]);
    assert_eq!(logical(&t, 0)[..3], [(0, true), (0x411, false), (0x211, true)]);
    assert!(t.stack.holds(TOP - 72, false) && t.stack.knows(3));
    t.event(Transfer::Return, 0x310, 0x211, TOP - 64, false);
    // The thunk of a return: what was a place for an address is stepped over.
    t.event(Transfer::Jump, 0x220, 0x500, TOP - 24, false);
    t.call(0x505, 0x50c, TOP - 24);
    t.event(Transfer::Return, 0x511, 0x101, TOP - 16, false);
    assert_eq!(t.addresses(), [0]);
}

/// The call of a function that follows at once is one.
#[test]
fn a_call_of_the_next_function() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x2fc, 0x300, TOP - 64);
        assert!(t.stack.holds(TOP - 96, false) && t.stack.knows(2), "{arch}");
        // As is one of the own function.
        t.call(0x304, 0x300, TOP - 96);
        assert!(t.stack.holds(TOP - 128, false) && t.stack.knows(3), "{arch}");
    }
}

/// Data behind a call, over which its function returns.
#[test]
fn a_return_beside_the_call() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x211, 0x300, TOP - 64);
        t.event(Transfer::Return, 0x310, 0x219, TOP - 64, false);
        assert_eq!(t.addresses(), [0, 0x101], "{arch}");
        assert!(t.stack.holds(TOP - 64, false) && t.stack.knows(1));
    }
}

/// A jump to a function from the middle of a frame: if a return address was pushed for it, it
/// was called, else not. How it ends says so for the next time.
#[test]
fn a_call_made_of_other_instructions() {
    let kinds = [Transfer::Jump, Transfer::Return];
    for (arch, kind) in Arch::ALL.into_iter().flat_map(|arch| kinds.map(|kind| (arch, kind))) {
        let mut t = with_functions(arch);
        let slot = if arch == Arch::X86_64 { 8 } else { 0 };
        let sp = TOP - 64;
        t.call(0x101, 0x200, TOP - 16);
        t.event(kind, 0x220, 0x300, sp, false);
        assert!(!t.stack.holds(sp, false) && !t.stack.knows(1), "{arch} {kind:?}");
        t.call(0x311, 0x400, sp - 32);
        assert!(t.stack.holds(sp - 64, false), "{arch} {kind:?}: its caller is known");
        t.event(Transfer::Return, 0x410, 0x311, sp - 32, false);
        assert!(!t.stack.holds(sp, false));
        t.event(Transfer::Return, 0x320, 0x222, sp + slot, false);
        assert!(t.stack.holds(sp, false) && t.stack.knows(2), "{arch} {kind:?}");
        assert_eq!(t.addresses(), [0, 0x101]);
        t.event(kind, 0x220, 0x300, sp, false);
        assert_eq!(t.addresses(), [0, 0x222, 0x101], "{arch} {kind:?}: it was a call");
        assert!(t.stack.holds(sp - 16, false) && t.stack.knows(2));
        t.event(Transfer::Return, 0x320, 0x222, sp + slot, false);
        assert_eq!(t.addresses(), [0, 0x101]);
    }
}

/// A part of a function that is apart comes back by a jump, or returns for it.
#[test]
fn a_part_that_is_apart() {
    for (arch, back) in Arch::ALL.into_iter().flat_map(|arch| [(arch, true), (arch, false)]) {
        let mut t = with_functions(arch);
        let sp = TOP - 64;
        for known in [false, true] {
            t.call(0x101, 0x200, TOP - 16);
            t.event(Transfer::Jump, 0x220, 0x300, sp, false);
            assert_eq!(t.stack.holds(sp, false), known, "{arch} {back}");
            assert_eq!(t.addresses(), [0, 0x101]);
            if back {
                t.event(Transfer::Jump, 0x310, 0x225, sp, false);
                assert!(t.stack.holds(sp, false) && t.stack.knows(2));
            }
            t.event(Transfer::Return, 0x310, 0x101, TOP - 16, false);
            assert_eq!(t.addresses(), [0]);
            assert!(t.stack.knows(1));
        }
    }
}

/// The stack pointer is set back to where an outer function began, which makes a tail call.
#[test]
fn a_tail_call_over_frames() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x211, 0x300, TOP - 64);
        t.call(0x311, 0x400, TOP - 128);
        let sp = at_start(arch, TOP - 16);
        t.event(Transfer::Jump, 0x410, 0x500, sp, true);
        assert_eq!(logical(&t, 0), [(0, true), (0x410, false), (0x101, true)], "{arch}");
        assert!(t.stack.holds(sp, false));
    }
}

/// A signal between the change of stacks and the return that completes it: the handler's own
/// transfers do not hide that the stack pointer was set.
#[test]
fn a_signal_between_two_stacks() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        let other = TOP - 0x100_0000;
        t.call(0x101, 0x200, TOP - 16);
        t.call(0x211, 0x300, TOP - 64);
        let between = regs(arch, 0x311, other - 16);
        t.stack.signal(&between, &regs(arch, 0x700, other - 1208), 0x900, true);
        assert!(t.stack.holds(other - 1208, false), "{arch}: the handler");
        assert!(t.stack.knows(2) && !t.stack.knows(3), "{arch}");
        t.call(0x711, 0x800, other - 1300);
        t.event(Transfer::Return, 0x810, 0x711, other - 1300, false);
        let popped = if arch == Arch::X86_64 { 8 } else { 0 };
        t.event(Transfer::Return, 0x720, 0x900, other - 1208 + popped, false);
        t.stack.sigreturn(&between, None);
        assert!(!t.stack.holds(other - 16, false), "{arch}: still between");
        let switch =
            Event { kind: Transfer::Return, next: 0x312, to: 0x600, sp: other, sp_was_set: false };
        t.stack.events(&[switch], &[]);
        assert_eq!(t.addresses(), [0], "{arch}");
        t.call(0x611, 0x300, other - 32);
        t.event(Transfer::Return, 0x320, 0x211, TOP - 64, true);
        assert_eq!(t.addresses(), [0, 0x101], "{arch}: the first stack has its frames");
        assert!(t.stack.knows(2));
    }
}

/// One that was forgotten, and goes on in the middle of a function, is not taken for a new one.
#[test]
fn a_forgotten_stack_has_no_known_callers() {
    for arch in Arch::ALL {
        let mut t = with_functions(arch);
        t.call(0x101, 0x200, TOP - 16);
        let stack = |n: u64| 0x6000_0000 + n * 512;
        for n in 0..MAX_STRANDS as u64 + 100 {
            t.event(Transfer::Return, 0x320, 0x500, stack(n), true);
            t.call(0x511, 0x600, stack(n) - 32);
            t.call(0x611, 0x300, stack(n) - 64);
        }
        t.event(Transfer::Return, 0x320, 0x611, stack(4000) - 64, true);
        assert_eq!(t.addresses(), [0, 0x511], "{arch}: one that is remembered");
        assert!(t.stack.holds(stack(4000) - 64, false) && t.stack.knows(9));
        t.event(Transfer::Return, 0x320, 0x611, stack(7) - 64, true);
        assert!(!t.stack.holds(stack(7) - 64, false) && !t.stack.knows(1), "{arch}");
        t.call(0x622, 0x700, stack(7) - 80);
        assert!(t.stack.holds(stack(7) - 128, false), "{arch}: what it calls has a known caller");
        assert!(t.stack.knows(1) && !t.stack.knows(2));
        // At a function's start it is a new one.
        t.event(Transfer::Return, 0x320, 0x500, 0x5000_0000, true);
        assert!(t.stack.holds(0x5000_0000 - 8, false) && t.stack.knows(9), "{arch}");
    }
}
