//! The rules of cookies that all files keep whose records came through: those of a recording
//! are checked with the same lines as those of a run.

use std::collections::{BTreeMap, BTreeSet};

use emu::export::perf_read::{Body, Record};
use emu::perf::record::context;

use super::text::pid_tid;

/// What one thread's records have said.
#[derive(Default)]
struct Thread {
    /// The cookie of the entry that it is in.
    current: Option<u64>,
    /// Whether that one has its record.
    recorded: bool,
    /// All cookies so far.
    seen: BTreeSet<u64>,
    /// The counter in its last cookie of each CPU.
    counts: BTreeMap<u64, u64>,
}

/// Checks `own`, the records of a process in order of time.
///
/// * A cookie has the CPU + 1 below and an odd count above, which grows for a thread and CPU.
/// * A record follows a sample of the same thread, and is the only one of its cookie.
/// * The entries of a thread follow each other: none is left without its record but the last,
///   none comes again.
/// * A sample has either a cookie or a user part.
///
/// # Panics
///
/// If one is broken.
pub(super) fn check(name: &str, own: &[&Record]) {
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    for record in own {
        let Some((_, tid)) = pid_tid(record) else { continue };
        let thread = threads.entry(tid).or_default();
        let at = format!("{name}, the record at {:#x}", record.offset);
        match &record.body {
            Body::Sample(sample) => {
                let chain = sample.callchain.as_deref().unwrap_or_default();
                let has = |marker: u64| chain.iter().position(|&word| word == marker);
                let Some(deferred) = has(context::USER_DEFERRED) else { continue };
                assert!(has(context::USER).is_none(), "{at}: a cookie and a user part");
                assert_eq!(chain.len(), deferred + 2, "{at}: words behind the cookie");
                thread.asks(chain[deferred + 1], &at);
            }
            Body::CallchainDeferred { cookie, .. } => {
                assert_eq!(thread.current, Some(*cookie), "{at}: it is of another entry");
                assert!(!thread.recorded, "{at}: the second of its cookie");
                thread.recorded = true;
            }
            _ => {}
        }
    }
}

impl Thread {
    /// A sample has `cookie`.
    fn asks(&mut self, cookie: u64, at: &str) {
        if self.current == Some(cookie) {
            return;
        }
        assert!(self.current.is_none() || self.recorded, "{at}: the entry before has no record");
        assert!(self.seen.insert(cookie), "{at}: the entry was over");
        let (count, cpu) = (cookie >> 32, cookie & 0xffff_ffff);
        assert!(cpu != 0 && count % 2 == 1, "{at}: {cookie:#x} is no cookie");
        let before = self.counts.insert(cpu, count);
        assert!(before.is_none_or(|before| before < count), "{at}: the count does not grow");
        (self.current, self.recorded) = (Some(cookie), false);
    }
}
