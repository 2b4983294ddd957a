//! Runs of the recorded programs against recordings of perf 7.2 on Linux 7.3.
//!
//! The texts in `golden/defer` were made from the recordings by `captures` (`src/bin`), with the
//! reader that also reads the runs' own profiles. What is known to differ stands in
//! `golden/defer/differences.tsv`, and with its reason in `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;

use arch::Arch;
use emu::kernel::symbols;
use emu::perf::reader::Settings;
use emu::perf::record::{Rate, Record};
use tests::captures::{CAPTURES, Capture, TICKS};
use tests::harness::Harness;

/// What is known to differ in the texts of one recording; `golden/defer/differences.tsv`, whose
/// reasons are in `docs/golden-captures.md`.
#[derive(Default)]
struct Differences {
    /// What the recording has, what the run has.
    replaced: Vec<(String, String)>,
    /// Lines that only the recording has.
    recorded: BTreeSet<String>,
    /// Lines that only the run has.
    run: BTreeSet<String>,
    /// Not alike yet: a gap. One that is closed must not stay on the list.
    open: bool,
}

impl Differences {
    fn of(name: &str) -> Differences {
        let path = tests::root().join("tests/golden/defer/differences.tsv");
        let text = std::fs::read_to_string(path).unwrap();
        let mut all = Differences::default();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                [of, ..] if of != name => {}
                [_, "replaced", theirs, ours] => all.replaced.push((theirs.into(), ours.into())),
                [_, "recorded", line] => _ = all.recorded.insert(line.into()),
                [_, "run", line] => _ = all.run.insert(line.into()),
                [_, "open"] => all.open = true,
                _ => panic!("differences.tsv: {line:?} is none of its lines"),
            }
        }
        all
    }
}

/// What a run must be like: the recording, but for the differences.
fn expected(capture: &Capture) -> String {
    let mut text = capture.recorded();
    for (theirs, ours) in Differences::of(capture.name).replaced {
        assert!(text.contains(&theirs), "{}: nothing is {theirs:?}", capture.name);
        text = text.replace(&theirs, &ours);
    }
    text
}

/// The text of a run; one that breaks a rule is a failure among others.
fn actual(capture: &Capture) -> String {
    let capture = *capture;
    catch_unwind(move || capture.text_of_run()).unwrap_or_else(|_| "it has panicked\n".to_owned())
}

/// Runs all, and says which of them have `differences` that are not known of.
fn compare(captures: &[Capture], differences: impl Fn(&Capture, &str) -> Vec<String>) {
    let dir = tests::scratch(&format!("golden-defer-{}", captures[0].name));
    let mut wrong = Vec::new();
    for capture in captures {
        let actual = actual(capture);
        let found = differences(capture, &actual);
        let file = dir.join(capture.name);
        std::fs::write(&file, &actual).unwrap();
        match (found.is_empty(), Differences::of(capture.name).open) {
            (true, true) => wrong.push(format!("{}: equal, but said to be open", capture.name)),
            (true, false) | (false, true) => {}
            (false, false) => {
                wrong.push(format!("{}: see {}", capture.name, file.display()));
                wrong.extend(found);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn runs_are_like_the_recordings() {
    compare(CAPTURES, |capture, actual| {
        let expected = expected(capture);
        let same = expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count();
        let line = |text: &str| text.lines().nth(same).unwrap_or("its end").to_owned();
        if expected == actual {
            return Vec::new();
        }
        vec![format!("recorded\t{}", line(&expected)), format!("run\t{}", line(actual))]
    });
}

/// The lines of a text that begin with `word`.
fn lines<'a>(text: &'a str, word: &str) -> BTreeSet<&'a str> {
    text.lines().filter(|line| line.starts_with(word)).collect()
}

/// The names of the callers in a line of a stack: what follows the innermost function.
fn callers(line: &str) -> Vec<&str> {
    let names = line.split(" <- ").skip(1);
    names.map(|place| place.split('+').next().unwrap_or(place)).collect()
}

/// Lines that only one side has.
#[derive(Default)]
struct Unlike {
    recorded: BTreeSet<String>,
    run: BTreeSet<String>,
}

impl Unlike {
    /// Lines that differ and are not known to, or are known to and do not, of `name`.
    fn news(&self, name: &str) -> Vec<String> {
        let known = Differences::of(name);
        let mut news = Vec::new();
        for (who, found, known) in
            [("recorded", &self.recorded, &known.recorded), ("run", &self.run, &known.run)]
        {
            news.extend(found.difference(known).map(|line| format!("{name}\t{who}\t{line}")));
            let over = known.difference(found);
            news.extend(over.map(|line| format!("no difference now: {name}\t{who}\t{line}")));
        }
        news
    }
}

/// `lines` as they are kept.
fn owned(lines: impl IntoIterator<Item = impl AsRef<str>>) -> BTreeSet<String> {
    lines.into_iter().map(|line| line.as_ref().to_owned()).collect()
}

/// The text of a run that samples much more often.
fn dense(capture: &Capture) -> String {
    actual(&Capture { rate: Rate::Period(4_001), ..*capture })
}

/// The forms of records are those of the recording. Each user stack that was recorded is one of
/// a run with many more samples; those of that run are, but for the innermost function, stacks
/// or callers' parts of stacks of the recording.
#[test]
fn samples_by_time_have_the_forms_and_stacks_of_the_recordings() {
    compare(TICKS, |capture, text| {
        let (dense, recorded) = (dense(capture), expected(capture));
        let both = |word| &lines(text, word) | &lines(&dense, word);
        let mut unlike = Unlike::default();
        let mut differ = |theirs: &BTreeSet<&str>, ours: &BTreeSet<&str>| {
            unlike.recorded.extend(owned(theirs - ours));
            unlike.run.extend(owned(ours - theirs));
        };
        differ(&lines(&recorded, "event"), &lines(text, "event"));
        differ(&lines(&recorded, "form"), &both("form"));
        let (theirs, ours) = (lines(&recorded, "stack"), both("stack"));
        differ(&theirs, &(&ours & &theirs));
        let possible = |line: &str| {
            let callers = self::callers(line);
            theirs.iter().any(|recorded| self::callers(recorded).ends_with(&callers))
        };
        unlike.run.extend(owned(ours.iter().filter(|line| !possible(line))));
        let mut wrong = unlike.news(capture.name);
        if ours.is_empty() {
            wrong.push(format!("{}: no stack", capture.name));
        }
        wrong
    });
}

/// The kernel functions of a line, innermost first: of a chain by itself, or between a sample's
/// markers.
fn kernel_functions(line: &str) -> Option<Vec<&str>> {
    let chain = line.strip_prefix("kernel ").or_else(|| {
        let behind = line.split_once(" KERNEL ")?.1;
        behind.split(" USER").next()?.split(" DUMP").next()
    })?;
    Some(chain.split(" <- ").map(|name| name.trim_end_matches(" (2 times)")).collect())
}

/// The kernel chains of texts.
fn chains(texts: impl Iterator<Item = String>) -> BTreeSet<Vec<String>> {
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines()).filter_map(kernel_functions);
    lines.map(|chain| chain.iter().map(|&name| name.to_owned()).collect()).collect()
}

/// The outer part of a chain, of functions that are all modelled; all of it, if there is none.
fn modelled<'c>(chain: &'c [String], functions: &BTreeSet<String>) -> &'c [String] {
    let strange = chain.iter().rposition(|name| !functions.contains(name));
    match strange.map_or(chain, |at| &chain[at + 1..]) {
        [] => chain,
        part => part,
    }
}

/// The texts of runs in which a counter hits kernel code everywhere. With `-a` it would hit other
/// tasks' code too.
fn in_kernel(capture: &Capture) -> Vec<String> {
    let of_tasks = !capture.options.contains("-a");
    let periods = [193, 211, 239].into_iter().filter(|_| of_tasks);
    let run = |n| Capture { events: "cycles:k", rate: Rate::Period(n), ..*capture };
    periods.map(|n| actual(&run(n))).collect()
}

/// Where a timer hits kernel code, in all runs of an architecture. What a recording has of
/// modelled functions is the outer part of a chain of a run, in which a counter hits too what a
/// timer's 10 µs pass over; each chain that the timer hits is the outer part of one that was
/// recorded.
#[test]
fn kernel_code_that_a_timer_hits_is_that_of_the_recordings() {
    let mut wrong = Vec::new();
    for (arch, name) in [(Arch::X86_64, "x86_64"), (Arch::Aarch64, "arm64")] {
        let of_arch = |all: &'static [Capture]| all.iter().filter(move |c| c.arch == arch);
        let by_timer = chains(of_arch(TICKS).map(dense));
        let run = &by_timer | &chains(of_arch(TICKS).flat_map(in_kernel));
        let recorded = chains(of_arch(TICKS).map(Capture::recorded));
        let all = &recorded | &chains(of_arch(CAPTURES).map(Capture::recorded));
        let functions: BTreeSet<String> = symbols::all(arch).into_iter().map(|s| s.name).collect();
        let mut unlike = Unlike::default();
        for chain in &recorded {
            let part = modelled(chain, &functions);
            if !run.iter().any(|run| run.ends_with(part)) {
                unlike.recorded.insert(format!("kernel {}", part.join(" <- ")));
            }
        }
        let strange = by_timer.iter().filter(|run| !all.iter().any(|chain| chain.ends_with(run)));
        unlike.run = strange.map(|chain| format!("kernel {}", chain.join(" <- "))).collect();
        wrong.extend(unlike.news(name));
        assert!(by_timer.len() > 10, "{name}: no timer hits kernel code");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Each known difference is of a recording, or of an architecture's kernel chains.
#[test]
fn differences_are_of_what_is_compared() {
    let path = tests::root().join("tests/golden/defer/differences.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let all = |captures: &[Capture]| captures.iter().any(|c| c.name == fields[0]);
        let by_line = all(TICKS) || ["x86_64", "arm64"].contains(&fields[0]);
        let fits = match fields.get(1) {
            Some(&("recorded" | "run")) => by_line,
            _ => by_line || all(CAPTURES),
        };
        assert!(fits, "differences.tsv: {line:?} is of nothing that is compared so");
    }
}

/// The texts have what the recordings show, so that equal texts mean something.
#[test]
fn the_recordings_have_what_they_are_for() {
    for capture in CAPTURES {
        let text = capture.recorded();
        let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        // arm64 takes the bit and walks at once.
        let asks = text.contains(" defer_callchain") && capture.arch == Arch::X86_64;
        assert_eq!(asks, count("deferred") > 0, "{}", capture.name);
        assert_eq!(asks, text.contains("USER_DEFERRED #1"), "{}", capture.name);
        assert!(count("sample") > 1, "{}", capture.name);
        // COMM and two MMAP2 of the guest's own execve.
        let others = if capture.args == ["exec"] { 1 } else { 0 };
        assert_eq!((count("task 4"), count("record")), (1, others), "{}", capture.name);
        assert_eq!(count("map"), 2 * others, "{}", capture.name);
    }
    for capture in TICKS {
        let text = capture.recorded();
        assert!(lines(&text, "form sample").len() + lines(&text, "stack").len() > 1, "{text}");
    }
}

/// What is known of recordings whose files are not here: figures that were counted in them
/// (those of perf's own execve taken off), and the shapes of chains.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    samples: usize,
    cookies: usize,
    /// Samples for each cookie: how many have so many.
    samples_a_cookie: BTreeMap<usize, usize>,
    records: usize,
    without_record: usize,
    /// Most and fewest addresses of a record.
    longest: usize,
    shortest: usize,
}

impl Figures {
    fn of(text: &str) -> Figures {
        let lines = |word: &'static str| text.lines().filter(move |l| l.starts_with(word));
        let number = |line: &str| {
            let behind = line.split_once('#')?.1;
            behind.split([' ', ':']).next()?.parse::<usize>().ok()
        };
        let mut asked: BTreeMap<usize, usize> = BTreeMap::new();
        lines("sample").filter_map(number).for_each(|n| *asked.entry(n).or_default() += 1);
        let recorded: Vec<usize> = lines("deferred").filter_map(number).collect();
        let once: BTreeSet<usize> = recorded.iter().copied().collect();
        assert_eq!(once.len(), recorded.len(), "two records for a cookie");
        let mut samples_a_cookie = BTreeMap::new();
        asked.values().for_each(|&n| *samples_a_cookie.entry(n).or_default() += 1);
        let lengths: Vec<usize> = lines("deferred").map(|l| l.split(" <- ").count()).collect();
        Figures {
            samples: lines("sample").count(),
            cookies: asked.len(),
            samples_a_cookie,
            records: recorded.len(),
            without_record: asked.keys().filter(|n| !once.contains(n)).count(),
            longest: lengths.iter().copied().max().unwrap_or(0),
            shortest: lengths.iter().copied().min().unwrap_or(0),
        }
    }
}

fn run(name: &'static str, args: &'static [&'static str], events: &'static str) -> String {
    run_with("fp,defer", name, args, events)
}

fn run_with(
    options: &'static str,
    name: &'static str,
    args: &'static [&'static str],
    events: &'static str,
) -> String {
    let (arch, rate) = (Arch::X86_64, Rate::Period(1));
    Capture { name, arch, guest: "guest-fp", args, events, rate, options }.text_of_run()
}

/// SIGKILL: the call that is interrupted gets its record.
#[test]
fn killed_defer() {
    let text = run("killed_defer", &["killed"], "raw_syscalls:sys_enter,raw_syscalls:sys_exit");
    let samples_a_cookie = BTreeMap::from([(2, 4)]);
    let (records, without_record) = (4, 0);
    let (samples, cookies, longest, shortest) = (8, 4, 5, 3);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    assert!(text.lines().rev().nth(1).unwrap().starts_with("deferred"), "{text}");
}

/// Nine doctored frame pointers: a record each, of at most three addresses.
#[test]
fn badfp_defer() {
    let text = run("badfp_defer", &["badfp"], "syscalls:sys_enter_getpid");
    let samples_a_cookie = BTreeMap::from([(1, 9)]);
    let (records, without_record) = (9, 0);
    let (samples, cookies, longest, shortest) = (9, 9, 3, 1);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
}

/// The call that ends the task has a cookie and no record; the sample after PF_EXITING has its
/// user part at once.
#[test]
fn procexit_defer() {
    let events = "sched:sched_process_exit,syscalls:sys_enter_exit_group";
    let text = run("procexit_defer", &["sys", "1"], events);
    let samples_a_cookie = BTreeMap::from([(1, 1)]);
    let (records, without_record) = (0, 1);
    let (samples, cookies, longest, shortest) = (2, 1, 0, 0);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let chain = "KERNEL do_exit <- do_group_exit <- __x64_sys_exit_group <- x64_sys_call <- \
        do_syscall_64 <- entry_SYSCALL_64_after_hwframe USER guest_start+";
    let exits: Vec<&str> = text.lines().filter(|l| l.contains("sched_process_exit k")).collect();
    assert!(exits.len() == 1 && exits[0].contains(chain), "{text}");
    assert!(text.lines().any(|l| l.ends_with(": USER_DEFERRED #1")), "{text}");
}

/// The user stacks of the samples of a text.
fn user_parts(text: &str) -> Vec<&str> {
    let samples = text.lines().filter(|line| line.starts_with("sample"));
    samples.filter_map(|line| Some(line.split_once("USER ")?.1)).collect()
}

/// The same nine frame pointers, walked at once: a sample each, without a cookie.
#[test]
fn badfp_fp() {
    let text = run_with("fp", "badfp_fp", &["badfp"], "syscalls:sys_enter_getpid");
    let figures = Figures::of(&text);
    assert_eq!((figures.samples, figures.cookies, figures.records), (9, 0, 0), "{text}");
    assert!(user_parts(&text).len() == 9 && !text.contains("KERNEL"), "{text}");
}

/// A call that moves the task keeps its cookie, which has the CPU of its entry.
#[test]
fn migr_defer() {
    let events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
    let text = run_with("fp,defer --cpus=2", "migr_defer", &["migr", "6"], events);
    let samples_a_cookie = BTreeMap::from([(1, 1), (2, 7)]);
    let (records, without_record) = (7, 1);
    let (samples, cookies, longest, shortest) = (15, 8, 5, 3);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
}

const SCHED: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,sched:sched_switch";

/// Each sleep has a third sample. (The recording with `defer` has one more, of a call that was
/// preempted.)
#[test]
fn rawsys_sched() {
    let text = run_with("fp", "rawsys_sched_fp", &["sys", "3"], SCHED);
    assert_eq!((Figures::of(&text).samples, Figures::of(&text).cookies), (24, 0), "{text}");
    let text = run("rawsys_sched_defer", &["sys", "3"], SCHED);
    let samples_a_cookie = BTreeMap::from([(1, 1), (2, 7), (3, 3)]);
    let (records, without_record) = (10, 1);
    let (samples, cookies, longest, shortest) = (24, 11, 8, 3);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let asleep = "KERNEL __schedule <- schedule <- do_nanosleep <- hrtimer_nanosleep <- \
        __x64_sys_nanosleep <- do_syscall_64 <- entry_SYSCALL_64_after_hwframe USER_DEFERRED";
    assert_eq!(text.lines().filter(|line| line.contains(asleep)).count(), 3, "{text}");
}

/// getpid in the handler of an asynchronous signal: the interrupted function is not in the stack,
/// whoever walks it; DWARF finds it.
#[test]
fn timer_getpid() {
    let (args, events) = (&["timer", "600"], "syscalls:sys_enter_getpid");
    let handler = "sys_getpid+0x28 <- handler_leaf+0x9 <- handler_mid+0xc <- handler+0x9 <- \
        restorer+0x0 <- inner+0x2a <- middle+0x13 <- ";
    let text = run("timer_getpid_defer", args, events);
    let figures = Figures::of(&text);
    let once = BTreeMap::from([(1, figures.cookies)]);
    assert!(figures.samples > 1 && figures.samples_a_cookie == once, "{text}");
    assert_eq!((figures.records, figures.without_record), (figures.samples, 0), "{text}");
    assert_eq!((figures.longest, figures.shortest), (12, 12), "{text}");
    let stacks: Vec<&str> = text.lines().filter(|line| line.starts_with("deferred")).collect();
    assert!(stacks.iter().all(|line| line.contains(handler)), "{text}");
    let text = run_with("fp", "timer_getpid_fp", args, events);
    let stacks = user_parts(&text);
    assert!(stacks.len() > 1 && stacks.iter().all(|s| s.starts_with(handler)), "{text}");
    let text = run_with("dwarf=2048", "timer_getpid_dwarf", args, events);
    let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("sample")).collect();
    assert!(samples.len() > 1 && samples.iter().all(|s| s.contains(" DUMP sys_getpid")), "{text}");
}

/// Two threads: a cookie for each call, two samples each but for the calls that begin or end a
/// thread, which have one; two cookies, those of the ends, are without a record.
#[test]
fn rawsys_defer_thr() {
    let events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
    let text = run_with("fp,defer --cpus=2", "rawsys_defer_thr", &["thr", "4"], events);
    let figures = Figures::of(&text);
    assert_eq!(figures.samples_a_cookie.get(&1), Some(&3), "{text}");
    assert_eq!(figures.samples_a_cookie.len(), 2, "{text}");
    // The rounds' calls, openat and clone; how often the first thread waits for the other
    // depends on time.
    assert!(figures.samples_a_cookie[&2] >= 26, "{text}");
    assert_eq!(figures.without_record, 2, "{text}");
    assert_eq!(figures.records + 2, figures.cookies, "{text}");
    assert_eq!(figures.longest, 9, "{text}");
    // The new thread ends the call that made it.
    let chain = "KERNEL trace_syscall_exit <- ret_from_fork <- ret_from_fork_asm USER_DEFERRED";
    assert_eq!(text.lines().filter(|line| line.contains(chain)).count(), 1, "{text}");
}

/// `lost_defer` kept 613 samples and 304 records and lost 889 of both, `lost_fp` kept 779 samples
/// and lost 425. How slow their reader was is not known; all together is what a run without losses
/// has, and, of perf's own execve, one sample and its record.
#[test]
fn lost_and_kept_are_all_of_a_run() {
    let (args, events) = (&["nosleep", "300"], "raw_syscalls:sys_enter,raw_syscalls:sys_exit");
    let text = run("lost_defer", args, events);
    let figures = Figures::of(&text);
    assert_eq!(figures.samples + figures.records + 2, 613 + 304 + 889);
    assert_eq!(figures.samples_a_cookie, BTreeMap::from([(1, 1), (2, 601)]));
    assert_eq!((figures.longest, figures.without_record), (8, 1));
    let text = run_with("fp", "lost_fp", args, events);
    assert_eq!(Figures::of(&text).samples + 1, 779 + 425);
}

/// With one page and a slow reader here: what is kept and what LOST_SAMPLES counts are all; each
/// kept record follows the kept samples of its cookie; the first event's count has the records'.
#[test]
fn a_slow_reader_loses_as_in_lost_defer() {
    let file = tests::root().join("tests/data/captures/guest-fp");
    let harness = Harness::of_file(Arch::X86_64, file, "/bin/guest-fp")
        .args(&["nosleep", "300"])
        .events("raw_syscalls:sys_enter,raw_syscalls:sys_exit", 1)
        .deferred("mask")
        // A record that is lost breaks law 36.
        .without_laws();
    let (mut kept, mut lost, mut told) = ([0, 0, 0], [0, 0], 0);
    let mut cookies = BTreeSet::new();
    harness.run_prepared(
        |s| s.perf.main.read_slowly(Settings { rate: 60_000, pages: 1 }),
        |_, record| match record {
            Record::Sample(sample) => kept[sample.event] += 1,
            Record::CallchainDeferred { cookie, .. } => {
                assert!(cookies.insert(*cookie), "two records of a cookie");
                kept[2] += 1;
            }
            Record::Lost { lost, .. } => told += lost,
            Record::LostSamples { event, lost: n, .. } => lost[*event] += n,
            _ => {}
        },
    );
    let whole = |event: usize| kept[event] + lost[event];
    assert!(lost[0] > 0 && lost[1] > 0 && told > 0 && told <= lost[0] + lost[1]);
    // 602 calls are entered and 601 come back; each of these has its record, which is the first
    // event's as those of the task are: COMM, MMAP2 and EXIT may be among the lost.
    assert_eq!(whole(1), 601, "{kept:?} {lost:?}");
    let others = whole(0) + kept[2] - 602 - 601;
    assert!(others <= 3, "{kept:?} {lost:?}");
}
