//! What is no program, and options that make no sense: one line that names the thing, the
//! exit status of a shell, and never a panic.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};

use arch::Arch;
use tests::elf::{self, DATA, Elf, INTERP, LOAD, Segment};
use tests::program::{Finished, emu, finish};
use tests::{catalogue, scratch};

/// Refused with one line on standard error that begins with the program's name and names
/// `what`; nothing on standard output, no profile.
fn refused(words: &[&str], status: i32, what: &str, dir: &Path) -> String {
    let out = finish(emu(words).current_dir(dir));
    assert_eq!(out.status, status, "{words:?}: {out:?}");
    one_line(&out, words);
    assert!(out.stderr.contains(what), "{words:?}: no {what:?} in {:?}", out.stderr);
    let profile = dir.join("perf.data");
    assert!(!profile.exists(), "{words:?} left {}", profile.display());
    out.stderr
}

fn one_line(out: &Finished, what: impl std::fmt::Debug) {
    let text = &out.stderr;
    let single = text.ends_with('\n') && text.lines().count() == 1 && text.starts_with("emu: ");
    assert!(single, "{what:?}: not one line: {text:?}");
    assert_eq!(out.stdout, "", "{what:?}");
}

/// The program `path` is refused with 126.
fn not_runnable(path: &Path, dir: &Path) -> String {
    refused(&["run", path.to_str().unwrap()], 126, path.to_str().unwrap(), dir)
}

fn guest(name: &str, arch: Arch) -> PathBuf {
    let catalogue = catalogue();
    catalogue.path(catalogue.find(name).unwrap(), arch.name())
}

#[test]
fn what_is_not_there() {
    let dir = scratch("bad-missing");
    refused(&["run", "./nothing"], 127, "./nothing", &dir);
    refused(&["run", "/no/such/file"], 127, "/no/such/file", &dir);
    refused(&["run", "demoo"], 127, "demo", &dir);
    refused(&["run", "--root", ".", "/bin/nothing"], 127, "/bin/nothing", &dir);
    // There can be no such file: as in a shell.
    refused(&["run", &"x".repeat(5000)], 126, "xxx", &dir);
    refused(&["guests", "demoo"], 127, "demo", &dir);
}

#[test]
fn what_is_no_program() {
    let dir = scratch("bad-kind");
    not_runnable(&dir, &dir);
    not_runnable(Path::new("/dev/null"), &dir);
    let write = |name: &str, bytes: &[u8]| elf::write(&dir, name, bytes);
    not_runnable(&write("empty", b""), &dir);
    not_runnable(&write("text", b"just words\n"), &dir);
    not_runnable(&write("zeros", &[0; 10_000]), &dir);
    let script = not_runnable(&write("script", b"#!/bin/sh\necho no\n"), &dir);
    assert!(script.contains("script"), "{script}");
    let odd = dir.join("a\nb\u{1b}[31m");
    std::fs::write(&odd, "text").unwrap();
    // The name's control characters are escaped.
    let out = finish(emu(&["run", odd.to_str().unwrap()]).current_dir(&dir));
    assert_eq!(out.status, 126);
    one_line(&out, &odd);
    assert!(!out.stderr.contains('\u{1b}'), "{:?}", out.stderr);
}

#[test]
fn what_cannot_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch("bad-unreadable");
    let path = Elf::program(Arch::X86_64, &elf::endless(Arch::X86_64)).write(&dir, "secret");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    not_runnable(&path, &dir);
}

/// `spoil` makes something wrong with a good program.
fn spoilt(dir: &Path, arch: Arch, name: &str, spoil: impl FnOnce(&mut Elf)) -> String {
    let mut elf = Elf::program(arch, &elf::endless(arch));
    spoil(&mut elf);
    not_runnable(&elf.write(dir, &format!("{name}-{arch}")), dir)
}

#[test]
fn programs_that_do_not_fit() {
    let dir = scratch("bad-elf");
    for arch in Arch::ALL {
        let spoilt = |name: &str, spoil: fn(&mut Elf)| spoilt(&dir, arch, name, spoil);
        assert!(spoilt("class", |e| e.class = 1).contains("32-bit"));
        assert!(spoilt("endian", |e| e.data = 2).contains("big-endian"));
        assert!(spoilt("object", |e| e.kind = 1).contains("object"));
        assert!(spoilt("core", |e| e.kind = 4).contains("core"));
        assert!(spoilt("i386", |e| e.machine = 3).contains("machine"));
        assert!(spoilt("riscv", |e| e.machine = 243).contains("machine"));
        assert!(spoilt("entry", |e| e.entry = DATA).contains("entry"));
        spoilt("nothing", |e| e.segments.clear());
        spoilt("no-load", |e| e.segments.iter_mut().for_each(|s| s.kind = 4));
        spoilt("overlap", |e| e.segments[1].vaddr = 0x40_0000);
        spoilt("file-end", |e| e.segments[0].filesz = 1 << 30);
        spoilt("filesz", |e| e.segments[0].memsz = 1);
        spoilt("congruence", |e| e.segments[0].offset = 1);
        spoilt("low", |e| e.segments[1].vaddr = 0x1000);
        spoilt("kernel-half", |e| e.segments[1].vaddr = 0xffff_8000_0000_0000);
        spoilt("wraps", |e| e.segments[1].vaddr = u64::MAX - 0xfff);
        spoilt("huge", |e| e.segments[1].memsz = 1 << 60);
        spoilt("huge-file", |e| {
            e.segments[0].filesz = u64::MAX;
            e.segments[0].memsz = u64::MAX;
        });
        spoilt("many", |e| {
            let data = e.segments[1].clone();
            e.segments = vec![data; 2000];
        });
        let dynamic = spoilt("dynamic", |e| {
            let path = b"/lib64/ld-linux-x86-64.so.2\0";
            let offset = 0x200 + e.code.len() as u64;
            let size = path.len() as u64;
            e.code.extend(path);
            let vaddr = 0x40_0000 + offset;
            let interp =
                Segment { kind: INTERP, flags: 4, offset, vaddr, filesz: size, memsz: size };
            e.segments.insert(0, interp);
        });
        assert!(dynamic.contains("/lib64/ld-linux-x86-64.so.2"), "{dynamic}");
        assert!(dynamic.contains("-static"), "{dynamic}");
    }
}

/// A program for the other architecture than `--arch` says.
#[test]
fn the_other_architecture() {
    let dir = scratch("bad-arch");
    let path = guest("hello", Arch::Aarch64);
    refused(&["run", "--arch", "x86_64", path.to_str().unwrap()], 126, "aarch64", &dir);
}

/// A file that ends too early is refused, wherever it ends.
#[test]
fn truncated_programs() {
    let dir = scratch("bad-truncated");
    for arch in Arch::ALL {
        let whole = std::fs::read(guest("hello-musl", arch)).unwrap();
        let headers = (0..700).step_by(37);
        let lengths = headers.chain((700..whole.len()).step_by(whole.len() / 40));
        for length in lengths.chain([63, 64, 65, whole.len() - 1]) {
            let path = elf::write(&dir, "cut", &whole[..length]);
            not_runnable(&path, &dir);
        }
    }
}

/// Wherever a byte of the headers changes, the program runs, dies as a guest, or is
/// refused.
#[test]
fn damaged_programs() {
    let dir = scratch("bad-damaged");
    for arch in Arch::ALL {
        let whole = std::fs::read(guest("hello-musl", arch)).unwrap();
        let mut random = 1u64;
        for n in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..1 + n % 3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // The file header and the program headers.
                let at = (random >> 33) as usize % 0x200;
                bytes[at] = (random >> 56) as u8;
            }
            let path = elf::write(&dir, "damaged", &bytes);
            let words = ["run", "-q", "-o", "/dev/null", "--max-instructions", "100k"];
            let out = finish(emu(&words).arg(&path).current_dir(&dir));
            if matches!(out.status, 125..=127) {
                assert_ne!(out.status, 125, "{arch} {n}: {out:?}");
                one_line(&out, n);
            }
        }
    }
}

#[test]
fn options_that_make_no_sense() {
    let dir = scratch("bad-options");
    for (words, what) in [
        (&["run", "-e", "cycels", "hello"][..], "cycels"),
        (&["run", "-e", "cycles:x", "hello"], "'x'"),
        (&["run", "-e", "", "hello"], "event"),
        (&["run", "-c", "0", "hello"], "-c"),
        (&["run", "-c", "-1", "hello"], "-1"),
        (&["run", "-c", "99999999999999999999", "hello"], "99999999999999999999"),
        (&["run", "-c", "1", "-F", "1", "hello"], "freq"),
        (&["run", "-F", "1G", "hello"], "1G"),
        (&["run", "--max-stack", "0", "hello"], "0"),
        (&["run", "--format", "pprof", "hello"], "pprof"),
        (&["run", "--arch", "m68k", "hello"], "m68k"),
        (&["run", "--seed", "x", "hello"], "x"),
        (&["run", "--env", "=1", "hello"], "NAME=VALUE"),
        (&["run", "--max-instructions", "0", "hello"], "0"),
        (&["run", "--root", "/no/such", "/hello"], "/no/such"),
        (&["run", "--nonsense"], "--nonsense"),
        (&["nonsense"], "nonsense"),
    ] {
        refused(words, 125, what, &dir);
    }
    // With nothing to do there is help, which is an error still.
    let out = finish(&mut emu::<&str>(&[]));
    assert_eq!((out.status, out.stdout.as_str()), (125, ""), "{out:?}");
}

#[test]
fn where_the_profile_cannot_go() {
    let dir = scratch("bad-output");
    for target in ["/no/such/folder/perf.data", ".", "/dev/full", "/proc/self/nothing"] {
        for format in ["perf", "folded", "script"] {
            let words = ["run", "-q", "-e", "page-faults", "-c", "1", "--format", format];
            let words = [&words[..], &["-o", target, "hello"]].concat();
            let out = finish(emu(&words).current_dir(&dir));
            assert_eq!(out.status, 125, "{words:?}: {out:?}");
            let mut lines = out.stderr.lines();
            assert!(lines.next().is_some_and(|l| l.starts_with("emu: ")), "{words:?}: {out:?}");
            assert_eq!(lines.next(), None, "{words:?}: {out:?}");
            let named = if target == "." { "a directory" } else { target };
            assert!(out.stderr.contains(named), "{words:?}: {out:?}");
        }
    }
}

/// A segment type of [`LOAD`] alone makes a program: the crafted one does run.
#[test]
fn the_crafted_program_is_good() {
    let dir = scratch("bad-good");
    for arch in Arch::ALL {
        let elf = Elf::program(arch, &elf::endless(arch));
        assert!(elf.segments.iter().all(|s| s.kind == LOAD));
        let path = elf.write(&dir, &format!("endless-{arch}"));
        let words = ["run", "-q", "-o", "/dev/null", "--max-instructions", "1k"];
        assert_eq!(finish(emu(&words).arg(path)).status, 124);
    }
}
