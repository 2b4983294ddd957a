//! Clocks and sleeping, on the virtual clock.

use arch::Errno;
use arch::syscalls::Sysno;

use super::{Outcome, SysResult, encode};
use crate::kernel::symbols::Named;
use crate::kernel::{Kernel, Point, State};
use crate::perf::record::{EventKind, Time};
use crate::perf::session::Perf;

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
        Sysno::SchedYield => Ok(0),
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
        2 | 3 => Ok(now.saturating_sub(s.task.slept)),
        // TAI
        11 => Ok(s.config.boot_time + now + TAI_OFFSET * NANOS),
        // A CPU clock of this task by id (`clock_getcpuclockid`).
        id if id < 0
            && id & 4 == 0
            && matches!(!(id >> 3) as u32, pid if pid == 0 || pid == s.task.pid) =>
        {
            Ok(now.saturating_sub(s.task.slept))
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
        let user = s.stats.instructions / (NANOS / 100);
        let system = s.cpu.clock.saturating_sub(s.task.slept + s.stats.instructions);
        s.write_pair(a[0], user, system / (NANOS / 100))?;
        s.write_pair(a[0] + 16, 0, 0)?;
    }
    Ok(ticks)
}

/// `nanosleep` and `clock_nanosleep`: nothing else can run, so virtual time jumps.
pub async fn sleep(k: &Kernel, sysno: Sysno, a: [u64; 6]) -> Outcome {
    let until = k.step(Point::Body, |s| deadline(s, sysno, a)).await;
    let until = match until {
        Ok(until) => until,
        Err(errno) => return Outcome::Return(encode(Err(errno))),
    };
    sleep_until(k, until).await;
    Outcome::Return(0)
}

/// The task sleeps until `until`, at most half of all time.
pub async fn sleep_until(k: &Kernel, until: Time) {
    const SCHEDULE: [Named; 2] = [Named::Schedule, Named::InnerSchedule];
    k.enter(&SCHEDULE).await;
    k.step(Point::Sleep, |s| {
        s.software_event(EventKind::ContextSwitches, None);
    })
    .await;
    // Timers that fire while the CPU is idle do not sample this task.
    k.step(Point::Idle, |s| s.idle_until(until.min(Time::MAX / 2))).await;
    k.step(Point::Wake, |_| ()).await;
    k.leave(&SCHEDULE).await;
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
    /// The CPU idles until `until`; the task does not run.
    pub fn idle_until(&mut self, until: Time) {
        let idle = until.saturating_sub(self.cpu.clock);
        self.cpu.clock += idle;
        self.task.slept += idle;
        let now = self.cpu.clock;
        let Perf { session, counters, deadlines, .. } = &mut self.perf;
        for ((event, counter), deadline) in session.events.iter().zip(counters).zip(deadlines) {
            if event.kind == EventKind::TaskClock {
                // The task's time stands still.
                *deadline = deadline.saturating_add(idle);
            } else if *deadline != Time::MAX && *deadline < now {
                let step = counter.period.max(10_000);
                *deadline += (now - *deadline).div_ceil(step) * step;
            }
        }
    }
}
