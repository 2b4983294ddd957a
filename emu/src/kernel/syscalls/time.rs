//! Clocks and sleeping, on the virtual clock.

use arch::Errno;
use arch::syscalls::Sysno;

use super::{Outcome, SysResult, encode};
use crate::kernel::process::CpuTime;
use crate::kernel::wait::{self, Wait, Woken, restart};
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::Time;

const NANOS: u64 = 1_000_000_000;
const TIMER_ABSTIME: u64 = 1;
/// `CLOCK_TAI` is ahead of `CLOCK_REALTIME` by so many seconds.
const TAI_OFFSET: u64 = 37;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    Some(match sysno {
        Sysno::ClockGettime => clock_gettime(s, a),
        Sysno::ClockGetres => clock_getres(s, a),
        Sysno::Gettimeofday => gettimeofday(s, a),
        Sysno::Time => time(s, a),
        Sysno::Times => times(s, a),
        Sysno::ClockSettime if a[0] as i32 != 0 => Err(Errno::EINVAL),
        Sysno::Settimeofday if a[0] != 0 && s.read_pair(a[0]).is_err() => Err(Errno::EFAULT),
        Sysno::ClockSettime | Sysno::Settimeofday | Sysno::Adjtimex | Sysno::ClockAdjtime => {
            Err(Errno::EPERM)
        }
        _ => return None,
    })
}

/// Nanoseconds of clock `id` now.
fn read_clock(s: &State, id: u64) -> Result<u64, Errno> {
    let now = s.cpu.clock;
    match id as i32 {
        // REALTIME, REALTIME_COARSE, REALTIME_ALARM
        0 | 5 | 8 => Ok(s.config.boot_time + now),
        // MONOTONIC, _RAW, _COARSE, BOOTTIME, BOOTTIME_ALARM
        1 | 4 | 6 | 7 | 9 => Ok(now),
        // PROCESS_CPUTIME_ID, THREAD_CPUTIME_ID
        2 => Ok(s.process_time().total()),
        3 => Ok(s.thread_time().total()),
        // TAI
        11 => Ok(s.config.boot_time + now + TAI_OFFSET * NANOS),
        // A CPU clock of this task by id (`clock_getcpuclockid`).
        id if id < 0
            && id & 4 == 0
            && matches!(!(id >> 3) as u32, pid if pid == 0 || pid == s.task.pid) =>
        {
            Ok(s.process_time().total())
        }
        _ => Err(Errno::EINVAL),
    }
}

fn clock_gettime(s: &mut State, a: [u64; 6]) -> SysResult {
    let t = read_clock(s, a[0])?;
    s.write_pair(a[1], t / NANOS, t % NANOS)?;
    Ok(0)
}

fn clock_getres(s: &mut State, a: [u64; 6]) -> SysResult {
    read_clock(s, a[0])?;
    if a[1] != 0 {
        // Coarse clocks are exact here too, as in the vDSO.
        s.write_pair(a[1], 0, 1)?;
    }
    Ok(0)
}

fn gettimeofday(s: &mut State, a: [u64; 6]) -> SysResult {
    let t = s.config.boot_time + s.cpu.clock;
    if a[0] != 0 {
        s.write_pair(a[0], t / NANOS, t % NANOS / 1000)?;
    }
    if a[1] != 0 {
        s.write_user(a[1], &[0; 8])?;
    }
    Ok(0)
}

fn time(s: &mut State, a: [u64; 6]) -> SysResult {
    let seconds = (s.config.boot_time + s.cpu.clock) / NANOS;
    if a[0] != 0 {
        s.write_user(a[0], &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}

fn times(s: &mut State, a: [u64; 6]) -> SysResult {
    // USER_HZ is 100.
    let ticks = s.cpu.clock / (NANOS / 100);
    if a[0] != 0 {
        let (own, children) = (s.process_time(), s.task.process.borrow().children);
        let tick = |nanos: u64| nanos / (NANOS / 100);
        s.write_pair(a[0], tick(own.user), tick(own.system))?;
        s.write_pair(a[0] + 16, tick(children.user), tick(children.system))?;
    }
    Ok(ticks)
}

/// `nanosleep` and `clock_nanosleep`. Interrupted, a span is told what is left of it.
pub async fn sleep(k: &Kernel, sysno: Sysno, a: [u64; 6]) -> Outcome {
    let until = k
        .step(Point::Body, |s| {
            let until = deadline(s, sysno, a)?;
            // At most half of all time.
            let until = until.min(Time::MAX / 2);
            s.prepare_to_wait(Wait::Time, Some(until), true);
            Ok(until)
        })
        .await;
    let until = match until {
        Ok(until) => until,
        Err(errno) => return Outcome::Return(encode(Err(errno))),
    };
    if wait::finish(k).await != Woken::Interrupted {
        return Outcome::Return(0);
    }
    Outcome::Return(k.step(Point::WaitOver, |s| interrupted(s, sysno, a, until)).await)
}

/// The result of a sleep that a signal ended, and the time that is left.
fn interrupted(s: &mut State, sysno: Sysno, a: [u64; 6], until: Time) -> u64 {
    let (flags, remaining) = match sysno {
        Sysno::Nanosleep => (0, a[1]),
        _ => (a[1], a[3]),
    };
    if flags & TIMER_ABSTIME != 0 {
        return restart::NO_HANDLER;
    }
    let left = until.saturating_sub(s.cpu.clock);
    if remaining != 0 && s.write_pair(remaining, left / NANOS, left % NANOS).is_err() {
        return Errno::EFAULT.to_ret();
    }
    restart::BLOCK
}

fn deadline(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Result<Time, Errno> {
    let (clock, flags, request) = match sysno {
        Sysno::Nanosleep => (1, 0, a[0]),
        _ => (a[0], a[1], a[2]),
    };
    let now = read_clock(s, clock)?;
    // The clock of a thread, the raw and the coarse ones have no timers.
    if matches!(clock as i32, 3..=6) {
        return Err(Errno::EOPNOTSUPP);
    }
    let wanted = s.read_timespec(request)?;
    let wait = match flags & TIMER_ABSTIME {
        0 => wanted,
        _ => wanted.saturating_sub(now),
    };
    Ok(s.cpu.clock.saturating_add(wait))
}

impl State {
    /// CPU time of the present task.
    pub fn thread_time(&self) -> CpuTime {
        let mut time = self.task.times;
        time.system += self.cpu.clock.saturating_sub(self.cpu.accounted);
        time
    }

    /// CPU time of its process: all threads.
    pub fn process_time(&self) -> CpuTime {
        let mut time = self.task.process.borrow().dead_threads;
        time.add(self.thread_time());
        let (pid, own) = (self.task.pid, self.task.id);
        let others = self.tasks().filter(|t| t.pid == pid && t.id != own && !t.dead);
        others.for_each(|t| time.add(t.times));
        time
    }

    /// When a call's time is over that may take `span` nanoseconds from its beginning on.
    pub fn call_deadline(&mut self, span: u64) -> Time {
        let at = self.cpu.clock.saturating_add(span).min(Time::MAX / 2);
        *self.task.deadline.get_or_insert(at)
    }
}
