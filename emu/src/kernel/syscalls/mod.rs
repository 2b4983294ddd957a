//! System calls, one file a family.
//!
//! ```text
//! dispatch ─► frames of the call's kernel functions ─► one step: the handler ─► Outcome
//! ```
//!
//! A handler is a function `(&mut State, args) -> Result<u64, Errno>`. A call that has
//! none answers -ENOSYS, is counted by name and listed once when the guest ends.

mod attributes;
mod files;
mod futex;
mod identity;
mod io;
mod memory;
mod perf_event;
mod process;
mod signals;
mod time;

#[cfg(test)]
mod counters_tests;
#[cfg(test)]
mod perf_event_tests;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use arch::syscalls::Sysno;
use arch::{Arch, Errno};

use crate::kernel::symbols::Function;
use crate::kernel::task::Ending;
use crate::kernel::wait::Woken;
use crate::kernel::{
    Kernel, Point, State, aarch64, do_exit, execve, fork, scheduler, scripted, wait, x86_64,
};

/// Result of a system call's work.
pub type SysResult = Result<u64, Errno>;

/// What the dispatcher does with the result register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It gets this value.
    Return(u64),
    /// The call set all registers itself (`rt_sigreturn`).
    Keep,
    /// The task is gone.
    Gone,
}

/// Executes system call `nr`.
pub async fn dispatch(k: &Kernel, nr: u64, args: [u64; 6]) -> Outcome {
    // The number is an `int`.
    let nr = nr & 0xffff_ffff;
    if let Some(script) = k.constant(|s| scripted::of(s, nr)) {
        return scripted::call(k, &script).await;
    }
    let Some(sysno) = Sysno::from_nr(k.arch(), nr) else {
        return k.step(Point::Body, |s| Outcome::Return(unknown(s, nr))).await;
    };
    let (has_frame, inner) = match k.arch() {
        Arch::X86_64 => (!x86_64::paths::is_tail_call(sysno), x86_64::paths::inner(sysno)),
        Arch::Aarch64 => (!aarch64::paths::is_tail_call(sysno), aarch64::paths::inner(sysno)),
    };
    if has_frame {
        k.call(Function::of_syscall(sysno)).await;
    }
    k.enter(inner).await;
    let outcome = match sysno {
        Sysno::RtSigreturn => k.step(Point::Body, signals::rt_sigreturn).await,
        Sysno::Exit | Sysno::ExitGroup => {
            let exit = |s: &mut State| {
                exit(s, sysno, args[0]);
                trace(s, Some(sysno), &args, Outcome::Gone);
            };
            k.step(Point::Body, exit).await;
            do_exit::do_exit(k).await;
            return Outcome::Gone;
        }
        Sysno::Nanosleep | Sysno::ClockNanosleep => time::sleep(k, sysno, args).await,
        Sysno::Clone | Sysno::Clone3 | Sysno::Fork | Sysno::Vfork => {
            let wanted = k.step(Point::Body, |s| process::clone_args(s, sysno, args)).await;
            let made = match wanted {
                Ok(wanted) => fork::clone(k, wanted).await,
                Err(errno) => Err(errno),
            };
            Outcome::Return(encode(made.map(u64::from)))
        }
        Sysno::Execve | Sysno::Execveat => execve::execve(k, sysno, args).await,
        Sysno::SchedYield => {
            k.step(Point::Body, |_| ()).await;
            scheduler::schedule(k).await;
            Outcome::Return(0)
        }
        _ => Outcome::Return(work(k, sysno, args).await),
    };
    k.leave(inner).await;
    if has_frame {
        k.ret().await;
    }
    outcome
}

/// A call whose body is one step; it waits if it cannot go on, and is made again.
async fn work(k: &Kernel, sysno: Sysno, args: [u64; 6]) -> u64 {
    loop {
        let body = |s: &mut State| {
            let result = call(s, sysno, args);
            let block = s.task.block.take();
            if block.is_none() {
                s.end_of_call();
            }
            (result, block)
        };
        let (result, block) = k.step(Point::Body, body).await;
        let Some(block) = block else { return result };
        let result = match wait::finish(k).await {
            Woken::Up if block.again => continue,
            Woken::Up => result,
            Woken::Late => block.late,
            Woken::Interrupted => block.interrupted,
        };
        // A call that has moved something says so, whatever ended it.
        let moved = k.step(Point::WaitOver, State::end_of_call).await;
        return if moved > 0 { moved } else { result };
    }
}

fn exit(state: &mut State, sysno: Sysno, status: u64) {
    let ending = Ending::Exited(status as u8);
    state.task.ending = Some(ending);
    if sysno == Sysno::ExitGroup {
        state.kill_group(ending);
    }
}

fn call(state: &mut State, sysno: Sysno, mut args: [u64; 6]) -> u64 {
    for &index in ints(sysno) {
        args[index] &= 0xffff_ffff;
    }
    let handled = io::call(state, sysno, args)
        .or_else(|| files::call(state, sysno, args))
        .or_else(|| attributes::call(state, sysno, args))
        .or_else(|| memory::call(state, sysno, args))
        .or_else(|| perf_event::call(state, sysno, args))
        .or_else(|| time::call(state, sysno, args))
        .or_else(|| process::call(state, sysno, args))
        .or_else(|| futex::call(state, sysno, args))
        .or_else(|| identity::call(state, sysno, args))
        .or_else(|| signals::call(state, sysno, args));
    match handled {
        Some(result) => encode(result),
        None => {
            state.note_unsupported(sysno.name());
            encode(Err(Errno::ENOSYS))
        }
    }
}

impl State {
    /// What the present call keeps while it waits is forgotten; returns the bytes that it has
    /// moved.
    fn end_of_call(&mut self) -> u64 {
        self.task.deadline = None;
        self.release_events();
        std::mem::take(&mut self.task.moved)
    }
}

/// Arguments of type `int` or `unsigned int`: the upper half of the register is not theirs.
/// Descriptors and what the handlers cut themselves are not listed.
const fn ints(sysno: Sysno) -> &'static [usize] {
    match sysno {
        Sysno::RtSigaction
        | Sysno::RtSigprocmask
        | Sysno::Getrlimit
        | Sysno::Setrlimit
        | Sysno::ArchPrctl
        | Sysno::Prctl => &[0],
        Sysno::Membarrier | Sysno::Getpriority | Sysno::Setpriority => &[0, 1],
        Sysno::Prlimit64
        | Sysno::Futex
        | Sysno::Poll
        | Sysno::Ppoll
        | Sysno::Fcntl
        | Sysno::Ioctl
        | Sysno::Access
        | Sysno::SchedGetaffinity
        | Sysno::SchedSetaffinity
        | Sysno::ClockNanosleep => &[1],
        Sysno::Rseq => &[1, 2],
        Sysno::Madvise
        | Sysno::Getrandom
        | Sysno::Mlock2
        | Sysno::Faccessat
        | Sysno::Getdents64 => &[2],
        Sysno::Newfstatat => &[3],
        Sysno::Renameat2 => &[4],
        _ => &[],
    }
}

/// Numbers above are reported together.
const LAST_NUMBER: u64 = 500;

fn unknown(state: &mut State, nr: u64) -> u64 {
    match nr {
        0..=LAST_NUMBER => state.note_unsupported(&format!("system call {nr}")),
        _ => state.note_unsupported(&format!("system calls above {LAST_NUMBER}")),
    }
    encode(Err(Errno::ENOSYS))
}

/// The result register: the value, or minus the error number.
pub fn encode(result: SysResult) -> u64 {
    match result {
        Ok(value) => value,
        Err(errno) => errno.to_ret(),
    }
}

/// One line of `--strace`.
pub fn trace(state: &mut State, sysno: Option<Sysno>, args: &[u64; 6], outcome: Outcome) {
    if !state.config.strace {
        return;
    }
    let ret = match outcome {
        Outcome::Return(value) => Some(value),
        Outcome::Keep => Some(state.user_regs().ret()),
        Outcome::Gone => None,
    };
    let (arch, mm, arena) = (state.arch, &state.mm, &state.arena);
    let read = |addr: u64, max: usize| peek_prefix(mm, arena, addr, max);
    let line = match sysno {
        Some(sysno) => arch::strace::format_call(arch, sysno, args, &read, ret),
        None => arch::strace::format_unknown(state.task.orig_nr, args, ret),
    };
    // A reader of standard error that went away is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// At most `max` bytes from `addr`, as many as are present.
fn peek_prefix(
    mm: &crate::mem::Mm,
    arena: &crate::engine::Arena,
    addr: u64,
    max: usize,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; max];
    let mut len = 0;
    while len < max {
        let at = addr.wrapping_add(len as u64);
        let n = ((crate::mem::PAGE - at % crate::mem::PAGE) as usize).min(max - len);
        if !mm.peek(arena, at, &mut bytes[len..len + n]) {
            break;
        }
        len += n;
    }
    bytes.truncate(len);
    (len > 0 || max == 0).then_some(bytes)
}

impl State {
    /// Counts something that we cannot do; ends the run under `--strict`.
    pub fn note_unsupported(&mut self, what: &str) {
        // The guest chooses some of the names: there is an end to them.
        const MOST: usize = 200;
        let full = self.unsupported.len() >= MOST && !self.unsupported.contains_key(what);
        let what = if full { "other things" } else { what };
        let pc = self.user_regs().pc;
        let entry = self.unsupported.entry(what.to_owned()).or_insert((0, pc));
        entry.0 += 1;
        if self.config.strict {
            self.ending = Some(Ending::Strict);
        }
    }
}
