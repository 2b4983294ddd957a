//! Runs the built program `emu` as people do.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use crate::root;

/// The program: what `EMU_BIN` names, or the release build.
///
/// # Panics
///
/// If it is not there, or older than its sources, with a word on how to build it.
pub fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("EMU_BIN") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "EMU_BIN: no file {}", path.display());
        return path;
    }
    let path = root().join("target/release/emu");
    let hint = "build it with `cargo build --release -p emu`, or set EMU_BIN to a program";
    let built = path.metadata().and_then(|m| m.modified());
    let built = built.unwrap_or_else(|e| panic!("{}: {e}; {hint}", path.display()));
    for sources in ["emu/src", "arch/src", "guests/src"] {
        if let Some(newer) = newer_than(built, &root().join(sources)) {
            panic!("{} is older than {}; {hint}", path.display(), newer.display());
        }
    }
    path
}

/// A file below `dir` that was changed after `time`.
fn newer_than(time: SystemTime, dir: &Path) -> Option<PathBuf> {
    std::fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let meta = entry.metadata().ok()?;
        if meta.is_dir() {
            return newer_than(time, &entry.path());
        }
        let code = entry.path().extension().is_some_and(|e| e == "rs");
        (code && meta.modified().ok()? > time).then(|| entry.path())
    })
}

/// `emu` with these words, to be changed further: no standard input, an environment
/// without the settings of whoever runs the tests.
pub fn emu<W: AsRef<std::ffi::OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(path());
    command.args(words).stdin(Stdio::null()).env("LC_ALL", "C").env_remove("TERM");
    command
}

/// How a finished `emu` looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Exit status; 128 + n if signal n ended `emu` itself, which is never right.
    pub status: i32,
    /// Standard output; what is no UTF-8 is replaced.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Waits for `command`.
///
/// # Panics
///
/// If it cannot be started, was killed, panicked, or does not end.
pub fn finish(command: &mut Command) -> Finished {
    let out = raw(command);
    let finished = Finished {
        status: out.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    };
    assert!(!finished.stderr.contains("panicked at"), "{command:?}:\n{}", finished.stderr);
    assert!(finished.status != -1, "{command:?}: {}\n{}", out.status, finished.stderr);
    finished
}

/// Waits for `command`; its output as bytes.
///
/// # Panics
///
/// If it cannot be started or does not end.
pub fn raw(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, command);
    let all = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Output { status, stdout: all(stdout), stderr: all(stderr) }
}

/// A run that takes longer hangs: the longest takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for a child of [`Command::spawn`].
///
/// # Panics
///
/// If it does not end.
pub fn wait(child: &mut Child, command: &Command) -> ExitStatus {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status,
            Ok(None) if start.elapsed() < PATIENCE => sleep(Duration::from_millis(2)),
            other => {
                let _ = child.kill();
                panic!("{command:?} does not end: {other:?}");
            }
        }
    }
}

fn collect(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is shown as it is.
        let _ = from.map(|mut f| f.read_to_end(&mut bytes));
        bytes
    })
}
