//! `execve` of the guest: a new machine with the program mapped, its stack built.
//!
//! Follows `fs/binfmt_elf.c`: segments with exact permissions, bss as zero pages, the
//! break after the highest segment, vvar and vDSO below the mapping base, the stack with
//! its limit, then the auxiliary vector.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::{Arch, Errno, Regs};

use crate::engine::{Arena, Engine, EngineError};
use crate::kernel::State;
use crate::kernel::kstack::KernelStack;
use crate::kernel::signal::Signals;
use crate::kernel::state::{Config, Cpu, SplitMix64, Stats};
use crate::kernel::task::{DEFAULT_LIMITS, Image, Task, rlimit};
use crate::kernel::unwind::{NotBuilt, Unwind};
use crate::kernel::vfs::{File, Tree, Vfs};
use crate::loader::auxv::Aux;
use crate::loader::stack::{self, StackError};
use crate::loader::vvar::Vvar;
use crate::loader::{self, FileError, Layout, LoadError, elf, vdso};
use crate::mem::mm::STACK_GUARD;
use crate::mem::{Area, AreaFlags, Backing, Mm, MmLayout, PAGE, Prot, page_down, page_up};
use crate::perf::record::{Record, Session};
use crate::perf::session::Perf;

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
    Arguments(#[from] StackError),
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

/// Bytes that the stack area has at first: strings, vectors and some room
/// (`setup_arg_pages` adds 128 KiB).
const STACK_ROOM: u64 = 128 << 10;

const PID: u32 = 1000;

/// Loads `program` into a new machine whose events are those of `session`; its
/// architecture becomes the file's.
pub fn exec(
    program: &Program,
    config: Config,
    make_session: impl FnOnce(Arch) -> Session,
) -> Result<State, ExecError> {
    let fail = |source| ExecError::Load(FileError { path: program.host.clone(), source });
    loader::file::open(&program.host)?;
    let mut tree = Tree::new(program.root.clone(), program.cwd.clone(), program.path.clone());
    let file =
        tree.adopt(&program.path, &program.host).map_err(|e| fail(LoadError::from_io(&e)))?;
    tree.exe = file.object.name();
    let bytes = file.object.pristine().map_or(&[][..], |map| map.bytes());
    let image = elf::parse(bytes).map_err(fail)?;
    let arch = image.arch;
    let options = loader::Options {
        aslr: program.aslr,
        stack_limit: DEFAULT_LIMITS[rlimit::STACK].0,
        vdso_size: config.vdso.image(arch).len() as u64,
    };
    let plan = loader::plan(&image, &options).map_err(fail)?;
    let mut arena = Arena::new()?;
    let core = Engine::new(arch, &mut arena)?;
    let (task_stack, nmi_stack) = kernel_stacks(arch, &mut arena).ok_or(ExecError::Memory)?;
    let layout = MmLayout {
        mmap_base: plan.mmap_base,
        brk_start: plan.brk,
        stack_top: plan.stack_top,
        stack_limit: DEFAULT_LIMITS[rlimit::STACK].0,
        data_limit: DEFAULT_LIMITS[rlimit::DATA].0,
        address_limit: DEFAULT_LIMITS[rlimit::AS].0,
    };
    let mut mm = Mm::new(arch, layout, &mut arena).ok_or(ExecError::Memory)?;
    let map = |errno| ExecError::Map { path: program.host.clone(), errno };
    map_segments(&mut mm, &mut arena, &file, &image, plan.bias).map_err(map)?;
    map_vdso(&mut mm, &mut arena, &plan, &config).map_err(map)?;
    let name = Path::new(&program.path).file_name().map(|n| n.to_string_lossy().into_owned());
    let mut comm = name.unwrap_or_default().into_bytes();
    comm.truncate(15);
    let mut state = State {
        arch,
        arena,
        core: Box::new(core),
        cpu: Cpu {
            id: 0,
            irqs_on: true,
            nmi_masked: false,
            preempt_count: 0,
            clock: 0,
            kernel: None,
            functions: Vec::new(),
            nmi_stack,
            irq_work: Default::default(),
            unwind_ctx_ctr: 0,
            slot_is_stale: false,
        },
        mm,
        task: new_task(task_stack, comm, program.seed),
        vfs: Vfs::new(tree, program.stdout_is_taken),
        perf: Perf::open(make_session(arch)),
        overflows: Default::default(),
        unwind: Unwind::new(Rc::new(NotBuilt)),
        config,
        random: SplitMix64(program.seed),
        unsupported: Default::default(),
        observer: None,
        timeline: None,
        stats: Stats::default(),
    };
    let mut random = [0; 16];
    state.task.random.fill(&mut random);
    let stack = stack::build(&stack::Input {
        arch,
        top: plan.stack_top,
        skew: plan.stack_skew,
        stack_limit: DEFAULT_LIMITS[rlimit::STACK].0,
        argv: &program.args,
        envp: &program.env,
        execfn: program.path.as_bytes(),
        random,
        aux: Aux::new(&image, &plan, state.task.uid, state.task.gid),
    })?;
    map_stack(&mut state, &stack, image.exec_stack).map_err(map)?;
    state.task.image.sframe = sframe_of(&image, plan.bias);
    if let (Some(at), Some(offset)) = (plan.vdso, vdso::symbol(arch, vdso::RT_SIGRETURN)) {
        state.task.vdso_sigreturn = at + offset;
    }
    let mut regs = Regs::new(arch);
    regs.pc = plan.entry;
    regs.set_sp(stack.sp);
    state.core.set_regs(&regs);
    announce(&mut state);
    Ok(state)
}

fn kernel_stacks(arch: Arch, arena: &mut Arena) -> Option<(KernelStack, KernelStack)> {
    let base = match arch {
        Arch::X86_64 => 0xffff_c900_0000_0000,
        Arch::Aarch64 => 0xffff_8000_8200_0000,
    };
    Some((KernelStack::new(base, arena)?, KernelStack::new(base + 0x10_0000, arena)?))
}

fn new_task(stack: KernelStack, comm: Vec<u8>, seed: u64) -> Task {
    Task {
        pid: PID,
        tid: PID,
        ppid: 1,
        uid: 1000,
        gid: 1000,
        comm,
        stack,
        work: Default::default(),
        works: Default::default(),
        unwind: Default::default(),
        exiting: false,
        has_mm: true,
        signals: Signals::default(),
        caught: None,
        tls: 0,
        gs_base: 0,
        orig_nr: u64::MAX,
        clear_child_tid: 0,
        robust_list: (0, 0),
        rseq: None,
        limits: DEFAULT_LIMITS,
        slept: 0,
        umask: 0o022,
        ending: None,
        random: SplitMix64(seed ^ 1),
        image: Image::default(),
        vdso_sigreturn: 0,
        sleep_until: None,
    }
}

/// `PERF_RECORD_COMM` and `PERF_RECORD_MMAP2` of the new program.
fn announce(state: &mut State) {
    let (pid, tid, comm) = (state.task.pid, state.task.tid, state.task.name());
    state.perf.records.push(Record::Comm { pid, tid, time: 0, comm, exec: true });
    let starts: Vec<u64> = state.mm.areas().filter(|a| a.prot.exec).map(|a| a.start).collect();
    for start in starts {
        state.record_mapping(start);
    }
}

/// The program's SFrame section in memory, and its text: the first executable segment.
fn sframe_of(image: &elf::Image, bias: u64) -> Option<(Range<u64>, Range<u64>)> {
    let section = image.sframe.as_ref()?;
    let text = image.segments.iter().find(|s| s.execute)?;
    let at = |vaddr: u64, len: u64| {
        let start = bias.wrapping_add(vaddr);
        start..start.wrapping_add(len)
    };
    Some((at(section.vaddr, section.memsz), at(text.vaddr, text.memsz)))
}

/// A file-backed part and a zero part for each segment.
fn map_segments(
    mm: &mut Mm,
    arena: &mut Arena,
    file: &Rc<File>,
    image: &elf::Image,
    bias: u64,
) -> Result<(), Errno> {
    let up = |a| page_up(a).ok_or(Errno::ENOMEM);
    for segment in &image.segments {
        let start = page_down(bias.wrapping_add(segment.vaddr));
        let prot = Prot { read: segment.read, write: segment.write, exec: segment.execute };
        let file_end = bias.wrapping_add(segment.vaddr + segment.filesz);
        let end = up(bias.wrapping_add(segment.vaddr + segment.memsz))?;
        let zeros_from = if segment.filesz > 0 { up(file_end)? } else { start };
        let area = |start, end, backing| Area {
            start,
            end,
            prot,
            flags: AreaFlags::default(),
            backing,
            name: "",
        };
        if segment.filesz > 0 {
            let offset = page_down(segment.file_offset);
            let backing = Backing::File { object: file.object.clone(), offset };
            mm.insert(area(start, zeros_from, backing))?;
        }
        if end > zeros_from {
            mm.insert(area(zeros_from, end, Backing::Anonymous))?;
        }
        // `padzero`: the rest of the last file page, if it can be written.
        let partial = segment.filesz > 0 && file_end % PAGE != 0;
        if segment.memsz > segment.filesz && segment.write && partial {
            let zeros = vec![0; (zeros_from - file_end) as usize];
            let _ = mm.write(arena, file_end, &zeros);
            mm.kernel_faults.clear();
        }
    }
    Ok(())
}

/// The vvar page and, above it, the vDSO.
fn map_vdso(mm: &mut Mm, arena: &mut Arena, plan: &Layout, config: &Config) -> Result<(), Errno> {
    let (Some(vvar), Some(at)) = (plan.vvar, plan.vdso) else { return Ok(()) };
    let page = Vvar::new(config.boot_time).page();
    let data = special(arena, page.as_slice())?;
    let code = special(arena, &config.vdso.image(mm.arch))?;
    let fixed = AreaFlags { read_only: true, ..AreaFlags::default() };
    for (start, frames, prot, flags, name) in [
        (vvar, data, Prot::R, fixed, "[vvar]"),
        (at, code, Prot::RX, AreaFlags::default(), "[vdso]"),
    ] {
        mm.insert(Area {
            start,
            end: start + frames.len() as u64 * PAGE,
            prot,
            flags,
            backing: Backing::Special { frames, first: 0 },
            name,
        })?;
    }
    Ok(())
}

/// Frames that hold `bytes`.
fn special(arena: &mut Arena, bytes: &[u8]) -> Result<Rc<[crate::engine::Frame]>, Errno> {
    bytes
        .chunks(PAGE as usize)
        .map(|chunk| {
            let frame = arena.alloc().ok_or(Errno::ENOMEM)?;
            arena.bytes_mut(frame)[..chunk.len()].copy_from_slice(chunk);
            Ok(frame)
        })
        .collect()
}

/// Maps the stack and writes what [`stack::build`] laid out.
fn map_stack(state: &mut State, stack: &stack::Stack, executable: bool) -> Result<(), Errno> {
    let top = state.mm.layout.stack_top;
    let limit = state.mm.layout.stack_limit;
    let wanted = page_down(stack.sp.saturating_sub(STACK_ROOM));
    let start = wanted.max(top.saturating_sub(limit.max(STACK_GUARD))).min(page_down(stack.sp));
    state.mm.insert(Area {
        start,
        end: top,
        prot: Prot { exec: executable, ..Prot::RW },
        flags: AreaFlags { grows_down: true, ..AreaFlags::default() },
        backing: Backing::Anonymous,
        name: "[stack]",
    })?;
    state.write_user(stack.sp, &stack.bytes)?;
    // The copies of `execve` belong to the old program's accounts.
    state.mm.kernel_faults.clear();
    let part = |(from, to): (u64, u64)| {
        let at = |a: u64| a.saturating_sub(stack.sp) as usize;
        stack.bytes.get(at(from)..at(to)).unwrap_or_default().to_vec()
    };
    let auxv = stack.auxv.iter().flat_map(|&(k, v)| [k, v]).flat_map(u64::to_le_bytes).collect();
    let (cmdline, environ) = (part(stack.args), part(stack.env));
    state.task.image = Image { auxv, cmdline, environ, sframe: None };
    Ok(())
}
