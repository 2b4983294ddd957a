//! Signals: numbers, names, default actions, `si_code` values and sets
//! (`include/uapi/asm-generic/{signal,siginfo}.h`; x86_64 and aarch64 agree).

use std::fmt;

/// A signal number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(u8);

/// What the kernel does with a signal that the program neither handles nor
/// ignores (`signal(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DefaultAction {
    /// Ends the process.
    Terminate,
    /// Ends the process and writes a core file.
    Core,
    /// Stops the process.
    Stop,
    /// Lets a stopped process go on.
    Continue,
    /// Nothing.
    Ignore,
}

/// Declares the standard signals.
macro_rules! signals {
    ($($name:ident $number:literal $action:ident $message:literal,)*) => {
        impl Signal {
            $(#[doc = $message] pub const $name: Signal = Signal($number);)*
        }

        /// Name, default action, message of signals 1 to 31.
        const TABLE: [(&str, DefaultAction, &str); 31] =
            [$((stringify!($name), DefaultAction::$action, $message),)*];
    };
}

signals! {
    SIGHUP 1 Terminate "Hangup",
    SIGINT 2 Terminate "Interrupt",
    SIGQUIT 3 Core "Quit",
    SIGILL 4 Core "Illegal instruction",
    SIGTRAP 5 Core "Trace/breakpoint trap",
    SIGABRT 6 Core "Aborted",
    SIGBUS 7 Core "Bus error",
    SIGFPE 8 Core "Floating point exception",
    SIGKILL 9 Terminate "Killed",
    SIGUSR1 10 Terminate "User defined signal 1",
    SIGSEGV 11 Core "Segmentation fault",
    SIGUSR2 12 Terminate "User defined signal 2",
    SIGPIPE 13 Terminate "Broken pipe",
    SIGALRM 14 Terminate "Alarm clock",
    SIGTERM 15 Terminate "Terminated",
    SIGSTKFLT 16 Terminate "Stack fault",
    SIGCHLD 17 Ignore "Child exited",
    SIGCONT 18 Continue "Continued",
    SIGSTOP 19 Stop "Stopped (signal)",
    SIGTSTP 20 Stop "Stopped",
    SIGTTIN 21 Stop "Stopped (tty input)",
    SIGTTOU 22 Stop "Stopped (tty output)",
    SIGURG 23 Ignore "Urgent I/O condition",
    SIGXCPU 24 Core "CPU time limit exceeded",
    SIGXFSZ 25 Core "File size limit exceeded",
    SIGVTALRM 26 Terminate "Virtual timer expired",
    SIGPROF 27 Terminate "Profiling timer expired",
    SIGWINCH 28 Ignore "Window changed",
    SIGIO 29 Terminate "I/O possible",
    SIGPWR 30 Terminate "Power failure",
    SIGSYS 31 Core "Bad system call",
}

impl Signal {
    /// First real-time signal as the kernel counts (C libraries reserve some).
    pub const SIGRTMIN: Signal = Signal(32);
    /// Last real-time signal.
    pub const SIGRTMAX: Signal = Signal(64);
    /// Synonym of [`Signal::SIGIO`].
    pub const SIGPOLL: Signal = Signal::SIGIO;

    /// The signal of a number; `None` unless it is 1 to 64.
    pub const fn new(number: u64) -> Option<Signal> {
        match number {
            1..=64 => Some(Signal(number as u8)),
            _ => None,
        }
    }

    /// Signals 1 to 64 in order.
    pub fn all() -> impl Iterator<Item = Signal> {
        (1..=64).map(Signal)
    }

    /// 1 to 64.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is a real-time signal, which queues.
    pub const fn is_realtime(self) -> bool {
        self.0 >= Signal::SIGRTMIN.0
    }

    /// Whether the kernel delivers it before others because an instruction
    /// raises it (`SYNCHRONOUS_MASK`).
    pub const fn is_synchronous(self) -> bool {
        matches!(
            self,
            Signal::SIGSEGV
                | Signal::SIGBUS
                | Signal::SIGILL
                | Signal::SIGTRAP
                | Signal::SIGFPE
                | Signal::SIGSYS
        )
    }

    /// Whether a handler, ignoring and blocking are refused.
    pub const fn is_unstoppable(self) -> bool {
        matches!(self, Signal::SIGKILL | Signal::SIGSTOP)
    }

    /// What happens without a handler.
    pub fn default_action(self) -> DefaultAction {
        TABLE.get(usize::from(self.0) - 1).map_or(DefaultAction::Terminate, |row| row.1)
    }

    /// What `strsignal` says, as a shell prints when the signal ends a program.
    pub fn message(self) -> String {
        match TABLE.get(usize::from(self.0) - 1) {
            Some(row) => row.2.to_owned(),
            None => format!("Real-time signal {}", self.0 - Signal::SIGRTMIN.0),
        }
    }
}

/// `SIGSEGV`; real-time signals as strace writes them: `SIGRTMIN`, `SIGRT_1`.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.get(usize::from(self.0) - 1) {
            Some(row) => f.pad(row.0),
            None if *self == Signal::SIGRTMIN => f.pad("SIGRTMIN"),
            None => f.pad(&format!("SIGRT_{}", self.0 - Signal::SIGRTMIN.0)),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of signals in the kernel's layout: bit `n - 1` is signal `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SigSet(
    /// The 8 bytes that `rt_sigprocmask` exchanges.
    pub u64,
);

impl SigSet {
    /// No signal.
    pub const EMPTY: SigSet = SigSet(0);
    /// Every signal.
    pub const FULL: SigSet = SigSet(u64::MAX);

    /// Bytes of a set in memory; system calls refuse any other size.
    pub const SIZE: u64 = 8;

    /// The set of one signal.
    pub const fn of(signal: Signal) -> SigSet {
        SigSet(1 << (signal.0 - 1))
    }

    /// Whether `signal` is a member.
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 & SigSet::of(signal).0 != 0
    }

    /// With one more member.
    #[must_use]
    pub const fn with(self, signal: Signal) -> SigSet {
        SigSet(self.0 | SigSet::of(signal).0)
    }

    /// Without a member.
    #[must_use]
    pub const fn without(self, signal: Signal) -> SigSet {
        SigSet(self.0 & !SigSet::of(signal).0)
    }

    /// Members of either.
    #[must_use]
    pub const fn union(self, other: SigSet) -> SigSet {
        SigSet(self.0 | other.0)
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub const fn minus(self, other: SigSet) -> SigSet {
        SigSet(self.0 & !other.0)
    }

    /// A mask as the kernel accepts it: SIGKILL and SIGSTOP cannot be blocked.
    #[must_use]
    pub const fn blockable(self) -> SigSet {
        self.without(Signal::SIGKILL).without(Signal::SIGSTOP)
    }

    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::all().filter(move |s| self.contains(*s))
    }
}

impl FromIterator<Signal> for SigSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SigSet {
        signals.into_iter().fold(SigSet::EMPTY, SigSet::with)
    }
}

/// `si_code`: why a signal was sent. Positive codes come from the kernel.
pub mod code {
    /// Sent by `kill`, `raise`.
    pub const SI_USER: i32 = 0;
    /// Sent by the kernel without more to say.
    pub const SI_KERNEL: i32 = 0x80;
    /// Sent by `sigqueue`.
    pub const SI_QUEUE: i32 = -1;
    /// A POSIX timer expired.
    pub const SI_TIMER: i32 = -2;
    /// A message queue changed state.
    pub const SI_MESGQ: i32 = -3;
    /// Asynchronous I/O ended.
    pub const SI_ASYNCIO: i32 = -4;
    /// Queued SIGIO.
    pub const SI_SIGIO: i32 = -5;
    /// Sent by `tkill`, `tgkill`.
    pub const SI_TKILL: i32 = -6;

    /// SIGILL: illegal opcode.
    pub const ILL_ILLOPC: i32 = 1;
    /// SIGILL: illegal operand.
    pub const ILL_ILLOPN: i32 = 2;
    /// SIGILL: illegal addressing mode.
    pub const ILL_ILLADR: i32 = 3;
    /// SIGILL: illegal trap.
    pub const ILL_ILLTRP: i32 = 4;
    /// SIGILL: privileged opcode.
    pub const ILL_PRVOPC: i32 = 5;
    /// SIGILL: privileged register.
    pub const ILL_PRVREG: i32 = 6;
    /// SIGILL: coprocessor error.
    pub const ILL_COPROC: i32 = 7;
    /// SIGILL: internal stack error.
    pub const ILL_BADSTK: i32 = 8;

    /// SIGFPE: integer divide by zero.
    pub const FPE_INTDIV: i32 = 1;
    /// SIGFPE: integer overflow.
    pub const FPE_INTOVF: i32 = 2;
    /// SIGFPE: floating-point divide by zero.
    pub const FPE_FLTDIV: i32 = 3;
    /// SIGFPE: floating-point overflow.
    pub const FPE_FLTOVF: i32 = 4;
    /// SIGFPE: floating-point underflow.
    pub const FPE_FLTUND: i32 = 5;
    /// SIGFPE: floating-point inexact result.
    pub const FPE_FLTRES: i32 = 6;
    /// SIGFPE: floating-point invalid operation.
    pub const FPE_FLTINV: i32 = 7;
    /// SIGFPE: subscript out of range.
    pub const FPE_FLTSUB: i32 = 8;

    /// SIGSEGV: nothing is mapped there.
    pub const SEGV_MAPERR: i32 = 1;
    /// SIGSEGV: the mapping does not allow it.
    pub const SEGV_ACCERR: i32 = 2;
    /// SIGSEGV: a bound check failed.
    pub const SEGV_BNDERR: i32 = 3;
    /// SIGSEGV: a protection key forbids it.
    pub const SEGV_PKUERR: i32 = 4;
    /// SIGSEGV: control protection (shadow stack).
    pub const SEGV_CPERR: i32 = 10;

    /// SIGBUS: misaligned address.
    pub const BUS_ADRALN: i32 = 1;
    /// SIGBUS: no such physical address; beyond the end of a mapped file.
    pub const BUS_ADRERR: i32 = 2;
    /// SIGBUS: hardware error of an object.
    pub const BUS_OBJERR: i32 = 3;

    /// SIGTRAP: breakpoint.
    pub const TRAP_BRKPT: i32 = 1;
    /// SIGTRAP: single step.
    pub const TRAP_TRACE: i32 = 2;
    /// SIGTRAP: taken branch.
    pub const TRAP_BRANCH: i32 = 3;
    /// SIGTRAP: hardware breakpoint or watchpoint.
    pub const TRAP_HWBKPT: i32 = 4;
    /// SIGTRAP: perf event with `sigtrap`.
    pub const TRAP_PERF: i32 = 6;

    /// SIGCHLD: the child exited.
    pub const CLD_EXITED: i32 = 1;
    /// SIGCHLD: a signal ended it.
    pub const CLD_KILLED: i32 = 2;
    /// SIGCHLD: a signal ended it with a core file.
    pub const CLD_DUMPED: i32 = 3;
    /// SIGCHLD: a traced child trapped.
    pub const CLD_TRAPPED: i32 = 4;
    /// SIGCHLD: it stopped.
    pub const CLD_STOPPED: i32 = 5;
    /// SIGCHLD: it went on.
    pub const CLD_CONTINUED: i32 = 6;

    /// SIGSYS: a seccomp filter.
    pub const SYS_SECCOMP: i32 = 1;
    /// SIGSYS: system-call user dispatch.
    pub const SYS_USER_DISPATCH: i32 = 2;
}

/// `sa_flags` of `rt_sigaction`.
pub mod sa {
    /// No SIGCHLD when children stop.
    pub const SA_NOCLDSTOP: u64 = 0x1;
    /// Children leave no zombies.
    pub const SA_NOCLDWAIT: u64 = 0x2;
    /// The handler takes three arguments.
    pub const SA_SIGINFO: u64 = 0x4;
    /// Leave tag bits in `si_addr`.
    pub const SA_EXPOSE_TAGBITS: u64 = 0x800;
    /// `sa_restorer` is set.
    pub const SA_RESTORER: u64 = 0x0400_0000;
    /// Run on the alternate stack.
    pub const SA_ONSTACK: u64 = 0x0800_0000;
    /// Restart interrupted system calls.
    pub const SA_RESTART: u64 = 0x1000_0000;
    /// Do not block the signal in its own handler.
    pub const SA_NODEFER: u64 = 0x4000_0000;
    /// Back to the default action at delivery.
    pub const SA_RESETHAND: u64 = 0x8000_0000;

    /// `sa_handler`: default action.
    pub const SIG_DFL: u64 = 0;
    /// `sa_handler`: ignore.
    pub const SIG_IGN: u64 = 1;
}

/// `ss_flags` of `sigaltstack` and the sizes that it enforces.
pub mod ss {
    /// The thread runs on the alternate stack.
    pub const SS_ONSTACK: i32 = 1;
    /// There is no alternate stack.
    pub const SS_DISABLE: i32 = 2;
    /// Disarm the alternate stack while a handler runs on it.
    pub const SS_AUTODISARM: i32 = 1 << 31;
    /// Smallest stack in bytes: x86_64 (a signal frame may need more).
    pub const MINSIGSTKSZ_X86_64: u64 = 2048;
    /// Smallest stack in bytes: aarch64.
    pub const MINSIGSTKSZ_AARCH64: u64 = 5120;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(Signal::new(11), Some(Signal::SIGSEGV));
        assert_eq!(Signal::new(0), None);
        assert_eq!(Signal::new(65), None);
        let names: Vec<String> = Signal::all().map(|s| s.to_string()).collect();
        assert_eq!((names[10].as_str(), names[16].as_str()), ("SIGSEGV", "SIGCHLD"));
        assert_eq!((names[31].as_str(), names[63].as_str()), ("SIGRTMIN", "SIGRT_32"));
        assert_eq!(Signal::SIGRTMAX.message(), "Real-time signal 32");
        assert_eq!(Signal::SIGSEGV.message(), "Segmentation fault");
    }

    #[test]
    fn default_actions() {
        assert_eq!(Signal::SIGTERM.default_action(), DefaultAction::Terminate);
        assert_eq!(Signal::SIGSEGV.default_action(), DefaultAction::Core);
        assert_eq!(Signal::SIGCHLD.default_action(), DefaultAction::Ignore);
        assert_eq!(Signal::SIGTSTP.default_action(), DefaultAction::Stop);
        assert_eq!(Signal::SIGCONT.default_action(), DefaultAction::Continue);
        assert_eq!(Signal::SIGRTMAX.default_action(), DefaultAction::Terminate);
    }

    #[test]
    fn sets_number_bits_from_signal_one() {
        let set: SigSet = [Signal::SIGHUP, Signal::SIGKILL, Signal::SIGRTMAX].into_iter().collect();
        assert_eq!(set.0, 1 | 1 << 8 | 1 << 63);
        assert_eq!(set.blockable().iter().collect::<Vec<_>>(), [Signal::SIGHUP, Signal::SIGRTMAX]);
        assert_eq!(SigSet::FULL.minus(SigSet::FULL), SigSet::EMPTY);
        assert!(SigSet::EMPTY.with(Signal::SIGINT).without(Signal::SIGINT).is_empty());
    }
}
