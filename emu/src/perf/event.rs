//! Event selection: the words of `perf list`.

use arch::{Arch, Sysno};

use crate::perf::breakpoint::Breakpoint;
use crate::perf::record::{Event, EventKind, Rate, UserStack};
use crate::perf::toggle::Toggle;
use crate::spelling;

/// Names that select an event, with the spellings that perf also takes.
const NAMES: &[(&str, EventKind)] = &[
    ("cycles", EventKind::Cycles),
    ("cpu-cycles", EventKind::Cycles),
    ("instructions", EventKind::Instructions),
    ("branches", EventKind::Branches),
    ("branch-instructions", EventKind::Branches),
    ("cpu-clock", EventKind::CpuClock),
    ("task-clock", EventKind::TaskClock),
    ("page-faults", EventKind::PageFaults),
    ("faults", EventKind::PageFaults),
    ("context-switches", EventKind::ContextSwitches),
    ("cs", EventKind::ContextSwitches),
    ("raw_syscalls:sys_enter", EventKind::SysEnter),
    ("raw_syscalls:sys_exit", EventKind::SysExit),
    ("signal:signal_generate", EventKind::SignalGenerate),
    ("signal:signal_deliver", EventKind::SignalDeliver),
    ("sched:sched_process_exit", EventKind::ProcessExit),
    ("sched:sched_process_fork", EventKind::ProcessFork),
    ("sched:sched_process_exec", EventKind::ProcessExec),
    ("sched:sched_switch", EventKind::SchedSwitch),
    ("sched:sched_waking", EventKind::SchedWaking),
    ("x86_fpu:x86_fpu_regs_activated", EventKind::FpuRegsActivated),
    ("preemptirq:irq_disable", EventKind::Preemptirq(Toggle::IrqDisable)),
    ("preemptirq:irq_enable", EventKind::Preemptirq(Toggle::IrqEnable)),
    ("preemptirq:preempt_disable", EventKind::Preemptirq(Toggle::PreemptDisable)),
    ("preemptirq:preempt_enable", EventKind::Preemptirq(Toggle::PreemptEnable)),
];

/// Before the name of a system call.
const ENTER: &str = "syscalls:sys_enter_";
const EXIT: &str = "syscalls:sys_exit_";
/// Events that a session can have: each needs a descriptor, of which a process may have 1,024
/// (`RLIMIT_NOFILE`).
pub const MOST: usize = 1024;
/// Before the words of a breakpoint.
pub const MEM: &str = "mem:";

/// Why an event list was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No such event.
    #[error("unknown event {name:?}; {}", others(name))]
    Unknown {
        /// As typed.
        name: String,
    },
    /// A modifier other than `u` and `k`.
    #[error(
        "event {name:?}: unknown modifier {modifier:?}; use :u (user only) or :k (kernel only)"
    )]
    Modifier {
        /// As typed.
        name: String,
        /// The letter.
        modifier: char,
    },
    /// A colon with no modifier behind it.
    #[error("event {name:?}: nothing is behind the colon; use :u (user only) or :k (kernel only)")]
    NoModifier {
        /// As typed.
        name: String,
    },
    /// A probe without a place.
    #[error(
        "event {name:?}: where? A probe is kprobe:FUNCTION, or uprobe: or uretprobe: with SYMBOL or \
         0xADDRESS"
    )]
    NoPlace {
        /// As typed.
        name: String,
    },
    /// More than [`MOST`].
    #[error("{count} events; perf could open {MOST} at most (EMFILE)")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A tracepoint of a system call that the architecture does not have.
    #[error("event {name:?}: {arch} has no system call {call}; see --arch")]
    NotOnArch {
        /// As typed.
        name: String,
        /// The guest's architecture.
        arch: Arch,
        /// The call.
        call: Sysno,
    },
    /// A tracepoint of x86_64 alone.
    #[error("event {name:?}: {arch} has no such tracepoint; see --arch")]
    OfX86 {
        /// As typed.
        name: String,
        /// The guest's architecture.
        arch: Arch,
    },
    /// No words of a breakpoint.
    #[error("event {name:?}: a breakpoint is mem:ADDRESS[/LENGTH][:r|w|rw|x][:u|k]")]
    Breakpoint {
        /// As typed.
        name: String,
    },
    /// Nothing between two commas, or nothing at all.
    #[error("empty event name; see `emu run --help`")]
    Empty,
}

/// What could have been meant by `name`, and what there is.
fn others(name: &str) -> String {
    let near = nearest(name);
    if !near.is_empty() {
        return format!("nearest: {}", near.join(", "));
    }
    if let Some(call) = [ENTER, EXIT].into_iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return format!("Linux has no system call {call:?} on x86_64 or aarch64");
    }
    let mut names: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
    names.sort_unstable();
    format!(
        "there are: {}, {ENTER}NAME, {EXIT}NAME, uprobe:PLACE, uretprobe:PLACE, kprobe:FUNCTION, \
         mem:ADDRESS[/LENGTH][:r|w|rw|x]",
        names.join(", ")
    )
}

/// The names that differ least from `name`, at most three, none if all differ much.
fn nearest(name: &str) -> Vec<String> {
    const MOST: usize = 3;
    let calls = Sysno::ALL.iter().flat_map(|s| [format!("{ENTER}{s}"), format!("{EXIT}{s}")]);
    let all = NAMES.iter().map(|(n, _)| (*n).to_owned()).chain(calls);
    spelling::nearest(name, all, |distance, _| distance <= MOST)
}

/// The event of this name. Where a probe is, is known once the guest is loaded.
fn find(name: &str) -> Option<EventKind> {
    if let Some((_, kind)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*kind);
    }
    let enter = || name.strip_prefix(ENTER).and_then(Sysno::from_name).map(EventKind::SysEnterOf);
    let exit = || name.strip_prefix(EXIT).and_then(Sysno::from_name).map(EventKind::SysExitOf);
    let probe = |prefix: &str| name.strip_prefix(prefix).is_some_and(|place| !place.is_empty());
    enter().or_else(exit).or_else(|| match () {
        () if probe("uprobe:") => Some(EventKind::Uprobe(u16::MAX)),
        () if probe("uretprobe:") => Some(EventKind::Uretprobe(u16::MAX)),
        () if probe("kprobe:") => Some(EventKind::Kprobe(u16::MAX)),
        () if probe(MEM) => {
            let (_, breakpoint) = Breakpoint::parse(name.strip_prefix(MEM)?)?;
            Some(EventKind::Breakpoint(breakpoint))
        }
        () => None,
    })
}

impl EventKind {
    /// Counted by the PMU; overflows as an NMI (or IRQ).
    pub const fn is_hardware(self) -> bool {
        matches!(self, EventKind::Cycles | EventKind::Instructions | EventKind::Branches)
    }

    /// A timer's interrupts are its samples.
    pub const fn is_clock(self) -> bool {
        matches!(self, EventKind::CpuClock | EventKind::TaskClock)
    }

    /// Its samples are interrupts, of which there may be too many in a tick.
    pub const fn interrupts(self) -> bool {
        self.is_hardware() || self.is_clock()
    }

    /// A tracepoint.
    pub const fn is_tracepoint(self) -> bool {
        match self {
            EventKind::SysEnter
            | EventKind::SysExit
            | EventKind::SysEnterOf(_)
            | EventKind::SysExitOf(_)
            | EventKind::SignalGenerate
            | EventKind::SignalDeliver
            | EventKind::ProcessExit
            | EventKind::ProcessFork
            | EventKind::ProcessExec
            | EventKind::SchedSwitch
            | EventKind::SchedWaking
            | EventKind::Preemptirq(_)
            | EventKind::FpuRegsActivated
            | EventKind::Uprobe(_)
            | EventKind::Uretprobe(_)
            | EventKind::Kprobe(_) => true,
            EventKind::Cycles
            | EventKind::Instructions
            | EventKind::Branches
            | EventKind::CpuClock
            | EventKind::TaskClock
            | EventKind::PageFaults
            | EventKind::ContextSwitches
            | EventKind::Dummy
            | EventKind::Breakpoint(_) => false,
        }
    }

    /// A tracepoint whose raw data anybody may have of his own tasks (`TRACE_EVENT_FL_CAP_ANY`).
    pub const fn is_for_anybody(self) -> bool {
        matches!(
            self,
            EventKind::SysEnter
                | EventKind::SysExit
                | EventKind::SysEnterOf(_)
                | EventKind::SysExitOf(_)
        )
    }

    /// The rate when neither `-c` nor `-F` was given, from perf's default frequency:
    /// tracepoints and breakpoints sample every occurrence.
    const fn default_rate(self, rate: Rate) -> Rate {
        let every = self.is_tracepoint() || matches!(self, EventKind::Breakpoint(_));
        if every { Rate::Period(1) } else { rate }
    }
}

/// How events are opened: what `-c`, `-F`, `-g` and `--max-stack` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Rate for events that do not have one of their own.
    pub rate: Rate,
    /// `-c` or `-F` was given, so that it holds for tracepoints too.
    pub explicit: bool,
    /// `-g`
    pub callchain: bool,
    /// `--kernel-callchains`
    pub exclude_callchain_user: bool,
    /// `--user-callchains`
    pub exclude_callchain_kernel: bool,
    /// `--call-graph fp,defer`
    pub defer: bool,
    /// What else `--call-graph` said.
    pub user_stack: UserStack,
    /// `--max-stack`, 0 if not given.
    pub max_stack: u16,
}

/// Parses a comma-separated list as `-e` takes it. `:` may be part of a tracepoint's
/// name, so a modifier is what follows the last `:` after a known name.
pub fn parse(list: &str, defaults: Defaults) -> Result<Vec<Event>, EventError> {
    list.split(',').map(|name| parse_one(name.trim(), defaults)).collect()
}

/// Refuses tracepoints of system calls that `arch` does not have.
///
/// # Errors
///
/// [`EventError::NotOnArch`], [`EventError::OfX86`]
pub fn check(events: &[Event], arch: Arch) -> Result<(), EventError> {
    for event in events {
        if event.kind == EventKind::FpuRegsActivated && arch != Arch::X86_64 {
            return Err(EventError::OfX86 { name: event.name.clone(), arch });
        }
        let (EventKind::SysEnterOf(call) | EventKind::SysExitOf(call)) = event.kind else {
            continue;
        };
        if call.nr(arch).is_none() {
            return Err(EventError::NotOnArch { name: event.name.clone(), arch, call });
        }
    }
    Ok(())
}

/// What a word selects, and its modifiers: `u` and `k`.
fn select(word: &str) -> Result<(EventKind, bool, bool), EventError> {
    let name = || word.to_owned();
    let unknown = || match word {
        "" => EventError::Empty,
        "kprobe:" | "uprobe:" | "uretprobe:" => EventError::NoPlace { name: name() },
        _ if word.starts_with(MEM) => EventError::Breakpoint { name: name() },
        _ => EventError::Unknown { name: name() },
    };
    if let Some(kind) = find(word) {
        return Ok((kind, false, false));
    }
    let (base, modifiers) = word.rsplit_once(':').ok_or_else(unknown)?;
    let kind = find(base).ok_or_else(unknown)?;
    if modifiers.is_empty() {
        return Err(EventError::NoModifier { name: name() });
    }
    match modifiers.chars().find(|c| !['u', 'k'].contains(c)) {
        Some(_) if word.starts_with(MEM) => Err(EventError::Breakpoint { name: name() }),
        Some(modifier) => Err(EventError::Modifier { name: name(), modifier }),
        None => Ok((kind, modifiers.contains('u'), modifiers.contains('k'))),
    }
}

fn parse_one(name: &str, defaults: Defaults) -> Result<Event, EventError> {
    let (kind, user, kernel) = select(name)?;
    // The tool unwinds the copy, so that the kernel is not to walk the stack.
    let is_dump = matches!(defaults.user_stack, UserStack::Dump(_));
    // No modifier means both.
    let both = user == kernel;
    let rate = if defaults.explicit { defaults.rate } else { kind.default_rate(defaults.rate) };
    Ok(Event {
        kind,
        name: name.to_owned(),
        rate,
        exclude_user: !both && kernel,
        exclude_kernel: !both && user,
        callchain: defaults.callchain,
        exclude_callchain_user: defaults.exclude_callchain_user || is_dump,
        exclude_callchain_kernel: defaults.exclude_callchain_kernel,
        defer: defaults.defer,
        user_stack: defaults.user_stack,
        max_stack: defaults.max_stack,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults = Defaults {
        rate: Rate::Frequency(4000),
        explicit: false,
        callchain: true,
        exclude_callchain_user: false,
        exclude_callchain_kernel: false,
        defer: false,
        user_stack: UserStack::FramePointer,
        max_stack: 0,
    };

    #[test]
    fn names_and_modifiers() {
        let events = parse("cycles:u,raw_syscalls:sys_enter,faults:k,instructions:uk", DEFAULTS);
        let events = events.unwrap();
        assert_eq!(events[0].kind, EventKind::Cycles);
        assert!(events[0].exclude_kernel && !events[0].exclude_user);
        assert_eq!(events[1].kind, EventKind::SysEnter);
        assert_eq!(events[1].rate, Rate::Period(1));
        assert!(events[2].exclude_user);
        assert!(!events[3].exclude_user && !events[3].exclude_kernel);
    }

    #[test]
    fn tracepoints_of_system_calls() {
        let events = parse("syscalls:sys_enter_getpid,syscalls:sys_exit_read:u", DEFAULTS).unwrap();
        assert_eq!(events[0].kind, EventKind::SysEnterOf(Sysno::Getpid));
        assert_eq!(events[1].kind, EventKind::SysExitOf(Sysno::Read));
        assert!(events[1].exclude_kernel && events[1].kind.is_tracepoint());
        let error = parse("syscalls:sys_enter_getpd", DEFAULTS).unwrap_err().to_string();
        assert!(error.contains("nearest: syscalls:sys_enter_getpid"), "{error}");
        let open = parse("syscalls:sys_exit_open", DEFAULTS).unwrap();
        assert_eq!(check(&open, Arch::X86_64), Ok(()));
        let error = check(&open, Arch::Aarch64).unwrap_err().to_string();
        assert!(error.contains("aarch64 has no system call open"), "{error}");
    }

    #[test]
    fn errors_name_the_word() {
        assert_eq!(parse("cycles,", DEFAULTS), Err(EventError::Empty));
        for (word, told) in [
            ("cycles:", "nothing is behind the colon"),
            ("kprobe:", "where?"),
            ("uretprobe:", "where?"),
            ("mem:401000:q", "a breakpoint is mem:"),
            ("mem:", "a breakpoint is mem:"),
        ] {
            let error = parse(word, DEFAULTS).map_err(|e| e.to_string());
            assert!(error.is_err_and(|e| e.contains(told)), "{word}");
        }
        let error = parse("cycels", DEFAULTS).unwrap_err().to_string();
        assert_eq!(error, "unknown event \"cycels\"; nearest: cycles");
        let error = parse("syscalls:sys_exit_frobnicate", DEFAULTS).unwrap_err().to_string();
        assert!(error.ends_with("; Linux has no system call \"frobnicate\" on x86_64 or aarch64"));
        let error = parse("L1-dcache-loads", DEFAULTS).unwrap_err().to_string();
        assert!(error.contains("page-faults") && error.contains("sys_enter_NAME"), "{error}");
        let error = parse("cycles:q", DEFAULTS).unwrap_err().to_string();
        assert!(error.contains("'q'"), "{error}");
    }
}
