//! Hardware breakpoints (`mem:` events): every load, store and execution that is made is hit,
//! where the processor traps, and nothing else changes.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use arch::Arch;
use tests::program::{Finished, emu, finish};
use tests::scratch;

/// The word that the guest adds to, once in each round of `cpu`.
const fn sink(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "0x413070",
        Arch::Aarch64 => "0x402ff0",
    }
}

/// A profile as text; every law is watched.
fn run(name: &str, arch: Arch, words: &[&str]) -> Finished {
    let profile = scratch(&format!("breakpoints-{name}-{arch}")).join("profile");
    let profile = profile.display().to_string();
    let front =
        ["run", "-g", "-o", &profile, "--laws", "--format", "script", "--arch", arch.name()];
    let mut finished = finish(&mut emu(&[&front[..], words].concat()));
    assert_eq!(finished.status, 0, "{words:?}: {}", finished.stderr);
    assert!(finished.stderr.contains(" 0 broken, "), "{}", finished.stderr);
    finished.stdout = std::fs::read_to_string(profile).unwrap_or_default();
    finished
}

/// The innermost address of each sample of the event whose name begins so.
fn places(text: &str, event: &str) -> Vec<u64> {
    let samples = text.split("\n\n").filter(|sample| sample.contains(event));
    let addr = |sample: &str| {
        let word = sample.lines().nth(1)?.split_whitespace().next()?;
        u64::from_str_radix(word, 16).ok()
    };
    samples.filter_map(addr).collect()
}

/// The addresses of a function's instructions that have this mnemonic and name the sink, or of
/// all that have the mnemonic where the address is in a register.
fn instructions(arch: Arch, function: &str, has: &str) -> Vec<u64> {
    let guest = format!("{}/../guests/bin/{arch}/golden-fp", env!("CARGO_MANIFEST_DIR"));
    let shown = finish(&mut emu(&["show", &guest, "--function", function])).stdout;
    let of = |line: &str| {
        let addr = line.strip_prefix("    ")?.split(' ').next()?;
        line.contains(has).then(|| u64::from_str_radix(addr, 16).ok()).flatten()
    };
    shown.lines().filter_map(of).collect()
}

/// `spin` loads the word, adds, stores it. x86_64 traps behind the access, aarch64 before it.
#[test]
fn stores_and_loads() {
    for arch in Arch::ALL {
        let counts = [("w", 7), ("rw", 14)];
        for (access, count) in counts {
            let event = format!("mem:{}/8:{access}", sink(arch));
            let text = run(access, arch, &["-e", &event, "golden-fp", "cpu", "7"]).stdout;
            let places = places(&text, "mem:");
            assert_eq!(places.len(), count, "{arch} {access}: {text}");
            let chain = ["spin", "inner", "middle", "outer", "rounds"];
            let sample = text.split("\n\n").next().unwrap();
            let from = usize::from(!sample.contains("inner+"));
            assert!(sample.lines().nth(1).unwrap().contains("spin+"), "{arch}: {sample}");
            for name in &chain[1 + from..] {
                assert!(sample.contains(&format!(" {name}+")), "{arch}: {sample}");
            }
        }
        let event = format!("mem:{}/8:w", sink(arch));
        let text = run("place", arch, &["-e", &event, "golden-fp", "cpu", "1"]).stdout;
        let place = places(&text, "mem:")[0];
        match arch {
            Arch::X86_64 => {
                // The store is `mov %rdx, sink`, 7 bytes long.
                let store = instructions(arch, "spin", "], rdx");
                assert!(store.iter().any(|at| at + 7 == place), "{place:x} {store:x?}");
            }
            Arch::Aarch64 => {
                assert!(instructions(arch, "spin", "str").contains(&place), "{place:x}");
            }
        }
    }
}

/// Another word of the same page, a part of the word, its neighbours; handlers of signals.
#[test]
fn what_is_touched() {
    for arch in Arch::ALL {
        let base = u64::from_str_radix(&sink(arch)[2..], 16).unwrap();
        let hits = |offset: i64, len: u64| {
            let event = format!("mem:{:#x}/{len}:w", base.wrapping_add_signed(offset));
            let text = run("touched", arch, &["-e", &event, "golden-fp", "cpu", "3"]).stdout;
            let hits = text.split("\n\n").filter(|sample| sample.contains("mem:"));
            hits.filter(|sample| sample.contains(" spin+")).count()
        };
        // The start of the guest stores the variable before it once, outside `spin`.
        assert_eq!([hits(7, 1), hits(4, 2), hits(0, 1)], [3, 3, 3], "{arch}");
        assert_eq!([hits(-8, 8), hits(8, 8), hits(-1, 1)], [0, 0, 0], "{arch}");
        // Three stores for each signal, two of them in the handler.
        let event = format!("mem:{}/8:w", sink(arch));
        let text = run("signals", arch, &["-e", &event, "golden-fp", "sig", "5"]).stdout;
        assert_eq!(places(&text, "mem:").len(), 15, "{arch}: {text}");
    }
}

/// Before the instruction, as often as a user probe at the same place is hit.
#[test]
fn execution() {
    for arch in Arch::ALL {
        let event = "mem:spin:x,mem:sys_getpid:x:u";
        let text = run("execute", arch, &["-e", event, "golden-fp", "cpu", "4"]).stdout;
        assert_eq!(places(&text, "mem:spin").len(), 4, "{arch}: {text}");
        let probe = run("probe", arch, &["-e", "uprobe:spin", "golden-fp", "cpu", "4"]).stdout;
        assert_eq!(places(&text, "mem:spin"), places(&probe, "uprobe:"), "{arch}");
        let text = run("calls", arch, &["-e", event, "golden-fp", "sys", "6"]).stdout;
        assert_eq!(places(&text, "mem:sys_getpid").len(), 6, "{arch}: {text}");
    }
}

/// What a system call copies hits as on the processor: on x86_64 in the routine that copies, on
/// aarch64 `watchpoint_report` passes over it.
#[test]
fn copies_of_the_kernel() {
    for arch in Arch::ALL {
        let guest = format!("{}/../guests/bin/{arch}/hello", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(guest).unwrap();
        let text = b"hello from assembly";
        let offset = bytes.windows(text.len()).position(|w| w == text).unwrap() as u64;
        let elf = goblin::elf::Elf::parse(&bytes).unwrap();
        let of = |p: &&goblin::elf::ProgramHeader| {
            p.p_type == 1 && p.file_range().contains(&(offset as usize))
        };
        let segment = elf.program_headers.iter().find(of).unwrap();
        let addr = segment.p_vaddr + offset - segment.p_offset;
        for (words, count) in [("rw", 1), ("w", 0), ("rw:u", 0), ("rw:k", 1)] {
            let event = format!("mem:{addr:#x}/1:{words}");
            let text = run("copies", arch, &["-e", &event, "hello"]).stdout;
            let wanted = if arch == Arch::X86_64 { count } else { 0 };
            assert_eq!(places(&text, "mem:").len(), wanted, "{arch} {words}: {text}");
            assert!(wanted == 0 || text.contains(" ksys_write+"), "{text}");
        }
    }
}

/// The kernel does not touch this word: with `:k` there is nothing to be counted.
#[test]
fn modifiers_and_periods() {
    for arch in Arch::ALL {
        for (modifier, count) in [("", 9), (":u", 9), (":k", 0)] {
            let event = format!("mem:{}/8:w{modifier}", sink(arch));
            let text = run("modifier", arch, &["-e", &event, "golden-fp", "cpu", "9"]).stdout;
            assert_eq!(places(&text, "mem:").len(), count, "{arch} {modifier}: {text}");
        }
        let event = format!("mem:{}/8:w", sink(arch));
        let text = run("period", arch, &["-c", "3", "-e", &event, "golden-fp", "cpu", "9"]).stdout;
        assert_eq!(places(&text, "mem:").len(), 3, "{arch}: {text}");
    }
}

/// The guest counts, prints and ends as without breakpoints; deferred callchains come.
#[test]
fn the_guest_is_not_disturbed() {
    for arch in Arch::ALL {
        let of = |stderr: &str, what: &str| {
            let line = stderr.lines().find(|line| line.contains(what)).unwrap_or_default();
            line.split_whitespace().last().unwrap_or_default().to_owned()
        };
        let plain = run("plain", arch, &["-e", "page-faults", "golden-fp", "sig", "20"]).stderr;
        let events = format!("mem:{}/8:rw,mem:handler_leaf:x", sink(arch));
        let words = ["--call-graph", "fp,defer", "-e", &events, "golden-fp", "sig", "20"];
        let watched = run("watched", arch, &words).stderr;
        for what in ["instructions  ", "page faults", "signals handled", "system calls"] {
            assert_eq!(of(&plain, what), of(&watched, what), "{arch} {what}: {watched}");
        }
        assert!(of(&plain, "signals handled") == "20", "{plain}");
    }
}

#[test]
fn what_the_processor_has_not_is_refused() {
    let five = ["mem:0x1000,mem:0x2000,mem:0x3000,mem:0x4000", "mem:0x5000"].join(",");
    for (arch, event, told) in [
        (Arch::X86_64, "mem:0x413070/8:r", "cannot watch loads alone"),
        (Arch::X86_64, "mem:0x413074/8:w", "a multiple of the length"),
        (Arch::X86_64, "mem:0x413070/3:w", "has to be 1, 2, 4 or 8"),
        (Arch::X86_64, "mem:0x413070/4:x", "has to be 8"),
        (Arch::Aarch64, "mem:0x413070/9:w", "has to be 1 to 8"),
        (Arch::X86_64, "mem:0xffffffff81000000:w", "kernel memory"),
        (Arch::X86_64, "mem:no_such_function:x", "no function of this name"),
        (Arch::X86_64, "mem:0x413070:rq", "a breakpoint is mem:ADDRESS"),
        (Arch::Aarch64, "mem:", "a breakpoint is mem:ADDRESS"),
        (Arch::X86_64, "mem:0x413070:wx", "a breakpoint is mem:ADDRESS"),
        (Arch::X86_64, &five, "\"mem:0x5000\": the processor has no breakpoint left"),
        (Arch::Aarch64, &five, "ENOSPC"),
    ] {
        let words = ["run", "--arch", arch.name(), "-e", event, "golden-fp", "cpu", "1"];
        let finished = finish(&mut emu(&words));
        assert_ne!(finished.status, 0, "{event}");
        assert!(finished.stderr.contains(told), "{event}: {}", finished.stderr);
    }
}
