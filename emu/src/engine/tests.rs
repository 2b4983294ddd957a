//! Engine self-tests: the counting rule, faults, exceptions, self-modifying code.

use std::collections::BTreeMap;

use arch::{Arch, Regs};

use super::*;
use crate::engine::flow::{CalleeSaved, Event, Transfer};

/// Pages by address.
#[derive(Debug, Default)]
struct Pages(BTreeMap<u64, (Frame, Perms)>);

impl Mmu for Pages {
    fn translate(&mut self, va: u64) -> Option<(Frame, Perms)> {
        self.0.get(&va).copied()
    }
}

pub(super) const CODE: u64 = 0x40_0000;
pub(super) const DATA: u64 = 0x60_0000;
pub(super) const RX: Perms = Perms { read: true, write: false, exec: true };
pub(super) const RW: Perms = Perms { read: true, write: true, exec: false };
const RWX: Perms = Perms { read: true, write: true, exec: true };

pub(super) struct Lab {
    pub engine: Engine,
    pub arena: Arena,
    pages: Pages,
}

impl Lab {
    pub fn new(arch: Arch) -> Lab {
        let mut arena = Arena::new().unwrap();
        let engine = Engine::new(arch, &mut arena).unwrap();
        Lab { engine, arena, pages: Pages::default() }
    }

    pub fn page(&mut self, va: u64, perms: Perms, bytes: &[u8]) -> Frame {
        let frame = self.arena.alloc().unwrap();
        self.arena.bytes_mut(frame)[..bytes.len()].copy_from_slice(bytes);
        self.pages.0.insert(va, (frame, perms));
        frame
    }

    pub fn at(&mut self, pc: u64) -> Regs {
        let mut regs = Regs::new(self.engine.arch());
        regs.pc = pc;
        regs.set_sp(DATA + 0x800);
        self.engine.set_regs(&regs);
        regs
    }

    pub fn run(&mut self, instructions: u64) -> Run {
        self.run_with(Budget { instructions, ..Budget::UNLIMITED })
    }

    pub fn run_with(&mut self, budget: Budget) -> Run {
        self.engine.run(&mut self.arena, &mut self.pages, budget).unwrap()
    }

    fn pc(&self) -> u64 {
        self.engine.regs().pc
    }
}

pub(super) fn words(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A loop with calls, as bytes, and a register that counts it down.
pub(super) fn sample_loop(arch: Arch) -> (Vec<u8>, usize) {
    match arch {
        // 0: call 8; dec ecx; jnz 0; syscall; 0xb: add rax,1; nop; nop; ret
        Arch::X86_64 => (
            b"\xe8\x06\x00\x00\x00\xff\xc9\x75\xf7\x0f\x05\x48\x83\xc0\x01\x90\x90\xc3".to_vec(),
            arch::x86_64::regs::RCX,
        ),
        // 0: bl 10; subs w1,w1,#1; b.ne 0; svc 0; 10: add x0,x0,#1; nop; nop; ret
        Arch::Aarch64 => (
            words(&[
                0x9400_0004,
                0x7100_0421,
                0x54ff_ffc1,
                0xd400_0001,
                0x9100_0400,
                0xd503_201f,
                0xd503_201f,
                0xd65f_03c0,
            ]),
            1,
        ),
    }
}

#[test]
fn every_budget_stops_where_single_steps_do() {
    for arch in Arch::ALL {
        let (code, counter) = sample_loop(arch);
        let mut lab = Lab::new(arch);
        lab.page(CODE, RX, &code);
        lab.page(DATA, RW, &[]);
        let start = |lab: &mut Lab| {
            let mut regs = lab.at(CODE);
            regs.gp[counter] = 20;
            lab.engine.set_regs(&regs);
        };
        start(&mut lab);
        let mut steps = vec![CODE];
        loop {
            let run = lab.run(1);
            assert_eq!(run.retired, 1);
            if run.exit == Exit::Syscall {
                break;
            }
            assert_eq!(run.exit, Exit::Budget);
            steps.push(lab.pc());
        }
        assert_eq!(steps.len(), 20 * 7 + 1, "{arch}");
        // First with blocks that count themselves, then with calls of the hook.
        for (period, count_branches) in
            [false, true].into_iter().flat_map(|b| [1, 2, 3, 5, 7, 11, 13, 50].map(|p| (p, b)))
        {
            start(&mut lab);
            let mut total = 0;
            let mut branches = 0;
            loop {
                let limit = if count_branches { 1_000_000 } else { u64::MAX };
                let run = lab.run_with(Budget { instructions: period, branches: limit });
                total += run.retired;
                branches += run.branches;
                if run.exit == Exit::Syscall {
                    break;
                }
                assert_eq!((run.exit, run.retired), (Exit::Budget, period), "{arch}");
                assert_eq!(lab.pc(), steps[total as usize], "{arch} period {period} at {total}");
            }
            assert_eq!(total as usize, steps.len());
            let calls_returns_and_jumps = if count_branches { 60 } else { 0 };
            assert_eq!(branches, calls_returns_and_jumps, "{arch}");
        }
    }
}

#[test]
fn branch_budgets_are_exact() {
    for arch in Arch::ALL {
        let (code, counter) = sample_loop(arch);
        let mut lab = Lab::new(arch);
        lab.page(CODE, RX, &code);
        lab.page(DATA, RW, &[]);
        let mut regs = lab.at(CODE);
        regs.gp[counter] = 20;
        lab.engine.set_regs(&regs);
        for _ in 0..10 {
            let budget = Budget { branches: 3, ..Budget::UNLIMITED };
            let run = lab.engine.run(&mut lab.arena, &mut lab.pages, budget).unwrap();
            assert_eq!((run.exit, run.branches, run.retired), (Exit::Budget, 3, 7));
            assert_eq!(lab.pc(), CODE);
        }
    }
}

#[test]
fn rep_counts_once() {
    // mov ecx,100; rep stosb; nop; syscall
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RX, b"\xb9\x64\x00\x00\x00\xf3\xaa\x90\x0f\x05");
    lab.page(DATA, RW, &[]);
    for period in [1, 2, 3, 100] {
        let mut regs = lab.at(CODE);
        regs.gp[arch::x86_64::regs::RDI] = DATA;
        lab.engine.set_regs(&regs);
        let mut pcs = vec![];
        let mut total = 0;
        loop {
            let run = lab.run(period);
            total += run.retired;
            if run.exit == Exit::Syscall {
                break;
            }
            pcs.push(lab.pc() - CODE);
        }
        assert_eq!(total, 4);
        if period == 1 {
            assert_eq!(pcs, [5, 7, 8]);
        }
    }
}

#[test]
fn a_fault_inside_rep_restarts_it() {
    // mov ecx,8192; rep stosb; syscall, over two pages of which the second is absent
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RX, b"\xb9\x00\x20\x00\x00\xf3\xaa\x0f\x05");
    lab.page(DATA, RW, &[]);
    let mut regs = lab.at(CODE);
    regs.gp[arch::x86_64::regs::RDI] = DATA;
    lab.engine.set_regs(&regs);
    let run = lab.run(u64::MAX);
    assert_eq!(run.exit, Exit::PageFault { page: DATA + 4096, access: Access::Write });
    assert_eq!((run.retired, lab.pc()), (1, CODE + 5));
    lab.page(DATA + 4096, RW, &[]);
    let run = lab.run(u64::MAX);
    assert_eq!((run.exit, run.retired), (Exit::Syscall, 2));
}

#[test]
fn faults_are_precise_and_repeat() {
    for arch in Arch::ALL {
        let code = match arch {
            // nop; nop; mov rax,[rbx]; syscall
            Arch::X86_64 => b"\x90\x90\x48\x8b\x03\x0f\x05".to_vec(),
            // nop; nop; ldr x0,[x3]; svc 0
            Arch::Aarch64 => words(&[0xd503_201f, 0xd503_201f, 0xf940_0060, 0xd400_0001]),
        };
        let mut lab = Lab::new(arch);
        lab.page(CODE, RX, &code);
        lab.page(DATA, RW, &7u64.to_le_bytes());
        let mut regs = lab.at(CODE);
        regs.gp[3] = 0x1234_5000;
        lab.engine.set_regs(&regs);
        for round in 0..3 {
            let run = lab.run(u64::MAX);
            let expected = Exit::PageFault { page: 0x1234_5000, access: Access::Read };
            assert_eq!(run.exit, expected, "{arch}");
            assert_eq!(run.retired, if round == 0 { 2 } else { 0 });
        }
        let mut regs = lab.engine.regs();
        regs.gp[3] = DATA;
        lab.engine.set_regs(&regs);
        let run = lab.run(u64::MAX);
        assert_eq!((run.exit, run.retired), (Exit::Syscall, 2), "{arch}");
        assert_eq!(lab.engine.regs().ret(), 7);
    }
}

#[test]
fn exceptions_can_be_taken_again_and_again() {
    // xor edx,edx; xor ecx,ecx; div ecx | ud2 | hlt | int3
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RX, b"\x31\xd2\x31\xc9\xf7\xf1");
    lab.page(CODE + 0x1000, RX, b"\x0f\x0b");
    lab.page(CODE + 0x2000, RX, b"\x90\xf4");
    lab.page(CODE + 0x3000, RX, b"\x90\xcc");
    lab.page(CODE + 0x4000, RX, b"\x90\xe4\x60");
    lab.page(DATA, RW, &[]);
    for _ in 0..4 {
        let mut take = |pc| {
            lab.at(pc);
            let run = lab.run(u64::MAX);
            (run.exit, run.retired, lab.pc() - pc)
        };
        let exit = Exit::Exception;
        assert_eq!(take(CODE), (exit(Exception::Divide), 2, 4));
        assert_eq!(take(CODE + 0x1000), (exit(Exception::InvalidOpcode), 0, 0));
        assert_eq!(take(CODE + 0x2000), (exit(Exception::Protection { vector: 13 }), 1, 1));
        assert_eq!(take(CODE + 0x3000), (exit(Exception::Breakpoint), 2, 2));
        assert_eq!(take(CODE + 0x4000), (exit(Exception::Protection { vector: 13 }), 1, 1));
    }
    let mut lab = Lab::new(Arch::Aarch64);
    lab.page(CODE, RX, &words(&[0xd503_201f, 0xd420_0000]));
    lab.page(CODE + 0x1000, RX, &words(&[0xd503_201f, 0x0000_0000]));
    for _ in 0..4 {
        let mut take = |pc| {
            lab.at(pc);
            let run = lab.run(u64::MAX);
            (run.exit, run.retired, lab.pc() - pc)
        };
        assert_eq!(take(CODE), (Exit::Exception(Exception::Breakpoint), 1, 4));
        assert_eq!(take(CODE + 0x1000), (Exit::Exception(Exception::InvalidOpcode), 1, 4));
    }
}

#[test]
fn code_at_a_page_end_faults_only_when_it_needs_the_next_page() {
    // The page ends with: nop; nop; jmp -3 (complete); the next page is absent.
    let mut lab = Lab::new(Arch::X86_64);
    let mut page = [0x90u8; 4096];
    page[4094..].copy_from_slice(b"\xeb\xfc");
    lab.page(CODE, RX, &page);
    lab.at(CODE + 4000);
    let run = lab.run(1000);
    assert_eq!((run.exit, run.retired), (Exit::Budget, 1000));
    // nop up to the end: the fetch at the next page faults.
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RX, &[0x90; 4096]);
    lab.at(CODE + 4090);
    let run = lab.run(1000);
    let next = CODE + 4096;
    assert_eq!(run.exit, Exit::PageFault { page: next, access: Access::Fetch });
    assert_eq!((run.retired, lab.pc()), (6, next));
    // An instruction that straddles: mov rax, imm64 from 3 bytes before the end.
    let mut page = [0x90u8; 4096];
    page[4093..].copy_from_slice(b"\x48\xb8\x01");
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RX, &page);
    lab.at(CODE + 4090);
    let run = lab.run(1000);
    assert_eq!(run.exit, Exit::PageFault { page: next, access: Access::Fetch });
    assert_eq!((run.retired, lab.pc()), (3, CODE + 4093));
    lab.page(next, RX, b"\x02\x03\x04\x05\x06\x07\x08\x0f\x05");
    let run = lab.run(1000);
    assert_eq!((run.exit, run.retired), (Exit::Syscall, 2));
    assert_eq!(lab.engine.regs().gp[0], 0x0807_0605_0403_0201);
}

#[test]
fn self_modifying_code_is_seen_at_once() {
    // mov byte [rip+1],7 ; mov eax,1 (immediate patched) ; syscall
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RWX, b"\xc6\x05\x01\x00\x00\x00\x07\xb8\x01\x00\x00\x00\x0f\x05");
    for _ in 0..3 {
        lab.at(CODE);
        let run = lab.run(u64::MAX);
        assert_eq!((run.exit, run.retired), (Exit::Syscall, 3));
        assert_eq!(lab.engine.regs().gp[0], 7);
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct Seen(pub std::rc::Rc<std::cell::RefCell<Vec<Event>>>);

impl FlowSink for Seen {
    fn take(&mut self, events: &[Event], _: &[CalleeSaved]) {
        self.0.borrow_mut().extend(events);
    }
}

/// Every call and return is told once, with its target and stack pointer, wherever the run
/// is stopped.
#[test]
fn transfers_are_told_once() {
    for arch in Arch::ALL {
        let (code, counter) = sample_loop(arch);
        let (callee, after) = if arch == Arch::X86_64 { (0xb, 5) } else { (0x10, 4) };
        let mut expected = None;
        for period in [u64::MAX, 1, 2, 3, 5, 50] {
            let mut lab = Lab::new(arch);
            lab.page(CODE, RX, &code);
            lab.page(DATA, RW, &[]);
            let seen = Seen::default();
            lab.engine.follow(Box::new(seen.clone())).unwrap();
            let mut regs = lab.at(CODE);
            regs.gp[counter] = 20;
            lab.engine.set_regs(&regs);
            while lab.run(period).exit != Exit::Syscall {}
            let events = seen.0.take();
            assert_eq!(events.len(), 40, "{arch} {period}");
            for pair in events.chunks(2) {
                assert_eq!((pair[0].kind, pair[1].kind), (Transfer::Call, Transfer::Return));
                assert_eq!((pair[0].to, pair[0].next), (CODE + callee, CODE + after));
                assert_eq!((pair[1].to, pair[1].sp), (CODE + after, DATA + 0x800));
                let pushed = if arch == Arch::X86_64 { 8 } else { 0 };
                assert_eq!(pair[0].sp, DATA + 0x800 - pushed);
            }
            assert_eq!(*expected.get_or_insert(events.clone()), events);
        }
    }
}

/// A store into code that was translated ends its block, which then starts again: it counts
/// once, also when nothing is known of it any more but that it counts itself.
#[test]
fn a_block_that_a_store_cuts_counts_once() {
    // 0: movl into (rbx), movl into 4(rbx), mov r12b into 1(rbx): mov eax, n; ret
    //    call rbx; dec r12d; jnz 0; syscall
    let code = b"\xc7\x03\xb8\x01\x00\x00\xc7\x43\x04\x00\xc3\x90\x00\x44\x88\x63\x01\
        \xff\xd3\x41\xff\xcc\x75\xe8\x0f\x05";
    for period in [u64::MAX, 100, 7] {
        let mut lab = Lab::new(Arch::X86_64);
        lab.page(CODE, RX, code);
        lab.page(DATA, RW, &[]);
        lab.page(CODE + 0x1_0000, RWX, &[]);
        let mut regs = lab.at(CODE);
        (regs.gp[3], regs.gp[12]) = (CODE + 0x1_0000, 100);
        lab.engine.set_regs(&regs);
        let mut retired = 0;
        loop {
            let run = lab.run(period);
            retired += run.retired;
            if run.exit == Exit::Syscall {
                break;
            }
        }
        assert_eq!(retired, 100 * 8 + 1, "{period}");
    }
}

/// A call whose push faults did not happen; one to an absent page did.
#[test]
fn transfers_and_faults() {
    let mut lab = Lab::new(Arch::X86_64);
    // call rax
    lab.page(CODE, RX, b"\xff\xd0");
    lab.page(DATA, RW, &[]);
    let seen = Seen::default();
    lab.engine.follow(Box::new(seen.clone())).unwrap();
    let mut regs = lab.at(CODE);
    regs.set_sp(DATA + 0x10_0000);
    lab.engine.set_regs(&regs);
    let run = lab.run(10);
    assert!(matches!(run.exit, Exit::PageFault { access: Access::Write, .. }), "{run:?}");
    assert_eq!((run.retired, seen.0.borrow().len()), (0, 0));
    let mut regs = lab.at(CODE);
    regs.gp[0] = 0x77_0000;
    lab.engine.set_regs(&regs);
    let run = lab.run(10);
    assert!(matches!(run.exit, Exit::PageFault { access: Access::Fetch, .. }), "{run:?}");
    assert_eq!(run.retired, 1);
    let sp = DATA + 0x7f8;
    let call = Event { kind: Transfer::Call, next: CODE + 2, to: 0x77_0000, sp, sp_was_set: false };
    assert_eq!(*seen.0.borrow(), [call]);
}

#[test]
fn a_rep_may_overwrite_itself() {
    // 0x20: rep stosb, over itself: at its own bytes it becomes what it stores, a `ret`.
    let mut code = vec![0x90; 0x20];
    code.extend(b"\xf3\xaa\x0f\x05");
    let mut lab = Lab::new(Arch::X86_64);
    lab.page(CODE, RWX, &code);
    lab.page(DATA, RW, &(CODE + 0x22).to_le_bytes());
    let mut regs = lab.at(CODE + 0x20);
    (regs.gp[0], regs.gp[2], regs.gp[5]) = (0xc3, 40, CODE);
    regs.set_sp(DATA);
    lab.engine.set_regs(&regs);
    let run = lab.run(1000);
    assert_eq!(run.exit, Exit::Syscall);
    assert_eq!(lab.engine.regs().gp[2], 40 - 0x21, "stores before it changed");
}

/// While blocks are dropped, addresses of the kernel's half name physical memory; user code
/// must not get there.
#[test]
fn physical_memory_is_out_of_reach() {
    for arch in Arch::ALL {
        let mut lab = Lab::new(arch);
        lab.page(CODE, RX, &sample_loop(arch).0);
        for page in [0, 0x1000, 0x10_0000] {
            let target = super::shared::DROP_WINDOW + page;
            lab.at(target);
            let run = lab.run(10);
            assert_eq!(run.retired, 0);
            assert!(matches!(run.exit, Exit::PageFault { access: Access::Fetch, .. }), "{run:?}");
        }
    }
}

/// The engine would execute some VEX-encoded instructions, and wrongly.
#[test]
fn avx_is_undefined() {
    for code in [&b"\xc5\xf3\x58\xd0"[..], b"\xc5\xf8\x77", b"\xc5\xf0\x58\xc2"] {
        let mut lab = Lab::new(Arch::X86_64);
        lab.page(CODE, RX, &[&[0x90], code].concat());
        for _ in 0..2 {
            lab.at(CODE);
            let run = lab.run(10);
            assert_eq!((run.exit, run.retired), (Exit::Exception(Exception::InvalidOpcode), 1));
            assert_eq!(lab.pc(), CODE + 1);
        }
    }
}

#[test]
fn a_store_through_another_mapping_drops_translated_code() {
    for arch in Arch::ALL {
        let (code, patch, value) = match arch {
            // mov eax,1; syscall
            Arch::X86_64 => (b"\xb8\x01\x00\x00\x00\x0f\x05".to_vec(), 1, 2u8),
            // mov x0,#1; svc 0
            Arch::Aarch64 => (words(&[0xd280_0020, 0xd400_0001]), 0, 0x40),
        };
        let writer = match arch {
            // mov [rbx],cl; syscall
            Arch::X86_64 => b"\x88\x0b\x0f\x05".to_vec(),
            // strb w2,[x3]; svc 0
            Arch::Aarch64 => words(&[0x3900_0062, 0xd400_0001]),
        };
        let mut lab = Lab::new(arch);
        let frame = lab.page(CODE, RX, &code);
        lab.page(CODE + 0x1000, RX, &writer);
        lab.pages.0.insert(DATA, (frame, RW));
        for round in 0..3u8 {
            lab.at(CODE);
            assert_eq!(lab.run(u64::MAX).exit, Exit::Syscall);
            let mut regs = lab.at(CODE + 0x1000);
            regs.gp[2] = u64::from(value);
            regs.gp[3] = DATA + patch;
            lab.engine.set_regs(&regs);
            assert_eq!(lab.run(u64::MAX).exit, Exit::Syscall);
            lab.at(CODE);
            assert_eq!(lab.run(u64::MAX).exit, Exit::Syscall);
            assert_eq!(lab.engine.regs().ret(), 2, "{arch} round {round}");
        }
    }
}

#[test]
fn a_write_by_the_kernel_drops_translated_code() {
    let mut lab = Lab::new(Arch::X86_64);
    let frame = lab.page(CODE, RX, b"\xb8\x01\x00\x00\x00\x0f\x05");
    for value in 1..5 {
        lab.arena.bytes_mut(frame)[1] = value;
        lab.at(CODE);
        assert_eq!(lab.run(u64::MAX).exit, Exit::Syscall);
        assert_eq!(lab.engine.regs().gp[0], u64::from(value));
    }
}

#[test]
fn counters_answer_the_virtual_clock() {
    for arch in Arch::ALL {
        let code = match arch {
            // nop; nop; rdtsc; syscall
            Arch::X86_64 => b"\x90\x90\x0f\x31\x0f\x05".to_vec(),
            // nop; nop; mrs x0,cntvct_el0; svc 0
            Arch::Aarch64 => words(&[0xd503_201f, 0xd503_201f, 0xd53b_e040, 0xd400_0001]),
        };
        let mut lab = Lab::new(arch);
        lab.page(CODE, RX, &code);
        lab.engine.set_clock(1000);
        lab.at(CODE);
        let run = lab.run(u64::MAX);
        assert_eq!((run.exit, run.retired), (Exit::Syscall, 4));
        assert_eq!(lab.engine.regs().ret(), 1002, "{arch}");
    }
}

#[test]
fn floating_point_state_round_trips() {
    for arch in Arch::ALL {
        let mut lab = Lab::new(arch);
        assert_eq!(lab.engine.fp(), FpState::new(arch));
        let mut fp = FpState::new(arch);
        match &mut fp {
            FpState::X86_64(image) => {
                image[4] = 0x81;
                image[2..4].copy_from_slice(&0x3800u16.to_le_bytes());
                for i in 0..10 {
                    image[32 + i] = i as u8 + 1;
                    image[32 + 16 * 3 + i] = 0x40 + i as u8;
                }
                for i in 0..256 {
                    image[160 + i] = i as u8;
                }
            }
            FpState::Aarch64 { v, fpsr, fpcr } => {
                for (i, v) in v.iter_mut().enumerate() {
                    *v = u128::MAX / (i as u128 + 1);
                }
                (*fpsr, *fpcr) = (1 << 27, 1 << 24);
            }
        }
        lab.engine.set_fp(&fp);
        assert_eq!(lab.engine.fp(), fp, "{arch}");
    }
}
