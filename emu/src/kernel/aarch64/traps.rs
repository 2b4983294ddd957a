//! What exceptions of user code mean (`arch/arm64/kernel/traps.c`,
//! `arch/arm64/mm/fault.c`).
//!
//! The engine does not check the alignment of SP.

use arch::decode::memory_operands;
use arch::fault::{AccessKind, Fault};
use arch::siginfo::SigInfo;
use arch::signal::code;
use arch::{Arch, Regs, Signal};

use crate::engine::{Access, Exception};
use crate::kernel::State;
use crate::kernel::fault::{Cause, Trap, code_at, fault_address, kind_of};
use crate::kernel::paths::TrapKind;

/// `untagged_addr`: the top byte is a copy of bit 55.
pub const fn untagged(addr: u64) -> u64 {
    ((addr << 8) as i64 >> 8) as u64
}

/// What a page that the processor cannot access is: a page fault if it can be user memory.
pub fn of_page(state: &State, page: u64, access: Access) -> Cause {
    let regs = state.hw_regs();
    if let Some(trap) = unaligned_pc(&regs) {
        return trap.into();
    }
    if page < Arch::Aarch64.task_size() {
        return Cause::Page { page, access };
    }
    // `do_translation_fault`: not of TTBR0, so `do_bad_area`.
    let addr = fault_address(state, &regs, page, access);
    let kind = match access {
        Access::Fetch => TrapKind::KernelFetch,
        _ => TrapKind::KernelAddress,
    };
    let info = SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, addr);
    Trap::new(kind, info, Fault::page(Arch::Aarch64, addr, kind_of(access), false), regs.pc).into()
}

/// `do_sp_pc_abort`
fn unaligned_pc(regs: &Regs) -> Option<Trap> {
    let info = SigInfo::fault(Signal::SIGBUS, code::BUS_ADRALN, regs.pc);
    let fault = Fault { address: 0, code: arch::aarch64::fault::PC_ALIGNMENT, trap: 0 };
    (regs.pc & 3 != 0).then(|| Trap::new(TrapKind::PcAlignment, info, fault, regs.pc))
}

/// The signal of an exception that is no page fault.
pub fn of_exception(state: &State, exception: Exception) -> Trap {
    let regs = state.hw_regs();
    if let Some(trap) = unaligned_pc(&regs) {
        return trap;
    }
    // Without a syndrome the frame has no `esr_context`.
    let at = |kind, signal, code| {
        Trap::new(kind, SigInfo::fault(signal, code, regs.pc), Fault::default(), regs.pc)
    };
    match exception {
        Exception::Breakpoint => at(TrapKind::Breakpoint, Signal::SIGTRAP, code::TRAP_BRKPT),
        Exception::Alignment => alignment(state, &regs),
        _ => at(TrapKind::InvalidOpcode, Signal::SIGILL, code::ILL_ILLOPC),
    }
}

/// `do_alignment_fault`: an exclusive or ordered access that is not aligned.
fn alignment(state: &State, regs: &Regs) -> Trap {
    let operands = memory_operands(Arch::Aarch64, &code_at(state, regs.pc), regs);
    let unaligned = |a: &&arch::decode::Access| !a.addr.is_multiple_of(u64::from(a.size.max(1)));
    let operand = operands.iter().find(unaligned).or(operands.first());
    let (addr, write) = operand.map_or((regs.pc, false), |a| (untagged(a.addr), a.write));
    let kind = if write { AccessKind::Write } else { AccessKind::Read };
    let info = SigInfo::fault(Signal::SIGBUS, code::BUS_ADRALN, addr);
    Trap::new(TrapKind::Alignment, info, arch::aarch64::fault::alignment(addr, kind), regs.pc)
}

/// Whether the kernel emulates the instruction and did.
///
/// Reads of identification registers by EL0 are undefined instructions that Linux
/// emulates (`arch/arm64/kernel/cpufeature.c`, `emulate_mrs`): the features that
/// `AT_HWCAP` names, and a processor that no library has special code for.
pub fn emulate(state: &mut State, kind: TrapKind) -> bool {
    let mut regs = state.user_regs();
    let mut word = [0; 4];
    if kind != TrapKind::InvalidOpcode || !state.mm.peek(&state.arena, regs.pc, &mut word) {
        return false;
    }
    let word = u32::from_le_bytes(word);
    // `mrs xT, S3_0_C0_Cm_op2`
    if word & 0xffff_f000 != 0xd538_0000 {
        return false;
    }
    let (crm, op2, target) = (word >> 8 & 15, word >> 5 & 7, (word & 31) as usize);
    let value: u64 = match (crm, op2) {
        // MIDR_EL1: an Arm architecture model. MPIDR_EL1: bit 31 reads as one.
        (0, 0) => 0x410f_d0f0,
        (0, 5) => 1 << 31,
        (0, 6) => 0,
        // ID_AA64ISAR0_EL1: AES and PMULL, SHA1, SHA2, CRC32, LSE atomics.
        (6, 0) => 2 << 20 | 1 << 16 | 1 << 12 | 1 << 8 | 2 << 4,
        // ID_AA64ISAR1_EL1: LRCPC, FCMA, JSCVT, generic and address authentication.
        (6, 1) => 1 << 24 | 1 << 20 | 1 << 16 | 1 << 12 | 1 << 4,
        // The other feature registers: nothing beyond the baseline.
        (1..=7, _) => 0,
        _ => return false,
    };
    if target < 31 {
        regs.gp[target] = value;
    }
    regs.pc += 4;
    state.set_user_regs(&regs);
    true
}
