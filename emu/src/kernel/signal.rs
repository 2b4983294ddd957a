//! Signals of one task: what is pending, what a handler gets, how a task dies of one.
//!
//! ```text
//! send / force ─► pending ─► deliver (X2.v): get_signal ─┬─► default action: ignore, die
//!                                                        └─► frame on the user stack, handler
//! ```
//!
//! Follows `kernel/signal.c`. There are two queues, the thread's own and its process's; a
//! standard signal is pending once in each. Signals that the kernel raised for the thread's
//! own instructions come first, then the thread's queue, then the process's; in a queue
//! those of `SYNCHRONOUS_MASK`, then the lowest number, then the oldest. A forced signal
//! that is blocked or ignored gets the default action.

use std::io::Write as _;

use arch::fault::Fault;
use arch::sigaction::{AltStack, SigAction};
use arch::sigframe::{self, FrameInput};
use arch::siginfo::SigInfo;
use arch::signal::{DefaultAction, code, sa};
use arch::{Arch, SigSet, Signal};

use crate::kernel::symbols::Named;
use crate::kernel::task::Ending;
use crate::kernel::{Kernel, Point, State, do_exit, exit, task_work};
use crate::perf::record::Generated;

/// Signal numbers are 1 to 64.
pub const SIGNALS: usize = 64;

/// Whom a signal is for, and so in which queue it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One thread: faults, `tgkill`.
    Thread,
    /// Any thread of the process: `kill`, `rt_sigqueueinfo`.
    Process,
}

/// Signal state of a task.
#[derive(Debug)]
pub struct Signals {
    /// Actions by signal number, from 1.
    actions: [SigAction; SIGNALS],
    /// Blocked signals.
    pub blocked: SigSet,
    /// Mask to return to after `rt_sigsuspend`.
    pub saved_mask: Option<SigSet>,
    /// Pending signals of the thread and of the process, in order of arrival.
    pending: [Vec<SigInfo>; 2],
    /// Alternate stack.
    pub altstack: AltStack,
    /// The last fault, which frames show.
    pub fault: Fault,
    /// The signal that the task died of.
    pub death: Option<SigInfo>,
}

impl Default for Signals {
    fn default() -> Signals {
        Signals {
            actions: [SigAction::default(); SIGNALS],
            blocked: SigSet::EMPTY,
            saved_mask: None,
            pending: Default::default(),
            altstack: AltStack::NONE,
            fault: Fault::default(),
            death: None,
        }
    }
}

impl Signals {
    /// The action of `signal`.
    pub fn action(&self, signal: Signal) -> SigAction {
        self.actions.get(usize::from(signal.number()) - 1).copied().unwrap_or_default()
    }

    /// Sets the action of `signal`. One that ignores it also drops it if it is pending.
    pub fn set_action(&mut self, signal: Signal, action: SigAction) {
        if let Some(slot) = self.actions.get_mut(usize::from(signal.number()) - 1) {
            *slot = action;
        }
        if self.is_ignored(signal) {
            self.pending.iter_mut().for_each(|q| q.retain(|info| info.signal != signal));
        }
    }

    fn is_ignored(&self, signal: Signal) -> bool {
        let action = self.action(signal);
        let default = signal.default_action();
        let harmless = matches!(default, DefaultAction::Ignore | DefaultAction::Continue);
        action.is_ignored() || action.is_default() && harmless
    }

    /// Sends a signal; one that is ignored and not blocked is lost at once.
    pub fn send(&mut self, info: SigInfo, target: Target) -> Generated {
        let signal = info.signal;
        if !self.is_ignored(signal) || self.blocked.contains(signal) {
            self.queue(info, target)
        } else {
            Generated::Ignored
        }
    }

    /// A standard signal that is pending already stays as it is.
    fn queue(&mut self, info: SigInfo, target: Target) -> Generated {
        let queue = &mut self.pending[target as usize];
        let once = !info.signal.is_realtime();
        if once && queue.iter().any(|p| p.signal == info.signal) {
            return Generated::AlreadyPending;
        }
        queue.push(info);
        Generated::Delivered
    }

    /// `force_sig_info`: a signal that cannot be escaped.
    pub fn force(&mut self, info: SigInfo) -> Generated {
        let signal = info.signal;
        if self.blocked.contains(signal) || self.action(signal).is_ignored() {
            self.set_action(signal, SigAction::default());
            self.blocked = self.blocked.without(signal);
        }
        self.queue(info, Target::Thread)
    }

    /// Signals that are pending, blocked ones included.
    pub fn pending_set(&self) -> SigSet {
        self.pending.iter().flatten().fold(SigSet::EMPTY, |set, info| set.with(info.signal))
    }

    /// Whether a signal can be delivered now (`recalc_sigpending`).
    pub fn deliverable(&self) -> bool {
        !self.pending_set().minus(self.blocked).is_empty()
    }

    /// Takes the next signal of `allowed` (`dequeue_signal`).
    pub fn take(&mut self, allowed: SigSet) -> Option<SigInfo> {
        self.pending.iter_mut().find_map(|queue| {
            let allowed = queue.iter().enumerate().filter(|(_, i)| allowed.contains(i.signal));
            let next = allowed.min_by_key(|(_, i)| (!i.signal.is_synchronous(), i.signal.number()));
            next.map(|(at, _)| at).map(|at| queue.remove(at))
        })
    }

    /// Takes the oldest signal that the kernel raised for an instruction of the thread
    /// (`dequeue_synchronous_signal`).
    fn take_synchronous(&mut self) -> Option<SigInfo> {
        let queue = &mut self.pending[Target::Thread as usize];
        let own = |i: &SigInfo| i.signal.is_synchronous() && i.code > code::SI_USER;
        let at = queue.iter().position(|i| own(i) && !self.blocked.contains(i.signal))?;
        Some(queue.remove(at))
    }

    /// Takes the next signal that is not blocked.
    fn next(&mut self) -> Option<SigInfo> {
        self.take_synchronous().or_else(|| self.take(SigSet::FULL.minus(self.blocked)))
    }
}

/// Signal code on the way to user mode (X2.v).
pub async fn deliver(k: &Kernel) -> exit::Task {
    k.enter(&[Named::DoSignal, Named::GetSignal]).await;
    // Task work comes first: an unwind sees the stack before the signal.
    if k.step(Point::ExitSignalWork, |s| s.task.works.is_pending()).await {
        task_work::run(k).await;
    }
    let (handled, dead) = k
        .step(Point::ExitSignal, |s| {
            let lived = s.task.ending.is_none();
            (get_signal(s), lived && s.task.ending.is_some())
        })
        .await;
    if dead {
        k.enter(&[Named::GroupExit, Named::DoExit]).await;
        do_exit::do_exit(k).await;
        return exit::Task::Gone;
    }
    k.leave(&[Named::GetSignal]).await;
    if handled {
        k.call(Named::SetupFrame.into()).await;
        k.step(Point::ExitSignal, setup_frame).await;
        k.ret().await;
    }
    k.leave(&[Named::DoSignal]).await;
    exit::Task::Lives
}

/// Takes signals until one has a handler (then it is [`State::caught`]) or none is left.
fn get_signal(state: &mut State) -> bool {
    while let Some(info) = state.task.signals.next() {
        let action = state.task.signals.action(info.signal);
        state.trace_signal_deliver(&info, action);
        if action.is_ignored() {
            continue;
        }
        if !action.is_default() {
            state.task.caught = Some(info);
            return true;
        }
        match info.signal.default_action() {
            DefaultAction::Ignore | DefaultAction::Continue => {}
            DefaultAction::Stop => {
                state.note_unsupported(&format!("stopping by {}", info.signal));
            }
            DefaultAction::Terminate | DefaultAction::Core => {
                die(state, info);
                return false;
            }
        }
    }
    settle(state);
    // No handler: `rt_sigsuspend`'s mask ends here.
    if let Some(mask) = state.task.signals.saved_mask.take() {
        state.task.signals.blocked = mask;
        settle(state);
    }
    false
}

fn die(state: &mut State, info: SigInfo) {
    state.task.signals.death = Some(info);
    state.task.ending = Some(Ending::Signalled(info.signal.number()));
    state.task.work.signal_pending = false;
}

/// `TIF_SIGPENDING` follows what is deliverable.
pub fn settle(state: &mut State) {
    state.task.work.signal_pending = state.task.signals.deliverable();
}

/// Builds the frame of the caught signal and redirects the user registers to its
/// handler (`handle_signal`).
fn setup_frame(state: &mut State) {
    let Some(info) = state.task.caught.take() else { return };
    trace(state, &info);
    let signals = &state.task.signals;
    let action = signals.action(info.signal);
    let regs = state.user_regs();
    let fp = state.core.fp();
    let mask = signals.saved_mask.unwrap_or(signals.blocked);
    let built = sigframe::build(&FrameInput {
        regs: &regs,
        fp: &fp,
        signal: info.signal,
        info: &info.to_bytes(),
        action,
        mask,
        altstack: signals.altstack,
        fault: signals.fault,
        vdso_sigreturn: state.task.vdso_sigreturn,
    });
    let built = match built {
        Ok(built) if state.write_user(built.addr, &built.bytes).is_ok() => built,
        // No room for the frame: SIGSEGV, without a second try.
        _ => return cannot_enter(state, info.signal),
    };
    state.set_user_regs(&built.regs);
    let sp_was_set = state.core.sp_was_set();
    if let Some(observer) = &mut state.observer {
        let restorer = match regs.arch {
            Arch::X86_64 => action.restorer,
            Arch::Aarch64 => built.regs.gp[arch::aarch64::regs::LR],
        };
        observer.signal(&regs, &built.regs, restorer, sp_was_set);
    }
    if built.fp != fp {
        state.core.set_fp(&built.fp);
    }
    let signals = &mut state.task.signals;
    signals.altstack = built.altstack;
    signals.saved_mask = None;
    if action.has(sa::SA_RESETHAND) {
        signals.set_action(info.signal, SigAction { handler: sa::SIG_DFL, ..action });
    }
    let mut blocked = signals.blocked.union(action.mask);
    if !action.has(sa::SA_NODEFER) {
        blocked = blocked.with(info.signal);
    }
    signals.blocked = blocked.blockable();
    state.stats.signals += 1;
    settle(state);
}

/// One line of `--strace`.
fn trace(state: &State, info: &SigInfo) {
    if state.config.strace {
        let signal = info.signal;
        // A reader of standard error that went away is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "--- {signal} {{si_signo={signal}, si_code={}}} ---",
            info.code
        );
    }
}

/// `force_sigsegv`: a SIGSEGV whose own frame cannot be built kills.
fn cannot_enter(state: &mut State, signal: Signal) {
    if signal == Signal::SIGSEGV {
        state.task.signals.set_action(signal, SigAction::default());
    }
    force_again(state, SigInfo::kernel(Signal::SIGSEGV));
}

/// A signal that the task sends itself by number: its process by `kill` (`SI_USER`), its
/// thread by `tgkill` (`SI_TKILL`).
pub fn send_to_self(state: &mut State, signal: Signal, how: i32) {
    let (pid, uid) = (state.task.pid as i32, state.task.uid);
    debug_assert!(matches!(how, code::SI_USER | code::SI_TKILL));
    let target = if how == code::SI_TKILL { Target::Thread } else { Target::Process };
    send(state, SigInfo::sent(signal, how, pid, uid), target);
}

/// A signal that the task sends itself.
pub fn send(state: &mut State, info: SigInfo, target: Target) {
    let result = state.task.signals.send(info, target);
    state.trace_signal_generate(&info, target == Target::Process, result);
    settle(state);
}

/// A forced signal for a fault.
pub fn force(state: &mut State, info: SigInfo, fault: Fault) {
    state.task.signals.fault = fault;
    force_again(state, info);
}

/// A forced signal that leaves the last fault as it is (`force_sig`).
pub fn force_again(state: &mut State, info: SigInfo) {
    let result = state.task.signals.force(info);
    state.trace_signal_generate(&info, false, result);
    settle(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(signals: &mut Signals) -> Vec<u8> {
        std::iter::from_fn(|| signals.next()).map(|i| i.signal.number()).collect()
    }

    fn sent(signal: Signal) -> SigInfo {
        SigInfo::sent(signal, code::SI_USER, 1, 1)
    }

    #[test]
    fn synchronous_signals_come_first() {
        let mut signals = Signals::default();
        for signal in [Signal::SIGHUP, Signal::SIGSEGV, Signal::SIGILL] {
            signals.send(sent(signal), Target::Process);
        }
        assert_eq!(order(&mut signals), [4, 11, 1]);
    }

    #[test]
    fn the_threads_queue_comes_first() {
        let mut signals = Signals::default();
        signals.send(sent(Signal::SIGHUP), Target::Process);
        signals.send(sent(Signal::SIGTERM), Target::Process);
        // Once in each queue.
        for target in [Target::Thread, Target::Thread, Target::Process] {
            signals.send(sent(Signal::SIGTERM), target);
        }
        assert_eq!(order(&mut signals), [15, 1, 15]);
    }

    #[test]
    fn faults_come_before_all() {
        let mut signals = Signals::default();
        signals.send(sent(Signal::SIGILL), Target::Thread);
        signals.force(SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, 0));
        assert_eq!(order(&mut signals), [11, 4]);
        // A signal that is pending already keeps its reason.
        signals.send(sent(Signal::SIGSEGV), Target::Thread);
        signals.force(SigInfo::fault(Signal::SIGSEGV, code::SEGV_MAPERR, 0));
        assert_eq!(signals.next().map(|i| i.code), Some(code::SI_USER));
        assert_eq!(signals.next(), None);
    }
}
