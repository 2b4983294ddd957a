//! However a run ends, the profile is whole and the exit status says why.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use arch::Arch;
use tests::elf::{self, Elf};
use tests::perf::perf;
use tests::program::{emu, finish, wait};
use tests::scratch;

fn endless(arch: Arch, dir: &Path) -> PathBuf {
    Elf::program(arch, &elf::endless(arch)).write(dir, &format!("endless-{arch}"))
}

/// The profile at `path` has at least `samples` samples, all at the endless jump.
fn check_profile(path: &Path, samples: usize, dir: &Path) {
    let args = ["script", "-F", "ip", "-i", path.to_str().unwrap()];
    let Some(text) = perf(&args, None, dir) else { return };
    let ips: Vec<&str> = text.split_whitespace().collect();
    assert!(ips.len() >= samples, "{} samples", ips.len());
    // As an address, or as an offset in the file.
    assert!(ips.iter().all(|ip| ["400200", "200"].contains(ip)), "{text}");
}

#[test]
fn a_limit_ends_an_endless_guest() {
    let dir = scratch("endings-limit");
    for arch in Arch::ALL {
        let (guest, data) = (endless(arch, &dir), dir.join(format!("{arch}.data")));
        let words = ["run", "-q", "-e", "instructions:u", "-c", "1k", "--max-instructions", "1M"];
        let out = finish(emu(&words).arg("-o").arg(&data).arg(&guest));
        assert_eq!(out.status, 124, "{out:?}");
        assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
        assert!(out.stderr.contains("--max-instructions"), "{out:?}");
        check_profile(&data, 999, &dir);

        // Exactly that many: each instruction is a branch here.
        for (format, last) in [("script", "\n"), ("folded", "\n")] {
            let words = ["run", "-e", "branches:u", "-c", "1", "--max-instructions", "5"];
            let out = finish(emu(&words).args(["--format", format, "-o", "-"]).arg(&guest));
            assert_eq!(out.status, 124, "{out:?}");
            assert!(out.stdout.ends_with(last), "{out:?}");
            assert!(out.stderr.contains("stopped after 5 instructions"), "{out:?}");
        }
    }
}

fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_signal_ends_the_run_and_completes_the_profile() {
    let dir = scratch("endings-signal");
    for (arch, signal, status) in [(Arch::X86_64, "-INT", 130), (Arch::Aarch64, "-TERM", 143)] {
        let (guest, data) = (endless(arch, &dir), dir.join(format!("{arch}.data")));
        let mut command = emu(&["run", "-c", "10M"]);
        command.arg("-o").arg(&data).arg(&guest).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while !data.exists() && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(500));
        kill(child.id(), signal);
        assert_eq!(wait(&mut child, &command).code(), Some(status));
        check_profile(&data, 1, &dir);
    }
}

/// Whoever reads the profile goes away: as for any program in a pipeline.
#[test]
fn a_reader_that_goes_away() {
    let dir = scratch("endings-pipe");
    let guest = endless(Arch::X86_64, &dir);
    for format in ["perf", "script"] {
        let words =
            ["run", "-q", "-c", "1k", "-e", "instructions:u", "--format", format, "-o", "-"];
        let mut command = emu(&words);
        command.arg("--max-instructions").arg("100M").arg(&guest);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(wait(&mut child, &command).code(), Some(141), "{format}");
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert_eq!(stderr, "", "{format}");
    }
}

#[test]
fn an_older_profile_is_kept() {
    let dir = scratch("endings-old");
    let run = || {
        let out = finish(emu(&["run", "-q", "hello"]).current_dir(&dir));
        assert_eq!(out.status, 0, "{out:?}");
        std::fs::read(dir.join("perf.data")).unwrap()
    };
    assert!(run() == run());
    assert!(dir.join("perf.data.old").is_file());
}
