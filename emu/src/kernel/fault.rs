//! Page faults and other exceptions from user mode.

use arch::decode::Decoder;
use arch::fault::{AccessKind, Fault};
use arch::siginfo::SigInfo;
use arch::signal::code;
use arch::x86_64::fault as x86_fault;
use arch::{Arch, Regs, Signal};

use crate::engine::{Access, Exception};
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, entry, paths, signal};
use crate::mem::{Backing, FaultKind, PAGE};
use crate::perf::record::EventKind;

/// A page fault of user code on `page`.
pub async fn page_fault(k: &Kernel, page: u64, access: Access) {
    let paths = paths::of(k.arch());
    let [of_anonymous, of_file] = paths.handle_fault;
    entry::begin(k, &paths.page_fault).await;
    entry::enable(k, &paths.page_fault).await;
    let anonymous = k
        .step(Point::FaultLookup, |s| {
            s.stats.page_faults += 1;
            // The event is counted before the fault is handled, at the user's registers.
            let regs = s.user_regs();
            s.software_event(EventKind::PageFaults, Some(&regs));
            s.mm.area_above(page).is_none_or(|a| matches!(a.backing, Backing::Anonymous))
        })
        .await;
    let handlers = if anonymous { of_anonymous } else { of_file };
    k.enter(handlers).await;
    let fault = k.step(Point::FaultPage, |s| s.mm.fault(&mut s.arena, page, access).err()).await;
    k.leave(handlers).await;
    if let Some(fault) = fault {
        k.call(Named::ForceSignal.into()).await;
        k.step(Point::FaultSignal, |s| fault_signal(s, page, access, fault.kind)).await;
        k.ret().await;
    }
    entry::finish(k, &paths.page_fault).await;
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
        let fault = x86_fault::exception(state.task.signals.fault, x86_fault::GP, 0);
        return signal::force(state, SigInfo::kernel(Signal::SIGSEGV), fault);
    }
    let (signal, code) = match kind {
        FaultKind::NotMapped => (Signal::SIGSEGV, code::SEGV_MAPERR),
        FaultKind::Forbidden => (Signal::SIGSEGV, code::SEGV_ACCERR),
        FaultKind::BeyondFile => (Signal::SIGBUS, code::BUS_ADRERR),
        FaultKind::NoMemory => (Signal::SIGKILL, code::SI_KERNEL),
    };
    let kind = match access {
        Access::Read => AccessKind::Read,
        Access::Write => AccessKind::Write,
        Access::Fetch => AccessKind::Fetch,
    };
    let fault = Fault::page(state.arch, addr, kind, state.mm.table.get(page).is_some());
    signal::force(state, SigInfo::fault(signal, code, addr), fault);
}

/// Another exception of user code.
pub async fn exception(k: &Kernel, exception: Exception) {
    let path = &paths::of(k.arch()).trap;
    entry::begin(k, path).await;
    entry::enable(k, path).await;
    k.step(Point::FaultSignal, |s| exception_signal(s, exception)).await;
    entry::finish(k, path).await;
}

/// Reads of identification registers by EL0 are undefined instructions that Linux
/// emulates (`arch/arm64/kernel/cpufeature.c`, `emulate_mrs`): the features that
/// `AT_HWCAP` names, and a processor that no library has special code for.
fn emulate_mrs(state: &mut State) -> bool {
    let mut regs = state.user_regs();
    let mut word = [0; 4];
    if !state.mm.peek(&state.arena, regs.pc, &mut word) {
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

/// The signal for an exception (`arch/x86/kernel/traps.c`, `arch/arm64/kernel/traps.c`).
fn exception_signal(state: &mut State, exception: Exception) {
    let undefined = state.arch == Arch::Aarch64 && exception == Exception::InvalidOpcode;
    if undefined && emulate_mrs(state) {
        return;
    }
    let mut regs = state.user_regs();
    let at = |signal, code| SigInfo::fault(signal, code, regs.pc);
    let segv = SigInfo::kernel(Signal::SIGSEGV);
    let (info, trap) = match exception {
        Exception::Divide => (at(Signal::SIGFPE, code::FPE_INTDIV), x86_fault::DE),
        Exception::Debug => (at(Signal::SIGTRAP, code::TRAP_TRACE), x86_fault::DB),
        Exception::Breakpoint => match state.arch {
            Arch::X86_64 => (SigInfo::kernel(Signal::SIGTRAP), x86_fault::BP),
            Arch::Aarch64 => (at(Signal::SIGTRAP, code::TRAP_BRKPT), 0),
        },
        Exception::Overflow => (segv, x86_fault::OF),
        Exception::InvalidOpcode => match state.arch {
            Arch::X86_64 => (at(Signal::SIGILL, code::ILL_ILLOPN), x86_fault::UD),
            Arch::Aarch64 => (at(Signal::SIGILL, code::ILL_ILLOPC), 0),
        },
        Exception::Protection { vector } => (segv, u64::from(vector)),
        Exception::FloatingPoint { simd } => {
            let trap = if simd { x86_fault::XF } else { x86_fault::MF };
            (at(Signal::SIGFPE, code::FPE_FLTINV), trap)
        }
        Exception::Alignment => (at(Signal::SIGBUS, code::BUS_ADRALN), x86_fault::AC),
        // `int n`: the gate is not open to user mode, a fault at the instruction.
        Exception::SoftwareInterrupt { .. } => {
            regs.pc = regs.pc.wrapping_sub(2);
            state.set_user_regs(&regs);
            (segv, x86_fault::GP)
        }
    };
    let fault = match state.arch {
        Arch::X86_64 => x86_fault::exception(state.task.signals.fault, trap, 0),
        // No address and no syndrome: the frame then has no `esr_context`.
        Arch::Aarch64 => Fault::default(),
    };
    signal::force(state, info, fault);
}
