//! The boot: a machine is put together, with an idle task on each CPU and the first task in user
//! mode on CPU 0.
//!
//! ```text
//! Stacks::new ─► Parts { engine, memory, first task, … } ─► assemble ─► State
//!                                        add_task, add_kernel_thread ◄───┘
//! ```

use std::rc::Rc;

use arch::{Arch, Regs};

use crate::engine::Arena;
use crate::kernel::State;
use crate::kernel::fork::{kernel_stacks, stack_base};
use crate::kernel::kstack::KernelStack;
use crate::kernel::machine::{Others, UserHw};
use crate::kernel::state::{Config, Cpu, SplitMix64, Stats, UserCpu};
use crate::kernel::symbols::Named;
use crate::kernel::task::{KernelThread, Place, SwitchedOut, Task, TaskId};
use crate::kernel::unwind::{NotBuilt, Unwind};
use crate::kernel::vfs::Vfs;
use crate::mem::mm::{Mm, MmId};
use crate::perf::context::Context;
use crate::perf::record::{Record, Session};
use crate::perf::session::{Perf, SessionId};

/// The first process.
pub const PID: u32 = 1000;
/// CPUs that a machine may have: affinity is a word.
pub const MOST_CPUS: u32 = 64;
/// The first task.
pub const FIRST: TaskId = TaskId(1);
/// Its address space.
pub const FIRST_MM: MmId = MmId(1);
/// The idle task of CPU 0; those of the others follow.
const IDLE_0: TaskId = TaskId(2);

/// What a machine is put together from; the rest of it begins empty.
#[derive(Debug)]
pub struct Parts {
    /// Architecture.
    pub arch: Arch,
    /// Memory.
    pub arena: Arena,
    /// What runs user code.
    pub core: Box<dyn UserCpu>,
    /// Kernel stacks, for as many CPUs as the options say.
    pub stacks: Stacks,
    /// The first task's address space, [`FIRST_MM`].
    pub mm: Mm,
    /// The first task, [`FIRST`], which is in user mode.
    pub task: Task,
    /// Files.
    pub vfs: Vfs,
    /// The main session.
    pub perf: Perf,
    /// Options.
    pub config: Config,
    /// The machine's source of randomness.
    pub random: SplitMix64,
}

impl Parts {
    /// The machine, whose CPU 0 runs the first task; all others are idle.
    pub fn assemble(self) -> State {
        let Parts { arch, arena, core, stacks, mm, mut task, vfs, perf, config, random } = self;
        let cpus = stacks.others.len() as u32;
        let mut cpu = Cpu::new(0, stacks.nmi0, IDLE_0);
        cpu.current = FIRST;
        cpu.fpu_owner = Some(FIRST);
        task.fpu_cpu = Some(0);
        let last_task = FIRST.0 + cpus;
        let mut state = State {
            arch,
            arena,
            core,
            cpu: Box::new(cpu),
            mm: Box::new(mm),
            task: Box::new(task),
            others: Others { last_task, last_mm: FIRST_MM.0, last_pid: PID, ..Others::default() },
            horizon: u64::MAX,
            gives_way: false,
            schedule: None,
            scripts: Vec::new(),
            engine_task: FIRST,
            engine_mm: FIRST_MM,
            first: PID,
            ending: None,
            failure: None,
            zombies: Default::default(),
            pipes: 0,
            vfs,
            perf,
            unwind: Unwind::new(Rc::new(NotBuilt)),
            tracers: Vec::new(),
            config,
            random,
            unsupported: Default::default(),
            observer: None,
            timeline: None,
            stats: Stats::default(),
        };
        for (id, (nmi, stack)) in stacks.others.into_iter().enumerate() {
            state.add_idle_task(id as u32, nmi, stack);
        }
        state.open_cpu_events();
        state
    }
}

/// Kernel stacks at the boot.
#[derive(Debug)]
pub struct Stacks {
    /// The first task's.
    pub first: KernelStack,
    nmi0: KernelStack,
    /// For each CPU: its NMI stack (none for CPU 0, which has it), its idle task's stack.
    others: Vec<(Option<KernelStack>, KernelStack)>,
}

impl Stacks {
    /// Those of a machine with so many CPUs, of which there are 1 to [`MOST_CPUS`]; `None`: no
    /// memory is left.
    pub fn new(arch: Arch, cpus: u32, arena: &mut Arena) -> Option<Stacks> {
        let base = kernel_stacks(arch);
        let first = KernelStack::new(base, arena)?;
        let nmi0 = KernelStack::new(base + 0x10_0000, arena)?;
        let mut others = Vec::new();
        for cpu in 0..cpus.clamp(1, MOST_CPUS) {
            let nmi = match cpu {
                0 => None,
                n => Some(KernelStack::new(base + 0x10_0000 * u64::from(n + 1), arena)?),
            };
            others.push((nmi, KernelStack::new(stack_base(arch, TaskId(IDLE_0.0 + cpu)), arena)?));
        }
        Some(Stacks { first, nmi0, others })
    }
}

impl State {
    /// The idle task of CPU `id`, and the CPU itself if it is not the first.
    fn add_idle_task(&mut self, id: u32, nmi: Option<KernelStack>, stack: KernelStack) {
        let task = TaskId(IDLE_0.0 + id);
        let comm = format!("swapper/{id}").into_bytes();
        let place = if id == 0 { Place::Off(0) } else { Place::Running(id) };
        let mut idle = Task::empty(task, comm, stack, place);
        idle.affinity = 1 << id;
        idle.kernel_thread = Some(KernelThread::Idle);
        self.others.tasks.insert(task, Box::new(idle));
        self.start_in_kernel(task, Named::CpuStartupEntry, Named::DoIdle);
        if let Some(nmi) = nmi {
            let mut cpu = Cpu::new(id, nmi, task);
            let out = self.task_mut(task).map(|t| std::mem::take(&mut t.out)).unwrap_or_default();
            (cpu.kernel, cpu.functions) = (out.kernel, out.functions);
            cpu.halted = true;
            self.others.cpus.insert(id, Box::new(cpu));
        }
    }

    /// A task beside the first one, made by `make` from its id, kernel stack and place, with these
    /// user registers: in user mode on `cpu` if that is idle, else in its queue, and comes out of
    /// the kernel as a new thread does. Before the run; `None`: no memory is left.
    pub fn add_task(
        &mut self,
        cpu: u32,
        regs: &Regs,
        make: impl FnOnce(TaskId, KernelStack, Place) -> Task,
    ) -> Option<TaskId> {
        let (id, stack) = self.next_task()?;
        let idles = |c: &Cpu| c.current == c.idle && c.queue.is_empty();
        let free = self.cpu_of(cpu).is_some_and(idles);
        let place = if free { Place::Running(cpu) } else { Place::Queued(cpu) };
        let mut task = make(id, stack, place);
        task.hw = Some(Box::new(UserHw { regs: *regs, fp: self.core.fp() }));
        self.others.tasks.insert(id, Box::new(task));
        if free {
            self.displace_idle(cpu, id);
        } else {
            self.start_in_kernel(id, Named::RetFromForkAsm, Named::RetFromFork);
            self.on_behalf_of(id, |s| s.set_user_regs(regs));
            if let Some(cpu) = self.cpu_mut(cpu) {
                cpu.queue.push_back(id);
            }
        }
        Some(id)
    }

    /// `id` is the task of an idle CPU, which is in user mode.
    fn displace_idle(&mut self, cpu: u32, id: TaskId) {
        let Some(cpu) = self.cpu_mut(cpu) else { return };
        (cpu.current, cpu.halted) = (id, false);
        let (idle, place) = (cpu.idle, Place::Off(cpu.id));
        let (kernel, functions) = (cpu.kernel.take(), std::mem::take(&mut cpu.functions));
        if let Some(idle) = self.task_mut(idle) {
            (idle.out, idle.place) = (SwitchedOut { kernel, functions }, place);
        }
    }

    /// A thread of the kernel that begins with its first turn on CPU 0, at once. Before the run;
    /// `None`: no memory is left.
    pub fn add_kernel_thread(
        &mut self,
        tid: u32,
        comm: Vec<u8>,
        what: KernelThread,
    ) -> Option<TaskId> {
        let (id, stack) = self.next_task()?;
        let thread = Task {
            pid: tid,
            tid,
            kernel_thread: Some(what),
            ..Task::empty(id, comm, stack, Place::Queued(0))
        };
        let comm = thread.name();
        let record = Record::Comm { pid: tid, tid, time: 0, cpu: 0, comm, exec: false };
        let sessions = self.perf.open_sessions(Session::system_wide);
        self.record_in_each(&sessions, record);
        self.others.tasks.insert(id, Box::new(thread));
        self.start_in_kernel(id, Named::RetFromForkAsm, Named::KernelThread);
        self.cpu.queue.push_back(id);
        self.task.work.need_resched = true;
        self.cpu.resched_ipi = true;
        Some(id)
    }

    /// Opens the session's events anew. Before the run.
    pub fn open_events(&mut self) {
        if self.perf.main.session.system_wide() {
            self.open_cpu_events();
        } else {
            self.task.events = Context::default();
            self.task.events.open(SessionId::MAIN, &self.perf.main.session.events, 0);
        }
    }

    /// Opens the events that belong to CPUs, not to the guest's tasks.
    fn open_cpu_events(&mut self) {
        let cpus: Vec<u32> = self.perf.main.session.monitored_cpus().collect();
        for id in cpus {
            let mut events = Context::default();
            events.open(SessionId::MAIN, &self.perf.main.session.events, 0);
            if let Some(cpu) = self.cpu_mut(id) {
                cpu.events = events;
            }
        }
    }
}
