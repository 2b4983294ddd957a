//! The true stack, and what it says of ways to unwind that are known to be right or wrong.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use tests::program::{emu, finish};

/// What `--truth` says of a method, in a run that samples every system call.
fn verdict(arch: Arch, guest: &[&str], method: &str) -> String {
    let mut command = emu(&["run", "--truth", "--arch", arch.name(), "-o", "-"]);
    command.args(["-e", "raw_syscalls:sys_enter", "--format", "folded"]).args(guest);
    let finished = finish(&mut command);
    let line = finished.stderr.lines().find(|l| l.contains("against the true stack"));
    let line = line.unwrap_or_else(|| panic!("{arch} {guest:?}: {finished:?}"));
    let (_, methods) = line.split_once(": ").unwrap();
    let start = methods.find(&format!("{method} ")).unwrap();
    // To the next method: a comma outside parentheses.
    let mut depth = 0;
    let own = methods[start..].chars().take_while(|c| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        *c != ',' || depth > 0
    });
    own.collect::<String>()[method.len() + 1..].to_owned()
}

fn both(test: impl Fn(Arch)) {
    Arch::ALL.into_iter().for_each(test);
}

/// Every function of this guest keeps a frame pointer, its entry code included.
#[test]
fn frame_pointers_everywhere() {
    both(|arch| {
        for guest in [&["golden-fp", "sys", "5"][..], &["golden-fp", "deep", "2", "60"]] {
            assert_eq!(verdict(arch, guest, "fp"), "100 %", "{arch} {guest:?}");
        }
    });
}

/// The leaves that make its system calls have no frame: their callers are missing.
#[test]
fn leaves_without_frames() {
    both(|arch| {
        let fp = verdict(arch, &["golden-leaf", "sys", "5"], "fp");
        assert!(fp.contains("missing frame") && !fp.contains("wrong tail"), "{arch}: {fp}");
    });
}

/// Through a handler, frame pointers lose the interrupted function (FACTS of real kernels).
#[test]
fn signals() {
    both(|arch| {
        let fp = verdict(arch, &["golden-fp", "sig", "3"], "fp");
        assert!(fp.starts_with("66.7 % (6 "), "{arch}: {fp}");
    });
}

/// glibc has CFI for all of its code, its start included: callbacks, recursion, position
/// independence.
#[test]
fn tables_everywhere() {
    both(|arch| {
        for guest in ["qsort-glibc", "recursion-glibc", "recursion-glibc-pie"] {
            assert_eq!(verdict(arch, &[guest], "dwarf"), "100 %", "{arch} {guest}");
            assert!(verdict(arch, &[guest], "sframe").contains("no coverage"), "{arch} {guest}");
        }
    });
}

/// After C++ exceptions over many frames no dead frame is left: the last system calls are
/// made with every stack right.
#[test]
fn exceptions() {
    both(|arch| {
        let dwarf = verdict(arch, &["cpp-throw"], "dwarf");
        assert_eq!(dwarf, "100 %", "{arch}");
    });
}

/// A sample before the kernel has saved the registers has those of an earlier entry: no unwinder
/// is to blame for that. aarch64 masks even pseudo-NMIs there.
#[test]
fn stale_registers_are_not_graded() {
    let dir = tests::scratch("truth-stale");
    // Those that make so many system calls that some sample is there, whatever the costs of a step.
    for guest in ["syscalls", "syscalls-glibc"] {
        let profile = dir.join(guest);
        let mut command = emu(&["run", "--truth", "--arch", "x86_64", "-c", "37", "-o"]);
        let finished = finish(command.arg(&profile).arg(guest));
        let line = finished.stderr.lines().find(|l| l.contains("against the true stack"));
        let line = line.unwrap_or_else(|| panic!("{guest}: {finished:?}"));
        assert!(line.contains(" before the kernel had saved the registers: "), "{guest}: {line}");
        let (_, dwarf) = line.split_once(", dwarf ").unwrap();
        let (dwarf, _) = dwarf.split_once(", sframe ").unwrap();
        // Some samples are at code without a row.
        let wrong = ["tail", "invented", "missing", "truncated", "looping", "off by"];
        assert!(wrong.iter().all(|words| !dwarf.contains(words)), "{guest}: {line}");
        let truth = std::fs::read_to_string(format!("{}.truth", profile.display())).unwrap();
        let mut samples =
            truth.lines().filter(|l| l.starts_with("{\"sample\"") || l.starts_with("{\"undec"));
        let n = samples.position(|l| l.contains("\"why\":\"unsaved\"")).unwrap() + 1;
        let told = finish(emu(&["explain"]).arg(&profile).arg(n.to_string())).stdout;
        assert!(told.contains("had not saved the registers yet"), "{told}");
    }
}
