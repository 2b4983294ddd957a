//! Profile records: what a session hands to an exporter, one by one and in time order.
//!
//! The kernel's `PERF_RECORD_*` types, reduced to their meaning; an exporter ([`crate::export`])
//! gives them their bytes or text. Addresses in a callchain are raw kernel values: context markers
//! of [`context`] included, return addresses not decremented.

use arch::{Arch, Sysno};

use crate::perf::breakpoint::Breakpoint;
use crate::perf::toggle::Toggle;

/// Context markers inside a callchain (`enum perf_callchain_context`).
pub mod context {
    /// Kernel addresses follow.
    pub const KERNEL: u64 = -128i64 as u64;
    /// User addresses follow.
    pub const USER: u64 = -512i64 as u64;
    /// A cookie follows instead of user addresses.
    pub const USER_DEFERRED: u64 = -640i64 as u64;
    /// Lower bound of the marker space.
    pub const MAX: u64 = -4095i64 as u64;
}

/// Nanoseconds of the virtual clock since boot.
pub type Time = u64;

/// The file behind a mapping, as `PERF_RECORD_MMAP2` identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileId {
    /// The GNU build-id note, at most 20 bytes.
    BuildId(Vec<u8>),
    /// No build-id: device and inode. The inode number is derived from the
    /// file's content, so that it does not depend on the host.
    Inode {
        /// Inode number.
        ino: u64,
    },
    /// Anonymous memory and special mappings.
    None,
}

/// Whether the interrupted code was user or kernel code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMode {
    /// `PERF_RECORD_MISC_KERNEL`
    Kernel,
    /// `PERF_RECORD_MISC_USER`
    User,
}

/// The tracepoint payload (`PERF_SAMPLE_RAW`) of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// `raw_syscalls:sys_enter`
    SysEnter {
        /// System-call number.
        id: i64,
        /// The six arguments.
        args: [u64; 6],
    },
    /// `raw_syscalls:sys_exit`
    SysExit {
        /// System-call number, -1 after `rt_sigreturn`.
        id: i64,
        /// Result.
        ret: i64,
    },
    /// `syscalls:sys_enter_NAME`
    SysEnterOf {
        /// Which call.
        call: Sysno,
        /// Its number.
        nr: i32,
        /// Argument registers, of which the call has the first ones.
        args: [u64; 6],
    },
    /// `syscalls:sys_exit_NAME`
    SysExitOf {
        /// Which call.
        call: Sysno,
        /// Its number.
        nr: i32,
        /// Result.
        ret: i64,
    },
    /// `signal:signal_generate`
    SignalGenerate {
        /// Number.
        signal: i32,
        /// `si_errno`
        errno: i32,
        /// `si_code`
        code: i32,
        /// Name of the thread that it is for.
        comm: String,
        /// Its thread id.
        pid: u32,
        /// It is for the whole process.
        group: bool,
        /// What became of it.
        result: Generated,
    },
    /// `signal:signal_deliver`
    SignalDeliver {
        /// Number.
        signal: i32,
        /// `si_errno`
        errno: i32,
        /// `si_code`
        code: i32,
        /// The handler, or 0 for the default action, or 1 to ignore it.
        handler: u64,
        /// `sa_flags`
        flags: u64,
    },
    /// `sched:sched_process_exit`
    ProcessExit {
        /// Name of the thread that ends.
        comm: String,
        /// Its thread id.
        pid: u32,
        /// Its priority: 120 is nice 0.
        prio: i32,
        /// It is the last of its process.
        group_dead: bool,
    },
    /// `sched:sched_process_fork`
    ProcessFork {
        /// Name of the parent.
        parent_comm: String,
        /// Its thread id.
        parent_pid: u32,
        /// Name of the child.
        child_comm: String,
        /// Its thread id.
        child_pid: u32,
    },
    /// `sched:sched_process_exec`
    ProcessExec {
        /// Path of the new program.
        filename: String,
        /// Thread id.
        pid: u32,
        /// Thread id before.
        old_pid: u32,
    },
    /// `sched:sched_switch`
    SchedSwitch {
        /// Name of the task that leaves the CPU.
        prev_comm: String,
        /// Its thread id; 0: the CPU was idle.
        prev_pid: u32,
        /// Why: 0 it goes on later, 1 and 2 it waits, 0x10 and 0x20 it is dead, 0x100 preempted.
        prev_state: i64,
        /// Name of the task that gets it.
        next_comm: String,
        /// Its thread id.
        next_pid: u32,
    },
    /// `sched:sched_waking`
    SchedWaking {
        /// Name of the task that is woken.
        comm: String,
        /// Its thread id.
        pid: u32,
        /// The CPU that it was on last.
        target_cpu: i32,
    },
    /// `preemptirq:*`
    Preemptirq {
        /// Which.
        toggle: Toggle,
        /// Who turned it, from the beginning of the kernel's text on.
        caller_offs: i32,
        /// Its caller, likewise.
        parent_offs: i32,
    },
    /// `x86_fpu:x86_fpu_regs_activated`
    FpuRegsActivated {
        /// Address of the task's `struct fpu`.
        fpu: u64,
    },
    /// A user or kernel probe.
    Probe {
        /// Which.
        kind: EventKind,
        /// Its address.
        ip: u64,
    },
    /// A user probe of a function's return.
    Return {
        /// Which.
        kind: EventKind,
        /// First instruction of the function.
        function: u64,
        /// Where it returned to.
        to: u64,
    },
}

/// What became of a signal that was sent (`TRACE_SIGNAL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Generated {
    /// It is pending.
    Delivered = 0,
    /// It is ignored.
    Ignored = 1,
    /// Another of its number was pending.
    AlreadyPending = 2,
}

/// One sample of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index into [`Session::events`].
    pub event: usize,
    /// Privilege of the interrupted code.
    pub mode: CpuMode,
    /// Interrupted address.
    pub ip: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// When.
    pub time: Time,
    /// Emulated CPU.
    pub cpu: u32,
    /// Event count that this sample stands for.
    pub period: u64,
    /// Callchain with context markers, innermost first; empty without `-g`.
    pub callchain: Vec<u64>,
    /// The sampled user register of aarch64 `--call-graph fp`: the link
    /// register. `None` if the task has no user registers (or on x86_64).
    pub user_lr: Option<u64>,
    /// Copy of the user's registers and stack, if the event has [`UserStack::Dump`].
    pub dump: Option<Box<UserDump>>,
    /// Tracepoint payload.
    pub raw: Option<Raw>,
}

/// The user's registers and a piece of his stack, for a tool that unwinds it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserDump {
    /// Values in the order of [`Arch::perf_regs_mask`]; `None`: the task has no user registers.
    pub regs: Option<Vec<u64>>,
    /// Bytes from the stack pointer up, a multiple of 8.
    pub stack: Vec<u8>,
    /// How many of them could be read; the rest is 0.
    pub read: u64,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A thread got a name.
    Comm {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When.
        time: Time,
        /// Emulated CPU that wrote it.
        cpu: u32,
        /// At most 15 bytes.
        comm: String,
        /// By `execve`.
        exec: bool,
    },
    /// A mapping came into being.
    Mmap2 {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When.
        time: Time,
        /// Emulated CPU that wrote it.
        cpu: u32,
        /// First address.
        addr: u64,
        /// Length in bytes.
        len: u64,
        /// File offset in bytes.
        pgoff: u64,
        /// Which file.
        file: FileId,
        /// `PROT_*` bits.
        prot: u32,
        /// `MAP_*` bits.
        flags: u32,
        /// Path as `perf` shall find it on the host, or `[vdso]`, `//anon`, …
        path: String,
    },
    /// A thread was created.
    Fork {
        /// New process id.
        pid: u32,
        /// Parent's process id.
        ppid: u32,
        /// New thread id.
        tid: u32,
        /// Parent's thread id.
        ptid: u32,
        /// When.
        time: Time,
        /// Emulated CPU that wrote it.
        cpu: u32,
    },
    /// A thread ended.
    Exit {
        /// Process id.
        pid: u32,
        /// Parent's process id.
        ppid: u32,
        /// Thread id.
        tid: u32,
        /// Parent's thread id.
        ptid: u32,
        /// When.
        time: Time,
        /// Emulated CPU that wrote it.
        cpu: u32,
    },
    /// An event overflowed.
    Sample(Sample),
    /// `PERF_RECORD_SWITCH_CPU_WIDE` or `PERF_RECORD_SWITCH`: a task left its CPU, or got one.
    Switch {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When.
        time: Time,
        /// Which CPU.
        cpu: u32,
        /// It left.
        out: bool,
        /// Although it could go on.
        preempted: bool,
        /// Of a CPU's event: process and thread that runs next, or ran before.
        other: Option<(u32, u32)>,
    },
    /// `PERF_RECORD_LOST`: records found no room in the CPU's ring before this one.
    Lost {
        /// Process id of who wrote the next one.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When.
        time: Time,
        /// Emulated CPU.
        cpu: u32,
        /// Index into [`Session::events`] of the event whose record is next.
        event: usize,
        /// How many.
        lost: u64,
    },
    /// `PERF_RECORD_THROTTLE` or `PERF_RECORD_UNTHROTTLE`: an event stands still, or goes on.
    Throttle {
        /// Process id of who ran.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When.
        time: Time,
        /// Emulated CPU.
        cpu: u32,
        /// Index into [`Session::events`].
        event: usize,
        /// It stands still.
        throttled: bool,
    },
    /// `PERF_RECORD_LOST_SAMPLES`: what the tool writes at the end, one for each event with losses.
    LostSamples {
        /// When; the record itself says 0.
        time: Time,
        /// Index into [`Session::events`].
        event: usize,
        /// Records of the event that were lost, samples or not.
        lost: u64,
    },
    /// `PERF_RECORD_CALLCHAIN_DEFERRED`: the user stack that a cookie stands for.
    CallchainDeferred {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// When it was written.
        time: Time,
        /// Emulated CPU that wrote it.
        cpu: u32,
        /// The cookie of the samples that it belongs to.
        cookie: u64,
        /// User addresses, innermost first, without a context marker; at most 512.
        ips: Vec<u64>,
    },
}

/// What kind of thing an event counts (`perf_event_attr.type`, `.config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `PERF_COUNT_HW_CPU_CYCLES`
    Cycles,
    /// `PERF_COUNT_HW_INSTRUCTIONS`
    Instructions,
    /// `PERF_COUNT_HW_BRANCH_INSTRUCTIONS`
    Branches,
    /// `PERF_COUNT_SW_CPU_CLOCK`
    CpuClock,
    /// `PERF_COUNT_SW_TASK_CLOCK`
    TaskClock,
    /// `PERF_COUNT_SW_PAGE_FAULTS`
    PageFaults,
    /// `PERF_COUNT_SW_CONTEXT_SWITCHES`
    ContextSwitches,
    /// `PERF_COUNT_SW_DUMMY`: counts nothing; for the records that tell of tasks and mappings.
    Dummy,
    /// Tracepoint `raw_syscalls:sys_enter`
    SysEnter,
    /// Tracepoint `raw_syscalls:sys_exit`
    SysExit,
    /// Tracepoint `syscalls:sys_enter_NAME`
    SysEnterOf(Sysno),
    /// Tracepoint `syscalls:sys_exit_NAME`
    SysExitOf(Sysno),
    /// Tracepoint `signal:signal_generate`
    SignalGenerate,
    /// Tracepoint `signal:signal_deliver`
    SignalDeliver,
    /// Tracepoint `sched:sched_process_exit`
    ProcessExit,
    /// Tracepoint `sched:sched_process_fork`
    ProcessFork,
    /// Tracepoint `sched:sched_process_exec`
    ProcessExec,
    /// Tracepoint `sched:sched_switch`
    SchedSwitch,
    /// Tracepoint `sched:sched_waking`
    SchedWaking,
    /// Tracepoint `preemptirq:*`
    Preemptirq(Toggle),
    /// Tracepoint `x86_fpu:x86_fpu_regs_activated`
    FpuRegsActivated,
    /// A user probe, by the number of its place.
    Uprobe(u16),
    /// A user probe of a function's return, by the number of its place.
    Uretprobe(u16),
    /// A probe of a kernel function, by the number of that.
    Kprobe(u16),
    /// A hardware breakpoint (`PERF_TYPE_BREAKPOINT`).
    Breakpoint(Breakpoint),
}

/// How often an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// One sample per so many events (`-c`).
    Period(u64),
    /// Aim at so many samples a second (`-F`).
    Frequency(u64),
}

/// How the user part of a stack is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UserStack {
    /// Walked by frame pointer (`--call-graph fp`).
    #[default]
    FramePointer,
    /// Walked by the process's SFrame sections, and by frame pointer where they say nothing
    /// (`--call-graph sframe`).
    Sframe,
    /// Not walked: so many bytes are copied, a multiple of 8 (`--call-graph dwarf`).
    Dump(u16),
}

/// One sampled event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What is counted.
    pub kind: EventKind,
    /// Name as typed, modifiers included: `cycles:u`.
    pub name: String,
    /// How often.
    pub rate: Rate,
    /// Do not count user code (`:k`).
    pub exclude_user: bool,
    /// Do not count kernel code (`:u`).
    pub exclude_kernel: bool,
    /// Callchains are sampled (`-g`).
    pub callchain: bool,
    /// Callchains have no user part (`--kernel-callchains`).
    pub exclude_callchain_user: bool,
    /// Callchains have no kernel part (`--user-callchains`).
    pub exclude_callchain_kernel: bool,
    /// User callchains are deferred to the return to user mode (`--call-graph fp,defer`).
    pub defer: bool,
    /// How the user part is recorded, if it is not deferred.
    pub user_stack: UserStack,
    /// `sample_max_stack` (`--max-stack`), 0 for the kernel's default of 127.
    pub max_stack: u16,
}

/// What an exporter knows before the first record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The guest's architecture.
    pub arch: Arch,
    /// Sampled events, at least one.
    pub events: Vec<Event>,
    /// Number of emulated CPUs.
    pub cpus: u32,
    /// The CPUs whose events are open (`-a`, `-C`), a bit each; 0: those of the guest's tasks are.
    pub wide: u64,
    /// Switches of tasks are recorded.
    pub switches: bool,
    /// Children do not get their parent's events (`-i`).
    pub no_inherit: bool,
    /// The command line that is written into the file's header.
    pub cmdline: Vec<String>,
    /// Kernel symbols.
    pub kernel_symbols: Vec<KernelSymbol>,
}

impl Session {
    /// Whether the events belong to CPUs, not to tasks.
    pub const fn system_wide(&self) -> bool {
        self.wide != 0
    }

    /// Mappings that are not executable are recorded, too: perf finds unwind tables there for the
    /// dumps of stacks.
    pub fn wants_data_mappings(&self) -> bool {
        self.events.iter().any(|e| e.callchain && matches!(e.user_stack, UserStack::Dump(_)))
    }

    /// The CPUs whose events are open.
    pub fn monitored_cpus(&self) -> impl Iterator<Item = u32> {
        (0..self.cpus.min(64)).filter(|cpu| self.wide >> cpu & 1 != 0)
    }
}

impl Record {
    /// When it was written.
    pub const fn time(&self) -> Time {
        match self {
            Record::Comm { time, .. }
            | Record::Mmap2 { time, .. }
            | Record::Fork { time, .. }
            | Record::Exit { time, .. }
            | Record::Switch { time, .. }
            | Record::Lost { time, .. }
            | Record::Throttle { time, .. }
            | Record::LostSamples { time, .. }
            | Record::CallchainDeferred { time, .. } => *time,
            Record::Sample(sample) => sample.time,
        }
    }

    /// The CPU that wrote it.
    pub const fn cpu(&self) -> u32 {
        match self {
            Record::Comm { cpu, .. }
            | Record::Mmap2 { cpu, .. }
            | Record::Fork { cpu, .. }
            | Record::Exit { cpu, .. }
            | Record::Switch { cpu, .. }
            | Record::Lost { cpu, .. }
            | Record::Throttle { cpu, .. }
            | Record::CallchainDeferred { cpu, .. } => *cpu,
            Record::LostSamples { .. } => 0,
            Record::Sample(sample) => sample.cpu,
        }
    }

    /// Index into [`Session::events`] of the event that it belongs to.
    pub const fn event(&self) -> usize {
        match self {
            Record::Lost { event, .. }
            | Record::LostSamples { event, .. }
            | Record::Throttle { event, .. } => *event,
            Record::Sample(sample) => sample.event,
            _ => 0,
        }
    }
}

/// One modelled kernel function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Name as in `/proc/kallsyms`.
    pub name: String,
}
