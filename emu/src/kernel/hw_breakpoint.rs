//! Hardware breakpoints of `mem:` events in user code.
//!
//! ```text
//! arm: the pages of the task's breakpoints are closed to the CPU ─► page fault of user code
//!   meet: which breakpoints the instruction hits ─┬─ x86_64 data: it is executed, then the trap
//!                                                 ├─ others: the trap, then it is executed
//!                                                 └─ none: it is executed
//! ```
//!
//! To execute it the pages are open for one instruction. So user code that does not touch such
//! a page costs nothing, and a run without breakpoints does not come here. As on the processors,
//! x86_64 traps behind a load or store (`noist_exc_debug`), and before an instruction to be
//! executed; aarch64 traps before all of them (`do_watchpoint`, `do_breakpoint`), executes the
//! instruction alone with the breakpoints off, and traps again (`do_el0_softstep`).
//!
//! What the kernel copies for a program hits them too on x86_64 ([`copied`]). A repeated string
//! instruction hits a breakpoint once, behind its end, where the processor traps after each
//! iteration.

use arch::decode::{self, InsnClass};
use arch::x86_64::regs::RCX;
use arch::{Arch, Regs};

use crate::engine::{Access, Frame, Mmu, Perms};
use crate::kernel::fault::code_at;
use crate::kernel::paths::{self, TrapKind};
use crate::kernel::task::TaskId;
use crate::kernel::{Kernel, Point, State, aarch64, entry};
use crate::mem::{PageTable, page_down};
use crate::perf::attr::AttrError;
use crate::perf::breakpoint::{Breakpoint, Trapped};
use crate::perf::context::Context;
use crate::perf::opened::Target;
use crate::perf::record::EventKind;

/// `EFLAGS.DF`: string instructions go down.
const DIRECTION: u64 = 1 << 10;

/// An instruction that is executed with the breakpoints off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it is.
    pc: u64,
    /// What is hit once it has retired (x86_64).
    then: Option<Hit>,
    /// Its end is an exception, too (aarch64).
    traps: bool,
}

/// Breakpoints that an instruction has hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which exception.
    kind: TrapKind,
    /// What was asked for.
    breakpoints: Vec<Breakpoint>,
}

/// Page tables whose pages are closed to the accesses of breakpoints.
pub struct Watched<'a> {
    /// What is there.
    pub table: &'a mut PageTable,
    /// The breakpoints, as the processor has them.
    pub breakpoints: &'a [Breakpoint],
}

impl Mmu for Watched<'_> {
    fn translate(&mut self, va: u64) -> Option<(Frame, Perms)> {
        let (frame, mut perms) = self.table.translate(va)?;
        for b in self.breakpoints.iter().filter(|b| is_on(b, va)) {
            match b.trapped {
                Trapped::Execute => perms.exec = false,
                Trapped::Write => perms.write = false,
                Trapped::Read | Trapped::ReadWrite => (perms.read, perms.write) = (false, false),
            }
        }
        Some((frame, perms))
    }
}

/// Whether the breakpoint is on the page at `page`. No length goes beyond an aligned doubleword.
const fn is_on(b: &Breakpoint, page: u64) -> bool {
    page_down(b.addr) == page
}

/// Sets the breakpoints for the run of user code that follows: those of the task's events, or
/// none for an instruction that is executed without. Returns that instruction.
pub fn arm(s: &mut State) -> Option<Step> {
    if !s.perf.has_breakpoints {
        return None;
    }
    let (arch, pc) = (s.arch, s.hw_regs().pc);
    // aarch64 executes whatever comes next, be it a handler's first instruction.
    let step = s.task.debug_step.take().filter(|step| step.traps || step.pc == pc);
    let armed = match step {
        Some(_) => Vec::new(),
        None => events(s).filter_map(|b| b.check(arch).ok()).collect(),
    };
    if s.perf.armed != armed {
        s.perf.armed = armed;
        s.core.flush_tlb();
    }
    step
}

/// What the active events of user code ask for.
fn events(s: &State) -> impl Iterator<Item = Breakpoint> {
    s.active(|kind| matches!(kind, EventKind::Breakpoint(_))).into_iter().filter_map(
        |(slot, kind)| match kind {
            EventKind::Breakpoint(b) if !s.event(slot).exclude_user => Some(b),
            _ => None,
        },
    )
}

/// Whether one more fits beside those that are open (`reserve_bp_slot`): those of a task and of
/// each CPU on which it may run, active or not.
///
/// # Errors
///
/// [`AttrError::NoSlot`]
pub fn has_slot(s: &State, wanted: Breakpoint, target: Target) -> Result<(), AttrError> {
    let arch = s.arch;
    let used = |context: &Context| {
        let open = context.instances.iter().filter(|i| !i.switch.gone);
        let kinds = open.map(|i| i.event.kind);
        kinds.filter(|k| matches!(k, EventKind::Breakpoint(b) if wanted.shares(b, arch))).count()
    };
    let of_cpus = |on: Option<u32>| {
        let cpus = s.cpus().filter(|cpu| on.is_none_or(|on| on == cpu.id));
        cpus.map(|cpu| used(&cpu.events)).max().unwrap_or(0)
    };
    let of_tasks = match target {
        Target::Task(id, _) => s.task_of(TaskId(id)).map(|task| used(&task.events)),
        Target::Cpu(_) => s.tasks().map(|task| used(&task.events)).max(),
    };
    let all = of_tasks.unwrap_or(0) + of_cpus(target.cpu());
    if all < Breakpoint::SLOTS { Ok(()) } else { Err(AttrError::NoSlot) }
}

/// The kernel copies to or from user memory. On x86_64 that hits a breakpoint as user code does,
/// with the registers of the copy; aarch64 passes over what its routines for user memory hit
/// (`watchpoint_report`).
pub fn copied(s: &mut State, addr: u64, len: usize, write: bool) {
    if !s.perf.has_breakpoints || s.arch != Arch::X86_64 || len == 0 {
        return;
    }
    let touched = |kind| match kind {
        EventKind::Breakpoint(b) => {
            b.check(Arch::X86_64).is_ok_and(|b| b.touches(addr, len as u64, write))
        }
        _ => false,
    };
    for (slot, _) in s.active(touched) {
        s.hit(slot, None, None);
    }
}

/// The run is over; what is to be told of the instruction that was executed without breakpoints.
pub fn stepped(s: &mut State, step: Step, retired: u64) -> Option<Hit> {
    if retired == 0 {
        s.task.debug_step = Some(step);
        return None;
    }
    let single = Hit { kind: TrapKind::SingleStep, breakpoints: Vec::new() };
    if step.traps { Some(single) } else { step.then }
}

/// Whether a fault of user code on `page` is because of breakpoints. Then the instruction goes
/// on without; what has to be told before, if anything.
pub fn meet(s: &mut State, page: u64, access: Access) -> Option<Option<Hit>> {
    let is_closed = s.perf.armed.iter().any(|b| is_on(b, page));
    if !is_closed || !s.mm.table.get(page).is_some_and(|pte| pte.perms.allow(access)) {
        return None;
    }
    let regs = s.hw_regs();
    let breakpoints = match access {
        Access::Fetch => executed(s, &regs),
        Access::Read | Access::Write => accessed(s, &regs),
    };
    let kind = match access {
        Access::Fetch => TrapKind::HardwareBreakpoint,
        Access::Read | Access::Write => TrapKind::Watchpoint,
    };
    let hit = (!breakpoints.is_empty()).then_some(Hit { kind, breakpoints });
    let behind = s.arch == Arch::X86_64 && access != Access::Fetch;
    let (before, then) = if behind { (None, hit) } else { (hit, None) };
    let traps = s.arch == Arch::Aarch64 && before.is_some();
    s.task.debug_step = Some(Step { pc: regs.pc, then, traps });
    Some(before)
}

/// Breakpoints at the instruction.
fn executed(s: &State, regs: &Regs) -> Vec<Breakpoint> {
    let at = |b: &Breakpoint| {
        b.trapped == Trapped::Execute && b.check(s.arch).is_ok_and(|b| b.addr == regs.pc)
    };
    events(s).filter(at).collect()
}

/// Breakpoints on what the instruction loads and stores.
fn accessed(s: &State, regs: &Regs) -> Vec<Breakpoint> {
    let operands = operands(s, regs);
    let touches = |b: &Breakpoint| {
        let Ok(b) = b.check(s.arch) else { return false };
        operands.iter().any(|&(addr, len, write)| b.touches(addr, len, write))
    };
    events(s).filter(touches).collect()
}

/// Address, length, and whether it is stored, of each operand in memory. What is changed is
/// loaded, too.
fn operands(s: &State, regs: &Regs) -> Vec<(u64, u64, bool)> {
    let code = code_at(s, regs.pc);
    let repeats = decode::insn(s.arch, &code).is_some_and(|i| i.class == InsnClass::Rep);
    let operands = decode::memory_operands(s.arch, &code, regs).into_iter();
    let whole = |operand: decode::Access| {
        let size = u64::from(operand.size.max(1));
        let addr = match s.arch {
            Arch::X86_64 => operand.addr,
            Arch::Aarch64 => aarch64::traps::untagged(operand.addr),
        };
        if !repeats {
            return (addr, size, operand.write);
        }
        let len = regs.gp[RCX].saturating_mul(size);
        let start = match regs.flags & DIRECTION {
            0 => addr,
            _ => addr.saturating_sub(len - size),
        };
        (start, len, operand.write)
    };
    operands.map(whole).collect()
}

/// The exception: the events are counted with the registers at it.
pub async fn handle(k: &Kernel, hit: Hit) {
    let path = (paths::of(k.arch()).trap)(hit.kind);
    entry::begin(k, &path).await;
    k.step(Point::BreakpointHit, |s| {
        let regs = s.user_regs();
        let is_hit =
            |kind| matches!(kind, EventKind::Breakpoint(b) if hit.breakpoints.contains(&b));
        for (slot, _) in s.active(is_hit) {
            s.hit(slot, Some(&regs), None);
        }
    })
    .await;
    entry::enable(k, &path).await;
    entry::finish(k, &path).await;
}
