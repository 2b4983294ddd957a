//! Every run of the catalogue, on both architectures: what the guests write and how they
//! end is what they do on Linux.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use emu::kernel::task::Ending;
use guests::{Guest, Run};
use tests::harness::Harness;
use tests::program::{emu, finish};
use tests::{catalogue, scratch};

/// `f` for every run but the very long default run of `bench`, which has shorter ones.
fn for_every_run(arch: Arch, mut f: impl FnMut(&Guest, Run, String) -> Result<(), String>) {
    let catalogue = catalogue();
    let mut failed = Vec::new();
    let mut runs = 0;
    for guest in catalogue.guests() {
        for run in guest.runs(arch.name()) {
            if guest.name == "bench" && run.case.is_none() {
                continue;
            }
            let what = format!("{} {} on {arch}", guest.name, run.args.join(" "));
            if let Err(e) = f(guest, run, what.clone()) {
                failed.push(format!("{what}: {e}"));
            }
            runs += 1;
        }
    }
    assert!(runs >= 60, "{runs} runs");
    assert!(failed.is_empty(), "{} of {runs} runs:\n{}", failed.len(), failed.join("\n"));
}

fn as_a_process(arch: Arch) {
    let dir = scratch(&format!("catalogue-{arch}"));
    let profile = dir.join("perf.data");
    for_every_run(arch, |guest, run, _| {
        let words = ["run", "-q", "-o", profile.to_str().unwrap(), "--arch", arch.name()];
        // The death of a guest is reported where its standard error goes; without a death
        // there is nothing but the guest's own words.
        let out = finish(emu(&words).arg("--").arg(&guest.name).args(run.args));
        if out.stdout != run.stdout {
            return Err(format!("wrote {:?}, expected {:?}", out.stdout, run.stdout));
        }
        let stderr_fits = match run.signal() {
            None => out.stderr == run.stderr,
            Some(_) => {
                out.stderr.starts_with(&format!("{}emu: {}: killed by SIG", run.stderr, guest.name))
            }
        };
        if !stderr_fits {
            return Err(format!("wrote {:?} to stderr, expected {:?}", out.stderr, run.stderr));
        }
        if out.status != run.exit {
            return Err(format!("exited {}, expected {}", out.status, run.exit));
        }
        Ok(())
    });
}

#[test]
fn as_processes_on_x86_64() {
    as_a_process(Arch::X86_64);
}

#[test]
fn as_processes_on_aarch64() {
    as_a_process(Arch::Aarch64);
}

/// The same through the library, under all kinds of events: sampling changes nothing, the
/// laws hold, and nothing that a guest needs is missing.
fn in_process(arch: Arch) {
    for_every_run(arch, |guest, run, _| {
        let args: Vec<&str> = run.args.iter().map(String::as_str).collect();
        let expected = match run.signal() {
            Some(signal) => Ending::Signalled(signal as u8),
            None => Ending::Exited(run.exit as u8),
        };
        let harness = Harness::new(arch, &guest.name).args(&args);
        let events = "cycles,instructions:u,branches:u,page-faults,cpu-clock,context-switches";
        let outcome = harness.events(events, 20_011).run();
        if outcome.ending != expected {
            return Err(format!("{:?}, expected {expected:?}", outcome.ending));
        }
        if !outcome.unsupported.is_empty() {
            return Err(format!("unsupported: {}", outcome.unsupported.join(", ")));
        }
        Ok(())
    });
}

#[test]
fn in_process_on_x86_64() {
    in_process(Arch::X86_64);
}

#[test]
fn in_process_on_aarch64() {
    in_process(Arch::Aarch64);
}
