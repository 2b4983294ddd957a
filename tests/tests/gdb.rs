//! Walks by DWARF against those of the installed gdb: both see the same registers and the same
//! stack of a program that really runs.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arch::{Arch, Regs};
use tests::{catalogue, scratch};
use unwinder::elf::Slice;
use unwinder::memory::Copied;
use unwinder::{Context, End, InstructionPointer, Module, Modules, Policy, Registers, Walk};

/// Where Linux puts the end of the stack if addresses are not chosen at random.
const STACK_END: u64 = 0x7fff_ffff_f000;

/// Instructions that gdb stops at, behind the breakpoint.
const STEPS: usize = 24;

/// A stop, as gdb tells it.
struct Stop {
    regs: Regs,
    stack: Vec<u8>,
    /// Program counter and stack pointer of each frame.
    frames: Vec<(u64, u64)>,
    /// gdb does not trust its own frames.
    corrupt: bool,
}

/// What gdb does at each stop: prints registers and frames, dumps the stack.
fn at_stop(dump: &Path) -> String {
    let names = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    let mut text = String::from("echo STOP\\n\n");
    let more = (8..16).map(|n| format!("r{n}"));
    for name in names.iter().map(ToString::to_string).chain(more).chain(["rip".to_owned()]) {
        text += &format!("printf \"REG %lx\\n\", ${name}\n");
    }
    text += &format!("dump binary memory {} $rsp {STACK_END:#x}\n", dump.display());
    text + "frame apply all -q -c printf \"FRAME %lx %lx\\n\", $pc, $sp\n"
}

/// Runs `guest` with `args` until the breakpoint `at` was passed `ignored` times, and some
/// instructions on. `None`: gdb is not installed, or may not run programs here.
fn stops(guest: &Path, args: &str, at: &str, ignored: usize, dir: &Path) -> Option<Vec<Stop>> {
    let mut script = String::from(
        "set confirm off\nset pagination off\nset width 0\nset disable-randomization on\n\
         set backtrace past-main on\nset backtrace limit 4000\nset debuginfod enabled off\n",
    );
    script += &format!("break *{at}\nignore 1 {ignored}\nrun {args} > /dev/null\n");
    let dump = |n: usize| dir.join(format!("stack{n}"));
    for n in 0..STEPS {
        script += &at_stop(&dump(n));
        script += "stepi\n";
    }
    let file = dir.join("script");
    std::fs::write(&file, script + "kill\n").unwrap();
    let out = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .args([&file, &guest.to_owned()])
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output();
    let Ok(out) = out else {
        eprintln!("left out: gdb is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!errors.contains("No symbol"), "{}: {errors}", guest.display());
    let parts: Vec<&str> = text.split("STOP\n").skip(1).collect();
    let found: Vec<Stop> =
        parts.iter().enumerate().filter_map(|(n, part)| stop(part, &dump(n), &errors)).collect();
    if found.is_empty() {
        eprintln!("left out: gdb does not run {}: {errors}", guest.display());
        return None;
    }
    Some(found)
}

fn stop(text: &str, dump: &Path, errors: &str) -> Option<Stop> {
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let mut values = text.lines().filter_map(|l| l.strip_prefix("REG ")).map(hex);
    let mut regs = Regs::new(Arch::X86_64);
    for n in 0..16 {
        regs.gp[n] = values.next()?;
    }
    regs.pc = values.next()?;
    let frame = |line: &str| {
        let (pc, sp) = line.strip_prefix("FRAME ")?.split_once(' ')?;
        Some((hex(pc), hex(sp)))
    };
    let mut frames: Vec<(u64, u64)> = text.lines().filter_map(frame).collect();
    // A function that was inlined has the frame of the one around it.
    frames.dedup();
    let stack = std::fs::read(dump).ok()?;
    Some(Stop { regs, stack, frames, corrupt: errors.contains("corrupt stack") })
}

/// How many frames were the same.
fn compare(name: &str, modules: &Modules<Slice<&[u8]>>, stop: &Stop) -> usize {
    let Stop { regs, stack, frames, corrupt } = stop;
    let memory = Copied { address: regs.sp(), bytes: &stack[..] };
    let (start, registers) = (InstructionPointer(regs.pc).into(), Registers::of_thread(regs));
    let mut context = Context::new();
    let mut walk =
        Walk::new(Policy::dwarf(), modules, start, &registers, memory, &mut context).limit(4000);
    let ours: Vec<u64> = walk.by_ref().map(|frame| frame.address.value()).collect();
    let end = walk.end();
    let theirs: Vec<u64> = frames.iter().map(|(pc, _)| *pc).collect();
    let common = ours.len().min(theirs.len());
    assert!(common > 0, "{name} at {:#x}: {ours:x?} {end:?}, gdb: {theirs:x?}", regs.pc);
    assert_eq!(ours[..common], theirs[..common], "{name} at {:#x}, {end:?}", regs.pc);
    let claimed = matches!(end, Some(End::Undefined | End::NullReturnAddress));
    if claimed && !corrupt {
        assert_eq!(ours, theirs, "{name} at {:#x}, {end:?}", regs.pc);
    }
    // Neither gives up in the middle of what the other one can walk.
    assert!(ours.len() >= theirs.len() || !claimed, "{name} at {:#x}, {end:?}", regs.pc);
    common
}

fn guest(name: &str) -> PathBuf {
    let catalogue = catalogue();
    catalogue.path(catalogue.find(name).unwrap(), "x86_64")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn walks_are_those_of_gdb() {
    let cases = [
        ("recursion-glibc", "12 20", "fib", 300, 200),
        ("recursion-glibc", "5 40", "descend", 30, 700),
        ("recursion", "12 20", "fib", 300, 200),
        ("recursion-nofp", "12 20", "fib", 300, 200),
        ("recursion-nofp", "5 40", "is_odd", 10, 200),
        ("qsort-glibc", "", "main", 0, 40),
        ("cpp-throw", "", "__cxa_throw", 3, 80),
        ("golden-nofp", "sig 3", "handler_leaf", 0, 60),
    ];
    let dir = scratch("gdb");
    for (name, args, at, ignored, least) in cases {
        let path = guest(name);
        let bytes = std::fs::read(&path).unwrap();
        let modules = Modules::new([Module::from_elf(name, &bytes[..], 0).unwrap()]);
        let Some(stops) = stops(&path, args, at, ignored, &dir) else { return };
        let frames: usize =
            stops.iter().map(|s| compare(&format!("{name} {at}"), &modules, s)).sum();
        println!("{name} {at}: {} stops, {frames} frames", stops.len());
        assert!(frames >= least, "{name} {at}: {} stops, {frames} frames", stops.len());
    }
}
