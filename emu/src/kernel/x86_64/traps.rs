//! What exceptions of user code mean (Intel SDM volume 3, chapter 6;
//! `arch/x86/kernel/traps.c`, `arch/x86/mm/fault.c`).
//!
//! The engine has `int n` arrive as exception `n` with the PC behind it, whatever `n` is:
//! the instruction's bytes tell it from the exception itself. It loads MXCSR without a
//! look at its reserved bits and never raises an SSE arithmetic exception; of the x87 it
//! raises division by zero (also for 0/0), not stack faults.

use arch::decode::{self, Access as Operand, memory_operands};
use arch::fault::Fault;
use arch::siginfo::SigInfo;
use arch::signal::code;
use arch::x86_64::fault as x86;
use arch::x86_64::operands::is_stack;
use arch::{Arch, FpState, Regs, Signal};

use crate::engine::{Access, Exception};
use crate::kernel::State;
use crate::kernel::fault::{Cause, Trap, code_at, fault_address, kind_of};
use crate::kernel::paths::TrapKind;
use crate::mem::PAGE;

/// `int n`
const INT: u8 = 0xcd;
/// `int1`, also called `icebp`.
const INT1: u8 = 0xf1;

/// What a page that the processor cannot access is: a page fault, or a general protection
/// or stack fault if the address is not canonical, or a page fault on a kernel address.
pub fn of_page(state: &State, page: u64, access: Access) -> Cause {
    let regs = state.hw_regs();
    let user = Arch::X86_64.task_size();
    if access == Access::Fetch {
        return match (x86::is_canonical(page), page < user) {
            (_, true) => Cause::Page { page, access },
            (true, _) => kernel_address(state, &regs, page, access).into(),
            // The engine has jumped already; the processor faults at the jump.
            (false, _) => protection(state, regs.pc, 0).into(),
        };
    }
    if access == Access::Write && page < user {
        return Cause::Page { page, access };
    }
    let code = code_at(state, regs.pc);
    let operands = memory_operands(Arch::X86_64, &code, &regs);
    let touches = |a: &&Operand| a.first_byte_in(page, PAGE).is_some();
    let writes = access == Access::Write;
    // What reads, changes and writes faults as a store.
    let operand = operands.iter().filter(|a| a.write == writes).find(touches);
    let operand = operand.or_else(|| operands.iter().find(touches));
    let last = |a: &Operand| a.addr.wrapping_add(u64::from(a.size.max(1)) - 1);
    let canonical = match operand {
        Some(a) => x86::is_canonical(a.addr) && x86::is_canonical(last(a)),
        None => x86::is_canonical(page),
    };
    if !canonical {
        return match operand.is_some_and(|a| is_stack(&code, &regs, a)) {
            true => stack_fault(state, regs.pc).into(),
            false => protection(state, regs.pc, 0).into(),
        };
    }
    let access = match operand {
        Some(a) if a.write => Access::Write,
        _ => access,
    };
    match page < user {
        true => Cause::Page { page, access },
        false => kernel_address(state, &regs, page, access).into(),
    }
}

/// `do_kern_addr_fault`: not a page fault for the profile's purposes.
fn kernel_address(state: &State, regs: &Regs, page: u64, access: Access) -> Trap {
    let addr = fault_address(state, regs, page, access);
    let kind = match access {
        Access::Fetch => TrapKind::KernelFetch,
        _ => TrapKind::KernelAddress,
    };
    let info = SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, addr);
    Trap::new(kind, info, Fault::page(Arch::X86_64, addr, kind_of(access), true), regs.pc)
}

fn fault(state: &State, trap: u64, error: u64) -> Fault {
    x86::exception(state.task.signals.fault, trap, error)
}

fn protection(state: &State, pc: u64, error: u64) -> Trap {
    let info = SigInfo::kernel(Signal::SIGSEGV);
    Trap::new(TrapKind::Protection, info, fault(state, x86::GP, error), pc)
}

fn stack_fault(state: &State, pc: u64) -> Trap {
    let info = SigInfo::kernel(Signal::SIGBUS);
    Trap::new(TrapKind::Stack, info, fault(state, x86::SS, 0), pc)
}

/// The signal of an exception that is no page fault.
pub fn of_exception(state: &State, exception: Exception) -> Trap {
    let regs = state.hw_regs();
    let pc = regs.pc;
    if let Some((vector, pc)) = software_interrupt(state, &regs, exception) {
        let mut trap = protection(state, pc, x86::idt_error(vector));
        trap.unsupported = (vector == 0x80).then_some("32-bit system calls (int 0x80)");
        return trap;
    }
    let at = |kind, signal, code, vector| {
        Trap::new(kind, SigInfo::fault(signal, code, pc), fault(state, vector, 0), pc)
    };
    let kernel = |kind, signal, vector| {
        Trap::new(kind, SigInfo::kernel(signal), fault(state, vector, 0), pc)
    };
    use Signal as S;
    match exception {
        Exception::Divide => at(TrapKind::Divide, S::SIGFPE, code::FPE_INTDIV, x86::DE),
        Exception::Debug => at(TrapKind::Debug, S::SIGTRAP, code::TRAP_TRACE, x86::DB),
        Exception::Breakpoint => kernel(TrapKind::Breakpoint, S::SIGTRAP, x86::BP),
        Exception::Overflow => kernel(TrapKind::Overflow, S::SIGSEGV, x86::OF),
        Exception::InvalidOpcode if code_at(state, pc)[0] == INT1 => int1(state, pc),
        Exception::InvalidOpcode => {
            at(TrapKind::InvalidOpcode, S::SIGILL, code::ILL_ILLOPN, x86::UD)
        }
        Exception::Protection { vector: 12 } => kernel(TrapKind::Stack, S::SIGBUS, x86::SS),
        Exception::Protection { vector: 11 } => kernel(TrapKind::Segment, S::SIGBUS, x86::NP),
        Exception::Protection { .. } | Exception::SoftwareInterrupt { .. } => {
            protection(state, pc, 0)
        }
        Exception::FloatingPoint { simd } => floating_point(state, pc, simd),
        // No address.
        Exception::Alignment => {
            let info = SigInfo::fault(S::SIGBUS, code::BUS_ADRALN, 0);
            Trap::new(TrapKind::Alignment, info, fault(state, x86::AC, 0), pc)
        }
    }
}

/// `int1` is a trap: the saved PC is behind it. No debug register says why.
fn int1(state: &State, pc: u64) -> Trap {
    let next = pc.wrapping_add(1);
    let info = SigInfo::fault(Signal::SIGTRAP, code::TRAP_BRKPT, next);
    Trap::new(TrapKind::Debug, info, fault(state, x86::DB, 0), next)
}

/// `math_error`
fn floating_point(state: &State, pc: u64, simd: bool) -> Trap {
    let half = |at: usize| match state.hw_fp() {
        FpState::X86_64(image) => u16::from_le_bytes([image[at], image[at + 1]]),
        FpState::Aarch64 { .. } => 0,
    };
    // FXSAVE: control word, status word; MXCSR has its masks seven bits above its flags.
    let (raised, kind, vector) = match simd {
        false => (half(2) & !half(0), TrapKind::X87, x86::MF),
        true => (half(24) & !(half(24) >> 7), TrapKind::Simd, x86::XF),
    };
    let info = x86::fpu_code(raised).map(|code| SigInfo::fault(Signal::SIGFPE, code, pc));
    Trap { kind, info, fault: fault(state, vector, 0), pc, unsupported: None }
}

/// Vector and address of the `int n` before the PC, if that is what was executed and the
/// gate is not open to user code, as those of `int 3` and `int 4` are. Of `int 6` the
/// engine leaves the PC at the instruction, which cannot raise #UD in another way.
fn software_interrupt(state: &State, regs: &Regs, exception: Exception) -> Option<(u8, u64)> {
    let vectors: &[u8] = match exception {
        Exception::Divide => &[0],
        Exception::Debug => &[1],
        Exception::Overflow => &[5],
        Exception::Protection { vector } => &[vector],
        Exception::FloatingPoint { simd: false } => &[16],
        Exception::Alignment => &[17],
        Exception::FloatingPoint { simd: true } => &[19],
        Exception::SoftwareInterrupt { vector } => &[vector],
        Exception::Breakpoint | Exception::InvalidOpcode => &[],
    };
    if exception == Exception::InvalidOpcode && code_at(state, regs.pc).starts_with(&[INT, 6]) {
        return Some((6, regs.pc));
    }
    let (at, mut before) = (regs.pc.wrapping_sub(2), [0; 2]);
    if !state.mm.peek(&state.arena, at, &mut before) {
        return None;
    }
    let is_int = before[0] == INT && vectors.contains(&before[1]);
    (is_int && !raises(state, regs, exception)).then_some((before[1], at))
}

/// Whether the instruction at the PC may raise the exception itself, so that what stands
/// before it does not matter.
fn raises(state: &State, regs: &Regs, exception: Exception) -> bool {
    let code = code_at(state, regs.pc);
    let insn = decode::insn(Arch::X86_64, &code);
    match exception {
        // `div` and `idiv`, behind prefixes.
        Exception::Divide => {
            let opcode =
                code.iter().position(|b| !matches!(b, 0x40..=0x4f | 0x66 | 0x67 | 0xf2..=0xf3));
            let opcode = opcode.and_then(|at| code.get(at..at + 2));
            opcode.is_some_and(|c| c[0] & 0xfe == 0xf6 && c[1] >> 3 & 7 >= 6)
        }
        Exception::Debug => regs.flags & 0x100 != 0,
        Exception::Protection { .. } => {
            let operands = memory_operands(Arch::X86_64, &code, regs);
            let privileged = insn.is_some_and(|i| i.special.is_some()) || code[0] == 0xf4;
            privileged || operands.iter().any(|a| !x86::is_canonical(a.addr))
        }
        _ => false,
    }
}
