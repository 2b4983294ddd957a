//! The first program in a new machine.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::{Arch, Errno};

use crate::engine::{Arena, Engine, EngineError};
use crate::kernel::State;
use crate::kernel::boot::{FIRST, FIRST_MM, PID, Parts, Stacks};
use crate::kernel::image::{self, ImageError, Loaded, Request};
use crate::kernel::kstack::KernelStack;
use crate::kernel::process::Process;
use crate::kernel::state::{Config, SplitMix64};
use crate::kernel::task::{DEFAULT_LIMITS, Place, Task};
use crate::kernel::vfs::{FdTable, File, Host, RealHost, Tree, Vfs};
use crate::loader::stack::StackError;
use crate::loader::{FileError, LoadError};
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
    let stacks = Stacks::new(arch, config.cpus, &mut arena).ok_or(ExecError::Memory)?;
    let mut random = SplitMix64(program.seed ^ 1);
    let loaded = load(program, &file, &mut random, &config, &mut arena)?;
    let session = make_session(arch);
    let task = first_task(program, &loaded, stacks.first.clone(), random, &session);
    let parts = Parts {
        arch,
        arena,
        core: Box::new(core),
        stacks,
        mm: loaded.mm,
        task,
        vfs: Vfs::new(host, tree),
        perf: Perf::new(session),
        config,
        random: SplitMix64(program.seed),
    };
    let mut state = parts.assemble();
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
        mm: FIRST_MM,
    };
    image::load(&request, config, arena)
        .map_err(|source| ExecError::of_image(source, &program.host))
}

/// User and group of the guest.
const USER: u32 = 1000;

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
