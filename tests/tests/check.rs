//! `emu check`: its report in each format, its exit status, its baseline.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use arch::Arch;
use emu::grade::Verdict;
use emu::grade::check::Wrong;
use emu::grade::point::ProgramPoint;
use emu::numbers::grouped;
use serde_json::Value;
use tests::check::{Report, check, number, refused};
use tests::{bless, root, scratch};

/// Right, wrong and without row, of each method, over all points.
fn sums(points: &Value, methods: usize) -> Vec<[u64; 3]> {
    let mut sums = vec![[0; 3]; methods];
    for counts in points.as_object().unwrap().values() {
        let counts = counts.as_array().unwrap();
        assert_eq!(counts.len(), methods);
        for (sum, c) in sums.iter_mut().zip(counts) {
            let parts = ["right", "wrong", "no_coverage"].map(|part| number(&c[part]));
            sum.iter_mut().zip(parts).for_each(|(s, p)| *s += p);
        }
    }
    sums
}

/// The tables that gcc and glibc's authors wrote are right wherever there is a row. All but
/// one: glibc for aarch64 has the code that jumps to `main` in the range of `_start`, whose
/// row says that there is no caller, though a function calls it.
#[test]
fn cfi_of_a_glibc_program_is_right() {
    for arch in Arch::ALL {
        let words = ["recursion-glibc", "--method", "dwarf"];
        let finished = check(arch, &words);
        let report = Report::of(arch, &words);
        assert_eq!(report.methods(), ["dwarf"]);
        let [right, wrong, uncovered] = sums(&report.summary()["points"], 1)[0];
        assert!(right > 4000 && uncovered < 100, "{arch}: {right} right, {uncovered} no row");
        let faults: Vec<_> = report.kind("fault").map(|f| (&f["function"], &f["wrong"])).collect();
        match arch {
            Arch::X86_64 => {
                assert_eq!((finished.status, wrong, faults.len()), (0, 0, 0));
                let line = format!("dwarf {} right ({uncovered} without a row)\n", grouped(right));
                assert!(finished.stderr.ends_with(&line), "{line}: {finished:?}");
            }
            Arch::Aarch64 => {
                assert_eq!((finished.status, wrong, faults.len()), (1, 2, 2));
                assert!(finished.stderr.contains(" checked: dwarf 2 wrong"), "{finished:?}");
                let known =
                    |(f, w): &(&Value, &Value)| **f == "_start" && **w == "claimed outermost";
                assert!(faults.iter().all(known), "{faults:?}");
            }
        }
    }
}

#[test]
fn frame_pointers_are_wrong_without_frames() {
    for arch in Arch::ALL {
        let finished = check(arch, &["recursion-glibc", "--method", "fp"]);
        assert_eq!(finished.status, 1, "{arch}");
        assert!(finished.stdout.contains("fp: "), "{arch}: {}", finished.stdout);
        assert!(finished.stderr.contains(" checked: fp "), "{}", finished.stderr);
        assert!(!finished.stderr.contains("dwarf"), "one method: {}", finished.stderr);
    }
}

/// The last line says of each method what is wrong and what is without a row.
#[test]
fn the_last_line() {
    let uncovered = check(Arch::X86_64, &["leaf", "--method", "sframe,dwarf"]);
    let words =
        "43 instructions checked: dwarf all right, sframe covers nothing (43 without a row)\n";
    assert!(uncovered.status == 0 && uncovered.stderr.ends_with(words), "{uncovered:?}");
    for arch in Arch::ALL {
        let all = check(arch, &["leaf"]);
        let report = Report::of(arch, &["leaf"]);
        for (n, method) in report.methods().iter().enumerate() {
            let [right, wrong, uncovered] = sums(&report.summary()["points"], 4)[n];
            let said = match (wrong, uncovered) {
                (0, 0) => format!("{method} all right"),
                (0, _) if right == 0 => format!("{method} covers nothing ({uncovered} without"),
                (0, _) => format!("{method} {right} right ({uncovered} without a row)"),
                (_, _) => format!("{method} {wrong} wrong"),
            };
            assert!(all.stderr.contains(&said), "{said}: {all:?}");
        }
    }
}

/// A page shows some of the faults in full and says so, or all of them.
#[test]
fn a_page_shows_all_faults_if_told_to() {
    let words = ["nested-nofp", "--method", "fp", "--format", "html"];
    let shown = |more: &[&str]| {
        let page = check(Arch::X86_64, &[&words[..], more].concat()).stdout;
        (page.matches("<details class=\"fault\"").count(), page.contains("are shown in full"))
    };
    let all = Report::of(Arch::X86_64, &words[..3]).faults_of("fp").count();
    assert_eq!(shown(&["--details", "0"]), (all, false));
    let (few, said) = shown(&[]);
    assert!(few < all && said, "{few} of {all}");
    assert!(shown(&["--details", "1"]).0 < few);
}

/// A signal came at the first instruction of `faults`, behind another function.
#[test]
fn an_interrupted_address_is_in_its_own_function() {
    for arch in Arch::ALL {
        let report = Report::of(arch, &["zoo-sigframe-first-insn", "--method", "fp"]);
        let interrupted: Vec<&Value> = report
            .kind("fault")
            .map(|f| &f["expected"])
            .filter(|caller| caller["address_kind"] == "interrupted")
            .collect();
        assert!(!interrupted.is_empty(), "{arch}");
        assert!(interrupted.iter().all(|c| c["place"] == "faults+0x0"), "{arch}: {interrupted:?}");
        let words = ["zoo-sigframe-first-insn", "--method", "fp", "--details", "0"];
        let table = check(arch, &words).stdout;
        assert!(table.contains(" (faults+0x0, interrupted)"), "{table}");
    }
}

/// The row of a signal's frame without the 'S' in its augmentation: the step comes to the right
/// address, and the next one looks up another function.
#[test]
fn a_lost_s_is_wrong() {
    let dir = scratch("check-lost-s");
    let mut bytes =
        std::fs::read(root().join("guests/bin/x86_64/zoo-sigframe-first-insn")).unwrap();
    let at = bytes.windows(4).position(|w| w == b"zRS\0").unwrap();
    let start = at - 9; // length, id, version
    let length = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
    let end = start + 4 + length as usize;
    bytes.remove(at + 2);
    bytes.insert(end - 1, 0); // DW_CFA_nop
    let lost = dir.join("lost-s");
    std::fs::write(&lost, bytes).unwrap();
    let words = ["--method", "dwarf", lost.to_str().unwrap()];
    let report = Report::of(Arch::X86_64, &words);
    let faults: Vec<&Value> = report.kind("fault").collect();
    assert!(!faults.is_empty());
    for fault in faults {
        assert_eq!(
            (&fault["function"], &fault["wrong"]),
            (&"restorer".into(), &"kind of address".into())
        );
        let (expected, found) = (&fault["expected"], &fault["found"]);
        assert_eq!(expected["return_address"], found["return_address"]);
        let kinds = [&expected["address_kind"], &found["address_kind"]];
        assert_eq!(kinds, ["interrupted", "return"]);
        assert_eq!([&expected["place"], &found["place"]], ["faults+0x0", "neighbour+0x8"]);
    }
    let table = check(Arch::X86_64, &words).stdout;
    assert!(table.contains(": wrong kind of address in "), "{table}");
    assert!(table.contains(" (neighbour+0x8, a return address)"), "{table}");
}

#[test]
fn the_counts_of_a_report_add_up() {
    for arch in Arch::ALL {
        for guest in ["recursion-glibc", "leaf"] {
            let report = Report::of(arch, &[guest]);
            assert_eq!(report.header()["kind"], "header");
            assert_eq!(report.header()["arch"], arch.name());
            assert_eq!(report.header()["every"], false);
            let methods = report.methods();
            assert_eq!(methods, ["fp", "dwarf", "sframe", "framehop"]);
            assert_sums(&report, methods.len());
            for fault in report.kind("fault") {
                let [times, checked, executions] =
                    ["times", "checked", "executions"].map(|name| number(&fault[name]));
                assert!(0 < times && times <= checked && checked <= executions, "{fault}");
                assert!(methods.contains(&fault["method"].as_str().unwrap()));
                // The instruction is in its listing.
                let here = serde_json::json!([fault["pc"], fault["instruction"]]);
                assert!(fault["listing"].as_array().unwrap().contains(&here), "{fault}");
            }
            let order: Vec<_> = report.kind("function").map(|f| f["start"].to_string()).collect();
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), order.len(), "{guest}");
        }
    }
}

/// The summary is the sum of the functions, and the faults are those that it counts.
fn assert_sums(report: &Report, methods: usize) {
    let summary = report.summary();
    assert_eq!(summary["kind"], "summary");
    let checked = number(&summary["pcs"]) - number(&summary["undecided"]);
    let total = sums(&summary["points"], methods);
    for (n, [right, wrong, uncovered]) in total.iter().enumerate() {
        assert_eq!(right + wrong + uncovered, checked);
        let faults: Vec<&Value> = report.faults_of(report.methods()[n]).collect();
        assert_eq!(number(&summary["faults"][n]), faults.len() as u64);
        // One or several for each instruction, each of another kind.
        let places: BTreeSet<String> = faults.iter().map(|f| f["address"].to_string()).collect();
        assert_eq!(places.len() as u64, *wrong);
        let kinds: BTreeSet<_> = faults.iter().map(|f| identity(f)).collect();
        assert_eq!(kinds.len(), faults.len());
    }
    let mut functions = vec![[0; 3]; methods];
    let (mut pcs, mut undecided) = (0, 0);
    for function in report.kind("function") {
        pcs += number(&function["pcs"]);
        undecided += number(&function["undecided"]);
        for (sum, own) in functions.iter_mut().zip(sums(&function["points"], methods)) {
            sum.iter_mut().zip(own).for_each(|(s, o)| *s += o);
        }
    }
    assert_eq!(functions, total);
    assert_eq!((pcs, undecided), (number(&summary["pcs"]), number(&summary["undecided"])));
}

fn identity(fault: &Value) -> [String; 4] {
    ["module", "pc", "method", "wrong"].map(|name| fault[name].to_string())
}

#[test]
fn every_execution_finds_what_a_sparse_check_finds() {
    for arch in Arch::ALL {
        for (guest, methods) in [("nested-nofp", "fp,dwarf,sframe,framehop"), ("leaf", "fp")] {
            let words = [guest, "--method", methods];
            let sparse = Report::of(arch, &words);
            let every = Report::of(arch, &[&words[..], &["--every"]].concat());
            assert_eq!(every.header()["every"], true);
            for fault in every.kind("fault") {
                assert_eq!(fault["checked"], fault["executions"], "{arch} {guest}: {fault}");
            }
            let of = |r: &Report| r.kind("fault").map(identity).collect::<BTreeSet<_>>();
            let (sparse_faults, every_faults) = (of(&sparse), of(&every));
            assert!(!sparse_faults.is_empty() && sparse_faults.is_subset(&every_faults));
            let checks = |r: &Report| number(&r.summary()["checks"]);
            assert!(checks(&every) > checks(&sparse), "{arch} {guest}");
        }
    }
}

#[test]
fn the_same_check_has_the_same_bytes() {
    for arch in Arch::ALL {
        for format in ["table", "json", "html"] {
            let run = || check(arch, &["signals", "--format", format]);
            assert_eq!(run(), run(), "{arch} {format}");
        }
    }
}

/// An instruction that is wrong in several ways has a fault for each, and the words say so.
#[test]
fn one_instruction_may_be_wrong_in_several_ways() {
    let words = ["recursion-glibc", "--method", "fp,framehop"];
    let finished = check(Arch::X86_64, &words);
    let report = Report::of(Arch::X86_64, &words);
    let mut said = Vec::new();
    for method in ["fp", "framehop"] {
        let faults = report.faults_of(method).count();
        let places: BTreeSet<_> = report.faults_of(method).map(|f| f["pc"].to_string()).collect();
        assert!(faults > places.len(), "{method}: {faults}");
        let [places, faults] = [places.len(), faults].map(|n| grouped(n as u64));
        said.push(format!("{method} {places} wrong in {faults} ways"));
    }
    let words = format!(" checked: {}\n", said.join(", "));
    assert!(finished.stderr.ends_with(&words), "{words:?}: {}", finished.stderr);
    for fault in report.kind("fault") {
        assert!(number(&fault["times"]) <= number(&fault["checked"]), "{fault}");
    }
}

#[test]
fn options_that_make_no_sense() {
    refused(&["leaf", "--method", "nonsense"], &["--method: ", "nonsense", "framehop"]);
    refused(&["leaf", "--format", "pdf"], &["pdf"]);
    // That is seen before the guest runs.
    let lost = check(Arch::X86_64, &["leaf", "-o", "/no/such/dir/file", "--method", "dwarf"]);
    assert_eq!((lost.status, &*lost.stdout), (125, ""), "{lost:?}");
    assert!(lost.stderr.starts_with("emu: -o /no/such/dir/file: cannot write it: "), "{lost:?}");
    assert_eq!(lost.stderr.lines().count(), 1, "{lost:?}");
}

#[test]
fn the_table() {
    for arch in Arch::ALL {
        let finished = check(arch, &["leaf", "--method", "fp,dwarf,framehop"]);
        assert_eq!(finished.status, 1, "{finished:?}");
        bless::compare(&format!("golden/{arch}/check-leaf.txt"), &finished.stdout);
    }
}

/// All methods side by side still fit a wide terminal.
#[test]
fn the_table_is_not_too_wide() {
    for guest in ["leaf", "cpp-throw"] {
        let table = check(Arch::Aarch64, &[guest, "--details", "6"]).stdout;
        for line in table.lines() {
            assert_eq!(line, line.trim_end(), "{guest}: a space at the end");
            // A name that is longer than a line is not cut.
            let width = line.chars().count();
            assert!(width <= 140 || line.contains("::"), "{guest}: {width} columns: {line}");
        }
    }
}

#[test]
fn a_page_is_whole() {
    for arch in Arch::ALL {
        let page = check(arch, &["recursion-glibc", "--format", "html"]).stdout;
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
        for part in ["framehop", "__libc_start_main_impl", "Row in force", " more, not shown<"] {
            assert!(page.contains(part), "{arch}: no {part:?}");
        }
        // Nothing is fetched, and however much is wrong, it stays quick.
        let fetches = ["src=", "href=", "url(", "@import", "http"];
        fetches.iter().for_each(|f| assert!(!page.contains(f), "{arch}: {f:?}"));
        assert!(page.len() < 6 << 20, "{arch}: {} bytes", page.len());
    }
}

/// The names in the tables of a description, by the heading above.
fn described(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.trim_matches('`').to_owned();
        } else if let Some((name, _)) = line.strip_prefix("| `").and_then(|l| l.split_once('`')) {
            let new = sections.entry(section.clone()).or_default().insert(name.to_owned());
            assert!(new, "{section}: {name} is there twice");
        }
    }
    sections
}

fn documentation(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    found.extend(value.as_object().unwrap().keys().cloned());
}

#[test]
fn every_field_is_described_and_nothing_else() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |section: &str, value: &Value| {
        keys(value, found.entry(section.to_owned()).or_default());
    };
    let (mut points, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for arch in Arch::ALL {
        for line in Report::of(arch, &["cpp-throw"]).0 {
            add(line["kind"].as_str().unwrap(), &line);
            if let Some(by_point) = line["points"].as_object() {
                points.extend(by_point.keys().cloned());
                by_point.values().for_each(|counts| add("counts", &counts[0]));
            }
            if line["symbol"].is_object() {
                add("symbol", &line["symbol"]);
            }
            for caller in [&line["expected"], &line["found"]] {
                if caller.is_object() {
                    add("caller", caller);
                }
            }
            wrong.extend(line["wrong"].as_str().map(str::to_owned));
        }
    }
    let mut words = described(&documentation("verdicts.md"));
    let all: BTreeSet<String> = ProgramPoint::ALL
        .iter()
        .map(|p| serde_json::to_value(p).unwrap().as_str().unwrap().to_owned())
        .collect();
    assert!(points.len() > 4 && points.is_subset(&all), "{points:?}");
    assert_eq!(words.remove("Program points"), Some(all));
    let all = [
        Wrong::Cfa,
        Wrong::ReturnAddress,
        Wrong::AddressKind,
        Wrong::Registers,
        Wrong::Invented,
        Wrong::ClaimedComplete,
        Wrong::Failed,
    ];
    let all: BTreeSet<String> = all.iter().map(|w| w.name().to_owned()).collect();
    assert!(wrong.len() > 3 && wrong.is_subset(&all), "{wrong:?}");
    assert_eq!(words.remove("Faults"), Some(all));
    let verdicts = Verdict::ALL.map(|v| serde_json::to_value(v).unwrap());
    let verdicts = verdicts.iter().map(|v| v.as_str().unwrap().to_owned()).collect();
    assert_eq!(words.remove("Whole walks"), Some(verdicts));
    for verdict in Verdict::ALL {
        let row = format!(" | {} | ", verdict.name());
        assert!(documentation("verdicts.md").contains(&row), "{row}");
    }
    let mut steps = words.remove("Steps").unwrap();
    assert!(steps.remove("undecided") && found["function"].contains("undecided"));
    assert_eq!(steps, found["counts"]);
    assert!(words.is_empty(), "{words:?}");
    assert_eq!(described(&documentation("check-format.md")), found);
}

/// The example is what the program writes.
#[test]
fn the_described_example_is_real() {
    let report = Report::of(Arch::X86_64, &["leaf", "--method", "fp"]);
    let text = documentation("check-format.md");
    let blocks: Vec<&str> = text.split("```json\n").skip(1).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let (json, _) = block.split_once("```").unwrap();
        let value: Value = serde_json::from_str(json).unwrap();
        assert!(report.0.contains(&value), "not in the report: {json}");
    }
}

/// A sample in the vDSO without CFI (golang/go#24142): DWARF cannot leave it, and it is the CFI
/// alone that makes the difference.
#[test]
fn a_vdso_without_cfi() {
    for arch in Arch::ALL {
        let counts = |vdso: &str| {
            let words = ["--vdso", vdso, "--method", "dwarf,framehop", "time"];
            let report = Report::of(arch, &words);
            let mut counts = [[0; 3]; 2];
            for function in report.kind("function").filter(|f| f["module"] == "[vdso]") {
                for methods in function["points"].as_object().unwrap().values() {
                    for (sum, found) in counts.iter_mut().zip(methods.as_array().unwrap()) {
                        for (sum, name) in sum.iter_mut().zip(["right", "wrong", "no_coverage"]) {
                            *sum += found[name].as_u64().unwrap();
                        }
                    }
                }
            }
            counts
        };
        let (full, bare) = (counts("full"), counts("no-cfi"));
        for full in full {
            assert!(full[0] > 20 && full[1..] == [0, 0], "{arch}: {full:?}");
        }
        assert_eq!(bare[0], [0, 0, full[0][0]], "{arch}: dwarf");
        // framehop guesses in code without tables.
        assert!(bare[1][0] < full[1][0] / 2, "{arch}: framehop {:?}", bare[1]);
    }
    let off = check(Arch::X86_64, &["--vdso", "off", "--format", "json", "time"]);
    assert!(!off.stdout.contains("[vdso]") && off.stderr.contains("exited with status 0"));
    let off = check(Arch::Aarch64, &["--vdso", "off", "time"]);
    assert_eq!(off.status, 125);
    assert!(off.stderr.contains("use full or no-cfi"), "{}", off.stderr);
}
