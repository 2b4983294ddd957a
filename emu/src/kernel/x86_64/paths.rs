//! Which modelled functions are on the stack on each path, outermost first.

use arch::syscalls::Sysno;

use crate::kernel::paths::{self, EntryPath, ExitLoop, NestedPath, Paths, TrapKind};
use crate::kernel::symbols::Named::{self, *};

/// `irqentry_exit` is what the handlers of exceptions and interrupts jump to at their end.
const IRQENTRY_EXIT: ExitLoop = ExitLoop::Always(IrqentryExit);

const PAGE_FAULT: EntryPath = EntryPath {
    functions: &[AsmPageFault, PageFault, UserAddrFault],
    bookkeeping: 2,
    unmasked: 3,
    exit: 1,
    exit_loop: IRQENTRY_EXIT,
};

/// The way of an exception: the entry, the handler, what sends the signal.
const fn trap(kind: TrapKind) -> EntryPath {
    let functions: &[Named] = match kind {
        TrapKind::Divide => &[AsmDivide, Divide],
        TrapKind::Debug
        | TrapKind::Watchpoint
        | TrapKind::HardwareBreakpoint
        | TrapKind::SingleStep => &[AsmDebug, Debug],
        TrapKind::Breakpoint => &[AsmBreakpoint, Breakpoint],
        TrapKind::Overflow => &[AsmOverflow, OverflowTrap],
        TrapKind::InvalidOpcode => &[AsmInvalidOp, InvalidOp],
        TrapKind::Segment => &[AsmSegment, Segment],
        TrapKind::Stack => &[AsmStack, StackSegment],
        TrapKind::Protection | TrapKind::PcAlignment => &[AsmProtection, Protection],
        TrapKind::X87 => &[AsmX87, X87],
        TrapKind::Simd => &[AsmSimd, Simd],
        TrapKind::Alignment => &[AsmAlignment, Alignment],
        TrapKind::KernelAddress | TrapKind::KernelFetch => {
            // Interrupts are turned on in the innermost.
            return EntryPath {
                functions: &[AsmPageFault, PageFault, KernAddrFault, BadArea, InnerBadArea],
                unmasked: 5,
                ..PAGE_FAULT
            };
        }
    };
    EntryPath { functions, bookkeeping: 2, unmasked: 2, exit: 1, exit_loop: IRQENTRY_EXIT }
}

/// The paths of x86_64.
pub const PATHS: Paths = Paths {
    syscall: EntryPath {
        functions: &[EntrySyscall, DoSyscall],
        bookkeeping: 2,
        unmasked: 2,
        exit: 2,
        exit_loop: ExitLoop::IfWork(Named::ExitLoop),
    },
    page_fault: PAGE_FAULT,
    fetch_fault: PAGE_FAULT,
    trap,
    timer: EntryPath {
        functions: &[AsmTimer, Timer, HrtimerInterrupt, RunQueues],
        bookkeeping: 2,
        unmasked: 2,
        exit: 1,
        exit_loop: IRQENTRY_EXIT,
    },
    pmu: EntryPath {
        functions: &[AsmNmi, Nmi, PmuHandler, Overflow],
        bookkeeping: 2,
        unmasked: 2,
        exit: 1,
        exit_loop: IRQENTRY_EXIT,
    },
    irq_work: EntryPath {
        functions: &[AsmIrqWork, IrqWork, IrqWorkRun],
        bookkeeping: 2,
        unmasked: 2,
        exit: 1,
        exit_loop: IRQENTRY_EXIT,
    },
    resched: EntryPath {
        functions: &[AsmResched, Resched, SchedulerIpi],
        bookkeeping: 2,
        unmasked: 2,
        exit: 1,
        exit_loop: IRQENTRY_EXIT,
    },
    fork: EntryPath {
        functions: &[RetFromForkAsm, RetFromFork],
        bookkeeping: 2,
        unmasked: 2,
        exit: 2,
        exit_loop: ExitLoop::IfWork(Named::ExitLoop),
    },
    kernel_resched: NestedPath { functions: &[AsmResched, Resched, SchedulerIpi], bookkeeping: 2 },
    kernel_irq_work: NestedPath { functions: &[AsmIrqWork, IrqWork, IrqWorkRun], bookkeeping: 2 },
    kernel_timer: NestedPath {
        functions: &[AsmTimer, Timer, HrtimerInterrupt, RunQueues],
        bookkeeping: 2,
    },
    kernel_pmu: NestedPath { functions: &[AsmNmi, Nmi, PmuHandler, Overflow], bookkeeping: 2 },
    kernel_fault: NestedPath {
        functions: &[AsmPageFault, PageFault, UserAddrFault],
        bookkeeping: 2,
    },
    handle_fault: [
        &[HandleFault, InnerHandleFault, AnonymousPage],
        &[HandleFault, InnerHandleFault, FilePage],
    ],
};

/// Between the dispatcher and the call's own function. `x64_sys_call` jumps to all
/// functions but those that do not return, which it calls (`__SYSCALL_NORETURN`).
pub const fn invoke(sysno: Option<Sysno>) -> &'static [Named] {
    match sysno {
        Some(Sysno::Exit | Sysno::ExitGroup) => &[InvokeSyscall],
        _ => &[],
    }
}

/// Whether the call's own function jumps to the next one, so that it has no frame.
pub const fn is_tail_call(sysno: Sysno) -> bool {
    use Sysno::*;
    matches!(sysno, Read | Write | Munmap | Mmap | Clone | Clone3)
}

/// Functions below the call's own, outermost first.
pub const fn inner(sysno: Sysno) -> &'static [Named] {
    match sysno {
        Sysno::Mmap => &[VmMmap, DoMmap, InnerMmapRegion],
        Sysno::Tkill | Sysno::Tgkill => {
            &[DoTkill, SendSpecific, SendSigInfo, SendSignal, InnerSendSignal]
        }
        _ => paths::inner(sysno),
    }
}
