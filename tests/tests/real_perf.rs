//! The installed `perf` reads what we write: without a word on standard error, every
//! sample, every address, the kernel's functions by name. Each test prints a note and
//! passes where there is no perf.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};

use arch::Arch;
use emu::export::{self, Format, Images, Output, kallsyms};
use emu::perf::record::{Record, Sample, context};
use tests::harness::{Harness, Outcome};
use tests::perf::perf;
use tests::program::{emu, finish};
use tests::scratch;

const TRACEPOINTS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
const ALL: &str = "cycles,cpu-clock,page-faults,context-switches,\
    raw_syscalls:sys_enter,raw_syscalls:sys_exit";
const TRACEPOINTS_TOO: &str = "syscalls:sys_enter_openat,syscalls:sys_exit_getpid,\
    syscalls:sys_enter_tgkill,signal:signal_generate,signal:signal_deliver,\
    sched:sched_process_exit,task-clock";

/// Guests, arguments, events, period.
const RUNS: [(&str, &[&str], &str, u64); 10] = [
    ("golden-fp", &["sys", "3"], ALL, 1009),
    ("golden-fp", &["sys", "3"], TRACEPOINTS, 1),
    ("golden-fp", &["fault", "20"], "page-faults", 1),
    ("golden-fp", &["sys", "9"], "context-switches", 1),
    ("golden-fp", &["deep", "2", "600"], TRACEPOINTS, 1),
    ("golden-leaf", &["sig", "5"], "cycles,raw_syscalls:sys_enter", 1),
    ("golden-fp", &["sig", "2"], TRACEPOINTS_TOO, 1),
    ("segv", &[], "cycles:k,cycles:u", 499),
    ("recursion-pie", &["10", "300"], "cycles", 9973),
    ("cpp-throw", &[], "cpu-clock", 100_003),
];

/// A sample as perf prints it.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    event: String,
    micros: u64,
    period: u64,
    frames: Vec<(u64, String)>,
}

/// Parses `perf script -F time,event,period,ip,sym`.
fn parse(text: &str) -> Vec<Printed> {
    let mut samples: Vec<Printed> = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let Some(frame) = line.strip_prefix('\t') else {
            samples.push(head(line));
            continue;
        };
        let (address, name) = frame.trim().split_once(' ').unwrap_or((frame.trim(), ""));
        let address = u64::from_str_radix(address, 16).unwrap_or_else(|e| panic!("{line}: {e}"));
        samples.last_mut().unwrap().frames.push((address, name.to_owned()));
    }
    samples
}

/// `0.001009:       1009 cycles:`
fn head(line: &str) -> Printed {
    let [time, period, event] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("not the head of a sample: {line}")
    };
    let (seconds, micros) = time.trim_end_matches(':').split_once('.').unwrap();
    Printed {
        event: event.trim_end_matches(':').to_owned(),
        micros: seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap(),
        period: period.parse().unwrap(),
        frames: Vec::new(),
    }
}

/// Whether perf's `printed` stands for `address`: perf 6 prints an offset in the file.
fn is_address(outcome: &Outcome, printed: u64, address: u64) -> bool {
    let in_file = outcome.records.iter().any(|r| match r {
        Record::Mmap2 { addr, len, pgoff, .. } => {
            (*addr..addr + len).contains(&address) && address - addr + pgoff == printed
        }
        _ => false,
    });
    printed == address || in_file
}

fn check_sample(outcome: &Outcome, s: &Sample, printed: &Printed, what: &str) {
    let event = &outcome.session.events[s.event].name;
    assert_eq!((&printed.event, printed.micros), (event, s.time / 1000), "{what}: {s:x?}");
    assert_eq!(printed.period, s.period, "{what}: {s:x?}");
    let mut frames = printed.frames.iter().peekable();
    let addresses = s.callchain.iter().filter(|&&a| a < context::MAX);
    for (n, &address) in addresses.enumerate() {
        // perf puts the caller of an arm64 leaf back from the link register.
        let is = |frame: &(u64, String)| is_address(outcome, frame.0, address);
        let added = s.user_lr.is_some_and(|lr| {
            frames.peek().is_some_and(|f| !is(f) && is_address(outcome, f.0, lr - 1))
        });
        if added {
            frames.next();
        }
        let Some(frame) = frames.next() else {
            panic!("{what}: frame {n} is missing: {printed:x?}")
        };
        assert!(is(frame), "{what}: frame {n} is {:x}, not {address:x}: {s:x?}", frame.0);
        if let Some(name) = kernel_name(outcome, address) {
            let (printed, _) = frame.1.split_once('+').unwrap_or((&frame.1, ""));
            assert_eq!(printed, name, "{what}: frame {n} at {address:x}");
        }
    }
    assert_eq!(frames.next(), None, "{what}: {printed:x?} has more than {s:x?}");
}

fn kernel_name(outcome: &Outcome, address: u64) -> Option<&str> {
    let mut symbols = outcome.session.kernel_symbols.iter();
    let symbol = symbols.find(|s| (s.addr..s.addr + s.len).contains(&address))?;
    Some(&symbol.name)
}

fn write(outcome: &Outcome, path: &Path) -> PathBuf {
    let output = Output::File(path.to_owned());
    let mut sink =
        export::open(Format::PerfData, &outcome.session, output, Images::of_host()).unwrap();
    outcome.records.iter().for_each(|r| sink.record(r).unwrap());
    sink.finish().unwrap();
    kallsyms::write_beside(path, &outcome.session.kernel_symbols).unwrap()
}

#[test]
fn printed_chains_are_the_records() {
    let dir = scratch("real-perf-chains");
    for arch in Arch::ALL {
        for (n, (guest, args, events, period)) in RUNS.into_iter().enumerate() {
            let what = format!("{guest} {} with {events} on {arch}", args.join(" "));
            let harness = Harness::new(arch, guest).args(args).events(events, period);
            let outcome = harness.run();
            let data = dir.join(format!("{arch}-{n}.data"));
            let kallsyms = write(&outcome, &data);
            let (data, kallsyms) = (data.to_str().unwrap(), kallsyms.to_str().unwrap());
            let args = ["script", "-i", data, "--kallsyms", kallsyms];
            let fields = ["-F", "time,event,period,ip,sym"];
            let Some(text) = perf(&[&args[..], &fields].concat(), None, &dir) else { return };
            let printed = parse(&text);
            assert_eq!(printed.len(), outcome.samples().count(), "{what}: samples");
            assert!(!printed.is_empty(), "{what}: no samples");
            for (s, printed) in outcome.samples().zip(&printed) {
                check_sample(&outcome, s, printed, &what);
            }
        }
    }
}

/// What `emu run` leaves behind, with the options that people use.
#[test]
fn profiles_of_the_program_open_without_complaint() {
    let dir = scratch("real-perf-program");
    let runs: [(&[&str], &str, &str); 6] = [
        (&[], "demo", "dot"),
        (&["-e", "cpu-clock,page-faults"], "qsort", "compare"),
        (&["-e", "page-faults", "-c", "1"], "rust-hello", "page-faults"),
        (&["-e", TRACEPOINTS], "syscalls-glibc", "syscall"),
        (&["-e", "cycles:u,branches:u", "-c", "50k", "--no-call-graph"], "cpp-throw", "cycles"),
        (&["-e", "instructions:k", "-c", "10k"], "touch256", "do_anonymous_page"),
    ];
    for arch in Arch::ALL {
        for (n, (options, guest, expected)) in runs.into_iter().enumerate() {
            let data = dir.join(format!("{arch}-{n}.data"));
            let words = ["run", "--arch", arch.name(), "-o", data.to_str().unwrap()];
            let out = finish(emu(&words).args(options).arg(guest).args(argument(guest)));
            assert_eq!(out.status, 0, "{out:?}");
            let data = data.to_str().unwrap();
            let kallsyms = format!("{data}.kallsyms");
            let common = ["-i", data, "--kallsyms", &kallsyms];
            let Some(script) = perf(&[&["script"], &common[..]].concat(), None, &dir) else {
                return;
            };
            assert!(script.lines().count() > 1, "{guest} on {arch}: {script}");
            let report = perf(&[&["report", "--stdio"], &common[..]].concat(), None, &dir).unwrap();
            assert!(report.contains(expected), "{guest} on {arch}: no {expected} in\n{report}");
            // The command that the summary proposes.
            assert!(out.stderr.contains("perf report -i "), "{}", out.stderr);
        }
    }
}

/// An argument that keeps a guest's run short.
fn argument(guest: &str) -> Option<&'static str> {
    match guest {
        "touch256" => Some("16"),
        "syscalls-glibc" => Some("50"),
        _ => None,
    }
}

#[test]
fn a_stream_goes_straight_into_perf() {
    let dir = scratch("real-perf-stream");
    for arch in Arch::ALL {
        let stream = dir.join(format!("{arch}.stream"));
        let words = ["run", "-q", "-o", "-", "--arch", arch.name(), "recursion"];
        let out = tests::program::raw(&mut emu(&words));
        assert!(out.status.success(), "{out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("fib(24)"), "{out:?}");
        std::fs::write(&stream, out.stdout).unwrap();
        let Some(script) = perf(&["script", "-i", "-"], Some(&stream), &dir) else { return };
        assert!(script.contains("fib+0x"), "{arch}: {script}");
        let report = perf(&["report", "--stdio", "-i", "-"], Some(&stream), &dir).unwrap();
        assert!(report.contains("fib"), "{arch}: {report}");
    }
}

/// perf prints the fields of a tracepoint from the format that the profile carries.
#[test]
fn fields_of_tracepoints_are_printed() {
    let home = scratch("real-perf-fields");
    for arch in Arch::ALL {
        let events = TRACEPOINTS_TOO.trim_end_matches(",task-clock");
        let outcome = Harness::new(arch, "golden-fp").args(&["sig", "1"]).events(events, 1).run();
        let file = home.join(format!("{arch}.data"));
        write(&outcome, &file);
        let args = ["script", "-i", file.to_str().unwrap(), "-F", "trace:trace", "-G"];
        let Some(text) = perf(&args, None, &home) else { return };
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let tid = outcome.samples().next().unwrap().tid;
        let begins = [
            "dirfd: 0xffffff9c, pathname: 0x004".to_owned(),
            format!("{tid:#x}"),
            format!("tgid: {tid:#010x}, tid: {tid:#010x}, sig: 0x0000000a"),
            format!("sig=10 errno=0 code=-6 comm=golden-fp pid={tid} grp=0 res=0"),
            "sig=10 errno=0 code=-6 sa_handler=4".to_owned(),
            format!("{tid:#x}"),
            format!("comm=golden-fp pid={tid} prio=120 group_dead=true"),
        ];
        assert_eq!(lines.len(), begins.len(), "{text}");
        for (line, begin) in lines.iter().zip(&begins) {
            let same = line.replace("0xffffffffffffff9c", "0xffffff9c").starts_with(begin);
            assert!(same, "{line} is not {begin}:\n{text}");
        }
    }
}
