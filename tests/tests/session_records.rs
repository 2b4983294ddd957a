//! The records of a session's profile, read back from the file: what is no sample, dumps of the
//! user stack, records that were lost.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arch::{Arch, Regs};
use emu::export::perf_read::{Body, PerfFile};
use emu::kernel::state::PmuIrq;
use emu::perf::abi;
use emu::perf::record::{CpuMode, Record, Sample, UserStack, context};
use tests::harness::{Harness, Outcome};
use tests::perf::perf;
use tests::program::{emu, finish};
use tests::scratch;
use unwinder::{Memory, fp};

/// `emu run` with these words, into `perf.data` in `dir`; the file.
fn record(dir: &Path, words: &[&str]) -> PathBuf {
    let done = finish(emu(&["run", "-q"]).args(words).current_dir(dir));
    assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
    dir.join("perf.data")
}

/// A task is on the CPU that its last switch brought it to, and what it writes says so.
#[test]
fn every_record_says_its_cpu() {
    let dir = scratch("records-cpu");
    for arch in Arch::ALL {
        let words = ["--arch", arch.name(), "--cpus", "4", "--switch-events", "-c", "20k", "tasks"];
        let bytes = fs::read(record(&dir, &words)).unwrap();
        let mut on = BTreeMap::from([(1000, 0)]);
        let mut cpus = BTreeMap::<&str, Vec<u32>>::new();
        for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
            let Some(trailer) = record.trailer.filter(|t| t.time != Some(0)) else { continue };
            let ((_, tid), (cpu, _)) = (trailer.pid_tid.unwrap(), trailer.cpu.unwrap());
            let kind = match record.body {
                Body::Switch if record.misc & 1 << 13 == 0 => {
                    on.insert(tid, cpu);
                    "in"
                }
                Body::Switch => "out",
                Body::Comm { .. } => "comm",
                Body::Mmap2 { .. } => "mmap2",
                Body::Task { .. } => "task",
                other => panic!("{arch}: {other:?}"),
            };
            assert_eq!(on.get(&tid), Some(&cpu), "{arch}: {kind} of {tid}");
            cpus.entry(kind).or_default().push(cpu);
        }
        for kind in ["in", "out", "task"] {
            let seen = &cpus[kind];
            assert!((0..4).all(|cpu| seen.contains(&cpu)), "{arch}, {kind}: {seen:?}");
        }
    }
}

/// perf prints the same CPUs.
#[test]
fn perf_shows_the_cpu_of_each_record() {
    let dir = scratch("records-cpu-perf");
    let file = record(&dir, &["--cpus", "4", "--switch-events", "-c", "20k", "tasks"]);
    let bytes = fs::read(&file).unwrap();
    let mut wanted = BTreeMap::new();
    for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
        if let (Body::Switch | Body::Task { .. }, Some(trailer)) = (record.body, record.trailer) {
            let ((_, tid), (cpu, _)) = (trailer.pid_tid.unwrap(), trailer.cpu.unwrap());
            *wanted.entry((tid, cpu)).or_insert(0) += 1;
        }
    }
    let shown = ["--show-task-events", "--show-switch-events", "-F", "tid,cpu,event"];
    let words = [&["script", "-i", file.to_str().unwrap()], &shown[..]].concat();
    let Some(text) = perf(&words, None, &dir) else { return };
    let mut found = BTreeMap::new();
    let lines =
        text.lines().filter(|l| ["_SWITCH ", "_FORK(", "_EXIT("].iter().any(|w| l.contains(w)));
    for line in lines {
        let mut words = line.split_whitespace();
        let tid: u32 = words.next().unwrap().parse().unwrap();
        let cpu: u32 = words.next().unwrap().trim_matches(['[', ']']).parse().unwrap();
        *found.entry((tid, cpu)).or_insert(0) += 1;
    }
    assert_eq!(found, wanted);
}

/// Guests whose stacks are walked to `main` by frame pointer, and are small.
const FRAMES: [&str; 2] = ["golden-fp", "recursion"];

fn samples(outcome: &Outcome) -> Vec<Sample> {
    outcome.samples().cloned().collect()
}

/// What a frame-pointer walk finds in the copied stack is what it found in the real one.
#[test]
fn a_dump_holds_the_stack() {
    for (arch, guest) in Arch::ALL.into_iter().flat_map(|arch| FRAMES.map(|g| (arch, g))) {
        let run = || Harness::new(arch, guest).events("instructions:u", 5003);
        let walked = samples(&run().run());
        let dumped = samples(&run().user_stack(UserStack::Dump(8192)).run());
        assert!(dumped.len() > 10 && dumped.len() == walked.len(), "{arch} {guest}");
        let mut whole = 0;
        for (walked, dumped) in walked.iter().zip(&dumped) {
            assert_eq!((walked.ip, walked.tid), (dumped.ip, dumped.tid), "{arch} {guest}");
            assert!(dumped.callchain.is_empty(), "{arch} {guest}");
            let dump = dumped.dump.as_ref().unwrap();
            let regs = registers(arch, dump.regs.as_ref().unwrap());
            assert_eq!(regs.pc, dumped.ip, "{arch} {guest}");
            let mut chain = Vec::new();
            let mut copy = Copied { sp: regs.sp(), bytes: &dump.stack[..dump.read as usize] };
            fp::perf::walk(&regs, false, &mut copy, &mut |ip| {
                chain.push(ip);
                chain.len() < 127
            });
            // A stack that is longer than the copy ends with it.
            assert!(walked.callchain[1..].starts_with(&chain), "{arch} {guest}: {chain:x?}");
            whole += usize::from(walked.callchain.len() == chain.len() + 1);
        }
        assert!(whole * 2 > dumped.len(), "{arch} {guest}: {whole} of {}", dumped.len());
    }
}

/// Registers from a sample's.
fn registers(arch: Arch, values: &[u64]) -> Regs {
    let mut regs = Regs::new(arch);
    let bits = (0..64).filter(|bit| arch.perf_regs_mask() >> bit & 1 != 0);
    for (perf, &value) in bits.zip(values) {
        match (arch, arch.dwarf_of_perf(perf)) {
            (Arch::X86_64, Some(16)) | (Arch::Aarch64, Some(32)) => regs.pc = value,
            (_, Some(number)) => regs.gp[usize::from(number)] = value,
            (_, None) => {}
        }
    }
    regs
}

/// A copied stack.
struct Copied<'a> {
    sp: u64,
    bytes: &'a [u8],
}

impl Memory for Copied<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let at = address.checked_sub(self.sp).and_then(|at| usize::try_from(at).ok());
        let part = at.and_then(|at| self.bytes.get(at..at.checked_add(bytes.len())?));
        part.is_some_and(|part| {
            bytes.copy_from_slice(part);
            true
        })
    }
}

/// Sizes as the kernel cuts them: at the end of user addresses and of the record; what is absent
/// behind the mapping is not read.
#[test]
fn dumps_end_with_the_stack() {
    for arch in Arch::ALL {
        for (size, aslr) in [(65_528_u16, "5"), (65_528, "7"), (64, "5")] {
            let dir = scratch("records-dump");
            let how = format!("dwarf,{size}");
            let words = ["--arch", arch.name(), "--aslr", aslr, "-e", "cycles", "-c", "5003"];
            let file = record(&dir, &[&words[..], &["--call-graph", &how, "syscalls"]].concat());
            let bytes = fs::read(file).unwrap();
            let file = PerfFile::read(&bytes).unwrap();
            let attr = &file.events().attrs()[0];
            assert_eq!(attr.bytes[88..92], u32::from(size).to_le_bytes());
            assert_eq!(attr.regs_user, arch.perf_regs_mask());
            let mut short = 0;
            for record in file.records().map(Result::unwrap) {
                let Body::Sample(s) = record.body else { continue };
                let (regs, stack) = (s.user_regs.unwrap(), s.user_stack.unwrap());
                assert_eq!((regs.abi, regs.values.len() as u32), (2, attr.regs_user.count_ones()));
                let values: Vec<u64> = regs.values.iter().collect();
                let sp = registers(arch, &values).sp();
                let len = stack.bytes.len() as u64;
                assert!(len <= u64::from(size) && len <= arch.task_size() - sp, "{arch}: {len}");
                assert!(len == u64::from(size) || size > 64, "{arch}: {len}");
                let copied = stack.copied.unwrap();
                assert!(copied <= len && copied > 0, "{arch}: {copied} of {len}");
                assert!(stack.bytes[copied as usize..].iter().all(|&b| b == 0), "{arch}");
                short += u32::from(copied < len);
            }
            // Addresses above the stack's mapping are the user's, and absent.
            assert_eq!(short > 0, size == 65_528, "{arch}, {size}, {aslr}: {short}");
        }
    }
}

/// In an NMI that hits the kernel the registers that called functions keep are not known.
#[test]
fn an_nmi_does_not_know_all_registers() {
    use arch::x86_64::regs::{R12, R13, R14, R15, RBX};
    const KEPT: [usize; 5] = [RBX, R12, R13, R14, R15];
    for (pmu, unknown) in [(PmuIrq::Nmi, true), (PmuIrq::Irq, false)] {
        let run = Harness::new(Arch::X86_64, "syscalls").events("cycles", 997).pmu_irq(pmu);
        let outcome = run.user_stack(UserStack::Dump(16)).run();
        let mut seen = [0, 0];
        for s in outcome.samples() {
            let values = s.dump.as_ref().unwrap().regs.clone().unwrap();
            let regs = registers(Arch::X86_64, &values);
            let lost = KEPT.iter().all(|&r| regs.gp[r] == u64::MAX);
            assert_eq!(lost, unknown && s.mode == CpuMode::Kernel, "{s:x?}");
            seen[usize::from(s.mode == CpuMode::Kernel)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 50), "{seen:?}");
    }
}

/// The installed perf unwinds the copies to the function that started `main`.
#[test]
fn perf_unwinds_the_dumps() {
    let dir = scratch("records-dwarf-perf");
    let words = ["-e", "cycles:u", "-c", "50k", "--call-graph", "dwarf,16384", "rust-hello"];
    let file = record(&dir, &words);
    let words = ["script", "-i", file.to_str().unwrap(), "-F", "ip,sym"];
    let Some(text) = perf(&words, None, &dir) else { return };
    let chains: Vec<&str> = text.split("\n\n").filter(|c| !c.trim().is_empty()).collect();
    let whole = chains.iter().filter(|c| c.contains("__libc_start_main")).count();
    assert!(whole * 10 > chains.len() * 8, "{whole} of {}:\n{text}", chains.len());
}

/// A walk by SFrame at the sample finds what the deferred one does, if no page is absent.
#[test]
fn sframe_at_the_sample_is_sframe_later() {
    for arch in Arch::ALL {
        for guest in ["lab-recursion-v3", "lab-alloca-v3", "lab-tailcall-v3"] {
            let run = || Harness::new(arch, guest).events("instructions:u", 101);
            let now = samples(&run().user_stack(UserStack::Sframe).run());
            let later = run().sframe().run();
            let by_fp = samples(&run().run());
            let mut stacks = BTreeMap::new();
            for record in &later.records {
                if let Record::CallchainDeferred { cookie, ips, .. } = record {
                    stacks.insert(*cookie, ips);
                }
            }
            let (mut more, mut compared) = (0, 0);
            for ((now, later), by_fp) in now.iter().zip(later.samples()).zip(&by_fp) {
                assert_eq!((now.ip, now.callchain[0]), (later.ip, context::USER));
                assert_eq!(now.user_lr, None);
                let [marker, cookie] = later.callchain[..] else { continue };
                assert_eq!(marker, context::USER_DEFERRED);
                let Some(stack) = stacks.get(&cookie) else { continue };
                assert_eq!(&&now.callchain[1..], stack, "{arch} {guest}");
                more += usize::from(now.callchain.len() > by_fp.callchain.len());
                compared += 1;
            }
            assert!(more > 5 && compared > 5, "{arch} {guest}: {more} of {compared}");
        }
    }
}

/// Records of the kernel, and what LOST and LOST_SAMPLES say of those that are missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Losses {
    written: u64,
    lost: u64,
    lost_samples: u64,
    chunks: u64,
}

fn losses(file: &Path, events: u64) -> Losses {
    let bytes = fs::read(file).unwrap();
    let mut found = Losses::default();
    let mut before: Option<(u64, u64, u32)> = None;
    for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
        let event = record.event as u64 + 1;
        match record.body {
            Body::Lost { id, lost } => {
                let trailer = record.trailer.unwrap();
                let (time, cpu) = (trailer.time.unwrap(), trailer.cpu.unwrap().0);
                assert!(lost > 0 && (1..=events).contains(&id) && before.is_none());
                found.lost += lost;
                found.chunks += 1;
                before = Some((id, time, cpu));
                continue;
            }
            Body::LostSamples { lost } => {
                assert_eq!(record.trailer.unwrap().time, Some(0));
                found.lost_samples += lost;
                continue;
            }
            Body::Sample(s) => {
                let next = (event, s.time.unwrap(), s.cpu.unwrap().0);
                assert!(before.is_none_or(|lost| lost == next), "{before:?} {next:?}");
                found.written += 1;
            }
            _ => match record.trailer {
                Some(t) if t.time != Some(0) => {
                    let next = (1, t.time.unwrap(), t.cpu.unwrap().0);
                    assert!(before.is_none_or(|lost| lost == next), "{before:?} {next:?}");
                    found.written += 1;
                }
                _ => continue,
            },
        }
        before = None;
    }
    assert_eq!(before, None);
    found
}

/// Samples of user instructions come at the same places, so that what a slow reader gets and
/// what it is told to have lost is all that a fast one gets.
#[test]
fn what_a_slow_reader_loses_is_counted() {
    let dir = scratch("records-slow");
    for arch in Arch::ALL {
        for (events, count) in [("instructions:u", 1), ("instructions:u,branches:u", 2)] {
            let words = ["--arch", arch.name(), "-e", events, "-c", "503", "recursion"];
            let fast = losses(&record(&dir, &words), count);
            assert_eq!((fast.lost, fast.chunks, fast.lost_samples), (0, 0, 0), "{arch}");
            let slow = |rate: &str, pages: &str| {
                let settings = ["--reader-rate", rate, "-m", pages];
                losses(&record(&dir, &[&settings[..], &words].concat()), count)
            };
            let all = slow("1G", "128");
            assert_eq!(all, fast, "{arch}: a fast reader with room");
            let some = slow("100k", "16");
            assert_eq!(some.written + some.lost_samples, fast.written, "{arch}");
            assert!(some.lost <= some.lost_samples && some.chunks > 1, "{arch}: {some:?}");
            assert!(some.written > 100, "{arch}: {some:?}");
            let more = slow("1k", "4");
            assert!(more.lost_samples > some.lost_samples, "{arch}: {more:?}");
            assert_eq!(more.written + more.lost_samples, fast.written, "{arch}");
        }
    }
}

/// perf counts the same.
#[test]
fn perf_knows_what_was_lost() {
    let dir = scratch("records-slow-perf");
    let words = ["-e", "cycles:u", "-c", "503", "--reader-rate", "100k", "-m", "16"];
    let file = record(&dir, &[&words[..], &["recursion"]].concat());
    let found = losses(&file, 1);
    let script = Command::new("perf")
        .args(["script", "--show-lost-events", "-F", "tid,time,event", "-i"])
        .arg(&file)
        .env("HOME", &dir)
        .env("LC_ALL", "C")
        .output();
    let Ok(script) = script else { return println!("skipped: no perf") };
    let text = String::from_utf8_lossy(&script.stdout);
    assert_eq!(text.matches("PERF_RECORD_LOST lost ").count() as u64, found.chunks, "{text}");
    assert!(found.chunks > 1, "{found:?}");
    let lost: u64 = text
        .lines()
        .filter_map(|l| l.split_once("PERF_RECORD_LOST lost "))
        .map(|l| l.1.trim().parse::<u64>().unwrap())
        .sum();
    assert_eq!(lost, found.lost, "{text}");
}

/// The laws know of records that a slow reader has lost.
#[test]
fn a_lost_record_explains_a_missing_stack() {
    for arch in Arch::ALL {
        let dir = scratch(&format!("lost-laws-{arch}"));
        let words = ["run", "-q", "--laws", "--arch", arch.name(), "-m", "1", "--reader-rate"];
        let more = ["1M", "-c", "700", "--call-graph", "sframe,defer", "recursion"];
        let done = finish(emu(&words).args(more).current_dir(&dir));
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(done.stderr.contains("LAW-36 by LOST"), "{}", done.stderr);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (words, why) in [
        (&["--call-graph", "dwarf", "--format", "folded", "-o", "-"][..], "use --format perf"),
        (&["--call-graph", "dwarf", "--format", "script"], "use --format perf"),
    ] {
        let done = finish(emu(&["run", "-q"]).args(words).arg("hello"));
        assert_eq!((done.status, done.stdout.as_str()), (125, ""), "{}", done.stderr);
        assert!(done.stderr.contains(why), "{}", done.stderr);
    }
}

/// 25,000 samples a second are 100 in a tick of 4 ms: with the last of them the event stands
/// still until the next tick.
#[test]
fn throttling_holds_to_its_limit() {
    const TICK: u64 = 4_000_000;
    let dir = scratch("records-throttle");
    let limit = ["--sysctl", "kernel.perf_event_max_sample_rate=25000"];
    for arch in Arch::ALL {
        for (event, id) in [("cycles:u", 1), ("page-faults,cpu-clock", 2)] {
            let words = ["--arch", arch.name(), "-e", event, "-c", "10007", "demo"];
            let bytes = fs::read(record(&dir, &[&limit[..], &words].concat())).unwrap();
            let (mut throttled, mut in_tick, mut ticks) = (None, 0, 0);
            let mut last_of_tick = false;
            for record in PerfFile::read(&bytes).unwrap().records().map(Result::unwrap) {
                match record.body {
                    Body::Throttle { time, id: of, stream_id } => {
                        let trailer = record.trailer.unwrap();
                        assert_eq!((of, stream_id, trailer.time), (id, id, Some(time)));
                        let begins = record.kind == abi::record::THROTTLE;
                        assert_eq!(throttled.is_some(), !begins, "{arch} {event}");
                        if begins {
                            assert_eq!(in_tick, 99, "{arch} {event}: the last is written behind");
                            (throttled, last_of_tick) = (Some(time), true);
                        } else {
                            assert!(time % TICK < 20_000, "{arch} {event}: at {time}");
                            assert!(time / TICK == throttled.unwrap() / TICK + 1);
                            (throttled, in_tick) = (None, 0);
                            ticks += 1;
                        }
                    }
                    Body::Sample(s) if record.event as u64 + 1 == id => {
                        in_tick += 1;
                        if std::mem::take(&mut last_of_tick) {
                            assert_eq!(s.time, throttled, "{arch} {event}");
                        } else {
                            assert_eq!(throttled, None, "{arch} {event}: a sample at {:?}", s.time);
                        }
                    }
                    _ => {}
                }
            }
            assert!(ticks >= 5, "{arch} {event}: {ticks} ticks");
        }
    }
}

/// Without a limit there is none: samples come at their period.
#[test]
fn nothing_is_throttled_without_a_limit() {
    let outcome = Harness::new(Arch::X86_64, "recursion").events("instructions:u", 97).run();
    assert!(!outcome.records.iter().any(|r| matches!(r, Record::Throttle { .. })));
    assert_eq!(outcome.samples().count() as u64, outcome.stats.instructions / 97);
}

/// Callchains have the kernel's budgets; a cookie is one of the markers (P-1).
#[test]
fn callchains_have_the_budgets_of_the_settings() {
    let dir = scratch("records-budgets");
    let chains = |words: &[&str], how| {
        let all = [words, &["--call-graph", how, "-e", "cycles", "-c", "997", "syscalls"]];
        let bytes = fs::read(record(&dir, &all.concat())).unwrap();
        let records = PerfFile::read(&bytes).unwrap();
        let samples = records.records().map(Result::unwrap);
        let chain = |body: Body| match body {
            Body::Sample(s) => s.callchain,
            _ => None,
        };
        samples.filter_map(|r| chain(r.body)).collect::<Vec<Vec<u64>>>()
    };
    let markers = |chain: &[u64]| chain.iter().filter(|&&w| w > context::MAX).count();
    let short = chains(&["--sysctl", "kernel.perf_event_max_stack=3"], "fp");
    let addresses = |chain: &Vec<u64>| chain.len() - markers(chain);
    assert_eq!(short.iter().map(addresses).max(), Some(3));
    let few = chains(&["--sysctl", "kernel.perf_event_max_contexts_per_stack=2"], "fp,defer");
    let in_kernel: Vec<_> = few.iter().filter(|c| c[0] == context::KERNEL).collect();
    assert!(!in_kernel.is_empty());
    for chain in in_kernel {
        assert_eq!(chain.last(), Some(&context::USER_DEFERRED), "{chain:x?}");
        assert_eq!(markers(chain), 2, "{chain:x?}");
    }
    let refused = |words: &[&str]| finish(emu(&["run", "-q"]).args(words).arg("hello"));
    for (words, why) in [
        (
            &["--sysctl", "kernel.perf_event_max_sample_rate=100", "-F", "200"][..],
            "(100 Hz) exceeded",
        ),
        (&["--sysctl", "kernel.perf_event_max_stack=5", "--max-stack", "6"], "EOVERFLOW"),
        (&["--max-stack", "128"], "EOVERFLOW"),
        (&["--sysctl", "kernel.perf_event_max_stack=-1", "-c", "5"], "from 0 to 655360"),
        (&["--sysctl", "kernel.perf_event_mlock_kb=5", "-c", "5"], "no setting"),
    ] {
        let done = refused(words);
        assert!([2, 125].contains(&done.status), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{words:?}: {}", done.stderr);
    }
}

/// With two counters for three events two of them count in each tick, in turn.
#[test]
fn events_take_turns_on_few_counters() {
    const TICK: u64 = 4_000_000;
    /// The tick's interrupt comes a little later.
    const LATE: u64 = 20_000;
    let dir = scratch("records-multiplex");
    let events = "cycles:u,instructions:u,branches:u";
    let samples = |words: &[&str]| {
        let all = [words, &["-e", events, "-c", "2003", "demo"]].concat();
        let bytes = fs::read(record(&dir, &all)).unwrap();
        let file = PerfFile::read(&bytes).unwrap();
        let found = file.records().map(Result::unwrap).filter_map(|r| match r.body {
            Body::Sample(s) => Some((s.time.unwrap(), r.event)),
            _ => None,
        });
        found.collect::<Vec<(u64, usize)>>()
    };
    for arch in Arch::ALL {
        let own = samples(&["--arch", arch.name(), "--pmu-counters", "3"]);
        let all = samples(&["--arch", arch.name()]);
        assert_eq!(own.len(), all.len(), "{arch}: a counter each");
        let shared = samples(&["--arch", arch.name(), "--pmu-counters", "2"]);
        let mut ticks = BTreeMap::<u64, BTreeSet<usize>>::new();
        for (time, event) in shared.iter().filter(|(time, _)| time % TICK > LATE) {
            ticks.entry(time / TICK).or_default().insert(*event);
        }
        assert!(ticks.len() > 5, "{arch}: {ticks:?}");
        let whole: Vec<&BTreeSet<usize>> = ticks.values().take(ticks.len() - 1).collect();
        assert!(whole.iter().all(|events| events.len() == 2), "{arch}: {ticks:?}");
        assert!(whole.windows(2).all(|w| w[0] != w[1]), "{arch}: {ticks:?}");
        let share = shared.len() as f64 / all.len() as f64;
        assert!((0.55..0.8).contains(&share), "{arch}: {share}");
    }
    let done = finish(&mut emu(&["run", "-e", events, "--pmu-counters", "1", "-o", "-", "demo"]));
    assert_eq!(done.stderr.matches(" % of its time: ").count(), 3, "{}", done.stderr);
    let done = finish(&mut emu(&["run", "-e", events, "-o", "-", "demo"]));
    assert_eq!(done.stderr.matches(" % of its time: ").count(), 0, "{}", done.stderr);
}
