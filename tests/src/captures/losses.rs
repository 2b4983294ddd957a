//! Recordings with losses: what a slow reader kept, in order, and how many records it lost in
//! between.
//!
//! ```text
//! line 1 sample raw_syscalls:sys_enter kernel …: KERNEL … USER_DEFERRED #1
//! line 2 deferred user size 96 #1: sys_read+0x20 <- …
//! kept 1@0 2@0 -188 2@63 …           the lines' numbers, their entries; so many were lost
//! lost raw_syscalls:sys_enter 596    PERF_RECORD_LOST_SAMPLES
//! ```
//!
//! Entries are counted by their cookies' counters, from the first. Each LOST record is checked
//! against the record behind it while the text is made: they are of one event, thread, time and
//! CPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use emu::export::perf_read::{Body, PerfFile, Record, Trailer};
use emu::perf::record::context;

use super::text::Text;

/// Words in a line of the sequence.
const WORDS: usize = 16;

/// What one file kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// In order.
    pub sequence: Vec<Word>,
    /// What LOST_SAMPLES records say of each event.
    pub lost: BTreeMap<String, u64>,
}

/// A step of the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A record as a line; with the entry that its cookie is of, if it has one.
    Record(String, Option<u64>),
    /// A LOST record: so many were lost here.
    Lost(u64),
}

impl Kept {
    /// Reads `text`.
    ///
    /// # Panics
    ///
    /// If it is no text of losses.
    pub fn parse(text: &str) -> Kept {
        let (mut lines, mut kept) = (BTreeMap::new(), Kept::default());
        for line in text.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("line", rest) => {
                    let (number, line) = rest.split_once(' ').expect("a number and a line");
                    lines.insert(number.to_owned(), line.to_owned());
                }
                ("kept", rest) => kept.sequence.extend(rest.split(' ').map(|w| word(&lines, w))),
                ("lost", rest) => {
                    let (event, count) = rest.split_once(' ').expect("an event and a count");
                    kept.lost.insert(event.to_owned(), count.parse().expect("a count"));
                }
                _ => {}
            }
        }
        kept
    }
}

fn word(lines: &BTreeMap<String, String>, word: &str) -> Word {
    if let Some(lost) = word.strip_prefix('-') {
        return Word::Lost(lost.parse().expect("a count"));
    }
    let (number, entry) = word.split_once('@').unwrap_or((word, ""));
    Word::Record(lines[number].clone(), entry.parse().ok())
}

impl Text<'_> {
    /// Writes what the file has of `own`, and of `records` what was lost.
    pub(super) fn losses(&mut self, file: &PerfFile, own: &[&Record], records: &[Record]) {
        let (mut numbers, mut sequence) = (BTreeMap::new(), Vec::new());
        let first = own.iter().find_map(|r| cookie(r));
        for (at, record) in own.iter().enumerate() {
            if let Body::Lost { lost, .. } = record.body {
                check_lost(record, own.get(at + 1).expect("nothing behind a LOST record"));
                sequence.push(format!("-{lost}"));
                continue;
            }
            // A line by itself: entries are told apart in the sequence.
            self.forget_cookies();
            let line = self.line(file, record);
            let next = numbers.len() + 1;
            let number = *numbers.entry(line.clone()).or_insert_with(|| {
                let _ = writeln!(self.text, "line {next} {line}");
                next
            });
            let entry = cookie(record).zip(first).map(|(this, first)| (this - first) >> 33);
            sequence.push(match entry {
                Some(entry) => format!("{number}@{entry}"),
                None => number.to_string(),
            });
        }
        for words in sequence.chunks(WORDS) {
            let _ = writeln!(self.text, "kept {}", words.join(" "));
        }
        for record in records {
            if let Body::LostSamples { lost } = record.body {
                check_lost_samples(record);
                let _ = writeln!(self.text, "lost {} {lost}", self.events[record.event]);
            }
        }
    }
}

/// The cookie of a sample or record.
fn cookie(record: &Record) -> Option<u64> {
    match &record.body {
        Body::CallchainDeferred { cookie, .. } => Some(*cookie),
        Body::Sample(sample) => {
            let chain = sample.callchain.as_deref()?;
            let marker = chain.iter().position(|&word| word == context::USER_DEFERRED)?;
            chain.get(marker + 1).copied()
        }
        _ => None,
    }
}

/// `PERF_RECORD_LOST`: event, count, and the trailer of the record `next` that fitted.
fn check_lost(record: &Record, next: &Record) {
    let at = record.offset;
    let Body::Lost { id, .. } = record.body else { unreachable!("it is a LOST record") };
    let trailer = record.trailer.expect("LOST without a trailer");
    let (kind, misc) = (record.kind, record.misc);
    assert_eq!((kind, misc, record.tail), (2, 0, &[][..]), "LOST at {at:#x}");
    let of_next = match &next.body {
        Body::Sample(s) => Trailer {
            pid_tid: s.pid_tid,
            time: s.time,
            id: s.id,
            stream_id: s.stream_id,
            cpu: s.cpu,
            identifier: s.identifier,
        },
        _ => next.trailer.expect("a record without a trailer"),
    };
    assert_eq!(trailer, of_next, "LOST at {at:#x} is not of the record behind it");
    assert_eq!(trailer.id.or(trailer.identifier), Some(id), "LOST at {at:#x}");
    assert_eq!(record.event, next.event, "LOST at {at:#x}");
}

/// `PERF_RECORD_LOST_SAMPLES`, which perf itself makes: a count, and a trailer that has an id and
/// nothing else.
fn check_lost_samples(record: &Record) {
    let at = record.offset;
    assert_eq!((record.kind, record.misc, record.tail), (13, 0, &[][..]), "at {at:#x}");
    let trailer = record.trailer.expect("LOST_SAMPLES without a trailer");
    assert_eq!((trailer.pid_tid, trailer.time), (Some((0, 0)), Some(0)), "at {at:#x}");
    assert_eq!(trailer.cpu.unwrap_or_default(), (0, 0), "at {at:#x}");
    assert_ne!(trailer.id.or(trailer.identifier).unwrap_or_default(), 0, "at {at:#x}");
}
