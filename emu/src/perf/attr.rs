//! `struct perf_event_attr` as a guest hands it to `perf_event_open`: what it says, and which
//! of it the kernel refuses, with which error (`perf_copy_attr`, `perf_event_alloc` and the
//! `event_init` of each PMU in Linux 7.3).
//!
//! ```text
//! bytes ─► Attr::parse ─► check_rights ─► kind ─► event
//!            E2BIG, EINVAL    EACCES        ENOENT, EOPNOTSUPP …
//! ```

use arch::{Arch, Errno};

use crate::perf::abi::{
    ATTR_SIZE_VER0, SAMPLE_TYPES, branch, event_type, flag, read_format, sample_type,
};
use crate::perf::breakpoint::{Breakpoint, Trapped};
use crate::perf::callchain::MAX_STACK;
use crate::perf::formats;
use crate::perf::pmu::MAX_SAMPLE_RATE;
use crate::perf::record::{Event, EventKind, Rate, UserStack};

/// Bytes of the structure that Linux 7.3 knows.
pub const SIZE: usize = 144;
/// Longest that is taken: what lies beyond [`SIZE`] must be zeros.
const LONGEST: usize = 4096;
/// The period of an event that does not sample: it never overflows.
const COUNTS_ONLY: u64 = i64::MAX as u64;
/// `PERF_COUNT_HW_MAX`
const HARDWARE_EVENTS: u64 = 10;
/// `PERF_COUNT_SW_DUMMY`
const DUMMY: u64 = 9;

/// Why an event cannot be opened with these attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttrError {
    /// `E2BIG`
    #[error(
        "size is below 64, above a page, or there are non-zero bytes behind {SIZE}; use {SIZE}"
    )]
    Size,
    /// `EINVAL`
    #[error("{0}")]
    Invalid(&'static str),
    /// `EACCES`
    #[error("{0} needs kernel.perf_event_paranoid={1} or less; exclude it, or set --sysctl")]
    NoAccess(&'static str, i32),
    /// `EPERM`
    #[error("raw data of this tracepoint needs kernel.perf_event_paranoid=-1; see --sysctl")]
    NotPermitted,
    /// `ENOENT`
    #[error("no PMU of the machine counts type {0}, config {1:#x}")]
    NoEvent(u32, u64),
    /// `EOPNOTSUPP`
    #[error("{0}: the machine's PMUs cannot do it")]
    Unsupported(&'static str),
    /// `EOVERFLOW`
    #[error("sample_max_stack is above kernel.perf_event_max_stack = {0}; see --sysctl")]
    MaxStack(u32),
    /// `ENOSPC`
    #[error("the processor has no breakpoint left of {}", Breakpoint::SLOTS)]
    NoSlot,
    /// `EPERM`
    #[error("a breakpoint in kernel memory needs CAP_SYS_ADMIN")]
    KernelBreakpoint,
    /// `EINVAL`
    #[error("the frequency is above kernel.perf_event_max_sample_rate = {0}; see --sysctl")]
    MaxRate(u64),
}

impl AttrError {
    /// The kernel's answer.
    pub const fn errno(self) -> Errno {
        match self {
            AttrError::Size => Errno::E2BIG,
            AttrError::Invalid(_) | AttrError::MaxRate(_) => Errno::EINVAL,
            AttrError::NoAccess(..) => Errno::EACCES,
            AttrError::NotPermitted | AttrError::KernelBreakpoint => Errno::EPERM,
            AttrError::NoSlot => Errno::ENOSPC,
            AttrError::NoEvent(..) => Errno::ENOENT,
            AttrError::Unsupported(_) => Errno::EOPNOTSUPP,
            AttrError::MaxStack(_) => Errno::EOVERFLOW,
        }
    }
}

/// What a task may measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// `sysctl kernel.perf_event_paranoid`
    pub paranoid: i32,
    /// It has `CAP_PERFMON`.
    pub capable: bool,
    /// `sysctl kernel.perf_event_max_stack`
    pub max_stack: u32,
    /// `sysctl kernel.perf_event_max_sample_rate`
    pub max_rate: u64,
}

impl Rights {
    /// An ordinary user's where no `sysctl` was changed.
    pub const USER: Rights = Rights {
        paranoid: 2,
        capable: false,
        max_stack: MAX_STACK as u32,
        max_rate: MAX_SAMPLE_RATE,
    };

    const fn frequency(self, frequency: u64) -> Result<(), AttrError> {
        if frequency > self.max_rate { Err(AttrError::MaxRate(self.max_rate)) } else { Ok(()) }
    }

    const fn at_most(self, most: i32) -> bool {
        self.capable || self.paranoid <= most
    }

    /// `perf_allow_kernel`, with what is wanted.
    const fn kernel(self, what: &'static str) -> Result<(), AttrError> {
        if self.at_most(1) { Ok(()) } else { Err(AttrError::NoAccess(what, 1)) }
    }

    /// `perf_allow_cpu`: events of a CPU, whoever runs there.
    pub const fn cpu(self) -> Result<(), AttrError> {
        if self.at_most(0) { Ok(()) } else { Err(AttrError::NoAccess("a CPU's event", 0)) }
    }

    const fn tracepoint(self) -> Result<(), AttrError> {
        if self.at_most(-1) { Ok(()) } else { Err(AttrError::NotPermitted) }
    }
}

/// The clock of an event's times (`use_clockid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Since the boot: `local_clock`, `CLOCK_MONOTONIC`, `CLOCK_MONOTONIC_RAW`, `CLOCK_BOOTTIME`.
    Boot,
    /// Since the epoch: `CLOCK_REALTIME`, `CLOCK_TAI`.
    Epoch,
}

/// The attributes, checked for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// `type`
    pub kind: u32,
    /// `config`
    pub config: u64,
    /// `sample_period` or `sample_freq`
    pub period_or_freq: u64,
    /// `sample_type`
    pub sample_type: u64,
    /// `read_format`
    pub read_format: u64,
    /// The bit fields at offset 40.
    pub flags: u64,
    /// `wakeup_events` or `wakeup_watermark`
    pub wakeup: u32,
    /// `bp_type`
    pub bp_type: u32,
    /// `bp_addr`
    pub bp_addr: u64,
    /// `bp_len`
    pub bp_len: u64,
    /// `branch_sample_type`, with the event's levels if it has none.
    pub branch: u64,
    /// `sample_regs_user`
    pub regs_user: u64,
    /// `sample_stack_user` in bytes.
    pub stack_user: u32,
    /// `clockid`
    pub clockid: i32,
    /// `sample_regs_intr`
    pub regs_intr: u64,
    /// `sample_max_stack`, never 0.
    pub max_stack: u16,
    /// `aux_start_paused`, `aux_pause`, `aux_resume`.
    pub aux_action: u32,
}

impl Attr {
    /// The size that `bytes`, at least 8, say at offset 4; 0 stands for the first version.
    ///
    /// # Errors
    ///
    /// [`AttrError::Size`]
    pub fn size(bytes: &[u8; 8]) -> Result<usize, AttrError> {
        let size = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        match size as usize {
            0 => Ok(ATTR_SIZE_VER0 as usize),
            size if (ATTR_SIZE_VER0 as usize..=LONGEST).contains(&size) => Ok(size),
            _ => Err(AttrError::Size),
        }
    }

    /// `perf_copy_attr`: a structure of as many bytes as [`Attr::size`] says; shorter ones go on
    /// with zeros.
    ///
    /// # Errors
    ///
    /// [`AttrError`], of several the one that the kernel finds first.
    pub fn parse(bytes: &[u8], arch: Arch, rights: Rights) -> Result<Attr, AttrError> {
        let (known, beyond) = bytes.split_at(bytes.len().min(SIZE));
        if beyond.iter().any(|&byte| byte != 0) {
            return Err(AttrError::Size);
        }
        let mut b = [0; SIZE];
        b[..known.len()].copy_from_slice(known);
        let half = |at| u16::from_le_bytes([b[at], b[at + 1]]);
        let word = |at| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = |at| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let mut attr = Attr {
            kind: word(0),
            config: long(8),
            period_or_freq: long(16),
            sample_type: long(24),
            read_format: long(32),
            flags: long(40),
            wakeup: word(48),
            bp_type: word(52),
            bp_addr: long(56),
            bp_len: long(64),
            branch: long(72),
            regs_user: long(80),
            stack_user: word(88),
            clockid: word(92) as i32,
            regs_intr: long(96),
            max_stack: half(108),
            aux_action: word(116),
        };
        let reserved = attr.has(flag::RESERVED) || half(110) != 0 || attr.aux_action > 7;
        refuse(reserved, "reserved bits are set")?;
        attr.check_words(arch, rights)?;
        if attr.max_stack == 0 {
            attr.max_stack = u16::try_from(rights.max_stack).unwrap_or(u16::MAX);
        }
        attr.check_flags()?;
        Ok(attr)
    }

    fn check_words(&mut self, arch: Arch, rights: Rights) -> Result<(), AttrError> {
        refuse(self.sample_type & !SAMPLE_TYPES != 0, "sample_type has unknown bits")?;
        refuse(self.read_format & !read_format::ALL != 0, "read_format has unknown bits")?;
        if self.samples(sample_type::BRANCH_STACK) {
            self.check_branches(rights)?;
        }
        if self.samples(sample_type::REGS_USER) {
            refuse(!registers_exist(arch, self.regs_user), "sample_regs_user")?;
        }
        if self.samples(sample_type::STACK_USER) {
            let bad = self.stack_user >= u32::from(u16::MAX) || !self.stack_user.is_multiple_of(8);
            refuse(bad, "sample_stack_user is not a multiple of 8 below 65535")?;
        }
        if self.samples(sample_type::REGS_INTR) {
            refuse(!registers_exist(arch, self.regs_intr), "sample_regs_intr")?;
        }
        let both = self.sample_type & sample_type::WEIGHT == sample_type::WEIGHT;
        refuse(both, "both forms of PERF_SAMPLE_WEIGHT")
    }

    fn check_branches(&mut self, rights: Rights) -> Result<(), AttrError> {
        refuse(self.branch & !branch::ALL != 0, "branch_sample_type has unknown bits")?;
        refuse(self.branch & !branch::LEVELS == 0, "branch_sample_type has no branch type")?;
        if self.branch & branch::LEVELS == 0 {
            let levels = [flag::EXCLUDE_USER, flag::EXCLUDE_KERNEL, flag::EXCLUDE_HV];
            for (bit, excluded) in levels.into_iter().enumerate() {
                self.branch |= u64::from(!self.has(excluded)) << bit;
            }
        }
        match self.branch & branch::PRIVILEGED {
            0 => Ok(()),
            _ => rights.kernel("branches of the kernel"),
        }
    }

    fn check_flags(&self) -> Result<(), AttrError> {
        let thread_alone = self.has(flag::INHERIT_THREAD) && !self.has(flag::INHERIT);
        refuse(thread_alone, "inherit_thread without inherit")?;
        let both = self.has(flag::REMOVE_ON_EXEC) && self.has(flag::ENABLE_ON_EXEC);
        refuse(both, "remove_on_exec with enable_on_exec")?;
        let kept = self.has(flag::SIGTRAP) && !self.has(flag::REMOVE_ON_EXEC);
        refuse(kept, "sigtrap without remove_on_exec")
    }

    /// What `perf_event_open` checks next: what the task may see, and how often it may look.
    ///
    /// # Errors
    ///
    /// [`AttrError::NoAccess`], [`AttrError::Invalid`], [`AttrError::MaxRate`]
    pub fn check_rights(&self, rights: Rights) -> Result<(), AttrError> {
        let chain = self.samples(sample_type::CALLCHAIN);
        if !self.has(flag::EXCLUDE_KERNEL) {
            rights.kernel("the kernel")?;
        }
        if chain && !self.has(flag::EXCLUDE_CALLCHAIN_KERNEL) {
            rights.kernel("the kernel's part of callchains")?;
        }
        if self.has(flag::NAMESPACES) && !rights.capable {
            return Err(AttrError::NoAccess("namespaces", i32::MIN));
        }
        match self.has(flag::FREQ) {
            true => rights.frequency(self.period_or_freq)?,
            false => refuse(self.period_or_freq >> 63 != 0, "sample_period has bit 63")?,
        }
        if self.samples(sample_type::PHYS_ADDR) {
            rights.kernel("physical addresses")?;
        }
        Ok(())
    }

    /// What is counted (`perf_init_event`), `on_task` or on a CPU.
    ///
    /// # Errors
    ///
    /// [`AttrError`] of the PMU that the type names.
    pub fn event_kind(
        &self,
        arch: Arch,
        rights: Rights,
        on_task: bool,
    ) -> Result<EventKind, AttrError> {
        let reads = self.has(flag::INHERIT) && self.samples(sample_type::READ);
        refuse(reads && !self.samples(sample_type::TID), "inherited PERF_SAMPLE_READ without TID")?;
        refuse(self.has(flag::SIGTRAP) && !on_task, "sigtrap of a CPU's event")?;
        let none = AttrError::NoEvent(self.kind, self.config);
        let kind = match self.kind {
            event_type::HARDWARE => match self.config {
                0 => EventKind::Cycles,
                1 => EventKind::Instructions,
                4 => EventKind::Branches,
                HARDWARE_EVENTS.. if self.config >> 32 == 0 => {
                    return Err(AttrError::Invalid("config of a hardware event"));
                }
                _ => return Err(none),
            },
            event_type::SOFTWARE => match self.config {
                0 => EventKind::CpuClock,
                1 => EventKind::TaskClock,
                2 => EventKind::PageFaults,
                3 => EventKind::ContextSwitches,
                DUMMY => EventKind::Dummy,
                _ => return Err(none),
            },
            event_type::TRACEPOINT => {
                let kind = formats::by_id(arch, self.config);
                kind.ok_or(AttrError::Invalid("config is no tracepoint's id"))?
            }
            event_type::BREAKPOINT => {
                let trapped = Trapped::from_bits(self.bp_type);
                let trapped = trapped.ok_or(AttrError::Invalid("bp_type"))?;
                let (addr, len) = (self.bp_addr, self.bp_len);
                EventKind::Breakpoint(Breakpoint { addr, len, trapped })
            }
            _ => return Err(none),
        };
        self.check_pmu(kind, arch, rights, on_task)?;
        Ok(kind)
    }

    /// What the kind's PMU cannot do.
    fn check_pmu(
        &self,
        kind: EventKind,
        arch: Arch,
        rights: Rights,
        on_task: bool,
    ) -> Result<(), AttrError> {
        let hardware = kind.is_hardware();
        let unsupported = |bad, what| if bad { Err(AttrError::Unsupported(what)) } else { Ok(()) };
        unsupported(self.samples(sample_type::BRANCH_STACK), "PERF_SAMPLE_BRANCH_STACK")?;
        let precise = hardware && arch == Arch::X86_64 && self.has(flag::PRECISE_IP);
        unsupported(precise, "precise_ip")?;
        // armv8pmu_set_event_filter
        let idle = hardware && arch == Arch::Aarch64 && self.has(flag::EXCLUDE_IDLE);
        unsupported(idle, "exclude_idle")?;
        let vector = |mask: u64| arch == Arch::X86_64 && mask >> 32 != 0;
        let vectors = self.samples(sample_type::REGS_USER) && vector(self.regs_user)
            || self.samples(sample_type::REGS_INTR) && vector(self.regs_intr);
        unsupported(vectors, "vector registers")?;
        unsupported(self.has(flag::AUX_OUTPUT), "aux_output")?;
        unsupported(self.has(flag::SIGTRAP), "sigtrap")?;
        unsupported(self.aux_action & 1 != 0, "aux_start_paused")?;
        refuse(self.aux_action != 0, "aux_pause and aux_resume need an AUX event")?;
        refuse(self.samples(sample_type::AUX), "PERF_SAMPLE_AUX needs an AUX event")?;
        if kind.is_tracepoint() && self.samples(sample_type::RAW) {
            let anybody = on_task && kind.is_for_anybody();
            if !anybody {
                rights.tracepoint()?;
            }
        }
        if self.samples(sample_type::CALLCHAIN) && u32::from(self.max_stack) > rights.max_stack {
            return Err(AttrError::MaxStack(rights.max_stack));
        }
        Ok(())
    }

    /// What the processor cannot watch (`hw_breakpoint_parse`), once there is room for it.
    ///
    /// # Errors
    ///
    /// Those of [`Breakpoint::check`], and for kernel memory [`AttrError::Invalid`] or
    /// [`AttrError::KernelBreakpoint`].
    pub fn check_breakpoint(&self, kind: EventKind, arch: Arch) -> Result<(), AttrError> {
        let EventKind::Breakpoint(breakpoint) = kind else { return Ok(()) };
        if breakpoint.addr >= arch.task_size() {
            refuse(self.has(flag::EXCLUDE_KERNEL), "kernel memory without the kernel's accesses")?;
            return Err(AttrError::KernelBreakpoint);
        }
        breakpoint.check(arch).map(|_| ())
    }

    /// The clock of its times (`perf_event_set_clock`).
    ///
    /// # Errors
    ///
    /// [`AttrError::Invalid`]: no such clock, or one that an NMI cannot read.
    pub fn clock(&self, kind: EventKind) -> Result<Clock, AttrError> {
        const REALTIME: i32 = 0;
        const MONOTONIC: i32 = 1;
        const MONOTONIC_RAW: i32 = 4;
        const BOOTTIME: i32 = 7;
        const TAI: i32 = 11;
        if !self.has(flag::USE_CLOCKID) {
            return Ok(Clock::Boot);
        }
        let (clock, safe) = match self.clockid {
            MONOTONIC | MONOTONIC_RAW => (Clock::Boot, true),
            BOOTTIME => (Clock::Boot, false),
            REALTIME | TAI => (Clock::Epoch, false),
            _ => return Err(AttrError::Invalid("clockid")),
        };
        refuse(kind.is_hardware() && !safe, "clockid cannot be read in an NMI")?;
        Ok(clock)
    }

    /// The event that they describe.
    pub fn event(&self, kind: EventKind) -> Event {
        Event {
            kind,
            name: String::new(),
            rate: match (self.period_or_freq, self.has(flag::FREQ)) {
                (0, _) => Rate::Period(COUNTS_ONLY),
                (n, true) => Rate::Frequency(n),
                (n, false) => Rate::Period(n),
            },
            exclude_user: self.has(flag::EXCLUDE_USER),
            exclude_kernel: self.has(flag::EXCLUDE_KERNEL),
            callchain: self.samples(sample_type::CALLCHAIN),
            exclude_callchain_user: self.has(flag::EXCLUDE_CALLCHAIN_USER),
            exclude_callchain_kernel: self.has(flag::EXCLUDE_CALLCHAIN_KERNEL),
            defer: self.has(flag::DEFER_CALLCHAIN),
            user_stack: UserStack::default(),
            max_stack: self.max_stack,
        }
    }

    /// Whether any of these bits of the flag word is set.
    pub const fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// Whether samples have any of these fields.
    pub const fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }

    /// Whether it samples at all.
    pub const fn is_sampling(&self) -> bool {
        self.period_or_freq != 0
    }

    /// `PERF_EVENT_IOC_PERIOD`
    ///
    /// # Errors
    ///
    /// [`AttrError::Invalid`], [`AttrError::MaxRate`]
    pub fn check_period(&self, period: u64, rights: Rights) -> Result<(), AttrError> {
        refuse(!self.is_sampling(), "the event does not sample")?;
        refuse(period == 0, "a period of 0")?;
        match self.has(flag::FREQ) {
            true => rights.frequency(period),
            false => refuse(period >> 63 != 0, "the period has bit 63"),
        }
    }

    /// The trailer's fields: none without `sample_id_all`.
    pub const fn trailer(&self) -> u64 {
        if self.has(flag::SAMPLE_ID_ALL) { self.sample_type } else { 0 }
    }
}

const fn refuse(bad: bool, what: &'static str) -> Result<(), AttrError> {
    if bad { Err(AttrError::Invalid(what)) } else { Ok(()) }
}

/// `perf_reg_validate`. Vector registers of x86 pass here and are refused by the PMU.
const fn registers_exist(arch: Arch, mask: u64) -> bool {
    let all = match arch {
        Arch::X86_64 => arch.perf_regs_mask() | !0 << 32,
        Arch::Aarch64 => arch.perf_regs_mask(),
    };
    mask != 0 && mask & !all == 0
}

/// The oracle that fuzzing drives: any bytes are attributes or refused, by one rule each.
///
/// # Panics
///
/// When a promise is broken: an error of more than one line, attributes that are taken although
/// they name what the kernel does not know.
pub fn fuzz_attr(bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<8>() else { return };
    let Ok(size) = Attr::size(head) else { return };
    let bytes = &bytes[..bytes.len().min(size)];
    for (arch, capable) in [(Arch::X86_64, false), (Arch::Aarch64, true)] {
        let rights = Rights { capable, ..Rights::USER };
        let tried = Attr::parse(bytes, arch, rights).and_then(|attr| {
            attr.check_rights(rights)?;
            let kind = attr.event_kind(arch, rights, true)?;
            attr.clock(kind)?;
            Ok((attr, kind))
        });
        match tried {
            Ok((attr, kind)) => {
                assert!(attr.sample_type & !SAMPLE_TYPES == 0 && !attr.has(flag::RESERVED));
                assert!(
                    attr.max_stack != 0 && attr.max_stack <= MAX_STACK || !attr.samples(1 << 5)
                );
                assert!(capable || attr.has(flag::EXCLUDE_KERNEL));
                let event = attr.event(kind);
                assert_eq!(event.callchain, attr.samples(sample_type::CALLCHAIN));
            }
            Err(error) => {
                let line = error.to_string();
                assert!(!line.contains(['\n', '\r']), "not one line: {line:?}");
                assert_ne!(error.errno().to_ret(), 0);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "attr_tests.rs"]
mod tests;
