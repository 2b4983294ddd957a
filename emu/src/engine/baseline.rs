//! The yardstick of `make bench`: the engine with next to nothing around it.
//!
//! A program's segments, a break, a stack and a handful of system calls answered in the
//! hook. No page tables beyond a list of ranges, no counting, no kernel. It is what a
//! first version on unicorn looks like, and what the real thing is compared with.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use arch::{Arch, Regs};
use unicorn_engine_sys as uc;
use unicorn_engine_sys::HookType;

use crate::engine::arena::FRAME_SIZE;
use crate::engine::unicorn::Handle;
use crate::engine::{Arena, EngineError, Perms, aarch64, x86_64};

/// A loaded piece of a program.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes in memory.
    pub len: u64,
    /// Contents of the beginning; the rest is zero.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub perms: Perms,
}

/// How the engine translates addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// unicorn's own memory map, its default.
    Default,
    /// A TLB-fill hook.
    Virtual,
}

/// State of a bare run.
struct Bare {
    arch: Arch,
    raw: *mut uc::uc_engine,
    /// (start, end, physical address of start, permissions)
    ranges: Vec<(u64, u64, u64, u32)>,
    brk: u64,
    mmap: u64,
    status: Option<u64>,
    syscalls: u64,
}

/// Room for the break and for mappings, in bytes.
const HEAP: u64 = 1 << 30;
const STACK: u64 = 8 << 20;
/// Below 2^44: with the MMU off, as in the default mode, aarch64's virtual addresses are
/// physical ones, which have that many bits.
const MMAP_AT: u64 = 0x0700_0000_0000;
const STACK_AT: u64 = 0x07ff_0000_0000;

/// Runs a program to its end; returns its exit status and its system calls.
pub fn run(
    arch: Arch,
    translation: Translation,
    pieces: &[Piece],
    entry: u64,
    stack: impl FnOnce(u64) -> (Vec<u8>, u64),
) -> Result<(u64, u64), EngineError> {
    let mut arena = Arena::new()?;
    let mut handle = Handle::open_with(arch, translation == Translation::Virtual)?;
    let mut bare = Box::new(Bare {
        arch,
        raw: handle.raw(),
        ranges: Vec::new(),
        brk: 0,
        mmap: MMAP_AT,
        status: None,
        syscalls: 0,
    });
    let mut physical = 0;
    let page = FRAME_SIZE - 1;
    let mut add = |start: u64, end: u64, perms: u32, bytes: &[u8], at: u64| {
        let base = start & !page;
        let len = ((end + page) & !page) - base;
        let to = physical + (at - base);
        arena.poke(to, bytes);
        bare.ranges.push((base, base + len, physical, perms));
        physical += len;
    };
    let mut top = 0;
    for piece in pieces {
        let perms = u32::from(piece.perms.read)
            | u32::from(piece.perms.write) << 1
            | u32::from(piece.perms.exec) << 2;
        add(piece.addr, piece.addr + piece.len, perms, &piece.bytes, piece.addr);
        top = top.max((piece.addr + piece.len + page) & !page);
    }
    add(top, top + HEAP, 3, &[], top);
    add(MMAP_AT, MMAP_AT + HEAP, 3, &[], MMAP_AT);
    let (words, sp) = stack(STACK_AT + STACK);
    add(STACK_AT, STACK_AT + STACK, 3, &words, sp);
    bare.brk = top;
    install(&mut handle, &mut arena, &mut bare, translation)?;
    let mut regs = Regs::new(arch);
    regs.pc = entry;
    regs.set_sp(sp);
    match arch {
        Arch::X86_64 => {
            x86_64::regs::write(&mut handle, None, &regs);
            x86_64::enable_sse(&mut handle);
        }
        Arch::Aarch64 => {
            aarch64::setup(&mut handle)?;
            aarch64::regs::write(&mut handle, None, &regs);
        }
    }
    let error = handle.start(entry, 0);
    let status = bare.status.ok_or(EngineError::Stray { pc: 0, detail: error.to_string() })?;
    Ok((status, bare.syscalls))
}

fn install(
    handle: &mut Handle,
    arena: &mut Arena,
    bare: &mut Bare,
    translation: Translation,
) -> Result<(), EngineError> {
    let data = (&raw mut *bare).cast::<c_void>();
    // SAFETY: the callbacks have the signatures of their kinds; `bare` is boxed by the
    // caller and outlives the handle's last use.
    unsafe {
        match translation {
            Translation::Virtual => {
                handle.map_arena(arena)?;
                handle.hook(HookType::TLB_FILL, on_fill as *mut c_void, data, None)?;
            }
            Translation::Default => {
                for &(start, end, physical, perms) in &bare.ranges {
                    handle.map_part(arena, start, physical, end - start, perms)?;
                }
            }
        }
        let id = Some(uc::X86Insn::SYSCALL as c_int);
        match bare.arch {
            Arch::X86_64 => handle.hook(HookType::INSN, on_syscall as *mut c_void, data, id),
            Arch::Aarch64 => handle.hook(HookType::INTR, on_svc as *mut c_void, data, None),
        }
    }
}

unsafe extern "C" fn on_fill(
    _raw: *mut uc::uc_engine,
    va: u64,
    _kind: uc::MemType,
    out: *mut uc::TlbEntry,
    data: *mut c_void,
) -> bool {
    // SAFETY: `data` is the `Bare` of this run, which only hooks touch now.
    let bare = unsafe { &*data.cast::<Bare>() };
    for &(start, end, physical, perms) in &bare.ranges {
        if (start..end).contains(&va) {
            // SAFETY: the engine's place for the answer.
            unsafe {
                *out = uc::TlbEntry { paddr: physical + (va - start), perms: uc::Prot(perms) };
            }
            return true;
        }
    }
    false
}

unsafe extern "C" fn on_svc(raw: *mut uc::uc_engine, number: u32, data: *mut c_void) {
    const SVC: u32 = 2;
    // SAFETY: as in `on_fill`.
    unsafe {
        if number == SVC {
            on_syscall(raw, data);
        } else {
            // Any other exception would be raised again for ever.
            (*data.cast::<Bare>()).status = Some(0x80 + u64::from(number));
            uc::uc_emu_stop(raw);
        }
    }
}

unsafe extern "C" fn on_syscall(raw: *mut uc::uc_engine, data: *mut c_void) {
    // SAFETY: as in `on_fill`; registers may be accessed inside this hook.
    unsafe {
        let bare = &mut *data.cast::<Bare>();
        bare.syscalls += 1;
        let (nr, args, result) = registers(bare.arch);
        let get = |register: c_int| {
            let mut value = 0u64;
            uc::uc_reg_read(bare.raw, register, (&raw mut value).cast());
            value
        };
        let a = args.map(get);
        let value = answer(bare, get(nr), a);
        uc::uc_reg_write(raw, result, (&raw const value).cast());
        if bare.status.is_some() {
            uc::uc_emu_stop(raw);
        }
    }
}

/// Number, first three arguments, result.
fn registers(arch: Arch) -> (c_int, [c_int; 3], c_int) {
    use uc::{RegisterARM64 as A, RegisterX86 as X};
    match arch {
        Arch::X86_64 => {
            (X::RAX as c_int, [X::RDI as c_int, X::RSI as c_int, X::RDX as c_int], X::RAX as c_int)
        }
        Arch::Aarch64 => {
            (A::X8 as c_int, [A::X0 as c_int, A::X1 as c_int, A::X2 as c_int], A::X0 as c_int)
        }
    }
}

/// A 64-bit word of guest memory; 0 if it cannot be read.
fn word(bare: &Bare, addr: u64) -> u64 {
    let mut bytes = [0; 8];
    let read = uc::Prot::READ;
    // SAFETY: the engine is stopped in a hook; the buffer is 8 bytes long.
    unsafe { uc::uc_vmem_read(bare.raw, addr, read, bytes.as_mut_ptr().cast(), 8) };
    u64::from_le_bytes(bytes)
}

/// The few system calls that a benchmark makes; the rest succeed with 0 or -ENOSYS.
fn answer(bare: &mut Bare, nr: u64, a: [u64; 3]) -> u64 {
    use arch::syscalls::Sysno;
    let Some(sysno) = Sysno::from_nr(bare.arch, nr) else { return -38i64 as u64 };
    match sysno {
        Sysno::Brk => {
            if a[0] != 0 {
                bare.brk = a[0];
            }
            bare.brk
        }
        Sysno::Mmap => {
            let at = bare.mmap;
            bare.mmap += (a[1] + FRAME_SIZE - 1) & !(FRAME_SIZE - 1);
            at
        }
        Sysno::ArchPrctl => {
            let value = a[1];
            // SAFETY: FS_BASE is a 64-bit register.
            unsafe {
                let register = uc::RegisterX86::FS_BASE as c_int;
                uc::uc_reg_write(bare.raw, register, (&raw const value).cast());
            }
            0
        }
        Sysno::Write => a[2],
        Sysno::Writev => (0..a[2]).map(|i| word(bare, a[1] + 16 * i + 8)).sum(),
        Sysno::Exit | Sysno::ExitGroup => {
            bare.status = Some(a[0] & 0xff);
            0
        }
        Sysno::SetTidAddress | Sysno::Getpid | Sysno::Gettid | Sysno::Getppid => 1000,
        Sysno::Ioctl => -25i64 as u64,
        _ => 0,
    }
}
