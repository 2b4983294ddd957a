//! `perf_event_open`, in the order of the kernel's checks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use arch::Errno;

use crate::kernel::syscalls::SysResult;
use crate::kernel::task::rlimit;
use crate::kernel::vfs::open_file::flags as open_flags;
use crate::kernel::vfs::{Node, OpenFile};
use crate::kernel::{State, hw_breakpoint};
use crate::perf::abi::{flag, sample_type};
use crate::perf::attr::{Attr, AttrError, SIZE};
use crate::perf::context::{Instance, Switch};
use crate::perf::opened::{EventFile, Notify, Opened, Target, Totals};
use crate::perf::record::EventKind;

/// `PERF_FLAG_*`
mod perf_flag {
    pub const FD_NO_GROUP: u64 = 1;
    pub const FD_OUTPUT: u64 = 2;
    pub const PID_CGROUP: u64 = 4;
    pub const FD_CLOEXEC: u64 = 8;
    pub const ALL: u64 = 15;
}

/// Bytes that a group may take in a sample (`perf_event_validate_size`).
const MOST_GROUP: usize = 16 << 10;

/// Executes the call: arguments attr, pid, cpu, group_fd, flags.
///
/// # Errors
///
/// As Linux 7.3.
pub fn open(s: &mut State, a: [u64; 6]) -> SysResult {
    s.compact_events();
    let (pid, cpu, group_fd, flags) = (a[1] as i32, a[2] as i32, a[3] as i32, a[4]);
    if flags & !perf_flag::ALL != 0 {
        return Err(Errno::EINVAL);
    }
    let attr = copy_attr(s, a[0])?;
    attr.check_rights(s.perf_rights()).map_err(AttrError::errno)?;
    if flags & perf_flag::PID_CGROUP != 0 {
        // A kernel without control groups.
        return Err(Errno::EINVAL);
    }
    let named = match group_fd {
        -1 => None,
        fd => Some(event_of(s, fd)?),
    };
    let leader = named.clone().filter(|_| flags & perf_flag::FD_NO_GROUP == 0);
    let target = find_target(s, pid, cpu)?;
    let inherit = |attr: &Attr| attr.has(flag::INHERIT);
    if pid != -1 && leader.as_ref().is_some_and(|l| inherit(&l.attr) != inherit(&attr)) {
        return Err(Errno::EINVAL);
    }
    check_cpu(s, pid, cpu)?;
    let opened = alloc(s, attr, target)?;
    if let Some(leader) = &leader {
        check_group(&opened, leader, s.config.pmu_counters)?;
    }
    if flags & perf_flag::FD_OUTPUT != 0
        && let Some(output) = &named
    {
        s.set_output(&opened, Some(output))?;
    }
    install(s, &opened, leader.as_ref(), flags & perf_flag::FD_CLOEXEC != 0)
}

/// `perf_event_alloc`: an event of its own, once it is known what `target` can be asked for.
fn alloc(s: &mut State, attr: Attr, target: Target) -> Result<Rc<Opened>, Errno> {
    let rights = s.perf_rights();
    let on_task = matches!(target, Target::Task(..));
    let kind = attr.event_kind(s.arch, rights, on_task).map_err(AttrError::errno)?;
    if let EventKind::Breakpoint(breakpoint) = kind {
        hw_breakpoint::has_slot(s, breakpoint, target).map_err(AttrError::errno)?;
        attr.check_breakpoint(kind, s.arch).map_err(AttrError::errno)?;
    }
    let clock = attr.clock(kind).map_err(AttrError::errno)?;
    if !on_task {
        rights.cpu().map_err(AttrError::errno)?;
    }
    let with_chains = attr.samples(sample_type::CALLCHAIN);
    let buffers = with_chains.then(|| s.perf.callchains.get());
    Ok(Rc::new(Opened {
        id: s.perf.next_id(),
        event: Rc::new(attr.event(kind)),
        buffers: RefCell::new(buffers),
        clock,
        target,
        leader: RefCell::default(),
        siblings: RefCell::default(),
        ring: RefCell::default(),
        own: Cell::new(Totals::default()),
        children: Cell::new(Totals::default()),
        mapped: Cell::new(false),
        lost: Cell::new(0),
        limit: Cell::new(0),
        files: Cell::new(0),
        failed: Cell::new(false),
        exited: Cell::new(false),
        notify: RefCell::new(Notify::default()),
        attr,
    }))
}

/// `perf_copy_attr`; where the size is not one that the kernel takes, it says its own.
fn copy_attr(s: &mut State, at: u64) -> Result<Attr, Errno> {
    let head = s.read_array::<8>(at)?;
    let rights = s.perf_rights();
    let parsed = match Attr::size(&head) {
        Ok(size) => {
            let mut bytes = vec![0; size];
            s.read_user(at, &mut bytes)?;
            // What was looked at first counts.
            bytes[..8].copy_from_slice(&head);
            Attr::parse(&bytes, s.arch, rights)
        }
        Err(error) => Err(error),
    };
    parsed.map_err(|error| {
        if error == AttrError::Size {
            let _ = s.write_user(at.wrapping_add(4), &(SIZE as u32).to_le_bytes());
        }
        error.errno()
    })
}

/// The event that a descriptor names.
///
/// # Errors
///
/// `EBADF`, also of other files.
pub fn event_of(s: &State, fd: i32) -> Result<Rc<Opened>, Errno> {
    match &s.task.fds.get(fd)?.node {
        Node::Perf(file) => Ok(file.event().clone()),
        _ => Err(Errno::EBADF),
    }
}

/// Whom the event is for: the task of a thread id, 0 for the caller, or with -1 a CPU.
fn find_target(s: &State, pid: i32, cpu: i32) -> Result<Target, Errno> {
    const INIT: i32 = 1;
    let bound = u32::try_from(cpu).ok();
    let task = match pid {
        -1 => return Ok(Target::Cpu(bound.unwrap_or(u32::MAX))),
        0 => s.task.id,
        // Everybody's parent is another user's, and no task of the machine.
        INIT => return Err(Errno::EACCES),
        pid => u32::try_from(pid).ok().and_then(|pid| s.find_tid(pid)).ok_or(Errno::ESRCH)?,
    };
    if s.task_of(task).is_none_or(|t| t.exiting) {
        return Err(Errno::ESRCH);
    }
    Ok(Target::Task(task.0, bound))
}

/// The CPU must be there; only a task's event may leave it open.
const fn check_cpu(s: &State, pid: i32, cpu: i32) -> Result<(), Errno> {
    let there = cpu >= 0 && (cpu as u32) < s.config.cpus;
    if there || cpu == -1 && pid != -1 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// The group must be of one kind, and fit the PMU (`validate_group`) and a `read`.
fn check_group(
    opened: &Rc<Opened>,
    leader: &Rc<Opened>,
    counters: Option<u32>,
) -> Result<(), Errno> {
    let hardware = |event: &Rc<Opened>| usize::from(event.event.kind.is_hardware());
    let needs = hardware(opened) + leader.group().iter().map(hardware).sum::<usize>();
    let bad = leader.leader.borrow().is_some()
        || leader.clock != opened.clock
        || leader.target != opened.target
        || opened.attr.has(flag::EXCLUSIVE | flag::PINNED)
        || counters.is_some_and(|counters| needs > counters as usize);
    if bad {
        return Err(Errno::EINVAL);
    }
    if 8 * (4 + 3 * (2 + leader.siblings.borrow().len())) > MOST_GROUP {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

/// The descriptor, and the counter on the task or CPU.
fn install(
    s: &mut State,
    opened: &Rc<Opened>,
    leader: Option<&Rc<Opened>>,
    cloexec: bool,
) -> SysResult {
    let limit = s.task.limits[rlimit::NOFILE].0;
    let node = Node::Perf(EventFile::new(opened.clone()).into());
    let file = OpenFile::new(node, open_flags::RDWR);
    let fd = s.task.fds.install(file, cloexec, 0, limit)?;
    if let Some(leader) = leader {
        *opened.leader.borrow_mut() = Some(Rc::downgrade(leader));
        leader.siblings.borrow_mut().push(Rc::downgrade(opened));
    }
    let attr = &opened.attr;
    let (on, on_exec) = (!attr.has(flag::DISABLED), attr.has(flag::ENABLE_ON_EXEC));
    let switch = Switch::new(on, on_exec, opened.id);
    let instance = Instance::of_guest(opened, switch);
    s.change_context(opened.target, |context, _| context.instances.push(instance));
    s.perf.has_breakpoints |= matches!(opened.event.kind, EventKind::Breakpoint(_));
    s.perf.preemptirq |= matches!(opened.event.kind, EventKind::Preemptirq(_));
    s.perf.opened.push(opened.clone());
    Ok(fd as u64)
}
