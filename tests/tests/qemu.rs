//! Another emulator executes the same instructions in the same order: QEMU's user
//! emulation, which prints the address of every instruction. Each test prints a note and
//! passes where it is not installed.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::Path;
use std::process::{Command, Stdio};

use arch::Arch;
use tests::harness::Harness;
use tests::trace::trace;
use tests::{catalogue, scratch};

/// Guests, arguments, and the function from which on to compare: how a C library starts
/// depends on the environment and the kernel's vectors.
const RUNS: [(&str, &[&str], Option<&str>); 9] = [
    ("hello", &[], None),
    ("golden-fp", &["cpu", "1"], None),
    ("golden-fp", &["nosleep", "20"], None),
    ("golden-leaf", &["deep", "2", "100"], None),
    ("golden-nofp", &["sig", "5"], None),
    ("golden-fp", &["fault", "16"], None),
    ("hello-musl", &[], Some("main")),
    ("recursion", &["6", "30"], Some("main")),
    ("signals", &[], Some("main")),
];

/// The addresses of all instructions of a run under QEMU.
fn qemu(arch: Arch, program: &Path, args: &[&str], dir: &Path) -> Option<Vec<u64>> {
    let log = dir.join("qemu.log");
    // The option's name changed in QEMU 8.1.
    for option in ["-one-insn-per-tb", "-singlestep"] {
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(format!("qemu-{arch}"));
        if arch == Arch::Aarch64 {
            // With the cache lines of ordinary processors: `memset` asks for them.
            command.args(["-cpu", "cortex-a72"]);
        }
        command.args([option, "-d", "exec,nochain", "-D"]).arg(&log).arg(program).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Err(e) = command.status() {
            println!("skipped: cannot run qemu-{arch}: {e}");
            return None;
        }
        // Trace 0: HOST [FLAGS/PC/FLAGS/FLAGS] SYMBOL
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let pcs: Vec<u64> = text
            .lines()
            .filter_map(|l| l.split_once('[')?.1.split('/').nth(1))
            .filter_map(|pc| u64::from_str_radix(pc, 16).ok())
            .collect();
        if !pcs.is_empty() {
            return Some(pcs);
        }
    }
    println!("skipped: qemu-{arch} prints no trace");
    None
}

fn address(program: &Path, name: &str) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let elf = goblin::elf::Elf::parse(&bytes).unwrap();
    let symbol = elf.syms.iter().find(|s| elf.strtab.get_at(s.st_name) == Some(name));
    symbol.unwrap_or_else(|| panic!("{}: no {name}", program.display())).st_value
}

/// From the first to the last address of the program's code.
fn code(program: &Path) -> std::ops::Range<u64> {
    let bytes = std::fs::read(program).unwrap();
    let elf = goblin::elf::Elf::parse(&bytes).unwrap();
    let segments = elf.program_headers.iter().filter(|p| p.is_executable() && p.p_memsz > 0);
    let ranges: Vec<_> = segments.map(|p| (p.p_vaddr, p.p_vaddr + p.p_memsz)).collect();
    ranges.iter().map(|r| r.0).min().unwrap()..ranges.iter().map(|r| r.1).max().unwrap()
}

fn same_instructions(arch: Arch) {
    let dir = scratch(&format!("qemu-{arch}"));
    let catalogue = catalogue();
    for (guest, args, from) in RUNS {
        let what = format!("{guest} {} on {arch}", args.join(" "));
        let program = catalogue.path(catalogue.find(guest).unwrap(), arch.name());
        let Some(mut theirs) = qemu(arch, &program, args, &dir) else { return };
        let mut ours = trace(&Harness::new(arch, guest).args(args)).pcs;
        // The first is the program's start, where nothing has retired yet.
        ours[0] = theirs[0];
        if let Some(function) = from {
            let start = address(&program, function);
            for pcs in [&mut ours, &mut theirs] {
                let at = pcs.iter().position(|&pc| pc == start);
                pcs.drain(..at.unwrap_or_else(|| panic!("{what}: {function} is not called")));
            }
        }
        let code = code(&program);
        for pcs in [&mut ours, &mut theirs] {
            // The vDSO is somewhere else there.
            pcs.retain(|pc| code.contains(pc));
            // QEMU prints each round of a `rep`.
            pcs.dedup();
        }
        let differ = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        if let Some(at) = differ {
            let near = at.saturating_sub(3)..(at + 3).min(ours.len()).min(theirs.len());
            panic!("{what}, at {at}: {:x?}, QEMU {:x?}", &ours[near.clone()], &theirs[near]);
        }
        assert_eq!(ours.len(), theirs.len(), "{what}: instructions");
    }
}

#[test]
fn same_instructions_on_x86_64() {
    same_instructions(Arch::X86_64);
}

#[test]
fn same_instructions_on_aarch64() {
    same_instructions(Arch::Aarch64);
}
