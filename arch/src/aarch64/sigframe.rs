//! Signal frames of aarch64 (`arch/arm64/kernel/signal.c`) for a processor
//! with FPSIMD but without SVE, SME, BTI, GCS and memory tagging.

use super::regs::{FP, LR};
use crate::bytes::{get, put, put_words, u32_at, u64_at};
use crate::sigaction::AltStack;
use crate::sigframe::{BadFrame, BuildError, Built, FrameInput, ReadMemory, Restored, fetch};
use crate::signal::sa;
use crate::{FpState, Regs, SigSet, siginfo};

/// `struct rt_sigframe`: `siginfo_t`, then `ucontext`.
const UC: usize = siginfo::SIZE;
const UC_STACK: usize = UC + 16;
const UC_SIGMASK: usize = UC + 40;
const MCONTEXT: usize = UC + 176;
const MC_SP: usize = MCONTEXT + 256;
const RESERVED: usize = MCONTEXT + 288;
const RESERVED_SIZE: usize = 4096;
const FRAME: usize = RESERVED + RESERVED_SIZE;
/// The frame record above it.
const RECORD: usize = 16;

/// `struct fpsimd_context`.
const FPSIMD_MAGIC: u32 = 0x4650_8001;
const FPSIMD_SIZE: usize = 528;
/// `struct esr_context`.
const ESR_MAGIC: u32 = 0x4553_5201;
const ESR_SIZE: usize = 16;
/// `struct extra_context`: the list goes on elsewhere.
const EXTRA_MAGIC: u32 = 0x4558_5401;
const EXTRA_SIZE: u64 = 32;
/// `magic` and `size` of a context.
const HEAD: u64 = 8;
/// A padded empty context.
const TERMINATOR: u64 = 16;
/// No frame is larger (`SIGFRAME_MAXSZ`).
const MAX_FRAME: u64 = 256 << 10;

/// Branch type, which a signal resets.
const PSR_BTYPE: u64 = 0xc00;
/// Tag-check override, which a signal resets.
const PSR_TCO: u64 = 1 << 25;
/// Single step, which only a debugger sets.
const PSR_SS: u64 = 1 << 21;
/// Mode, AArch32 state and the D, A, I, F masks: zero at EL0.
const PSR_PRIVILEGED: u64 = 0x1f | 0xf << 6;
/// Reserved bits (`SPSR_EL1_AARCH64_RES0_BITS`), dropped silently.
const PSR_RES0: u64 = 0xffff_ffff_0000_0000 | 0x3 << 26 | 0x3 << 22 | 0xff << 13 | 1 << 5;

/// See [`crate::sigframe::saved_pc`].
pub(crate) const SAVED_PC: u64 = MC_SP as u64 + 8;

/// See [`crate::sigframe::saved_register`]. The first word of the context is the fault's
/// address.
pub(crate) fn saved_register(number: usize) -> Option<u64> {
    match number {
        0..=31 => Some((MCONTEXT + 8 + 8 * number) as u64),
        _ => None,
    }
}

/// See [`crate::sigframe::build`].
pub(crate) fn build(input: &FrameInput<'_>) -> Result<Built, BuildError> {
    let FpState::Aarch64 { v, fpsr, fpcr } = input.fp else {
        return Err(BuildError::MixedArchitectures);
    };
    let (addr, record) = place(input);
    let mut bytes = vec![0; FRAME + RECORD];
    if input.action.has(sa::SA_SIGINFO) {
        put(&mut bytes, 0, *input.info);
    }
    put(&mut bytes, UC_STACK, input.altstack.to_bytes());
    put(&mut bytes, UC_SIGMASK, input.mask.0.to_le_bytes());
    put_mcontext(&mut bytes, input);
    let fpsimd = &mut bytes[RESERVED..RESERVED + FPSIMD_SIZE];
    put_head(fpsimd, FPSIMD_MAGIC, FPSIMD_SIZE);
    put(fpsimd, 8, fpsr.to_le_bytes());
    put(fpsimd, 12, fpcr.to_le_bytes());
    for (i, register) in v.iter().enumerate() {
        put(fpsimd, 16 + 16 * i, register.to_le_bytes());
    }
    // The terminator is zeros.
    if input.fault.code != 0 {
        let esr = &mut bytes[RESERVED + FPSIMD_SIZE..RESERVED + FPSIMD_SIZE + ESR_SIZE];
        put_head(esr, ESR_MAGIC, ESR_SIZE);
        put(esr, 8, input.fault.code.to_le_bytes());
    }
    put_words(&mut bytes, FRAME, &[input.regs.gp[FP], input.regs.gp[LR]]);
    Ok(Built {
        addr,
        bytes,
        regs: handler_regs(input, addr, record),
        fp: input.fp.clone(),
        altstack: input.altstack_after(),
    })
}

/// Addresses of frame and frame record (`get_sigframe`).
fn place(input: &FrameInput<'_>) -> (u64, u64) {
    let mut sp = input.regs.sp();
    if input.enters_altstack(sp) {
        sp = input.altstack.sp.wrapping_add(input.altstack.size);
    }
    let record = sp.wrapping_sub(RECORD as u64) & !15;
    (record.wrapping_sub(FRAME as u64), record)
}

/// `fault_address`, `regs`, `sp`, `pc`, `pstate`.
fn put_mcontext(bytes: &mut [u8], input: &FrameInput<'_>) {
    let regs = input.regs;
    put(bytes, MCONTEXT, input.fault.address.to_le_bytes());
    put_words(bytes, MCONTEXT + 8, &regs.gp[..31]);
    put_words(bytes, MC_SP, &[regs.sp(), regs.pc, regs.flags]);
}

/// `struct _aarch64_ctx`.
fn put_head(context: &mut [u8], magic: u32, size: usize) {
    put(context, 0, magic.to_le_bytes());
    put(context, 4, (size as u32).to_le_bytes());
}

/// Registers at the handler's first instruction (`setup_return`).
fn handler_regs(input: &FrameInput<'_>, frame: u64, record: u64) -> Regs {
    let mut regs = *input.regs;
    regs.gp[0] = u64::from(input.signal.number());
    if input.action.has(sa::SA_SIGINFO) {
        regs.gp[1] = frame;
        regs.gp[2] = frame.wrapping_add(UC as u64);
    }
    regs.gp[FP] = record;
    regs.gp[LR] = match input.action.has(sa::SA_RESTORER) {
        true => input.action.restorer,
        false => input.vdso_sigreturn,
    };
    regs.set_sp(frame);
    regs.pc = input.action.handler;
    regs.flags &= !(PSR_BTYPE | PSR_TCO);
    regs
}

/// See [`crate::sigframe::restore`].
pub(crate) fn restore(present: &Regs, read: ReadMemory<'_>) -> Result<Restored, BadFrame> {
    let frame = present.sp();
    if frame & 15 != 0 {
        return Err(BadFrame::Misaligned(frame));
    }
    let bytes: [u8; RESERVED] = fetch(read, frame)?;
    let mut regs = *present;
    for (i, gp) in regs.gp[..31].iter_mut().enumerate() {
        *gp = u64_at(&bytes, MCONTEXT + 8 + 8 * i);
    }
    regs.set_sp(u64_at(&bytes, MC_SP));
    regs.pc = u64_at(&bytes, MC_SP + 8);
    regs.flags = valid_pstate(u64_at(&bytes, MC_SP + 16))?;
    let fpsimd = find_fpsimd(frame, read)?;
    Ok(Restored {
        regs,
        fp: restore_fp(fpsimd, read)?,
        mask: SigSet(u64_at(&bytes, UC_SIGMASK)).blockable(),
        altstack: AltStack::from_bytes(&get(&bytes, UC_STACK)),
    })
}

/// `valid_native_regs`.
fn valid_pstate(pstate: u64) -> Result<u64, BadFrame> {
    let kept = pstate & !(PSR_RES0 | PSR_SS);
    if kept & PSR_PRIVILEGED == 0 { Ok(kept) } else { Err(BadFrame::Pstate(pstate)) }
}

/// A part of the frame that holds a list of contexts.
struct Area {
    base: u64,
    limit: u64,
}

impl Area {
    /// `magic` and `size` at an offset, within bounds and aligned.
    fn head(&self, at: u64, read: ReadMemory<'_>) -> Result<(u32, u64), BadFrame> {
        // `at` never exceeds the limit: the loop below adds checked sizes.
        if self.limit - at < HEAD || !at.is_multiple_of(16) {
            return Err(BadFrame::Context(at));
        }
        let head: [u8; HEAD as usize] = fetch(read, self.base.wrapping_add(at))?;
        let size = u64::from(u32_at(&head, 4));
        if self.limit - at < size {
            return Err(BadFrame::Context(at));
        }
        Ok((u32_at(&head, 0), size))
    }
}

/// Walks the contexts (`parse_user_sigframe`); returns the address of the
/// one `fpsimd_context` that there must be.
fn find_fpsimd(frame: u64, read: ReadMemory<'_>) -> Result<u64, BadFrame> {
    let mut area = Area { base: frame.wrapping_add(RESERVED as u64), limit: RESERVED_SIZE as u64 };
    let mut at = 0;
    let mut fpsimd = None;
    let mut has_extra = false;
    loop {
        let (magic, size) = area.head(at, read)?;
        match magic {
            0 if size == 0 => break,
            FPSIMD_MAGIC if fpsimd.is_none() && size == FPSIMD_SIZE as u64 => {
                fpsimd = Some(area.base.wrapping_add(at));
            }
            ESR_MAGIC if size >= HEAD => {}
            EXTRA_MAGIC if !has_extra && size >= EXTRA_SIZE => {
                has_extra = true;
                area = extra_area(&area, at, size, frame, read)?;
                at = 0;
                continue;
            }
            _ => return Err(BadFrame::Context(at)),
        }
        at += size;
    }
    fpsimd.ok_or(BadFrame::Context(at))
}

/// The area that an `extra_context` names: it follows the terminator that
/// follows the context.
fn extra_area(
    area: &Area,
    at: u64,
    size: u64,
    frame: u64,
    read: ReadMemory<'_>,
) -> Result<Area, BadFrame> {
    let bad = BadFrame::Context(at);
    let context: [u8; EXTRA_SIZE as usize] = fetch(read, area.base.wrapping_add(at))?;
    let (base, limit) = (u64_at(&context, 8), u64::from(u32_at(&context, 16)));
    if area.limit - at - size < TERMINATOR {
        return Err(bad);
    }
    let end = area.base.wrapping_add(at + size);
    if fetch::<8>(read, end)? != [0; 8] {
        return Err(bad);
    }
    let after = end.wrapping_add(TERMINATOR);
    let used = after.wrapping_sub(frame);
    if base != after || base & 15 != 0 || limit & 15 != 0 || limit > MAX_FRAME - used {
        return Err(bad);
    }
    Ok(Area { base, limit })
}

/// `restore_fpsimd_context`.
fn restore_fp(addr: u64, read: ReadMemory<'_>) -> Result<FpState, BadFrame> {
    let bytes: [u8; FPSIMD_SIZE] = fetch(read, addr)?;
    let mut v = Box::new([0; 32]);
    for (i, register) in v.iter_mut().enumerate() {
        *register = u128::from_le_bytes(get(&bytes, 16 + 16 * i));
    }
    Ok(FpState::Aarch64 { v, fpsr: u32_at(&bytes, 8), fpcr: u32_at(&bytes, 12) })
}
