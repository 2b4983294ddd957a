//! The installed `perf`.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `perf ARGS`, with `stdin` if given; its output. `None`, with a note, where there is
/// no perf.
///
/// # Panics
///
/// If perf fails or writes a single byte to standard error.
pub fn perf<A: AsRef<OsStr> + std::fmt::Debug>(
    args: &[A],
    stdin: Option<&Path>,
    home: &Path,
) -> Option<String> {
    let open = |p: &Path| File::open(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
    let stdin = stdin.map_or_else(Stdio::null, |p| Stdio::from(open(p)));
    let out = Command::new("perf")
        .args(args)
        .stdin(stdin)
        // No settings, caches or symbol servers of the user.
        .env("HOME", home)
        .env("PERF_BUILDID_DIR", home)
        .env("DEBUGINFOD_URLS", "")
        .env("LC_ALL", "C")
        .output();
    let out = match out {
        Ok(out) => out,
        Err(e) => {
            println!("skipped: cannot run perf: {e}");
            return None;
        }
    };
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stderr.is_empty(), "perf {args:?}: {}\n{stderr}", out.status);
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}
