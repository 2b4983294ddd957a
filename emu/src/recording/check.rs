//! What must hold in a manifest that a host could have given: the kernel model trusts its host.

use super::input::Border;
use super::manifest::{Answer, Entry, Manifest, Program};
use super::text::Text;
use crate::kernel::vfs::host::Status;

/// Longest path in bytes (`PATH_MAX` without the zero).
const MAX_PATH: usize = 4095;

/// Longest name in a directory in bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;

/// Longest file, and latest time: what a signed number of 64 bits holds.
const MAX_SIGNED: u64 = i64::MAX as u64;

/// Checks the manifest of a recording with `input` bytes of input and so many `files`.
///
/// # Errors
///
/// What is wrong.
pub fn check(manifest: &Manifest, input: usize, files: usize) -> Result<(), String> {
    let sum = manifest.input.iter().try_fold(0u64, |sum, s| sum.checked_add(s.len));
    if sum != Some(input as u64) {
        return Err(format!("its input has not the {input} bytes of STDN"));
    }
    let of_input = manifest.input.iter().filter_map(|segment| match segment.end {
        Border::Error(errno) => Some(errno),
        Border::Open | Border::Short => None,
    });
    let of_output = manifest.failed.iter().flatten().map(|failed| failed.errno);
    of_input.chain(of_output).try_for_each(is_errno)?;
    let ascending = |pair: &[Entry]| pair[0].path.path() < pair[1].path.path();
    if let Some(pair) = manifest.host.windows(2).find(|pair| !ascending(pair)) {
        return Err(format!("{:?} is not in order", pair[1].path.path()));
    }
    for entry in &manifest.host {
        entry_is_fine(entry, files).map_err(|why| format!("{:?}: {why}", entry.path.path()))?;
    }
    let shown = |(path, host): &(String, Text)| is_absolute(path.as_bytes()) && is_path(&host.0);
    if !manifest.shown.iter().all(shown) {
        return Err("a file that is shown has no path".to_owned());
    }
    if manifest.boot_time > MAX_SIGNED {
        return Err(format!("boot_time is more than {MAX_SIGNED}"));
    }
    let program = &manifest.program;
    let has = |e: &Entry| e.path == program.host && matches!(e.file, Some(Ok(_)));
    if !manifest.host.iter().any(has) {
        return Err(format!("the program {:?} has no contents", program.host.path()));
    }
    program_is_fine(program)
}

fn program_is_fine(program: &Program) -> Result<(), String> {
    let mut words = program.args.iter().chain(&program.env);
    if words.any(|word| word.0.contains(&0)) || program.args.is_empty() {
        return Err("arguments and environment are no strings of C".to_owned());
    }
    if !is_absolute(program.path.as_bytes()) || !is_absolute(program.cwd.as_bytes()) {
        return Err("a path of the guest does not begin with /, or is too long".to_owned());
    }
    match &program.root {
        Some(root) if !is_absolute(&root.0) => Err("the root has no path".to_owned()),
        _ => Ok(()),
    }
}

fn entry_is_fine(entry: &Entry, files: usize) -> Result<(), String> {
    // It may be too long for the host, which then said so.
    if entry.path.0.is_empty() || entry.path.0.contains(&0) {
        return Err("no path".to_owned());
    }
    if matches!(entry.file, Some(Ok(n)) if n as usize >= files) {
        return Err(format!("its contents are not among {files} files"));
    }
    for status in [entry.stat, entry.lstat].into_iter().flatten() {
        if matches!(status, Ok(Status::Regular { len, .. }) if len > MAX_SIGNED) {
            return Err(format!("it is longer than {MAX_SIGNED} bytes"));
        }
    }
    if matches!(&entry.link, Some(Ok(target)) if !is_path(target.as_bytes())) {
        return Err("its link leads to no path".to_owned());
    }
    if matches!(&entry.canonical, Some(Ok(full)) if !is_absolute(&full.0)) {
        return Err("its path after links is none".to_owned());
    }
    let name = |name: &String| {
        let plain = !name.contains(['/', '\0']) && !matches!(name.as_str(), "" | "." | "..");
        plain && name.len() <= MAX_NAME
    };
    if entry.list.as_ref().is_some_and(|names| !names.iter().all(name)) {
        return Err("a name in it is none".to_owned());
    }
    let errors = [
        error(&entry.stat),
        error(&entry.lstat),
        error(&entry.link),
        error(&entry.canonical),
        error(&entry.file),
    ];
    errors.into_iter().flatten().try_for_each(is_errno)
}

fn is_errno(number: u16) -> Result<(), String> {
    match (1..=arch::Errno::MAX).contains(&number) {
        true => Ok(()),
        false => Err(format!("{number} is no error number")),
    }
}

fn error<T>(answer: &Option<Answer<T>>) -> Option<u16> {
    answer.as_ref()?.as_ref().err().copied()
}

fn is_path(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() <= MAX_PATH && !bytes.contains(&0)
}

fn is_absolute(bytes: &[u8]) -> bool {
    is_path(bytes) && bytes.starts_with(b"/")
}
