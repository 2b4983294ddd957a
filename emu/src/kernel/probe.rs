//! Probes of the session: where they are, from their words.
//!
//! ```text
//! uprobe:SYMBOL, uprobe:0xADDR   a user instruction of the first program: a breakpoint is
//!                                written there ([`super::uprobe`] takes its exception)
//! uretprobe:SYMBOL, …:0xADDR     the return of the function that begins there
//! kprobe:FUNCTION                the first instruction of a modelled kernel function that
//!                                another one calls
//! mem:ADDR[/LEN][:rwx]           a hardware breakpoint ([`super::hw_breakpoint`])
//! ```

use crate::kernel::State;
use crate::kernel::kstack::KernelContext;
use crate::kernel::sampling::Interrupted;
use crate::kernel::symbols::Function;
use crate::kernel::uprobe;
use crate::perf::attr::AttrError;
use crate::perf::breakpoint::{Breakpoint, Place, Trapped};
use crate::perf::event::MEM;
use crate::perf::record::{Event, EventKind, Raw};

/// Why a probe cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No such symbol in the program.
    #[error(
        "{0:?}: the program has no function of this name; for another place write 0xADDRESS behind \
         the colon"
    )]
    NoSymbol(String),
    /// No code there.
    #[error("{name:?}: there is no code of the program at {addr:#x}")]
    NoCode {
        /// As typed.
        name: String,
        /// Where.
        addr: u64,
    },
    /// No such kernel function.
    #[error(
        "{0:?}: no modelled kernel function has this name; those that have are in the profile's kallsyms"
    )]
    NoFunction(String),
    /// No such symbol for a breakpoint.
    #[error("{0:?}: the program has no function of this name; use mem:0xADDRESS for another place")]
    NoData(String),
    /// The processor cannot watch it.
    #[error("{name:?}: {reason} ({errno})", errno = reason.errno())]
    Breakpoint {
        /// As typed.
        name: String,
        /// The kernel's answer.
        reason: AttrError,
    },
    /// More than the processor has.
    #[error(
        "{name:?}: the processor has no breakpoint left of {most} (ENOSPC); use fewer mem: events",
        most = Breakpoint::SLOTS
    )]
    NoSlot {
        /// The first that does not fit, as typed.
        name: String,
    },
    /// It is entered by the processor, or is what entries are traced with.
    #[error("{0:?}: entry code may not be probed, nor its tracing; use a function that is called")]
    Entry(String),
}

/// Refuses more breakpoints than the processor has (`reserve_bp_slot`).
fn reserve_slots(arch: arch::Arch, events: &[Event]) -> Result<(), ProbeError> {
    let mut used = [0; 2];
    for event in events {
        let EventKind::Breakpoint(b) = event.kind else { continue };
        // aarch64 has a set of each kind.
        let of_code = arch == arch::Arch::Aarch64 && b.trapped == Trapped::Execute;
        let used = &mut used[usize::from(of_code)];
        *used += 1;
        if *used > Breakpoint::SLOTS {
            return Err(ProbeError::NoSlot { name: event.name.clone() });
        }
    }
    Ok(())
}

/// The breakpoint of an event called `name`, refused if the kernel would.
fn place_breakpoint(
    arch: arch::Arch,
    name: &str,
    find: impl Fn(&str) -> Option<u64>,
) -> Result<Breakpoint, ProbeError> {
    let words = name.strip_prefix(MEM).unwrap_or(name);
    // Behind the words there may be a modifier.
    let parsed = Breakpoint::parse(words)
        .or_else(|| words.rsplit_once(':').and_then(|(words, _)| Breakpoint::parse(words)));
    let no_symbol = || ProbeError::NoData(name.to_owned());
    let (place, breakpoint) = parsed.ok_or_else(no_symbol)?;
    let addr = match place {
        Place::Address(addr) => addr,
        Place::Symbol(symbol, offset) => find(symbol).ok_or_else(no_symbol)?.wrapping_add(offset),
    };
    let breakpoint = Breakpoint { addr, ..breakpoint };
    let refused = |reason| ProbeError::Breakpoint { name: name.to_owned(), reason };
    breakpoint.check(arch).map(|_| breakpoint).map_err(refused)
}

impl State {
    /// Places the sessions' probes, and opens the main one's events anew. Before the run, and
    /// before the others are open. `find` knows the
    /// program's symbols.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] for the first that has no place.
    pub fn place_probes(&mut self, find: impl Fn(&str) -> Option<u64>) -> Result<(), ProbeError> {
        let arch = self.arch;
        let sessions = self.perf.profiles_mut();
        let mut all: Vec<Vec<Event>> =
            sessions.map(|(_, p)| std::mem::take(&mut p.session.events)).collect();
        let placed = all.iter_mut().flatten().try_for_each(|event| {
            match event.kind {
                EventKind::Uprobe(_) | EventKind::Uretprobe(_) => {
                    event.kind = self.place_uprobe(event.kind, &event.name, &find)?;
                }
                EventKind::Kprobe(_) => event.kind = self.place_kprobe(&event.name)?,
                EventKind::Breakpoint(_) => {
                    event.kind = EventKind::Breakpoint(place_breakpoint(arch, &event.name, &find)?);
                }
                _ => {}
            }
            Ok(())
        });
        let placed = placed.and_then(|()| reserve_slots(arch, &all.concat()));
        let any = |wanted: fn(EventKind) -> bool| all.iter().flatten().any(|e| wanted(e.kind));
        self.perf.kprobes = any(|kind| matches!(kind, EventKind::Kprobe(_)));
        self.perf.has_breakpoints = any(|kind| matches!(kind, EventKind::Breakpoint(_)));
        let probes =
            self.perf.kprobes || self.perf.has_breakpoints || !self.perf.uprobes.is_empty();
        for ((_, profile), events) in self.perf.profiles_mut().zip(all) {
            profile.session.events = events;
        }
        if probes {
            self.open_events();
        }
        placed
    }

    fn place_uprobe(
        &mut self,
        kind: EventKind,
        name: &str,
        find: impl Fn(&str) -> Option<u64>,
    ) -> Result<EventKind, ProbeError> {
        let returns = matches!(kind, EventKind::Uretprobe(_));
        let prefix = if returns { "uretprobe:" } else { "uprobe:" };
        let place = name.strip_prefix(prefix).unwrap_or(name);
        let number = place.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let addr = number.or_else(|| find(place));
        let addr = addr.ok_or_else(|| ProbeError::NoSymbol(name.to_owned()))?;
        let index = uprobe::place(self, addr, returns)
            .ok_or_else(|| ProbeError::NoCode { name: name.to_owned(), addr })?;
        Ok(if returns { EventKind::Uretprobe(index) } else { EventKind::Uprobe(index) })
    }

    fn place_kprobe(&self, name: &str) -> Result<EventKind, ProbeError> {
        let function = name.strip_prefix("kprobe:").unwrap_or(name);
        let tracing = ["trace_hardirqs_", "trace_preempt_", "preempt_count_"];
        let entry = ["asm_", "entry_", "el0", "el1", "_text", "ret_from_fork"];
        let entry = entry.iter().chain(&tracing);
        if entry.clone().any(|prefix| function.starts_with(prefix)) {
            return Err(ProbeError::Entry(name.to_owned()));
        }
        let found = Function::named(self.arch, function);
        let found = found.ok_or_else(|| ProbeError::NoFunction(name.to_owned()))?;
        Ok(EventKind::Kprobe(found.index()))
    }

    /// The kernel function `callee` was called; `fp` is its caller's frame pointer. On aarch64
    /// the function has no frame record yet at its first instruction, so that its caller is
    /// missing (measured); x86_64 finds it.
    pub fn hit_kprobe(&mut self, callee: Function, fp: u64) {
        let kind = EventKind::Kprobe(callee.index());
        let Some(kernel) = self.cpu.kernel else { return };
        let at = KernelContext {
            fp: if self.arch == arch::Arch::Aarch64 { fp } else { kernel.fp },
            ..kernel
        };
        let ip = callee.addr(self.arch);
        for (slot, _) in self.active(|k| k == kind) {
            let at = Interrupted::Kernel { at, software: false };
            self.hit_at(slot, at, Some(Raw::Probe { kind, ip }));
        }
    }
}
