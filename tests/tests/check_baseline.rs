//! `emu check --baseline`: which faults are known, and what a baseline is.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::path::Path;

use arch::Arch;
use serde_json::Value;
use tests::check::{Report, check, refused};
use tests::scratch;

#[test]
fn known_faults_do_not_count() {
    let dir = scratch("check-baseline");
    let file = dir.join("known.jsonl");
    let name = file.to_str().unwrap();
    for arch in Arch::ALL {
        let words = ["nested-nofp", "--method", "fp,dwarf"];
        let written = check(arch, &[&words[..], &["--format", "json", "-o", name]].concat());
        assert_eq!(written.status, 1, "{written:?}");
        let again = || check(arch, &[&words[..], &["--baseline", name]].concat());
        let same = again();
        assert_eq!(same.status, 0, "{same:?}");
        assert!(same.stderr.contains(" checked, nothing new is wrong: fp "), "{same:?}");
        assert!(!same.stdout.contains("newly wrong"), "{same:?}");

        let text = std::fs::read_to_string(&file).unwrap();
        let fault = text.lines().filter(|l| l.contains(r#""kind":"fault""#)).nth(5).unwrap();
        std::fs::write(&file, text.replace(&format!("{fault}\n"), "")).unwrap();
        let one = again();
        assert_eq!(one.status, 1, "{one:?}");
        assert!(one.stderr.contains(" 1 newly wrong ("), "{one:?}");
        assert!(one.stdout.contains("fp: 1 newly wrong"), "{one:?}");
        let fault: Value = serde_json::from_str(fault).unwrap();
        let place = format!(
            "  {}+{} in ",
            fault["function"].as_str().unwrap(),
            fault["offset"].as_str().unwrap()
        );
        let named: Vec<&str> =
            one.stdout.lines().filter(|l| l.contains("+0x") && l.contains(" of ")).collect();
        assert!(named.len() == 1 && named[0].starts_with(&place), "{place:?}: {named:?}");
    }
}

/// A baseline of `words`, with each line that `change` makes of one.
fn baseline(file: &Path, arch: Arch, words: &[&str], change: impl Fn(usize, &str) -> String) {
    let written = check(arch, &[&["--format", "json"], words].concat()).stdout;
    let changed = written.lines().enumerate().map(|(n, line)| change(n, line));
    std::fs::write(file, changed.collect::<String>()).unwrap();
}

fn whole(_: usize, line: &str) -> String {
    format!("{line}\n")
}

/// Instances of a generic function have one demangled name, local functions may even have one
/// symbol.
#[test]
fn functions_of_one_name_are_not_mixed_up() {
    let dir = scratch("check-names");
    let file = dir.join("known.jsonl");
    let words = ["rust-hello", "--method", "fp"];
    let report = Report::of(Arch::X86_64, &words);
    let alike = |f: &Value| ["function", "offset", "method", "wrong"].map(|k| f[k].to_string());
    let mut seen: BTreeMap<_, u64> = BTreeMap::new();
    report.kind("fault").for_each(|f| *seen.entry(alike(f)).or_default() += 1);
    let lines = report.0.iter().enumerate();
    let twins: Vec<usize> = lines
        .filter(|(_, l)| l["kind"] == "fault" && seen[&alike(l)] > 1)
        .map(|(n, _)| n)
        .collect();
    assert!(twins.len() > 1, "no functions of one name");
    for without in [twins[0], twins[1]] {
        let change = |n, line: &str| if n == without { String::new() } else { whole(n, line) };
        baseline(&file, Arch::X86_64, &words, change);
        let one =
            check(Arch::X86_64, &[&words[..], &["--baseline", file.to_str().unwrap()]].concat());
        assert!(one.stderr.contains(" checked: fp 1 newly wrong ("), "{}", one.stderr);
        let fault = &report.0[without];
        let place = format!(
            "{}+{} in ",
            fault["function"].as_str().unwrap(),
            fault["offset"].as_str().unwrap()
        );
        assert!(one.stdout.contains(&place), "{place}: {}", one.stdout);
        assert_eq!(one.status, 1);
    }
}

/// What is wrong in another way than before is new.
#[test]
fn another_kind_is_new() {
    let dir = scratch("check-kinds");
    let file = dir.join("known.jsonl");
    let words = ["leaf", "--method", "fp"];
    baseline(&file, Arch::X86_64, &words, |_, line| {
        format!("{}\n", line.replace(r#""wrong":"cfa""#, r#""wrong":"registers""#))
    });
    let all = check(Arch::X86_64, &[&words[..], &["--baseline", file.to_str().unwrap()]].concat());
    assert!(all.stderr.contains(" checked: fp 8 newly wrong (3 known)"), "{}", all.stderr);
}

/// Methods that a baseline does not have are not compared with it; nor are other ways to check.
#[test]
fn a_baseline_is_compared_with_what_it_has() {
    let dir = scratch("check-comparable");
    let file = dir.join("known.jsonl");
    let name = file.to_str().unwrap();
    baseline(&file, Arch::X86_64, &["leaf", "--method", "dwarf"], whole);
    let all = check(Arch::X86_64, &["leaf", "--baseline", name]);
    assert_eq!(all.status, 0, "{all:?}");
    assert!(all.stderr.contains("--baseline: only dwarf is checked, as it was then\n"), "{all:?}");
    assert!(all.stderr.contains("nothing new is wrong"), "{all:?}");
    refused(
        &["leaf", "--baseline", name, "--method", "fp,dwarf"],
        &["--baseline: it has no fp, only dwarf: "],
    );
    refused(
        &["leaf", "--baseline", name, "--every"],
        &["--baseline: it was written without --every"],
    );
    let other = check(Arch::X86_64, &["hello", "--baseline", name]);
    let words = "--baseline: it is of another guest, leaf, not of hello\n";
    assert!(other.stderr.contains(words), "{other:?}");
    baseline(&file, Arch::Aarch64, &["leaf", "--method", "dwarf"], whole);
    refused(
        &["leaf", "--baseline", name],
        &["--baseline: it is for aarch64, the guest for x86_64"],
    );
}

#[test]
fn a_damaged_baseline_is_refused_with_its_line() {
    let dir = scratch("check-damaged");
    let file = dir.join("known.jsonl");
    let whole = check(Arch::X86_64, &["leaf", "--format", "json"]).stdout;
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = lines[..lines.len() - 1].concat();
    let ends = format!("it ends after line {},", lines.len() - 1);
    let damaged = whole.replacen(r#""offset":"0x"#, r#""offset":"x"#, 1);
    let at = damaged.lines().position(|l| l.contains(r#""offset":"x"#)).unwrap() + 1;
    let newer = whole.replacen(r#""version":2"#, r#""version":3"#, 1);
    let cases = [
        (cut, ends),
        (damaged, format!("line {at}: ")),
        (newer, "version 3 ".to_owned()),
        ("\u{0}\n".to_owned(), "line 1: ".to_owned()),
        (lines[1..].concat(), "line 1: a report has one header".to_owned()),
    ];
    for (text, error) in cases {
        std::fs::write(&file, text).unwrap();
        refused(&["leaf", "--baseline", file.to_str().unwrap()], &["known.jsonl: ", &error]);
    }
    refused(&["leaf", "--baseline", "/no/such/file"], &["--baseline /no/such/file: "]);
}

/// Reports of this version are read for ever, as baselines; and whatever else a file holds,
/// reading it ends.
#[test]
fn baselines_of_the_corpus_are_read() {
    for (path, bytes) in corpus() {
        emu::grade::check::baseline::fuzz_baseline(&bytes);
        let whole = emu::grade::check::Baseline::read(&*bytes);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(whole.is_ok(), !name.starts_with("bad-"), "{name}: {whole:?}");
    }
}

fn corpus() -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/baseline");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn mutated_baselines_break_no_promise() {
    const WORDS: [&str; 10] = [
        "null",
        "-1",
        "1e999",
        "\"0xfffffffffffffffff\"",
        "[[[[[[[[",
        "{\"kind\":",
        "\n",
        "\\u0000",
        "18446744073709551616",
        "\"\\ud800\"",
    ];
    let files = corpus();
    // xorshift64
    let mut state = 0x6261_7365_6c69_6e65_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    for _ in 0..4_000 {
        let mut bytes = files[below(files.len())].1.clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(5) {
                0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << below(8)),
                1 => bytes.truncate(at),
                2 => drop(bytes.splice(at..at, WORDS[below(WORDS.len())].bytes())),
                3 => bytes.extend_from_within(at..(at + below(400)).min(bytes.len())),
                _ => drop(bytes.drain(at..(at + below(40)).min(bytes.len()))),
            }
        }
        emu::grade::check::baseline::fuzz_baseline(&bytes);
    }
}
