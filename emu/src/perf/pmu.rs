//! Counters, periods, frequency.
//!
//! A counter is programmed with `left` = events until overflow. When `n` events happen,
//! `left -= n`; at `left <= 0` it has overflowed and an interrupt is pending. The handler
//! sets the next period as the kernel does (`x86_perf_event_set_period`):
//!
//! ```text
//! left <= -period:  left  = period      (whole periods were missed: start again)
//! left <= 0:        left += period
//! ```
//!
//! The sample that comes stands for the period that was programmed (`hw.last_period`), also where
//! the period has changed since. With a frequency the period follows what is counted
//! (`perf_adjust_period`):
//!
//! ```text
//! wanted  = counted * 10^9 / (nanoseconds * frequency)
//! period += (wanted - period ± 7) / 8
//! ```
//!
//! at each overflow (one period in the time since the last overflow, if that is less than two
//! ticks) and at each tick (what was counted since the last one, in 4 ms).

use crate::perf::record::{Event, EventKind, Rate, Time};

/// Counts at 1 GHz, one instruction a cycle.
pub const HZ: u64 = 1_000_000_000;
/// `sysctl kernel.perf_event_max_sample_rate`, as Linux has it.
pub const MAX_SAMPLE_RATE: u64 = 100_000;
/// The kernel's timer tick, `HZ` = 250.
pub const TICK: Time = 4_000_000;

/// The counting state of one event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    /// Events until overflow; at most 0 when overflowed.
    pub left: i64,
    /// Current period: the one that is programmed next.
    pub period: u64,
    /// What was programmed at the last overflow, and is under way.
    programmed: u64,
    /// Events counted in all.
    pub total: u64,
    /// Samples taken.
    pub samples: u64,
    /// Events of whole periods that passed before the overflow was handled: counted, but
    /// no sample stands for them.
    pub missed: u64,
    /// Samples wanted a second, for frequency mode.
    frequency: Option<u64>,
    /// Events counted until the last tick, for frequency mode (`freq_count_stamp`).
    stamp: u64,
    /// When the last sample was taken, for frequency mode; the first has no interval.
    last: Option<Time>,
}

impl Counter {
    /// A counter at the beginning of its first period.
    pub fn new(event: &Event) -> Counter {
        let (period, frequency) = match event.rate {
            Rate::Period(p) => (p.max(1), None),
            Rate::Frequency(f) => (first_period(event.kind, f.max(1)), Some(f.max(1))),
        };
        let left = signed(period);
        Counter {
            left,
            period,
            programmed: period,
            total: 0,
            samples: 0,
            missed: 0,
            frequency,
            stamp: 0,
            last: None,
        }
    }

    /// The counter of the same event in a child: this one's period, from its beginning.
    pub fn inherited(&self) -> Counter {
        Counter {
            left: signed(self.period),
            programmed: self.period,
            total: 0,
            samples: 0,
            missed: 0,
            stamp: 0,
            last: None,
            ..self.clone()
        }
    }

    /// This counter with the rate of `event`, at the beginning of a period
    /// (`__perf_event_period`). With a frequency the period stays, and follows the new one from
    /// there, unless it is a timer's, which is right at once.
    pub fn with_rate(&self, event: &Event) -> Counter {
        let new = Counter::new(event);
        let adapts = new.frequency.is_some() && self.frequency.is_some() && !event.kind.is_clock();
        let period = if adapts { self.period } else { new.period };
        let (left, frequency) = (signed(period), new.frequency);
        Counter { left, period, programmed: period, frequency, ..self.clone() }
    }

    /// What `other`, which ends, has counted is added.
    pub fn add(&mut self, other: &Counter) {
        self.left = other.left;
        (self.period, self.programmed) = (other.period, other.programmed);
        self.total = self.total.saturating_add(other.total);
        self.samples += other.samples;
        self.missed += other.missed;
    }

    /// `n` events happened; whether the counter has overflowed.
    pub fn count(&mut self, n: u64) -> bool {
        self.total = self.total.saturating_add(n);
        self.left = self.left.saturating_sub(signed(n));
        self.left <= 0
    }

    /// Events counted of the period that is under way.
    pub fn begun(&self) -> i64 {
        signed(self.programmed) - self.left
    }

    /// Takes the overflow: returns the period that the sample stands for and programs
    /// the next one.
    pub fn take(&mut self, now: Time) -> u64 {
        let period = self.programmed;
        self.samples += 1;
        if let Some(frequency) = self.frequency {
            self.adjust(now, frequency);
        }
        let next = signed(self.period);
        if self.left <= -next {
            self.missed += self.left.unsigned_abs();
            self.left = 0;
        }
        self.left += next;
        self.programmed = self.period;
        period
    }

    /// Frequency mode, at an overflow: if the last one was less than two ticks before.
    fn adjust(&mut self, now: Time, frequency: u64) {
        let Some(last) = self.last.replace(now) else { return };
        let elapsed = now.saturating_sub(last);
        if elapsed > 0 && elapsed < 2 * TICK {
            self.approach(self.programmed, elapsed, frequency);
        }
    }

    /// Whether nothing but ticks can say what its period should be: events of its kind come at no
    /// rate that is known.
    pub const fn needs_ticks(&self, kind: EventKind) -> bool {
        self.frequency.is_some() && !has_known_rate(kind)
    }

    /// A tick of the CPU (`perf_adjust_freq_unthr_events`): the period follows what was counted
    /// since the last one. What is under way goes on as it was programmed, unless more than eight
    /// of the new periods are left of it: then it is given up, counted without a sample.
    pub fn tick(&mut self) {
        let Some(frequency) = self.frequency else { return };
        let counted = self.total - std::mem::replace(&mut self.stamp, self.total);
        if counted == 0 {
            return;
        }
        self.approach(counted, TICK, frequency);
        if self.left > signed(self.period).saturating_mul(8) {
            self.missed += self.begun().unsigned_abs();
            (self.left, self.programmed) = (signed(self.period), self.period);
        }
    }

    /// An eighth of the way to the period that gives `frequency` samples a second, if `counted`
    /// events take `elapsed`.
    fn approach(&mut self, counted: u64, elapsed: Time, frequency: u64) {
        let wanted =
            u128::from(counted) * u128::from(HZ) / (u128::from(elapsed) * u128::from(frequency));
        let delta = (wanted as i128 - i128::from(self.period)).clamp(-(1 << 60), 1 << 60) as i64;
        let step = if delta >= 0 { delta.saturating_add(7) } else { delta - 7 } / 8;
        self.period = (signed(self.period) + step).max(1) as u64;
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX / 2)
}

/// Events that come at a rate that is known: of these the first period is the right one.
const fn has_known_rate(kind: EventKind) -> bool {
    use EventKind::{CpuClock, Cycles, Instructions, TaskClock};
    matches!(kind, Cycles | Instructions | CpuClock | TaskClock)
}

/// The period that frequency mode starts with. The kernel starts with 1 and adapts;
/// here cycles, instructions and time run at a known rate, so that their first period
/// is the right one.
fn first_period(kind: EventKind, frequency: u64) -> u64 {
    match kind {
        kind if has_known_rate(kind) => (HZ / frequency).max(1),
        // About every sixth instruction branches; adapted from there.
        EventKind::Branches => (HZ / 6 / frequency).max(1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::record::UserStack;

    fn event(kind: EventKind, rate: Rate) -> Event {
        Event {
            kind,
            name: String::new(),
            rate,
            exclude_user: false,
            exclude_kernel: false,
            callchain: false,
            exclude_callchain_user: false,
            exclude_callchain_kernel: false,
            defer: false,
            user_stack: UserStack::default(),
            max_stack: 0,
        }
    }

    #[test]
    fn overflow_keeps_the_remainder() {
        let mut c = Counter::new(&event(EventKind::Cycles, Rate::Period(100)));
        assert!(!c.count(99));
        assert!(c.count(4));
        assert_eq!((c.take(0), c.left), (100, 97));
        assert!(c.count(1000));
        assert_eq!((c.take(0), c.left), (100, 100));
        assert_eq!((c.total, c.samples, c.missed), (1103, 2, 903));
    }

    #[test]
    fn frequency_of_cycles_is_exact_from_the_start() {
        let mut c = Counter::new(&event(EventKind::Cycles, Rate::Frequency(4000)));
        for i in 1..100 {
            assert!(c.count(250_000));
            assert_eq!(c.take(i * 250_000), 250_000);
        }
    }

    /// Overflows that are too seldom for [`Counter::adjust`]: ticks bring the period down, and
    /// give up what would take too long.
    #[test]
    fn ticks_adapt_what_overflows_too_seldom() {
        let mut c = Counter::new(&event(EventKind::Branches, Rate::Frequency(1000)));
        let first = c.period;
        let mut periods = 0;
        let mut samples = [0; 4];
        for tick in 1..=400 {
            // An event each 4 µs: a period of 250 gives 1000 samples a second.
            for part in 1..=40 {
                if c.count(25) {
                    periods += c.take((tick - 1) * TICK + part * TICK / 40);
                    samples[tick as usize / 101] += 1;
                }
            }
            c.tick();
            assert_eq!(periods as i64 + c.begun() + c.missed as i64, c.total as i64);
        }
        assert!(first > 100_000 && (230..270).contains(&c.period), "{first}, then {}", c.period);
        assert!(c.missed > 10_000, "{}", c.missed);
        // In 400 ms each; the first has to find the period.
        assert!(samples[0] < 350 && (380..420).contains(&samples[3]), "{samples:?}");
    }

    /// The next tick takes what was counted since the last one, not since the event was opened.
    #[test]
    fn another_frequency_goes_on_from_the_present_period() {
        let mut c = Counter::new(&event(EventKind::Branches, Rate::Frequency(1000)));
        for _ in 0..200 {
            c.count(1000);
            c.left = c.left.max(1);
            c.tick();
        }
        // 1000 branches in 4 ms.
        let before = c.clone();
        assert!((240..260).contains(&before.period), "{}", before.period);
        c.count(100);
        let mut c = c.with_rate(&event(EventKind::Branches, Rate::Frequency(500)));
        assert_eq!((c.period, c.left), (before.period, before.period as i64));
        assert_eq!(c.total, before.total + 100);
        c.count(900);
        c.tick();
        // An eighth of the way to 500.
        assert!((270..290).contains(&c.period), "{}", c.period);
        let c = c.with_rate(&event(EventKind::Branches, Rate::Period(70)));
        assert_eq!((c.period, c.left, c.total), (70, 70, before.total + 1000));
    }

    #[test]
    fn frequency_of_branches_adapts() {
        let mut c = Counter::new(&event(EventKind::Branches, Rate::Frequency(1000)));
        let mut now = 0;
        for _ in 0..200 {
            now += c.period * 20;
            c.count(c.period);
            c.take(now);
        }
        // One branch in 20 ns: 1000 samples a second are 50,000 branches apart.
        assert!((49_000..51_000).contains(&c.period), "{}", c.period);
    }
}
