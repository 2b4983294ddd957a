//! Probes of `-e`: breakpoints in the guest, and on functions of the kernel. The chains are as
//! measured (Linux 7.3, `docs/golden-captures.md`), the guest is not disturbed.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use tests::program::{Finished, emu, finish};
use tests::scratch;

fn run(name: &str, words: &[&str]) -> Finished {
    let profile = scratch(&format!("probes-{name}")).join("profile").display().to_string();
    let front = ["run", "-o", &profile, "--laws", "--format", "script"];
    let mut finished = finish(&mut emu(&[&front[..], words].concat()));
    assert_eq!(finished.status, 0, "{words:?}: {}", finished.stderr);
    assert!(finished.stderr.contains(" 0 broken, "), "{}", finished.stderr);
    finished.stdout = std::fs::read_to_string(profile).unwrap();
    finished
}

/// The functions of each sample in a profile as text, innermost first, with their offsets.
fn chains(text: &str) -> Vec<Vec<String>> {
    let samples = text.split("\n\n").filter(|s| !s.trim().is_empty());
    let frame = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    samples.map(|sample| sample.lines().skip(1).map(frame).collect()).collect()
}

fn names(chain: &[String]) -> Vec<&str> {
    chain.iter().map(|f| f.split('+').next().unwrap()).collect()
}

const GUEST: [&str; 3] = ["golden-fp", "sys", "5"];

/// At `push %rbp` the immediate walk knows that the caller is at the stack pointer; on aarch64
/// it does not.
#[test]
fn a_function_start_and_the_immediate_walk() {
    for arch in Arch::ALL {
        let words = ["--arch", arch.name(), "-e", "uprobe:sys_getpid", "-c", "1"];
        let text = run(&format!("start-{arch}"), &[&words[..], &GUEST].concat()).stdout;
        let chains = chains(&text);
        assert_eq!(chains.len(), 5, "{arch}: {text}");
        for chain in chains {
            assert_eq!(chain[0], "sys_getpid+0x0", "{arch}");
            let wanted: &[&str] = match arch {
                Arch::X86_64 => &["sys_getpid", "inner", "middle", "outer"],
                Arch::Aarch64 => &["sys_getpid", "middle", "outer"],
            };
            assert_eq!(names(&chain)[..wanted.len()], *wanted, "{arch}");
        }
    }
}

/// The push has been emulated when the stack is walked later: its caller is missing.
#[test]
fn a_function_start_and_the_deferred_walk() {
    let words = ["--call-graph", "fp,defer", "-e", "uprobe:sys_getpid", "-c", "1"];
    let text = run("deferred", &[&words[..], &GUEST].concat()).stdout;
    for chain in chains(&text) {
        assert_eq!(chain[0], "sys_getpid+0x1");
        assert_eq!(names(&chain)[..3], ["sys_getpid", "middle", "outer"]);
    }
}

/// A kernel function at its first instruction: on aarch64 its caller is missing.
#[test]
fn kernel_functions() {
    for arch in Arch::ALL {
        let words = ["--arch", arch.name(), "-e", "kprobe:hrtimer_nanosleep", "-c", "1"];
        let text = run(&format!("kernel-{arch}"), &[&words[..], &GUEST].concat()).stdout;
        let chains = chains(&text);
        assert_eq!(chains.len(), 5, "{arch}: {text}");
        let wanted = match arch {
            Arch::X86_64 => ["hrtimer_nanosleep", "__x64_sys_nanosleep", "do_syscall_64"],
            Arch::Aarch64 => {
                ["hrtimer_nanosleep", "invoke_syscall.constprop.0", "el0_svc_common.constprop.0"]
            }
        };
        for chain in chains {
            assert_eq!(names(&chain)[..3], wanted, "{arch}");
            assert!(names(&chain).contains(&"sys_nanosleep"), "{arch}: {chain:?}");
        }
    }
}

/// Every function of a guest that runs probed goes on as without: the same output, the same
/// ending, also in threads, children and handlers.
#[test]
fn the_guest_is_not_disturbed() {
    let guests = [
        ("tasks", "uprobe:worker,uprobe:main,uprobe:pthread_mutex_lock,uprobe:raise"),
        ("signals", "uprobe:main,uprobe:raise,uprobe:write"),
        ("recursion", "uprobe:descend,uprobe:main"),
        ("tasks", "uretprobe:worker,uretprobe:fork,uretprobe:pipes,uretprobe:programs"),
        ("recursion", "uretprobe:descend,uretprobe:main,uprobe:descend"),
    ];
    for arch in Arch::ALL {
        for (guest, probes) in guests {
            for cpus in ["1", "3"] {
                let words = ["run", "-q", "--arch", arch.name(), "--cpus", cpus, "-o"];
                let file = scratch("probes-same").join("profile").display().to_string();
                let words = [&words[..], &[&file, "-c", "1009", guest]].concat();
                let plain = finish(&mut emu(&words));
                let known: Vec<&str> = probes.split(',').collect();
                let mut probed = words.clone();
                for probe in known {
                    let alone =
                        finish(&mut emu(&[&words[..2], &["-e", probe], &words[2..]].concat()));
                    // What a guest of this architecture has not is said, and left out.
                    if alone.status == 125 {
                        assert!(alone.stderr.contains("no function of this name"), "{alone:?}");
                        continue;
                    }
                    probed.splice(2..2, ["-e", probe]);
                }
                assert!(probed.len() > words.len(), "{guest}: no probe has a place");
                let probed = finish(&mut emu(&probed));
                assert_eq!(plain.stdout, probed.stdout, "{guest} on {arch}, {cpus} CPUs");
                assert_eq!(plain.status, probed.status, "{guest} on {arch}, {cpus} CPUs");
            }
        }
    }
}

/// An address in the middle of a function: the instruction is executed in place. Two probes at
/// one place are both hit.
#[test]
fn any_instruction() {
    let words = ["-e", "uprobe:middle", "-c", "1"];
    let text = run("first", &[&words[..], &GUEST].concat()).stdout;
    let start = text.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let start = u64::from_str_radix(start, 16).unwrap();
    // `push %rbp; mov %rsp,%rbp`
    let place = format!("uprobe:{:#x}", start + 1);
    let words = ["-e", &place, "-e", &place, "-e", "uprobe:middle", "-c", "1"];
    let text = run("middle", &[&words[..], &GUEST].concat()).stdout;
    let chains = chains(&text);
    let at = |offset: &str| chains.iter().filter(|c| c[0] == format!("middle+{offset}")).count();
    assert_eq!((at("0x0") * 2, at("0x1")), (at("0x1"), chains.len() / 3 * 2), "{text}");
}

/// Functions return to where they were called, whose caller is next; a pending return does not
/// cut the immediate walk.
#[test]
fn returns_and_the_immediate_walk() {
    for arch in Arch::ALL {
        let words = ["--arch", arch.name(), "-c", "1", "-e", "uprobe:sys_getpid"];
        let returns = ["-e", "uretprobe:sys_getpid,uretprobe:inner,uretprobe:outer"];
        let words = [&words[..], &returns, &GUEST].concat();
        let text = run(&format!("returns-{arch}"), &words).stdout;
        let chains = chains(&text);
        assert_eq!(chains.len(), 20, "{arch}: {text}");
        for round in chains.chunks(4) {
            let round: Vec<Vec<&str>> = round.iter().map(|chain| names(chain)).collect();
            let entry = if arch == Arch::X86_64 { 2 } else { 1 };
            assert_eq!(round[0][entry..][..3], ["middle", "outer", "rounds"], "{arch}: {text}");
            assert_eq!(round[1][..4], ["inner", "middle", "outer", "rounds"], "{arch}: {text}");
            assert_eq!(round[2][..3], ["middle", "outer", "rounds"], "{arch}: {text}");
            assert_eq!(round[3][0], "rounds", "{arch}: {text}");
        }
        assert!(text.contains(" <- "), "{text}");
    }
}

/// The deferred walk finds the trampoline's address where a return is pending (U-7).
#[test]
fn returns_and_the_deferred_walk() {
    let chain_of_call = |name: &str, call_graph: &[&str]| {
        let words = ["-c", "1", "-e", "syscalls:sys_enter_getpid:u", "-e", "uretprobe:inner"];
        let words = [call_graph, &["--user-callchains"], &words[..], &GUEST].concat();
        let text = run(name, &words).stdout;
        let is_call = |sample: &&str| sample.contains("sys_enter_getpid:");
        let calls: Vec<&str> = text.split("\n\n").filter(is_call).collect();
        assert_eq!(calls.len(), 5, "{text}");
        calls.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for call in chain_of_call("returns-deferred", &["--call-graph", "fp,defer"]) {
        let frames: Vec<&str> = call.lines().skip(1).collect();
        assert!(frames[0].contains("sys_getpid+") && frames[1].contains("inner+"), "{call}");
        assert!(frames[2].contains("[unknown]") && frames[3].contains("outer+"), "{call}");
    }
    for call in chain_of_call("returns-immediate", &[]) {
        assert!(!call.contains("[unknown]") && call.contains("middle+"), "{call}");
    }
}

/// One return hits all functions that tail-called each other, the last one first; those that
/// `longjmp` went past do not return, and what is called afterwards does.
#[test]
fn returns_of_tail_calls_and_longjmp() {
    for arch in Arch::ALL {
        let functions = ["t1", "t2", "t3", "jumper", "thrower", "catcher"];
        let events = functions.map(|f| format!("uretprobe:{f}")).join(",");
        let words = ["--arch", arch.name(), "-c", "1", "-e", &events, "lab-tailcall-fp"];
        let text = run(&format!("tail-calls-{arch}"), &words).stdout;
        let hits = text.lines().filter(|line| line.contains(" <- "));
        let hits: Vec<&str> =
            hits.filter_map(|l| l.split("uretprobe:").nth(1)?.split(':').next()).collect();
        assert_eq!(hits, ["t3", "t2", "t1", "catcher"], "{arch}: {text}");
        assert!(chains(&text).iter().all(|chain| names(chain)[0] == "main"), "{arch}: {text}");
        // Each round leaves one behind.
        let words = ["--arch", arch.name(), "-c", "1", "-e", "uretprobe:jump,uretprobe:round"];
        let text = run(&format!("longjmp-{arch}"), &[&words[..], &["zoo-longjmp"]].concat()).stdout;
        assert_eq!(text.matches("uretprobe:jump").count(), 0, "{arch}: {text}");
        assert_eq!(text.matches("uretprobe:round").count(), 20, "{arch}: {text}");
    }
}

/// The true stack knows that a return to the trampoline is one to the caller: nothing is lost
/// behind it. Where the return of `inner` is pending, unwinders find the trampoline, and no more.
#[test]
fn returns_and_the_truth() {
    let inner = "uretprobe:inner,syscalls:sys_enter_nanosleep:u";
    let both = format!("uretprobe:sys_getpid,{inner}");
    let all = "10 samples against the true stack: fp 100 %, dwarf 100 %";
    let third = "15 samples against the true stack: fp 66.7 % (5 wrong tail), dwarf 66.7 %";
    for arch in Arch::ALL {
        for (events, wanted) in [(inner, all), (&*both, third)] {
            let profile = scratch(&format!("probes-truth-{arch}")).join("profile");
            let profile = profile.display().to_string();
            let words = ["run", "--truth", "--arch", arch.name(), "-c", "1", "-o"];
            let words = [&words[..], &[&profile, "-e", events], &GUEST].concat();
            let told = finish(&mut emu(&words)).stderr;
            assert!(told.contains(wanted), "{arch}: {told}");
        }
    }
}

/// The addresses of a function's instructions.
fn instructions(arch: Arch, function: &str) -> Vec<String> {
    let guest = format!("{}/../guests/bin/{arch}/golden-fp", env!("CARGO_MANIFEST_DIR"));
    let shown = finish(&mut emu(&["show", &guest, "--function", function])).stdout;
    let addresses = shown.lines().filter_map(|line| line.strip_prefix("    ")?.split(' ').next());
    let is_hex = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_hexdigit());
    addresses.filter(is_hex).map(str::to_owned).collect()
}

/// Whether it is executed in place or emulated (`push`, jumps, calls, `ret` on aarch64), every
/// instruction can be probed, and the true stack is followed through it.
#[test]
fn every_instruction_and_the_truth() {
    for arch in Arch::ALL {
        for function in ["inner", "middle", "outer", "rounds", "guest_main"] {
            let addresses = instructions(arch, function);
            assert!(addresses.len() > 8, "{arch} {function}: {addresses:?}");
            let probes: Vec<String> = addresses.iter().map(|a| format!("uprobe:0x{a}")).collect();
            let profile = scratch(&format!("probes-every-{arch}-{function}")).join("profile");
            let profile = profile.display().to_string();
            let probes = probes.join(",") + ",syscalls:sys_enter_nanosleep:u";
            let words = ["run", "--truth", "--arch", arch.name(), "-c", "1", "-o"];
            let words = [&words[..], &[&profile, "-e", &probes], &GUEST].concat();
            let told = finish(&mut emu(&words));
            assert_eq!(told.status, 0, "{arch} {function}: {}", told.stderr);
            let exact = told.stderr.contains(", dwarf 100 %,");
            assert!(exact && !told.stderr.contains("undecided"), "{function}: {}", told.stderr);
        }
    }
}

/// A call is emulated: a deferred walk begins in the function that was called.
#[test]
fn a_call_and_the_deferred_walk() {
    let call = instructions(Arch::X86_64, "middle")[6].clone();
    for (call_graph, wanted) in [("fp", "middle+0xe"), ("fp,defer", "inner+0x0")] {
        let place = format!("uprobe:0x{call}");
        let words = ["--call-graph", call_graph, "-e", &place, "-c", "1"];
        let text = run("call", &[&words[..], &GUEST].concat()).stdout;
        let chains = chains(&text);
        assert_eq!(chains.len(), 5, "{text}");
        assert!(chains.iter().all(|chain| chain[0] == wanted), "{call_graph}: {text}");
    }
}

/// A program that `execve` begins is probed, as it runs the same file; a return that the old
/// program awaited does not come.
#[test]
fn the_next_program_is_probed() {
    for arch in Arch::ALL {
        let guest = format!("{}/../guests/bin/{arch}/golden-fp", env!("CARGO_MANIFEST_DIR"));
        let guest = std::fs::canonicalize(guest).unwrap().display().to_string();
        let events = "uprobe:sys_getpid,uretprobe:sys_getpid,uretprobe:do_exec";
        let text = run(&format!("exec-{arch}"), &["-c", "1", "-e", events, &guest, "exec"]).stdout;
        assert_eq!(text.matches(" uprobe:sys_getpid:").count(), 2, "{arch}: {text}");
        assert_eq!(text.matches("uretprobe:sys_getpid:").count(), 2, "{arch}: {text}");
        assert_eq!(text.matches("uretprobe:do_exec:").count(), 0, "{arch}: {text}");
    }
}

#[test]
fn places_that_are_none_are_refused() {
    for (probe, told) in [
        ("uprobe:no_such_function", "no function of this name"),
        ("uprobe:0x10", "no code of the program at 0x10"),
        ("uretprobe:0x10", "no code of the program at 0x10"),
        ("kprobe:no_such_function", "no modelled kernel function"),
        ("kprobe:entry_SYSCALL_64_after_hwframe", "entry code may not be probed, nor its tracing"),
        ("kprobe:trace_hardirqs_off", "entry code may not be probed, nor its tracing"),
        ("uprobe:", "where?"),
        ("uretprobe:", "where?"),
        ("uretprobe:no_such_function", "no function of this name"),
    ] {
        let finished = finish(&mut emu(&["run", "-e", probe, "hello"]));
        assert_eq!(finished.status, 125, "{probe}: {}", finished.stderr);
        assert!(finished.stderr.contains(told), "{probe}: {}", finished.stderr);
    }
}
