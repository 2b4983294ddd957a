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

use std::cell::RefCell;
use std::io::Write as _;
use std::rc::Rc;

use arch::fault::Fault;
use arch::sigaction::{AltStack, SigAction};
use arch::sigframe::{self, FrameInput};
use arch::siginfo::SigInfo;
use arch::signal::{DefaultAction, code, sa};
use arch::{Arch, Errno, SigSet, Signal};

use crate::kernel::symbols::Named;
use crate::kernel::task::{Ending, TaskId};
use crate::kernel::wait::{Wait, Woken, restart};
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

/// Actions by signal number, from 1.
type Actions = [SigAction; SIGNALS];

/// Signal state of a task.
#[derive(Debug)]
pub struct Signals {
    /// What threads with `CLONE_SIGHAND` share.
    actions: Rc<RefCell<Actions>>,
    /// Blocked signals.
    pub blocked: SigSet,
    /// Mask to return to after `rt_sigsuspend`.
    pub saved_mask: Option<SigSet>,
    /// Pending signals of the thread, in order of arrival.
    own: Vec<SigInfo>,
    /// Those of the process.
    shared: Rc<RefCell<Vec<SigInfo>>>,
    /// The thread dies at its next look, with its process.
    pub doomed: bool,
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
            actions: Rc::new(RefCell::new([SigAction::default(); SIGNALS])),
            blocked: SigSet::EMPTY,
            saved_mask: None,
            own: Vec::new(),
            shared: Rc::default(),
            doomed: false,
            altstack: AltStack::NONE,
            fault: Fault::default(),
            death: None,
        }
    }
}

impl Signals {
    /// The state of a new task: a thread shares its process's queue; the actions are shared or
    /// copied. Nothing is pending for it.
    pub fn for_child(&self, is_thread: bool, shares_actions: bool) -> Signals {
        let actions = match shares_actions {
            true => self.actions.clone(),
            false => Rc::new(RefCell::new(*self.actions.borrow())),
        };
        let shared = if is_thread { self.shared.clone() } else { Rc::default() };
        // A child with its own stack has no alternate one; `vfork` and `fork` keep it.
        let altstack = if is_thread { AltStack::NONE } else { self.altstack };
        Signals { actions, shared, blocked: self.blocked, altstack, ..Signals::default() }
    }

    /// A new program: handlers are gone, what is ignored stays ignored, nobody shares the actions
    /// any more.
    pub fn flush_handlers(&mut self) {
        let kept = self.actions.borrow().map(|action| match action.is_ignored() {
            true => SigAction { handler: sa::SIG_IGN, ..SigAction::default() },
            false => SigAction::default(),
        });
        self.actions = Rc::new(RefCell::new(kept));
        self.altstack = AltStack::NONE;
        self.fault = Fault::default();
    }

    /// `SIGCHLD` is ignored, or its action says that nobody waits: children leave no zombies.
    pub fn reaps_children(&self) -> bool {
        let action = self.action(Signal::SIGCHLD);
        action.is_ignored() || action.has(sa::SA_NOCLDWAIT)
    }

    /// The action of `signal`.
    pub fn action(&self, signal: Signal) -> SigAction {
        self.actions.borrow().get(usize::from(signal.number()) - 1).copied().unwrap_or_default()
    }

    /// Sets the action of `signal`. One that ignores it also drops it if it is pending.
    pub fn set_action(&mut self, signal: Signal, action: SigAction) {
        if let Some(slot) = self.actions.borrow_mut().get_mut(usize::from(signal.number()) - 1) {
            *slot = action;
        }
        if self.is_ignored(signal) {
            self.own.retain(|info| info.signal != signal);
            self.shared.borrow_mut().retain(|info| info.signal != signal);
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
        let mut shared = self.shared.borrow_mut();
        let queue = match target {
            Target::Thread => &mut self.own,
            Target::Process => &mut *shared,
        };
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
        let shared = self.shared.borrow();
        self.own.iter().chain(&*shared).fold(SigSet::EMPTY, |set, info| set.with(info.signal))
    }

    /// Whether a signal can be delivered now (`recalc_sigpending`).
    pub fn deliverable(&self) -> bool {
        self.doomed || !self.pending_set().minus(self.blocked).is_empty()
    }

    /// Takes the next signal of `allowed` (`dequeue_signal`).
    pub fn take(&mut self, allowed: SigSet) -> Option<SigInfo> {
        let mut shared = self.shared.borrow_mut();
        [&mut self.own, &mut *shared].into_iter().find_map(|queue| {
            let allowed = queue.iter().enumerate().filter(|(_, i)| allowed.contains(i.signal));
            let next = allowed.min_by_key(|(_, i)| (!i.signal.is_synchronous(), i.signal.number()));
            next.map(|(at, _)| at).map(|at| queue.remove(at))
        })
    }

    /// Takes the oldest signal that the kernel raised for an instruction of the thread
    /// (`dequeue_synchronous_signal`).
    fn take_synchronous(&mut self) -> Option<SigInfo> {
        let queue = &mut self.own;
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
        k.step(Point::SignalDie, |s| {
            // A thread that dies with its process does so as that does.
            if let Some(ending) = s.task.ending {
                s.kill_group(ending);
            }
        })
        .await;
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
    if state.task.signals.doomed {
        let group = state.task.process.borrow().group_exit;
        state.task.ending = group.or(Some(Ending::Exited(0)));
        state.task.work.signal_pending = false;
        return false;
    }
    while let Some(info) = state.task.signals.next() {
        let action = state.task.signals.action(info.signal);
        state.trace_signal_deliver(&info, action);
        if action.is_ignored() {
            continue;
        }
        if !action.is_default() {
            state.task.caught = Some(info);
            restart_call(state, Some(action));
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
    restart_call(state, None);
    // No handler: `rt_sigsuspend`'s mask ends here.
    if let Some(mask) = state.task.signals.saved_mask.take() {
        state.task.signals.blocked = mask;
        settle(state);
    }
    false
}

/// A call that a signal interrupted is made again, or fails with `EINTR`, as its result register
/// and the handler's action say.
fn restart_call(state: &mut State, handler: Option<SigAction>) {
    let (nr, mut regs) = (state.task.orig_nr, state.user_regs());
    if nr == u64::MAX {
        return;
    }
    let again = match (regs.ret(), handler) {
        (restart::SYS, Some(action)) => action.has(sa::SA_RESTART),
        (restart::NO_HANDLER | restart::BLOCK, Some(_)) => false,
        (restart::SYS | restart::NO_HANDLER | restart::BLOCK, None) => true,
        _ => return,
    };
    if again {
        // Back to the system-call instruction, with the registers that it had.
        regs.pc -= match regs.arch {
            Arch::X86_64 => 2,
            Arch::Aarch64 => 4,
        };
        regs.set_ret(state.task.restart_value);
    } else {
        regs.set_ret(Errno::EINTR.to_ret());
    }
    state.task.orig_nr = u64::MAX;
    state.set_user_regs(&regs);
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
    let fp = state.hw_fp();
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
    let sp_was_set = state.task.hw.is_none() && state.core.sp_was_set();
    if let Some(observer) = &mut state.observer {
        let restorer = match regs.arch {
            Arch::X86_64 => action.restorer,
            Arch::Aarch64 => built.regs.gp[arch::aarch64::regs::LR],
        };
        observer.about(state.task.id);
        observer.signal(&regs, &built.regs, restorer, sp_was_set);
    }
    if built.fp != fp {
        state.set_hw_fp(&built.fp);
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
    send_to(state, state.task.id, SigInfo::sent(signal, how, pid, uid), target);
}

/// A signal for a thread, or for its process: then a thread that does not block it takes it, the
/// first one if it can (`complete_signal`).
pub fn send_to(state: &mut State, id: TaskId, info: SigInfo, target: Target) {
    let Some(task) = state.task_mut(id) else { return };
    let result = task.signals.send(info, target);
    let (comm, tid, pid) = (task.name(), task.tid, task.pid);
    state.trace_signal_generate(&info, (comm, tid), target == Target::Process, result);
    if result == Generated::Ignored {
        return;
    }
    let takes = |s: &State, id: TaskId| {
        let task = s.task_of(id);
        task.is_some_and(|t| !t.exiting && !t.signals.blocked.contains(info.signal))
    };
    let taker = match target {
        Target::Process if !takes(state, id) => {
            state.threads(pid).into_iter().find(|&id| takes(state, id))
        }
        _ => takes(state, id).then_some(id),
    };
    if let Some(taker) = taker {
        state.settle_task(taker);
        state.nudge(taker);
    }
    // Whoever waits for signals by `rt_sigtimedwait` has them blocked.
    for id in state.waiters(Wait::Signal) {
        if state.task_of(id).is_some_and(|t| t.pid == pid) {
            state.wake_task(id, Woken::Up);
        }
    }
}

impl State {
    /// `TIF_SIGPENDING` of a task follows what is deliverable.
    fn settle_task(&mut self, id: TaskId) {
        if let Some(task) = self.task_mut(id) {
            task.work.signal_pending = task.signals.deliverable();
        }
    }

    /// A task that has something to do on its way to user mode looks at it: one that waits and
    /// may be interrupted goes on, one that runs on another CPU is interrupted (`kick_process`).
    pub fn nudge(&mut self, id: TaskId) {
        let Some(task) = self.task_of(id).filter(|t| t.work.any()) else { return };
        let place = task.place;
        if self.task_of(id).is_some_and(|t| t.work.signal_pending) {
            self.wake_task(id, Woken::Interrupted);
        }
        self.kick_running(id, place);
    }
}

/// A forced signal for a fault.
pub fn force(state: &mut State, info: SigInfo, fault: Fault) {
    state.task.signals.fault = fault;
    force_again(state, info);
}

/// A forced signal that leaves the last fault as it is (`force_sig`).
pub fn force_again(state: &mut State, info: SigInfo) {
    let result = state.task.signals.force(info);
    let who = (state.task.name(), state.task.tid);
    state.trace_signal_generate(&info, who, false, result);
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
