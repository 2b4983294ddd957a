//! Which modelled functions are on the stack on each path, outermost first.

use arch::syscalls::Sysno;

use crate::kernel::paths::{self, EntryPath, ExitLoop, NestedPath, Paths, TrapKind};
use crate::kernel::symbols::Named::{self, *};

const LOOP: ExitLoop = ExitLoop::IfWork(Named::ExitLoop);

/// A path through the function named `el0_…` that is the third.
const fn sync(functions: &'static [Named]) -> EntryPath {
    EntryPath { functions, bookkeeping: 3, unmasked: 3, exit: 3, exit_loop: LOOP }
}

/// The way of an exception, up to what sends the signal.
const fn trap(kind: TrapKind) -> EntryPath {
    let debug = match kind {
        TrapKind::Watchpoint => &[EntrySyscall, SyncHandler, AsmWatchpoint, Watchpoint],
        TrapKind::HardwareBreakpoint => {
            &[EntrySyscall, SyncHandler, AsmHardwareBreakpoint, HardwareBreakpoint]
        }
        TrapKind::SingleStep => &[EntrySyscall, SyncHandler, AsmSingleStep, SingleStep],
        _ => return fault(kind),
    };
    // Interrupts stay off while the events are counted.
    EntryPath { bookkeeping: 4, unmasked: 4, ..sync(debug) }
}

const fn fault(kind: TrapKind) -> EntryPath {
    sync(match kind {
        TrapKind::Breakpoint => &[EntrySyscall, SyncHandler, AsmBreakpoint, Breakpoint],
        TrapKind::Alignment => {
            &[EntrySyscall, SyncHandler, AsmPageFault, PageFault, Alignment, BadArea]
        }
        TrapKind::KernelAddress => {
            &[EntrySyscall, SyncHandler, AsmPageFault, PageFault, TranslationFault, BadArea]
        }
        TrapKind::KernelFetch => {
            &[EntrySyscall, SyncHandler, InstructionAbort, PageFault, TranslationFault, BadArea]
        }
        TrapKind::PcAlignment => &[EntrySyscall, SyncHandler, AsmAlignment, StackSegment],
        TrapKind::Stack => &[EntrySyscall, SyncHandler, AsmStack, StackSegment],
        _ => &[EntrySyscall, SyncHandler, AsmInvalidOp, InvalidOp],
    })
}

/// The paths of aarch64. The functions that are named `el0_` hold the bookkeeping, turn
/// interrupts on and leave; what they call does the work.
pub const PATHS: Paths = Paths {
    syscall: sync(&[EntrySyscall, SyncHandler, El0Svc, DoEl0Svc, DoSyscall]),
    page_fault: sync(&[
        EntrySyscall,
        SyncHandler,
        AsmPageFault,
        PageFault,
        TranslationFault,
        UserAddrFault,
    ]),
    fetch_fault: sync(&[
        EntrySyscall,
        SyncHandler,
        InstructionAbort,
        PageFault,
        TranslationFault,
        UserAddrFault,
    ]),
    trap,
    timer: EntryPath {
        functions: &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, HrtimerInterrupt, RunQueues],
        bookkeeping: 4,
        unmasked: 4,
        exit: 4,
        exit_loop: LOOP,
    },
    pmu: EntryPath {
        functions: &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, Nmi, PmuHandler, Overflow],
        bookkeeping: 4,
        unmasked: 4,
        exit: 4,
        exit_loop: LOOP,
    },
    irq_work: EntryPath {
        functions: &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, Named::IrqWorkRun],
        bookkeeping: 4,
        unmasked: 4,
        exit: 4,
        exit_loop: LOOP,
    },
    resched: EntryPath {
        functions: &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, SchedulerIpi],
        bookkeeping: 4,
        unmasked: 4,
        exit: 4,
        exit_loop: LOOP,
    },
    fork: EntryPath {
        functions: &[RetFromForkAsm, RetFromFork],
        bookkeeping: 2,
        unmasked: 2,
        exit: 2,
        exit_loop: LOOP,
    },
    kernel_resched: NestedPath {
        functions: &[KernelTimer, KernelTimerHandler, El1Interrupt, SchedulerIpi],
        bookkeeping: 3,
    },
    kernel_irq_work: NestedPath {
        functions: &[KernelTimer, KernelTimerHandler, El1Interrupt, Named::IrqWorkRun],
        bookkeeping: 3,
    },
    kernel_timer: NestedPath {
        functions: &[KernelTimer, KernelTimerHandler, El1Interrupt, HrtimerInterrupt, RunQueues],
        bookkeeping: 3,
    },
    kernel_pmu: NestedPath {
        functions: &[KernelTimer, KernelTimerHandler, El1Interrupt, Nmi, PmuHandler, Overflow],
        bookkeeping: 3,
    },
    kernel_fault: NestedPath {
        functions: &[El1Sync, El1SyncHandler, El1Abort, PageFault, TranslationFault, UserAddrFault],
        bookkeeping: 3,
    },
    handle_fault: [
        &[HandleFault, InnerHandleFault, AnonymousPage],
        &[HandleFault, InnerHandleFault, FilePage],
    ],
};

/// Between the dispatcher and the call's own function.
pub const fn invoke(_sysno: Option<Sysno>) -> &'static [Named] {
    &[InvokeSyscall]
}

/// Whether the call's own function jumps to the next one, so that it has no frame.
pub const fn is_tail_call(_sysno: Sysno) -> bool {
    false
}

/// Functions below the call's own, outermost first. `do_tkill` is inlined.
pub const fn inner(sysno: Sysno) -> &'static [Named] {
    match sysno {
        Sysno::Mmap => &[VmMmap, DoMmap, MmapRegion, InnerMmapRegion],
        Sysno::Tkill | Sysno::Tgkill => &[SendSpecific, SendSignal, InnerSendSignal],
        _ => paths::inner(sysno),
    }
}
