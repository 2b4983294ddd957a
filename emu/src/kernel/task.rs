//! One task.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use arch::siginfo::SigInfo;
use arch::signal::code;

use crate::kernel::hw_breakpoint::Step;
use crate::kernel::kstack::{KernelContext, KernelStack};
use crate::kernel::machine::UserHw;
use crate::kernel::process::{CpuTime, Shared};
use crate::kernel::signal::Signals;
use crate::kernel::state::SplitMix64;
use crate::kernel::symbols::Function;
use crate::kernel::task_work::TaskWorks;
use crate::kernel::unwind::TaskInfo;
use crate::kernel::uretprobe::ReturnInstance;
use crate::kernel::vfs::FdTable;
use crate::kernel::wait::{Block, Waiting};
use crate::mem::mm::MmId;
use crate::perf::context::Context;
use crate::perf::record::Time;
use crate::perf::session::SessionId;

/// Names a task; unlike thread ids, none is used twice in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// Where a task that does not run will go on in the kernel.
#[derive(Clone, Debug, Default)]
pub struct SwitchedOut {
    /// Where.
    pub kernel: Option<KernelContext>,
    /// Modelled functions on its path, innermost last.
    pub functions: Vec<Function>,
}

/// Where a task is, as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is the current task of this CPU.
    Running(u32),
    /// It waits for its turn on this CPU.
    Queued(u32),
    /// It is blocked, or dead; it was on this CPU last.
    Off(u32),
}

impl Place {
    /// The CPU.
    pub const fn cpu(self) -> u32 {
        match self {
            Place::Running(cpu) | Place::Queued(cpu) | Place::Off(cpu) => cpu,
        }
    }
}

/// Work bits (`TIF_*`) that the exit loop looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct WorkBits {
    /// `TIF_NEED_RESCHED`
    pub need_resched: bool,
    /// `TIF_UPROBE`
    pub uprobe: bool,
    /// `TIF_PATCH_PENDING`. Nothing sets it, since no livepatch is modelled; its place in a pass
    /// of the exit loop (X2.iv) is one that LAW-3 orders.
    pub patch_pending: bool,
    /// `TIF_SIGPENDING`
    pub signal_pending: bool,
    /// `TIF_NOTIFY_RESUME`
    pub notify_resume: bool,
}

impl WorkBits {
    /// Whether any bit is set.
    pub const fn any(self) -> bool {
        self.need_resched
            || self.uprobe
            || self.patch_pending
            || self.signal_pending
            || self.notify_resume
    }
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// `exit_group` with this status (its low 8 bits).
    Exited(u8),
    /// A signal without a handler.
    Signalled(u8),
    /// A limit of ours: `--max-instructions`.
    Limit,
    /// The user interrupted the run.
    Interrupted,
    /// Something unsupported under `--strict`.
    Strict,
    /// Every task waits, and nothing can come.
    Deadlock,
    /// The kernel does not get back to user mode.
    Livelock,
}

impl Ending {
    /// `si_code` and `si_status` of the parent's signal.
    pub const fn as_child_status(self) -> (i32, i32) {
        match self {
            Ending::Signalled(signal) => (code::CLD_KILLED, signal as i32),
            Ending::Exited(status) => (code::CLD_EXITED, status as i32),
            _ => (code::CLD_EXITED, 0),
        }
    }

    /// The status word of `wait4`.
    pub const fn wait_status(self) -> u32 {
        match self {
            Ending::Signalled(signal) => signal as u32,
            Ending::Exited(status) => (status as u32) << 8,
            _ => 0,
        }
    }
}

/// Resource limits by `RLIMIT_*` number: (soft, hard).
pub type Limits = [(u64, u64); 16];

/// `RLIM_INFINITY`
pub const INFINITY: u64 = u64::MAX;

/// The limits of an ordinary login: 8 MiB of stack, 1024 files.
pub const DEFAULT_LIMITS: Limits = {
    let mut limits = [(INFINITY, INFINITY); 16];
    limits[rlimit::STACK] = (8 << 20, INFINITY);
    limits[rlimit::CORE] = (0, INFINITY);
    limits[rlimit::NPROC] = (95_000, 95_000);
    limits[rlimit::NOFILE] = (1024, 1 << 20);
    limits[rlimit::MEMLOCK] = (8 << 20, 8 << 20);
    limits[rlimit::SIGPENDING] = (95_000, 95_000);
    limits[rlimit::MSGQUEUE] = (819_200, 819_200);
    limits[rlimit::NICE] = (0, 0);
    limits[rlimit::RTPRIO] = (0, 0);
    limits
};

/// `RLIMIT_*` numbers.
#[allow(missing_docs)]
pub mod rlimit {
    pub const FSIZE: usize = 1;
    pub const DATA: usize = 2;
    pub const STACK: usize = 3;
    pub const CORE: usize = 4;
    pub const NPROC: usize = 6;
    pub const NOFILE: usize = 7;
    pub const MEMLOCK: usize = 8;
    pub const AS: usize = 9;
    pub const SIGPENDING: usize = 11;
    pub const MSGQUEUE: usize = 12;
    pub const NICE: usize = 13;
    pub const RTPRIO: usize = 14;
}

/// What `/proc/self` tells of the program that a task runs.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The auxiliary vector's bytes.
    pub auxv: Vec<u8>,
    /// Arguments, each with its NUL.
    pub cmdline: Vec<u8>,
    /// Environment, each with its NUL.
    pub environ: Vec<u8>,
    /// Where the loader mapped its SFrame section, and the text that it is for.
    pub sframe: Option<(Range<u64>, Range<u64>)>,
}

/// What a thread of the kernel does (`PF_KTHREAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelThread {
    /// It is a CPU's idle task.
    Idle,
    /// It registers and cancels this one of [`crate::kernel::State::tracers`].
    Tracer(usize),
    /// It opens and closes this session.
    Session(SessionId),
}

/// One task.
#[derive(Debug)]
pub struct Task {
    /// Its name in the machine.
    pub id: TaskId,
    /// What it shares with the other threads of its process.
    pub process: Shared,
    /// Performance events that are open on it.
    pub events: Context,
    /// User registers, while the engine holds another task's.
    pub hw: Option<Box<UserHw>>,
    /// Where it goes on, while it does not run.
    pub out: SwitchedOut,
    /// Where it is.
    pub place: Place,
    /// CPUs that it may run on, a bit each.
    pub affinity: u64,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// How its present call waits.
    pub block: Option<Block>,
    /// Bytes that the present call has moved before it waited.
    pub moved: u64,
    /// When the time of that call is over.
    pub deadline: Option<Time>,
    /// The CPU that had its floating-point registers last (`fpu.last_cpu`).
    pub fpu_cpu: Option<u32>,
    /// The probed instruction whose handlers are to be called.
    pub uprobe: Option<u64>,
    /// Handlers of a probe on a function's first instruction run (x86_64).
    pub at_entry: bool,
    /// The probed instruction that is executed next, without its breakpoint.
    pub step_over: Option<u64>,
    /// The instruction that is executed next, without hardware breakpoints.
    pub debug_step: Option<Step>,
    /// Returns of probed functions that are awaited, the newest last.
    pub returns: Vec<ReturnInstance>,
    /// User instructions that it had run when pages were made absent last.
    pub paged_out: Option<u64>,
    /// What it does, if it is a thread of the kernel.
    pub kernel_thread: Option<KernelThread>,
    /// Its address space; `None` for a thread of the kernel, and after `exit_mm`.
    pub mm: Option<MmId>,
    /// Open files.
    pub fds: FdTable,
    /// Working directory.
    pub cwd: Rc<RefCell<String>>,
    /// It has run its last step.
    pub dead: bool,
    /// CPU time.
    pub times: CpuTime,
    /// Its parent waits until it is done with the address space (`vfork`).
    pub vfork: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// User id, also effective and saved.
    pub uid: u32,
    /// Group id, also effective and saved.
    pub gid: u32,
    /// Name: at most 15 bytes, whatever they are.
    pub comm: Vec<u8>,
    /// Kernel stack.
    pub stack: KernelStack,
    /// Work for the way back to user mode.
    pub work: WorkBits,
    /// Task work.
    pub works: TaskWorks,
    /// State of the deferred unwinder.
    pub unwind: TaskInfo,
    /// `PF_EXITING`
    pub exiting: bool,
    /// Signal state.
    pub signals: Signals,
    /// The signal whose handler is about to be entered.
    pub caught: Option<SigInfo>,
    /// Thread pointer in user mode.
    pub tls: u64,
    /// `GS.base` in user mode (x86_64).
    pub gs_base: u64,
    /// Number of the system call being executed, `u64::MAX` outside one.
    pub orig_nr: u64,
    /// What the result register held before the call.
    pub restart_value: u64,
    /// `set_tid_address`
    pub clear_child_tid: u64,
    /// `set_robust_list`: head and length.
    pub robust_list: (u64, u64),
    /// Registered `struct rseq`: address, length, signature.
    pub rseq: Option<(u64, u32, u32)>,
    /// Resource limits.
    pub limits: Limits,
    /// File mode creation mask.
    pub umask: u32,
    /// Set when the guest has ended.
    pub ending: Option<Ending>,
    /// What was randomly chosen for this task (stack protector, `AT_RANDOM`).
    pub random: SplitMix64,
    /// What `/proc/self` tells of the program.
    pub image: Image,
    /// Address of the vDSO's `rt_sigreturn`, 0 if there is none.
    pub vdso_sigreturn: u64,
}

impl Task {
    /// A task with nothing.
    pub fn empty(id: TaskId, comm: Vec<u8>, stack: KernelStack, place: Place) -> Task {
        Task {
            id,
            process: Rc::default(),
            events: Context::default(),
            hw: None,
            out: Default::default(),
            place,
            affinity: u64::MAX,
            waiting: None,
            block: None,
            moved: 0,
            deadline: None,
            fpu_cpu: None,
            uprobe: None,
            at_entry: false,
            step_over: None,
            debug_step: None,
            returns: Vec::new(),
            paged_out: None,
            kernel_thread: None,
            mm: None,
            fds: FdTable::default(),
            cwd: Rc::default(),
            dead: false,
            times: Default::default(),
            vfork: false,
            pid: 0,
            tid: 0,
            ppid: 0,
            uid: 0,
            gid: 0,
            comm,
            stack,
            work: Default::default(),
            works: Default::default(),
            unwind: Default::default(),
            exiting: false,
            signals: Signals::default(),
            caught: None,
            tls: 0,
            gs_base: 0,
            orig_nr: u64::MAX,
            restart_value: 0,
            clear_child_tid: 0,
            robust_list: (0, 0),
            rseq: None,
            limits: DEFAULT_LIMITS,
            umask: 0o022,
            ending: None,
            random: SplitMix64(0),
            image: Image::default(),
            vdso_sigreturn: 0,
        }
    }

    /// Whether it is a CPU's idle task.
    pub const fn is_idle(&self) -> bool {
        self.tid == 0
    }

    /// Name as text.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.comm).into_owned()
    }
}
