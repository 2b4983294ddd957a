//! Which modelled functions a path from user mode goes through, and where its steps are.
//!
//! ```text
//! functions[0]                     N0, N1: entered by the processor, saves the registers
//! functions[..bookkeeping]         N2
//! functions[..unmasked]            N3 and, on the way back, N7
//! functions                        the work
//! functions[..exit]                X1 to X6
//! ```
//!
//! The tables are in each architecture's `paths.rs`.

use arch::{Arch, Sysno};

use crate::kernel::symbols::Named;
use crate::kernel::{aarch64, x86_64};

/// The functions of one path, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct EntryPath {
    /// All, up to where the work is done.
    pub functions: &'static [Named],
    /// How many of them there are at the entry's bookkeeping (N2).
    pub bookkeeping: usize,
    /// How many there are where interrupts are turned on and off (N3, N7).
    pub unmasked: usize,
    /// How many have not returned when the exit loop runs.
    pub exit: usize,
    /// Where the exit loop is.
    pub exit_loop: ExitLoop,
}

/// The function that holds the exit loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitLoop {
    /// It is called in any case and holds X1 to X6.
    Always(Named),
    /// It is called when there is work and holds X2 and X3.
    IfWork(Named),
}

/// An exception that ends in a signal, by the way that it takes through the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// x86 `#DE`.
    Divide,
    /// x86 `#DB`.
    Debug,
    /// x86 `#DB`, aarch64's watchpoint: a load or store that is watched.
    Watchpoint,
    /// The same of an instruction that is to be executed.
    HardwareBreakpoint,
    /// aarch64: an instruction was executed alone.
    SingleStep,
    /// x86 `#BP`; `brk`.
    Breakpoint,
    /// x86 `#OF`.
    Overflow,
    /// x86 `#UD`; an undefined instruction.
    InvalidOpcode,
    /// x86 `#NP`.
    Segment,
    /// x86 `#SS`.
    Stack,
    /// x86 `#GP` and what else arrives there.
    Protection,
    /// x86 `#MF`.
    X87,
    /// x86 `#XM`.
    Simd,
    /// x86 `#AC`; a data abort for alignment.
    Alignment,
    /// aarch64: the PC is not aligned.
    PcAlignment,
    /// A data access to an address that no user memory has.
    KernelAddress,
    /// The same of an instruction fetch.
    KernelFetch,
}

impl TrapKind {
    /// All kinds.
    pub const ALL: [TrapKind; 17] = [
        TrapKind::Divide,
        TrapKind::Debug,
        TrapKind::Watchpoint,
        TrapKind::HardwareBreakpoint,
        TrapKind::SingleStep,
        TrapKind::Breakpoint,
        TrapKind::Overflow,
        TrapKind::InvalidOpcode,
        TrapKind::Segment,
        TrapKind::Stack,
        TrapKind::Protection,
        TrapKind::X87,
        TrapKind::Simd,
        TrapKind::Alignment,
        TrapKind::PcAlignment,
        TrapKind::KernelAddress,
        TrapKind::KernelFetch,
    ];
}

/// The functions of an interrupt of kernel code, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct NestedPath {
    /// All, up to where the work is done.
    pub functions: &'static [Named],
    /// How many of them there are when the interrupt is counted in.
    pub bookkeeping: usize,
}

/// All paths of an architecture but those of system calls below the dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct Paths {
    /// System call, up to the dispatcher.
    pub syscall: EntryPath,
    /// Page fault, up to the generic part.
    pub page_fault: EntryPath,
    /// Page fault of an instruction fetch.
    pub fetch_fault: EntryPath,
    /// Another exception.
    pub trap: fn(TrapKind) -> EntryPath,
    /// Timer interrupt of user code.
    pub timer: EntryPath,
    /// PMU overflow in user code.
    pub pmu: EntryPath,
    /// The self-interrupt of irq_work in user code.
    pub irq_work: EntryPath,
    /// Another CPU's request to look at the queue, in user code.
    pub resched: EntryPath,
    /// The way of a new task to user mode.
    pub fork: EntryPath,
    /// The same as [`Paths::resched`] in kernel code.
    pub kernel_resched: NestedPath,
    /// The same as [`Paths::irq_work`] in kernel code.
    pub kernel_irq_work: NestedPath,
    /// Timer interrupt of kernel code.
    pub kernel_timer: NestedPath,
    /// PMU overflow in kernel code.
    pub kernel_pmu: NestedPath,
    /// Page fault of kernel code at a user address, up to the generic part, which is not in
    /// interrupt context.
    pub kernel_fault: NestedPath,
    /// Page fault, from the generic part to where the page is made: of anonymous memory
    /// or of a file.
    pub handle_fault: [&'static [Named]; 2],
}

/// The paths of `arch`.
pub const fn of(arch: Arch) -> &'static Paths {
    match arch {
        Arch::X86_64 => &x86_64::paths::PATHS,
        Arch::Aarch64 => &aarch64::paths::PATHS,
    }
}

/// Functions below a system call's own, outermost first, where the architectures agree.
pub const fn inner(sysno: Sysno) -> &'static [Named] {
    use Named::*;
    match sysno {
        Sysno::Read => &[KsysRead, VfsRead],
        Sysno::Pread64 => &[VfsRead],
        Sysno::Readv => &[DoReadv, VfsReadv],
        Sysno::Write => &[KsysWrite, VfsWrite],
        Sysno::Pwrite64 => &[VfsWrite],
        Sysno::Writev => &[DoWritev, VfsWritev],
        Sysno::Openat | Sysno::Open => &[DoSysOpen, DoFileOpen, PathOpen],
        Sysno::Munmap => &[DoMunmap],
        Sysno::Mprotect => &[DoMprotect],
        Sysno::Nanosleep | Sysno::ClockNanosleep => &[HrtimerNanosleep, DoNanosleep],
        Sysno::Clone => &[DoSysClone],
        Sysno::Clone3 => &[DoSysClone3],
        Sysno::Kill => &[KillSomething, KillPid, SendSigInfo, SendSignal, InnerSendSignal],
        Sysno::ExitGroup => &[GroupExit, DoExit],
        Sysno::Exit => &[DoExit],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::symbols::Function;

    #[test]
    fn depths_fit() {
        for arch in Arch::ALL {
            let p = of(arch);
            let traps = TrapKind::ALL.map(p.trap);
            let others = [
                p.syscall,
                p.page_fault,
                p.fetch_fault,
                p.timer,
                p.pmu,
                p.irq_work,
                p.resched,
                p.fork,
            ];
            for path in traps.into_iter().chain(others) {
                let names = path.functions.iter().map(|&f| Function::from(f).name(arch));
                assert!(names.clone().all(|n| !n.is_empty()), "{arch}: {:?}", path.functions);
                let most = path.functions.len();
                let depths = [path.exit, path.bookkeeping, path.unmasked];
                assert!(depths.iter().all(|d| (1..=most).contains(d)), "{path:?}");
                assert!(path.bookkeeping <= path.unmasked && path.exit <= path.unmasked);
            }
            let nested =
                [p.kernel_timer, p.kernel_pmu, p.kernel_irq_work, p.kernel_resched, p.kernel_fault];
            for path in nested {
                assert!((1..=path.functions.len()).contains(&path.bookkeeping), "{path:?}");
            }
        }
    }
}
