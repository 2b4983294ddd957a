//! Rules of the repository itself.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::root;

/// Longer than [`MAX_LINES`], and why.
const LONG_FILES: [(&str, &str); 0] = [];
const MAX_LINES: usize = 600;

const MAX_SIZE: u64 = 40 << 20;

/// Every file but those of git and of builds, relative to the root.
fn files() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && name != ".git" {
                    walk(&entry.path(), found);
                }
            } else if name != ".git" {
                found.push(entry.path());
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, &mut found);
    let mut files: Vec<PathBuf> =
        found.iter().map(|f| f.strip_prefix(&root).unwrap().to_owned()).collect();
    files.sort();
    assert!(files.len() > 200, "{} files", files.len());
    files
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(file)).unwrap()).into_owned()
}

fn rust_files() -> impl Iterator<Item = (PathBuf, String)> {
    let rust = files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs"));
    rust.map(|f| {
        let text = read(&f);
        (f, text)
    })
}

/// Whoever knows one architecture finds everything in the other.
#[test]
fn both_architectures_have_the_same_files() {
    let mut below: BTreeMap<PathBuf, [BTreeSet<PathBuf>; 2]> = BTreeMap::new();
    for file in files() {
        let parts: Vec<_> = file.iter().collect();
        let arch = |p: &&std::ffi::OsStr| ["x86_64", "aarch64"].iter().position(|a| p == a);
        let Some(at) = parts.iter().position(|p| arch(p).is_some()) else { continue };
        let index = arch(&parts[at]).unwrap();
        let parent: PathBuf = parts[..at].iter().collect();
        let rest: PathBuf = parts[at + 1..].iter().collect();
        if !rest.as_os_str().is_empty() {
            below.entry(parent).or_default()[index].insert(rest);
        }
    }
    assert!(below.len() >= 6, "{below:?}");
    for (parent, [x86_64, aarch64]) in below {
        assert_eq!(x86_64, aarch64, "below {}", parent.display());
    }
}

/// Code without comments and texts, roughly: enough to find a keyword.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

#[test]
fn unsafe_code_is_in_the_engine_alone() {
    let keyword = concat!("un", "safe");
    for (file, text) in rust_files() {
        if file.starts_with("emu/src/engine") {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            let words = code(line).split(|c: char| !c.is_alphanumeric() && c != '_');
            let mut words = words.filter(|w| *w == keyword || *w == format!("{keyword}_code"));
            assert_eq!(words.next(), None, "{}:{}", file.display(), n + 1);
        }
    }
}

/// Kernel paths touch the machine in steps and nowhere else: only the loop that runs user
/// code looks at it outside.
#[test]
fn kernel_paths_are_made_of_steps() {
    let kernel = Path::new("emu/src/kernel");
    let paths = [kernel, Path::new("emu/src/deferred")];
    for (file, text) in rust_files() {
        let loops = ["run.rs", "user_mode.rs"].map(|name| kernel.join(name));
        let outside = loops.contains(&file.to_path_buf()) || file.ends_with("tests.rs");
        if outside || !paths.iter().any(|p| file.starts_with(p)) {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            let outside = code(line).contains("k.with(");
            assert!(!outside, "{}:{}: {line}", file.display(), n + 1);
        }
    }
}

/// What each folder of the emulator may use, besides itself.
const LAYERS: [(&str, &[&str]); 19] = [
    (
        "cli",
        &[
            "recording",
            "scenario",
            "explain",
            "show",
            "grade",
            "truth",
            "deferred",
            "laws",
            "timeline",
            "export",
            "symbols",
            "kernel",
            "perf",
            "loader",
            "mem",
            "engine",
            "numbers",
            "spelling",
        ],
    ),
    (
        "scenario",
        &["deferred", "laws", "timeline", "kernel", "perf", "loader", "mem", "engine", "spelling"],
    ),
    ("recording", &["export", "kernel", "perf", "loader", "engine"]),
    ("explain", &["grade", "show", "truth", "symbols", "numbers"]),
    ("grade", &["show", "truth", "export", "symbols", "kernel", "perf", "engine", "numbers"]),
    ("show", &["symbols"]),
    ("truth", &["engine"]),
    ("export", &["symbols", "perf"]),
    ("laws", &["timeline", "kernel", "perf"]),
    ("timeline", &["kernel", "perf", "numbers"]),
    ("deferred", &["kernel", "mem", "engine"]),
    ("kernel", &["perf", "loader", "mem", "engine"]),
    ("symbols", &["perf"]),
    ("perf", &["engine", "spelling"]),
    ("loader", &["mem"]),
    ("mem", &["engine"]),
    ("engine", &[]),
    ("numbers", &[]),
    ("spelling", &[]),
];

/// Dependencies of folders point downwards only.
#[test]
fn folders_use_what_is_below_them() {
    for (file, text) in rust_files() {
        let Ok(inside) = file.strip_prefix("emu/src") else { continue };
        let folder = inside.iter().next().unwrap().to_str().unwrap();
        // Tests of a folder may use what is above it.
        if folder.ends_with(".rs") || inside.ends_with("tests.rs") {
            continue;
        }
        let layer = LAYERS.iter().find(|(name, _)| *name == folder);
        let (_, below) = layer.unwrap_or_else(|| panic!("no layer for {folder}"));
        for (n, line) in text.lines().enumerate() {
            for used in code(line).split("crate::").skip(1) {
                let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
                let used = &used[..end.unwrap_or(used.len())];
                let fine = used == folder || below.contains(&used);
                assert!(fine, "{}:{}: uses {used}", file.display(), n + 1);
            }
        }
    }
}

#[test]
fn files_are_short() {
    for (file, text) in rust_files() {
        let lines = text.lines().count();
        let excused = LONG_FILES.iter().any(|(name, _)| file == Path::new(name));
        assert!(lines <= MAX_LINES || excused, "{}: {lines} lines", file.display());
        assert!(
            lines > MAX_LINES || !excused,
            "{}: {lines} lines need no excuse any more",
            file.display()
        );
    }
}

#[test]
fn the_repository_is_small() {
    let size = |f: &PathBuf| root().join(f).symlink_metadata().unwrap().len();
    let total: u64 = files().iter().map(size).sum();
    assert!(total < MAX_SIZE, "{total} bytes");
}

/// What is missing is an issue, not a remark; what is tested is not skipped.
#[test]
fn nothing_is_left_for_later() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let skipped = concat!("#[ig", "nore");
    let text = ["rs", "toml", "md", "sh", "c", "cc", "h", "S", "lds", "yml"];
    for file in files() {
        let is_text = file.extension().is_some_and(|e| text.iter().any(|t| e == *t));
        if !is_text && file.file_name().unwrap() != "Makefile" {
            continue;
        }
        for (n, line) in read(&file).lines().enumerate() {
            let found = marks.iter().any(|m| line.contains(m)) || line.contains(skipped);
            assert!(!found, "{}:{}: {line}", file.display(), n + 1);
        }
    }
}

/// Whether the licence expression allows what the GPL version 2 asks for: an alternative
/// of which every part is fine.
fn is_fine(expression: &str) -> bool {
    const FINE: [&str; 15] = [
        "MIT",
        "MIT-0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "0BSD",
        "ISC",
        "Zlib",
        "Unlicense",
        "CC0-1.0",
        "Unicode-3.0",
        "Unicode-DFS-2016",
        "GPL-2.0",
        "GPL-2.0-only",
        "GPL-2.0-or-later",
        "LGPL-2.1-or-later",
    ];
    let expression = expression.trim();
    let split = |operator: &str| top_level(expression, operator);
    match (split(" OR "), split(" AND "), split("/")) {
        (Some((a, b)), ..) => is_fine(a) || is_fine(b),
        (None, Some((a, b)), _) => is_fine(a) && is_fine(b),
        // The way of writing OR before there were expressions.
        (None, None, Some((a, b))) => is_fine(a) || is_fine(b),
        (None, None, None) => {
            match expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')) {
                Some(inner) => is_fine(inner),
                None => FINE.contains(&expression),
            }
        }
    }
}

/// Splits at the first `operator` outside parentheses.
fn top_level<'a>(text: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(operator) => {
                return Some((&text[..at], &text[at + operator.len()..]));
            }
            _ => {}
        }
    }
    None
}

#[test]
fn licence_expressions() {
    for fine in
        ["MIT", "Apache-2.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT/Apache-2.0"]
    {
        assert!(is_fine(fine), "{fine}");
    }
    for wrong in ["Apache-2.0", "CDDL-1.0", "MIT AND Apache-2.0", "(MIT OR ISC) AND CDDL-1.0", ""] {
        assert!(!is_fine(wrong), "{wrong}");
    }
}

/// What is linked into the program may be linked with unicorn, which is GPL-2.0-only.
#[test]
fn licences_of_what_is_linked() {
    let args = ["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform"];
    let out = Command::new(env!("CARGO"))
        .args(args)
        .arg("x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .unwrap();
    if !out.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|p| (p["id"].as_str().unwrap().to_owned(), p))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|n| (n["id"].as_str().unwrap().to_owned(), n))
        .collect();
    let emu = packages.values().find(|p| p["name"] == "emu").unwrap();
    let mut linked = BTreeSet::new();
    let mut open = vec![emu["id"].as_str().unwrap().to_owned()];
    while let Some(id) = open.pop() {
        if linked.insert(id.clone()) {
            for dep in list(&nodes[&id]["deps"]) {
                // Neither of a build script nor of tests.
                if list(&dep["dep_kinds"]).iter().any(|k| k["kind"].is_null()) {
                    open.push(dep["pkg"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    assert!(linked.len() > 20, "{linked:?}");
    for id in &linked {
        let package = &packages[id];
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_fine(licence), "{}: {licence}", package["name"]);
    }
}
