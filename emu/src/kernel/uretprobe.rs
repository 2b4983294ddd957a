//! User probes of a function's return.
//!
//! ```text
//! entry: breakpoint ─► the return address (x86_64: on the stack, aarch64: in LR) becomes the
//!                      trampoline's; the true one is kept with the task, newest last
//! ret ─► trampoline: breakpoint ─► pc = the true one ─► the handlers: a sample
//! ```
//!
//! The trampoline is a breakpoint in a page that is mapped for it (`[uprobes]`). As in
//! `kernel/events/uprobes.c`:
//!
//! * `longjmp` past probed functions leaves their entries behind. The next call below them, or
//!   the next return above them, shows that they are dead.
//! * A probed function that tail-calls a probed one: the second finds the trampoline as its
//!   return address. Its entry is chained, and one return hits both.
//! * `fork` copies the entries, with the page; a thread begins with none; `execve` drops them.
//! * The immediate walk puts the true addresses back ([`State::fix_up`]); the deferred one, and
//!   whoever reads the stack, sees the trampoline's.

use arch::siginfo::SigInfo;
use arch::signal::Signal;
use arch::{Arch, Regs};

use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State, signal, uprobe};
use crate::mem::{Area, AreaFlags, Backing, PAGE, Prot};
use crate::perf::record::{EventKind, Raw};

/// `MAX_URETPROBE_DEPTH`
const DEEPEST: usize = 64;

/// A return that is awaited (`struct return_instance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReturnInstance {
    /// The probe, by the number of its place.
    pub place: u16,
    /// First instruction of the function, or wherever the probe is.
    pub function: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Where it returns to.
    pub to: u64,
    /// The trampoline was its return address already: it returns with the one before it.
    pub chained: bool,
}

impl ReturnInstance {
    /// `arch_uretprobe_is_alive`: whether a stack pointer says that it has not returned yet. At
    /// the call of another function x86_64 has pushed a return address below it.
    const fn is_alive(&self, arch: Arch, sp: u64, at: Look) -> bool {
        match (arch, at) {
            (Arch::X86_64, Look::Call) | (Arch::Aarch64, Look::Call | Look::Return) => sp < self.sp,
            (_, Look::ChainedCall) | (Arch::X86_64, Look::Return) => sp <= self.sp,
        }
    }
}

/// When it is looked at (`enum rp_check`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Call,
    ChainedCall,
    Return,
}

/// A function with a return probe begins, its registers are the user's (`prepare_uretprobe`).
pub fn prepare(s: &mut State, place: u16) {
    let Some(trampoline) = map_trampoline(s) else { return };
    if s.task.returns.len() >= DEEPEST {
        return;
    }
    let mut regs = s.user_regs();
    let Some(mut to) = hijack(s, &mut regs, trampoline) else { return };
    let chained = to == trampoline;
    let look = if chained { Look::ChainedCall } else { Look::Call };
    let (arch, sp) = (s.arch, regs.sp());
    while s.task.returns.last().is_some_and(|r| !r.is_alive(arch, sp, look)) {
        s.task.returns.pop();
    }
    if chained {
        // A jump to a function from nowhere that was probed.
        let Some(last) = s.task.returns.last() else { return };
        to = last.to;
    }
    s.task.returns.push(ReturnInstance { place, function: regs.pc, sp, to, chained });
}

/// Puts the trampoline's address in place of the return address, which it returns; `None` if
/// the stack cannot be read or written.
fn hijack(s: &mut State, regs: &mut Regs, trampoline: u64) -> Option<u64> {
    match s.arch {
        Arch::X86_64 => {
            let sp = regs.sp();
            let to = s.read_u64(sp).ok()?;
            if to == trampoline {
                return Some(to);
            }
            if s.write_user(sp, &trampoline.to_le_bytes()).is_err() {
                signal::force_again(s, SigInfo::kernel(Signal::SIGSEGV));
                return None;
            }
            Some(to)
        }
        Arch::Aarch64 => {
            let to = std::mem::replace(&mut regs.gp[arch::aarch64::regs::LR], trampoline);
            s.set_user_regs(regs);
            Some(to)
        }
    }
}

/// The page of the trampoline, mapped at the first return probe that is hit: at the end of the
/// address space, or where there is room (`xol_add_vma`).
fn map_trampoline(s: &mut State) -> Option<u64> {
    if s.mm.trampoline.is_some() {
        return s.mm.trampoline;
    }
    let last = s.arch.task_size() - PAGE;
    let start = match s.mm.occupied(last, last + PAGE) {
        true => s.mm.find_gap(PAGE).ok()?,
        false => last,
    };
    let frame = s.arena.alloc()?;
    let code = uprobe::breakpoint(s.arch);
    s.arena.bytes_mut(frame)[..code.len()].copy_from_slice(code);
    let area = Area {
        start,
        end: start + PAGE,
        prot: Prot { exec: true, ..Prot::NONE },
        flags: AreaFlags { dont_copy: true, read_only: true, ..AreaFlags::default() },
        backing: Backing::Special { frames: [frame].into(), first: 0 },
        name: "[uprobes]",
    };
    s.mm.insert(area).ok()?;
    s.mm.trampoline = Some(start);
    s.record_mapping(start);
    Some(start)
}

/// The trampoline was hit: the user's registers become those behind the return, the handlers
/// are called (`uprobe_handle_trampoline`).
pub async fn handle_trampoline(k: &Kernel) {
    k.call(Named::UretprobeDispatcher.into()).await;
    k.step(Point::UprobeReturn, |s| {
        let mut returned = Vec::new();
        loop {
            let Some(chain) = take_chain(s) else {
                return signal::force_again(s, SigInfo::kernel(Signal::SIGILL));
            };
            let sp = s.user_regs().sp();
            // Those that `longjmp` went past have not returned, nor has anybody who was called
            // by them.
            let arch = s.arch;
            let next = s.task.returns.iter().rfind(|r| !r.chained);
            let valid = next.is_none_or(|next| next.is_alive(arch, sp, Look::Return));
            if valid {
                returned.extend(chain);
                break;
            }
        }
        call_handlers(s, &returned);
    })
    .await;
    k.ret().await;
}

/// The newest entries up to the first that is not chained.
fn take_chain(s: &mut State) -> Option<Vec<ReturnInstance>> {
    let first = s.task.returns.iter().rposition(|r| !r.chained)?;
    Some(s.task.returns.split_off(first))
}

fn call_handlers(s: &mut State, returned: &[ReturnInstance]) {
    let Some(first) = returned.first() else { return };
    let mut regs = s.user_regs();
    regs.pc = first.to;
    s.set_user_regs(&regs);
    if let Some(observer) = &mut s.observer {
        observer.about(s.task.id);
        observer.returned(first.to);
    }
    for instance in returned.iter().rev() {
        let kind = EventKind::Uretprobe(instance.place);
        for (slot, _) in s.active(|k| k == kind) {
            let raw = Raw::Return { kind, function: instance.function, to: instance.to };
            s.hit(slot, Some(&regs), Some(raw));
        }
    }
}

impl State {
    /// Puts true return addresses in the place of the trampoline's in the user part of a
    /// callchain (`fixup_uretprobe_trampoline_entries`).
    pub fn fix_up(&self, user: &mut [u64]) {
        let Some(trampoline) = self.mm.trampoline else { return };
        let mut words = user.iter_mut();
        for instance in self.task.returns.iter().rev() {
            let Some(word) = words.find(|word| **word == trampoline) else { return };
            *word = instance.to;
        }
    }

    /// What a child with a copy of the address space `mm` gets: the page, if it has entries.
    pub fn copy_trampoline(&self, child: &mut crate::mem::Mm) {
        let page = self.mm.trampoline.and_then(|start| self.mm.area(start));
        if let Some(page) = page.filter(|_| !self.task.returns.is_empty())
            && child.insert(page.clone()).is_ok()
        {
            child.trampoline = Some(page.start);
        }
    }
}
