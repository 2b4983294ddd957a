//! Processes: making them, waiting for them, their timers.

use arch::siginfo::SigInfo;
use arch::signal::code;
use arch::time::Rusage;
use arch::{Arch, Errno, Signal, Sysno};

use super::SysResult;
use crate::kernel::fork::{CloneArgs, flag};
use crate::kernel::process::{CpuTime, RealTimer, Shared};
use crate::kernel::signal::{self, Target};
use crate::kernel::timers::Timer;
use crate::kernel::vfs::open_file::flags;
use crate::kernel::vfs::{Node, OpenFile, Pipe};
use crate::kernel::wait::{Block, Wait};
use crate::kernel::{State, task::rlimit};

const WNOHANG: u64 = 1;
const WUNTRACED: u64 = 2;
const WEXITED: u64 = 4;
const WNOWAIT: u64 = 0x100_0000;
const ITIMER_REAL: u64 = 0;
const MICROS: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    Some(match sysno {
        Sysno::Wait4 => wait4(s, a),
        Sysno::Waitid => waitid(s, a),
        Sysno::Setitimer => setitimer(s, a),
        Sysno::Getitimer => getitimer(s, a),
        Sysno::Alarm => alarm(s, a[0] as u32),
        Sysno::Pipe => pipe(s, a[0], 0),
        Sysno::Pipe2 => pipe(s, a[0], a[1]),
        Sysno::Setpgid => Ok(0),
        _ => return None,
    })
}

/// What `clone`, `clone3`, `fork` or `vfork` asks for.
pub fn clone_args(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Result<CloneArgs, Errno> {
    const CSIGNAL: u64 = 0xff;
    let forked =
        |flags| CloneArgs { flags, exit_signal: Signal::SIGCHLD.number(), ..CloneArgs::default() };
    match sysno {
        Sysno::Fork => Ok(forked(0)),
        Sysno::Vfork => Ok(forked(flag::VM | flag::VFORK)),
        Sysno::Clone3 => {
            const SIZE_VER0: u64 = 64;
            if a[1] < SIZE_VER0 || a[1] > 4096 {
                return Err(if a[1] < SIZE_VER0 { Errno::EINVAL } else { Errno::E2BIG });
            }
            let mut words = [0; 8];
            for (i, word) in words.iter_mut().enumerate() {
                *word = s.read_u64(a[0] + 8 * i as u64)?;
            }
            let [flags, _pidfd, child_tid, parent_tid, exit_signal, stack, size, tls] = words;
            if exit_signal & !CSIGNAL != 0 || flags & CSIGNAL != 0 || (stack == 0) != (size == 0) {
                return Err(Errno::EINVAL);
            }
            let stack = stack.wrapping_add(size);
            let exit_signal = exit_signal as u8;
            Ok(CloneArgs { flags, stack, parent_tid, child_tid, tls, exit_signal })
        }
        _ => {
            let (tls, child_tid) = match s.arch {
                Arch::X86_64 => (a[4], a[3]),
                Arch::Aarch64 => (a[3], a[4]),
            };
            Ok(CloneArgs {
                flags: a[0] & 0xffff_ffff & !CSIGNAL,
                stack: a[1],
                parent_tid: a[2],
                child_tid,
                tls,
                exit_signal: (a[0] & CSIGNAL) as u8,
            })
        }
    }
}

/// Which children a wait is for.
#[derive(Clone, Copy, Debug)]
enum Which {
    Any,
    One(u32),
    Group(u32),
}

impl Which {
    fn holds(self, process: &Shared) -> bool {
        let process = process.borrow();
        match self {
            Which::Any => true,
            Which::One(pid) => process.pid == pid,
            Which::Group(group) => process.group == group,
        }
    }
}

/// The first child that has ended, or whether there is one at all.
fn find_child(s: &State, which: Which) -> Result<Option<Shared>, Errno> {
    let own = s.task.pid;
    let mine = |p: &Shared| p.borrow().parent == own && which.holds(p);
    if let Some(zombie) = s.zombies.values().find(|p| mine(p)) {
        return Ok(Some(zombie.clone()));
    }
    let lives = s.tasks().any(|t| !t.dead && t.kernel_thread.is_none() && mine(&t.process));
    if lives { Ok(None) } else { Err(Errno::ECHILD) }
}

fn wait4(s: &mut State, a: [u64; 6]) -> SysResult {
    let which = match a[0] as i32 {
        -1 => Which::Any,
        0 => Which::Group(s.task.process.borrow().group),
        pid if pid > 0 => Which::One(pid as u32),
        group => Which::Group(group.unsigned_abs()),
    };
    if a[2] & !(WNOHANG | WUNTRACED | 8 | 0x6000_0000) & 0xffff_ffff != 0 {
        return Err(Errno::EINVAL);
    }
    let Some(child) = find_child(s, which)? else { return no_child_yet(s, a[2]) };
    let (pid, ending, times) = {
        let child = child.borrow();
        (child.pid, child.zombie, child.dead_threads)
    };
    if a[1] != 0 {
        let status = ending.map_or(0, |e| e.wait_status());
        s.write_user(a[1], &status.to_le_bytes())?;
    }
    if a[3] != 0 {
        let usage = Rusage { user: times.user, system: times.system, ..Rusage::default() };
        s.write_user(a[3], &usage.to_bytes())?;
    }
    reap(s, pid, times);
    Ok(u64::from(pid))
}

fn no_child_yet(s: &mut State, options: u64) -> SysResult {
    if options & WNOHANG == 0 {
        let pid = s.task.pid;
        s.wait_for(Block::on(Wait::Child(pid)));
    }
    Ok(0)
}

fn waitid(s: &mut State, a: [u64; 6]) -> SysResult {
    const P_ALL: u64 = 0;
    const P_PID: u64 = 1;
    const P_PGID: u64 = 2;
    let which = match a[0] {
        P_ALL => Which::Any,
        P_PID => Which::One(a[1] as u32),
        P_PGID if a[1] == 0 => Which::Group(s.task.process.borrow().group),
        P_PGID => Which::Group(a[1] as u32),
        _ => return Err(Errno::EINVAL),
    };
    if a[3] & WEXITED == 0 {
        return Err(Errno::EINVAL);
    }
    let Some(child) = find_child(s, which)? else { return no_child_yet(s, a[3]) };
    let (pid, ending, times) = {
        let child = child.borrow();
        (child.pid, child.zombie, child.dead_threads)
    };
    if a[2] != 0 {
        let (code, status) = ending.map_or((code::CLD_EXITED, 0), |e| e.as_child_status());
        let info = SigInfo::child(Signal::SIGCHLD, code, pid as i32, s.task.uid, status);
        s.write_user(a[2], &info.to_bytes())?;
    }
    if a[3] & WNOWAIT == 0 {
        reap(s, pid, times);
    }
    Ok(0)
}

fn reap(s: &mut State, pid: u32, times: CpuTime) {
    s.zombies.remove(&pid);
    s.task.process.borrow_mut().children.add(times);
}

fn pipe(s: &mut State, at: u64, how: u64) -> SysResult {
    const NONBLOCK: u32 = 0o4000;
    let how = how as u32;
    if how & !(flags::CLOEXEC | NONBLOCK | 0o40000) != 0 {
        return Err(Errno::EINVAL);
    }
    s.pipes += 1;
    let (read, write) = Pipe::ends(1000 + s.pipes);
    let limit = s.task.limits[rlimit::NOFILE].0;
    let cloexec = how & flags::CLOEXEC != 0;
    let status = how & NONBLOCK;
    let reader = OpenFile::new(Node::Pipe(read.into()), status);
    let writer = OpenFile::new(Node::Pipe(write.into()), status | flags::WRONLY);
    let first = s.task.fds.install(reader, cloexec, 0, limit)?;
    let second = s.task.fds.install(writer, cloexec, 0, limit);
    let second = match second {
        Ok(second) => second,
        Err(errno) => {
            let _ = s.task.fds.close(first);
            return Err(errno);
        }
    };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_le_bytes());
    bytes[4..].copy_from_slice(&second.to_le_bytes());
    if let Err(errno) = s.write_user(at, &bytes) {
        let _ = (s.task.fds.close(first), s.task.fds.close(second));
        return Err(errno);
    }
    Ok(0)
}

/// Reads a `struct timeval` as nanoseconds.
fn read_timeval(s: &mut State, at: u64) -> Result<u64, Errno> {
    let (seconds, micros) = s.read_pair(at)?;
    if seconds > i64::MAX as u64 || micros >= SECOND / MICROS {
        return Err(Errno::EINVAL);
    }
    Ok(seconds.saturating_mul(SECOND).saturating_add(micros * MICROS))
}

/// What `getitimer` tells: interval and time left, in nanoseconds.
fn left(s: &State) -> (u64, u64) {
    let timer = s.task.process.borrow().real_timer;
    let left = timer.running.map_or(0, |(_, _, at)| at.saturating_sub(s.cpu.clock).max(MICROS));
    (timer.interval, left)
}

fn write_itimer(s: &mut State, at: u64, (interval, left): (u64, u64)) -> SysResult {
    s.write_pair(at, interval / SECOND, interval % SECOND / MICROS)?;
    s.write_pair(at + 16, left / SECOND, left % SECOND / MICROS)?;
    Ok(0)
}

fn getitimer(s: &mut State, a: [u64; 6]) -> SysResult {
    match a[0] {
        ITIMER_REAL => {
            let now = left(s);
            write_itimer(s, a[1], now)
        }
        1 | 2 => write_itimer(s, a[1], (0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

fn setitimer(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[0] > 2 {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = match a[1] {
        0 => (0, 0),
        at => (read_timeval(s, at)?, read_timeval(s, at + 16)?),
    };
    if a[0] != ITIMER_REAL {
        if value != 0 {
            s.note_unsupported("setitimer of CPU time");
            return Err(Errno::ENOSYS);
        }
        return Ok(0);
    }
    let old = left(s);
    start_real_timer(s, value, interval);
    if a[2] != 0 {
        write_itimer(s, a[2], old)?;
    }
    Ok(0)
}

fn alarm(s: &mut State, seconds: u32) -> SysResult {
    let (_, old) = left(s);
    start_real_timer(s, u64::from(seconds) * SECOND, 0);
    Ok(old.div_ceil(SECOND))
}

fn start_real_timer(s: &mut State, value: u64, interval: u64) {
    let running = s.task.process.borrow().real_timer.running;
    if let Some((cpu, id, _)) = running
        && let Some(cpu) = s.cpu_mut(cpu)
    {
        cpu.timers.cancel(id);
    }
    let (cpu, pid) = (s.cpu.id, s.task.pid);
    let running = (value != 0).then(|| {
        let at = s.cpu.clock.saturating_add(value);
        (cpu, s.cpu.timers.start(at, Timer::Real(pid)), at)
    });
    s.task.process.borrow_mut().real_timer = RealTimer { running, interval };
}

impl State {
    /// `ITIMER_REAL` of a process fired: `SIGALRM`, and the next one is on its way.
    pub fn real_timer_fired(&mut self, pid: u32) {
        let Some(&leader) = self.threads(pid).first() else { return };
        let Some(process) = self.task_of(leader).map(|t| t.process.clone()) else { return };
        let interval = process.borrow().real_timer.interval;
        let cpu = self.cpu.id;
        let next = (interval != 0).then(|| {
            let at = self.cpu.clock.saturating_add(interval.max(MICROS));
            (cpu, self.cpu.timers.start(at, Timer::Real(pid)), at)
        });
        process.borrow_mut().real_timer.running = next;
        signal::send_to(self, leader, SigInfo::kernel(Signal::SIGALRM), Target::Process);
    }
}
