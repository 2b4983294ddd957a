//! Which modelled functions are on the stack on each path, outermost first.

use arch::syscalls::Sysno;

use crate::kernel::symbols::Named::{self, *};

/// System call, up to the dispatcher.
pub const SYSCALL: &[Named] = &[EntrySyscall, DoSyscall];
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
/// PMU overflow from user mode.
pub const PMU: &[Named] = &[AsmNmi, Nmi, PmuHandler, Overflow];
/// PMU overflow from kernel mode.
pub const KERNEL_PMU: &[Named] = PMU;
/// Page fault, from the generic part to where the page is made: anonymous or of a file.
pub const HANDLE_FAULT: [&[Named]; 2] =
    [&[HandleFault, InnerHandleFault, AnonymousPage], &[HandleFault, InnerHandleFault, FilePage]];

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
    matches!(sysno, Sysno::Read | Sysno::Write | Sysno::Munmap | Sysno::Mmap)
}

/// Functions below the call's own, outermost first.
pub const fn inner(sysno: Sysno) -> &'static [Named] {
    match sysno {
        Sysno::Read => &[KsysRead, VfsRead],
        Sysno::Pread64 => &[VfsRead],
        Sysno::Readv => &[DoReadv, VfsReadv],
        Sysno::Write => &[KsysWrite, VfsWrite],
        Sysno::Pwrite64 => &[VfsWrite],
        Sysno::Writev => &[DoWritev, VfsWritev],
        Sysno::Openat | Sysno::Open => &[DoSysOpen, DoFileOpen, PathOpen],
        Sysno::Mmap => &[VmMmap, DoMmap, InnerMmapRegion],
        Sysno::Munmap => &[DoMunmap],
        Sysno::Mprotect => &[DoMprotect],
        Sysno::Nanosleep | Sysno::ClockNanosleep => &[HrtimerNanosleep, DoNanosleep],
        Sysno::Kill => &[KillSomething, KillPid, SendSigInfo, SendSignal],
        Sysno::Tkill | Sysno::Tgkill => &[DoTkill, SendSpecific, SendSigInfo, SendSignal],
        Sysno::ExitGroup => &[GroupExit, DoExit],
        Sysno::Exit => &[DoExit],
        _ => &[],
    }
}
