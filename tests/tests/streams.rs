//! Pipes, devices and closed streams where a file or a reader was expected: no command waits,
//! and no report is lost in silence.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::Path;
use std::process::Command;

use goblin::elf::Elf;
use tests::program::{Finished, emu, finish, path};
use tests::{root, scratch};

/// `emu WORDS REDIRECTION`, by a shell, in `dir`; killed if it waits.
fn shell(dir: &Path, words: &str, redirection: &str) -> Finished {
    let script = format!("\"$0\" {words} {redirection}");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "sh", "-c", &script]).arg(path()).current_dir(dir);
    finish(&mut command)
}

/// Refused with one line that has `what` in it.
fn refused(dir: &Path, words: &str, what: &str) {
    let out = shell(dir, words, "");
    assert!([125, 126].contains(&out.status), "{words}: {out:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{words}: {out:?}");
    assert!(out.stderr.contains(what), "{words}: {what:?} is not in {}", out.stderr);
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = scratch("streams-files");
    for name in ["pipe", "beside.truth", "symbols.kallsyms"] {
        fifo(&dir.join(name));
    }
    std::fs::create_dir(dir.join("folder")).unwrap();
    for (name, what) in [("pipe", "is a pipe"), ("folder", "is a directory")] {
        refused(&dir, &format!("explain {name} 1"), what);
        refused(&dir, &format!("show {name}"), what);
        refused(&dir, &format!("check --baseline {name} hello"), what);
    }
    refused(&dir, "explain /dev/zero 1", "is a device; name a regular file");
    refused(&dir, "explain beside 1", "is a pipe");
    refused(&dir, "explain beside.truth 1", "is a pipe");
    refused(&dir, "run -q --truth -o beside hello", "cannot write the truth to beside.truth");
    refused(&dir, "run -q -o symbols hello", "symbols.kallsyms: it is a pipe; remove it");
    refused(&dir, "check -o pipe hello", "nobody reads this pipe");
    refused(&dir, "check -o folder hello", "Is a directory");
    let run = shell(&dir, "run -q --truth -c 1 -e instructions:u -o data hello", ">/dev/null");
    let hint = "Explain one of them: emu explain data N, with N from 1 to ";
    assert!(run.stderr.lines().last().unwrap().starts_with(hint), "{run:?}");
    refused(&dir, "explain data 1 --svg pipe", "--svg pipe: cannot write it: nobody reads");
}

#[test]
fn no_report_is_lost() {
    let dir = scratch("streams-stdout");
    let run = shell(&dir, "run -q --truth -c 1 -e instructions:u -o data hello", ">/dev/null");
    assert_eq!(run.status, 0, "{run:?}");
    let reports =
        ["check hello", "show hello", "guests", "explain data 1", "explain data 1 --svg -"];
    let others = ["run -q -c 1 --format folded -o - hello", "--help", "show --help"];
    for words in reports.into_iter().chain(others) {
        for (to, why) in [(">&-", "it is closed"), (">/dev/full", "No space left on device")] {
            let out = shell(&dir, words, to);
            assert_eq!(out.status, 125, "{words} {to}: {out:?}");
            let line = out.stderr.lines().find(|line| line.starts_with("emu: ")).unwrap();
            assert!(line.contains("standard output") && line.contains(why), "{words} {to}: {line}");
        }
        // A reader that has seen enough.
        let out = shell(&dir, words, "| head -n 1");
        assert_eq!((out.status, out.stdout.lines().count()), (0, 1), "{words}: {out:?}");
        assert!(!out.stderr.contains("cannot write"), "{words}: {}", out.stderr);
    }
    // The guest's own stream is another matter.
    assert_eq!(shell(&dir, "run -q -o data hello", ">&-").status, 0);
}

/// A section that is there but broken is not called absent.
#[test]
fn a_broken_section_is_called_broken() {
    let dir = scratch("streams-broken");
    let whole = std::fs::read(root().join("tests/data/show/x86_64/both-tables.elf")).unwrap();
    let elf = Elf::parse(&whole).unwrap();
    let name =
        |s: &&goblin::elf::SectionHeader| elf.shdr_strtab.get_at(s.sh_name) == Some(".sframe");
    let at = elf.section_headers.iter().find(name).unwrap().sh_offset as usize;
    let mut broken = whole.clone();
    broken[at] ^= 0xff;
    let file = dir.join("broken.elf");
    std::fs::write(&file, broken).unwrap();
    let out = finish(emu(&["show"]).arg(&file));
    let last = out.stdout.lines().last().unwrap();
    assert!(last.contains("; not usable: .sframe, offset 0x0: magic 0x"), "{last}");
    assert!(out.stderr.contains(".sframe, offset 0x0"), "{}", out.stderr);
}
