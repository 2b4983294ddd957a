//! Events that a guest opens itself: the same model as the session's, seen from inside.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::cell::RefCell;
use std::rc::Rc;

use arch::Arch;
use emu::kernel::perf_event::{map, open};
use emu::kernel::{Kernel, State};
use emu::mem::ops::Place;
use emu::mem::{AreaFlags, Backing, PAGE, Prot};
use emu::perf::abi::{flag, record, sample_type as bit};
use emu::perf::opened::Opened;
use emu::perf::record::{Record, Sample};
use emu::perf::ring::Ring;
use tests::harness::{Harness, Outcome};
use tests::program::{Finished, emu, finish};
use tests::{catalogue, scratch};

const NONE: u64 = u64::MAX;
/// Pages of records: enough for all of a run.
const PAGES: u64 = 4096;

/// An event of the first task, opened before its first instruction, with its ring.
struct Inside {
    ring: Rc<Ring>,
    bytes: RefCell<Vec<u8>>,
}

/// Cycles every `period`, with what a session's samples have.
fn attributes(period: u64, flags: u64) -> Vec<u8> {
    let mut b = vec![0; 144];
    let samples = bit::IP | bit::TID | bit::TIME | bit::PERIOD | bit::CALLCHAIN;
    b[4..8].copy_from_slice(&144u32.to_le_bytes());
    for (at, word) in [(16, period), (24, samples), (40, flags)] {
        b[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    b
}

impl Inside {
    fn open(s: &mut State, attributes: &[u8]) -> Inside {
        s.config.perf_event_paranoid = -1;
        let flags = AreaFlags::default();
        let at = s.mm.map(&mut s.arena, Place::Hint(0), PAGE, Prot::RW, flags, Backing::Anonymous);
        let at = at.unwrap();
        s.write_user(at, attributes).unwrap();
        let fd = open::open(s, [at, 0, NONE, NONE, 0, 0]).unwrap();
        s.mm.kernel_faults.clear();
        let event: Rc<Opened> = open::event_of(s, fd as i32).unwrap();
        let len = (1 + PAGES) * PAGE;
        let wanted = map::Wanted { len, offset: 0, shared: true, writable: true };
        let backing = map::ring(s, &event, wanted).unwrap();
        let flags = AreaFlags { shared: true, dont_copy: true, ..AreaFlags::default() };
        s.mm.map(&mut s.arena, Place::Hint(0), len, Prot::RW, flags, backing).unwrap();
        let ring = event.ring.borrow().clone().unwrap();
        Inside { ring, bytes: RefCell::default() }
    }

    /// What is in the ring when the run ends.
    fn take(&self, kernel: &Kernel) {
        kernel.with(|s| {
            let pages = self.ring.pages();
            let head = s.arena.word(pages[0], 1024) as usize;
            assert!(head < (PAGES * PAGE) as usize, "the ring is long enough");
            let all = pages[1..].iter().flat_map(|&page| s.arena.bytes(page)).copied();
            *self.bytes.borrow_mut() = all.take(head).collect();
        });
    }

    /// Type, misc and body of each record.
    fn records(&self) -> Vec<(u32, u16, Vec<u64>)> {
        let bytes = self.bytes.borrow();
        let mut rest = &bytes[..];
        let mut records = Vec::new();
        while !rest.is_empty() {
            let half = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
            let (record, after) = rest.split_at(half(6).into());
            let words = record[8..].chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap()));
            records.push((half(0).into(), half(4), words.collect()));
            rest = after;
        }
        records
    }
}

/// A run with an event inside that has these attributes.
fn run(harness: &Harness, attributes: &[u8]) -> (Vec<Record>, Outcome, Inside) {
    let inside = RefCell::new(None);
    let mut records = Vec::new();
    let outcome = harness.run_prepared(
        |s| *inside.borrow_mut() = Some(Inside::open(s, attributes)),
        |kernel, record| {
            if let (Record::Exit { .. }, Some(inside)) = (record, &*inside.borrow()) {
                inside.take(kernel);
            }
            records.push(record.clone());
        },
    );
    (records, outcome, inside.into_inner().unwrap())
}

/// The body of a sample of the session as the event inside has it.
fn body(s: &Sample) -> Vec<u64> {
    let who = u64::from(s.pid) | u64::from(s.tid) << 32;
    let head = [s.ip, who, s.time, s.period, s.callchain.len() as u64];
    head.into_iter().chain(s.callchain.iter().copied()).collect()
}

/// What is sampled from inside is what the session samples, word by word.
#[test]
fn a_ring_holds_what_a_profile_holds() {
    const PERIOD: u64 = 997;
    for arch in Arch::ALL {
        for (guest, kernel) in [("recursion", false), ("syscalls", true)] {
            let words = if kernel { "cycles" } else { "cycles:u" };
            let mut harness = Harness::new(arch, guest).events(words, PERIOD).without_laws();
            let mut flags = 0;
            if !kernel {
                harness = harness.user_callchains();
                flags = flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL;
            }
            let (records, _, inside) = run(&harness, &attributes(PERIOD, flags));
            let session = records.iter().filter_map(|r| match r {
                Record::Sample(sample) => Some(sample),
                _ => None,
            });
            let session: Vec<_> = session.collect();
            let ring = inside.records();
            assert!(ring.len() > 100, "{guest} on {arch}: {} samples", ring.len());
            assert_eq!(ring.len(), session.len(), "{guest} on {arch}");
            for ((kind, _, words), sample) in ring.iter().zip(session) {
                assert_eq!(*kind, record::SAMPLE);
                // Both are taken in the same interrupt, one after the other.
                let mut expected = body(sample);
                assert!(expected[2].abs_diff(words[2]) < 2000, "{guest} on {arch}");
                expected[2] = words[2];
                assert_eq!(*words, expected, "{guest} on {arch}");
            }
        }
    }
}

/// Both ask in the same entry and so get the same cookie; each stack is written for both.
#[test]
fn deferred_stacks_go_to_the_ring_and_to_the_profile() {
    const PERIOD: u64 = 4999;
    let harness = Harness::new(Arch::X86_64, "recursion")
        .events("cycles:u", PERIOD)
        .user_callchains()
        .deferred("mask")
        .without_laws();
    let flags = flag::EXCLUDE_KERNEL
        | flag::EXCLUDE_CALLCHAIN_KERNEL
        | flag::DEFER_CALLCHAIN
        | flag::DEFER_OUTPUT;
    let (records, _, inside) = run(&harness, &attributes(PERIOD, flags));
    let of_session: Vec<(u32, Vec<u64>)> = records
        .iter()
        .filter_map(|r| match r {
            Record::Sample(s) => Some((record::SAMPLE, s.callchain.clone())),
            Record::CallchainDeferred { cookie, ips, .. } => {
                let head = [*cookie, ips.len() as u64];
                Some((record::CALLCHAIN_DEFERRED, head.iter().chain(ips).copied().collect()))
            }
            _ => None,
        })
        .collect();
    let of_ring: Vec<(u32, Vec<u64>)> = inside
        .records()
        .into_iter()
        .map(|(kind, _, words)| match kind {
            record::SAMPLE => (kind, words[5..].to_vec()),
            _ => (kind, words),
        })
        .collect();
    let stacks = of_ring.iter().filter(|(kind, _)| *kind == record::CALLCHAIN_DEFERRED).count();
    assert!(stacks > 20 && stacks * 2 == of_ring.len(), "{stacks} of {}", of_ring.len());
    assert_eq!(of_ring, of_session);
}

/// Nothing of the profile depends on who else samples.
#[test]
fn a_profile_is_the_same_with_an_event_inside() {
    let harness =
        Harness::new(Arch::X86_64, "recursion").events("instructions:u", 10007).without_laws();
    let alone = harness.run().records;
    let flags = flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL;
    let (with, _, _) = run(&harness, &attributes(5003, flags));
    let ips = |records: &[Record]| -> Vec<(u64, Vec<u64>)> {
        let samples = records.iter().filter_map(|r| match r {
            Record::Sample(s) => Some((s.ip, s.callchain.clone())),
            _ => None,
        });
        samples.collect()
    };
    assert!(ips(&alone).len() > 20);
    assert_eq!(ips(&with), ips(&alone));
}

fn perf_self(arch: Arch, more: &[&str]) -> Finished {
    let profile = scratch(&format!("perf-inside-{arch}-{}", more.join(""))).join("perf.data");
    let words = ["run", "-q", "-o", profile.to_str().unwrap(), "--arch", arch.name()];
    finish(emu(&words).args(more).arg("perf-self"))
}

/// The guest prints its own stacks whatever machine it runs on and whoever else looks.
#[test]
fn a_guest_prints_its_own_stacks_on_any_machine() {
    let catalogue = catalogue();
    let guest = catalogue.find("perf-self").unwrap();
    for arch in Arch::ALL {
        let expected = guest.default_run(arch.name()).stdout;
        assert!(expected.contains("fp workload;outer;inner;spin\n"), "{expected}");
        let machines: [&[&str]; 6] = [
            &["--cpus", "3"],
            &["--pmu-irq", "irq"],
            &["-e", "cycles:u,task-clock,sched:sched_switch"],
            &["-a", "--cpus", "2", "-c", "9973"],
            &["--call-graph", "fp,defer"],
            &["--aslr", "7"],
        ];
        for more in machines {
            let out = perf_self(arch, more);
            assert_eq!((out.stdout.as_str(), out.status), (expected, 0), "{arch} {more:?}");
        }
    }
}

#[test]
fn the_setting_says_who_may_see_the_kernel() {
    let strict = perf_self(Arch::X86_64, &["--sysctl", "kernel.perf_event_paranoid=2"]);
    assert_eq!(strict.status, 0);
    let open = perf_self(Arch::X86_64, &["--sysctl", "kernel.perf_event_paranoid=1"]);
    assert_eq!(open.status, 1);
    assert_eq!(open.stdout.matches("errno == 13").count(), 2, "{}", open.stdout);
    for (word, said) in [
        ("kernel.perf_event_paranoid=9", "use a number from -1"),
        ("kernel.perf_event_paranoid", "there is kernel.perf_event_paranoid=N"),
        ("vm.swappiness=1", "there is kernel.perf_event_paranoid=N"),
    ] {
        let out = perf_self(Arch::X86_64, &["--sysctl", word]);
        assert!(out.status == 125 || out.status == 2, "{}", out.status);
        assert!(out.stderr.contains(said), "{}", out.stderr);
    }
}
