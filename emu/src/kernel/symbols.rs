//! Modelled kernel functions: names, addresses, return addresses.
//!
//! Each function has a place of [`SIZE`] bytes in a synthetic kernel text, in the order
//! of this file, followed by one `sys_` function for each system call. The addresses
//! hold no code; they exist so that frames on a kernel stack can be walked and named.
//! Which of them call each other is in each architecture's `paths.rs`. An empty name: the
//! architecture has no such function.

use arch::Arch;
use arch::syscalls::Sysno;

use crate::kernel::Point;
use crate::perf::record::KernelSymbol;

/// Bytes of kernel text that a function occupies.
pub const SIZE: u64 = 0x800;
/// Offset in a function of its return addresses; its steps come before.
const RETURNS: u64 = 0x400;
const _: () = assert!(4 * (1 + Point::ALL.len() as u64) <= RETURNS && RETURNS + 4 * 190 < SIZE);

macro_rules! functions {
    ($($id:ident, $x86:literal, $arm:literal;)*) => {
        /// Functions that exist for themselves, not as a system call's body.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Named { $($id,)* }

        const NAMES: &[(&str, &str)] = &[$(($x86, $arm),)*];
    };
}

functions! {
    Text, "_text", "_text";
    EntrySyscall, "entry_SYSCALL_64_after_hwframe", "el0t_64_sync";
    SyncHandler, "", "el0t_64_sync_handler";
    El0Svc, "", "el0_svc";
    DoEl0Svc, "", "do_el0_svc";
    DoSyscall, "do_syscall_64", "el0_svc_common.constprop.0";
    InvokeSyscall, "x64_sys_call", "invoke_syscall.constprop.0";
    TraceEnter, "trace_syscall_enter", "syscall_trace_enter";
    TraceExit, "trace_syscall_exit", "syscall_trace_exit";
    ExitLoop, "exit_to_user_mode_loop", "exit_to_user_mode_loop";
    IrqentryExit, "irqentry_exit", "";
    DoSignal, "arch_do_signal_or_restart", "arch_do_signal_or_restart";
    GetSignal, "get_signal", "get_signal";
    SetupFrame, "x64_setup_rt_frame", "setup_rt_frame";
    TaskWorkRun, "task_work_run", "task_work_run";
    ProcessUnwind, "process_unwind_deferred", "process_unwind_deferred";
    UnwindCallback, "perf_unwind_deferred_callback", "perf_unwind_deferred_callback";
    IterateSb, "perf_iterate_sb", "perf_iterate_sb";
    IterateCtx, "perf_iterate_ctx", "perf_iterate_ctx";
    DeferredOutput, "perf_callchain_deferred_output", "perf_callchain_deferred_output";
    AsmIrqWork, "asm_sysvec_irq_work", "";
    IrqWork, "sysvec_irq_work", "";
    IrqWorkRun, "irq_work_run", "irq_work_run";
    AsmPageFault, "asm_exc_page_fault", "el0_da";
    PageFault, "exc_page_fault", "do_mem_abort";
    TranslationFault, "", "do_translation_fault";
    UserAddrFault, "do_user_addr_fault", "do_page_fault";
    HandleFault, "handle_mm_fault", "handle_mm_fault";
    InnerHandleFault, "__handle_mm_fault", "__handle_mm_fault";
    AnonymousPage, "do_anonymous_page", "do_anonymous_page";
    FilePage, "do_fault", "do_fault";
    ForceSignal, "force_sig_fault", "arm64_force_sig_fault";
    KernAddrFault, "do_kern_addr_fault", "";
    BadArea, "bad_area_nosemaphore", "do_bad_area";
    InnerBadArea, "__bad_area_nosemaphore", "";
    AsmInvalidOp, "asm_exc_invalid_op", "el0_undef";
    InvalidOp, "exc_invalid_op", "do_el0_undef";
    AsmDivide, "asm_exc_divide_error", "";
    Divide, "exc_divide_error", "";
    AsmDebug, "asm_exc_debug", "";
    Debug, "noist_exc_debug", "";
    AsmBreakpoint, "asm_exc_int3", "el0_brk64";
    Breakpoint, "exc_int3", "do_el0_brk64";
    AsmOverflow, "asm_exc_overflow", "";
    OverflowTrap, "exc_overflow", "";
    AsmProtection, "asm_exc_general_protection", "";
    Protection, "exc_general_protection", "";
    AsmSegment, "asm_exc_segment_not_present", "";
    Segment, "exc_segment_not_present", "";
    AsmStack, "asm_exc_stack_segment", "el0_sp";
    StackSegment, "exc_stack_segment", "do_sp_pc_abort";
    AsmX87, "asm_exc_coprocessor_error", "";
    X87, "exc_coprocessor_error", "";
    AsmSimd, "asm_exc_simd_coprocessor_error", "";
    Simd, "exc_simd_coprocessor_error", "";
    AsmAlignment, "asm_exc_alignment_check", "el0_pc";
    Alignment, "exc_alignment_check", "do_alignment_fault";
    InstructionAbort, "", "el0_ia";
    AsmTimer, "asm_sysvec_apic_timer_interrupt", "el0t_64_irq";
    Timer, "sysvec_apic_timer_interrupt", "el0t_64_irq_handler";
    KernelTimer, "", "el1h_64_irq";
    KernelTimerHandler, "", "el1h_64_irq_handler";
    El0IrqCommon, "", "__el0_irq_handler_common";
    El0Interrupt, "", "el0_interrupt";
    El1Interrupt, "", "el1_interrupt";
    HrtimerInterrupt, "hrtimer_interrupt", "hrtimer_interrupt";
    RunQueues, "__hrtimer_run_queues", "__hrtimer_run_queues";
    SwHrtimer, "perf_swevent_hrtimer", "perf_swevent_hrtimer";
    AsmNmi, "asm_exc_nmi", "";
    Nmi, "exc_nmi", "gic_handle_irq";
    PmuHandler, "perf_event_nmi_handler", "armv8pmu_handle_irq";
    Overflow, "perf_event_overflow", "perf_event_overflow";
    KsysRead, "ksys_read", "ksys_read";
    VfsRead, "vfs_read", "vfs_read";
    KsysWrite, "ksys_write", "ksys_write";
    VfsWrite, "vfs_write", "vfs_write";
    DoReadv, "do_readv", "do_readv";
    VfsReadv, "vfs_readv", "vfs_readv";
    DoWritev, "do_writev", "do_writev";
    VfsWritev, "vfs_writev", "vfs_writev";
    DoSysOpen, "do_sys_openat2", "do_sys_openat2";
    DoFileOpen, "do_file_open", "do_file_open";
    PathOpen, "path_openat", "path_openat";
    VmMmap, "vm_mmap_pgoff", "vm_mmap_pgoff";
    DoMmap, "do_mmap", "do_mmap";
    MmapRegion, "", "mmap_region";
    InnerMmapRegion, "__mmap_region", "__mmap_region";
    DoMunmap, "__vm_munmap", "__vm_munmap";
    DoMprotect, "do_mprotect_pkey", "do_mprotect_pkey";
    HrtimerNanosleep, "hrtimer_nanosleep", "hrtimer_nanosleep";
    DoNanosleep, "do_nanosleep", "do_nanosleep";
    RetFromForkAsm, "ret_from_fork_asm", "ret_from_fork";
    RetFromFork, "ret_from_fork", "asm_exit_to_user_mode";
    CpuStartupEntry, "cpu_startup_entry", "cpu_startup_entry";
    DoIdle, "do_idle", "do_idle";
    PreemptScheduleIrq, "preempt_schedule_irq", "preempt_schedule_irq";
    KernelClone, "kernel_clone", "kernel_clone";
    CopyProcess, "copy_process", "copy_process";
    DoExecveat, "do_execveat_common.isra.0", "do_execveat_common.isra.0";
    BprmExecve, "bprm_execve", "bprm_execve";
    LoadElfBinary, "load_elf_binary", "load_elf_binary";
    AsmResched, "asm_sysvec_reschedule_ipi", "";
    Resched, "sysvec_reschedule_ipi", "";
    SchedulerIpi, "scheduler_ipi", "do_handle_IPI";
    Schedule, "schedule", "schedule";
    InnerSchedule, "__schedule", "__schedule";
    KillSomething, "kill_something_info", "kill_something_info";
    KillPid, "kill_pid_info_type", "kill_pid_info_type";
    DoTkill, "do_tkill", "";
    SendSpecific, "do_send_specific", "do_send_specific";
    SendSigInfo, "do_send_sig_info", "do_send_sig_info";
    SendSignal, "send_signal_locked", "send_signal_locked";
    InnerSendSignal, "__send_signal_locked", "__send_signal_locked";
    ForceInfo, "force_sig_info_to_task", "force_sig_info_to_task";
    GroupExit, "do_group_exit", "do_group_exit";
    DoExit, "do_exit", "do_exit";
    KernelThread, "kthread", "kthread";
    UprobeNotifyResume, "uprobe_notify_resume", "uprobe_notify_resume";
    UprobeDispatcher, "uprobe_dispatcher", "uprobe_dispatcher";
    El1Sync, "", "el1h_64_sync";
    El1SyncHandler, "", "el1h_64_sync_handler";
    El1Abort, "", "el1_abort";
    UretprobeDispatcher, "uretprobe_dispatcher", "uretprobe_dispatcher";
    AsmWatchpoint, "", "el0_watchpt";
    Watchpoint, "", "do_watchpoint";
    AsmHardwareBreakpoint, "", "el0_breakpt";
    HardwareBreakpoint, "", "do_breakpoint";
    AsmSingleStep, "", "el0_softstp";
    SingleStep, "", "do_el0_softstep";
    HardirqsOn, "trace_hardirqs_on", "trace_hardirqs_on";
    HardirqsOff, "trace_hardirqs_off", "trace_hardirqs_off";
    HardirqsOnPrepare, "trace_hardirqs_on_prepare", "trace_hardirqs_on_prepare";
    HardirqsOffFinish, "trace_hardirqs_off_finish", "trace_hardirqs_off_finish";
    PreemptCountAdd, "preempt_count_add", "preempt_count_add";
    PreemptCountSub, "preempt_count_sub", "preempt_count_sub";
    TracePreemptOff, "trace_preempt_off", "trace_preempt_off";
    TracePreemptOn, "trace_preempt_on", "trace_preempt_on";
    DoSysClone, "__do_sys_clone", "__do_sys_clone";
    DoSysClone3, "__do_sys_clone3", "__do_sys_clone3";
}

/// A modelled function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(u16);

impl From<Named> for Function {
    fn from(named: Named) -> Function {
        Function(named as u16)
    }
}

impl Function {
    /// The function that is a system call's body.
    pub fn of_syscall(sysno: Sysno) -> Function {
        Function(NAMES.len() as u16 + sysno as u16)
    }

    /// The function of this name.
    pub fn named(arch: Arch, name: &str) -> Option<Function> {
        let all = 0..(NAMES.len() + Sysno::ALL.len()) as u16;
        all.map(Function).find(|f| !name.is_empty() && f.name(arch) == name)
    }

    /// Its number, in the order of addresses.
    pub const fn index(self) -> u16 {
        self.0
    }

    /// First address.
    pub const fn addr(self, arch: Arch) -> u64 {
        text_base(arch) + self.0 as u64 * SIZE
    }

    /// Address inside the function after a call of `callee`: the return address that
    /// the callee's frame record holds. Always the same for the same pair, behind the
    /// addresses of the steps.
    pub const fn return_address(self, arch: Arch, callee: Function) -> u64 {
        self.addr(arch) + RETURNS + 4 * ((callee.0 as u64).wrapping_mul(37) % 190)
    }

    /// Address of a step inside the function.
    pub const fn step_address(self, arch: Arch, step: Point) -> u64 {
        self.addr(arch) + 4 * (1 + step as u64)
    }

    /// Name as in `/proc/kallsyms`.
    pub fn name(self, arch: Arch) -> String {
        match NAMES.get(self.0 as usize) {
            Some((x86, arm)) => match arch {
                Arch::X86_64 => (*x86).to_owned(),
                Arch::Aarch64 => (*arm).to_owned(),
            },
            None => {
                let prefix = match arch {
                    Arch::X86_64 => "__x64_sys_",
                    Arch::Aarch64 => "__arm64_sys_",
                };
                let index = self.0 as usize - NAMES.len();
                let name = Sysno::ALL.get(index).map_or("ni_syscall", |s| s.name());
                format!("{prefix}{name}")
            }
        }
    }
}

/// The step at kernel address `ip`; `None` at a function's first instruction, where it was
/// just called, at a return address, and outside the functions.
pub fn step_at(arch: Arch, ip: u64) -> Option<Point> {
    let offset = ip.checked_sub(text_base(arch))? % SIZE;
    Point::ALL.get((offset / 4).checked_sub(1)? as usize).copied()
}

/// First address of the kernel's text.
pub const fn text_base(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 0xffff_ffff_8100_0000,
        Arch::Aarch64 => 0xffff_8000_8001_0000,
    }
}

/// All symbols in address order.
pub fn all(arch: Arch) -> Vec<KernelSymbol> {
    (0..(NAMES.len() + Sysno::ALL.len()) as u16)
        .map(Function)
        .map(|f| KernelSymbol { addr: f.addr(arch), len: SIZE, name: f.name(arch) })
        .filter(|s| !s.name.is_empty())
        .collect()
}
