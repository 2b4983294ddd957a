//! Directories for the files of tests.
//!
//! ```text
//! target/tmp/0004711/name-007    the seventh directory of process 4711
//! ```
//!
//! They stay when a test has ended, to be looked at; the next process of tests removes those of
//! processes that are no more. Their paths have the same length in each run, since a guest that
//! is run from there has its path on its stack.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::root;

/// A new and empty directory, with `name` in its own, for the files of a test.
///
/// # Panics
///
/// If it cannot be made.
pub fn scratch(name: &str) -> PathBuf {
    static OURS: OnceLock<PathBuf> = OnceLock::new();
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let ours = OURS.get_or_init(|| begin(&root().join("target/tmp")));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = ours.join(format!("{name}-{number:03}"));
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

/// The directory of this process below `all`, where none of an earlier one is left.
fn begin(all: &Path) -> PathBuf {
    let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
    for dir in entries.map(|entry| entry.path()).filter(|dir| is_left_behind(dir)) {
        // Another process may be about it, too.
        let _ = std::fs::remove_dir_all(dir);
    }
    all.join(format!("{:07}", std::process::id()))
}

/// Whether the process of a directory is no more, or has another one's number: ours.
fn is_left_behind(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.parse::<u32>() {
        Ok(id) => id == std::process::id() || !Path::new(&format!("/proc/{id}")).exists(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_directory_of_its_own() {
        let (one, two) = (scratch("same"), scratch("same"));
        std::fs::write(one.join("file"), "text").unwrap();
        assert!(one != two && two.read_dir().unwrap().next().is_none());
        assert_eq!(std::fs::read_to_string(one.join("file")).unwrap(), "text");
        assert_eq!(one.as_os_str().len(), two.as_os_str().len());
    }

    /// Process 1 is always there; no process has a number of more than 22 bits (`pid_max`).
    #[test]
    fn what_ended_processes_left_is_removed() {
        let all = scratch("left");
        let own = format!("{:07}", std::process::id());
        for name in ["0000001", "9999999", &own, "named"] {
            std::fs::create_dir_all(all.join(name).join("inner")).unwrap();
        }
        assert_eq!(begin(&all), all.join(&own));
        let mut left: Vec<_> = all.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0000001", "named"]);
    }
}
