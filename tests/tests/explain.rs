//! The truth file of a run, and samples explained from it.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};

use arch::Arch;
use tests::program::{Finished, emu, finish};
use tests::scratch;

/// Runs a guest with `--truth`, sampled often; returns the profile.
fn record(dir: &Path, arch: Arch, guest: &[&str]) -> PathBuf {
    record_with(dir, arch, &["-F", "20000"], guest)
}

fn record_with(dir: &Path, arch: Arch, events: &[&str], guest: &[&str]) -> PathBuf {
    let profile = dir.join(format!("{}-{arch}", guest[0]));
    let mut command = emu(&["run", "--truth", "-q", "--arch", arch.name(), "-o"]);
    let finished = finish(command.arg(&profile).args(events).args(guest));
    assert!(finished.stderr.contains("against the true stack"), "{finished:?}");
    profile
}

fn explain(file: &Path, words: &[&str]) -> Finished {
    finish(emu(&["explain"]).arg(file).args(words))
}

fn explained(file: &Path, words: &[&str]) -> String {
    let finished = explain(file, words);
    assert_eq!((finished.status, finished.stderr.as_str()), (0, ""), "{words:?}");
    finished.stdout
}

fn truth(profile: &Path) -> PathBuf {
    PathBuf::from(format!("{}.truth", profile.display()))
}

/// The leaf has no frame: its caller is left out, and the explanation says so.
#[test]
fn a_leaf_without_a_frame() {
    let dir = scratch("explain-leaf");
    for arch in Arch::ALL {
        let profile = record(&dir, arch, &["golden-leaf", "mix", "3"]);
        let text = explained(&profile, &["1"]);
        let fp = if arch == Arch::X86_64 { "rbp" } else { "x29" };
        for words in [
            "sample 1: spin+0x".to_owned(),
            format!(" in golden-leaf, {arch}"),
            "program point: body".to_owned(),
            "fp: missing frame\n  from #0 spin+0x".to_owned(),
            "#1 inner+0x".to_owned(),
            "is left out\n  #0 spin has no frame record of its own\n".to_owned(),
            format!("{fp} points to the record of #1 inner, which leads to #2"),
            "dwarf: exact\n".to_owned(),
            "sframe: no coverage\n".to_owned(),
            "return address #1 inner+0x".to_owned(),
            format!("saved {fp}"),
            "CFA of #0 spin".to_owned(),
        ] {
            assert!(text.contains(&words), "{arch}: no {words:?} in\n{text}");
        }
        // The same from the truth file itself; one method alone.
        assert_eq!(explained(&truth(&profile), &["1"]), text);
        let one = explained(&profile, &["1", "--method", "dwarf"]);
        assert!(one.contains("dwarf: exact") && !one.contains("fp: "), "{one}");
    }
}

/// What is told of each sample agrees with the verdict that was recorded when it was taken.
#[test]
fn a_replay_is_what_was_graded() {
    let dir = scratch("explain-replay");
    for arch in Arch::ALL {
        for guest in [&["golden-leaf", "sig", "3"][..], &["cpp-throw"], &["recursion-glibc"]] {
            let events = ["-e", "raw_syscalls:sys_enter"];
            let profile = record_with(&dir, arch, &events, guest);
            let lines = std::fs::read_to_string(truth(&profile)).unwrap();
            let samples = lines.lines().filter(|l| l.starts_with("{\"sample\"")).count();
            assert!(samples > 0, "{arch} {guest:?}");
            for n in (1..=samples).step_by(1 + samples / 8) {
                let text = explained(&profile, &[&n.to_string()]);
                for method in ["fp", "dwarf", "sframe"] {
                    let start = text.find(&format!("\n{method}: ")).unwrap();
                    let mut lines = text[start + 1..].lines();
                    let exact = lines.next() == Some(&format!("{method}: exact"));
                    let said = lines.next().unwrap();
                    let right = said.ends_with(" right") && !said.contains("where #");
                    assert_eq!(exact, right, "{arch} {guest:?} {n}: {text}");
                }
            }
        }
    }
}

/// The numbers of the samples of which the truth file says `words`.
fn samples(profile: &Path, words: &str) -> Vec<String> {
    let lines = std::fs::read_to_string(truth(profile)).unwrap();
    let all = lines.lines().filter(|line| is_sample(line)).zip(1..);
    let with = all.filter(|(line, _)| line.starts_with("{\"sample\"") && line.contains(words));
    with.map(|(_, n): (_, usize)| n.to_string()).collect()
}

fn is_sample(line: &str) -> bool {
    line.starts_with("{\"sample\"") || line.starts_with("{\"undecided\"")
}

/// The instruction of each sample, as `--format script` has them.
fn script(arch: Arch, events: &[&str], guest: &str) -> Vec<u64> {
    let mut command = emu(&["run", "-q", "--arch", arch.name(), "--format", "script", "-o", "-"]);
    let finished = finish(command.args(events).arg(guest));
    let samples = finished.stdout.split("\n\n").filter(|sample| !sample.trim().is_empty());
    let first = |sample: &str| {
        sample
            .lines()
            .find_map(|l| l.strip_prefix([' ', '\t'])?.split_whitespace().next().map(str::to_owned))
    };
    samples.map(|s| u64::from_str_radix(&first(s).unwrap(), 16).unwrap()).collect()
}

/// N is the n-th sample of the profile, also where some have no true stack; of these the place
/// is told and the reason.
#[test]
fn samples_have_the_numbers_of_the_script() {
    let dir = scratch("explain-numbers");
    for arch in Arch::ALL {
        for guest in ["zoo-coroutine", "zoo-longjmp"] {
            let events = ["-e", "instructions:u", "-c", "7"];
            let script = script(arch, &events, guest);
            let profile = record_with(&dir, arch, &events, &[guest]);
            let lines = std::fs::read_to_string(truth(&profile)).unwrap();
            let all: Vec<serde_json::Value> = lines
                .lines()
                .filter(|line| is_sample(line))
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let sample =
                |line: &serde_json::Value| line.as_object().unwrap().values().next().cloned();
            let pcs: Vec<String> =
                all.iter().map(|l| sample(l).unwrap()["pc"].to_string()).collect();
            let expected: Vec<String> = script.iter().map(|pc| format!("\"{pc:#x}\"")).collect();
            assert_eq!(pcs, expected, "{arch} {guest}");
            let undecided = all.iter().position(|line| line["undecided"].is_object());
            let n = undecided.unwrap_or_else(|| panic!("{arch} {guest}: all have a stack")) + 1;
            let text = explained(&profile, &[&n.to_string()]);
            assert!(text.starts_with(&format!("sample {n}: ")), "{text}");
            assert!(text.contains(&format!("=> {:x}  ", script[n - 1])), "{text}");
            assert!(text.contains("not known, nothing was graded\n  "), "{text}");
            assert!(text.contains(" has left the innermost frame, but"), "{text}");
            let refused = refused(&profile, &[&n.to_string(), "--svg", "-"]);
            assert!(refused.contains(&format!("the true stack of sample {n} is not known")));
            // The one behind it.
            let next = (n..all.len()).find(|&i| all[i]["sample"].is_object()).unwrap() + 1;
            let text = explained(&profile, &[&next.to_string()]);
            assert!(text.contains(&format!("=> {:x}  ", script[next - 1])), "{text}");
        }
    }
}

/// The part of an explanation about a method: its frames, with where the next one was read.
fn frames<'t>(text: &'t str, method: &str) -> Vec<(&'t str, Option<&'t str>)> {
    let part = &text[text.find(&format!("\n{method}: ")).unwrap() + 1..];
    let part = part.split("\n\n").next().unwrap();
    let mut found = Vec::new();
    for line in part.lines() {
        let next = line.split_once("next: [").map(|(_, to)| to.trim_end_matches(']'));
        match line.trim_start().split(' ').next() {
            Some(number) if line.contains("ra=") && number.starts_with(['#', '?']) => {
                found.push((number, next));
            }
            // Some are left out.
            Some("…") => found.push(("…", None)),
            _ if next.is_some() && !found.is_empty() => found.last_mut().unwrap().1 = next,
            _ => {}
        }
    }
    found
}

/// Of a function that calls itself, the frame is the one whose word was read: list, words and
/// picture say the same.
#[test]
fn recursion_is_not_matched_by_address_alone() {
    let dir = scratch("explain-recursion");
    for arch in Arch::ALL {
        let profile = record_with(&dir, arch, &["-c", "9973"], &["recursion-glibc"]);
        let mut prologues = 0;
        for n in samples(&profile, "").iter().step_by(if arch == Arch::X86_64 { 1 } else { 4 }) {
            let text = explained(&profile, &[n]);
            for method in ["fp", "dwarf"] {
                for pair in frames(&text, method).windows(2) {
                    let ((_, Some(slot)), (next, _)) = (pair[0], pair[1]) else { continue };
                    if next == "…" {
                        continue;
                    }
                    let words = text.split("the stack, from").nth(1).unwrap();
                    let line = words.lines().find(|line| line.contains(&format!(" {slot:0>12} ")));
                    let line = line.unwrap_or_else(|| panic!("{n}: no word {slot} in\n{text}"));
                    let says = format!("return address {next} ");
                    let wrong = next == "??" && !line.contains("return address #");
                    assert!(line.contains(&says) || wrong, "{n} {method}: {line}\n{text}");
                    assert!(line.contains(method), "{n}: {line}");
                }
            }
            let of_fib = text.starts_with(&format!("sample {n}: fib+0x3 "));
            if arch == Arch::X86_64 && of_fib {
                // push rbp is done, mov rbp, rsp is not.
                prologues += 1;
                assert!(text.contains("is left out\n  #0 fib is in its prologue: rbp"), "{text}");
                assert!(text.contains("to the record of #1 fib, which leads to #2\n"), "{text}");
                let svg = explained(&profile, &[n, "--svg", "-", "--method", "fp"]);
                let y = |label: &str| -> Vec<u32> {
                    let lines = svg.lines().filter(|line| line.contains(label));
                    let y = |line: &str| line.split("y=\"").nth(1)?.split('"').next()?.parse().ok();
                    lines.filter_map(y).collect()
                };
                assert!(y(">missing #1 fib<").len() == 1, "{svg}");
                // Of the box and of the word, whose letters are a little larger.
                let (boxed, word) = (y(" class=\"ok\">#2 fib"), y(">into #2<"));
                assert!(boxed.len() == 1 && word == [boxed[0] + 1], "{boxed:?} {word:?}");
            }
        }
        assert!(prologues > 0 || arch == Arch::Aarch64);
    }
}

/// A sample in the kernel says so, and marks the system call instruction.
#[test]
fn a_sample_in_the_kernel() {
    let dir = scratch("explain-kernel");
    for (arch, instruction) in [(Arch::X86_64, "syscall"), (Arch::Aarch64, "svc #0")] {
        let events = ["-e", "cycles", "-c", "2000"];
        let profile = record_with(&dir, arch, &events, &["syscalls-glibc"]);
        let entry = match arch {
            Arch::X86_64 => "entry_SYSCALL_64_after_hwframe",
            Arch::Aarch64 => "el0_svc",
        };
        let during = samples(&profile, &format!("\"{entry}\""));
        assert!(during.len() > 100, "{arch}: {}", during.len());
        for n in during.iter().step_by(during.len() / 8) {
            let text = explained(&profile, &[n]);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(" in the kernel, in ") && flat.contains(entry), "{text}");
            let marked = text.lines().find(|line| line.starts_with("  => ")).unwrap();
            assert!(marked.ends_with(&format!("  {instruction}")), "{text}");
            assert!(text.contains("  behind the system call, CFA "), "{text}");
        }
        // A fault is at its instruction.
        let fault = samples(&profile, "\"handle_mm_fault\"");
        let outside: Vec<&String> = fault.iter().filter(|n| !during.contains(n)).collect();
        let text = explained(&profile, &[outside[0]]);
        assert!(
            text.contains("in the kernel, in ") && text.contains("the thread is here"),
            "{text}"
        );
        // User code is not in the kernel.
        let user: Vec<String> = samples(&profile, "\"point\"")
            .into_iter()
            .filter(|n| !explained(&profile, &[n]).contains("in the kernel"))
            .take(1)
            .collect();
        assert!(!user.is_empty(), "{arch}");
    }
}

/// Words that a method took for a frame record, and that no frame saved there, are not marked.
#[test]
fn only_saved_frame_pointers_are_marked() {
    let dir = scratch("explain-saved");
    let profile = record_with(&dir, Arch::X86_64, &["-c", "997"], &["lab-signals-v3"]);
    let wrong = samples(&profile, "\"fp\":\"wrong-tail\"");
    assert!(!wrong.is_empty());
    for n in wrong {
        let text = explained(&profile, &[&n]);
        let read: Vec<&str> = text.lines().filter(|l| l.contains("fp takes it for one")).collect();
        assert!(!read.is_empty() && !read.iter().any(|l| l.contains("saved rbp")), "{text}");
        assert!(!text.contains("rbp, saved rbp"), "no frame record: {text}");
    }
}

/// Of a stack with more rows than there is room for, the ends and the parting are kept.
#[test]
fn a_picture_of_a_deep_stack() {
    let dir = scratch("explain-deep");
    let profile = record_with(&dir, Arch::X86_64, &["-c", "4001"], &["recursion-nofp"]);
    let deepest = samples(&profile, "\"depth\":9");
    let is_deep = |n: &&String| explained(&profile, &[n]).contains(" more\n  #9");
    let n = deepest.iter().find(is_deep).unwrap();
    let svg = explained(&profile, &[n, "--svg", "-"]);
    assert!(svg.contains(" rows</text>") && svg.contains(">… #"), "{svg}");
    // dwarf goes to the C library, which has no table: the last frames are where it parts.
    assert!(svg.contains(">missing #1 descend<"), "{svg}");
    assert!(svg.contains("main+0x"), "{svg}");
}

/// Functions that have made tail calls are told, with the frame that they led to.
#[test]
fn tail_callers_are_told() {
    let dir = scratch("explain-tail");
    for arch in Arch::ALL {
        let profile =
            record_with(&dir, arch, &["-e", "instructions:u", "-c", "1"], &["zoo-tail-call"]);
        let with = samples(&profile, "\"tail_callers\":[{");
        assert!(!with.is_empty(), "{arch}");
        let told: Vec<String> = with.iter().map(|n| explained(&profile, &[n])).collect();
        // first jumped to second, second to third.
        let chain = |text: &String| {
            let second = text.split("\n       tail-called from second+0x").nth(1)?;
            let mut lines = second.lines().skip(1);
            lines.next()?.starts_with("       tail-called from first+0x").then_some(())
        };
        assert!(told.iter().any(|text| chain(text).is_some()), "{arch}: {told:?}");
    }
}

/// A frame record that leads to itself is told once.
#[test]
fn a_loop() {
    let dir = scratch("explain-loop");
    let events = ["-e", "instructions:u", "-c", "1"];
    let profile = record_with(&dir, Arch::X86_64, &events, &["zoo-clobbered-fp"]);
    let looping = samples(&profile, "\"fp\":\"looping\"");
    assert!(!looping.is_empty());
    let mut seen = 0;
    for n in looping {
        let text = explained(&profile, &[&n]);
        if !text.contains("leads to itself") {
            continue; // the record is not live yet or any more
        }
        seen += 1;
        assert!(text.lines().all(|line| line.len() < 200), "{text}");
        assert_eq!(text.matches("leads to itself: 1,022 frames more\n").count(), 2, "{text}");
        let word = text.lines().find(|line| line.contains("times: the record leads to itself"));
        let word = word.unwrap();
        assert!(word.contains("read by fp (1,023 times: ") && !word.contains("no "), "{word}");
        let svg = explained(&profile, &[&n, "--svg", "-"]);
        assert!(svg.contains("again, 1,022 more"), "{svg}");
    }
    assert!(seen > 0);
}

/// While an exception's context is put in place, return addresses are overwritten: the rule is
/// right, the word is not.
#[test]
fn an_overwritten_return_address() {
    let dir = scratch("explain-overwritten");
    let profile = record_with(&dir, Arch::Aarch64, &["-c", "9973"], &["cpp-throw"]);
    let wrong = samples(&profile, "\"dwarf\":\"wrong-tail\"");
    assert!(wrong.len() > 8);
    let mut seen = 0;
    for n in wrong.iter().step_by(wrong.len() / 8) {
        let text = explained(&profile, &[n, "--method", "dwarf"]);
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Elsewhere it is the rule that is wrong.
        let Some(at) = said.find("the CFA is right; [") else { continue };
        seen += 1;
        let (slot, rest) = said[at + 19..].split_once("] holds 0x").unwrap();
        let value = rest.split(',').next().unwrap();
        assert!(rest.contains(" is no longer there: overwritten"), "{text}");
        let words = format!("  {slot}  {value:0>16}  return address #");
        let word = text.lines().find(|line| line.starts_with(&words));
        let word = word.unwrap_or_else(|| panic!("no {words} in\n{text}"));
        assert!(word.ends_with(" was here, dwarf takes what it holds now"), "{word}");
    }
    assert!(seen > 2, "{seen}");
}

/// A row that tells the right return address and a wrong CFA is to blame for the frame behind its
/// caller.
#[test]
fn an_error_that_the_right_return_address_hides() {
    let dir = scratch("explain-hidden");
    let profile = record_with(&dir, Arch::Aarch64, &["-c", "9973"], &["rust-hello"]);
    let verdicts = ["wrong-tail", "invented-frame"].map(|v| format!("\"dwarf\":\"{v}\""));
    let wrong = verdicts.iter().flat_map(|verdict| samples(&profile, verdict));
    let told = wrong.into_iter().find_map(|n| {
        let text = explained(&profile, &[&n, "--method", "dwarf"]);
        text.contains("the error is at #0 ").then_some(text)
    });
    let text = told.expect("no sample of this kind");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("from #1 ") && said.contains(", where #2 "), "{text}");
    assert!(said.contains("the true one is 0x") && !said.contains("in force there"), "{text}");
}

/// Elements of an XML document, if it is well-formed: tags are closed in order, attributes
/// are quoted, text has no bare `&` or `<`.
fn elements(xml: &str) -> Vec<String> {
    let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    let (mut open, mut found): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = rest.find('>').unwrap();
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let body = tag.trim_end_matches('/');
        let name = body.split_whitespace().next().unwrap().to_owned();
        let attributes = &body[name.len()..];
        assert!(attributes.matches('"').count().is_multiple_of(2), "{tag}");
        assert_eq!(attributes.matches("=\"").count() * 2, attributes.matches('"').count());
        assert!(!attributes.contains('<'));
        check_text(attributes);
        if !tag.ends_with('/') {
            open.push(name.clone());
        }
        found.push(name);
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
    found
}

fn check_text(text: &str) {
    for reference in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;"].iter().any(|k| reference.starts_with(k));
        assert!(known, "{text}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn a_picture() {
    let dir = scratch("explain-svg");
    for arch in Arch::ALL {
        for guest in [&["golden-leaf", "mix", "3"][..], &["rust-hello"], &["recursion"]] {
            let profile = record(&dir, arch, guest);
            let picture = dir.join("picture.svg");
            let name = picture.to_str().unwrap();
            assert_eq!(explained(&profile, &["1", "--svg", name]), "");
            let svg = std::fs::read_to_string(&picture).unwrap();
            let found = elements(&svg);
            assert!(found.iter().filter(|name| *name == "rect").count() > 8, "{svg}");
            assert!(svg.contains("viewBox=\"0 0 1280 720\"") && svg.contains("True frames"));
            // Nothing of it is elsewhere.
            assert_eq!(svg.matches("http").count(), 1, "{svg}");
            assert_eq!(explained(&profile, &["1", "--svg", "-"]), svg);
        }
        let leaf = dir.join(format!("golden-leaf-{arch}"));
        let svg = explained(&leaf, &["1", "--svg", "-", "--method", "fp"]);
        assert!(svg.contains("missing #1 inner") && !svg.contains(">dwarf<"), "{svg}");
    }
}

fn refused(file: &Path, words: &[&str]) -> String {
    let finished = explain(file, words);
    assert_eq!((finished.status, finished.stdout.as_str()), (125, ""), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    finished.stderr
}

#[test]
fn what_cannot_be_explained() {
    let dir = scratch("explain-errors");
    let profile = record(&dir, Arch::X86_64, &["golden-leaf", "mix", "3"]);
    let samples = std::fs::read_to_string(truth(&profile)).unwrap().matches("{\"sample\"").count();
    let error = refused(&profile, &["999999"]);
    let range = format!("there is no sample 999999: the file has 1 to {samples}\n");
    assert!(error.ends_with(&range), "{error}");
    assert!(refused(&profile, &["0"]).contains("'0' for '<N>': use a number from 1 on"));
    assert!(refused(&profile, &["x"]).contains("'x' for '<N>': use a whole number"));
    assert!(refused(&dir.join("none"), &["1"]).contains("no such file"));
    let error = refused(&profile, &["1", "--method", "orc"]);
    assert!(error.contains("the methods of this file are fp, dwarf, sframe"), "{error}");
    let error = refused(&profile, &["1", "--svg", "/nowhere/picture.svg"]);
    assert!(error.contains("--svg /nowhere/picture.svg: cannot write it"), "{error}");
    // Damaged in the first sample, and cut.
    let text = std::fs::read_to_string(truth(&profile)).unwrap();
    let damaged = dir.join("damaged.truth");
    std::fs::write(&damaged, text.replacen("\"pc\":\"0x", "\"pc\":\"0y", 1)).unwrap();
    assert!(refused(&damaged, &["1"]).contains("damaged.truth: line 4: "));
    std::fs::write(&damaged, &text[..text.find("{\"sample\"").unwrap() + 400]).unwrap();
    assert!(refused(&damaged, &["1"]).contains("line 4: "));
    std::fs::write(&damaged, "").unwrap();
    assert!(refused(&damaged, &["1"]).contains("the file is empty"));
    // A profile alone.
    std::fs::remove_file(truth(&profile)).unwrap();
    assert!(refused(&profile, &["1"]).contains("there is no truth beside it"));
}

/// The same run gives the same bytes, and the file before is kept as the profile is.
#[test]
fn the_truth_file_is_as_the_profile() {
    let dir = scratch("explain-files");
    for arch in Arch::ALL {
        let profile = record(&dir, arch, &["signals"]);
        let first = std::fs::read(truth(&profile)).unwrap();
        let again = record(&dir, arch, &["signals"]);
        let old = PathBuf::from(format!("{}.old", again.display()));
        assert_eq!(std::fs::read(truth(&again)).unwrap(), first);
        assert_eq!(std::fs::read(truth(&old)).unwrap(), first);
        // A run without it leaves none that is not of the profile.
        finish(emu(&["run", "-q", "--arch", arch.name(), "-o"]).arg(&profile).arg("signals"));
        assert!(!truth(&profile).exists() && truth(&old).exists());
    }
    let finished = finish(emu(&["run", "--truth", "-q", "-o", "-", "hello"]).current_dir(&dir));
    assert_eq!(finished.status, 0);
    let names = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name());
    assert!(names.into_iter().all(|n| n != "-.truth"));
}
