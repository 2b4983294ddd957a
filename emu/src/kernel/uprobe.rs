//! User probes: breakpoints in a program's code.
//!
//! ```text
//! int3, brk ─► exc_int3: TIF_UPROBE ─► exit loop, X2.iii: registers at the probed instruction,
//!              the handlers: a sample ─► the instruction: emulated, or executed alone
//! ```
//!
//! While the handlers run the walk of x86_64 knows that the instruction is a function's first
//! (`push %rbp`, `endbr64`) and that its caller is still at the stack pointer. A deferred walk
//! comes later: `push` has been emulated by then, and the caller is missing (measured).
//!
//! Linux executes most instructions out of line, in a page of its own, and traps behind them.
//! Here they are executed in place, alone, while the breakpoint is away: a stack that is
//! captured meanwhile has the instruction's own address where Linux shows that of the page.
//! What Linux emulates is emulated: `uprobes` of each architecture.
//!
//! A probe belongs to a file: a program that `execve` begins has those of its own file.

use arch::{Arch, Regs};

use crate::engine::Exception;
use crate::engine::flow::{Event, Transfer};
use crate::kernel::paths::{self, TrapKind};
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, aarch64, entry, uretprobe, x86_64};
use crate::mem::{Backing, Uprobe};
use crate::perf::record::{EventKind, Raw};
use crate::perf::session::ProbePlace;

/// `int3`
const INT3: [u8; 1] = [0xcc];
/// `brk #5`
const BRK: [u8; 4] = 0xd420_00a0u32.to_le_bytes();

/// The instruction that is put into code.
pub const fn breakpoint(arch: Arch) -> &'static [u8] {
    match arch {
        Arch::X86_64 => &INT3,
        Arch::Aarch64 => &BRK,
    }
}

/// Probes the instruction at `addr` of the present address space, or the return of the function
/// that begins there; the number of the place. `None`: no file's code is there.
pub fn place(s: &mut State, addr: u64, returns: bool) -> Option<u16> {
    let aligned = s.arch == Arch::X86_64 || addr.is_multiple_of(4);
    let area = s.mm.area(addr).filter(|area| aligned && area.prot.exec)?;
    let Backing::File { object, .. } = &area.backing else { return None };
    let (inode, offset) = (object.inode(), area.offset_of(addr));
    let is_there = |p: &ProbePlace| p.inode == inode && p.offset == offset;
    let number = match s.perf.uprobes.iter().position(is_there) {
        Some(number) => u16::try_from(number).ok()?,
        None => {
            let number = u16::try_from(s.perf.uprobes.len()).ok()?;
            install(s, addr, number)?;
            s.perf.uprobes.push(ProbePlace { inode, offset, returns });
            number
        }
    };
    s.perf.uprobes[usize::from(number)].returns |= returns;
    Some(number)
}

/// Puts a breakpoint at each place of the present address space's files (`uprobe_mmap`).
pub fn install_all(s: &mut State) {
    let mut found = Vec::new();
    for (number, place) in s.perf.uprobes.iter().enumerate() {
        for area in s.mm.areas().filter(|area| area.prot.exec) {
            let Backing::File { object, offset } = &area.backing else { continue };
            let within = place.offset.checked_sub(*offset).filter(|at| *at < area.len());
            if let Some(at) = within.filter(|_| object.inode() == place.inode) {
                found.push((area.start + at, number as u16));
            }
        }
    }
    for (addr, number) in found {
        install(s, addr, number);
    }
}

/// Puts a breakpoint at `addr`. `None`: it cannot be written there.
fn install(s: &mut State, addr: u64, place: u16) -> Option<()> {
    let mut code = [0; 16];
    // As many as there are before the next page.
    let len = (crate::mem::PAGE - addr % crate::mem::PAGE).min(16) as usize;
    s.read_user(addr, &mut code[..len]).ok()?;
    s.mm.kernel_faults.clear();
    s.mm.poke(&mut s.arena, addr, breakpoint(s.arch))?;
    s.mm.uprobes.push(Uprobe { addr, code, place });
    Some(())
}

/// The probe that an exception of user code comes from.
pub fn hit(s: &State, exception: Exception) -> Option<u64> {
    if exception != Exception::Breakpoint || s.perf.uprobes.is_empty() {
        return None;
    }
    let pc = s.hw_regs().pc;
    let addr = match s.arch {
        Arch::X86_64 => pc.wrapping_sub(INT3.len() as u64),
        Arch::Aarch64 => pc,
    };
    let is_ours = s.mm.trampoline == Some(addr) || probe_at(s, addr).is_some();
    is_ours.then_some(addr)
}

/// The probe at an address of the present address space.
fn probe_at(s: &State, addr: u64) -> Option<&Uprobe> {
    s.mm.uprobes.iter().find(|probe| probe.addr == addr)
}

/// The task is at the probed instruction that it is to execute: the breakpoint is away.
pub fn begin_step_over(s: &mut State) -> Option<u64> {
    let addr = s.task.step_over.filter(|&addr| s.hw_regs().pc == addr)?;
    let probe = probe_at(s, addr)?;
    let code = probe.code;
    let len = breakpoint(s.arch).len();
    s.mm.poke(&mut s.arena, addr, &code[..len]).map(|_| addr)
}

/// The breakpoint is back; `done`: the instruction has retired.
pub fn end_step_over(s: &mut State, addr: u64, done: bool) {
    s.mm.poke(&mut s.arena, addr, breakpoint(s.arch));
    if done {
        s.task.step_over = None;
    }
}

/// The exception: the exit loop will call the handlers.
pub async fn handle(k: &Kernel, addr: u64) {
    let path = (paths::of(k.arch()).trap)(TrapKind::Breakpoint);
    entry::begin(k, &path).await;
    entry::enable(k, &path).await;
    k.step(Point::UprobeTrap, |s| {
        s.task.work.uprobe = true;
        s.task.uprobe = Some(addr);
    })
    .await;
    entry::finish(k, &path).await;
}

/// X2.iii: the handlers, then the instruction.
pub async fn notify_resume(k: &Kernel) {
    k.call(Named::UprobeNotifyResume.into()).await;
    if k.step(Point::UprobeLook, at_trampoline).await {
        uretprobe::handle_trampoline(k).await;
        return k.ret().await;
    }
    k.call(Named::UprobeDispatcher.into()).await;
    k.step(Point::UprobeHandler, call_handlers).await;
    k.ret().await;
    k.step(Point::UprobeSkip, |s| {
        s.task.at_entry = false;
        if let Some(addr) = s.task.uprobe.take()
            && !emulate(s, addr)
        {
            s.task.step_over = Some(addr);
        }
    })
    .await;
    k.ret().await;
}

/// Whether the breakpoint is the trampoline's: then it is taken.
fn at_trampoline(s: &mut State) -> bool {
    let is = s.task.uprobe.is_some() && s.task.uprobe == s.mm.trampoline;
    if is {
        s.task.uprobe = None;
    }
    is
}

fn call_handlers(s: &mut State) {
    let Some(addr) = s.task.uprobe else { return };
    let Some(&Uprobe { code, place, .. }) = probe_at(s, addr) else { return };
    let mut regs = s.user_regs();
    regs.pc = addr;
    s.set_user_regs(&regs);
    s.task.at_entry = is_function_start(s.arch, &code);
    let kind = EventKind::Uprobe(place);
    for (slot, _) in s.active(|k| k == kind) {
        s.hit(slot, Some(&regs), Some(Raw::Probe { kind, ip: addr }));
    }
    if s.perf.uprobes.get(usize::from(place)).is_some_and(|place| place.returns) {
        uretprobe::prepare(s, place);
    }
}

/// `push %rbp` or `endbr64`.
fn is_function_start(arch: Arch, code: &[u8; 16]) -> bool {
    arch == Arch::X86_64 && (code[0] == 0x55 || code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]))
}

/// What the kernel executed for a program. `next`: the address after the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// It goes on where the registers say, and nothing was called or left.
    Step,
    /// A jump.
    Jump {
        /// See above.
        next: u64,
        /// To an address in a register.
        indirect: bool,
    },
    /// A call.
    Call {
        /// See above.
        next: u64,
    },
    /// A return.
    Return {
        /// See above.
        next: u64,
    },
}

/// `arch_uprobe_skip_sstep`: whether the instruction is done with.
fn emulate(s: &mut State, addr: u64) -> bool {
    let Some(probe) = probe_at(s, addr) else { return true };
    let code = probe.code;
    let mut regs = s.user_regs();
    if regs.pc != addr {
        return true;
    }
    let simulated = match s.arch {
        Arch::X86_64 => x86_64::uprobes::simulate(s, &code, &mut regs),
        Arch::Aarch64 => aarch64::uprobes::simulate(s, &code, &mut regs),
    };
    let Some(simulated) = simulated else { return false };
    s.set_user_regs(&regs);
    tell(s, &regs, simulated);
    true
}

/// Who follows calls and returns has not seen this one.
fn tell(s: &mut State, regs: &Regs, simulated: Simulated) {
    let (kind, next, direct) = match simulated {
        Simulated::Step => return,
        Simulated::Jump { next, indirect } => (Transfer::Jump, next, !indirect),
        Simulated::Call { next } => (Transfer::Call, next, false),
        Simulated::Return { next } => (Transfer::Return, next, false),
    };
    let sp_was_set = s.task.hw.is_none() && s.core.sp_was_set();
    if let Some(observer) = &mut s.observer {
        observer.about(s.task.id);
        observer.transferred(&Event { kind, next, to: regs.pc, sp: regs.sp(), sp_was_set }, direct);
    }
}
