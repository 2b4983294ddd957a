//! A program in memory: what `execve` makes of an ELF file, the first time and every other.
//!
//! Follows `fs/binfmt_elf.c`: segments with exact permissions, bss as zero pages, the
//! break after the highest segment, vvar and vDSO below the mapping base, the stack with
//! its limit, then the auxiliary vector.

use std::ops::Range;
use std::rc::Rc;

use arch::{Arch, Errno, Regs};

use crate::engine::Arena;
use crate::kernel::state::Config;
use crate::kernel::task::{Image, Limits, rlimit};
use crate::kernel::vfs::File;
use crate::loader::auxv::Aux;
use crate::loader::stack::{self, StackError};
use crate::loader::vvar::Vvar;
use crate::loader::{self, Layout, LoadError, elf, vdso};
use crate::mem::mm::{MmId, STACK_GUARD};
use crate::mem::{Area, AreaFlags, Backing, Mm, MmLayout, PAGE, Prot, page_down, page_up};

/// Bytes that the stack area has at first: strings, vectors and some room
/// (`setup_arg_pages` adds 128 KiB).
const STACK_ROOM: u64 = 128 << 10;

/// What is to be put into memory.
#[derive(Debug)]
pub struct Request<'a> {
    /// The file; its contents are open.
    pub file: &'a Rc<File>,
    /// Its path as the program is told.
    pub path: &'a [u8],
    /// Arguments.
    pub args: &'a [Vec<u8>],
    /// Environment.
    pub env: &'a [Vec<u8>],
    /// User and group.
    pub ids: (u32, u32),
    /// Resource limits.
    pub limits: &'a Limits,
    /// Addresses vary with this seed.
    pub aslr: Option<u64>,
    /// `AT_RANDOM`
    pub random: [u8; 16],
    /// The address space's name.
    pub mm: MmId,
}

/// A program that can begin.
#[derive(Debug)]
pub struct Loaded {
    /// Its address space.
    pub mm: Mm,
    /// Its first registers.
    pub regs: Regs,
    /// What `/proc/self` tells of it.
    pub image: Image,
    /// Address of the vDSO's `rt_sigreturn`, 0 if there is none.
    pub vdso_sigreturn: u64,
}

/// Why a program could not be put into memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file is no program that can run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Arguments and environment are too large.
    #[error("arguments: {0}")]
    Arguments(#[from] StackError),
    /// Mappings do not fit.
    #[error("cannot map the program: {0}")]
    Map(#[from] Errno),
    /// Guest memory is exhausted.
    #[error("guest memory is exhausted before the program starts")]
    Memory,
}

/// The architecture of the program in `file`.
///
/// # Errors
///
/// [`LoadError`] if it is none.
pub fn arch_of(file: &File) -> Result<Arch, LoadError> {
    elf::parse(bytes_of(file)).map(|image| image.arch)
}

fn bytes_of(file: &File) -> &[u8] {
    file.object.pristine().map_or(&[][..], |map| map.bytes())
}

/// Puts a program into a new address space.
///
/// # Errors
///
/// [`ImageError`]; what was mapped until then is given back.
pub fn load(
    request: &Request<'_>,
    config: &Config,
    arena: &mut Arena,
) -> Result<Loaded, ImageError> {
    let image = elf::parse(bytes_of(request.file))?;
    let arch = image.arch;
    let limit = |which: usize| request.limits[which].0;
    let options = loader::Options {
        aslr: request.aslr,
        stack_limit: limit(rlimit::STACK),
        vdso_size: config.vdso.image(arch).len() as u64,
    };
    let plan = loader::plan(&image, &options)?;
    let layout = MmLayout {
        mmap_base: plan.mmap_base,
        brk_start: plan.brk,
        stack_top: plan.stack_top,
        stack_limit: limit(rlimit::STACK),
        data_limit: limit(rlimit::DATA),
        address_limit: limit(rlimit::AS),
    };
    let mut mm = Mm::new(request.mm, arch, layout, arena).ok_or(ImageError::Memory)?;
    match fill(&mut mm, arena, request, config, &image, &plan) {
        Ok((sp, told)) => {
            let mut regs = Regs::new(arch);
            regs.pc = plan.entry;
            regs.set_sp(sp);
            let offset = vdso::symbol(arch, vdso::RT_SIGRETURN);
            let vdso_sigreturn = plan.vdso.zip(offset).map_or(0, |(at, offset)| at + offset);
            Ok(Loaded { mm, regs, image: told, vdso_sigreturn })
        }
        Err(error) => {
            mm.release(arena);
            Err(error)
        }
    }
}

/// Maps everything; returns the stack pointer and what `/proc/self` tells.
fn fill(
    mm: &mut Mm,
    arena: &mut Arena,
    request: &Request<'_>,
    config: &Config,
    image: &elf::Image,
    plan: &Layout,
) -> Result<(u64, Image), ImageError> {
    map_segments(mm, arena, request.file, image, plan.bias)?;
    map_vdso(mm, arena, plan, config)?;
    let stack = stack::build(&stack::Input {
        arch: image.arch,
        top: plan.stack_top,
        skew: plan.stack_skew,
        stack_limit: request.limits[rlimit::STACK].0,
        argv: request.args,
        envp: request.env,
        execfn: request.path,
        random: request.random,
        aux: Aux::new(image, plan, request.ids.0, request.ids.1),
    })?;
    let mut told = map_stack(mm, arena, &stack, image.exec_stack)?;
    told.sframe = sframe_of(image, plan.bias);
    Ok((stack.sp, told))
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
fn map_stack(
    mm: &mut Mm,
    arena: &mut Arena,
    stack: &stack::Stack,
    executable: bool,
) -> Result<Image, Errno> {
    let top = mm.layout.stack_top;
    let limit = mm.layout.stack_limit;
    let wanted = page_down(stack.sp.saturating_sub(STACK_ROOM));
    let start = wanted.max(top.saturating_sub(limit.max(STACK_GUARD))).min(page_down(stack.sp));
    mm.insert(Area {
        start,
        end: top,
        prot: Prot { exec: executable, ..Prot::RW },
        flags: AreaFlags { grows_down: true, ..AreaFlags::default() },
        backing: Backing::Anonymous,
        name: "[stack]",
    })?;
    mm.write(arena, stack.sp, &stack.bytes)?;
    // The copies of `execve` belong to the old program's accounts.
    mm.kernel_faults.clear();
    let part = |(from, to): (u64, u64)| {
        let at = |a: u64| a.saturating_sub(stack.sp) as usize;
        stack.bytes.get(at(from)..at(to)).unwrap_or_default().to_vec()
    };
    let auxv = stack.auxv.iter().flat_map(|&(k, v)| [k, v]).flat_map(u64::to_le_bytes).collect();
    let (cmdline, environ) = (part(stack.args), part(stack.env));
    Ok(Image { auxv, cmdline, environ, sframe: None })
}
