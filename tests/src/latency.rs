//! How long a deferred stack takes, in virtual time: from the sample to perf's record, on many
//! CPUs, of many tasks, beside many tracers.
//!
//! ```text
//! crowd TASKS CALLS, on CPUs in step
//!   getpid ─► tracers ask, perf's sample ─► … ─► task work: capture, callbacks ─► perf's record
//!                      └────────────────── latency ───────────────────────────────────┘
//! ```
//!
//! Perf's work is the oldest and is called last, so that the callbacks of all others are in it,
//! and so is the wait for the mutex where a design has one. Virtual time is the same in every
//! run.

use std::collections::BTreeMap;

use arch::Arch;
use emu::kernel::State;
use emu::kernel::tracer::{Asks, Plan};
use emu::perf::merge::cookie;
use emu::perf::record::{Record, Time};

use crate::harness::Harness;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The word of `--deferred`.
    pub design: &'static str,
    /// Emulated CPUs.
    pub cpus: u32,
    /// Tasks, which are there at once.
    pub tasks: u32,
    /// System calls of each task.
    pub calls: u32,
    /// Tracers beside perf that ask at every system call.
    pub asking: usize,
    /// Tracers beside perf that are registered and never ask.
    pub silent: usize,
    /// The laws are watched at each step.
    pub laws: bool,
}

/// Nanoseconds of virtual time from the sample to its record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Of all samples that have a record.
    pub mean: f64,
    /// The longest.
    pub longest: Time,
    /// How many there were.
    pub samples: usize,
    /// Samples without a record: the item of `per-work` was another task's.
    pub lost: usize,
}

/// Runs the guest and measures.
///
/// # Panics
///
/// If the run fails, a law is broken, or no sample has a record.
pub fn measure(setup: &Setup) -> Latency {
    let words = [setup.tasks.to_string(), setup.calls.to_string()];
    let harness = Harness::new(Arch::X86_64, "crowd").args(&[&words[0], &words[1]]);
    let harness = harness.cpus(setup.cpus).deferred(setup.design);
    let harness = harness.events("syscalls:sys_enter_getpid", 1);
    let harness = if setup.laws { harness } else { harness.without_laws() };
    let attach = |s: &mut State| {
        let all = [(setup.asking, 1), (setup.silent, u64::MAX)];
        for (count, every) in all {
            let plan = Plan { asks: Asks::SystemCalls(every), from: 0, until: None };
            (0..count).for_each(|_| s.attach(plan).unwrap());
        }
    };
    let mut waiting: BTreeMap<(u32, u64), Time> = BTreeMap::new();
    let mut found: Vec<Time> = Vec::new();
    harness.run_prepared(attach, |_, record| match record {
        Record::Sample(sample) => {
            if let Some(cookie) = cookie(&sample.callchain) {
                waiting.entry((sample.tid, cookie)).or_insert(sample.time);
            }
        }
        Record::CallchainDeferred { tid, cookie, time, .. } => {
            let sample = waiting.remove(&(*tid, *cookie));
            found.extend(sample.map(|sample| time.saturating_sub(sample)));
        }
        _ => {}
    });
    let (longest, samples) = (found.iter().copied().max().unwrap_or(0), found.len());
    assert!(samples > 0, "{setup:?}: no sample has a record");
    Latency {
        mean: found.iter().sum::<Time>() as f64 / samples as f64,
        longest,
        samples,
        lost: waiting.len(),
    }
}
