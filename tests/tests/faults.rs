//! What a guest's handler is told of an exception, and what the profile shows of it. On
//! x86_64 the same bytes run natively, and Linux is right.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use arch::Arch;
use emu::perf::record::CpuMode;
use tests::elf::{CODE, DATA, Elf, words};
use tests::harness::Harness;
use tests::program::{emu, raw};
use tests::scratch;
use tests::symbols::for_each;

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const SIGNALS: [u64; 5] = [4, 5, 7, 8, 11];
/// Exit status of a program that got no signal.
const NO_SIGNAL: u8 = 77;

/// `mov r64, imm64`; `register` is the encoding of one of the first eight.
fn mov(register: u8, value: u64) -> Vec<u8> {
    [&[0x48, 0xb8 + register], value.to_le_bytes().as_slice()].concat()
}

const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

fn syscall(nr: u64, args: &[u64]) -> Vec<u8> {
    let mut code: Vec<u8> =
        [RDI, RSI, RDX].iter().zip(args).flat_map(|(r, a)| mov(*r, *a)).collect();
    if let Some(fourth) = args.get(3) {
        // mov r10, imm64
        code.extend([0x49, 0xba]);
        code.extend(fourth.to_le_bytes());
    }
    code.extend(mov(RAX, nr));
    code.extend([0x0f, 0x05]);
    code
}

/// mov [addr], value
fn store(addr: u64, value: u64) -> Vec<u8> {
    [mov(RAX, value), vec![0x48, 0xa3], addr.to_le_bytes().to_vec()].concat()
}

/// Writes the first 24 bytes of the `siginfo_t` and 7 words of the context from RIP on.
const HANDLER: &[u8] = b"\x49\x89\xd4\
    \xbf\x01\x00\x00\x00\xba\x18\x00\x00\x00\xb8\x01\x00\x00\x00\x0f\x05\
    \xbf\x01\x00\x00\x00\x49\x8d\xb4\x24\xa8\x00\x00\x00\xba\x38\x00\x00\x00\
    \xb8\x01\x00\x00\x00\x0f\x05\
    \x31\xff\xb8\xe7\x00\x00\x00\x0f\x05";

/// A program that runs `body` with a handler for [`SIGNALS`] on another stack, and the
/// address of `body`.
fn x86_64(body: &[u8]) -> (Elf, u64) {
    // jmp over the handler
    let mut code = vec![0xe9];
    code.extend((HANDLER.len() as u32).to_le_bytes());
    let handler = CODE + code.len() as u64;
    code.extend(HANDLER);
    // sigaltstack
    code.extend(
        [store(DATA, DATA + 0x4000), store(DATA + 8, 0), store(DATA + 16, 0x4000)].concat(),
    );
    code.extend(syscall(131, &[DATA, 0]));
    // SA_SIGINFO, SA_ONSTACK, SA_RESTORER; the restorer is never reached.
    let action = [handler, 0x0c00_0004, handler, 0];
    for (i, word) in action.into_iter().enumerate() {
        code.extend(store(DATA + 0x40 + 8 * i as u64, word));
    }
    for signal in SIGNALS {
        code.extend(syscall(13, &[signal, DATA + 0x40, 0, 8]));
    }
    let start = CODE + code.len() as u64;
    code.extend(body);
    code.extend(syscall(231, &[u64::from(NO_SIGNAL)]));
    (Elf::program(Arch::X86_64, &code), start)
}

/// What the handler saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    signal: u32,
    code: u32,
    addr: u64,
    /// From the start of the tested bytes.
    pc: u64,
    error: u64,
    trap: u64,
    cr2: u64,
}

fn seen(command: &mut Command, start: u64, name: &str) -> Option<Seen> {
    let out = raw(command);
    let stderr = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(i32::from(NO_SIGNAL)) {
        return None;
    }
    assert_eq!(out.status.code(), Some(0), "{name}: {command:?}: {stderr}");
    assert_eq!(out.stdout.len(), 24 + 56, "{name}: {stderr}");
    let half = |at: usize| u32::from_le_bytes(out.stdout[at..at + 4].try_into().unwrap());
    let word = |at: usize| u64::from_le_bytes(out.stdout[at..at + 8].try_into().unwrap());
    let context = |i: usize| word(24 + 8 * i);
    let (signal, code, addr) = (half(0), half(8), word(16));
    let (error, trap, cr2) = (context(3), context(4), context(6));
    Some(Seen { signal, code, addr, pc: context(0).wrapping_sub(start), error, trap, cr2 })
}

fn emulated(path: &Path, start: u64, name: &str) -> Option<Seen> {
    let dir = path.parent().unwrap();
    let mut command = emu(&["run", "-q", "-o"]);
    command.arg(dir.join("out.data")).arg(path);
    seen(&mut command, start, name)
}

fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let with = |register, value: u64, code: &[u8]| [mov(register, value).as_slice(), code].concat();
    let odd = 0x8000_0000_0000_0000;
    vec![
        ("ud2", b"\x0f\x0b".to_vec()),
        ("int3", b"\xcc".to_vec()),
        ("int 3", b"\xcd\x03".to_vec()),
        ("int 0", b"\xcd\x00".to_vec()),
        ("int 1", b"\xcd\x01".to_vec()),
        ("int 4", b"\xcd\x04".to_vec()),
        ("int 5", b"\xcd\x05".to_vec()),
        ("int 6", b"\xcd\x06".to_vec()),
        ("int 13", b"\xcd\x0d".to_vec()),
        ("int 14", b"\xcd\x0e".to_vec()),
        ("int 16", b"\xcd\x10".to_vec()),
        ("int 0x20", b"\xcd\x20".to_vec()),
        ("int 0xff", b"\xcd\xff".to_vec()),
        ("div", b"\x31\xc9\xf7\xf1".to_vec()),
        ("div behind cd 00", b"\x31\xc9\xb8\x01\x00\xcd\x00\xf7\xf1".to_vec()),
        ("ud2 behind cd 06", b"\xb8\x01\x00\xcd\x06\x0f\x0b".to_vec()),
        ("hlt behind cd 0d", b"\xb8\x01\x00\xcd\x0d\xf4".to_vec()),
        ("read null", b"\x31\xc0\x8a\x00".to_vec()),
        ("write null", b"\x31\xc0\x88\x00".to_vec()),
        ("add to null", b"\x31\xc0\x83\x00\x01".to_vec()),
        ("jump to null", b"\x31\xc0\xff\xe0".to_vec()),
        ("add to code", b"\x48\x8d\x05\x00\x00\x00\x00\x83\x00\x00".to_vec()),
        ("read non-canonical", with(RAX, odd, b"\x8a\x00")),
        ("write non-canonical", with(RAX, odd, b"\x88\x00")),
        ("read across the border", with(RAX, 0x7fff_ffff_ffff, b"\x48\x8b\x00")),
        ("read kernel", with(RAX, 0xffff_ffff_ffff_f000, b"\x8a\x00")),
        ("write kernel", with(RAX, 0xffff_8000_0000_0000, b"\x88\x00")),
        ("jump to kernel", with(RAX, 0xffff_8000_0000_0000, b"\xff\xe0")),
        ("read the last bytes", with(RAX, 0xffff_ffff_ffff_fffc, b"\x48\x8b\x00")),
        ("pop non-canonical", with(RSP, 0x9000_0000_0000, b"\x58")),
        ("push below the border", with(RSP, 0x8000_0000_0000, b"\x50")),
        ("call with a bad stack", with(RSP, 0x9000_0000_0000, b"\xe8\x00\x00\x00\x00")),
        ("read by rsp", with(RSP, odd, b"\x8b\x04\x24")),
        ("read by rbp", with(RBP, odd, b"\x8b\x45\x00")),
        ("x87 division", b"\x68\x60\x03\x00\x00\xd9\x2c\x24\xd9\xee\xd9\xe8\xd8\xf1\x9b".to_vec()),
        ("x87 masked", b"\xd9\xee\xd9\xe8\xd8\xf1\x9b".to_vec()),
    ]
}

/// Signal, code, address, PC, error code, trap number and CR2 are those of Linux.
#[test]
fn as_on_linux() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: no x86_64");
        return;
    }
    let dir = scratch("faults-native");
    for (name, body) in cases() {
        let (elf, start) = x86_64(&body);
        let path = elf.write(&dir, "guest");
        let native = seen(&mut Command::new(&path), start, name);
        assert_eq!(emulated(&path, start, name), native, "{name}");
    }
}

/// `int1` is a trap, so its PC is behind it; `int 0x80` is a system call of another ABI.
#[test]
fn where_linux_cannot_be_asked() {
    let dir = scratch("faults-known");
    let run = |body: &[u8]| {
        let (elf, start) = x86_64(body);
        emulated(&elf.write(&dir, "guest"), start, "known").unwrap()
    };
    let int1 = run(b"\xf1");
    assert_eq!((int1.signal, int1.code, int1.pc, int1.trap), (5, 1, 1, 1));
    let int80 = run(b"\xcd\x80");
    assert_eq!((int80.signal, int80.code, int80.pc, int80.error), (11, 128, 0, 0x402));
    let (elf, _) = x86_64(b"\xcd\x80");
    let outcome = Harness::of_file(Arch::X86_64, elf.write(&dir, "guest"), "/bin/guest").run();
    assert!(outcome.unsupported.iter().any(|u| u.contains("int 0x80")), "{outcome:?}");
}

/// `movz`, `movk` of a 64-bit value.
fn a64_mov(register: u32, value: u64) -> Vec<u32> {
    (0..4)
        .map(|i| {
            let part = (value >> (16 * i)) as u32 & 0xffff;
            let opcode = if i == 0 { 0xd280_0000 } else { 0xf280_0000 };
            opcode | (i as u32) << 21 | part << 5 | register
        })
        .collect()
}

/// A program that runs `body` with a handler for [`SIGNALS`] that writes the `siginfo_t`.
fn aarch64(dir: &Path, body: &[u32]) -> PathBuf {
    const SVC: u32 = 0xd400_0001;
    // write(1, info, 24); exit_group(0)
    let mut handler = a64_mov(0, 1);
    handler.extend([a64_mov(2, 24), a64_mov(8, 64), vec![SVC]].concat());
    handler.extend([a64_mov(0, 0), a64_mov(8, 94), vec![SVC]].concat());
    // b over the handler
    let mut code = vec![0x1400_0000 | (handler.len() as u32 + 1)];
    code.extend(&handler);
    for (i, word) in [CODE + 4, 4, 0, 0].into_iter().enumerate() {
        code.extend(a64_mov(9, DATA + 8 * i as u64));
        code.extend(a64_mov(10, word));
        // str x10, [x9]
        code.push(0xf900_012a);
    }
    for signal in SIGNALS {
        for (register, value) in [(0, signal), (1, DATA), (2, 0), (3, 8), (8, 134)] {
            code.extend(a64_mov(register, value));
        }
        code.push(SVC);
    }
    code.extend(body);
    Elf::program(Arch::Aarch64, &words(&code)).write(dir, "guest")
}

#[test]
fn of_aarch64() {
    let dir = scratch("faults-aarch64");
    let info = |body: &[u32]| {
        let path = aarch64(&dir, body);
        let mut command = emu(&["run", "-q", "-o"]);
        let out = raw(command.arg(dir.join("out.data")).arg(&path));
        assert_eq!(out.stdout.len(), 24, "{out:?}");
        let word = |at: usize| u32::from_le_bytes(out.stdout[at..at + 4].try_into().unwrap());
        (word(0), word(8), u64::from_le_bytes(out.stdout[16..24].try_into().unwrap()))
    };
    let with = |value: u64, word: u32| [a64_mov(1, value), vec![word]].concat();
    // ldxr x0, [x1]; br x1; ldr x0, [x1]
    let (ldxr, br, ldr) = (0xc85f_7c20, 0xd61f_0020, 0xf940_0020);
    assert_eq!(info(&with(DATA + 1, ldxr)), (7, 1, DATA + 1), "an unaligned exclusive");
    assert_eq!(info(&with(CODE + 2, br)), (7, 1, CODE + 2), "an unaligned PC");
    assert_eq!(info(&with(0x1001, br)), (7, 1, 0x1001), "an unaligned PC, nothing there");
    let kernel = 0xffff_0000_0000_0120;
    assert_eq!(info(&with(kernel, ldr)), (11, 1, kernel), "a kernel address");
    assert_eq!(info(&with(kernel, br)), (11, 1, kernel), "a jump to the kernel");
    assert_eq!(info(&with(0x1_2000_0000_0000, ldr)), (11, 1, 0x1_2000_0000_0000));
    assert_eq!(info(&[0xd420_0000]).0, 5, "brk");
    assert_eq!(info(&[0x0000_0000]).0, 4, "udf");
}

/// Only what the page-fault handler sees is a page fault.
#[test]
fn what_is_a_page_fault() {
    let dir = scratch("faults-counted");
    let faults = |body: &[u8]| {
        let (elf, _) = x86_64(body);
        let guest = elf.write(&dir, "guest");
        let outcome = Harness::of_file(Arch::X86_64, guest, "/bin/guest").events("page-faults", 1);
        outcome.run().stats.page_faults
    };
    let none = faults(b"\x0f\x0b");
    let case = |wanted: &str| cases().into_iter().find(|(name, _)| *name == wanted).unwrap().1;
    for name in ["read non-canonical", "read across the border", "read kernel", "jump to kernel"] {
        assert_eq!(faults(&case(name)), none, "{name}");
    }
    for name in ["read null", "add to null", "jump to null"] {
        assert_eq!(faults(&case(name)), none + 1, "{name}");
    }
}

/// The functions that a sample anywhere in the kernel shows.
fn functions(arch: Arch, guest: PathBuf) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let harness = Harness::of_file(arch, guest, "/bin/guest").events("cycles:k", 1);
    for_each(&harness.run(), |s, chain| {
        if s.mode == CpuMode::Kernel {
            let kernel = chain.split(" | ").next().unwrap();
            seen.extend(kernel.split(" <- ").map(str::to_owned));
        }
    });
    seen
}

/// Each exception has its own way.
#[test]
fn kernel_functions_are_those_of_the_exception() {
    let dir = scratch("faults-chains");
    let check = |seen: &BTreeSet<String>, own: &[&str], all: &[&str], what: &str| {
        for function in all {
            let wanted = own.contains(function);
            assert_eq!(seen.contains(*function), wanted, "{what}: {function} in {seen:?}");
        }
    };
    let all = [
        "asm_exc_int3",
        "exc_int3",
        "exc_invalid_op",
        "exc_divide_error",
        "exc_general_protection",
        "exc_stack_segment",
        "exc_coprocessor_error",
        "do_kern_addr_fault",
    ];
    for (name, own) in [
        ("int3", &["asm_exc_int3", "exc_int3"] as &[&str]),
        ("ud2", &["exc_invalid_op"]),
        ("div", &["exc_divide_error"]),
        ("int 6", &["exc_general_protection"]),
        ("read non-canonical", &["exc_general_protection"]),
        ("pop non-canonical", &["exc_stack_segment"]),
        ("x87 division", &["exc_coprocessor_error"]),
        ("read kernel", &["do_kern_addr_fault"]),
    ] {
        let body = cases().into_iter().find(|(n, _)| *n == name).unwrap().1;
        let seen = functions(Arch::X86_64, x86_64(&body).0.write(&dir, "guest"));
        check(&seen, own, &all, name);
    }
    let all = ["el0_brk64", "el0_undef", "el0_ia", "el0_pc", "do_alignment_fault"];
    let with = |value: u64, word: u32| [a64_mov(1, value), vec![word]].concat();
    for (what, body, own) in [
        ("brk", vec![0xd420_0000], &["el0_brk64", "el0_ia"] as &[&str]),
        ("udf", vec![0], &["el0_undef", "el0_ia"]),
        ("pc", with(CODE + 2, 0xd61f_0020), &["el0_pc", "el0_ia"]),
        ("ldxr", with(DATA + 1, 0xc85f_7c20), &["do_alignment_fault", "el0_ia"]),
    ] {
        // The first instruction of all is a fault of its page.
        let seen = functions(Arch::Aarch64, aarch64(&dir, &body));
        check(&seen, own, &all, what);
    }
}
