//! Signals of one task: what is pending, what a handler gets, how a task dies of one.
//!
//! ```text
//! send / force ─► pending ─► deliver (X2.v): get_signal ─┬─► default action: ignore, die
//!                                                        └─► frame on the user stack, handler
//! ```
//!
//! Follows `kernel/signal.c`: a standard signal is pending once; signals of the task's
//! own instructions come first, then the lowest number; a forced signal that is blocked
//! or ignored gets the default action.

use arch::fault::Fault;
use arch::sigaction::{AltStack, SigAction};
use arch::sigframe::{self, FrameInput};
use arch::siginfo::SigInfo;
use arch::signal::{DefaultAction, code, sa};
use arch::{Arch, SigSet, Signal};

use crate::kernel::symbols::Named;
use crate::kernel::task::Ending;
use crate::kernel::{Kernel, Point, State};

/// Signal numbers are 1 to 64.
pub const SIGNALS: usize = 64;

/// Signal state of a task.
#[derive(Debug)]
pub struct Signals {
    /// Actions by signal number, from 1.
    actions: [SigAction; SIGNALS],
    /// Blocked signals.
    pub blocked: SigSet,
    /// Mask to return to after `rt_sigsuspend`.
    pub saved_mask: Option<SigSet>,
    /// Pending signals in order of arrival.
    pending: Vec<SigInfo>,
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
            pending: Vec::new(),
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
            self.pending.retain(|info| info.signal != signal);
        }
    }

    fn is_ignored(&self, signal: Signal) -> bool {
        let action = self.action(signal);
        let default = signal.default_action();
        let harmless = matches!(default, DefaultAction::Ignore | DefaultAction::Continue);
        action.is_ignored() || action.is_default() && harmless
    }

    /// Sends a signal; one that is ignored and not blocked is lost at once.
    pub fn send(&mut self, info: SigInfo) {
        let signal = info.signal;
        if self.is_ignored(signal) && !self.blocked.contains(signal) {
            return;
        }
        let once = !signal.is_realtime();
        if !(once && self.pending.iter().any(|p| p.signal == signal)) {
            self.pending.push(info);
        }
    }

    /// `force_sig_info`: a signal that cannot be escaped.
    pub fn force(&mut self, info: SigInfo) {
        let signal = info.signal;
        if self.blocked.contains(signal) || self.action(signal).is_ignored() {
            self.set_action(signal, SigAction::default());
            self.blocked = self.blocked.without(signal);
        }
        self.pending.retain(|p| p.signal != signal);
        self.pending.insert(0, info);
    }

    /// Signals that are pending, blocked ones included.
    pub fn pending_set(&self) -> SigSet {
        self.pending.iter().fold(SigSet::EMPTY, |set, info| set.with(info.signal))
    }

    /// Whether a signal can be delivered now (`recalc_sigpending`).
    pub fn deliverable(&self) -> bool {
        !self.pending_set().minus(self.blocked).is_empty()
    }

    /// Takes the next signal of `allowed`: those of the task's own instructions first,
    /// then the lowest number, then the oldest.
    pub fn take(&mut self, allowed: SigSet) -> Option<SigInfo> {
        let candidates =
            || self.pending.iter().enumerate().filter(|(_, i)| allowed.contains(i.signal));
        let own = candidates().find(|(_, i)| i.signal.is_synchronous() && i.code > 0);
        let next = own.or_else(|| candidates().min_by_key(|(_, i)| i.signal.number()));
        next.map(|(at, _)| at).map(|at| self.pending.remove(at))
    }
}

/// Signal code on the way to user mode (X2.v).
pub async fn deliver(k: &Kernel) {
    k.enter(&[Named::DoSignal, Named::GetSignal]).await;
    let handled = k.step(Point::ExitSignal, get_signal).await;
    k.leave(&[Named::GetSignal]).await;
    if handled {
        k.call(Named::SetupFrame.into()).await;
        k.step(Point::ExitSignal, setup_frame).await;
        k.ret().await;
    }
    k.leave(&[Named::DoSignal]).await;
}

/// Takes signals until one has a handler (then it is [`State::caught`]) or none is left.
fn get_signal(state: &mut State) -> bool {
    while let Some(info) = state.task.signals.take(SigSet::FULL.minus(state.task.signals.blocked)) {
        let action = state.task.signals.action(info.signal);
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
    if let Some(observer) = &mut state.observer {
        let restorer = match regs.arch {
            Arch::X86_64 => action.restorer,
            Arch::Aarch64 => built.regs.gp[arch::aarch64::regs::LR],
        };
        observer.signal(&regs, &built.regs, restorer);
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

/// `force_sigsegv`: a SIGSEGV whose own frame cannot be built kills.
fn cannot_enter(state: &mut State, signal: Signal) {
    if signal == Signal::SIGSEGV {
        state.task.signals.set_action(signal, SigAction::default());
    }
    state.task.signals.force(SigInfo::kernel(Signal::SIGSEGV));
    settle(state);
}

/// A signal that the task sends itself by number (`kill`, `tgkill`).
pub fn send_to_self(state: &mut State, signal: Signal, how: i32) {
    let (pid, uid) = (state.task.pid as i32, state.task.uid);
    debug_assert!(matches!(how, code::SI_USER | code::SI_TKILL));
    state.task.signals.send(SigInfo::sent(signal, how, pid, uid));
    settle(state);
}

/// A forced signal for a fault.
pub fn force(state: &mut State, info: SigInfo, fault: Fault) {
    state.task.signals.fault = fault;
    state.task.signals.force(info);
    settle(state);
}
