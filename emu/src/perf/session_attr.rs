//! `struct perf_event_attr`: how each event of a session was opened.

use arch::Arch;

use crate::perf::abi::{ATTR_SIZE, event_type, flag, read_format, sample_type};
use crate::perf::breakpoint::Breakpoint;
use crate::perf::formats;
use crate::perf::record::{Event, EventKind, Rate, Session, UserStack};

/// Mask of the link register in `sample_regs_user` (`PERF_REG_ARM64_LR`).
const REGS_USER_LR: u64 = 1 << 30;

/// One event's attribute, reduced to what the writer sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The id that its records carry. One per event: ids need not tell CPUs apart.
    pub id: u64,
    /// Name as typed.
    pub name: String,
    /// `type`
    pub kind: u32,
    /// `config`
    pub config: u64,
    /// `sample_period` or `sample_freq`
    pub period_or_freq: u64,
    /// `sample_type`
    pub sample_type: u64,
    /// The bit fields at offset 40.
    pub flags: u64,
    /// `sample_regs_user`
    pub regs_user: u64,
    /// `sample_stack_user`, bytes
    pub stack_user: u16,
    /// `bp_type`, `bp_addr`, `bp_len`
    pub breakpoint: Option<Breakpoint>,
    /// `sample_max_stack`
    pub max_stack: u16,
}

impl Attr {
    /// The attributes of all events of `session`, in order.
    pub fn all(session: &Session) -> Vec<Attr> {
        let several = session.events.len() > 1;
        let mut attrs: Vec<Attr> = (1..)
            .zip(&session.events)
            .map(|(id, event)| Attr::new(session.arch, event, id, several))
            .collect();
        // perf switches the events of CPUs on itself, and these have no children.
        let without = match (session.system_wide(), session.no_inherit) {
            (true, _) => flag::INHERIT | flag::ENABLE_ON_EXEC,
            (false, true) => flag::INHERIT,
            (false, false) => 0,
        };
        attrs.iter_mut().for_each(|attr| attr.flags &= !without);
        if let (Some(first), true) = (attrs.first_mut(), session.wants_data_mappings()) {
            first.flags |= flag::MMAP_DATA;
        }
        attrs
    }

    fn new(arch: Arch, event: &Event, id: u64, several: bool) -> Attr {
        let (kind, config) = kind_and_config(event.kind);
        let mut sample_type = sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU
            | sample_type::PERIOD;
        if event.callchain {
            sample_type |= sample_type::CALLCHAIN;
        }
        if kind == event_type::TRACEPOINT {
            sample_type |= sample_type::RAW;
        }
        if several {
            // A reader finds the event of a record by its id before it knows the
            // record's layout: the id must be at the same place for all events.
            sample_type |= sample_type::IDENTIFIER;
        }
        let (mut regs_user, mut stack_user) = (0, 0);
        match event.user_stack {
            UserStack::Dump(size) if event.callchain => {
                sample_type |= sample_type::REGS_USER | sample_type::STACK_USER;
                (regs_user, stack_user) = (arch.perf_regs_mask(), size);
            }
            // A tool repairs the caller of a leaf function from it.
            UserStack::FramePointer if event.callchain && arch == Arch::Aarch64 => {
                sample_type |= sample_type::REGS_USER;
                regs_user = REGS_USER_LR;
            }
            _ => {}
        }
        let (period_or_freq, freq) = match event.rate {
            Rate::Period(n) => (n, 0),
            Rate::Frequency(n) => (n, flag::FREQ),
        };
        Attr {
            id,
            name: event.name.clone(),
            kind,
            config,
            period_or_freq,
            sample_type,
            flags: flags(event, id == 1) | freq,
            regs_user,
            stack_user,
            breakpoint: match event.kind {
                EventKind::Breakpoint(breakpoint) => Some(breakpoint),
                _ => None,
            },
            max_stack: event.max_stack,
        }
    }

    /// Whether its samples have all of `bits` of `sample_type`.
    pub fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    /// The [`ATTR_SIZE`] bytes of the structure.
    pub fn bytes(&self) -> Vec<u8> {
        let mut b = Vec::with_capacity(ATTR_SIZE as usize);
        b.extend(self.kind.to_le_bytes());
        b.extend(ATTR_SIZE.to_le_bytes());
        b.extend(self.config.to_le_bytes());
        b.extend(self.period_or_freq.to_le_bytes());
        b.extend(self.sample_type.to_le_bytes());
        b.extend(read_format::ID.to_le_bytes());
        b.extend(self.flags.to_le_bytes());
        b.resize(52, 0); // wakeup_events
        let (kind, addr, len) =
            self.breakpoint.map_or((0, 0, 0), |b| (b.trapped as u32, b.addr, b.len));
        b.extend(kind.to_le_bytes());
        b.extend(addr.to_le_bytes());
        b.extend(len.to_le_bytes());
        b.resize(80, 0); // branch_sample_type
        b.extend(self.regs_user.to_le_bytes());
        b.extend(u32::from(self.stack_user).to_le_bytes());
        b.resize(108, 0); // clockid to aux_watermark
        b.extend(self.max_stack.to_le_bytes());
        b.resize(ATTR_SIZE as usize, 0);
        b
    }
}

fn kind_and_config(kind: EventKind) -> (u32, u64) {
    match kind {
        EventKind::Cycles => (event_type::HARDWARE, 0),
        EventKind::Instructions => (event_type::HARDWARE, 1),
        EventKind::Branches => (event_type::HARDWARE, 4),
        EventKind::CpuClock => (event_type::SOFTWARE, 0),
        EventKind::TaskClock => (event_type::SOFTWARE, 1),
        EventKind::PageFaults => (event_type::SOFTWARE, 2),
        EventKind::ContextSwitches => (event_type::SOFTWARE, 3),
        EventKind::Dummy => (event_type::SOFTWARE, 9),
        EventKind::Breakpoint(_) => (event_type::BREAKPOINT, 0),
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
        | EventKind::Kprobe(_) => {
            (event_type::TRACEPOINT, u64::from(formats::id(kind).unwrap_or_default()))
        }
    }
}

/// The flags that `perf record COMMAND` sets. Only the first event asks for the
/// records that track tasks and mappings: one copy of each is enough.
fn flags(event: &Event, first: bool) -> u64 {
    let mut flags = flag::DISABLED | flag::INHERIT | flag::ENABLE_ON_EXEC | flag::SAMPLE_ID_ALL;
    if event.exclude_user {
        flags |= flag::EXCLUDE_USER;
    }
    if event.exclude_kernel {
        flags |= flag::EXCLUDE_KERNEL;
    }
    if event.exclude_user || event.exclude_kernel {
        flags |= flag::EXCLUDE_HV; // perf's :u and :k name one level each
    }
    if event.callchain && event.exclude_callchain_user {
        flags |= flag::EXCLUDE_CALLCHAIN_USER;
    }
    if event.callchain && event.exclude_callchain_kernel {
        flags |= flag::EXCLUDE_CALLCHAIN_KERNEL;
    }
    if event.defer {
        // Nothing is asked for without a user part; the event listens all the same.
        if !event.exclude_callchain_user {
            flags |= flag::DEFER_CALLCHAIN;
        }
        if first {
            flags |= flag::DEFER_OUTPUT;
        }
    }
    if first {
        flags |= flag::MMAP
            | flag::COMM
            | flag::TASK
            | flag::MMAP2
            | flag::COMM_EXEC
            | flag::KSYMBOL
            | flag::BUILD_ID;
    }
    flags
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::testing::{event, session};

    #[test]
    fn layout_of_a_cycles_event_on_aarch64() {
        let mut e = event(EventKind::Cycles, "cycles:u");
        e.exclude_kernel = true;
        e.max_stack = 0x1234;
        let attrs = Attr::all(&session(Arch::Aarch64, vec![e]));
        let b = attrs[0].bytes();
        assert_eq!(b.len(), 128);
        assert_eq!(b[0..8], [0, 0, 0, 0, 128, 0, 0, 0]); // type, size
        assert_eq!(b[16..24], 1000u64.to_le_bytes());
        // IP TID TIME CALLCHAIN CPU PERIOD REGS_USER
        assert_eq!(b[24..32], 0x11a7u64.to_le_bytes());
        assert_eq!(b[32..40], 4u64.to_le_bytes());
        let flags = 0b11 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 18;
        let flags: u64 = flags | 1 << 23 | 1 << 24 | 1 << 29 | 1 << 34;
        assert_eq!(b[40..48], flags.to_le_bytes());
        assert_eq!(b[80..88], 0x4000_0000u64.to_le_bytes());
        assert_eq!(b[108..110], [0x34, 0x12]);
    }

    #[test]
    fn several_events_share_the_position_of_the_id() {
        let attrs = Attr::all(&session(
            Arch::X86_64,
            vec![
                event(EventKind::Cycles, "cycles"),
                event(EventKind::SysEnter, "raw_syscalls:sys_enter"),
            ],
        ));
        assert!(attrs.iter().all(|a| a.samples(sample_type::IDENTIFIER)));
        assert!(!attrs[0].samples(sample_type::RAW));
        assert!(attrs[1].samples(sample_type::RAW));
        assert_eq!(attrs[1].flags & flag::COMM, 0);
        assert_eq!((attrs[0].id, attrs[1].id), (1, 2));
    }

    #[test]
    fn a_frequency_sets_the_flag() {
        let mut e = event(EventKind::CpuClock, "cpu-clock");
        e.rate = Rate::Frequency(997);
        let attrs = Attr::all(&session(Arch::X86_64, vec![e]));
        assert_eq!(attrs[0].flags & flag::FREQ, flag::FREQ);
        assert_eq!(attrs[0].period_or_freq, 997);
        assert!(!attrs[0].samples(sample_type::IDENTIFIER));
    }
}
