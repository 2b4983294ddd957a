//! The session's ring buffers, one a CPU, and the tool that reads them, if it is slow.
//!
//! ```text
//!  record ─► room? ─┬─ yes ─► head moves ─► half full: the tool is woken
//!                   └─ no ──► lost, and counted; the next that fits has a LOST record before it
//!  tool:  asleep ─► woken ─► pass: each ring with bytes takes bytes / rate, then its tail moves
//!                    ▲  └── a pass that found something is followed by another
//!                    └───── else asleep again, unless it was woken meanwhile
//! ```
//!
//! As `perf record` does it: all that is in a ring is written out before its room is free again.
//! The tool runs on no modelled CPU; its time is that of the writers' clocks.

use crate::perf::record::Time;
use crate::perf::ring::{Losses, has_space};

/// Nanoseconds of a millisecond.
const MILLISECOND: u128 = 1_000_000;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages of a ring if none are asked for: 512 KiB (`kernel.perf_event_mlock_kb`).
pub const DEFAULT_PAGES: u32 = 128;

/// A slow reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that it takes in a millisecond of virtual time, at least 1.
    pub rate: u64,
    /// Pages of each ring, a power of two.
    pub pages: u32,
}

/// The rings of all CPUs and their reader.
#[derive(Clone, Debug)]
pub struct Rings {
    size: u64,
    rate: u64,
    rings: Vec<Ring>,
    reader: Reader,
    /// The tool was woken and has not looked yet; since when.
    woken: Option<Time>,
    /// Records of each event of the session that were lost.
    lost: Vec<u64>,
}

/// The ring of one CPU. Positions only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    head: u64,
    tail: u64,
    wakeup: u64,
    /// Records lost since the last that fitted.
    lost: u64,
    /// The tool is to be woken by irq_work of this CPU.
    wakes: bool,
}

/// What the tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Asleep,
    /// It takes what is before `to` in a ring until `done`.
    Reading {
        ring: usize,
        to: u64,
        done: Time,
    },
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It fits, behind a LOST record for so many, if there were any.
    Fits {
        /// Records lost before it.
        lost: u64,
        /// The tool is to be woken.
        wake: bool,
    },
    /// It does not.
    Lost,
}

impl Rings {
    /// Empty rings of so many CPUs, for so many events.
    pub fn new(settings: Settings, cpus: u32, events: usize) -> Rings {
        Rings {
            size: u64::from(settings.pages) * PAGE,
            rate: settings.rate,
            rings: vec![Ring::default(); cpus as usize],
            reader: Reader::Asleep,
            woken: None,
            lost: vec![0; events],
        }
    }

    /// A record of `event` with `len` bytes is written on `cpu`; before it a LOST record of
    /// `lost_len` bytes, if some were lost.
    pub fn write(&mut self, cpu: u32, now: Time, len: u64, lost_len: u64, event: usize) -> Written {
        self.advance(now);
        let Some(ring) = self.rings.get_mut(cpu as usize) else { return Written::Lost };
        let need = len + if ring.lost > 0 { lost_len } else { 0 };
        if !has_space(ring.head, ring.tail, self.size, need, false) {
            ring.lost += 1;
            if let Some(lost) = self.lost.get_mut(event) {
                *lost += 1;
            }
            return Written::Lost;
        }
        let watermark = self.size / 2;
        ring.head += need;
        let wake = ring.head - ring.wakeup > watermark;
        if wake {
            ring.wakeup += watermark;
            ring.wakes = true;
        }
        Written::Fits { lost: std::mem::take(&mut ring.lost), wake }
    }

    /// irq_work of a CPU runs: the tool is woken, if that was wanted.
    pub fn wake(&mut self, cpu: u32, now: Time) {
        let wakes = self.rings.get_mut(cpu as usize).map(|ring| &mut ring.wakes);
        if wakes.is_some_and(std::mem::take) {
            self.advance(now);
            self.woken = self.woken.or(Some(now));
            self.advance(now);
        }
    }

    /// Of each CPU's ring: the bytes that were ever written to it, and how many records were lost
    /// since the last that fitted.
    pub fn written(&self) -> impl Iterator<Item = (u64, Losses)> {
        let untold = |lost| Losses { untold: lost, ..Losses::default() };
        self.rings.iter().map(move |ring| (ring.head, untold(ring.lost)))
    }

    /// Records of each event that were lost.
    pub fn lost(&self) -> &[u64] {
        &self.lost
    }

    /// What the tool does until `now`.
    fn advance(&mut self, now: Time) {
        loop {
            match self.reader {
                Reader::Asleep => match self.woken.take() {
                    Some(at) => self.pass(0, at, false),
                    None => return,
                },
                Reader::Reading { ring, to, done } if done <= now => {
                    self.rings[ring].tail = to;
                    self.pass(ring + 1, done, true);
                }
                Reader::Reading { .. } => return,
            }
        }
    }

    /// The tool looks at the rings from `first` on; `found`: it had something in this pass.
    fn pass(&mut self, first: usize, now: Time, found: bool) {
        let full = |from: usize| {
            (from..self.rings.len()).find(|&i| self.rings[i].head != self.rings[i].tail)
        };
        let next = full(first).or_else(|| if found { full(0) } else { None });
        self.reader = match next {
            Some(ring) => {
                let Ring { head, tail, .. } = self.rings[ring];
                let time = u128::from(head - tail) * MILLISECOND / u128::from(self.rate);
                let done = now.saturating_add(Time::try_from(time).unwrap_or(Time::MAX));
                Reader::Reading { ring, to: head, done }
            }
            None => Reader::Asleep,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: u64 = 48;

    fn rings(rate: u64, cpus: u32) -> Rings {
        Rings::new(Settings { rate, pages: 1 }, cpus, 2)
    }

    fn fits(lost: u64, wake: bool) -> Written {
        Written::Fits { lost, wake }
    }

    #[test]
    fn a_full_ring_loses_until_the_reader_is_done() {
        // A byte a microsecond: 3,000 bytes take 3 ms.
        let mut r = rings(1000, 1);
        assert_eq!(r.write(0, 0, 1000, LOST, 0), fits(0, false));
        assert_eq!(r.write(0, 0, 1000, LOST, 0), fits(0, false));
        assert_eq!(r.write(0, 0, 1000, LOST, 1), fits(0, true), "more than half");
        r.wake(0, 10);
        assert_eq!(r.write(0, 20, 1000, LOST, 0), fits(0, false));
        assert_eq!(r.write(0, 30, 1000, LOST, 1), Written::Lost, "3,000 bytes are being read");
        assert_eq!(r.write(0, 3_000_009, 96, LOST, 0), Written::Lost);
        assert_eq!(r.write(0, 3_000_010, 1000, LOST, 0), fits(2, true));
        assert_eq!(r.lost(), [1, 1]);
    }

    #[test]
    fn one_byte_is_never_used_and_the_lost_record_needs_room() {
        let mut r = rings(1, 1);
        assert_eq!(r.write(0, 0, 4096, LOST, 0), Written::Lost);
        assert_eq!(r.write(0, 0, 4095, LOST, 0), Written::Lost, "with the LOST record");
        assert_eq!(r.write(0, 0, 4095 - LOST, LOST, 0), fits(2, true));
    }

    #[test]
    fn nobody_reads_before_he_is_woken() {
        let mut r = rings(u64::MAX, 2);
        assert_eq!(r.write(1, 0, 2048, LOST, 0), fits(0, false));
        assert_eq!(r.write(1, 1 << 40, 2047, LOST, 0), fits(0, true));
        assert_eq!(r.write(1, 1 << 41, 8, LOST, 0), Written::Lost, "irq_work did not run yet");
        r.wake(0, 1 << 42);
        assert_eq!(r.write(1, 1 << 43, 8, LOST, 0), Written::Lost, "nor did this CPU's");
        r.wake(1, 1 << 44);
        assert_eq!(r.write(1, 1 << 44, 8, LOST, 0), fits(2, true));
    }

    #[test]
    fn rings_are_read_one_after_the_other() {
        let mut r = rings(1000, 2);
        assert_eq!(r.write(0, 0, 3000, LOST, 0), fits(0, true));
        assert_eq!(r.write(1, 0, 3000, LOST, 0), fits(0, true));
        r.wake(0, 0);
        r.wake(1, 0);
        assert_eq!(r.write(1, 5_999_999, 3000, LOST, 0), Written::Lost);
        assert_eq!(r.write(1, 6_000_000, 3000, LOST, 0), fits(1, true));
        assert_eq!(r.write(0, 6_000_000, 3000, LOST, 0), fits(0, true));
    }
}
