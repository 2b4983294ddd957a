//! Signal frames of x86_64 (`arch/x86/kernel/signal.c`, `signal_64.c` and
//! `fpu/signal.c`), for a processor without XSAVE: the floating-point state
//! is the legacy 512-byte FXSAVE image.

use super::regs::*;
use crate::bytes::{get, put, put_words, u16_at, u32_at, u64_at};
use crate::sigaction::AltStack;
use crate::sigframe::{BadFrame, BuildError, Built, FrameInput, ReadMemory, Restored, fetch};
use crate::signal::sa;
use crate::{Arch, FpState, Regs, SigSet, siginfo};

/// Bytes below the stack pointer that leaf functions use (psABI 3.2.2).
const RED_ZONE: u64 = 128;
/// FXSAVE image.
const FXSAVE: usize = 512;
/// Bytes of the image that FXSAVE and FXRSTOR touch.
const FXSAVE_USED: usize = 464;
/// MXCSR bits that the processor has; others make FXRSTOR fault.
const MXCSR_MASK: u32 = 0xffff;

/// `struct rt_sigframe`: return address, `ucontext`, `siginfo_t`.
const FRAME: usize = INFO + siginfo::SIZE;
const UC: usize = 8;
const UC_STACK: usize = UC + 16;
const MCONTEXT: usize = UC + 40;
const UC_SIGMASK: usize = MCONTEXT + 256;
const INFO: usize = UC_SIGMASK + 8;

/// `struct sigcontext_64`, from its start.
const SC_FLAGS: usize = 136;
const SC_CS: usize = 144;
const SC_SS: usize = 150;
const SC_ERR: usize = 152;
const SC_FPSTATE: usize = 184;

/// `sigcontext_64` from its start to `rsp`, as DWARF numbers.
const SC_REGS: [usize; 16] =
    [R8, R9, R10, R11, R12, R13, R14, R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP];
/// `rip` follows them.
const SC_RIP: usize = 128;

/// `uc_flags`: `ss` is saved, and restored as it is.
const UC_SIGCONTEXT_SS: u64 = 0x2;
const UC_STRICT_RESTORE_SS: u64 = 0x4;

const USER_CS: u16 = 0x33;
const USER_DS: u16 = 0x2b;

const TF: u64 = 1 << 8;
const DF: u64 = 1 << 10;
const RF: u64 = 1 << 16;
/// Flags that a frame restores (`FIX_EFLAGS`): AC, OF, DF, TF, SF, ZF, AF, PF, CF.
const FIX_EFLAGS: u64 = 0x4_0000 | 0x800 | DF | TF | 0x80 | 0x40 | 0x10 | 0x4 | 0x1;

/// The handler's `ret` has taken the return address below the context.
const FROM_SP: u64 = (MCONTEXT - UC) as u64;

/// See [`crate::sigframe::saved_pc`].
pub(crate) const SAVED_PC: u64 = FROM_SP + SC_RIP as u64;

/// See [`crate::sigframe::saved_register`].
pub(crate) fn saved_register(number: usize) -> Option<u64> {
    let index = SC_REGS.iter().position(|&r| r == number)?;
    Some(FROM_SP + 8 * index as u64)
}

/// See [`crate::sigframe::build`].
pub(crate) fn build(input: &FrameInput<'_>) -> Result<Built, BuildError> {
    let FpState::X86_64(fp) = input.fp else { return Err(BuildError::MixedArchitectures) };
    if !input.action.has(sa::SA_RESTORER) {
        return Err(BuildError::NoRestorer);
    }
    let (addr, fpstate) = place(input)?;
    // The image lies above the frame, less than 64 bytes away.
    let fp_at = fpstate.wrapping_sub(addr) as usize;
    let mut bytes = vec![0; fp_at + FXSAVE];
    let words = [input.action.restorer, UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS, 0];
    put_words(&mut bytes, 0, &words);
    put(&mut bytes, UC_STACK, input.altstack.to_bytes());
    put_sigcontext(&mut bytes[MCONTEXT..], input, fpstate);
    put(&mut bytes, UC_SIGMASK, input.mask.0.to_le_bytes());
    if input.action.has(sa::SA_SIGINFO) {
        put(&mut bytes, INFO, *input.info);
    }
    put(&mut bytes, fp_at, get::<FXSAVE_USED>(&fp[..], 0));
    Ok(Built {
        addr,
        bytes,
        regs: handler_regs(input, addr),
        fp: FpState::new(Arch::X86_64),
        altstack: input.altstack_after(),
    })
}

/// Addresses of frame and FXSAVE image (`get_sigframe`).
fn place(input: &FrameInput<'_>) -> Result<(u64, u64), BuildError> {
    let nested = input.altstack.in_use(input.regs.sp());
    let mut sp = input.regs.sp().wrapping_sub(RED_ZONE);
    let entering = input.enters_altstack(sp);
    if entering {
        sp = input.altstack.sp.wrapping_add(input.altstack.size);
    }
    let fpstate = sp.wrapping_sub(FXSAVE as u64) & !63;
    // As after a call: 8 bytes off a multiple of 16.
    let frame = (fpstate.wrapping_sub(FRAME as u64) & !15).wrapping_sub(8);
    if (nested || entering) && !input.altstack.holds(frame) {
        return Err(BuildError::AltStackOverflow);
    }
    Ok((frame, fpstate))
}

/// `unsafe_put_sigcontext`.
fn put_sigcontext(sc: &mut [u8], input: &FrameInput<'_>, fpstate: u64) {
    let regs = input.regs;
    put_words(sc, 0, &SC_REGS.map(|r| regs.gp[r]));
    put_words(sc, SC_RIP, &[regs.pc, regs.flags]);
    put(sc, SC_CS, USER_CS.to_le_bytes());
    put(sc, SC_SS, USER_DS.to_le_bytes());
    let fault = input.fault;
    put_words(sc, SC_ERR, &[fault.code, fault.trap, input.mask.0, fault.address, fpstate]);
}

/// Registers at the handler's first instruction.
fn handler_regs(input: &FrameInput<'_>, frame: u64) -> Regs {
    let mut regs = *input.regs;
    regs.gp[RDI] = u64::from(input.signal.number());
    // Handlers declared without prototypes: no vector arguments.
    regs.gp[RAX] = 0;
    regs.gp[RSI] = frame.wrapping_add(INFO as u64);
    regs.gp[RDX] = frame.wrapping_add(UC as u64);
    regs.gp[RSP] = frame;
    regs.pc = input.action.handler;
    regs.flags &= !(DF | RF | TF);
    regs
}

/// See [`crate::sigframe::restore`].
pub(crate) fn restore(present: &Regs, read: ReadMemory<'_>) -> Result<Restored, BadFrame> {
    // The handler's `ret` has taken the return address.
    let frame = present.sp().wrapping_sub(8);
    let bytes: [u8; INFO] = fetch(read, frame)?;
    let sc: [u8; 256] = get(&bytes, MCONTEXT);
    check_segments(&sc, u64_at(&bytes, UC))?;
    let mut regs = *present;
    for (i, r) in SC_REGS.into_iter().enumerate() {
        regs.gp[r] = u64_at(&sc, 8 * i);
    }
    regs.pc = u64_at(&sc, SC_RIP);
    regs.flags = present.flags & !FIX_EFLAGS | u64_at(&sc, SC_FLAGS) & FIX_EFLAGS;
    Ok(Restored {
        regs,
        fp: restore_fp(u64_at(&sc, SC_FPSTATE), read)?,
        mask: SigSet(u64_at(&bytes, UC_SIGMASK)).blockable(),
        altstack: AltStack::from_bytes(&get(&bytes, UC_STACK)),
    })
}

/// The kernel forces ring 3 and leaves the rest to `iret`, which faults.
/// 32-bit code segments are valid to Linux; no 64-bit program selects one.
fn check_segments(sc: &[u8], uc_flags: u64) -> Result<(), BadFrame> {
    let (cs, ss) = (u16_at(sc, SC_CS), u16_at(sc, SC_SS));
    let strict = uc_flags & UC_STRICT_RESTORE_SS != 0;
    if cs | 3 != USER_CS || strict && ss | 3 != USER_DS {
        return Err(BadFrame::Segments { cs, ss });
    }
    Ok(())
}

/// `fpu__restore_sig`: a null pointer resets the state, anything else must be
/// an image that FXRSTOR loads without a fault.
fn restore_fp(addr: u64, read: ReadMemory<'_>) -> Result<FpState, BadFrame> {
    let mut state = FpState::new(Arch::X86_64);
    if let (1.., FpState::X86_64(image)) = (addr, &mut state) {
        let bytes: [u8; FXSAVE] = fetch(read, addr)?;
        if addr & 15 != 0 || u32_at(&bytes, 24) & !MXCSR_MASK != 0 {
            return Err(BadFrame::FpState);
        }
        put(&mut image[..], 0, get::<28>(&bytes, 0));
        // MXCSR_MASK (bytes 28 to 31) is output only.
        put(&mut image[..], 32, get::<{ FXSAVE_USED - 32 }>(&bytes, 32));
    }
    Ok(state)
}
