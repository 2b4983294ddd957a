//! Event selection: the words of `perf list`.

use crate::perf::record::{Event, EventKind, Rate};

/// Names that select an event, with the spellings that perf also takes.
const NAMES: &[(&str, EventKind)] = &[
    ("cycles", EventKind::Cycles),
    ("cpu-cycles", EventKind::Cycles),
    ("instructions", EventKind::Instructions),
    ("branches", EventKind::Branches),
    ("branch-instructions", EventKind::Branches),
    ("cpu-clock", EventKind::CpuClock),
    ("page-faults", EventKind::PageFaults),
    ("faults", EventKind::PageFaults),
    ("context-switches", EventKind::ContextSwitches),
    ("cs", EventKind::ContextSwitches),
    ("raw_syscalls:sys_enter", EventKind::SysEnter),
    ("raw_syscalls:sys_exit", EventKind::SysExit),
];

/// Why an event list was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No such event.
    #[error("unknown event {name:?}; there are: {}", known())]
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
    /// Nothing between two commas, or nothing at all.
    #[error("empty event name; see `emu run --help`")]
    Empty,
}

fn known() -> String {
    let mut names: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
    names.sort_unstable();
    names.join(", ")
}

impl EventKind {
    /// Counted by the PMU; overflows as an NMI (or IRQ).
    pub const fn is_hardware(self) -> bool {
        matches!(self, EventKind::Cycles | EventKind::Instructions | EventKind::Branches)
    }

    /// A tracepoint.
    pub const fn is_tracepoint(self) -> bool {
        matches!(self, EventKind::SysEnter | EventKind::SysExit)
    }

    /// The rate when neither `-c` nor `-F` was given, from perf's default frequency:
    /// tracepoints sample every occurrence.
    const fn default_rate(self, rate: Rate) -> Rate {
        if self.is_tracepoint() { Rate::Period(1) } else { rate }
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
    /// `--call-graph fp,defer`
    pub defer: bool,
    /// `--max-stack`, 0 if not given.
    pub max_stack: u16,
}

/// Parses a comma-separated list as `-e` takes it. `:` may be part of a tracepoint's
/// name, so a modifier is what follows the last `:` after a known name.
pub fn parse(list: &str, defaults: Defaults) -> Result<Vec<Event>, EventError> {
    list.split(',').map(|name| parse_one(name.trim(), defaults)).collect()
}

fn parse_one(name: &str, defaults: Defaults) -> Result<Event, EventError> {
    if name.is_empty() {
        return Err(EventError::Empty);
    }
    let find = |n: &str| NAMES.iter().find(|(known, _)| *known == n).map(|(_, kind)| *kind);
    let unknown = || EventError::Unknown { name: name.to_owned() };
    let (kind, modifiers) = match (find(name), name.rsplit_once(':')) {
        (Some(kind), _) => (kind, ""),
        (None, Some((base, modifiers))) => (find(base).ok_or_else(unknown)?, modifiers),
        (None, None) => return Err(unknown()),
    };
    let (mut user, mut kernel) = (false, false);
    for modifier in modifiers.chars() {
        match modifier {
            'u' => user = true,
            'k' => kernel = true,
            _ => return Err(EventError::Modifier { name: name.to_owned(), modifier }),
        }
    }
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
        defer: defaults.defer,
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
        defer: false,
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
    fn errors_name_the_word() {
        assert_eq!(parse("cycles,", DEFAULTS), Err(EventError::Empty));
        let error = parse("cycels", DEFAULTS).unwrap_err().to_string();
        assert!(error.contains("cycels") && error.contains("page-faults"), "{error}");
        let error = parse("cycles:q", DEFAULTS).unwrap_err().to_string();
        assert!(error.contains("'q'"), "{error}");
    }
}
