//! Several tasks on several CPUs: what the guest sees, what is recorded, and that both are the same
//! every time.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use arch::Arch;
use emu::perf::record::{Raw, Record};
use tests::harness::{Harness, Outcome};
use tests::program::{emu, finish};
use tests::scratch;

const CPUS: [u32; 4] = [1, 2, 3, 8];

fn tasks(arch: Arch, cpus: u32) -> Harness {
    Harness::new(arch, "tasks").cpus(cpus)
}

/// Every line is the same on any number of CPUs.
#[test]
fn the_guest_sees_no_difference() {
    let catalogue = tests::catalogue();
    let wanted = &catalogue.find("tasks").unwrap().default_run("x86_64").stdout;
    for arch in Arch::ALL {
        for cpus in CPUS {
            let out = scratch(&format!("tasks-{arch}-{cpus}"));
            let run = finish(
                emu(&["run", "-q", "--arch", arch.name(), "--cpus"])
                    .arg(cpus.to_string())
                    .args(["-e", "cycles", "-F", "20k", "tasks"])
                    .current_dir(&out),
            );
            assert_eq!(run.status, 0, "{arch}, {cpus} CPUs: {}", run.stderr);
            assert_eq!(&run.stdout, wanted, "{arch}, {cpus} CPUs");
        }
    }
}

/// The same records twice, in time order, from every CPU.
#[test]
fn runs_are_the_same_every_time() {
    for arch in Arch::ALL {
        for cpus in CPUS {
            let run = || tasks(arch, cpus).events("cycles", 10_007).run();
            let (first, second) = (run(), run());
            assert_eq!(first.records, second.records, "{arch}, {cpus} CPUs");
            let times: Vec<u64> = first.records.iter().map(Record::time).collect();
            assert!(times.is_sorted(), "{arch}, {cpus} CPUs");
            let seen: BTreeSet<u32> = first.samples().map(|s| s.cpu).collect();
            assert!(seen.len() as u32 >= cpus.min(4), "{arch}: {seen:?} of {cpus} CPUs");
        }
    }
}

/// FORK comes before anything else of a thread, EXIT after all but what others do for it.
#[test]
fn every_thread_begins_and_ends() {
    for arch in Arch::ALL {
        for cpus in CPUS {
            let outcome = tasks(arch, cpus).events("cycles", 5003).run();
            let mut live = BTreeSet::from([1000]);
            let (mut forks, mut exits) = (0, 0);
            for record in &outcome.records {
                match record {
                    Record::Fork { tid, ptid, .. } => {
                        assert!(live.contains(ptid) && live.insert(*tid), "{arch}: {record:?}");
                        forks += 1;
                    }
                    Record::Exit { tid, .. } => {
                        assert!(live.remove(tid), "{arch}: {record:?}");
                        exits += 1;
                    }
                    Record::Sample(s) => assert!(live.contains(&s.tid), "{arch}: {s:?}"),
                    _ => {}
                }
            }
            // Four threads and six children, and the first task.
            assert_eq!((forks, exits, live.len()), (10, 11, 0), "{arch}, {cpus} CPUs");
        }
    }
}

/// On each CPU a switch leaves the task that the last one brought.
#[test]
fn switches_are_a_chain_on_each_cpu() {
    for arch in Arch::ALL {
        for cpus in CPUS {
            let outcome = tasks(arch, cpus).wide().events("sched:sched_switch", 1).run();
            let mut running: BTreeMap<u32, u32> = BTreeMap::new();
            let mut switches = 0;
            for sample in outcome.samples() {
                let Some(Raw::SchedSwitch { prev_pid, next_pid, .. }) = &sample.raw else {
                    continue;
                };
                let first = if sample.cpu == 0 { 1000 } else { 0 };
                let now = running.insert(sample.cpu, *next_pid).unwrap_or(first);
                assert_eq!(now, *prev_pid, "{arch}, CPU {} of {cpus}: {sample:?}", sample.cpu);
                switches += 1;
            }
            assert!(switches > 20, "{arch}, {cpus} CPUs: {switches}");
        }
    }
}

fn user_cycles(outcome: &Outcome) -> u64 {
    outcome.counters[0].total
}

/// What the tasks' own events count is what the CPUs' count of user code.
#[test]
fn tasks_and_cpus_count_the_same() {
    for arch in Arch::ALL {
        for cpus in [1, 3] {
            let of_tasks = tasks(arch, cpus).events("instructions:u", 1 << 40).run();
            let of_cpus = tasks(arch, cpus).wide().events("instructions:u", 1 << 40).run();
            assert_eq!(of_tasks.stats.instructions, user_cycles(&of_tasks), "{arch}, {cpus} CPUs");
            assert_eq!(of_cpus.stats.instructions, user_cycles(&of_cpus), "{arch}, {cpus} CPUs");
        }
    }
}

/// Cookies name one stack each, whichever CPU the task returns on; a task that ends leaves its last
/// record to the CPUs' events alone, behind its EXIT record (E-17).
#[test]
fn cookies_of_several_tasks() {
    for cpus in [1, 3] {
        let harness = tasks(Arch::X86_64, cpus).deferred("mask").events("cycles", 10_007);
        let outcome = harness.run();
        let mut stacks = BTreeSet::new();
        let mut asked = BTreeSet::new();
        for record in &outcome.records {
            match record {
                Record::CallchainDeferred { tid, cookie, .. } => {
                    assert!(stacks.insert((*tid, *cookie)), "{cpus} CPUs: {record:?}");
                }
                Record::Sample(s) => {
                    if let [.., 0xffff_ffff_ffff_fd80, cookie] = s.callchain[..] {
                        asked.insert((s.tid, cookie));
                    }
                }
                _ => {}
            }
        }
        assert!(asked.len() > 50, "{cpus} CPUs: {}", asked.len());
        let without = asked.difference(&stacks).count();
        // At most the last entry of each of the eleven tasks.
        assert!(without <= 11, "{cpus} CPUs: {without} of {}", asked.len());
        assert_eq!(
            stacks.difference(&asked).count(),
            0,
            "{cpus} CPUs: stacks that nobody asked for"
        );
    }
}

/// Two events that one step of the kernel hits: each sample is of the task that it was in, on its
/// CPU, with its whole kernel stack, on any number of CPUs.
#[test]
fn what_a_step_hits_twice_is_sampled_where_it_was() {
    let both = "context-switches,sched:sched_switch";
    for arch in Arch::ALL {
        for cpus in CPUS {
            let deferred = tasks(arch, cpus).events(both, 1).deferred("mask");
            let deferred = if arch == Arch::Aarch64 { deferred.sframe() } else { deferred };
            let outcome = deferred.run();
            let kernel = |chain: &[u64]| chain.iter().filter(|&&a| a >> 48 == 0xffff).count();
            let of = |event: usize| -> BTreeMap<(u32, u32, usize), usize> {
                let mut seen = BTreeMap::new();
                for s in outcome.samples().filter(|s| s.event == event) {
                    *seen.entry((s.cpu, s.tid, kernel(&s.callchain))).or_default() += 1;
                }
                seen
            };
            let (first, second) = (of(0), of(1));
            assert!(first.len() > 1, "{arch}, {cpus} CPUs: {first:?}");
            assert_eq!(first, second, "{arch}, {cpus} CPUs");
        }
    }
}

/// The clocks of a CPU sample its idle task too, in kernel code and without a user stack.
#[test]
fn idle_cpus_are_sampled_by_their_clocks() {
    for arch in Arch::ALL {
        let outcome = tasks(arch, 8).events("cpu-clock", 100_000).wide().run();
        let idle: Vec<_> = outcome.samples().filter(|s| s.tid == 0).collect();
        let last = outcome.samples().map(|s| s.time).max().unwrap();
        assert!(idle.len() as u64 > last / 100_000, "{arch}: {} in {last} ns", idle.len());
        for sample in idle {
            let user = sample.callchain.iter().any(|&a| a < 1 << 48);
            assert!(sample.ip >> 48 == 0xffff && !user, "{arch}: {:x?}", sample.callchain);
        }
    }
}
