//! Writes the texts of `tests/golden/defer` from the recordings themselves.
//!
//! ```text
//! captures DIR      DIR/x86_64 and DIR/arm64 hold NAME.data and kernel-symbols.txt (lines of
//!                   /proc/kallsyms)
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use arch::Arch;
use tests::captures::{CAPTURES, LOSSES, TICKS};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("which directory has the recordings?")?;
    for (arch, name) in [(Arch::X86_64, "x86_64"), (Arch::Aarch64, "arm64")] {
        let dir = Path::new(&dir).join(name);
        let kernel = symbols(&std::fs::read_to_string(dir.join("kernel-symbols.txt"))?);
        for capture in CAPTURES.iter().chain(TICKS).chain(LOSSES).filter(|c| c.arch == arch) {
            let bytes = std::fs::read(dir.join(capture.name).with_extension("data"))?;
            std::fs::write(capture.path(), capture.text(&bytes, kernel.clone()))?;
        }
    }
    Ok(())
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
