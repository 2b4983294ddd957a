//! Folded stacks: one line per distinct stack, the input of flame graphs.
//!
//! ```text
//! comm;outermost;…;innermost weight
//! ```
//!
//! The weight is the sum of the samples' periods. Kernel functions have the
//! suffix `_[k]`; an address without symbol is `[unknown]`. With several events
//! the event's name comes before the thread's, since their weights have
//! different units. Lines are sorted by bytes.

use std::collections::BTreeMap;
use std::io::Write;

use super::processes::{ChainFrame, Processes};
use super::{ExportError, Images, Sink};
use crate::perf::record::{CpuMode, Record, Sample, Session};
use crate::perf::session_encode::UnknownEvent;

/// Name of a frame without symbol.
const UNKNOWN: &str = "[unknown]";

/// Collects folded stacks and writes them at the end.
pub struct Folded<W: Write> {
    out: W,
    to: String,
    processes: Processes,
    /// The events' names if they are to be told apart.
    events: Vec<String>,
    count: usize,
    weights: BTreeMap<String, u64>,
    finished: bool,
}

impl<W: Write> Folded<W> {
    /// Folded stacks into `out`, called `to` in errors.
    ///
    /// # Errors
    ///
    /// [`ExportError::NoEvents`]
    pub fn new(
        session: &Session,
        out: W,
        to: String,
        images: Images,
    ) -> Result<Folded<W>, ExportError> {
        let names = match session.events.len() {
            0 => return Err(ExportError::NoEvents),
            1 => Vec::new(),
            _ => session.events.iter().map(|e| e.name.clone()).collect(),
        };
        Ok(Folded {
            out,
            to,
            processes: Processes::new(&session.kernel_symbols, images),
            events: names,
            count: session.events.len(),
            weights: BTreeMap::new(),
            finished: false,
        })
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), ExportError> {
        if sample.event >= self.count {
            let (event, time) = (sample.event, sample.time);
            return Err(UnknownEvent { event, events: self.count, time }.into());
        }
        let mut line = String::new();
        if let Some(event) = self.events.get(sample.event) {
            push_name(&mut line, event);
            line.push(';');
        }
        push_name(&mut line, &self.processes.comm(sample.tid));
        for ChainFrame { mode, frame } in self.processes.frames(sample).iter().rev() {
            line.push(';');
            push_name(&mut line, frame.function.as_ref().map_or(UNKNOWN, |f| &f.name));
            if *mode == CpuMode::Kernel {
                line.push_str("_[k]");
            }
        }
        let weight = self.weights.entry(line).or_default();
        *weight = weight.saturating_add(sample.period);
        Ok(())
    }
}

/// Appends a name without the characters that have a meaning in a folded line:
/// `;` parts frames (Rust's arrays have one), a line ends a stack.
fn push_name(line: &mut String, name: &str) {
    line.extend(name.chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() => '?',
        c => c,
    }));
}

impl<W: Write> Sink for Folded<W> {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        if self.finished {
            return Err(ExportError::Finished { what: "list of folded stacks" });
        }
        match record {
            Record::Sample(sample) => self.sample(sample)?,
            other => self.processes.update(other),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        if self.finished {
            return Ok(());
        }
        let mut write = || {
            for (stack, weight) in &self.weights {
                writeln!(self.out, "{stack} {weight}")?;
            }
            self.out.flush()
        };
        write().map_err(|source| ExportError::Write {
            what: "folded stacks",
            to: self.to.clone(),
            source,
        })?;
        self.finished = true;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::perf::record::{EventKind, context};
    use crate::perf::testing::{event, sample, session, start};
    use arch::Arch;

    fn fold(events: &[&str], samples: Vec<Sample>) -> String {
        let events = events.iter().map(|n| event(EventKind::Cycles, n)).collect();
        let s = session(Arch::X86_64, events);
        let mut out = Vec::new();
        let mut f = Folded::new(&s, &mut out, "test".into(), Images::new(|_| None)).unwrap();
        start("/bin/guest").iter().for_each(|r| f.record(r).unwrap());
        samples.into_iter().for_each(|s| f.record(&Record::Sample(s)).unwrap());
        f.finish().unwrap();
        f.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn root_first_weighted_and_sorted() {
        let mut kernel = sample(0, 2);
        kernel.callchain =
            vec![context::KERNEL, 0xffff_ffff_8100_1004, context::USER, 0x40_1000, 0x40_2000];
        let mut more = kernel.clone();
        more.period = 5;
        assert_eq!(
            fold(&["cycles"], vec![kernel, sample(0, 3), more]),
            "guest;[unknown] 1000\nguest;[unknown];[unknown];do_syscall_64_[k] 1005\n"
        );
    }

    #[test]
    fn several_events_are_kept_apart() {
        let got = fold(&["cycles", "b;ad\n"], vec![sample(1, 2), sample(0, 3)]);
        assert_eq!(got, "b:ad?;guest;[unknown] 1000\ncycles;guest;[unknown] 1000\n");
    }

    #[test]
    fn weights_saturate() {
        let mut s = sample(0, 2);
        s.period = u64::MAX;
        let got = fold(&["cycles"], vec![s.clone(), s]);
        assert_eq!(got, "guest;[unknown] 18446744073709551615\n");
    }
}
