#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
//! `perf_event_open` and what is done with its descriptors, of a program that does not run.

use arch::syscalls::Sysno;
use arch::{Arch, Errno};

use super::tests::Lab;
use crate::mem::PAGE;
use crate::perf::abi::{flag, read_format, record, sample_type};
use crate::perf::record::Session;
use crate::perf::session::Perf;

/// Where the attributes are written.
const AT: u64 = 0x10_0000_0000;
pub(super) const BUFFER: u64 = AT + PAGE;
const SHARED: u64 = 1;
const PRIVATE: u64 = 2;
pub(super) const NONE: u64 = u64::MAX;

pub(super) const ENABLE: u64 = 0x2400;
pub(super) const DISABLE: u64 = 0x2401;
const REFRESH: u64 = 0x2402;
const RESET: u64 = 0x2403;
const PERIOD: u64 = 0x4008_2404;
const SET_OUTPUT: u64 = 0x2405;
const SET_FILTER: u64 = 0x4008_2406;
const ID: u64 = 0x8008_2407;
const PAUSE_OUTPUT: u64 = 0x4004_2409;

/// What is asked for, beside user instructions.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    pub period: u64,
    pub samples: u64,
    pub format: u64,
    pub flags: u64,
    pub wakeup: u32,
}

fn put(lab: &mut Lab, asked: Asked) -> u64 {
    let mut b = [0; 144];
    b[4..8].copy_from_slice(&144u32.to_le_bytes());
    b[8] = 1;
    let flags = asked.flags | flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL;
    let words = [(16, asked.period), (24, asked.samples), (32, asked.format), (40, flags)];
    for (at, word) in words {
        b[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    b[48..52].copy_from_slice(&asked.wakeup.to_le_bytes());
    lab.put(AT, &b)
}

pub(super) fn try_open(lab: &mut Lab, asked: Asked, rest: [u64; 4]) -> Result<u64, Errno> {
    let attr = put(lab, asked);
    let [pid, cpu, group, flags] = rest;
    lab.call(Sysno::PerfEventOpen, [attr, pid, cpu, group, flags])
}

pub(super) fn open(lab: &mut Lab, asked: Asked) -> u64 {
    try_open(lab, asked, [0, NONE, NONE, 0]).unwrap()
}

pub(super) fn ioctl(lab: &mut Lab, fd: u64, command: u64, argument: u64) -> Result<u64, Errno> {
    lab.call(Sysno::Ioctl, [fd, command, argument])
}

fn map(lab: &mut Lab, fd: u64, pages: u64) -> Result<u64, Errno> {
    lab.call(Sysno::Mmap, [0, pages * PAGE, 3, SHARED, fd, 0])
}

pub(super) fn words<const N: usize>(lab: &mut Lab, fd: u64) -> [u64; N] {
    assert_eq!(lab.ok(Sysno::Read, [fd, BUFFER, 8 * N as u64]), 8 * N as u64);
    std::array::from_fn(|i| lab.state.read_u64(BUFFER + 8 * i as u64).unwrap())
}

fn count(lab: &mut Lab, fd: u64) -> u64 {
    words::<1>(lab, fd)[0]
}

fn long(lab: &mut Lab, at: u64) -> u64 {
    u64::from_le_bytes(lab.get(at))
}

/// The settings of `--sysctl` bound what a guest may ask for.
#[test]
fn the_settings_are_honoured() {
    let mut lab = Lab::new();
    lab.state.config.max_sample_rate = Some(1000);
    let often = |period| Asked { period, flags: flag::FREQ, ..Asked::default() };
    let refused = try_open(&mut lab, often(1001), [0, NONE, NONE, 0]);
    assert_eq!(refused, Err(Errno::EINVAL));
    let fd = open(&mut lab, often(1000));
    lab.put(BUFFER, &1001u64.to_le_bytes());
    assert_eq!(ioctl(&mut lab, fd, PERIOD, BUFFER), Err(Errno::EINVAL));
    lab.put(BUFFER, &999u64.to_le_bytes());
    assert_eq!(ioctl(&mut lab, fd, PERIOD, BUFFER), Ok(0));
}

#[test]
fn who_may_be_measured() {
    let mut lab = Lab::new();
    let asked = Asked::default();
    let own = lab.state.task.tid.into();
    let mut refused = |rest| try_open(&mut lab, asked, rest).err();
    assert_eq!(refused([own, NONE, NONE, 0]), None);
    assert_eq!(refused([0, 0, NONE, 8]), None);
    assert_eq!(refused([0, NONE, NONE, 16]), Some(Errno::EINVAL), "flags");
    assert_eq!(refused([0, NONE, NONE, 4]), Some(Errno::EINVAL), "a control group");
    assert_eq!(refused([0, NONE, 1, 0]), Some(Errno::EBADF), "standard output");
    assert_eq!(refused([0, NONE, 99, 0]), Some(Errno::EBADF));
    assert_eq!(refused([12345, NONE, NONE, 0]), Some(Errno::ESRCH));
    assert_eq!(refused([1, NONE, NONE, 0]), Some(Errno::EACCES));
    assert_eq!(refused([0, 1, NONE, 0]), Some(Errno::EINVAL), "one CPU");
    assert_eq!(refused([NONE, NONE, NONE, 0]), Some(Errno::EINVAL));
    assert_eq!(refused([NONE, 0, NONE, 0]), Some(Errno::EACCES));
    lab.state.config.perf_event_paranoid = 0;
    assert!(try_open(&mut lab, asked, [NONE, 0, NONE, 0]).is_ok());
    let unmapped = lab.call(Sysno::PerfEventOpen, [8, 0, NONE, NONE, 0]);
    assert_eq!(unmapped, Err(Errno::EFAULT));
}

#[test]
fn a_size_that_is_refused_is_answered_with_the_kernels() {
    let mut lab = Lab::new();
    let attr = put(&mut lab, Asked::default());
    lab.put(attr + 4, &9999u32.to_le_bytes());
    let refused = lab.call(Sysno::PerfEventOpen, [attr, 0, NONE, NONE, 0]);
    assert_eq!(refused, Err(Errno::E2BIG));
    assert_eq!(lab.get(attr + 4), 144u32.to_le_bytes());
}

#[test]
fn counts_while_it_is_on() {
    let mut lab = Lab::new();
    let format = read_format::TIME_ENABLED | read_format::TIME_RUNNING | read_format::ID;
    let fd = open(&mut lab, Asked { flags: flag::DISABLED, format, ..Asked::default() });
    lab.state.count_user(100, 10);
    assert_eq!(words::<4>(&mut lab, fd)[..3], [0, 0, 0]);
    ioctl(&mut lab, fd, ENABLE, 0).unwrap();
    lab.state.count_user(100, 10);
    lab.state.cpu.clock += 70;
    ioctl(&mut lab, fd, DISABLE, 0).unwrap();
    lab.state.count_user(100, 10);
    lab.state.cpu.clock += 70;
    let [value, enabled, running, id] = words(&mut lab, fd);
    assert_eq!((value, enabled, running), (100, 70, 70));
    ioctl(&mut lab, fd, ID, BUFFER).unwrap();
    assert_eq!(long(&mut lab, BUFFER), id);
    ioctl(&mut lab, fd, RESET, 0).unwrap();
    assert_eq!(words::<4>(&mut lab, fd)[..3], [0, 70, 70], "times stay");
    assert_eq!(lab.call(Sysno::Read, [fd, BUFFER, 31]), Err(Errno::ENOSPC));
    assert_eq!(lab.call(Sysno::Write, [fd, BUFFER, 8]), Err(Errno::EINVAL));
    assert_eq!(lab.call(Sysno::Lseek, [fd, 0, 0]), Err(Errno::ESPIPE));
}

#[test]
fn a_group_counts_with_its_leader() {
    let mut lab = Lab::new();
    let format = read_format::GROUP | read_format::LOST;
    let asked = Asked { format, ..Asked::default() };
    let leader = open(&mut lab, Asked { flags: flag::DISABLED, ..asked });
    let sibling = try_open(&mut lab, asked, [0, NONE, leader, 0]).unwrap();
    let nested = try_open(&mut lab, asked, [0, NONE, sibling, 0]);
    assert_eq!(nested, Err(Errno::EINVAL));
    let other_cpu = try_open(&mut lab, asked, [0, 0, leader, 0]);
    assert_eq!(other_cpu, Err(Errno::EINVAL));
    let pinned = try_open(&mut lab, Asked { flags: flag::PINNED, ..asked }, [0, NONE, leader, 0]);
    assert_eq!(pinned, Err(Errno::EINVAL));
    let inherits = Asked { flags: flag::INHERIT, ..asked };
    assert_eq!(try_open(&mut lab, inherits, [0, NONE, leader, 0]), Err(Errno::EINVAL));
    lab.state.count_user(5, 0);
    ioctl(&mut lab, leader, ENABLE, 0).unwrap();
    lab.state.count_user(7, 0);
    assert_eq!(words::<5>(&mut lab, leader), [2, 7, 0, 7, 0]);
    assert_eq!(words::<5>(&mut lab, sibling), [2, 7, 0, 7, 0]);
    // Without its leader it goes on alone.
    ioctl(&mut lab, leader, DISABLE, 0).unwrap();
    lab.ok(Sysno::Close, [leader]);
    lab.state.release_events();
    lab.state.count_user(1, 0);
    assert_eq!(words::<3>(&mut lab, sibling), [1, 8, 0]);
    ioctl(&mut lab, sibling, DISABLE, 0).unwrap();
    lab.state.count_user(1, 0);
    assert_eq!(words::<3>(&mut lab, sibling), [1, 8, 0]);
}

#[test]
fn what_cannot_be_mapped() {
    let mut lab = Lab::new();
    let fd = open(&mut lab, Asked { period: 100, ..Asked::default() });
    for pages in [4, 6, 8] {
        assert_eq!(map(&mut lab, fd, pages), Err(Errno::EINVAL), "{pages} pages");
    }
    let mut mmap = |flags, fd, offset| lab.call(Sysno::Mmap, [0, 3 * PAGE, 3, flags, fd, offset]);
    assert_eq!(mmap(PRIVATE, fd, 0), Err(Errno::EINVAL));
    assert_eq!(mmap(SHARED, fd, PAGE), Err(Errno::EINVAL));
    let inherited = open(&mut lab, Asked { flags: flag::INHERIT, ..Asked::default() });
    assert_eq!(map(&mut lab, inherited, 3), Err(Errno::EINVAL));
    assert_eq!(map(&mut lab, fd, 1 + (1 << 13)), Err(Errno::EPERM), "RLIMIT_MEMLOCK");
    lab.state.config.perf_event_paranoid = -1;
    assert_eq!(map(&mut lab, fd, 1 + (1 << 40)), Err(Errno::ENOMEM));
    let first = map(&mut lab, fd, 3).unwrap();
    assert_eq!(map(&mut lab, fd, 5), Err(Errno::EINVAL), "the ring has its size");
    let second = map(&mut lab, fd, 3).unwrap();
    lab.put(first + 1032, &[7]);
    assert_eq!(long(&mut lab, second + 1032), 7, "the same pages");
    assert_eq!(lab.call(Sysno::Mremap, [first, 3 * PAGE, 5 * PAGE, 1]), Err(Errno::EFAULT));
}

#[test]
fn the_control_page_is_honest() {
    let mut lab = Lab::new();
    let fd = open(&mut lab, Asked::default());
    lab.state.count_user(42, 0);
    let page = map(&mut lab, fd, 5).unwrap();
    let [version, index] = [page, page + 12].map(|at| lab.state.read_u32(at).unwrap());
    assert_eq!((version, index), (0, 0));
    let mut word = |at| long(&mut lab, page + at);
    assert_eq!((word(16), word(40)), (42, 2), "count; neither rdpmc nor a clock");
    assert_eq!([1024, 1032, 1040, 1048].map(&mut word), [0, 0, 4096, 4 * 4096]);
    assert_eq!(word(8) % 2, 0);
}

#[test]
fn records_of_the_task_go_into_the_ring() {
    let mut lab = Lab::new();
    let samples = sample_type::TID | sample_type::IDENTIFIER;
    let flags = flag::COMM | flag::SAMPLE_ID_ALL;
    let fd = open(&mut lab, Asked { samples, flags, ..Asked::default() });
    let silent = open(&mut lab, Asked { samples, ..Asked::default() });
    let (page, other) = (map(&mut lab, fd, 2).unwrap(), map(&mut lab, silent, 2).unwrap());
    lab.state.rename_task(b"new".to_vec());
    assert_eq!(long(&mut lab, other + 1024), 0, "it did not ask");
    let size = 8 + 8 + 8 + 16;
    assert_eq!(long(&mut lab, page + 1024), size);
    let ring = page + PAGE;
    assert_eq!(long(&mut lab, ring), u64::from(record::COMM) | size << 48);
    assert_eq!(&lab.get::<8>(ring + 16), b"new\0\0\0\0\0");
    ioctl(&mut lab, fd, ID, BUFFER).unwrap();
    assert_eq!(long(&mut lab, ring + 32), long(&mut lab, BUFFER), "identifier");
    // Off, it gets nothing; paused, it loses.
    ioctl(&mut lab, fd, DISABLE, 0).unwrap();
    lab.state.rename_task(b"x".to_vec());
    assert_eq!(long(&mut lab, page + 1024), size);
    ioctl(&mut lab, fd, ENABLE, 0).unwrap();
    ioctl(&mut lab, fd, PAUSE_OUTPUT, 1).unwrap();
    lab.state.rename_task(b"x".to_vec());
    ioctl(&mut lab, fd, PAUSE_OUTPUT, 0).unwrap();
    lab.state.rename_task(b"y".to_vec());
    let lost = ring + size;
    assert_eq!(long(&mut lab, lost) as u32, record::LOST);
    assert_eq!(long(&mut lab, lost + 16), 1);
    assert_eq!(long(&mut lab, page + 1024), size + (24 + 16) + size);
}

#[test]
fn another_events_ring() {
    let mut lab = Lab::new();
    let flags = flag::COMM;
    let first = open(&mut lab, Asked { flags, ..Asked::default() });
    let second = open(&mut lab, Asked { flags, ..Asked::default() });
    let set = |lab: &mut Lab, output| ioctl(lab, second, SET_OUTPUT, output);
    assert_eq!(set(&mut lab, first), Err(Errno::EINVAL), "it has no ring");
    let page = map(&mut lab, first, 2).unwrap();
    assert_eq!(set(&mut lab, second), Err(Errno::EINVAL), "its own");
    assert_eq!(set(&mut lab, 1), Err(Errno::EBADF));
    let backward = open(&mut lab, Asked { flags: flag::WRITE_BACKWARD, ..Asked::default() });
    assert_eq!(ioctl(&mut lab, backward, SET_OUTPUT, first), Err(Errno::EINVAL));
    set(&mut lab, first).unwrap();
    lab.state.rename_task(b"both".to_vec());
    assert_eq!(long(&mut lab, page + 1024), 2 * 24);
    set(&mut lab, NONE).unwrap();
    lab.state.rename_task(b"one".to_vec());
    assert_eq!(long(&mut lab, page + 1024), 3 * 24);
    let own = map(&mut lab, second, 2).unwrap();
    assert_eq!(set(&mut lab, first), Err(Errno::EINVAL), "it has a mapping");
    assert_ne!(own, page);
}

#[test]
fn refused_commands() {
    let mut lab = Lab::new();
    let fd = open(&mut lab, Asked::default());
    let sampling = open(&mut lab, Asked { period: 100, ..Asked::default() });
    let inherited = open(&mut lab, Asked { period: 9, flags: flag::INHERIT, ..Asked::default() });
    assert_eq!(ioctl(&mut lab, fd, REFRESH, 1), Err(Errno::EINVAL), "it does not sample");
    assert_eq!(ioctl(&mut lab, inherited, REFRESH, 1), Err(Errno::EINVAL));
    assert_eq!(ioctl(&mut lab, fd, SET_FILTER, AT), Err(Errno::EINVAL));
    assert_eq!(ioctl(&mut lab, fd, PAUSE_OUTPUT, 1), Err(Errno::EINVAL), "no ring");
    assert_eq!(ioctl(&mut lab, fd, 0x24ff, 1), Err(Errno::ENOTTY));
    for (period, answer) in [(0u64, Err(Errno::EINVAL)), (1 << 63, Err(Errno::EINVAL)), (5, Ok(0))]
    {
        lab.put(BUFFER, &period.to_le_bytes());
        assert_eq!(ioctl(&mut lab, sampling, PERIOD, BUFFER), answer, "{period}");
    }
    assert_eq!(lab.state.task.events.instances[2].counter.left, 5);
    assert_eq!(ioctl(&mut lab, sampling, PERIOD, 8), Err(Errno::EFAULT));
    assert_eq!(ioctl(&mut lab, fd, ID, 8), Err(Errno::EFAULT));
}

#[test]
fn it_lives_as_long_as_it_can_be_reached() {
    let mut lab = Lab::new();
    let frames = lab.state.arena.used();
    let fd = open(&mut lab, Asked { flags: flag::COMM, ..Asked::default() });
    let page = map(&mut lab, fd, 3).unwrap();
    let copy = lab.ok(Sysno::Dup, [fd]);
    lab.ok(Sysno::Close, [fd]);
    lab.state.release_events();
    lab.state.count_user(3, 0);
    assert_eq!(count(&mut lab, copy), 3);
    lab.ok(Sysno::Close, [copy]);
    lab.state.release_events();
    lab.state.rename_task(b"mapped".to_vec());
    assert_eq!(long(&mut lab, page + 1024), 24, "the mapping keeps it");
    // A child does not get the mapping.
    let mut child = lab.state.mm.fork(crate::mem::mm::MmId(9), &mut lab.state.arena).unwrap();
    assert!(child.area(page).is_none() && lab.state.mm.area(page).is_some());
    child.release(&mut lab.state.arena);
    lab.ok(Sysno::Munmap, [page, 3 * PAGE]);
    lab.state.release_events();
    assert!(lab.state.perf.opened.is_empty());
    assert!(lab.state.task.events.instances[1].switch.gone);
    lab.state.task.events.compact();
    assert_eq!(lab.state.task.events.instances.len(), 1, "the session's");
    let more = open(&mut lab, Asked::default());
    assert_eq!(count(&mut lab, more), 0);
    // Page tables and the pages that the calls touched may stay, the ring's three do not.
    assert!(lab.state.arena.used() <= frames + 2, "{} {frames}", lab.state.arena.used());
}

#[test]
fn a_child_counts_for_its_parent() {
    for arch in Arch::ALL {
        let mut lab = Lab::of(arch);
        let fd = open(&mut lab, Asked { flags: flag::INHERIT, ..Asked::default() });
        let alone = open(&mut lab, Asked::default());
        let threads = flag::INHERIT | flag::INHERIT_THREAD;
        open(&mut lab, Asked { flags: threads, ..Asked::default() });
        lab.state.count_user(10, 0);
        let mut child = lab.state.inherited_events(false);
        assert_eq!(child.instances.len(), 2, "the session's and the first");
        child.sched_in(lab.state.cpu.clock, 0);
        child.instances[1].counter.count(32);
        assert_eq!(lab.state.inherited_events(true).instances.len(), 3);
        lab.state.add_totals(child.instances);
        assert_eq!((count(&mut lab, fd), count(&mut lab, alone)), (42, 10));
    }
}

/// The sysctls that size callchains are frozen while an event has any, and are root's to write.
#[test]
fn callchain_sysctls_are_busy_while_an_event_has_callchains() {
    let mut lab = Lab::new();
    // No session is open, which would have callchains.
    let session = Session { events: Vec::new(), ..lab.state.perf.main.session.clone() };
    lab.state.perf = Perf::new(session);
    let path = |lab: &mut Lab| lab.put(BUFFER, b"/proc/sys/kernel/perf_event_max_stack\0");
    const RDWR: u64 = 2;
    let at = path(&mut lab);
    assert_eq!(lab.call(Sysno::Openat, [NONE, at, RDWR, 0]), Err(Errno::EACCES));
    lab.state.task.uid = 0;
    let at = path(&mut lab);
    let file = lab.ok(Sysno::Openat, [NONE, at, RDWR, 0]);
    let write = |lab: &mut Lab, text: &[u8]| {
        let at = lab.put(BUFFER, text);
        lab.call(Sysno::Pwrite64, [file, at, text.len() as u64, 0])
    };
    assert_eq!(write(&mut lab, b"64\n"), Ok(3));
    assert_eq!(lab.state.config.callchains.max_stack, 64);
    for wrong in [&b"655361"[..], b"-1", b"many", b" "] {
        assert_eq!(write(&mut lab, wrong), Err(Errno::EINVAL));
    }
    let fd =
        open(&mut lab, Asked { period: 1000, samples: sample_type::CALLCHAIN, ..Asked::default() });
    assert_eq!(write(&mut lab, b"127"), Err(Errno::EBUSY));
    lab.ok(Sysno::Close, [fd]);
    lab.state.release_events();
    let plain = open(&mut lab, Asked { period: 1000, samples: 1, ..Asked::default() });
    assert_eq!(write(&mut lab, b"127"), Ok(3), "{plain} has no callchains");
}

/// `bp_type`, `bp_addr`, `bp_len`.
fn breakpoint(lab: &mut Lab, bp_type: u32, addr: u64, len: u64) -> Result<u64, Errno> {
    let asked =
        Asked { period: 1, samples: sample_type::IP | sample_type::ADDR, ..Asked::default() };
    let at = put(lab, asked);
    lab.put(at, &5u32.to_le_bytes());
    lab.put(at + 8, &[0; 8]);
    lab.put(at + 52, &bp_type.to_le_bytes());
    lab.put(at + 56, &addr.to_le_bytes());
    lab.put(at + 64, &len.to_le_bytes());
    lab.call(Sysno::PerfEventOpen, [at, 0, NONE, NONE, 0])
}

/// `hw_breakpoint_event_init`: as many as the processor has, of what it can watch.
#[test]
fn breakpoints_are_taken_as_the_processor_has_them() {
    const READ: u32 = 1;
    const WRITE: u32 = 2;
    const BOTH: u32 = 3;
    const EXECUTE: u32 = 4;
    for arch in Arch::ALL {
        let mut lab = Lab::of(arch);
        for (bp_type, addr, len) in [(0, AT, 4), (7, AT, 4), (5, AT, 4), (WRITE, AT, 9)] {
            let answer = breakpoint(&mut lab, bp_type, addr, len);
            assert_eq!(answer, Err(Errno::EINVAL), "{arch}: {bp_type} {len}");
        }
        // Kernel memory, whose accesses the event has to leave out.
        let answer = breakpoint(&mut lab, WRITE, arch.task_size(), 8);
        assert_eq!(answer, Err(Errno::EINVAL), "{arch}");
        let alone = breakpoint(&mut lab, READ, AT, 8);
        assert_eq!(alone.is_ok(), arch == Arch::Aarch64, "{alone:?}");
        let alone = alone.ok();
        let mut open: Vec<u64> = alone.into_iter().collect();
        while open.len() < 4 {
            open.push(breakpoint(&mut lab, BOTH, AT + 8 * open.len() as u64, 8).unwrap());
        }
        assert_eq!(breakpoint(&mut lab, WRITE, AT, 8), Err(Errno::ENOSPC), "{arch}");
        let code = breakpoint(&mut lab, EXECUTE, AT, 8);
        match arch {
            Arch::X86_64 => assert_eq!(code, Err(Errno::ENOSPC)),
            Arch::Aarch64 => assert!(code.is_ok(), "{code:?}"),
        }
        lab.ok(Sysno::Close, [open[3]]);
        lab.state.release_events();
        assert!(breakpoint(&mut lab, WRITE, AT, 8).is_ok(), "{arch}");
    }
}
