//! Which modelled functions are on the stack on each path, outermost first.

use crate::kernel::symbols::Named::{self, *};

/// System call, up to the dispatcher.
pub const SYSCALL: &[Named] = &[EntrySyscall, DoSyscall];
/// Between the dispatcher and the call's own function.
pub const INVOKE: &[Named] = &[];
/// How many functions of [`SYSCALL`] are still there when the exit loop runs.
pub const SYSCALL_EXIT: usize = 2;
/// Page fault from user mode, up to the generic part.
pub const PAGE_FAULT: &[Named] = &[AsmPageFault, PageFault, UserAddrFault];
/// Another exception from user mode.
pub const TRAP: &[Named] = &[AsmTrap, Trap];
/// Timer interrupt from user mode.
pub const TIMER: &[Named] = &[AsmTimer, Timer, HrtimerInterrupt, RunQueues];
/// Timer interrupt from kernel mode.
pub const KERNEL_TIMER: &[Named] = &[AsmTimer, Timer, HrtimerInterrupt, RunQueues];
/// How many functions of a path from user mode are still there when the exit loop runs.
pub const FAULT_EXIT: usize = 1;
/// The same for an interrupt.
pub const INTERRUPT_EXIT: usize = 1;
/// The function that holds the exit loop of faults and interrupts.
pub const INTERRUPT_EXIT_LOOP: Named = IrqentryExit;
/// PMU overflow.
pub const PMU: &[Named] = &[AsmNmi, Nmi, PmuHandler, Overflow];
