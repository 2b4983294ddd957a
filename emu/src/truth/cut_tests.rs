//! More live frames than are kept.

use arch::{Arch, Regs};
use unwinder::CodeAddress;

use super::*;
use crate::engine::flow::{CalleeSaved, Event, Transfer};
use crate::truth::Stack;

const TOP: u64 = 0x7fff_0000_0000;
const FRAME: u64 = 32;

struct Thread {
    stack: Stack,
    slot: u64,
}

impl Thread {
    fn new(arch: Arch) -> Thread {
        let slot = if arch == Arch::X86_64 { 8 } else { 0 };
        Thread { stack: Stack::new(arch, TOP), slot }
    }

    /// A call whose CFA is `sp`.
    fn call(&mut self, next: u64, sp: u64, sp_was_set: bool) {
        let (kind, sp) = (Transfer::Call, sp - self.slot);
        let saved = [CalleeSaved::default()];
        self.stack.events(&[Event { kind, next, to: 0x200, sp, sp_was_set }], &saved);
    }

    fn back(&mut self, to: u64, sp: u64, sp_was_set: bool) {
        let kind = Transfer::Return;
        self.stack.events(&[Event { kind, next: 0x280, to, sp, sp_was_set }], &[]);
    }

    /// Recursion from the same place: each frame has the same return address.
    fn recurse(&mut self, from: u64, to: u64) {
        (from..to).for_each(|n| self.call(0x210, TOP - FRAME * n, false));
    }

    fn holds(&self, depth: u64) -> bool {
        self.stack.holds(TOP - FRAME * (depth + 1), false)
    }

    fn caller_sp(&self) -> Option<u64> {
        self.stack.caller().map(|c| c.sp)
    }

    fn kept(&self) -> usize {
        self.stack.frames(0).count()
    }
}

/// The innermost frames are right, those that were removed undecided, and what called them
/// right again.
#[test]
fn a_recursion_deeper_than_what_is_kept() {
    let (max, deepest) = (MAX_LIVE_FRAMES as u64, 2 * MAX_LIVE_FRAMES as u64 + 1000);
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        t.call(0x101, TOP, false);
        t.recurse(1, deepest);
        assert_eq!(t.stack.depth(), Some(deepest as usize));
        assert!(t.kept() < MAX_LIVE_FRAMES && t.kept() > MAX_LIVE_FRAMES / 4);
        assert!(t.stack.knows(1024) && !t.stack.knows(MAX_LIVE_FRAMES));
        let mut decided = 0;
        for n in (0..deepest).rev() {
            if t.holds(n) {
                decided += 1;
                assert_eq!(t.caller_sp(), Some(TOP - FRAME * n), "{arch} {n}");
                let saved = t.stack.caller().map(|c| c.saved.is_some());
                assert_eq!(saved, Some(true), "{arch} {n}");
            }
            t.back(if n == 0 { 0x101 } else { 0x210 }, TOP - FRAME * n, false);
        }
        assert!(decided > max / 2 && decided < max, "{decided}");
        assert_eq!((t.stack.depth(), t.kept()), (Some(0), 1));
        assert!(t.stack.knows(MAX_LIVE_FRAMES), "nothing is missing now");
    }
}

/// `longjmp` from among frames that are not kept, to above them all and to one of them.
#[test]
fn a_jump_out_of_removed_frames() {
    let deepest = MAX_LIVE_FRAMES as u64 + 10;
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        t.recurse(1, deepest);
        // To the middle: the frames there are unknown, and what they call is not.
        let middle = TOP - FRAME * (deepest / 2);
        t.back(0x777, middle, true);
        assert!(!t.stack.holds(middle, false) && t.kept() == 1);
        t.call(0x333, middle - 64, false);
        assert!(t.stack.holds(middle - 128, false) && t.caller_sp() == Some(middle - 64));
        assert!(!t.stack.knows(3), "the caller's caller is unknown");
        t.back(0x333, middle - 64, false);
        assert!(!t.stack.holds(middle, false));
        // Above them.
        t.back(0x888, TOP - FRAME * 5, true);
        assert!(t.stack.holds(TOP - FRAME * 5 - 8, false), "{arch}");
        assert_eq!(t.stack.depth(), Some(4));
        assert_eq!(t.caller_sp(), Some(TOP - FRAME * 4));
    }
}

/// The stacks that are not in use are bounded all together, and a thread that comes back to one
/// finds its innermost frames.
#[test]
fn many_deep_stacks() {
    let each = MAX_ELSEWHERE as u64 / 8;
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        let top = |n: u64| TOP + (n << 32);
        let bottom = |n: u64| top(n) - FRAME * each;
        for n in 1..=24 {
            t.back(0x500 + n, top(n), true);
            assert_eq!(t.stack.depth(), Some(0), "{arch} {n}: a new stack");
            (1..=each).for_each(|depth| t.call(0x210, top(n) - FRAME * depth, false));
            assert!(t.stack.elsewhere() <= MAX_ELSEWHERE);
        }
        for n in (1..24).rev() {
            t.back(0x210, bottom(n), true);
            assert_eq!(t.stack.depth(), Some(each as usize - 1), "{arch} {n}");
            assert_eq!(t.caller_sp(), Some(bottom(n) + FRAME), "{arch} {n}");
            assert!(t.stack.elsewhere() <= MAX_ELSEWHERE);
        }
    }
}

/// A signal's frame and its stack may be among what is removed.
#[test]
fn a_signal_among_removed_frames() {
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        t.recurse(1, MAX_LIVE_FRAMES as u64 / 2);
        let at = |pc: u64, sp: u64| {
            let mut regs = Regs::new(arch);
            regs.pc = pc;
            regs.set_sp(sp);
            regs
        };
        let interrupted = at(0x222, TOP - FRAME * (MAX_LIVE_FRAMES as u64 / 2));
        let alternate = TOP + (1 << 40);
        t.stack.signal(&interrupted, &at(0x700, alternate), 0x900, false);
        (1..MAX_LIVE_FRAMES as u64 / 2).for_each(|n| t.call(0x210, alternate - FRAME * n, false));
        t.stack.sigreturn(&interrupted, None); // a kept frame is innermost: out of the handler
        let n = MAX_LIVE_FRAMES as u64 / 4;
        t.back(0x210, TOP - FRAME * (n - 1), true);
        assert_eq!(t.stack.depth(), Some(n as usize - 2), "{arch}");
        assert_eq!(t.caller_sp(), Some(TOP - FRAME * (n - 2)));
    }
}

/// How many of the removed frames are left is not known once some have returned, until none is.
#[test]
fn a_depth_is_exact_or_unknown() {
    let deepest = MAX_LIVE_FRAMES as u64 + 10;
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        t.recurse(1, deepest);
        let mut n = deepest - 1;
        while t.holds(n) {
            assert_eq!(t.stack.depth(), Some(n as usize), "{arch}");
            t.back(0x210, TOP - FRAME * n, false);
            n -= 1;
        }
        // Two more return, and as many are called as the grades look at.
        for _ in 0..2 {
            t.back(0x210, TOP - FRAME * n, false);
            n -= 1;
        }
        t.recurse(n + 1, n + 2000);
        assert!(t.stack.knows(1026) && t.holds(n + 1999));
        assert_eq!(t.stack.depth(), None, "{arch}");
        // Back to one that is kept.
        t.back(0x888, TOP - FRAME * 5, true);
        assert_eq!(t.stack.depth(), Some(4), "{arch}");
    }
}

/// The handler of a signal whose frame is removed returns: an outer signal is still there.
#[test]
fn a_removed_signal_ends() {
    for arch in Arch::ALL {
        let mut t = Thread::new(arch);
        let at = |pc: u64, sp: u64| {
            let mut regs = Regs::new(arch);
            regs.pc = pc;
            regs.set_sp(sp);
            regs
        };
        // A signal before frame `n`, whose handler goes on with the recursion; takes two frames.
        let signal = |t: &mut Thread, n: u64| {
            let interrupted = at(0x222, TOP - FRAME * n);
            t.stack.signal(&interrupted, &at(0x700, TOP - FRAME * (n + 1)), 0x900, false);
            interrupted
        };
        t.recurse(1, 1000);
        signal(&mut t, 1000);
        t.recurse(1002, MAX_LIVE_FRAMES as u64 / 2);
        let inner = signal(&mut t, MAX_LIVE_FRAMES as u64 / 2);
        let mut n = MAX_LIVE_FRAMES as u64 / 2 + 2;
        while t.stack.knows(MAX_LIVE_FRAMES) {
            t.recurse(n, n + 1);
            n += 1;
        }
        while t.holds(n - 1) {
            n -= 1;
            t.back(0x210, TOP - FRAME * n, false);
        }
        t.stack.sigreturn(&inner, None);
        // The outer signal is among the frames that are kept.
        t.back(0x210, TOP - FRAME * 1010, true);
        let signals =
            t.stack.frames(0).filter(|f| matches!(f.address, CodeAddress::Interrupted(_)));
        assert_eq!(signals.count(), 1, "{arch}");
        assert!(t.stack.depth().is_some_and(|depth| depth > 1000), "{arch}");
    }
}
