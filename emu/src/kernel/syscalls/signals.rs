//! Signal actions, masks, sending to oneself, returning from a handler.

use arch::sigaction::{AltStack, SigAction};
use arch::siginfo::{self, SigInfo};
use arch::signal::{code, ss};
use arch::{Arch, Errno, Regs, SigSet, Signal, Sysno, sigframe};
use unwinder::Memory;

use super::{Outcome, SysResult};
use crate::kernel::signal::Target;
use crate::kernel::task::{Task, TaskId};
use crate::kernel::wait::{Block, Wait, restart};
use crate::kernel::{State, signal};

const SIG_BLOCK: u64 = 0;
const SIG_UNBLOCK: u64 = 1;
const SIG_SETMASK: u64 = 2;
/// `sizeof(sigset_t)`
const SET_SIZE: u64 = 8;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    let pid = a[0] as i32;
    Some(match sysno {
        Sysno::RtSigaction => rt_sigaction(s, a),
        Sysno::RtSigprocmask => rt_sigprocmask(s, a),
        Sysno::RtSigpending => rt_sigpending(s, a),
        Sysno::RtSigsuspend => rt_sigsuspend(s, a),
        Sysno::Pause => wait_for_signal(s),
        Sysno::RtSigtimedwait => rt_sigtimedwait(s, a),
        Sysno::Sigaltstack => sigaltstack(s, a),
        Sysno::Kill => kill(s, pid, a[1]),
        Sysno::Tkill => send_to_thread(s, None, pid, a[1]),
        Sysno::Tgkill => send_to_thread(s, Some(pid), a[1] as i32, a[2]),
        Sysno::RtSigqueueinfo => queue(s, Target::Process, pid, a[1], a[2]),
        Sysno::RtTgsigqueueinfo => queue(s, Target::Thread, a[1] as i32, a[2], a[3]),
        _ => return None,
    })
}

fn rt_sigaction(s: &mut State, a: [u64; 6]) -> SysResult {
    let [number, new, old, size, ..] = a;
    if size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let signal = Signal::new(number).ok_or(Errno::EINVAL)?;
    let action = match new {
        0 => None,
        at => Some(SigAction::from_bytes(&s.read_array(at)?)),
    };
    if action.is_some() && signal.is_unstoppable() {
        return Err(Errno::EINVAL);
    }
    let present = s.task.signals.action(signal);
    if old != 0 {
        s.write_user(old, &present.to_bytes())?;
    }
    if let Some(mut action) = action {
        action.mask = action.mask.blockable();
        s.task.signals.set_action(signal, action);
        signal::settle(s);
    }
    Ok(0)
}

fn rt_sigprocmask(s: &mut State, a: [u64; 6]) -> SysResult {
    let [how, new, old, size, ..] = a;
    if size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let present = s.task.signals.blocked;
    if new != 0 {
        let set = SigSet(s.read_u64(new)?);
        let blocked = match how {
            SIG_BLOCK => present.union(set),
            SIG_UNBLOCK => present.minus(set),
            SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        s.task.signals.blocked = blocked.blockable();
        signal::settle(s);
    }
    if old != 0 {
        s.write_user(old, &present.0.to_le_bytes())?;
    }
    Ok(0)
}

fn rt_sigpending(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[1] > SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let set = s.task.signals.pending_set().0 & s.task.signals.blocked.0;
    s.write_user(a[0], &set.to_le_bytes()[..a[1] as usize])?;
    Ok(0)
}

fn rt_sigsuspend(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[1] != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let mask = SigSet(s.read_u64(a[0])?).blockable();
    let old = std::mem::replace(&mut s.task.signals.blocked, mask);
    s.task.signals.saved_mask = Some(old);
    signal::settle(s);
    wait_for_signal(s)
}

/// Waits for a signal that has a handler.
fn wait_for_signal(s: &mut State) -> SysResult {
    let interrupted = restart::NO_HANDLER;
    s.wait_for(Block { interrupted, ..Block::on(Wait::Time) });
    Ok(0)
}

fn rt_sigtimedwait(s: &mut State, a: [u64; 6]) -> SysResult {
    let [set, info, timeout, size, ..] = a;
    if size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let set = SigSet(s.read_u64(set)?);
    let wait = match timeout {
        0 => None,
        at => Some(s.read_timespec(at)?),
    };
    if let Some(found) = s.task.signals.take(set) {
        signal::settle(s);
        if info != 0 {
            s.write_user(info, &found.to_bytes())?;
        }
        return Ok(u64::from(found.signal.number()));
    }
    if wait == Some(0) {
        return Err(Errno::EAGAIN);
    }
    let until = wait.map(|span| s.call_deadline(span));
    let interrupted = Errno::EINTR.to_ret();
    s.wait_for(Block { interrupted, ..Block::on(Wait::Signal).until(until, Errno::EAGAIN) });
    Ok(0)
}

fn sigaltstack(s: &mut State, a: [u64; 6]) -> SysResult {
    let sp = s.user_regs().sp();
    let minimum = match s.arch {
        Arch::X86_64 => ss::MINSIGSTKSZ_X86_64,
        Arch::Aarch64 => ss::MINSIGSTKSZ_AARCH64,
    };
    let present = s.task.signals.altstack;
    if a[0] != 0 {
        let new = AltStack::from_bytes(&s.read_array(a[0])?);
        s.task.signals.altstack = present.replace(&new, sp, minimum)?;
    }
    if a[1] != 0 {
        s.write_user(a[1], &present.reported(sp).to_bytes())?;
    }
    Ok(0)
}

/// The signal of a sending call; `None` for 0, which only checks.
fn number(value: u64) -> Result<Option<Signal>, Errno> {
    match value as u32 {
        0 => Ok(None),
        n => Signal::new(u64::from(n)).map(Some).ok_or(Errno::EINVAL),
    }
}

fn kill(s: &mut State, pid: i32, value: u64) -> SysResult {
    let signal = number(value)?;
    let own = s.task.pid;
    let group = s.task.process.borrow().group;
    let wanted = |t: &Task| match pid {
        -1 => t.pid != own,
        0 => t.process.borrow().group == group,
        pid if pid > 0 => t.pid == pid as u32,
        group => t.process.borrow().group == group.unsigned_abs(),
    };
    // One thread of each process: the first.
    let mut found: Vec<(u32, TaskId)> = Vec::new();
    for task in s.tasks().filter(|t| !t.dead && t.kernel_thread.is_none() && wanted(t)) {
        if !found.iter().any(|(pid, _)| *pid == task.pid) {
            found.push((task.pid, task.id));
        }
    }
    if found.is_empty() {
        let zombie = pid > 0 && s.zombies.contains_key(&(pid as u32));
        return if zombie { Ok(0) } else { Err(Errno::ESRCH) };
    }
    let Some(signal) = signal else { return Ok(0) };
    let info = SigInfo::sent(signal, code::SI_USER, own as i32, s.task.uid);
    for (_, id) in found {
        signal::send_to(s, id, info, Target::Process);
    }
    Ok(0)
}

/// The thread `tid`, of process `group` if that is given.
fn thread(s: &State, group: Option<i32>, tid: i32) -> Result<TaskId, Errno> {
    if tid <= 0 || group.is_some_and(|g| g <= 0) {
        return Err(Errno::EINVAL);
    }
    let id = s.find_tid(tid as u32).ok_or(Errno::ESRCH)?;
    let pid = s.task_of(id).map_or(0, |t| t.pid);
    if group.is_some_and(|g| g as u32 != pid) { Err(Errno::ESRCH) } else { Ok(id) }
}

fn send_to_thread(s: &mut State, group: Option<i32>, tid: i32, value: u64) -> SysResult {
    if tid <= 0 || group.is_some_and(|g| g <= 0) {
        return Err(Errno::EINVAL);
    }
    let signal = number(value)?;
    let id = thread(s, group, tid)?;
    if let Some(signal) = signal {
        let info = SigInfo::sent(signal, code::SI_TKILL, s.task.pid as i32, s.task.uid);
        signal::send_to(s, id, info, Target::Thread);
    }
    Ok(0)
}

fn queue(s: &mut State, target: Target, pid: i32, value: u64, info: u64) -> SysResult {
    let bytes: [u8; siginfo::SIZE] = s.read_array(info)?;
    let signal = number(value)?;
    let id = match target {
        Target::Thread => thread(s, None, pid)?,
        Target::Process => *s.threads(pid as u32).first().ok_or(Errno::ESRCH)?,
    };
    if let Some(signal) = signal {
        signal::send_to(s, id, SigInfo::from_user(signal, &bytes), target);
    }
    Ok(0)
}

/// Where a function that is entered with these registers returns to.
fn return_address(s: &State, regs: &Regs) -> Option<u64> {
    match regs.arch {
        Arch::X86_64 => s.present().word(regs.sp()),
        Arch::Aarch64 => Some(regs.gp[arch::aarch64::regs::LR]),
    }
}

/// Returns from a handler: everything comes from the frame.
pub fn rt_sigreturn(s: &mut State) -> Outcome {
    let regs = s.user_regs();
    // Bring the frame in first: reading below may not fault.
    let mut probe = [0; 8192];
    let len = (crate::mem::PAGE - regs.sp() % crate::mem::PAGE) as usize;
    for n in [probe.len(), len] {
        if s.read_user(regs.sp().wrapping_sub(8), &mut probe[..n]).is_ok() {
            break;
        }
    }
    let State { mm, arena, .. } = s;
    let read = |addr: u64, buf: &mut [u8]| mm.peek(arena, addr, buf);
    match sigframe::restore(&regs, &read) {
        Ok(restored) => {
            s.task.signals.blocked = restored.mask;
            let minimum = 2048;
            let stack = s.task.signals.altstack;
            if let Ok(stack) = stack.replace(&restored.altstack, restored.regs.sp(), minimum) {
                s.task.signals.altstack = stack;
            }
            s.set_hw_fp(&restored.fp);
            s.set_user_regs(&restored.regs);
            let return_address = return_address(s, &restored.regs);
            if let Some(observer) = &mut s.observer {
                observer.about(s.task.id);
                observer.sigreturn(&restored.regs, return_address);
            }
        }
        Err(_) => signal::force_again(s, SigInfo::kernel(Signal::SIGSEGV)),
    }
    signal::settle(s);
    Outcome::Keep
}
