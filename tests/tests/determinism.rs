//! The same options give the same bytes: on any day, in any directory, whatever the
//! environment. Other seeds give other random numbers.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arch::Arch;
use tests::elf::{self, Elf};
use tests::harness::Harness;
use tests::program::{Finished, emu, finish};
use tests::scratch;

const EVENTS: &str = "cycles,cpu-clock,page-faults,context-switches,branches:u,\
    raw_syscalls:sys_enter,raw_syscalls:sys_exit";

/// The same command in a directory and environment that differ from run to run.
fn run_in(dir: &Path, nth: usize, words: &[&str]) -> (Finished, Vec<(String, Vec<u8>)>) {
    let cwd = dir.join(["a", "another/directory/with/a/longer/name", "c"][nth % 3]);
    std::fs::create_dir_all(&cwd).unwrap();
    let mut command = emu(words);
    command.current_dir(&cwd);
    match nth {
        0 => drop(command.env_clear()),
        1 => drop(command.env("EXTRA", "1").env("TZ", "Asia/Tokyo").env("HOME", "/x")),
        _ => drop(command.env("PADDING", "x".repeat(5000)).env("LC_ALL", "tr_TR.UTF-8")),
    }
    let finished = finish(&mut command);
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&cwd)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p: PathBuf| {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(p).unwrap())
        })
        .collect();
    files.sort();
    std::fs::remove_dir_all(&cwd).unwrap();
    (finished, files)
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let dir = scratch("determinism-files");
    for arch in Arch::ALL {
        for format in ["perf", "folded", "script"] {
            for guest in ["time", "signals", "rust-hello", "files", "recursion-pie"] {
                let words =
                    ["run", "-e", EVENTS, "-c", "9973", "--format", format, "-o", "profile"];
                let words = [&words[..], &["--arch", arch.name(), guest]].concat();
                let (first, files) = run_in(&dir, 0, &words);
                assert_eq!(first.status, 0, "{words:?}: {}", first.stderr);
                assert!(files.iter().any(|f| f.0 == "profile" && !f.1.is_empty()), "{words:?}");
                for nth in 1..3 {
                    let (again, other) = run_in(&dir, nth, &words);
                    assert_eq!(first, again, "{words:?}");
                    for (one, two) in files.iter().zip(&other) {
                        assert_eq!(one.0, two.0, "{words:?}");
                        assert!(one.1 == two.1, "{words:?}: {} differs", one.0);
                    }
                    assert_eq!(files.len(), other.len(), "{words:?}");
                }
            }
        }
    }
}

/// Through a pipe `perf.data` has another form, as stable as the file.
#[test]
fn the_same_options_give_the_same_stream() {
    for arch in Arch::ALL {
        let words = ["run", "-q", "-F", "20k", "-o", "-", "--arch", arch.name(), "qsort"];
        let run = |pad: &str| tests::program::raw(emu(&words).env("PAD", pad)).stdout;
        let first = run("");
        assert!(first.starts_with(b"PERFILE2"), "{arch}");
        assert!(first == run("some more"), "{arch}");
    }
}

/// A copy of the program that is newer and lies elsewhere is the same program.
#[test]
fn the_hosts_times_and_places_are_not_seen() {
    let dir = scratch("determinism-root");
    let source = tests::catalogue();
    for arch in Arch::ALL {
        let mut profiles = Vec::new();
        for place in ["one", "a/longer/way/to/two"] {
            let root = dir.join(arch.name()).join(place);
            std::fs::create_dir_all(root.join("bin")).unwrap();
            let guest = source.find("files").unwrap();
            std::fs::copy(source.path(guest, arch.name()), root.join("bin/files")).unwrap();
            let words = ["run", "-e", EVENTS, "-c", "9973", "--root", ".", "-o", "profile"];
            let out = finish(emu(&words).arg("/bin/files").current_dir(&root));
            assert_eq!(out.status, 0, "{arch}: {out:?}");
            profiles.push(std::fs::read(root.join("profile")).unwrap());
        }
        assert!(profiles[0] == profiles[1], "{arch}: the profiles differ");
    }
}

#[test]
fn seeds_choose_the_random_numbers() {
    let dir = scratch("determinism-seed");
    for arch in Arch::ALL {
        let name = format!("random-{arch}");
        let path = Elf::program(arch, &elf::exit_with_random_byte(arch)).write(&dir, &name);
        let status = |seed: &str| {
            let words = ["run", "-q", "-o", "/dev/null", "--seed", seed];
            finish(emu(&words).arg(&path)).status
        };
        let seen: BTreeSet<i32> = (1..=8).map(|seed| status(&seed.to_string())).collect();
        assert!(seen.len() >= 6, "{arch}: 8 seeds give only {seen:?}");
        assert_eq!(status("0x5"), status("5"), "{arch}");
    }
}

#[test]
fn aslr_seeds_choose_the_addresses() {
    let dir = scratch("determinism-aslr");
    for arch in Arch::ALL {
        let profile = |nth: usize, aslr: &[&str]| {
            let path = dir.join(format!("{arch}-{nth}"));
            let words = ["run", "-q", "--format", "script", "-c", "100k", "--arch", arch.name()];
            let words =
                [&words[..], aslr, &["-o", path.to_str().unwrap(), "recursion-pie"]].concat();
            let out = finish(&mut emu(&words));
            assert_eq!(out.status, 0, "{out:?}");
            std::fs::read_to_string(path).unwrap()
        };
        let fixed = profile(0, &[]);
        let (one, again, two) = (
            profile(1, &["--aslr", "1"]),
            profile(2, &["--aslr", "1"]),
            profile(3, &["--aslr", "2"]),
        );
        assert_eq!(one, again, "{arch}");
        assert_ne!(one, two, "{arch}");
        assert_ne!(one, fixed, "{arch}");
    }
}

/// In one process, one run after the other: nothing is left behind.
#[test]
fn runs_in_one_process_do_not_see_each_other() {
    for arch in Arch::ALL {
        let run = |seed| Harness::new(arch, "files").seed(seed).events(EVENTS, 997).run().records;
        let first = run(1);
        Harness::new(arch, "segv").events(EVENTS, 1).run();
        assert!(first == run(1), "{arch}");
    }
}
