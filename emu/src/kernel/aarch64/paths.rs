//! Which modelled functions are on the stack on each path, outermost first.

use arch::syscalls::Sysno;

use crate::kernel::symbols::Named::{self, *};

/// System call, up to the dispatcher.
pub const SYSCALL: &[Named] = &[EntrySyscall, SyncHandler, El0Svc, DoEl0Svc, DoSyscall];
/// How many functions of [`SYSCALL`] are still there when the exit loop runs.
pub const SYSCALL_EXIT: usize = 3;
/// Page fault from user mode, up to the generic part.
pub const PAGE_FAULT: &[Named] =
    &[EntrySyscall, SyncHandler, AsmPageFault, PageFault, TranslationFault, UserAddrFault];
/// Another exception from user mode.
pub const TRAP: &[Named] = &[EntrySyscall, SyncHandler, AsmTrap, Trap];
/// Timer interrupt from user mode.
pub const TIMER: &[Named] =
    &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, HrtimerInterrupt, RunQueues];
/// Timer interrupt from kernel mode.
pub const KERNEL_TIMER: &[Named] =
    &[KernelTimer, KernelTimerHandler, El1Interrupt, HrtimerInterrupt, RunQueues];
/// How many functions of a path from user mode are still there when the exit loop runs.
pub const FAULT_EXIT: usize = 3;
/// The same for an interrupt.
pub const INTERRUPT_EXIT: usize = 4;
/// The function that holds the exit loop of faults and interrupts.
pub const INTERRUPT_EXIT_LOOP: Named = ExitLoop;
/// PMU overflow from user mode.
pub const PMU: &[Named] = &[AsmTimer, Timer, El0IrqCommon, El0Interrupt, Nmi, PmuHandler, Overflow];
/// PMU overflow from kernel mode.
pub const KERNEL_PMU: &[Named] =
    &[KernelTimer, KernelTimerHandler, El1Interrupt, Nmi, PmuHandler, Overflow];
/// Page fault, from the generic part to where the page is made: anonymous or of a file.
pub const HANDLE_FAULT: [&[Named]; 2] =
    [&[HandleFault, InnerHandleFault, AnonymousPage], &[HandleFault, InnerHandleFault, FilePage]];

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
        Sysno::Read => &[KsysRead, VfsRead],
        Sysno::Pread64 => &[VfsRead],
        Sysno::Readv => &[DoReadv, VfsReadv],
        Sysno::Write => &[KsysWrite, VfsWrite],
        Sysno::Pwrite64 => &[VfsWrite],
        Sysno::Writev => &[DoWritev, VfsWritev],
        Sysno::Openat | Sysno::Open => &[DoSysOpen, DoFileOpen, PathOpen],
        Sysno::Mmap => &[VmMmap, DoMmap, MmapRegion, InnerMmapRegion],
        Sysno::Munmap => &[DoMunmap],
        Sysno::Mprotect => &[DoMprotect],
        Sysno::Nanosleep | Sysno::ClockNanosleep => &[HrtimerNanosleep, DoNanosleep],
        Sysno::Kill => &[KillSomething, KillPid, SendSigInfo, SendSignal],
        Sysno::Tkill | Sysno::Tgkill => &[SendSpecific, SendSignal],
        Sysno::ExitGroup => &[GroupExit, DoExit],
        Sysno::Exit => &[DoExit],
        _ => &[],
    }
}
