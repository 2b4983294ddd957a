//! Self samples by function, counted while the records pass by.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::export::Images;
use crate::export::processes::Processes;
use crate::perf::record::{CpuMode, Record, Session, context};
use crate::symbols::LookupAddress;

/// Addresses counted before their functions are looked up.
const MAX_PENDING: usize = 1 << 16;

/// Counts the samples of a session by the function they interrupted.
pub struct Tally {
    processes: Processes,
    /// Not looked up yet: their mappings are those that are known now.
    pending: HashMap<Place, Weight>,
    functions: BTreeMap<Function, Weight>,
    /// Samples of each event.
    events: Vec<Weight>,
    /// Events whose user callchains are to be deferred.
    defer: Vec<bool>,
    user: UserParts,
}

/// How samples that were to have deferred user callchains got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserParts {
    /// A cookie stands for it.
    pub deferred: u64,
    /// The stack was walked at the sample, as the request for a deferred walk was refused.
    pub at_once: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    event: usize,
    pid: u32,
    kernel: bool,
    ip: u64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    event: usize,
    kernel: bool,
    name: Option<Arc<str>>,
    dso: Option<Arc<str>>,
}

/// Samples, and what they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Number of samples.
    pub samples: u64,
    /// Sum of their periods.
    pub events: u64,
}

impl Weight {
    fn add(&mut self, other: Weight) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
    }
}

/// One function and its self samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its part of the event's samples by period, as `perf report` counts it: 0 to 100.
    pub percent: f64,
    /// Samples.
    pub samples: u64,
    /// Kernel code.
    pub kernel: bool,
    /// Demangled name, if a symbol covers the address.
    pub name: Option<Arc<str>>,
    /// The mapped file.
    pub dso: Option<Arc<str>>,
}

impl Tally {
    /// Nothing counted.
    pub fn new(session: &Session, images: Images) -> Tally {
        Tally {
            processes: Processes::new(&session.kernel_symbols, images),
            pending: HashMap::new(),
            functions: BTreeMap::new(),
            events: vec![Weight::default(); session.events.len()],
            defer: session.events.iter().map(|e| e.defer).collect(),
            user: UserParts::default(),
        }
    }

    /// Takes the next record.
    pub fn record(&mut self, record: &Record) {
        let Record::Sample(s) = record else {
            self.settle();
            self.processes.update(record);
            return;
        };
        let one = Weight { samples: 1, events: s.period };
        if let Some(event) = self.events.get_mut(s.event) {
            event.add(one);
        }
        if self.defer.get(s.event) == Some(&true) {
            let has = |marker| u64::from(s.callchain.contains(&marker));
            self.user.deferred += has(context::USER_DEFERRED);
            self.user.at_once += has(context::USER);
        }
        let kernel = s.mode == CpuMode::Kernel;
        let place = Place { event: s.event, pid: s.pid, kernel, ip: s.ip };
        self.pending.entry(place).or_default().add(one);
        if self.pending.len() >= MAX_PENDING {
            self.settle();
        }
    }

    /// Looks up what is pending, before mappings change.
    fn settle(&mut self) {
        for (place, weight) in self.pending.drain() {
            let mode = if place.kernel { CpuMode::Kernel } else { CpuMode::User };
            let at = LookupAddress::Instruction(place.ip);
            let frame = self.processes.lookup(place.pid, at, mode);
            let function = Function {
                event: place.event,
                kernel: place.kernel,
                name: frame.function.map(|f| f.name),
                dso: frame.dso,
            };
            self.functions.entry(function).or_default().add(weight);
        }
    }

    /// What became of the user callchains that were to be deferred.
    pub const fn user_parts(&self) -> UserParts {
        self.user
    }

    /// Samples of event `event`.
    pub fn total(&self, event: usize) -> Weight {
        self.events.get(event).copied().unwrap_or_default()
    }

    /// The `most` functions with the most self samples of event `event`, and how many
    /// functions there are in all.
    pub fn top(&mut self, event: usize, most: usize) -> (Vec<Row>, usize) {
        self.settle();
        let total = self.total(event).events.max(1) as f64;
        let mut list: Vec<(&Function, &Weight)> =
            self.functions.iter().filter(|(f, _)| f.event == event).collect();
        let all = list.len();
        // Stable: equal ones stay in the order of their names.
        list.sort_by_key(|(_, w)| std::cmp::Reverse((w.events, w.samples)));
        let row = |(f, w): (&Function, &Weight)| Row {
            percent: w.events as f64 * 100.0 / total,
            samples: w.samples,
            kernel: f.kernel,
            name: f.name.clone(),
            dso: f.dso.clone(),
        };
        (list.into_iter().take(most).map(row).collect(), all)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::EventKind;
    use crate::perf::testing::{event, sample, session, start};
    use arch::Arch;

    fn tally() -> Tally {
        let events = vec![event(EventKind::Cycles, "cycles"), event(EventKind::Branches, "b")];
        let mut t = Tally::new(&session(Arch::X86_64, events), Images::new(|_| None));
        start("/bin/guest").iter().for_each(|r| t.record(r));
        t
    }

    #[test]
    fn functions_by_period() {
        let mut t = tally();
        let mut kernel = sample(0, 2);
        kernel.mode = CpuMode::Kernel;
        kernel.ip = t_symbol();
        kernel.period = 3000;
        for s in [sample(0, 2), kernel, sample(1, 3)] {
            t.record(&Record::Sample(s));
        }
        let (rows, all) = t.top(0, 10);
        assert_eq!((rows.len(), all), (2, 2));
        assert!(rows[0].kernel && rows[0].percent == 75.0 && rows[0].samples == 1);
        assert_eq!(rows[1].dso.as_deref(), Some("/bin/guest"));
        assert_eq!(t.total(0), Weight { samples: 2, events: 4000 });
        assert_eq!(t.total(7), Weight::default());
        assert_eq!(t.top(1, 0), (vec![], 1));
    }

    #[test]
    fn refused_requests_are_counted() {
        let deferring = |defer| {
            let mut event = event(EventKind::Cycles, "cycles");
            event.defer = defer;
            let mut t = Tally::new(&session(Arch::X86_64, vec![event]), Images::new(|_| None));
            for marker in [context::USER, context::USER, context::USER_DEFERRED] {
                let mut s = sample(0, 2);
                s.callchain = vec![context::KERNEL, 1, marker, 2];
                t.record(&Record::Sample(s));
            }
            t.user_parts()
        };
        assert_eq!(deferring(true), UserParts { deferred: 1, at_once: 2 });
        assert_eq!(deferring(false), UserParts::default());
    }

    fn t_symbol() -> u64 {
        0xffff_ffff_8100_1004
    }

    #[test]
    fn addresses_mean_what_was_mapped_when_they_were_sampled() {
        let mut t = tally();
        t.record(&Record::Sample(sample(0, 2)));
        let comm = "next".to_owned();
        t.record(&Record::Comm { pid: 100, tid: 100, time: 3, cpu: 0, comm, exec: true });
        t.record(&Record::Sample(sample(0, 4)));
        let (rows, _) = t.top(0, 10);
        assert_eq!(rows.len(), 2);
    }
}
