//! Tests of the second CPU, which shows instructions.

use std::cell::RefCell;
use std::rc::Rc;

use arch::{Arch, Regs};

use super::tests::{CODE, DATA, Lab, RW, RX, Seen, sample_loop, words};
use super::*;
use crate::engine::schedule::Visits;
use crate::engine::stepper::Sight;

#[derive(Clone, Default)]
struct Sights(Rc<RefCell<Vec<(u64, u64)>>>);

impl Sight for Sights {
    fn instruction(&mut self, regs: &Regs, _: bool, memory: &mut dyn unwinder::Memory) {
        assert!(memory.word(regs.sp()).is_some() && memory.word(0x10).is_none());
        self.0.borrow_mut().push((regs.pc, regs.gp[sample_loop(regs.arch).1]));
    }
}

/// Looking changes nothing; each instruction is shown before it is executed, in the first
/// executions of its block and then at powers of two.
#[test]
fn looking_at_instructions() {
    for arch in Arch::ALL {
        let (code, counter) = sample_loop(arch);
        let mut outcomes = Vec::new();
        for visits in [None, Some(Visits::Sparse), Some(Visits::Every)] {
            let mut lab = Lab::new(arch);
            lab.page(CODE, RX, &code);
            lab.page(DATA, RW, &[]);
            let (seen, sights) = (Seen::default(), Sights::default());
            lab.engine.follow(Box::new(seen.clone())).unwrap();
            if let Some(visits) = visits {
                lab.engine.look(&lab.arena, Box::new(sights.clone()), visits).unwrap();
            }
            let mut regs = lab.at(CODE);
            regs.gp[counter] = 100;
            lab.engine.set_regs(&regs);
            let run = lab.run(u64::MAX);
            assert_eq!(run.exit, Exit::Syscall);
            outcomes.push((run, lab.engine.regs(), seen.0.take()));
            let sights = sights.0.take();
            let at_start = sights.iter().filter(|s| s.0 == CODE).map(|s| s.1);
            let expected: Vec<u64> = match visits {
                None => Vec::new(),
                Some(Visits::Every) => (1..=100).rev().collect(),
                Some(Visits::Sparse) => {
                    [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64].iter().map(|n| 101 - n).collect()
                }
            };
            assert_eq!(at_start.collect::<Vec<_>>(), expected, "{arch} {visits:?}");
            if visits == Some(Visits::Every) {
                // All that retired, each once; the system call's too.
                assert_eq!(sights.len() as u64, run.retired, "{arch}");
            }
            for (addr, _, n) in lab.engine.executions() {
                let syscall = CODE + if arch == Arch::X86_64 { 9 } else { 12 };
                let expected = if addr == syscall { 1 } else { 100 };
                assert_eq!(n, expected, "{arch} {visits:?} {addr:#x}");
            }
        }
        assert_eq!(outcomes[0], outcomes[1]);
        assert_eq!(outcomes[0], outcomes[2]);
    }
}

/// Every instruction of a block is shown, also behind one that only the main CPU executes.
#[test]
fn looking_behind_counter_reads() {
    for arch in Arch::ALL {
        // nop; rdtsc; nop; nop; syscall / nop; mrs x1, cntvct_el0; nop; nop; svc
        let (code, starts): (Vec<u8>, [u64; 5]) = match arch {
            Arch::X86_64 => (b"\x90\x0f\x31\x90\x90\x0f\x05".to_vec(), [0, 1, 3, 4, 5]),
            Arch::Aarch64 => {
                let nop = 0xd503_201f;
                (words(&[nop, 0xd53b_e041, nop, nop, 0xd400_0001]), [0, 4, 8, 12, 16])
            }
        };
        for visits in [Visits::Sparse, Visits::Every] {
            let mut lab = Lab::new(arch);
            lab.page(CODE, RX, &code);
            lab.page(DATA, RW, &[]);
            let sights = Sights::default();
            lab.engine.look(&lab.arena, Box::new(sights.clone()), visits).unwrap();
            for n in 1..=20u64 {
                lab.at(CODE);
                let run = lab.run(u64::MAX);
                assert_eq!((run.exit, run.retired), (Exit::Syscall, 5), "{arch} {n}");
                let shown: Vec<u64> = sights.0.take().iter().map(|s| s.0 - CODE).collect();
                let due = visits == Visits::Every || n <= 8 || n == 16;
                assert_eq!(shown, if due { &starts[..] } else { &[] }, "{arch} {visits:?} {n}");
            }
            let counts: Vec<u64> = lab.engine.executions().iter().map(|e| e.2).collect();
            assert_eq!(counts, [20], "{arch} {visits:?}");
        }
    }
}

/// A block that faults is counted once, and its rest is looked at if its head was.
#[test]
fn looking_at_faults() {
    // mov (%rcx), %eax; nop; syscall
    for visits in [Visits::Sparse, Visits::Every] {
        let mut lab = Lab::new(Arch::X86_64);
        lab.page(CODE, RX, b"\x90\x8b\x01\x90\x0f\x05");
        lab.page(DATA, RW, &[]);
        let sights = Sights::default();
        lab.engine.look(&lab.arena, Box::new(sights.clone()), visits).unwrap();
        for n in 1..=20u64 {
            let page = DATA + 0x10_0000 + n * 0x1000;
            let mut regs = lab.at(CODE);
            regs.gp[arch::x86_64::regs::RCX] = page;
            lab.engine.set_regs(&regs);
            assert!(matches!(lab.run(u64::MAX).exit, Exit::PageFault { .. }));
            lab.page(page, RW, &[]);
            assert_eq!(lab.run(u64::MAX).exit, Exit::Syscall);
            let shown: Vec<u64> = sights.0.take().iter().map(|s| s.0 - CODE).collect();
            let due = visits == Visits::Every || n <= 8 || n == 16;
            assert_eq!(shown, if due { &[0, 1, 3, 4][..] } else { &[] }, "{visits:?} {n}");
        }
        let counts: Vec<u64> = lab.engine.executions().iter().map(|e| e.2).collect();
        assert_eq!(counts, [20], "{visits:?}");
    }
}
