//! The machine as it is when the first program begins.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::{Arch, Errno};

use crate::engine::{Arena, Engine, EngineError};
use crate::kernel::State;
use crate::kernel::fork::{kernel_stacks, stack_base};
use crate::kernel::image::{self, ImageError, Loaded, Request};
use crate::kernel::kstack::KernelStack;
use crate::kernel::machine::Others;
use crate::kernel::process::Process;
use crate::kernel::state::{Config, Cpu, SplitMix64, Stats};
use crate::kernel::symbols::Named;
use crate::kernel::task::{DEFAULT_LIMITS, KernelThread, Place, Task, TaskId};
use crate::kernel::unwind::{NotBuilt, Unwind};
use crate::kernel::vfs::{FdTable, File, Host, RealHost, Tree, Vfs};
use crate::loader::stack::StackError;
use crate::loader::{FileError, LoadError};
use crate::mem::mm::{Mm, MmId};
use crate::perf::context::Context;
use crate::perf::record::{Record, Session};
use crate::perf::session::{Perf, SessionId};

/// What to run and in which world.
#[derive(Clone, Debug)]
pub struct Program {
    /// Host path of the ELF file.
    pub host: PathBuf,
    /// The same file as the guest sees it.
    pub path: String,
    /// Arguments, the first being the program's name.
    pub args: Vec<Vec<u8>>,
    /// Environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Folder of the host that is the guest's `/`.
    pub root: Option<PathBuf>,
    /// Working directory in the guest.
    pub cwd: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Addresses vary with this seed.
    pub aslr: Option<u64>,
    /// Standard output of the guest goes to standard error.
    pub stdout_is_taken: bool,
}

/// Why a guest could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The file is no program that can run.
    #[error(transparent)]
    Load(#[from] FileError),
    /// Arguments and environment are too large.
    #[error("arguments: {0}")]
    Arguments(StackError),
    /// Our own failure.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Mappings do not fit.
    #[error("{}: cannot map the program: {errno}", path.display())]
    Map {
        /// Host path.
        path: PathBuf,
        /// As the kernel would say.
        errno: Errno,
    },
    /// Guest memory is exhausted.
    #[error("guest memory is exhausted before the program starts")]
    Memory,
}

impl ExecError {
    /// A failure to load the program whose host path is `path`.
    fn of_image(error: ImageError, path: &Path) -> ExecError {
        let path = path.to_owned();
        match error {
            ImageError::Load(source) => ExecError::Load(FileError { path, source }),
            ImageError::Arguments(e) => ExecError::Arguments(e),
            ImageError::Map(errno) => ExecError::Map { path, errno },
            ImageError::Memory => ExecError::Memory,
        }
    }

    /// The exit status that a shell would give: 127 for a missing file, 126 for one that
    /// cannot run, 125 for our own failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            ExecError::Load(e) => e.exit_code(),
            ExecError::Arguments(_) | ExecError::Map { .. } => 126,
            ExecError::Engine(_) | ExecError::Memory => 125,
        }
    }
}

/// The first process.
const PID: u32 = 1000;
/// CPUs that a machine may have: affinity is a word.
pub const MOST_CPUS: u32 = 64;

/// Loads `program` into a new machine on this host, whose events are those of `session`; its
/// architecture becomes the file's.
///
/// # Errors
///
/// [`ExecError`] says why it cannot be started.
pub fn exec(
    program: &Program,
    config: Config,
    make_session: impl FnOnce(Arch) -> Session,
) -> Result<State, ExecError> {
    exec_on(Rc::new(RealHost::new(program.stdout_is_taken)), program, config, make_session)
}

/// [`exec`] on any host.
///
/// # Errors
///
/// [`ExecError`] says why it cannot be started.
pub fn exec_on(
    host: Rc<dyn Host>,
    program: &Program,
    config: Config,
    make_session: impl FnOnce(Arch) -> Session,
) -> Result<State, ExecError> {
    host.check_program(&program.host)?;
    let (tree, file) = find(host.clone(), program)?;
    let arch = image::arch_of(&file).map_err(|source| unloadable(program, source))?;
    let mut arena = Arena::new()?;
    let core = Engine::new(arch, &mut arena)?;
    let cpus = config.cpus.clamp(1, MOST_CPUS);
    let stacks = Stacks::new(arch, cpus, &mut arena).ok_or(ExecError::Memory)?;
    let mut random = SplitMix64(program.seed ^ 1);
    let loaded = load(program, &file, &mut random, &config, &mut arena)?;
    let session = make_session(arch);
    let task = first_task(program, &loaded, stacks.first, random, &session);
    let others =
        Others { last_task: FIRST.0 + cpus, last_mm: 1, last_pid: PID, ..Others::default() };
    let parts = Parts {
        arch,
        arena,
        core: Box::new(core),
        cpu: Box::new(Cpu::new(0, stacks.nmi0, IDLE_0)),
        mm: Box::new(loaded.mm),
        task: Box::new(task),
        others,
        vfs: Vfs::new(host, tree),
        perf: Perf::new(session),
        config,
        random: SplitMix64(program.seed),
    };
    let mut state = parts.assemble();
    for (id, (nmi, stack)) in stacks.others.into_iter().enumerate() {
        state.add_idle_task(id as u32, nmi, stack);
    }
    state.open_cpu_events();
    state.core.set_regs(&loaded.regs);
    announce(&mut state);
    state.assign_counters();
    state.start_tick();
    Ok(state)
}

/// `program` cannot be loaded.
fn unloadable(program: &Program, source: LoadError) -> ExecError {
    ExecError::Load(FileError { path: program.host.clone(), source })
}

/// The files that the guest sees, and `program`'s among them.
fn find(host: Rc<dyn Host>, program: &Program) -> Result<(Tree, Rc<File>), ExecError> {
    let (root, cwd, exe) = (program.root.clone(), program.cwd.clone(), program.path.clone());
    let mut tree = Tree::new(host, root, cwd, exe);
    let file = tree
        .adopt(&program.path, &program.host)
        .map_err(|e| unloadable(program, LoadError::from_io(&e)))?;
    tree.exe = file.object.name();
    Ok((tree, file))
}

/// `program` in memory; `random` gives its `AT_RANDOM`.
fn load(
    program: &Program,
    file: &Rc<File>,
    random: &mut SplitMix64,
    config: &Config,
    arena: &mut Arena,
) -> Result<Loaded, ExecError> {
    let mut chosen = [0; 16];
    random.fill(&mut chosen);
    let request = Request {
        file,
        path: program.path.as_bytes(),
        args: &program.args,
        env: &program.env,
        ids: (USER, USER),
        limits: &DEFAULT_LIMITS,
        aslr: program.aslr,
        random: chosen,
        mm: MmId(1),
    };
    image::load(&request, config, arena)
        .map_err(|source| ExecError::of_image(source, &program.host))
}

/// What a machine is put together from; the rest of it begins empty.
struct Parts {
    arch: Arch,
    arena: Arena,
    core: Box<Engine>,
    cpu: Box<Cpu>,
    mm: Box<Mm>,
    task: Box<Task>,
    others: Others,
    vfs: Vfs,
    perf: Perf,
    config: Config,
    random: SplitMix64,
}

impl Parts {
    /// The machine, whose CPU 0 runs the first task.
    fn assemble(self) -> State {
        let Parts { arch, arena, core, mut cpu, mm, mut task, .. } = self;
        cpu.current = FIRST;
        cpu.fpu_owner = Some(FIRST);
        task.fpu_cpu = Some(0);
        State {
            arch,
            arena,
            core,
            cpu,
            mm,
            task,
            others: self.others,
            horizon: u64::MAX,
            gives_way: false,
            engine_task: FIRST,
            engine_mm: MmId(1),
            first: PID,
            ending: None,
            failure: None,
            zombies: Default::default(),
            pipes: 0,
            vfs: self.vfs,
            perf: self.perf,
            unwind: Unwind::new(Rc::new(NotBuilt)),
            tracers: Vec::new(),
            config: self.config,
            random: self.random,
            unsupported: Default::default(),
            observer: None,
            timeline: None,
            stats: Stats::default(),
        }
    }
}

/// The first task.
const FIRST: TaskId = TaskId(1);
/// The idle task of CPU 0; those of the others follow.
const IDLE_0: TaskId = TaskId(2);
/// User and group of the guest.
const USER: u32 = 1000;

/// Kernel stacks at the boot.
struct Stacks {
    first: KernelStack,
    nmi0: KernelStack,
    /// For each CPU: its NMI stack (none for CPU 0, which has it), its idle task's stack.
    others: Vec<(Option<KernelStack>, KernelStack)>,
}

impl Stacks {
    fn new(arch: Arch, cpus: u32, arena: &mut Arena) -> Option<Stacks> {
        let base = kernel_stacks(arch);
        let first = KernelStack::new(base, arena)?;
        let nmi0 = KernelStack::new(base + 0x10_0000, arena)?;
        let mut others = Vec::new();
        for cpu in 0..cpus {
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

    /// A thread of the kernel that begins with its first turn on CPU 0, at once. Before the run;
    /// `None`: no memory is left.
    pub fn add_kernel_thread(
        &mut self,
        tid: u32,
        comm: Vec<u8>,
        what: KernelThread,
    ) -> Option<TaskId> {
        let id = TaskId(self.others.last_task + 1);
        let stack = KernelStack::new(stack_base(self.arch, id), &mut self.arena)?;
        self.others.last_task = id.0;
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

/// The task that is in user mode when the run begins.
fn first_task(
    program: &Program,
    loaded: &Loaded,
    stack: KernelStack,
    random: SplitMix64,
    session: &Session,
) -> Task {
    const PARENT: u32 = 1;
    let mut events = Context::default();
    if !session.system_wide() {
        events.open(SessionId::MAIN, &session.events, 0);
    }
    Task {
        process: Rc::new(RefCell::new(Process {
            pid: PID,
            parent: PARENT,
            group: PID,
            live: 1,
            ..Process::default()
        })),
        events,
        mm: Some(loaded.mm.id),
        fds: FdTable::standard(),
        cwd: Rc::new(RefCell::new(program.cwd.clone())),
        pid: PID,
        tid: PID,
        ppid: PARENT,
        uid: USER,
        gid: USER,
        random,
        image: loaded.image.clone(),
        vdso_sigreturn: loaded.vdso_sigreturn,
        ..Task::empty(FIRST, comm_of(&program.path), stack, Place::Running(0))
    }
}

/// A task's name: the last part of its program's path, at most 15 bytes.
pub fn comm_of(path: &str) -> Vec<u8> {
    let name = Path::new(path).file_name().map(|n| n.to_string_lossy().into_owned());
    let mut comm = name.unwrap_or_default().into_bytes();
    comm.truncate(15);
    comm
}

/// `PERF_RECORD_COMM` and `PERF_RECORD_MMAP2` of a new program.
pub fn announce(state: &mut State) {
    let (pid, tid, comm) = (state.task.pid, state.task.tid, state.task.name());
    let (time, cpu) = (state.cpu.clock, state.cpu.id);
    state.record(Record::Comm { pid, tid, time, cpu, comm, exec: true });
    let starts: Vec<u64> = state.mm.areas().map(|a| a.start).collect();
    for start in starts {
        state.record_mapping(start);
    }
}
