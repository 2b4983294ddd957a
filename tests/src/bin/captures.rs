//! Writes the texts of `tests/golden/defer` from the recordings themselves.
//!
//! ```text
//! captures DIR      DIR/x86_64 and DIR/arm64 hold NAME.data, kernel-symbols.txt (lines of
//!                   /proc/kallsyms) and kernel-chains.txt (`## NAME.data`, then lines
//!                   `COUNT [MARKERS] FUNCTION <- …`)
//! ```
//!
//! Of recordings that have no file the kernel's chains become `chains.tsv`, but those of perf's own
//! `execve`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use arch::Arch;
use tests::captures::{CAPTURES, LOSSES, TICKS};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("which directory has the recordings?")?;
    let mut chains = CHAINS_HEAD.to_owned();
    for (arch, name) in [(Arch::X86_64, "x86_64"), (Arch::Aarch64, "arm64")] {
        let dir = Path::new(&dir).join(name);
        let kernel = symbols(&std::fs::read_to_string(dir.join("kernel-symbols.txt"))?);
        let text = std::fs::read_to_string(dir.join("kernel-chains.txt"))?;
        chains += &of_files_that_are_not_here(&dir, &text);
        for capture in CAPTURES.iter().chain(TICKS).chain(LOSSES).filter(|c| c.arch == arch) {
            let bytes = std::fs::read(dir.join(capture.name).with_extension("data"))?;
            std::fs::write(capture.path(), capture.text(&bytes, kernel.clone()))?;
        }
    }
    std::fs::write(tests::captures::chains_path(), chains)?;
    Ok(())
}

const CHAINS_HEAD: &str = "# Kernel chains of recordings that have no file: name, samples, markers, \
    functions innermost first\n";

/// The lines of `chains.tsv` for the recordings in `text` that `dir` has no file of.
fn of_files_that_are_not_here(dir: &Path, text: &str) -> String {
    let mut lines = String::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(file) = line.strip_prefix("## ") {
            name = file.strip_suffix(".data").filter(|_| !dir.join(file).exists());
            continue;
        }
        let Some((name, line)) = name.zip(line.trim_start().split_once(" [")) else { continue };
        let (count, (markers, chain)) = (line.0, line.1.split_once("] ").unwrap_or_default());
        if !chain.contains("_sys_execve") {
            lines += &format!("{name}\t{count}\t{markers}\t{chain}\n");
        }
    }
    lines
}

/// The functions by address. Of several names for one, a system call's entry is taken.
fn symbols(kallsyms: &str) -> BTreeMap<u64, String> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?.to_owned()))
    };
    let is_entry = |name: &str| name.starts_with("__x64_sys_") || name.starts_with("__arm64_sys_");
    let mut functions: Vec<(u64, String)> = kallsyms.lines().filter_map(line).collect();
    functions.sort_by_key(|(address, name)| (*address, is_entry(name)));
    functions.into_iter().collect()
}
