//! Who and where the task is: ids, host, limits, randomness, per-thread registrations.

use arch::syscalls::Sysno;
use arch::system::{Sysinfo, Utsname};
use arch::time::Rusage;
use arch::{Arch, Errno};

use super::SysResult;
use crate::kernel::State;
use crate::kernel::sframe;
use crate::kernel::task::{TaskId, rlimit};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;

const PR_SET_PDEATHSIG: u64 = 1;
const PR_GET_DUMPABLE: u64 = 3;
const PR_SET_DUMPABLE: u64 = 4;
const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_SET_NO_NEW_PRIVS: u64 = 38;
const PR_SET_VMA: u64 = 0x53564d41;

const RSEQ_FLAG_UNREGISTER: u64 = 1;
/// Sizes that a thread may register: the original structure or the feature size.
const RSEQ_SIZE: u64 = 32;
const RSEQ_CPU_ID_UNINITIALIZED: u32 = u32::MAX;

/// Executes a call of this family.
pub fn call(s: &mut State, sysno: Sysno, a: [u64; 6]) -> Option<SysResult> {
    Some(match sysno {
        Sysno::Getpid => Ok(u64::from(s.task.pid)),
        Sysno::Gettid => Ok(u64::from(s.task.tid)),
        Sysno::Getppid => Ok(u64::from(s.task.ppid)),
        Sysno::Getpgid => target(s, a[0]).map(|id| s.group_of(id)),
        Sysno::Getsid => target(s, a[0]).map(|_| u64::from(s.first)),
        Sysno::Getpgrp => Ok(s.group_of(s.task.id)),
        Sysno::Getuid | Sysno::Geteuid => Ok(u64::from(s.task.uid)),
        Sysno::Getgid | Sysno::Getegid => Ok(u64::from(s.task.gid)),
        Sysno::Getgroups if (a[0] as i32) < 0 => Err(Errno::EINVAL),
        Sysno::Getgroups => Ok(0),
        Sysno::Getresuid => three_ids(s, a, s.task.uid),
        Sysno::Getresgid => three_ids(s, a, s.task.gid),
        Sysno::Umask => Ok(u64::from(std::mem::replace(&mut s.task.umask, a[0] as u32 & 0o777))),
        Sysno::Uname => uname(s, a),
        Sysno::Sysinfo => sysinfo(s, a),
        Sysno::Getrandom => getrandom(s, a),
        Sysno::Getcpu => getcpu(s, a),
        Sysno::SchedGetaffinity => sched_getaffinity(s, a),
        Sysno::SchedSetaffinity => sched_setaffinity(s, a),
        // PRIO_PROCESS, PRIO_PGRP, PRIO_USER
        Sysno::Getpriority | Sysno::Setpriority if a[0] > 2 => Err(Errno::EINVAL),
        Sysno::Getpriority => Ok(20),
        Sysno::Setpriority => Ok(0),
        Sysno::Prlimit64 => prlimit64(s, a),
        Sysno::Getrlimit => getrlimit(s, a),
        Sysno::Setrlimit => setrlimit(s, a),
        Sysno::Getrusage => getrusage(s, a),
        Sysno::ArchPrctl => arch_prctl(s, a),
        Sysno::Prctl => prctl(s, a),
        Sysno::SetTidAddress => {
            s.task.clear_child_tid = a[0];
            Ok(u64::from(s.task.tid))
        }
        Sysno::SetRobustList => {
            if a[1] != 24 {
                return Some(Err(Errno::EINVAL));
            }
            s.task.robust_list = (a[0], a[1]);
            Ok(0)
        }
        Sysno::Rseq => rseq(s, a),
        _ => return None,
    })
}

fn three_ids(s: &mut State, a: [u64; 6], id: u32) -> SysResult {
    for addr in &a[..3] {
        s.write_user(*addr, &id.to_le_bytes())?;
    }
    Ok(0)
}

fn uname(s: &mut State, a: [u64; 6]) -> SysResult {
    let names = Utsname {
        sysname: "Linux".to_owned(),
        nodename: "emu".to_owned(),
        release: "7.3.0-emu".to_owned(),
        version: "#1 SMP PREEMPT_DYNAMIC emu".to_owned(),
        machine: s.arch.name().to_owned(),
        domainname: "(none)".to_owned(),
    };
    s.write_user(a[0], &names.to_bytes())?;
    Ok(0)
}

/// `struct sysinfo`: uptime, and the memory that the machine has and has left.
fn sysinfo(s: &mut State, a: [u64; 6]) -> SysResult {
    let used = s.arena.used() * crate::mem::PAGE;
    let info = Sysinfo {
        uptime: s.cpu.clock / 1_000_000_000,
        total_ram: s.arena.len(),
        free_ram: s.arena.len() - used,
        procs: s.tasks().filter(|t| t.kernel_thread.is_none()).count() as u16,
        mem_unit: 1,
        ..Sysinfo::default()
    };
    s.write_user(a[0], &info.to_bytes())?;
    Ok(0)
}

fn getrandom(s: &mut State, a: [u64; 6]) -> SysResult {
    const KNOWN: u64 = 7;
    if a[2] & !KNOWN != 0 || a[2] & 6 == 6 {
        return Err(Errno::EINVAL);
    }
    s.check_range(a[0], a[1])?;
    let len = a[1].min(0x7fff_f000);
    let mut done = 0;
    while done < len {
        let mut chunk = vec![0; (len - done).min(4096) as usize];
        s.random.fill(&mut chunk);
        let copied = s.copy_out(a[0].wrapping_add(done), &chunk);
        done += copied as u64;
        if copied < chunk.len() {
            return if done > 0 { Ok(done) } else { Err(Errno::EFAULT) };
        }
    }
    Ok(done)
}

fn getcpu(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[0] != 0 {
        s.write_user(a[0], &s.cpu.id.to_le_bytes())?;
    }
    if a[1] != 0 {
        s.write_user(a[1], &0u32.to_le_bytes())?;
    }
    Ok(0)
}

fn is_self(s: &State, pid: u64) -> Result<(), Errno> {
    let pid = pid as u32;
    if pid == 0 || pid == s.task.pid || pid == s.task.tid { Ok(()) } else { Err(Errno::ESRCH) }
}

/// The task that a call is about: 0 is the present one.
fn target(s: &State, pid: u64) -> Result<TaskId, Errno> {
    match pid as u32 {
        0 => Ok(s.task.id),
        tid => s.find_tid(tid).ok_or(Errno::ESRCH),
    }
}

fn sched_getaffinity(s: &mut State, a: [u64; 6]) -> SysResult {
    if a[1] < 8 || !a[1].is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let id = target(s, a[0])?;
    let mask = s.task_of(id).map_or(0, |t| t.affinity) & s.all_cpus();
    s.write_user(a[2], &mask.to_le_bytes())?;
    Ok(8)
}

/// A task that may not stay where it is moves at once.
fn sched_setaffinity(s: &mut State, a: [u64; 6]) -> SysResult {
    let id = target(s, a[0])?;
    let mut mask = [0; 8];
    let len = a[1].min(8) as usize;
    s.read_user(a[2], &mut mask[..len])?;
    let mask = u64::from_le_bytes(mask) & s.all_cpus();
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    s.set_affinity(id, mask);
    Ok(0)
}

fn prlimit64(s: &mut State, a: [u64; 6]) -> SysResult {
    is_self(s, a[0])?;
    let index = a[1] as usize;
    let old = *s.task.limits.get(index).ok_or(Errno::EINVAL)?;
    let new = if a[2] != 0 { Some(s.read_pair(a[2])?) } else { None };
    if let Some(new) = new {
        set_limit(s, index, new)?;
    }
    if a[3] != 0 {
        s.write_pair(a[3], old.0, old.1)?;
    }
    Ok(0)
}

fn set_limit(s: &mut State, index: usize, new: (u64, u64)) -> Result<(), Errno> {
    let old = s.task.limits.get_mut(index).ok_or(Errno::EINVAL)?;
    if new.0 > new.1 {
        return Err(Errno::EINVAL);
    }
    if new.1 > old.1 {
        return Err(Errno::EPERM);
    }
    *old = new;
    match index {
        rlimit::STACK => s.mm.layout.stack_limit = new.0,
        rlimit::DATA => s.mm.layout.data_limit = new.0,
        rlimit::AS => s.mm.layout.address_limit = new.0,
        _ => {}
    }
    Ok(())
}

fn getrlimit(s: &mut State, a: [u64; 6]) -> SysResult {
    let (soft, hard) = *s.task.limits.get(a[0] as usize).ok_or(Errno::EINVAL)?;
    s.write_pair(a[1], soft, hard)?;
    Ok(0)
}

fn setrlimit(s: &mut State, a: [u64; 6]) -> SysResult {
    let new = s.read_pair(a[1])?;
    set_limit(s, a[0] as usize, new)?;
    Ok(0)
}

/// `struct rusage`: times, resident size in KiB, minor faults.
fn getrusage(s: &mut State, a: [u64; 6]) -> SysResult {
    if !matches!(a[0] as i32, -1..=1) {
        return Err(Errno::EINVAL);
    }
    let time = match a[0] as i32 {
        0 => s.process_time(),
        1 => s.thread_time(),
        _ => s.task.process.borrow().children,
    };
    let usage = Rusage {
        user: time.user,
        system: time.system,
        max_rss: s.mm.table.present() * 4,
        minor_faults: s.stats.page_faults,
        ..Rusage::default()
    };
    s.write_user(a[1], &usage.to_bytes())?;
    Ok(0)
}

fn arch_prctl(s: &mut State, a: [u64; 6]) -> SysResult {
    let limit = Arch::X86_64.task_size();
    let mut regs = s.user_regs();
    match a[0] {
        ARCH_SET_FS | ARCH_SET_GS if a[1] >= limit => return Err(Errno::EPERM),
        ARCH_SET_FS => regs.tls = a[1],
        ARCH_SET_GS => regs.gs_base = a[1],
        ARCH_GET_FS => return s.write_user(a[1], &regs.tls.to_le_bytes()).map(|()| 0),
        ARCH_GET_GS => return s.write_user(a[1], &regs.gs_base.to_le_bytes()).map(|()| 0),
        _ => return Err(Errno::EINVAL),
    }
    s.set_user_regs(&regs);
    Ok(0)
}

fn prctl(s: &mut State, a: [u64; 6]) -> SysResult {
    match a[0] {
        PR_SET_NAME => {
            let mut name = [0; 16];
            let text = s.read_string(a[1], 16).ok_or(Errno::EFAULT)?.unwrap_or_default();
            if text.is_empty() {
                s.read_user(a[1], &mut name)?;
            } else {
                name[..text.len().min(15)].copy_from_slice(&text[..text.len().min(15)]);
            }
            let len = name[..15].iter().position(|&b| b == 0).unwrap_or(15);
            s.rename_task(name[..len].to_vec());
            Ok(0)
        }
        PR_GET_NAME => {
            let mut name = [0; 16];
            let len = s.task.comm.len().min(15);
            name[..len].copy_from_slice(&s.task.comm[..len]);
            s.write_user(a[1], &name)?;
            Ok(0)
        }
        PR_GET_DUMPABLE => Ok(1),
        PR_SET_DUMPABLE if a[1] > 1 => Err(Errno::EINVAL),
        PR_SET_PDEATHSIG if a[1] > 64 => Err(Errno::EINVAL),
        PR_SET_NO_NEW_PRIVS if a[1] != 1 || a[2..5] != [0; 3] => Err(Errno::EINVAL),
        PR_SET_DUMPABLE | PR_SET_PDEATHSIG | PR_SET_NO_NEW_PRIVS => Ok(0),
        sframe::PR_ADD_SFRAME => s.add_sframe(a[1]..a[2], a[3]..a[4]),
        sframe::PR_REMOVE_SFRAME => s.remove_sframe(a[1], [a[2], a[3], a[4]]),
        // Anonymous mapping names are optional (CONFIG_ANON_VMA_NAME).
        PR_SET_VMA => Err(Errno::EINVAL),
        option => {
            s.note_unsupported(&format!("prctl option {option}"));
            Err(Errno::EINVAL)
        }
    }
}

fn rseq(s: &mut State, a: [u64; 6]) -> SysResult {
    let [addr, len, flags, signature, ..] = a;
    let (len, signature) = (len as u32, signature as u32);
    if flags == RSEQ_FLAG_UNREGISTER {
        return match s.task.rseq {
            Some(r) if r == (addr, len, signature) => {
                s.task.rseq = None;
                s.write_user(addr + 4, &RSEQ_CPU_ID_UNINITIALIZED.to_le_bytes())?;
                Ok(0)
            }
            Some((at, size, _)) if (at, size) == (addr, len) => Err(Errno::EPERM),
            _ => Err(Errno::EINVAL),
        };
    }
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(r) = s.task.rseq {
        return Err(match r {
            (a, l, _) if (a, l) != (addr, len) => Errno::EINVAL,
            (_, _, known) if known != signature => Errno::EPERM,
            _ => Errno::EBUSY,
        });
    }
    if u64::from(len) < RSEQ_SIZE || addr % 32 != 0 {
        return Err(Errno::EINVAL);
    }
    // cpu_id_start, cpu_id; then rseq_cs and flags stay the guest's.
    let cpu = s.cpu.id.to_le_bytes();
    s.write_user(addr, &[cpu, cpu].concat())?;
    s.task.rseq = Some((addr, len, signature));
    Ok(0)
}

impl State {
    /// A bit for each CPU.
    fn all_cpus(&self) -> u64 {
        self.cpus().fold(0, |mask, cpu| mask | 1 << cpu.id)
    }

    /// The process group of a task.
    fn group_of(&self, id: TaskId) -> u64 {
        self.task_of(id).map_or(0, |t| u64::from(t.process.borrow().group))
    }
}
