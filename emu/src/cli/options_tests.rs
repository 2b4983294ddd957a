//! Tests of the command line.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::cli::values::number;
use crate::perf::reader;
use crate::perf::record::EventKind;
use clap::CommandFactory;

fn read(words: &[&str]) -> RunOptions {
    let words: Vec<OsString> = ["emu", "run"].iter().chain(words).map(OsString::from).collect();
    match Cli::read(&words).unwrap().command {
        Command::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

/// What is opened for these words.
fn events_of(words: &[&str]) -> Result<Vec<Event>, EventError> {
    let o = run(words);
    o.sampling.events(&o.machine)
}

#[test]
fn options_may_follow_a_name() {
    let o = read(&["demo", "--arch", "aarch64", "x", "-c", "5"]);
    assert_eq!(o.machine.arch, Some(Arch::Aarch64));
    assert_eq!(o.command, ["demo", "x", "-c", "5"]);
    let o = read(&["-e", "cycles:u", "demo", "-c", "5", "-o", "-"]);
    assert_eq!((o.sampling.count, o.command.len()), (Some(5), 1));
    assert_eq!(o.sampling.events(&o.machine).unwrap()[0].name, "cycles:u");
    for guests_own in [&["--", "demo", "-c", "5"][..], &["./demo", "-c", "5"], &["no", "-c", "5"]] {
        let o = read(guests_own);
        assert_eq!((o.sampling.count, o.command.len()), (None, 3));
    }
    assert_eq!(read(&["demo", "--", "-c"]).command, ["demo", "--", "-c"]);
}

fn run(words: &[&str]) -> RunOptions {
    match Cli::try_parse_from(["emu", "run"].iter().chain(words)).unwrap().command {
        Command::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn error(words: &[&str]) -> String {
    Cli::try_parse_from(["emu", "run"].iter().chain(words)).unwrap_err().to_string()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_are_those_of_the_help() {
    let o = run(&[]);
    let events = o.sampling.events(&o.machine).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].rate), (EventKind::Cycles, Rate::Frequency(4000)));
    assert!(events[0].callchain && events[0].max_stack == 0);
    assert_eq!((o.output.output, o.output.format), (None, Format::PerfData));
    assert!(!o.output.quiet && !o.machine.strict && !o.machine.strace);
    assert_eq!((o.machine.arch, o.sampling.pmu_irq), (None, PmuIrq::Nmi));
    assert_eq!((o.machine.seed, o.machine.aslr, o.machine.max_instructions), (1, None, None));
    assert_eq!((o.world.root, o.world.env, o.command), (None, vec![], vec![]));
}

#[test]
fn what_follows_the_guest_is_its_own() {
    let o = run(&["-c", "10", "demo", "-c", "20", "--", "--help"]);
    assert_eq!(o.sampling.count, Some(10));
    assert_eq!(o.command, ["demo", "-c", "20", "--", "--help"]);
    assert_eq!(run(&["--", "demo", "x"]).command, ["demo", "x"]);
    assert_eq!(run(&["--", "-odd"]).command, ["-odd"]);
    assert!(error(&["--odd", "demo"]).contains("--odd"));
}

#[test]
fn events_are_lists_and_repeat() {
    let o = run(&["-e", "cycles:u,faults", "-e", "raw_syscalls:sys_enter", "-F", "99"]);
    let events = o.sampling.events(&o.machine).unwrap();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|e| e.rate == Rate::Frequency(99)));
    let o = run(&["-e", "cycles,raw_syscalls:sys_exit", "--no-call-graph"]);
    let events = o.sampling.events(&o.machine).unwrap();
    assert_eq!(events[1].rate, Rate::Period(1));
    assert!(!events[0].callchain);
    assert!(events_of(&["-e", "cycels"]).is_err());
}

#[test]
fn call_graphs() {
    let o = run(&["-g", "--call-graph", "fp", "--max-stack=1024"]);
    assert_eq!(o.sampling.call_graph, Some(CallGraph::Fp));
    let events = o.sampling.events(&o.machine).unwrap();
    assert!(events[0].callchain && events[0].max_stack == 1024);
    assert!(events_of(&["--call-graph=fp,defer"]).unwrap()[0].defer);
    let user_stack = |how| events_of(&["--call-graph", how]).unwrap()[0].user_stack;
    assert_eq!(user_stack("dwarf"), UserStack::Dump(8192));
    assert_eq!(user_stack("dwarf,4095"), UserStack::Dump(4096));
    assert_eq!(user_stack("dwarf,0xfff8"), UserStack::Dump(65_528));
    assert_eq!(user_stack("sframe"), UserStack::Sframe);
    assert!(events_of(&["--call-graph=dwarf"]).unwrap()[0].exclude_callchain_user);
    for size in ["0", "65529", "-8", "x", ""] {
        let said = error(&["--call-graph", &format!("dwarf,{size}")]);
        assert!(said.contains("incorrect stack dump size (max 65528)"), "{said}");
    }
    assert!(error(&["--call-graph", "lbr"]).contains("cannot do this yet"));
    assert!(error(&["--call-graph", "lbr,1"]).contains("no more arguments"));
    assert!(error(&["--call-graph", "sframe,8"]).contains("does not belong there"));
    assert!(error(&["--call-graph", "no"]).contains("use fp, fp,defer"));
    assert!(error(&["--call-graph", "dwarf,defer"]).contains("only fp and sframe"));
    assert!(error(&["--call-graph", "defer"]).contains("use fp,defer"));
    assert!(error(&["--deferred", "magic"]).contains("per-work"));
    assert!(error(&["-g", "--no-call-graph"]).contains("cannot be used with"));
    let user = events_of(&["--user-callchains"]).unwrap();
    assert!(user[0].exclude_callchain_kernel && !user[0].exclude_callchain_user);
    let kernel = events_of(&["--kernel-callchains"]).unwrap();
    assert!(kernel[0].exclude_callchain_user && !kernel[0].exclude_callchain_kernel);
    let both = ["--user-callchains", "--kernel-callchains"];
    assert!(error(&both).contains("cannot be used with"));
    assert!(error(&["--max-stack", "1025"]).contains("from 1 to 1024"));
    assert!(error(&["--max-stack", "0"]).contains("from 1 to 1024"));
}

#[test]
fn rings_have_pages() {
    for (text, pages) in
        [("1", 1), ("3", 4), ("512K", 128), ("1B", 1), ("5000B", 2), ("1G", 1 << 18)]
    {
        assert_eq!(run(&["-m", text]).sampling.mmap_pages, pages, "{text}");
    }
    for text in ["0", "0K", "-1", "+1", "x", "2G", "262145", "K", "18446744073709551615G"] {
        let said = error(&[&format!("--mmap-pages={text}")]);
        assert!(said.contains("number of pages up to 262144"), "{text}: {said}");
    }
    assert_eq!(run(&[]).sampling.mmap_pages, reader::DEFAULT_PAGES);
    assert_eq!(run(&["--reader-rate", "2k"]).sampling.reader_rate, Some(2000));
    assert!(error(&["--reader-rate", "0"]).contains("from 1 on"));
}

#[test]
fn numbers_have_suffixes() {
    for (text, value) in [("7", 7), ("2k", 2000), ("2K", 2000), ("3M", 3_000_000)] {
        assert_eq!(number(text), Ok(value));
    }
    assert_eq!(number("4G"), Ok(4_000_000_000));
    for text in ["", "k", "-1", "+1", "1.5k", "1kk", "ä", "0x10", "99999999999G"] {
        assert!(number(text).is_err(), "{text}");
    }
    assert!(positive("0k").is_err());
    assert_eq!(frequency("100k"), Ok(100_000));
    assert!(frequency("100001").unwrap_err().contains("-c"));
    assert_eq!((seed("0x10"), seed("0")), (Ok(16), Ok(0)));
    assert!(seed("-1").is_err() && seed("0x").is_err());
}

#[test]
fn count_excludes_frequency() {
    assert!(error(&["-c", "1", "-F", "1"]).contains("cannot be used with"));
}

#[test]
fn variables_are_bytes() {
    let o = run(&["--env", "A=b=c", "--env", "E="]);
    assert_eq!(o.world.env, [Variable::new("A", "b=c"), Variable::new("E", "")]);
    let raw = OsString::from_vec(b"N=\xff".to_vec());
    assert_eq!(variable(raw).unwrap().entry(), b"N=\xff");
    assert!(error(&["--env", "A"]).contains("NAME=VALUE"));
    assert!(error(&["--env", "=b"]).contains("NAME=VALUE"));
}

#[test]
fn words_of_the_machine() {
    let o = run(&["--arch", "aarch64", "--pmu-irq", "irq", "--seed", "5", "--aslr", "6"]);
    assert_eq!((o.machine.arch, o.sampling.pmu_irq), (Some(Arch::Aarch64), PmuIrq::Irq));
    assert_eq!((o.machine.seed, o.machine.aslr), (5, Some(6)));
    assert!(error(&["--arch", "arm"]).contains("x86_64 or aarch64"));
    assert!(error(&["--format", "pprof"]).contains("perf, folded, script"));
}

#[test]
fn help_names_every_event_that_there_is() {
    let mut command = Cli::command();
    let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for event in ["cycles", "cpu-clock", "raw_syscalls:sys_exit", "--max-stack", "127"] {
        assert!(help.contains(event), "{event}");
    }
}
