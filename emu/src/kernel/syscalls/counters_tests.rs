#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
//! More events of a guest than the PMU has counters.

use arch::Errno;
use arch::syscalls::Sysno;

use super::perf_event_tests::{Asked, BUFFER, DISABLE, ENABLE, NONE, ioctl, open, try_open, words};
use super::tests::Lab;
use crate::perf::abi::{flag, read_format};

/// A machine with so many counters, all of them the guest's.
fn lab(counters: u32) -> Lab {
    let mut lab = Lab::new();
    lab.state.task.events.instances.clear();
    lab.state.config.pmu_counters = Some(counters);
    lab
}

/// An event with its times.
fn asked(flags: u64) -> Asked {
    let format = read_format::TIME_ENABLED | read_format::TIME_RUNNING;
    Asked { flags, format, ..Asked::default() }
}

/// A tick's time passes, with 100 instructions; then the tick.
fn tick(lab: &mut Lab) {
    lab.state.count_user(100, 10);
    lab.state.cpu.clock += 1000;
    lab.state.perf_tick();
}

/// Instructions in hundreds; time enabled and time running in ticks.
fn read(lab: &mut Lab, fd: u64) -> [u64; 3] {
    let [count, enabled, running] = words(lab, fd);
    [count / 100, enabled / 1000, running / 1000]
}

#[test]
fn they_take_turns() {
    let mut lab = lab(2);
    let fds = [0; 3].map(|_| open(&mut lab, asked(0)));
    for _ in 0..6 {
        tick(&mut lab);
    }
    for fd in fds {
        assert_eq!(read(&mut lab, fd), [4, 6, 4]);
    }
    // One is off: the others need not wait.
    ioctl(&mut lab, fds[0], DISABLE, 0).unwrap();
    tick(&mut lab);
    assert_eq!(read(&mut lab, fds[0]), [4, 6, 4]);
    for fd in &fds[1..] {
        assert_eq!(read(&mut lab, *fd), [5, 7, 5]);
    }
    // Closed, it is no more in the way.
    ioctl(&mut lab, fds[0], ENABLE, 0).unwrap();
    lab.ok(Sysno::Close, [fds[1]]);
    lab.state.release_events();
    tick(&mut lab);
    assert_eq!(read(&mut lab, fds[0]), [5, 7, 5]);
    assert_eq!(read(&mut lab, fds[2]), [6, 8, 6]);
}

#[test]
fn a_group_has_all_its_counters_or_none() {
    let mut lab = lab(2);
    let alone = open(&mut lab, asked(0));
    let leader = open(&mut lab, asked(0));
    let sibling = try_open(&mut lab, asked(0), [0, NONE, leader, 0]).unwrap();
    let too_many = try_open(&mut lab, asked(0), [0, NONE, leader, 0]);
    assert_eq!(too_many, Err(Errno::EINVAL), "three of two counters");
    tick(&mut lab);
    let times = [read(&mut lab, alone), read(&mut lab, leader), read(&mut lab, sibling)];
    assert_eq!(times, [[1, 1, 1], [0, 1, 0], [0, 1, 0]], "it stands before the group");
    tick(&mut lab);
    let times = [read(&mut lab, alone), read(&mut lab, leader), read(&mut lab, sibling)];
    assert_eq!(times, [[1, 2, 1], [1, 2, 1], [1, 2, 1]]);
}

#[test]
fn what_waits_keeps_all_behind_it_waiting() {
    let mut lab = lab(2);
    let first = open(&mut lab, asked(0));
    let leader = open(&mut lab, asked(0));
    try_open(&mut lab, asked(0), [0, NONE, leader, 0]).unwrap();
    let last = open(&mut lab, asked(0));
    tick(&mut lab);
    assert_eq!(read(&mut lab, first)[0], 1);
    assert_eq!(read(&mut lab, last)[0], 0, "there was a counter for it");
}

#[test]
fn pinned_events_come_first_or_fail() {
    let mut lab = lab(1);
    let flexible = open(&mut lab, asked(0));
    let pinned = open(&mut lab, asked(flag::PINNED));
    let other = open(&mut lab, asked(flag::PINNED));
    tick(&mut lab);
    tick(&mut lab);
    assert_eq!(read(&mut lab, flexible), [0, 2, 0]);
    assert_eq!(read(&mut lab, pinned), [2, 2, 2]);
    assert_eq!(lab.ok(Sysno::Read, [other, BUFFER, 24]), 0, "the error state");
    lab.ok(Sysno::Close, [pinned]);
    lab.state.release_events();
    tick(&mut lab);
    assert_eq!(lab.ok(Sysno::Read, [other, BUFFER, 24]), 0, "until it is enabled");
    ioctl(&mut lab, other, ENABLE, 0).unwrap();
    tick(&mut lab);
    assert_eq!(read(&mut lab, other), [1, 1, 1]);
    assert_eq!(read(&mut lab, flexible), [1, 4, 1]);
}

#[test]
fn a_pinned_group_fails_as_a_whole_and_all_behind_it() {
    let mut lab = lab(2);
    let first = open(&mut lab, asked(flag::PINNED));
    ioctl(&mut lab, first, DISABLE, 0).unwrap();
    let leader = open(&mut lab, asked(flag::PINNED));
    let sibling = try_open(&mut lab, asked(0), [0, NONE, leader, 0]).unwrap();
    tick(&mut lab);
    assert_eq!(read(&mut lab, sibling), [1, 1, 1]);
    ioctl(&mut lab, leader, DISABLE, 0).unwrap();
    let last = open(&mut lab, asked(flag::PINNED));
    ioctl(&mut lab, first, ENABLE, 0).unwrap();
    tick(&mut lab);
    assert_eq!(read(&mut lab, last), [1, 1, 1]);
    // The group is between the two, with one counter left of the two that it needs.
    ioctl(&mut lab, leader, ENABLE, 0).unwrap();
    for _ in 0..2 {
        tick(&mut lab);
        assert_eq!(read(&mut lab, sibling), [1, 1, 1], "it does not count without its leader");
        for fd in [leader, last] {
            assert_eq!(lab.ok(Sysno::Read, [fd, BUFFER, 24]), 0, "the error state");
        }
    }
    assert_eq!(read(&mut lab, first), [3, 3, 3]);
    ioctl(&mut lab, first, DISABLE, 0).unwrap();
    ioctl(&mut lab, leader, ENABLE, 0).unwrap();
    tick(&mut lab);
    assert_eq!(read(&mut lab, leader), [2, 2, 2]);
    assert_eq!(read(&mut lab, sibling), [2, 2, 2]);
}

#[test]
fn exclusive_groups_count_alone() {
    let mut lab = lab(4);
    let exclusive = open(&mut lab, asked(flag::EXCLUSIVE));
    let other = open(&mut lab, asked(0));
    for _ in 0..4 {
        tick(&mut lab);
    }
    for fd in [exclusive, other] {
        assert_eq!(read(&mut lab, fd), [2, 4, 2]);
    }
}

/// A clock counts on behind its last sample.
#[test]
fn a_clock_has_counted_until_it_is_closed() {
    use crate::kernel::do_exit::close_all_events;
    use crate::perf::context::{Instance, SessionEvent};
    use crate::perf::record::{EventKind, Record};
    use crate::perf::session::SessionId;

    for follows in [true, false] {
        let mut lab = Lab::new();
        let s = &mut lab.state;
        s.perf.main.session.no_inherit = true;
        let mut event = s.perf.main.session.events[0].clone();
        event.kind = EventKind::TaskClock;
        let of = SessionEvent { session: SessionId::MAIN, event: 0 };
        s.task.events.instances = vec![Instance::new(of, &event, s.cpu.clock)];
        if !follows {
            s.task.events.instances.clear();
        }
        s.cpu.clock += 123;
        close_all_events(s);
        assert_eq!(s.perf.main.totals[0].total, if follows { 123 } else { 0 });
        let exits = s.perf.main.records.iter().filter(|r| matches!(r, Record::Exit { .. }));
        assert_eq!(exits.count(), usize::from(follows), "the end of a task that is followed");
    }
}
