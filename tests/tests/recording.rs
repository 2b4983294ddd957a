//! Recordings: replayed without anything of the host, sampled otherwise, damaged, and as tests.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use arch::Arch;
use tests::elf::{self, Elf};
use tests::program::{Finished, emu, finish, path};
use tests::{catalogue, root, scratch};

/// `emu` with these words in `dir`, and with this standard input.
fn run_in(dir: &Path, input: &[u8], words: &[&str]) -> Finished {
    let file = dir.join("standard-input");
    fs::write(&file, input).unwrap();
    let stdin = fs::File::open(&file).unwrap();
    let finished = finish(emu(words).current_dir(dir).stdin(stdin));
    let _ = fs::remove_file(file);
    finished
}

/// The last line on standard error.
fn last(finished: &Finished) -> &str {
    finished.stderr.lines().last().unwrap_or_default()
}

const AS_RECORDED: &str = "emu: as recorded: end, output, instructions and profile, byte for byte";

/// A directory that is a guest's `/`: the guest `reader`, files, directories, links.
fn world(dir: &Path, arch: Arch) -> PathBuf {
    let root = dir.join("root");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::create_dir_all(root.join("data")).unwrap();
    let catalogue = catalogue();
    let reader = catalogue.path(catalogue.find("reader").unwrap(), arch.name());
    fs::copy(reader, root.join("bin/reader-1")).unwrap();
    symlink("reader-1", root.join("bin/reader")).unwrap();
    fs::write(root.join("data/numbers"), "one\ntwo\nthree\n").unwrap();
    symlink("numbers", root.join("data/link")).unwrap();
    symlink("nowhere", root.join("data/lost")).unwrap();
    root
}

const READ: [&str; 8] = [
    "/bin/reader",
    "/data",
    "/data/numbers",
    "/data/link",
    "/data/lost",
    "/bin/reader",
    "/data/none",
    "/data/numbers/x",
];

/// Program, files, directories, links, what was missing, and standard input are in the
/// recording: it is replayed where none of them is, with another environment, directory and
/// input, to the same output and profile.
#[test]
fn a_replay_needs_nothing_of_the_host() {
    for arch in Arch::ALL {
        let dir = scratch(&format!("recording-alone-{arch}"));
        let root = world(&dir, arch);
        let options = ["record", "-o", "run.emu", "--profile", "1.data", "--root", "root"];
        let sampling = ["-e", "cycles,page-faults", "-c", "1000", "--env", "A=b"];
        let words: Vec<&str> =
            options.iter().chain(&sampling).chain(&["--"]).chain(&READ).copied().collect();
        let recorded = run_in(&dir, b"first\nsecond", &words);
        assert_eq!(recorded.status, 3, "{}", recorded.stderr);
        assert!(last(&recorded).ends_with("run it again: emu replay run.emu"), "{recorded:?}");
        let wanted = [
            "/data: 3 names: link lost numbers",
            "/data/numbers: 3 lines, 14 bytes, sum 25e004d3",
            "/data/link: leads to numbers",
            "/data/link: 3 lines, 14 bytes, sum 25e004d3",
            "/data/lost: leads to nowhere",
            "/bin/reader: leads to reader-1",
        ];
        let lines: Vec<&str> = recorded.stdout.lines().collect();
        assert_eq!(lines[..6], wanted);
        assert_eq!(lines[7..], ["1: first", "2: second"]);

        // Another machine: only the recording is there.
        let elsewhere = scratch(&format!("recording-elsewhere-{arch}"));
        fs::copy(dir.join("run.emu"), elsewhere.join("run.emu")).unwrap();
        fs::rename(&root, dir.join("gone")).unwrap();
        let mut command = emu(&["replay", "run.emu", "-o", "2.data"]);
        command.current_dir(&elsewhere).env_clear().env("HOME", "/x").stdin(Stdio::null());
        let replayed = finish(&mut command);
        assert_eq!((replayed.status, &replayed.stdout), (3, &recorded.stdout));
        assert_eq!(last(&replayed), AS_RECORDED, "{}", replayed.stderr);
        let errors = |f: &Finished| -> Vec<String> {
            f.stderr
                .lines()
                .filter(|l| l.starts_with('/') && l.contains(": "))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(errors(&recorded).len(), 3, "{}", recorded.stderr);
        assert_eq!(errors(&replayed), errors(&recorded));
        let first = fs::read(dir.join("1.data")).unwrap();
        assert!(first == fs::read(elsewhere.join("2.data")).unwrap(), "{arch}: another profile");
        // Names of functions are in the recording, too.
        let words = ["replay", "run.emu", "-q", "--format", "folded", "-o", "-"];
        let folded = run_in(&elsewhere, b"other\ninput\n", &words);
        assert!(folded.stdout.contains(";read_path "), "{}", folded.stdout);

        // What asks the host otherwise than the recorded run gets no answer from this host: the
        // guest sees neither files that are here nor this standard input.
        fs::rename(dir.join("gone"), &root).unwrap();
        fs::write(root.join("data/none"), "it is there now").unwrap();
        let late = run_in(&dir, b"other\n", &["replay", "-q", "run.emu", "-o", "3.data"]);
        assert_eq!((late.status, late.stdout), (3, recorded.stdout));
    }
}

/// Tools that read the program find it where the recording's files were written.
#[test]
fn files_can_be_taken_out() {
    let dir = scratch("recording-extract");
    let root = world(&dir, Arch::X86_64);
    let words = ["record", "-q", "-o", "run.emu", "-e", "cycles:u", "--root", "root", "--"];
    let words: Vec<&str> = words.iter().chain(&READ).copied().collect();
    assert_eq!(run_in(&dir, b"", &words).status, 3);
    fs::rename(&root, dir.join("gone")).unwrap();
    let replay =
        ["replay", "-q", "run.emu", "-c", "999", "--truth", "-o", "p.data", "--extract", "files"];
    assert_eq!(run_in(&dir, b"", &replay).status, 3);
    let same = |a: &str, b: &str| {
        assert!(fs::read(dir.join(a)).unwrap() == fs::read(dir.join(b)).unwrap(), "{a}");
    };
    same("files/data/numbers", "gone/data/numbers");
    same("files/bin/reader-1", "gone/bin/reader-1");
    let explained = run_in(&dir, b"", &["explain", "p.data", "20"]);
    assert_eq!((explained.status, explained.stderr.as_str()), (0, ""));
    assert!(explained.stdout.contains(" in reader-1, x86_64"), "{}", explained.stdout);
    let again = run_in(&dir, b"", &replay);
    let told = "emu: --extract files: there is something in it; name a new directory\n";
    assert_eq!((again.status, again.stderr.as_str()), (125, told));
}

/// A replay can be watched by the laws, also under another design than was recorded.
#[test]
fn a_replay_keeps_the_laws() {
    let dir = scratch("recording-laws");
    let words = ["record", "-q", "-o", "run.emu", "--call-graph", "fp,defer", "-c", "400", "hello"];
    assert_eq!(run_in(&dir, b"", &words).status, 0);
    let told = |more: &[&str]| {
        let words = [&["replay", "-q", "--laws", "run.emu", "-o", "p.data"], more].concat();
        let done = run_in(&dir, b"", &words);
        assert_eq!(done.status, 0, "{}", done.stderr);
        done.stderr.lines().last().unwrap_or_default().to_owned()
    };
    assert!(told(&[]).contains(" 0 broken, ") && told(&[]).contains("LAW-37 by H2 2 times"));
    let cookie = told(&["--deferred", "cookie"]);
    assert!(cookie.starts_with("laws: ") && !cookie.contains("H2"), "{cookie}");
}

/// The host's system calls during a replay name no file of the guest's.
#[test]
fn a_replay_opens_no_file_of_the_guest() {
    let dir = scratch("recording-strace");
    let root = world(&dir, Arch::X86_64);
    let words = ["record", "-q", "-o", "run.emu", "--root", "root", "--", "/bin/reader", "/data"];
    assert_eq!(run_in(&dir, b"", &words).status, 0);
    let traced = std::process::Command::new("strace")
        .args(["-f", "-e", "trace=file", "-o", "trace"])
        .arg(path())
        .args(["replay", "-q", "run.emu", "-o", "p.data"])
        .current_dir(&dir)
        .output();
    let Ok(traced) = traced else { return println!("skipped: no strace") };
    let trace = fs::read_to_string(dir.join("trace")).unwrap_or_default();
    if !traced.status.success() || !trace.contains("run.emu") {
        return println!("skipped: strace cannot trace here");
    }
    let inside = root.to_string_lossy().into_owned();
    let touched: Vec<&str> = trace.lines().filter(|l| l.contains(&inside)).collect();
    assert_eq!(touched, [""; 0]);
}

/// Without a root: the files that arguments name, and a working directory.
#[test]
fn files_that_arguments_name_are_in_it() {
    let dir = scratch("recording-named");
    fs::write(dir.join("in"), "x\n").unwrap();
    let words = ["record", "-o", "run.emu", "reader", "in", "missing"];
    let recorded = run_in(&dir, b"", &words);
    assert_eq!(recorded.stdout, "in: 1 lines, 2 bytes, sum 00fc0083\n");
    fs::remove_file(dir.join("in")).unwrap();
    fs::write(dir.join("missing"), "not so").unwrap();
    let replayed = run_in(&dir, b"", &["replay", "run.emu"]);
    assert_eq!((replayed.status, &replayed.stdout), (1, &recorded.stdout));
    assert_eq!(last(&replayed), AS_RECORDED);
    assert!(replayed.stderr.contains("missing: No such file or directory"));
}

/// Other events, periods, designs and machines: what is changed is said, and the guest's world
/// stays.
#[test]
fn a_replay_may_sample_otherwise() {
    let dir = scratch("recording-otherwise");
    let record = ["record", "-q", "-o", "run.emu", "-c", "5000", "lab-recursion-fp"];
    let recorded = run_in(&dir, b"", &record);
    assert_eq!(recorded.status, 26, "the guest's own");
    let replay = |words: &[&str]| {
        let words: Vec<&str> =
            ["replay", "run.emu", "-o", "p.data"].iter().chain(words).copied().collect();
        let replayed = run_in(&dir, b"", &words);
        assert_eq!((replayed.status, &replayed.stdout), (26, &recorded.stdout), "{replayed:?}");
        replayed
    };
    // The profile is that of `emu run` with these options.
    let same = replay(&["--call-graph", "fp,defer", "--deferred", "cookie", "-F", "20000"]);
    let said = "emu: changed for this replay: --freq 20000 (recorded: --count 5000); \
                --call-graph fp,defer (not recorded); --deferred cookie (recorded: mask)";
    assert!(same.stderr.lines().any(|l| l == said), "{}", same.stderr);
    assert_eq!(last(&same), "emu: as recorded: end, output and instructions");
    let script = |words: &[&str]| run_in(&dir, b"", words).stdout;
    let options = ["-q", "--format", "script", "-o", "-", "-e", "instructions:u", "-c", "7"];
    let again: Vec<&str> = ["replay", "run.emu"].iter().chain(&options).copied().collect();
    let fresh: Vec<&str> =
        ["run"].iter().chain(&options).chain(&["lab-recursion-fp"]).copied().collect();
    let (again, fresh) = (script(&again), script(&fresh));
    assert!(again.lines().count() > 100 && again == fresh);

    let graded = replay(&["--truth"]);
    assert!(graded.stderr.contains(" against the true stack: fp "), "{}", graded.stderr);
    assert_eq!(last(&graded), AS_RECORDED, "grading changes nothing");
    let timeline = finish(
        emu(&["replay", "-q", "run.emu", "--timeline=1..5", "-o", "p.data"]).current_dir(&dir),
    );
    assert!(timeline.stdout.contains("entry.N0") || timeline.stdout.lines().count() >= 5);
    // The same value again is no change.
    assert_eq!(last(&replay(&["-c", "5000", "--seed", "1"])), AS_RECORDED);
}

/// What a guest writes to a pipe whose reader has gone is an input of the run as well.
#[test]
fn a_broken_pipe_is_replayed() {
    let dir = scratch("recording-pipe");
    // mov eax, 1; mov edi, eax; mov esi, CODE; mov edx, 64; syscall; jmp start
    let code =
        b"\xb8\x01\x00\x00\x00\x89\xc7\xbe\x00\x02\x40\x00\xba\x40\x00\x00\x00\x0f\x05\xeb\xeb";
    Elf::program(Arch::X86_64, code).write(&dir, "writer");
    let script = format!(
        "{} record -o run.emu -- ./writer 2>err | head -c 100 >/dev/null",
        path().display()
    );
    let shell = std::process::Command::new("sh").arg("-c").arg(script).current_dir(&dir).status();
    assert!(shell.unwrap().success());
    let replayed = run_in(&dir, b"", &["replay", "run.emu"]);
    assert_eq!(replayed.status, 128 + 13, "{}", replayed.stderr);
    assert_eq!(last(&replayed), AS_RECORDED);
}

/// A run that Ctrl-C ends is recorded to there.
#[test]
fn an_interrupted_run_is_recorded() {
    let dir = scratch("recording-interrupted");
    Elf::program(Arch::Aarch64, &elf::endless(Arch::Aarch64)).write(&dir, "endless");
    let mut command = emu(&["record", "-q", "-o", "run.emu", "--", "./endless"]);
    command.current_dir(&dir).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let kill = std::process::Command::new("kill").arg("-INT").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    assert_eq!(tests::program::wait(&mut child, &command).code(), Some(130));
    let replayed = run_in(&dir, b"", &["replay", "run.emu"]);
    assert_eq!(replayed.status, 124);
    assert!(last(&replayed).starts_with("emu: as recorded: end, output and instructions"));
}

/// Every message about a file that cannot be replayed says what, where, and what to do.
#[test]
fn what_cannot_be_replayed_is_refused() {
    let dir = scratch("recording-refused");
    assert_eq!(run_in(&dir, b"", &["record", "-q", "-o", "good.emu", "hello"]).status, 0);
    let good = fs::read(dir.join("good.emu")).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(dir.join("bad.emu"), bytes).unwrap();
        for words in [&["replay", "bad.emu"][..], &["replay", "--info", "bad.emu"]] {
            let finished = run_in(&dir, b"", words);
            assert_eq!((finished.status, finished.stdout.as_str()), (125, ""));
            assert_eq!(finished.stderr, format!("emu: bad.emu: {what}\n"));
        }
    };
    refused(
        b"",
        "is no recording of emu: it does not begin with EMUREC; make one with `emu record`",
    );
    let cut = format!("is truncated: 100 of {} bytes are there; copy it again", good.len());
    refused(&good[..100], &cut);
    let mut bytes = good.clone();
    bytes[100] ^= 4;
    let at = good.len() - 32;
    refused(
        &bytes,
        &format!("is damaged: its SHA-256 is not the one at offset {at:#x}; copy it again"),
    );
    bytes[8] = 2;
    refused(&bytes, "is a recording of version 2, and this emu reads version 1; use a newer emu");

    let error = |words: &[&str]| {
        let finished = run_in(&dir, b"", words);
        assert_eq!(finished.status, 125, "{words:?}");
        finished.stderr
    };
    assert_eq!(error(&["replay", "none.emu"]), "emu: none.emu: No such file or directory\n");
    assert!(error(&["replay", "."]).contains("is a directory; name a regular file"));
    assert!(error(&["record", "hello"]).contains("--output <FILE>"));
    assert!(error(&["record", "-o", "-", "hello"]).contains("name a file"));
    assert!(error(&["record", "-o", "no/x.emu", "hello"]).contains("there is no directory no"));
    assert!(error(&["record", "-o", ".", "hello"]).contains("it is a directory; remove it"));
    assert!(error(&["test", "no"]).contains("No such file or directory"));
    assert!(error(&["test", "/proc/self/fdinfo"]).contains("there is no recording"));
    // Nothing is left of a run that failed.
    assert_eq!(run_in(&dir, b"", &["record", "-o", "x.emu", "--", "./none"]).status, 127);
    assert!(!dir.join("x.emu").exists());
}

#[test]
fn what_is_inside_is_shown() {
    let dir = scratch("recording-info");
    fs::write(dir.join("in"), "x\n").unwrap();
    let words = ["record", "-q", "-o", "run.emu", "--seed", "7", "reader", "in", "none"];
    assert_eq!(run_in(&dir, b"y\n", &words).status, 1);
    let shown = run_in(&dir, b"", &["replay", "--info", "run.emu"]);
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""));
    let has = |line: &str| assert!(shown.stdout.contains(line), "{line}\n{}", shown.stdout);
    has("run.emu: recording of version 1 by emu ");
    has("  guest              reader (x86_64)\n");
    has("  arguments          reader in none\n");
    has(" --seed 7 ");
    has("  standard input     2 bytes read\n");
    has("  end                exited with status 1\n");
    has(r#"  standard output    "in: 1 lines, 2 bytes, sum 00fc0083\n1: y\n""#);
    has("/in  file, 2 bytes\n");
}

/// `emu test` finds what has changed, and blesses it.
#[test]
fn a_directory_of_recordings_is_a_test() {
    let dir = scratch("recording-test");
    for (name, guest) in [("a", "hello"), ("b", "fault")] {
        let file = format!("{name}.emu");
        run_in(&dir, b"", &["record", "-q", "-o", &file, "-c", "100", guest]);
    }
    let test = |words: &[&str]| {
        let words: Vec<&str> = ["test", "."].iter().chain(words).copied().collect();
        let finished = run_in(&dir, b"", &words);
        assert_eq!(finished.stderr, "");
        (finished.status, finished.stdout)
    };
    let (status, text) = test(&[]);
    assert_eq!(status, 1);
    assert!(
        text.starts_with("a  changed\n    ./a.expected: there is no such file; `emu test --bless`")
    );
    assert!(text.ends_with("\n2 recordings, 2 changed\n"), "{text}");
    assert_eq!(test(&["--bless"]), (0, "a  blessed\nb  blessed\n2 recordings, 0 changed\n".into()));
    let ok = (0, "a  ok\nb  ok\n2 recordings, 0 changed\n".to_owned());
    assert_eq!(test(&[]), ok);
    assert_eq!(test(&["--bless"]), ok);

    let file = dir.join("a.expected");
    let good = fs::read_to_string(&file).unwrap();
    let spoilt = good.replace("status 0", "status 1").replace("instructions: 9", "instructions: 8");
    fs::write(&file, spoilt).unwrap();
    let (status, text) = test(&[]);
    let wanted = "a  changed\n    \
        end: expected exited with status 1, found exited with status 0\n    \
        instructions: expected 8, found 9\nb  ok\n2 recordings, 1 changed\n";
    assert_eq!((status, text.as_str()), (1, wanted));
    assert_eq!(test(&["--bless"]).0, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), good);
    // Expectations without a recording, and a recording that cannot be read.
    fs::rename(dir.join("b.emu"), dir.join("c.emu")).unwrap();
    fs::write(dir.join("c.emu"), "x").unwrap();
    let (status, text) = test(&[]);
    assert_eq!(status, 1);
    assert!(text.contains("b  changed\n    ./b.emu: No such file or directory\n"), "{text}");
    assert!(text.contains("c  changed\n    ./c.emu: is no recording of emu"), "{text}");
}

/// A recording of what never ended as it was recorded does not hang a test.
#[test]
fn a_run_out_of_hand_ends() {
    let dir = scratch("recording-runaway");
    Elf::program(Arch::X86_64, &elf::endless(Arch::X86_64)).write(&dir, "endless");
    let words = ["record", "-q", "-o", "a.emu", "--max-instructions", "1000", "--", "./endless"];
    assert_eq!(run_in(&dir, b"", &words).status, 124);
    assert_eq!(run_in(&dir, b"", &["test", "--bless", "."]).status, 0);
    assert_eq!(run_in(&dir, b"", &["test", "."]).status, 0);
    let info = run_in(&dir, b"", &["replay", "--info", "a.emu"]).stdout;
    assert!(info.contains("was stopped by --max-instructions"), "{info}");
    let mut file = fs::File::create(dir.join("b.expected")).unwrap();
    writeln!(file, "no fact").unwrap();
    fs::copy(dir.join("a.emu"), dir.join("b.emu")).unwrap();
    let text = run_in(&dir, b"", &["test", "."]).stdout;
    assert!(text.contains("./b.expected: line 1 is no fact"), "{text}");
}

/// The recordings that are kept here.
#[test]
fn the_recorded_guests_are_as_expected() {
    let finished = finish(emu(&["test"]).arg(root().join("tests/recorded")));
    assert_eq!(finished.status, 0, "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.lines().filter(|l| l.ends_with("  ok")).count() >= 4);
}
