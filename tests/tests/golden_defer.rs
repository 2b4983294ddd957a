//! Runs of the recorded programs against recordings of perf 7.2 on Linux 7.3.
//!
//! The texts in `golden/defer` were made from the recordings by `captures` (`src/bin`), with the
//! reader that also reads the runs' own profiles. What is known to differ stands in
//! `golden/defer/differences.tsv`, and with its reason in `docs/golden-captures.md`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use arch::Arch;
use emu::kernel::symbols;
use emu::perf::record::Rate;
use tests::captures::{CAPTURES, CHAINS, Capture, LOSSES, TICKS, chains_path, recorded_chains};

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
        let both = || of_arch(TICKS).chain(of_arch(CHAINS));
        let by_timer = chains(both().map(dense));
        let run = &by_timer | &chains(both().flat_map(in_kernel));
        let mut recorded = chains(of_arch(TICKS).map(Capture::recorded));
        let without_file = of_arch(CHAINS).flat_map(|c| recorded_chains(c.name).into_keys());
        let without_file = without_file.filter(|(_, chain)| !chain.is_empty());
        let names = |chain: &str| chain.split(" <- ").map(str::to_owned).collect::<Vec<_>>();
        recorded.extend(without_file.map(|(_, chain)| names(&chain)));
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

/// `docs/golden-captures.md` has each recording once, by its whole name, and no others: those with
/// texts, and those of which chains are known.
#[test]
fn the_page_lists_every_recording() {
    let page = std::fs::read_to_string(tests::root().join("docs/golden-captures.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows = rows.filter(|&names| names != "recording").flat_map(|names| names.split(", "));
    let listed: Vec<&str> = rows.collect();
    let with_text = CAPTURES.iter().chain(TICKS).chain(LOSSES).map(|c| c.name.to_owned());
    let chains = std::fs::read_to_string(chains_path()).unwrap();
    let lines = chains.lines().filter(|line| !line.starts_with('#'));
    let without: BTreeSet<&str> = lines.filter_map(|line| line.split('\t').next()).collect();
    let mut known: Vec<String> = without.iter().map(|name| format!("{name}*")).collect();
    known.extend(with_text);
    known.sort();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, known);
    // Nor is a text there that nothing is compared with.
    let dir = std::fs::read_dir(tests::root().join("tests/golden/defer")).unwrap();
    let names = dir.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names.filter_map(|name| name.strip_suffix(".txt").map(str::to_owned)) {
        assert!(listed.contains(&&*name), "{name}.txt is of no recording");
    }
}
