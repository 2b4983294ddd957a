//! Times and what is measured in them, in 64-bit layouts that both
//! architectures share (`include/uapi/linux/{time,time_types,resource,times}.h`).

use crate::bytes::{put, put_words, u64_at};

const NANOSECONDS: i64 = 1_000_000_000;

/// `struct timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timespec {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999 in a valid time.
    pub nsec: i64,
}

impl Timespec {
    /// Bytes in memory.
    pub const SIZE: usize = 16;

    /// From nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Timespec {
        let unit = NANOSECONDS as u64;
        Timespec { sec: (nanos / unit) as i64, nsec: (nanos % unit) as i64 }
    }

    /// To nanoseconds; `None` for an invalid or negative time (`EINVAL`). Times
    /// beyond 584 years saturate, as they do in the kernel.
    pub const fn to_nanos(self) -> Option<u64> {
        if self.sec < 0 || self.nsec < 0 || self.nsec >= NANOSECONDS {
            return None;
        }
        let whole = (self.sec as u64).saturating_mul(NANOSECONDS as u64);
        Some(whole.saturating_add(self.nsec as u64))
    }

    /// The structure in memory.
    pub fn to_bytes(self) -> [u8; Timespec::SIZE] {
        let mut out = [0; Timespec::SIZE];
        put_words(&mut out, 0, &[self.sec as u64, self.nsec as u64]);
        out
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; Timespec::SIZE]) -> Timespec {
        Timespec { sec: u64_at(bytes, 0) as i64, nsec: u64_at(bytes, 8) as i64 }
    }
}

/// `struct timeval`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timeval {
    /// Seconds.
    pub sec: i64,
    /// Microseconds, 0 to 999,999 in a valid time.
    pub usec: i64,
}

impl Timeval {
    /// Bytes in memory.
    pub const SIZE: usize = 16;

    /// From nanoseconds, rounded down.
    pub const fn from_nanos(nanos: u64) -> Timeval {
        let time = Timespec::from_nanos(nanos);
        Timeval { sec: time.sec, usec: time.nsec / 1000 }
    }

    /// To nanoseconds; `None` for an invalid or negative time.
    pub const fn to_nanos(self) -> Option<u64> {
        if self.usec < 0 || self.usec >= 1_000_000 {
            return None;
        }
        Timespec { sec: self.sec, nsec: self.usec * 1000 }.to_nanos()
    }

    /// The structure in memory.
    pub fn to_bytes(self) -> [u8; Timeval::SIZE] {
        Timespec { sec: self.sec, nsec: self.usec }.to_bytes()
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; Timeval::SIZE]) -> Timeval {
        let pair = Timespec::from_bytes(bytes);
        Timeval { sec: pair.sec, usec: pair.nsec }
    }
}

/// Interval and remaining time of a timer in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimerValue {
    /// Period, 0 for a timer that fires once.
    pub interval: u64,
    /// Until the next expiration, 0 for a disarmed timer.
    pub value: u64,
}

impl TimerValue {
    /// Bytes of `struct itimerspec` and `struct itimerval`.
    pub const SIZE: usize = 32;

    /// `struct itimerspec`.
    pub fn to_itimerspec(self) -> [u8; TimerValue::SIZE] {
        let mut out = [0; TimerValue::SIZE];
        put(&mut out, 0, Timespec::from_nanos(self.interval).to_bytes());
        put(&mut out, 16, Timespec::from_nanos(self.value).to_bytes());
        out
    }

    /// `struct itimerval`.
    pub fn to_itimerval(self) -> [u8; TimerValue::SIZE] {
        let mut out = [0; TimerValue::SIZE];
        put(&mut out, 0, Timeval::from_nanos(self.interval).to_bytes());
        put(&mut out, 16, Timeval::from_nanos(self.value).to_bytes());
        out
    }

    /// Reads a `struct itimerspec`; `None` if a time is invalid.
    pub fn from_itimerspec(bytes: &[u8; TimerValue::SIZE]) -> Option<TimerValue> {
        let time = |at: usize| {
            let pair =
                Timespec { sec: u64_at(bytes, at) as i64, nsec: u64_at(bytes, at + 8) as i64 };
            pair.to_nanos()
        };
        Some(TimerValue { interval: time(0)?, value: time(16)? })
    }

    /// Reads a `struct itimerval`; `None` if a time is invalid.
    pub fn from_itimerval(bytes: &[u8; TimerValue::SIZE]) -> Option<TimerValue> {
        let time = |at: usize| {
            let pair =
                Timeval { sec: u64_at(bytes, at) as i64, usec: u64_at(bytes, at + 8) as i64 };
            pair.to_nanos()
        };
        Some(TimerValue { interval: time(0)?, value: time(16)? })
    }
}

/// `struct rusage`, the fields that Linux maintains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rusage {
    /// User time in nanoseconds.
    pub user: u64,
    /// System time in nanoseconds.
    pub system: u64,
    /// Largest resident size in KiB.
    pub max_rss: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults with input.
    pub major_faults: u64,
    /// Blocks read.
    pub in_blocks: u64,
    /// Blocks written.
    pub out_blocks: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
}

impl Rusage {
    /// Bytes in memory.
    pub const SIZE: usize = 144;

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; Rusage::SIZE] {
        let mut out = [0; Rusage::SIZE];
        put(&mut out, 0, Timeval::from_nanos(self.user).to_bytes());
        put(&mut out, 16, Timeval::from_nanos(self.system).to_bytes());
        put_words(&mut out, 32, &[self.max_rss]);
        put_words(&mut out, 64, &[self.minor_faults, self.major_faults]);
        put_words(&mut out, 88, &[self.in_blocks, self.out_blocks]);
        put_words(&mut out, 128, &[self.voluntary, self.involuntary]);
        out
    }
}

/// `struct tms`: user, system, children's user and system time in nanoseconds,
/// written in clock ticks.
pub fn tms(nanos: [u64; 4]) -> [u8; 32] {
    const TICK: u64 = NANOSECONDS as u64 / crate::elf::CLOCK_TICKS;
    let mut out = [0; 32];
    put_words(&mut out, 0, &nanos.map(|n| n / TICK));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert() {
        let time = Timespec::from_nanos(1_500_000_001);
        assert_eq!(time, Timespec { sec: 1, nsec: 500_000_001 });
        assert_eq!(time.to_nanos(), Some(1_500_000_001));
        assert_eq!(Timespec::from_bytes(&time.to_bytes()), time);
        assert_eq!(Timespec { sec: 0, nsec: NANOSECONDS }.to_nanos(), None);
        assert_eq!(Timespec { sec: -1, nsec: 0 }.to_nanos(), None);
        assert_eq!(Timespec { sec: i64::MAX, nsec: 0 }.to_nanos(), Some(u64::MAX));
        let time = Timeval::from_nanos(1_500_000_999);
        assert_eq!(time, Timeval { sec: 1, usec: 500_000 });
        assert_eq!(Timeval::from_bytes(&time.to_bytes()).to_nanos(), Some(1_500_000_000));
        assert_eq!(Timeval { sec: 0, usec: i64::MAX }.to_nanos(), None);
    }

    #[test]
    fn timers_round_trip() {
        let timer = TimerValue { interval: 2_000_000_000, value: 5_000 };
        assert_eq!(TimerValue::from_itimerspec(&timer.to_itimerspec()), Some(timer));
        assert_eq!(TimerValue::from_itimerval(&timer.to_itimerval()), Some(timer));
        assert_eq!(TimerValue::from_itimerval(&[0xff; 32]), None);
    }

    #[test]
    fn usage_layout() {
        let usage = Rusage {
            user: 1_000_002_000,
            system: 3_000,
            max_rss: 4,
            minor_faults: 5,
            major_faults: 6,
            in_blocks: 7,
            out_blocks: 8,
            voluntary: 9,
            involuntary: 10,
        };
        let out = usage.to_bytes();
        let words: Vec<u64> = (0..18).map(|i| u64_at(&out, 8 * i)).collect();
        assert_eq!(words, [1, 2, 0, 3, 4, 0, 0, 0, 5, 6, 0, 7, 8, 0, 0, 0, 9, 10]);
        assert_eq!(tms([20_000_000, 0, 0, 10_000_000])[..1], [2]);
    }
}
