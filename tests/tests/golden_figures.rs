//! Runs of programs whose recordings (perf 7.2 on Linux 7.3) are not here, against what was
//! counted in them, and the shapes of their chains; `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use arch::Arch;
use emu::perf::record::Rate;
use tests::captures::{CHAINS, Capture, Form, recorded_chains};

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

const RAW: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";

/// How many samples of a text have the same markers and the same kernel functions.
fn kernel_chains(text: &str) -> BTreeMap<(String, String), usize> {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("sample")) {
        let words: Vec<&str> = line.split(' ').collect();
        let markers = ["KERNEL", "USER", "USER_DEFERRED"];
        let markers: Vec<&str> = markers.into_iter().filter(|m| words.contains(m)).collect();
        let chain = line.split_once(" KERNEL ").and_then(|(_, chain)| chain.split(" USER").next());
        // Equal neighbours are counted in the text.
        let twice = |name: &str| match name.strip_suffix(" (2 times)") {
            Some(name) => format!("{name} <- {name}"),
            None => name.to_owned(),
        };
        let names: Vec<String> = chain.unwrap_or_default().split(" <- ").map(twice).collect();
        *counts.entry((markers.join("+"), names.join(" <- "))).or_default() += 1;
    }
    counts
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
    let (arch, rate, form) = (Arch::X86_64, Rate::Period(1), Form::Records);
    Capture { name, arch, guest: "guest-fp", args, events, rate, form, options }.text_of_run()
}

/// SIGKILL: the call that is interrupted gets its record.
#[test]
fn killed_defer() {
    let text = run("killed_defer", &["killed"], RAW);
    let samples_a_cookie = BTreeMap::from([(2, 4)]);
    let (records, without_record) = (4, 0);
    let (samples, cookies, longest, shortest) = (8, 4, 5, 3);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    assert!(text.lines().rev().nth(1).unwrap().starts_with("deferred"), "{text}");
}

/// CPU-wide too; of what was recorded only the guest's calls are compared.
#[test]
fn killed_defer_all() {
    let alone = run("killed_defer", &["killed"], RAW);
    let text = run_with("fp,defer -a", "killed_defer_all", &["killed"], RAW);
    assert_eq!(Figures::of(&text), Figures::of(&alone), "{text}");
    let behind = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(behind(&text), behind(&alone));
}

/// CPU-wide, the call that ends the task has its record, behind EXIT and with the whole chain.
#[test]
fn exit_defer_all() {
    let events = "syscalls:sys_enter_exit_group,syscalls:sys_enter_getpid";
    let text = run_with("fp,defer -a --cpus=2", "exit_defer_all", &["sys", "1"], events);
    let samples_a_cookie = BTreeMap::from([(1, 2)]);
    let (records, without_record) = (2, 0);
    let (samples, cookies, longest, shortest) = (2, 2, 8, 2);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let [.., exit, record] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(exit.starts_with("task 4 "), "{text}");
    assert!(record.starts_with("deferred user ") && record.contains("guest_start+"), "{text}");
}

/// Two threads end, CPU-wide: after PF_EXITING their stacks are walked at once; the record of
/// `exit_group` comes behind the EXIT of its thread.
#[test]
fn procexit_defer_all() {
    let events = "sched:sched_process_exit,syscalls:sys_enter_exit_group";
    let text = run_with("fp,defer -a --cpus=2", "procexit_defer_all", &["thr", "1"], events);
    let samples_a_cookie = BTreeMap::from([(1, 1)]);
    let (records, without_record) = (1, 0);
    let (samples, cookies, longest, shortest) = (3, 1, 2, 2);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(last[0].starts_with("deferred") && last[1].starts_with("task 4 "), "{text}");
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
    let text = run_with("fp,defer --cpus=2", "migr_defer", &["migr", "6"], RAW);
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
    let text = run_with("fp,defer --cpus=2", "rawsys_defer_thr", &["thr", "4"], RAW);
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

/// A recording whose file is not here, and how its kernel chains are compared.
struct Known {
    name: &'static str,
    options: &'static str,
    args: &'static [&'static str],
    events: &'static str,
    compared: Compared,
}

/// What of `chains.tsv` a run must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// The same chains, as often; of `execve`, which perf calls, the return is the recording's.
    Counts,
    /// The same chains: how often depends on time.
    Chains,
    /// All that the run has, at least as often: other programs' calls were recorded too.
    Part,
}

const fn known(
    name: &'static str,
    options: &'static str,
    args: &'static [&'static str],
    events: &'static str,
    compared: Compared,
) -> Known {
    Known { name, options, args, events, compared }
}

const GETPID: &str = "syscalls:sys_enter_getpid";
const UPROBE: &str = "uprobe:sys_getpid";
const EXITS: &str = "sched:sched_process_exit,syscalls:sys_enter_exit_group";
const GROUPS: &str = "syscalls:sys_enter_exit_group,syscalls:sys_enter_getpid";

/// All recordings without file, but those that a timer samples, signal_sched_defer and the two at
/// once (two_a, two_b).
const KNOWN: &[Known] = &[
    known("badfp_fp", "fp", &["badfp"], GETPID, Compared::Counts),
    known("badfp_defer", "fp,defer", &["badfp"], GETPID, Compared::Counts),
    known("exit_defer_all", "fp,defer -a --cpus=2", &["sys", "1"], GROUPS, Compared::Counts),
    known("killed_defer", "fp,defer", &["killed"], RAW, Compared::Counts),
    known("killed_defer_all", "fp,defer -a", &["killed"], RAW, Compared::Part),
    known("migr_defer", "fp,defer --cpus=2", &["migr", "6"], RAW, Compared::Counts),
    known("procexit_defer", "fp,defer", &["sys", "1"], EXITS, Compared::Counts),
    known("procexit_defer_all", "fp,defer -a --cpus=2", &["thr", "1"], EXITS, Compared::Counts),
    known("rawsys_defer_thr", "fp,defer --cpus=2", &["thr", "4"], RAW, Compared::Chains),
    known("rawsys_sched_fp", "fp", &["sys", "3"], SCHED, Compared::Counts),
    known("rawsys_sched_defer", "fp,defer", &["sys", "3"], SCHED, Compared::Counts),
    known("timer_getpid_fp", "fp", &["timer", "600"], GETPID, Compared::Chains),
    known("timer_getpid_defer", "fp,defer", &["timer", "600"], GETPID, Compared::Chains),
    known("timer_getpid_dwarf", "dwarf=2048", &["timer", "600"], GETPID, Compared::Chains),
    known("uprobe_fp", "fp", &["sys", "3"], UPROBE, Compared::Counts),
    known("uprobe_defer", "fp,defer", &["sys", "3"], UPROBE, Compared::Counts),
    known("arm64_badfp_fp", "fp", &["badfp"], GETPID, Compared::Counts),
    known("arm64_rawsys_sched_fp", "fp", &["sys", "3"], SCHED, Compared::Counts),
    known("arm64_uprobe_fp", "fp", &["sys", "3"], UPROBE, Compared::Counts),
];

impl Known {
    fn arch(&self) -> Arch {
        if self.name.starts_with("arm64_") { Arch::Aarch64 } else { Arch::X86_64 }
    }

    fn text(&self) -> String {
        let Known { name, options, args, events, .. } = *self;
        let (arch, rate, form) = (self.arch(), Rate::Period(1), Form::Records);
        Capture { name, arch, guest: "guest-fp", args, events, rate, form, options }.text_of_run()
    }

    /// The chains that were recorded of the guest.
    fn recorded(&self) -> BTreeMap<(String, String), usize> {
        let mut chains = recorded_chains(self.name);
        let of_execve = |chain: &str| chain.split(" <- ").next().unwrap().ends_with("_exit");
        if self.events.contains("sys_exit") {
            let mut returns = chains.iter_mut().filter(|((_, chain), _)| of_execve(chain));
            *returns.next().unwrap().1 -= 1;
        }
        // Another task's turn, in the middle of the tracepoint.
        chains.retain(|(_, chain), _| !chain.contains("preempt_schedule_notrace"));
        chains
    }
}

/// Markers and kernel functions of each sample are those that were recorded.
#[test]
fn kernel_chains_are_those_of_the_recordings() {
    let mut wrong = Vec::new();
    for known in KNOWN {
        let (recorded, run) = (known.recorded(), kernel_chains(&known.text()));
        let same = match known.compared {
            Compared::Counts => recorded == run,
            Compared::Chains => recorded.keys().eq(run.keys()),
            Compared::Part => run.iter().all(|(chain, n)| recorded.get(chain) >= Some(n)),
        };
        if !same || run.is_empty() {
            wrong.push(format!("{}\nrecorded {recorded:#?}\nrun {run:#?}", known.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Signals from interrupts. Of what was recorded, wake-ups and other tasks' turns are left out:
/// they are of tasks that a run has not.
#[test]
fn signal_sched_defer() {
    let events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,signal:signal_deliver,\
        sched:sched_switch,sched:sched_waking";
    let text = run("signal_sched_defer", &["timer", "600"], events);
    let (figures, chains) = (Figures::of(&text), kernel_chains(&text));
    let of_others =
        |chain: &str| ["try_to_wake_up", "__schedule"].iter().any(|f| chain.starts_with(f));
    let recorded = recorded_chains("signal_sched_defer").into_keys();
    let recorded: Vec<_> = recorded.filter(|(_, chain)| !of_others(chain)).collect();
    assert!(chains.keys().eq(&recorded) && recorded.len() == 3, "{chains:#?}");
    // In the order of names: deliveries, calls entered, calls that come back.
    let [delivered, entered, back] = chains.values().copied().collect::<Vec<_>>()[..] else {
        panic!("{chains:#?}")
    };
    assert!(delivered > 10 && entered == back + 1, "{chains:#?}");
    // Each delivery is of an entry of its own, an interrupt; exit_group has no record.
    assert_eq!(figures.cookies, delivered + entered);
    assert_eq!(figures.samples_a_cookie, BTreeMap::from([(1, delivered + 1), (2, back)]));
    assert_eq!((figures.without_record, figures.longest), (1, 12), "{text}");
}

/// Two threads under a timer: each cookie has its record, the longest stacks are the first
/// thread's.
#[test]
fn cpuclock_defer_thr() {
    let text = Capture { form: Form::Records, ..CHAINS[0] }.text_of_run();
    assert_eq!(CHAINS[0].name, "cpuclock_defer_thr");
    let figures = Figures::of(&text);
    assert!(figures.samples > 20 && figures.records == figures.cookies, "{text}");
    assert_eq!((figures.without_record, figures.longest), (0, 9), "{text}");
    let of =
        |end: &str| text.lines().filter(|l| l.starts_with("deferred") && l.ends_with(end)).count();
    let first = of(
        " <- rounds+0x37 <- two_threads+0x3a <- guest_main+0x144 <- guest_start+0x2d <- _start+0xe",
    );
    let second = of(" <- rounds+0x37 <- thread_main+0x17 <- start_thread+0x1c");
    assert!(first > 5 && second > 5, "{text}");
}

/// A breakpoint at a function's first instruction: the caller is found at once on x86_64, and not
/// behind the emulated push, nor on arm64.
#[test]
fn uprobe() {
    let callers = "outer+0xf <- rounds+0x37 <- guest_main+0x104 <- guest_start+0x2d <- _start+0xe";
    let text = run_with("fp", "uprobe_fp", &["sys", "3"], UPROBE);
    let stack = format!("sys_getpid+0x0 <- inner+0x34 <- middle+0x13 <- {callers}");
    assert_eq!(user_parts(&text), [&stack; 3], "{text}");
    let text = run("uprobe_defer", &["sys", "3"], UPROBE);
    let samples_a_cookie = BTreeMap::from([(1, 3)]);
    let (records, without_record) = (3, 0);
    let (samples, cookies, longest, shortest) = (3, 3, 7, 7);
    let expected =
        Figures { samples, cookies, samples_a_cookie, records, without_record, longest, shortest };
    assert_eq!(Figures::of(&text), expected, "{text}");
    let stack = format!(": sys_getpid+0x1 <- middle+0x13 <- {callers}");
    let records = text.lines().filter(|line| line.starts_with("deferred"));
    assert!(records.clone().all(|line| line.ends_with(&stack)), "{text}");
    let arm64 = KNOWN.iter().find(|known| known.name == "arm64_uprobe_fp").unwrap().text();
    assert!(
        user_parts(&arm64).iter().all(|s| s.starts_with("sys_getpid+0x0 <- middle+")),
        "{arm64}"
    );
}
