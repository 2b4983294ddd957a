//! `execve` of the guest: a new machine with the program mapped, its stack built.
//!
//! Follows `fs/binfmt_elf.c`: segments with exact permissions, bss as zero pages, the
//! break after the highest segment, vvar and vDSO below the mapping base, the stack with
//! its limit, then the auxiliary vector.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use arch::{Arch, Regs};

use crate::engine::{Arena, Engine, EngineError};
use crate::kernel::State;
use crate::kernel::kstack::KernelStack;
use crate::kernel::signal::Signals;
use crate::kernel::state::{Config, Cpu, SplitMix64, Stats};
use crate::kernel::task::{DEFAULT_LIMITS, Image, Task, rlimit};
use crate::kernel::vfs::{FdTable, HostFile, Tree, Vfs};
use crate::loader::elf;
use crate::mem::{Area, AreaFlags, Backing, Mm, MmLayout, PAGE, Prot, page_down};
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
    #[error("{}: {source}", path.display())]
    Load {
        /// Host path.
        path: PathBuf,
        /// Why.
        source: crate::loader::LoadError,
    },
    /// Our own failure.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Mappings do not fit.
    #[error("{}: cannot map the program: {errno}", path.display())]
    Map {
        /// Host path.
        path: PathBuf,
        /// As the kernel would say.
        errno: arch::Errno,
    },
    /// Guest memory is exhausted.
    #[error("guest memory is exhausted before the program starts")]
    Memory,
}

const PID: u32 = 1000;

/// Loads `program` into a new machine whose events are those of `session`; its
/// architecture becomes the file's.
pub fn exec(
    program: &Program,
    config: Config,
    make_session: impl FnOnce(Arch) -> Session,
) -> Result<State, ExecError> {
    let load = |source| ExecError::Load { path: program.host.clone(), source };
    let file = Tree::host_file(&program.path, &program.host)
        .map_err(|e| load(crate::loader::LoadError::from_io(&e)))?;
    let image = elf::parse(file.map.bytes()).map_err(load)?;
    let arch = image.arch;
    let mut arena = Arena::new()?;
    let core = Engine::new(arch, &mut arena)?;
    let (task_stack, nmi_stack) = kernel_stacks(arch, &mut arena).ok_or(ExecError::Memory)?;
    let bias = match (image.kind, arch) {
        (elf::Kind::Exec, _) => 0,
        (elf::Kind::Pie, Arch::X86_64) => 0x5555_5555_4000,
        (elf::Kind::Pie, Arch::Aarch64) => 0xaaaa_aaaa_0000,
    };
    let stack_top = arch.task_size();
    let layout = MmLayout {
        mmap_base: stack_top - (136 << 20),
        brk_start: bias + image.load_max,
        stack_top,
        stack_limit: DEFAULT_LIMITS[rlimit::STACK].0,
        data_limit: DEFAULT_LIMITS[rlimit::DATA].0,
        address_limit: DEFAULT_LIMITS[rlimit::AS].0,
    };
    let mut mm = Mm::new(arch, layout, &mut arena).ok_or(ExecError::Memory)?;
    map_segments(&mut mm, &mut arena, &file, &image, bias)
        .map_err(|errno| ExecError::Map { path: program.host.clone(), errno })?;
    let mut tree = Tree::new(program.root.clone(), program.cwd.clone(), program.path.clone());
    tree.adopt(file, &program.host);
    let name = Path::new(&program.path).file_name().map(|n| n.to_string_lossy().into_owned());
    let comm: String = name.unwrap_or_default().chars().take(15).collect();
    let mut state = State {
        arch,
        arena,
        core: Box::new(core),
        cpu: Cpu {
            id: 0,
            irqs_on: true,
            preempt_count: 0,
            clock: 0,
            kernel: None,
            functions: Vec::new(),
            nmi_stack,
        },
        mm,
        task: new_task(task_stack, comm, program.seed),
        vfs: Vfs {
            tree,
            fds: FdTable::standard(),
            stdout_is_taken: program.stdout_is_taken,
        },
        perf: Perf::open(make_session(arch)),
        config,
        random: SplitMix64(program.seed),
        unsupported: Default::default(),
        stats: Stats::default(),
    };
    let sp = build_stack(&mut state, program, &image, bias);
    let mut regs = Regs::new(arch);
    regs.pc = bias + image.entry;
    regs.set_sp(sp);
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

fn new_task(stack: KernelStack, comm: String, seed: u64) -> Task {
    Task {
        pid: PID,
        tid: PID,
        ppid: 1,
        uid: 1000,
        gid: 1000,
        comm,
        stack,
        work: Default::default(),
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
    }
}

/// `PERF_RECORD_COMM` and `PERF_RECORD_MMAP2` of the new program.
fn announce(state: &mut State) {
    let (pid, tid, comm) = (state.task.pid, state.task.tid, state.task.comm.clone());
    state.perf.records.push(Record::Comm { pid, tid, time: 0, comm, exec: true });
    let starts: Vec<u64> =
        state.mm.areas.values().filter(|a| a.prot.exec).map(|a| a.start).collect();
    for start in starts {
        state.record_mapping(start);
    }
}

fn map_segments(
    mm: &mut Mm,
    arena: &mut Arena,
    file: &Rc<HostFile>,
    image: &elf::Image,
    bias: u64,
) -> Result<(), arch::Errno> {
    for segment in &image.segments {
        let start = page_down(bias + segment.vaddr);
        let prot =
            Prot { read: segment.read, write: segment.write, exec: segment.execute };
        let file_end = bias + segment.vaddr + segment.filesz;
        let end = bias + segment.vaddr + segment.memsz;
        let file_page_end = crate::mem::page_up(file_end).ok_or(arch::Errno::ENOMEM)?;
        let mapped_end = if segment.filesz > 0 { file_page_end } else { start };
        if segment.filesz > 0 {
            let offset = page_down(segment.file_offset);
            let backing = Backing::File { source: file.clone(), offset };
            mm.insert(Area {
                start,
                end: mapped_end,
                prot,
                flags: AreaFlags::default(),
                backing,
                name: "",
            })?;
        }
        let bss_end = crate::mem::page_up(end).ok_or(arch::Errno::ENOMEM)?;
        if bss_end > mapped_end {
            mm.insert(Area {
                start: mapped_end,
                end: bss_end,
                prot,
                flags: AreaFlags::default(),
                backing: Backing::Anonymous,
                name: "",
            })?;
        }
        // The rest of the last file page is zeroed if it can be written.
        if segment.memsz > segment.filesz && segment.write && file_end % PAGE != 0 {
            let zeros = vec![0; (file_page_end - file_end) as usize];
            let _ = mm.write(arena, file_end, &zeros);
            mm.kernel_faults.clear();
        }
    }
    Ok(())
}

fn build_stack(state: &mut State, program: &Program, image: &elf::Image, bias: u64) -> u64 {
    let top = state.mm.layout.stack_top;
    let _ = state.mm.insert(Area {
        start: top - 132 * 1024,
        end: top,
        prot: Prot::RW,
        flags: AreaFlags { grows_down: true, ..AreaFlags::default() },
        backing: Backing::Anonymous,
        name: "[stack]",
    });
    let mut at = top - 8;
    let mut put = |state: &mut State, bytes: &[u8]| {
        at -= bytes.len() as u64 + 1;
        let _ = state.write_user(at, bytes);
        at
    };
    let execfn = put(state, program.path.as_bytes());
    let random = put(state, &[7; 16]);
    let platform = put(state, state.arch.name().as_bytes());
    let envp: Vec<u64> = program.env.iter().map(|e| put(state, e)).collect();
    let argv: Vec<u64> = program.args.iter().map(|e| put(state, e)).collect();
    let mut words = vec![argv.len() as u64];
    words.extend(argv);
    words.push(0);
    words.extend(envp);
    words.push(0);
    let phdr = image.phdr_vaddr.map_or(0, |v| v + bias);
    let hwcap = match state.arch {
        Arch::X86_64 => 0x078b_fbfd,
        Arch::Aarch64 => 0x0000_0103,
    };
    words.extend([
        3, phdr, 4, 56, 5, u64::from(image.phnum), 6, 4096, 7, 0, 8, 0, 9, bias + image.entry, 11,
        1000, 12, 1000, 13, 1000, 14, 1000, 15, platform, 16, hwcap, 17, 100, 23, 0, 25, random,
        31, execfn, 51, 2048, 0, 0,
    ]);
    let sp = (at - 8 * words.len() as u64) & !15;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let _ = state.write_user(sp, &bytes);
    state.mm.kernel_faults.clear();
    sp
}
