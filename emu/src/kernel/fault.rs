//! Page faults and other exceptions from user mode.
//!
//! ```text
//! the CPU stops ─► classify ─┬─► page fault: the page is brought in, or a signal
//!                            └─► trap: a signal
//! ```

use arch::decode::memory_operands;
use arch::fault::{AccessKind, Fault};
use arch::siginfo::SigInfo;
use arch::signal::code;
use arch::{Arch, Regs, Signal};

use crate::engine::{Access, Exception};
use crate::kernel::paths::TrapKind;
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, aarch64, entry, interrupt, paths, signal, x86_64};
use crate::mem::{Backing, FaultKind, PAGE};
use crate::perf::record::EventKind;

/// What the processor reports when user code cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A page that user memory may have is absent or forbids the access.
    Page {
        /// Address of the page.
        page: u64,
        /// What was tried.
        access: Access,
    },
    /// Anything else.
    Trap(Trap),
}

/// An exception that ends in a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Which way it takes through the kernel.
    pub kind: TrapKind,
    /// The signal; `None` for a spurious one, after which user code goes on.
    pub info: Option<SigInfo>,
    /// What signal frames show.
    pub fault: Fault,
    /// PC of the saved registers.
    pub pc: u64,
    /// What is asked for that is not modelled.
    pub unsupported: Option<&'static str>,
}

impl Trap {
    /// A trap at `pc` that ends in `info`.
    pub const fn new(kind: TrapKind, info: SigInfo, fault: Fault, pc: u64) -> Trap {
        Trap { kind, info: Some(info), fault, pc, unsupported: None }
    }
}

impl From<Trap> for Cause {
    fn from(trap: Trap) -> Cause {
        Cause::Trap(trap)
    }
}

/// What a missing page of user code is to the processor.
pub fn of_page(state: &State, page: u64, access: Access) -> Cause {
    match state.arch {
        Arch::X86_64 => x86_64::traps::of_page(state, page, access),
        Arch::Aarch64 => aarch64::traps::of_page(state, page, access),
    }
}

/// What another exception of user code is.
pub fn of_exception(state: &State, exception: Exception) -> Cause {
    match state.arch {
        Arch::X86_64 => x86_64::traps::of_exception(state, exception),
        Arch::Aarch64 => aarch64::traps::of_exception(state, exception),
    }
    .into()
}

/// User code cannot go on.
pub async fn handle(k: &Kernel, cause: Cause) {
    match cause {
        Cause::Page { page, access } => page_fault(k, page, access).await,
        Cause::Trap(trap) => handle_trap(k, trap).await,
    }
}

/// How a signal is forced, outermost first.
const FORCE: [Named; 4] =
    [Named::ForceSignal, Named::ForceInfo, Named::SendSignal, Named::InnerSendSignal];

/// A page fault of user code on `page`.
async fn page_fault(k: &Kernel, page: u64, access: Access) {
    let paths = paths::of(k.arch());
    let path = match access {
        Access::Fetch => &paths.fetch_fault,
        _ => &paths.page_fault,
    };
    let [of_anonymous, of_file] = paths.handle_fault;
    entry::begin(k, path).await;
    entry::enable(k, path).await;
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
        k.enter(&FORCE).await;
        k.step(Point::FaultSignal, |s| fault_signal(s, page, access, fault.kind)).await;
        k.leave(&FORCE).await;
    }
    entry::finish(k, path).await;
}

/// Kernel code that may sleep reads user memory on a page that is absent. Whether it is there now.
pub async fn of_kernel(k: &Kernel, page: u64) -> bool {
    let path = &paths::of(k.arch()).kernel_fault;
    let [of_anonymous, of_file] = paths::of(k.arch()).handle_fault;
    // The event has the registers of the code that reads.
    k.step(Point::CaptureFault, |s| s.software_event(EventKind::PageFaults, None)).await;
    let saved = k.step(Point::IrqDeliver, |s| interrupt::deliver(s, path, false)).await;
    k.enter(&path.functions[1..]).await;
    if saved.irqs_on {
        k.irqs_went_off(Named::HardirqsOffFinish).await;
        k.irqs_go_on(Named::HardirqsOn).await;
    }
    let anonymous = k
        .step(Point::FaultLookup, |s| {
            s.stats.page_faults += 1;
            s.cpu.irqs_on = saved.irqs_on;
            s.cpu.nmi_masked = false;
            s.mm.area(page).is_none_or(|a| matches!(a.backing, Backing::Anonymous))
        })
        .await;
    let handlers = if anonymous { of_anonymous } else { of_file };
    k.enter(handlers).await;
    let read = |s: &mut State| s.mm.fault(&mut s.arena, page, Access::Read).is_ok();
    let there = k.step(Point::FaultPage, read).await;
    k.leave(handlers).await;
    if saved.irqs_on {
        k.irqs_go_off(Named::HardirqsOff).await;
    }
    k.leave(&path.functions[1..]).await;
    if saved.irqs_on {
        k.irqs_go_on(Named::HardirqsOn).await;
    }
    k.last_step(Point::IrqReturn, |s| interrupt::return_to_kernel(s, &saved));
    there
}

/// An exception that ends in a signal.
async fn handle_trap(k: &Kernel, trap: Trap) {
    let path = (paths::of(k.arch()).trap)(trap.kind);
    entry::begin(k, &path).await;
    entry::enable(k, &path).await;
    k.step(Point::FaultSignal, |s| trap_signal(s, &trap)).await;
    entry::finish(k, &path).await;
}

fn trap_signal(state: &mut State, trap: &Trap) {
    if let Some(what) = trap.unsupported {
        state.note_unsupported(what);
    }
    let emulated = match state.arch {
        Arch::Aarch64 => aarch64::traps::emulate(state, trap.kind),
        Arch::X86_64 => false,
    };
    if emulated {
        return;
    }
    let regs = state.user_regs();
    if regs.pc != trap.pc {
        state.set_user_regs(&Regs { pc: trap.pc, ..regs });
    }
    if let Some(info) = trap.info {
        signal::force(state, info, trap.fault);
    }
}

/// The bytes of the instruction at `pc`, as many of 16 as are present, then zeros.
pub fn code_at(state: &State, pc: u64) -> [u8; 16] {
    let mut code = [0; 16];
    let within = (PAGE - pc % PAGE).min(16) as usize;
    if !state.mm.peek(&state.arena, pc, &mut code) {
        let _ = state.mm.peek(&state.arena, pc, &mut code[..within]);
    }
    code
}

/// The byte that an access could not reach: the CPU reports the page, the instruction's
/// operand gives the address.
pub fn fault_address(state: &State, regs: &Regs, page: u64, access: Access) -> u64 {
    if access == Access::Fetch {
        return regs.pc.max(page);
    }
    memory_operands(state.arch, &code_at(state, regs.pc), regs)
        .into_iter()
        .filter(|a| a.write == (access == Access::Write))
        .find_map(|mut a| {
            if state.arch == Arch::Aarch64 {
                a.addr = aarch64::traps::untagged(a.addr);
            }
            a.first_byte_in(page, PAGE)
        })
        .unwrap_or(page)
}

/// How the architecture's fault codes name an access.
pub const fn kind_of(access: Access) -> AccessKind {
    match access {
        Access::Read => AccessKind::Read,
        Access::Write => AccessKind::Write,
        Access::Fetch => AccessKind::Fetch,
    }
}

fn fault_signal(state: &mut State, page: u64, access: Access, kind: FaultKind) {
    let regs = state.user_regs();
    let addr = fault_address(state, &regs, page, access);
    let (signal, code) = match kind {
        FaultKind::NotMapped => (Signal::SIGSEGV, code::SEGV_MAPERR),
        FaultKind::Forbidden => (Signal::SIGSEGV, code::SEGV_ACCERR),
        FaultKind::BeyondFile => (Signal::SIGBUS, code::BUS_ADRERR),
        FaultKind::NoMemory => (Signal::SIGKILL, code::SI_KERNEL),
    };
    let mapped = state.mm.table.get(page).is_some();
    let fault = Fault::page(state.arch, addr, kind_of(access), mapped);
    signal::force(state, SigInfo::fault(signal, code, addr), fault);
}
