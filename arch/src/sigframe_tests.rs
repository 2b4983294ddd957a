use super::*;
use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::siginfo::SigInfo;
use crate::signal::{code, ss};

/// Memory that holds one frame.
struct Memory {
    base: u64,
    bytes: Vec<u8>,
}

impl Memory {
    fn of(built: &Built) -> Memory {
        Memory { base: built.addr, bytes: built.bytes.clone() }
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let found = addr.checked_sub(self.base).and_then(|at| {
            let at = usize::try_from(at).ok()?;
            self.bytes.get(at..at.checked_add(out.len())?)
        });
        match found {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    fn restore(&self, present: &Regs) -> Result<Restored, BadFrame> {
        restore(present, &|addr, out| self.read(addr, out))
    }
}

/// An interrupted context in which every field differs from every other.
struct Context {
    regs: Regs,
    fp: FpState,
    info: [u8; siginfo::SIZE],
}

impl Context {
    fn new(arch: Arch) -> Context {
        let mut regs = Regs::new(arch);
        for (i, gp) in regs.gp.iter_mut().enumerate() {
            *gp = 0x1111_0000_0000 + i as u64;
        }
        regs.set_sp(0x7fff_0000_1238);
        regs.pc = 0x40_1234;
        regs.tls = 0x7000;
        let fp = match FpState::new(arch) {
            FpState::X86_64(mut image) => {
                image[32..464].copy_from_slice(&std::array::from_fn::<u8, 432, _>(|i| i as u8));
                FpState::X86_64(image)
            }
            FpState::Aarch64 { .. } => FpState::Aarch64 {
                v: Box::new(std::array::from_fn(|i| u128::MAX - i as u128)),
                fpsr: 0x10,
                fpcr: 0x0100_0000,
            },
        };
        let info = SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, 0x123).to_bytes();
        Context { regs, fp, info }
    }

    fn input(&self) -> FrameInput<'_> {
        FrameInput {
            regs: &self.regs,
            fp: &self.fp,
            signal: Signal::SIGSEGV,
            info: &self.info,
            action: SigAction {
                handler: 0x40_5000,
                flags: sa::SA_SIGINFO | sa::SA_RESTORER,
                restorer: 0x40_6000,
                mask: SigSet::EMPTY,
            },
            mask: SigSet::of(Signal::SIGUSR1),
            altstack: AltStack::DISABLED,
            fault: Fault { address: 0x123, code: 4, trap: 14 },
            vdso_sigreturn: 0x7fff_f000,
        }
    }
}

/// Registers when `rt_sigreturn` is called after a handler that changed
/// everything but its stack pointer.
fn at_sigreturn(built: &Built) -> Regs {
    let mut regs = built.regs;
    let popped = if regs.arch == Arch::X86_64 { 8 } else { 0 };
    let sp = regs.sp() + popped;
    regs.gp = [0xdead; 32];
    regs.set_sp(sp);
    regs.pc = built.regs.pc;
    regs
}

/// Unwinders read the interrupted registers at these places.
#[test]
fn saved_registers_are_where_they_are_said_to_be() {
    for arch in Arch::ALL {
        let context = Context::new(arch);
        let built = build(&context.input()).unwrap();
        let sp = at_sigreturn(&built).sp();
        let word = |offset: u64| {
            let at = (sp + offset - built.addr) as usize;
            u64::from_le_bytes(built.bytes[at..at + 8].try_into().unwrap())
        };
        let count = if arch == Arch::X86_64 { 16 } else { 32 };
        for number in 0..count {
            assert_eq!(word(saved_register(arch, number).unwrap()), context.regs.gp[number]);
        }
        assert_eq!(saved_register(arch, count), None);
        assert_eq!(word(saved_pc(arch)), context.regs.pc);
    }
}

#[test]
fn contexts_round_trip() {
    for arch in Arch::ALL {
        let mut context = Context::new(arch);
        context.regs.flags = match arch {
            Arch::X86_64 => 0x202 | 0x8d5 | 1 << 10,
            Arch::Aarch64 => 0xa000_0000,
        };
        let altstack = AltStack { sp: 0x10_0000, flags: 0, size: 0x4000 };
        let input = FrameInput { altstack, ..context.input() };
        let built = build(&input).unwrap();
        let restored = Memory::of(&built).restore(&at_sigreturn(&built)).unwrap();
        let mut expected = context.regs;
        if arch == Arch::X86_64 {
            expected.gp[16..].fill(0xdead);
        }
        assert_eq!(restored.regs, expected);
        assert_eq!(restored.fp, context.fp);
        assert_eq!((restored.mask, restored.altstack), (input.mask, altstack));
    }
}

#[test]
fn x86_frame_as_linux_lays_it_out() {
    let mut context = Context::new(Arch::X86_64);
    context.regs.flags = 0x202 | 1 << 10 | 1 << 8 | 1 << 16;
    let built = build(&context.input()).unwrap();
    // Measured on Linux: siginfo at 312, ucontext at 8 from the stack pointer.
    let sp = built.addr;
    assert_eq!((sp % 16, built.regs.sp(), built.regs.pc), (8, sp, 0x40_5000));
    let args = [5, 4, 1, 0].map(|r| built.regs.gp[r]);
    assert_eq!(args, [11, sp + 312, sp + 8, 0], "rdi, rsi, rdx, rax");
    assert_eq!(built.regs.flags, 0x202, "DF, TF and RF are cleared");
    assert_eq!(built.fp, FpState::new(Arch::X86_64), "the handler starts with a clean state");
    let word = |at: usize| u64_at(&built.bytes, at);
    assert_eq!((word(0), word(8), word(16)), (0x40_6000, 6, 0), "restorer, uc_flags, uc_link");
    let sc = 48;
    assert_eq!(word(sc + 15 * 8), context.regs.sp());
    assert_eq!((word(sc + 128), word(sc + 136)), (0x40_1234, context.regs.flags));
    assert_eq!((u16_at(&built.bytes, sc + 144), u16_at(&built.bytes, sc + 150)), (0x33, 0x2b));
    let fault = [152, 160, 168, 176].map(|at| word(sc + at));
    assert_eq!(fault, [4, 14, 1 << 9, 0x123], "err, trapno, oldmask, cr2");
    assert_eq!(word(304), 1 << 9, "uc_sigmask");
    assert_eq!(built.bytes[312..440], context.info);
    let fpstate = word(sc + 184);
    assert_eq!(fpstate % 64, 0);
    assert!(fpstate + 512 <= context.regs.sp() - 128, "the red zone is left alone");
    assert_eq!(built.bytes.len() as u64, fpstate - sp + 512);
}

#[test]
fn aarch64_frame_as_linux_lays_it_out() {
    let mut context = Context::new(Arch::Aarch64);
    context.regs.set_sp(0x7fff_0000_1230);
    context.regs.flags = 0x8000_0c00;
    let fault = Fault { address: 0x123, code: 0x9200_0007, trap: 0 };
    let built = build(&FrameInput { fault, ..context.input() }).unwrap();
    let sp = built.addr;
    let record = 0x7fff_0000_1220;
    assert_eq!(sp, record - 4688);
    assert_eq!((built.regs.sp(), built.regs.pc), (sp, 0x40_5000));
    let args = [0, 1, 2, 29, 30].map(|r| built.regs.gp[r]);
    assert_eq!(args, [11, sp, sp + 128, record, 0x40_6000]);
    assert_eq!(built.regs.flags, 0x8000_0000, "the branch type is reset");
    assert_eq!(built.fp, context.fp);
    let word = |at: usize| u64_at(&built.bytes, at);
    assert_eq!(built.bytes[..128], context.info);
    assert_eq!(word(128 + 40), 1 << 9, "uc_sigmask");
    let mc = 128 + 176;
    assert_eq!(
        (word(mc), word(mc + 8), word(mc + 256)),
        (0x123, context.regs.gp[0], 0x7fff_0000_1230)
    );
    assert_eq!((word(mc + 264), word(mc + 272)), (0x40_1234, 0x8000_0c00));
    let contexts = mc + 288;
    assert_eq!(u32_at(&built.bytes, contexts), 0x4650_8001);
    assert_eq!(u32_at(&built.bytes, contexts + 4), 528);
    assert_eq!(u32_at(&built.bytes, contexts + 528), 0x4553_5201);
    assert_eq!(word(contexts + 536), 0x9200_0007);
    assert_eq!(word(contexts + 544), 0, "terminator");
    let frame_record = (word(4688), word(4696));
    assert_eq!(frame_record, (context.regs.gp[29], context.regs.gp[30]));
    assert_eq!(built.bytes.len(), 4704);
}

#[test]
fn without_siginfo_and_restorer() {
    let context = Context::new(Arch::Aarch64);
    let mut input = context.input();
    input.action.flags = 0;
    let built = build(&input).unwrap();
    assert_eq!(built.regs.gp[1], context.regs.gp[1], "x1 is left alone");
    assert_eq!(built.regs.gp[30], 0x7fff_f000, "the vDSO returns");
    assert!(built.bytes[..128].iter().all(|b| *b == 0));

    let context = Context::new(Arch::X86_64);
    let mut input = context.input();
    input.action.flags = 0;
    assert_eq!(build(&input), Err(BuildError::NoRestorer));
    input.action.flags = sa::SA_RESTORER;
    let built = build(&input).unwrap();
    assert_eq!(built.regs.gp[4], built.addr + 312, "rsi is set all the same");
    assert!(built.bytes[312..440].iter().all(|b| *b == 0));
}

#[test]
fn alternate_stacks() {
    for arch in Arch::ALL {
        let mut context = Context::new(arch);
        let altstack = AltStack { sp: 0x10_0000, flags: 0, size: 0x4000 };
        let mut input = FrameInput { altstack, ..context.input() };
        let unswitched = build(&input).unwrap();
        assert!(unswitched.addr > 0x7ffe_0000_0000, "only with SA_ONSTACK");
        input.action.flags |= sa::SA_ONSTACK;
        let built = build(&input).unwrap();
        assert!(built.addr > 0x10_0000 && built.addr < 0x10_4000);
        assert_eq!(built.altstack, altstack);
        // A nested handler stays on the stack that it interrupts.
        context.regs.set_sp(built.addr);
        let mut input = FrameInput { altstack, ..context.input() };
        input.action.flags |= sa::SA_ONSTACK;
        assert!(build(&input).unwrap().addr < built.addr);
        let mut input = FrameInput {
            altstack: AltStack { flags: ss::SS_AUTODISARM, ..altstack },
            ..context.input()
        };
        input.action.flags |= sa::SA_ONSTACK;
        let built = build(&input).unwrap();
        assert_eq!(built.altstack, AltStack::DISABLED);
        let restored = Memory::of(&built).restore(&at_sigreturn(&built)).unwrap();
        assert_eq!(restored.altstack.flags, ss::SS_AUTODISARM);
    }
}

#[test]
fn x86_refuses_to_overflow_the_alternate_stack() {
    let mut context = Context::new(Arch::X86_64);
    let altstack = AltStack { sp: 0x10_0000, flags: 0, size: 900 };
    let mut input = FrameInput { altstack, ..context.input() };
    input.action.flags |= sa::SA_ONSTACK;
    assert_eq!(build(&input), Err(BuildError::AltStackOverflow));
    context.regs.set_sp(0x10_0100);
    let input = FrameInput { altstack, ..context.input() };
    assert_eq!(build(&input), Err(BuildError::AltStackOverflow), "already on it");
}

#[test]
fn x86_validates_what_it_restores() {
    let context = Context::new(Arch::X86_64);
    let built = build(&context.input()).unwrap();
    let present = at_sigreturn(&built);
    let patched = |at: usize, bytes: [u8; 8]| {
        let mut memory = Memory::of(&built);
        put(&mut memory.bytes, at, bytes);
        memory.restore(&present)
    };
    let sc = 48;
    let restored = patched(sc + 136, u64::MAX.to_le_bytes()).unwrap();
    assert_eq!(restored.regs.flags, 0x202 | 0x4_0dd5, "privileged flags stay");
    let null_segments = patched(sc + 144, [0; 8]);
    assert_eq!(null_segments, Err(BadFrame::Segments { cs: 0, ss: 0 }));
    let restored = patched(sc + 184, [0; 8]).unwrap();
    assert_eq!(restored.fp, FpState::new(Arch::X86_64), "no state: reset");
    let fpstate = u64_at(&built.bytes, sc + 184);
    let misaligned = patched(sc + 184, (fpstate - 8).to_le_bytes());
    assert_eq!(misaligned, Err(BadFrame::FpState));
    let beyond = patched(sc + 184, 0x1000u64.to_le_bytes());
    assert_eq!(beyond, Err(BadFrame::Unreadable(0x1000)));
    let fp_at = (fpstate - built.addr) as usize;
    let reserved = patched(fp_at + 24, [0, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(reserved, Err(BadFrame::FpState), "reserved MXCSR bit");
    let mut elsewhere = present;
    elsewhere.set_sp(8);
    assert_eq!(Memory::of(&built).restore(&elsewhere), Err(BadFrame::Unreadable(0)));
}

#[test]
fn aarch64_validates_what_it_restores() {
    let context = Context::new(Arch::Aarch64);
    let built = build(&context.input()).unwrap();
    let present = at_sigreturn(&built);
    let patched = |at: usize, word: u64| {
        let mut memory = Memory::of(&built);
        put(&mut memory.bytes, at, word.to_le_bytes());
        memory.restore(&present)
    };
    let pstate = 128 + 176 + 272;
    assert_eq!(patched(pstate, 0x5), Err(BadFrame::Pstate(0x5)), "EL1");
    assert_eq!(patched(pstate, 0x10), Err(BadFrame::Pstate(0x10)), "AArch32");
    assert_eq!(patched(pstate, 0x80), Err(BadFrame::Pstate(0x80)), "interrupts masked");
    let flags = patched(pstate, 0xffff_ffff_f02f_e020).unwrap().regs.flags;
    assert_eq!(flags, 0xf000_0000, "reserved bits and single step are dropped");
    let contexts = 128 + 176 + 288;
    let head = |magic: u64, size: u64| magic | size << 32;
    assert_eq!(patched(contexts, 0), Err(BadFrame::Context(0)), "no fpsimd_context");
    assert_eq!(patched(contexts, head(0x1234, 16)), Err(BadFrame::Context(0)));
    assert_eq!(patched(contexts, head(0x4650_8001, 512)), Err(BadFrame::Context(0)));
    assert_eq!(patched(contexts + 528, head(0x4650_8001, 528)), Err(BadFrame::Context(528)));
    assert_eq!(patched(contexts + 528, head(0x4553_5201, 5000)), Err(BadFrame::Context(528)));
    let mut odd = present;
    odd.set_sp(present.sp() + 8);
    assert_eq!(Memory::of(&built).restore(&odd), Err(BadFrame::Misaligned(odd.sp())));
}

#[test]
fn aarch64_follows_an_extra_context() {
    let context = Context::new(Arch::Aarch64);
    let input = FrameInput { fault: Fault::default(), ..context.input() };
    let built = build(&input).unwrap();
    let present = at_sigreturn(&built);
    let contexts = 128 + 176 + 288;
    let extra = contexts + 528;
    let target = built.addr + extra as u64 + 48;
    let mut memory = Memory::of(&built);
    put(&mut memory.bytes, extra, (0x4558_5401u64 | 32 << 32).to_le_bytes());
    put(&mut memory.bytes, extra + 8, target.to_le_bytes());
    put(&mut memory.bytes, extra + 16, 16u64.to_le_bytes());
    assert_eq!(memory.restore(&present).unwrap().fp, context.fp);
    put(&mut memory.bytes, extra + 8, (target + 16).to_le_bytes());
    assert_eq!(memory.restore(&present), Err(BadFrame::Context(528)));
}

#[test]
fn mixed_state_is_refused() {
    let context = Context::new(Arch::X86_64);
    let fp = FpState::new(Arch::Aarch64);
    let input = FrameInput { fp: &fp, ..context.input() };
    assert_eq!(build(&input), Err(BuildError::MixedArchitectures));
}

#[test]
fn no_frame_panics() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 33
    };
    for arch in Arch::ALL {
        let mut context = Context::new(arch);
        for sp in [0, 1, 8, 100, 700, u64::MAX, 1 << 63] {
            context.regs.set_sp(sp);
            let built = build(&context.input()).unwrap();
            let _ = Memory::of(&built).restore(&at_sigreturn(&Built {
                regs: Regs { gp: [0; 32], ..built.regs },
                ..built.clone()
            }));
        }
        context.regs.set_sp(0x7fff_0000_1230);
        let built = build(&context.input()).unwrap();
        let present = at_sigreturn(&built);
        for _ in 0..20_000 {
            let mut memory = Memory::of(&built);
            for _ in 0..random() % 8 {
                // Mostly where the lists of contexts are.
                let at = random() as usize % 1300.min(memory.bytes.len());
                memory.bytes[at] = random() as u8;
            }
            let _ = memory.restore(&present);
        }
    }
}
