//! Which modelled functions are on the stack on each path, outermost first.

use crate::kernel::symbols::Named::{self, *};

/// System call, up to the dispatcher.
pub const SYSCALL: &[Named] = &[EntrySyscall, SyncHandler, El0Svc, DoEl0Svc, DoSyscall];
/// Between the dispatcher and the call's own function.
pub const INVOKE: &[Named] = &[InvokeSyscall];
/// How many functions of [`SYSCALL`] are still there when the exit loop runs.
pub const SYSCALL_EXIT: usize = 3;
/// Page fault from user mode, up to the generic part.
pub const PAGE_FAULT: &[Named] =
    &[EntrySyscall, SyncHandler, AsmPageFault, PageFault, UserAddrFault];
/// Another exception from user mode.
pub const TRAP: &[Named] = &[EntrySyscall, SyncHandler, AsmTrap, Trap];
/// Timer interrupt from user mode.
pub const TIMER: &[Named] = &[AsmTimer, Timer, HrtimerInterrupt, RunQueues];
/// Timer interrupt from kernel mode.
pub const KERNEL_TIMER: &[Named] =
    &[KernelTimer, KernelTimerHandler, El1Interrupt, HrtimerInterrupt, RunQueues];
/// How many functions of a path from user mode are still there when the exit loop runs.
pub const FAULT_EXIT: usize = 3;
/// The same for an interrupt.
pub const INTERRUPT_EXIT: usize = 2;
/// The function that holds the exit loop of faults and interrupts.
pub const INTERRUPT_EXIT_LOOP: Named = ExitLoop;
/// PMU overflow.
pub const PMU: &[Named] = &[AsmTimer, Timer, Nmi, PmuHandler, Overflow];
