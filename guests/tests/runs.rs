//! The guests do what the catalogue says, run by the machine itself
//! (x86_64 Linux) or by QEMU's user emulation where it is installed.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use guests::{Catalogue, Guest, Run};

fn run(emulator: Option<&str>, program: &Path, run: &Run) -> Result<(), String> {
    let mut command = match emulator {
        Some(emulator) => {
            let mut c = Command::new(emulator);
            c.arg(program);
            c
        }
        None => Command::new(program),
    };
    let output = command
        .args(run.args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot be run: {e}"))?;
    let exit = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or(0),
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stdout != run.stdout {
        return Err(format!("wrote {stdout:?}, expected {:?}", run.stdout));
    }
    // QEMU reports signals there
    if emulator.is_none() && stderr != run.stderr {
        return Err(format!("wrote {stderr:?} to stderr, expected {:?}", run.stderr));
    }
    if exit != run.exit {
        return Err(format!("exited {exit}, expected {}", run.exit));
    }
    Ok(())
}

fn run_all(arch: &str, emulator: Option<&str>, wanted: impl Fn(&Guest) -> bool) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let catalogue = Catalogue::load(dir).unwrap_or_else(|e| panic!("{e}"));
    let mut failed = Vec::new();
    for guest in catalogue.guests().iter().filter(|g| wanted(g)) {
        for r in guest.runs(arch) {
            if let Err(e) = run(emulator, &catalogue.path(guest, arch), &r) {
                failed.push(format!("{} {}: {e}", guest.name, r.args.join(" ")));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn on_this_machine() {
    run_all("x86_64", None, |g| !g.has_tag("perf"));
}

#[test]
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
fn on_this_machine() {
    run_all("aarch64", None, |g| !g.has_tag("perf"));
}

#[test]
fn under_qemu_aarch64() {
    let qemu = "qemu-aarch64";
    if Command::new(qemu).arg("--version").output().is_err() {
        eprintln!("skipped: {qemu} is not installed");
        return;
    }
    // `tasks` executes /proc/self/exe, which qemu-user hands to the host.
    run_all("aarch64", Some(qemu), |g| !g.has_tag("linux-only") && !g.has_tag("tasks"));
}
