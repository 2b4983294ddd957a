//! Page faults and other exceptions from user mode.

use crate::kernel::signal::SigInfo;
use arch::decode::Decoder;
use arch::signal::{Signal, code};
use arch::{Arch, Regs};

use crate::engine::{Access, Exception};
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, aarch64, exit, x86_64};
use crate::mem::{Backing, FaultKind, PAGE};
use crate::perf::record::EventKind;

/// What is known of the fault behind a signal, for the signal frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TrapInfo {
    /// x86 vector, or the aarch64 exception class.
    pub number: u64,
    /// x86 error code, or the aarch64 syndrome (`ESR_EL1`).
    pub code: u64,
    /// Faulting address (`CR2`, `FAR_EL1`).
    pub addr: u64,
}

/// A page fault of user code on `page`.
pub async fn page_fault(k: &Kernel, page: u64, access: Access) {
    let arch = enter(k);
    let path = match arch {
        Arch::X86_64 => x86_64::paths::PAGE_FAULT,
        Arch::Aarch64 => aarch64::paths::PAGE_FAULT,
    };
    k.begin(path).await;
    k.step(Point::EntryN1, |s| s.cpu.irqs_on = true).await;
    let anonymous = k
        .step(Point::FaultLookup, |s| {
            s.stats.page_faults += 1;
            // The event is counted before the fault is handled, at the user's registers.
            let regs = s.user_regs();
            s.software_event(EventKind::PageFaults, Some(&regs));
            s.mm.area_above(page).is_none_or(|a| matches!(a.backing, Backing::Anonymous))
        })
        .await;
    let inner =
        [Named::HandleFault, if anonymous { Named::AnonymousPage } else { Named::FilePage }];
    k.enter(&inner).await;
    let fault =
        k.step(Point::FaultPage, |s| s.mm.fault(&mut s.arena, page, access).err()).await;
    k.leave(&inner).await;
    if let Some(fault) = fault {
        k.call(Named::ForceSignal.into()).await;
        k.step(Point::FaultSignal, |s| fault_signal(s, page, access, fault.kind)).await;
        k.ret().await;
    }
    k.step(Point::EntryN7, |s| s.cpu.irqs_on = false).await;
    k.end(path).await;
    exit::to_user_mode(k).await;
}

/// Saves the user's registers and enters the kernel.
fn enter(k: &Kernel) -> Arch {
    k.with(|s| {
        let regs = s.core.regs();
        s.save_user_regs(&regs, u64::MAX);
        s.enter_kernel();
        s.arch
    })
}

/// The byte that an access could not reach: the CPU reports the page, the instruction's
/// operand gives the address.
pub fn fault_address(state: &mut State, regs: &Regs, page: u64, access: Access) -> u64 {
    if access == Access::Fetch {
        return regs.pc.max(page);
    }
    let mut code = [0; 16];
    let within = (PAGE - regs.pc % PAGE).min(16) as usize;
    if !state.mm.peek(&state.arena, regs.pc, &mut code) {
        let _ = state.mm.peek(&state.arena, regs.pc, &mut code[..within]);
    }
    let tag_mask = match state.arch {
        Arch::X86_64 => u64::MAX,
        Arch::Aarch64 => 0x00ff_ffff_ffff_ffff,
    };
    let decoder = Decoder::new(state.arch);
    decoder
        .memory_operand(&code, regs)
        .into_iter()
        .filter(|a| a.write == (access == Access::Write))
        .find_map(|mut a| {
            a.addr &= tag_mask;
            a.first_byte_in(page, PAGE)
        })
        .unwrap_or(page)
}

fn fault_signal(state: &mut State, page: u64, access: Access, kind: FaultKind) {
    let regs = state.user_regs();
    let addr = fault_address(state, &regs, page, access);
    // A non-canonical address is a general protection fault on x86: no address.
    let canonical = ((addr << 16) as i64 >> 16) as u64 == addr;
    if state.arch == Arch::X86_64 && !canonical {
        let info = SigInfo::kernel(Signal::SIGSEGV);
        return force(state, info, TrapInfo { number: 13, code: 0, addr: 0 });
    }
    let (signal, code) = match kind {
        FaultKind::NotMapped => (Signal::SIGSEGV, code::SEGV_MAPERR),
        FaultKind::Forbidden => (Signal::SIGSEGV, code::SEGV_ACCERR),
        FaultKind::BeyondFile => (Signal::SIGBUS, code::BUS_ADRERR),
        FaultKind::NoMemory => (Signal::SIGKILL, code::SI_KERNEL),
    };
    let present = state.mm.table.get(page).is_some();
    let trap = match state.arch {
        Arch::X86_64 => x86_page_fault(addr, access, present),
        Arch::Aarch64 => aarch64_abort(addr, access, present),
    };
    force(state, SigInfo::fault(signal, code, addr), trap);
}

/// Error code of `#PF`: present, write, user, fetch.
fn x86_page_fault(addr: u64, access: Access, present: bool) -> TrapInfo {
    let code = u64::from(present)
        | u64::from(access == Access::Write) << 1
        | 1 << 2
        | u64::from(access == Access::Fetch) << 4;
    TrapInfo { number: 14, code, addr }
}

/// `ESR_EL1` of a data or instruction abort from EL0: class, IL, WnR, fault status
/// (translation or permission fault at level 3).
fn aarch64_abort(addr: u64, access: Access, present: bool) -> TrapInfo {
    let class: u64 = if access == Access::Fetch { 0x20 } else { 0x24 };
    let status = if present { 0x0f } else { 0x07 };
    let code = class << 26 | 1 << 25 | u64::from(access == Access::Write) << 6 | status;
    TrapInfo { number: class, code, addr }
}

/// Another exception of user code.
pub async fn exception(k: &Kernel, exception: Exception) {
    let arch = enter(k);
    let path = match arch {
        Arch::X86_64 => x86_64::paths::TRAP,
        Arch::Aarch64 => aarch64::paths::TRAP,
    };
    k.begin(path).await;
    k.step(Point::EntryN1, |s| s.cpu.irqs_on = true).await;
    k.step(Point::FaultSignal, |s| exception_signal(s, exception)).await;
    k.step(Point::EntryN7, |s| s.cpu.irqs_on = false).await;
    k.end(path).await;
    exit::to_user_mode(k).await;
}

/// The signal for an exception (`arch/x86/kernel/traps.c`, `arch/arm64/kernel/traps.c`).
fn exception_signal(state: &mut State, exception: Exception) {
    let mut regs = state.user_regs();
    let at = |signal, code| SigInfo::fault(signal, code, regs.pc);
    let (info, number) = match exception {
        Exception::Divide => (at(Signal::SIGFPE, code::FPE_INTDIV), 0),
        Exception::Debug => (at(Signal::SIGTRAP, code::TRAP_TRACE), 1),
        Exception::Breakpoint => match state.arch {
            Arch::X86_64 => (SigInfo::kernel(Signal::SIGTRAP), 3),
            Arch::Aarch64 => (at(Signal::SIGTRAP, code::TRAP_BRKPT), 0x3c),
        },
        Exception::Overflow => (SigInfo::kernel(Signal::SIGSEGV), 4),
        Exception::InvalidOpcode => match state.arch {
            Arch::X86_64 => (at(Signal::SIGILL, code::ILL_ILLOPN), 6),
            Arch::Aarch64 => (at(Signal::SIGILL, code::ILL_ILLOPC), 0),
        },
        Exception::Protection { vector } => (SigInfo::kernel(Signal::SIGSEGV), u64::from(vector)),
        Exception::FloatingPoint { simd } => {
            (at(Signal::SIGFPE, code::FPE_FLTINV), if simd { 19 } else { 16 })
        }
        Exception::Alignment => (at(Signal::SIGBUS, code::BUS_ADRALN), 17),
        // `int n`: the gate is not open to user mode, a fault at the instruction.
        Exception::SoftwareInterrupt { .. } => {
            regs.pc = regs.pc.wrapping_sub(2);
            state.set_user_regs(&regs);
            (SigInfo::kernel(Signal::SIGSEGV), 13)
        }
    };
    force(state, info, TrapInfo { number, code: 0, addr: 0 });
}

/// `force_sig_info`: cannot be blocked or ignored; if it is, the handler is reset.
pub fn force(state: &mut State, info: SigInfo, trap: TrapInfo) {
    state.task.signals.trap = trap;
    state.task.signals.force(info);
    state.task.work.signal_pending = true;
}
