//! Points of functions of real programs, whose code is known.

use std::path::Path;

use goblin::elf::section_header::SHT_SYMTAB;

use super::*;

const BIAS: u64 = 0x5555_0000_0000;

struct Program {
    points: Points,
    bytes: Arc<[u8]>,
    bias: u64,
}

impl Program {
    fn new(arch: Arch, name: &str, bytes: Arc<[u8]>, bias: u64) -> Program {
        let module = Module::from_elf(name, bytes.clone(), bias).unwrap();
        let mut points = Points::new(arch);
        points.add(&module, bytes.clone());
        Program { points, bytes, bias }
    }

    fn guest(arch: Arch, name: &str) -> Program {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/bin");
        let bytes = std::fs::read(bin.join(arch.name()).join(name)).unwrap();
        Program::new(arch, name, bytes.into(), BIAS)
    }

    /// Address in the process and size.
    fn symbol(&self, name: &str) -> (u64, u64) {
        let elf = goblin::elf::Elf::parse(&self.bytes).unwrap();
        let tables = [(&elf.syms, &elf.strtab), (&elf.dynsyms, &elf.dynstrtab)];
        let mut found = tables.iter().flat_map(|(syms, names)| {
            syms.iter().filter(|s| names.get_at(s.st_name) == Some(name))
        });
        let symbol = found.next().unwrap_or_else(|| panic!("no symbol {name}"));
        (symbol.st_value.wrapping_add(self.bias), symbol.st_size)
    }

    /// The points of the instructions of a function: the first letters of their names.
    fn points(&mut self, function: &str) -> String {
        let (start, size) = self.symbol(function);
        self.points_of(start, size)
    }

    fn points_of(&mut self, start: u64, size: u64) -> String {
        let code = Code::new(self.bytes.clone()).unwrap();
        let vaddr = start.wrapping_sub(self.bias);
        let code = code.bytes(vaddr..vaddr + size);
        let (mut at, mut letters) = (0, String::new());
        while at < code.len() {
            let letter = match self.points.at(start + at as u64) {
                ProgramPoint::Entry => 'E',
                ProgramPoint::Prologue => 'p',
                ProgramPoint::Body => '.',
                ProgramPoint::Epilogue => 'e',
                ProgramPoint::Plt => 'L',
                ProgramPoint::Vdso => 'v',
                ProgramPoint::SignalTrampoline => 's',
                ProgramPoint::SyscallStub => 'k',
                ProgramPoint::Jit => 'j',
                ProgramPoint::Unknown => '?',
            };
            letters.push(letter);
            at += usize::from(insn(self.points.arch, &code[at..]).unwrap().len);
        }
        letters
    }
}

#[test]
fn frames_with_and_without_frame_pointer() {
    // push, mov, mov rbp, push, push | mov, cmp, jbe, lea, call, lea, mov, call, add
    // | pop, pop, pop, ret
    let mut x86 = Program::guest(Arch::X86_64, "recursion");
    assert_eq!(x86.points("fib"), "Epppp.........eeee");
    // push, mov, push, mov, sub | … | add, pop, pop, ret
    let mut x86 = Program::guest(Arch::X86_64, "recursion-nofp");
    assert_eq!(x86.points("fib"), "Epppp........eeee");
    // stp, mov x29, str | mov, cmp, b.hi | ldr, mov, ldp, ret | sub, bl, …, add
    // | ldr, ldp, ret
    let mut arm = Program::guest(Arch::Aarch64, "recursion");
    assert_eq!(arm.points("fib"), "Epp...eeee.......eee");
}

#[test]
fn system_calls_and_signals() {
    let mut x86 = Program::guest(Arch::X86_64, "syscalls-glibc");
    assert_eq!(x86.points("__getpid"), "Ekk");
    let (restorer, _) = x86.symbol("__restore_rt");
    assert_eq!(x86.points_of(restorer, 9), "ss");
    assert_eq!(x86.points.at(restorer + 9), ProgramPoint::SignalTrampoline);
    let (plt, _) = section(&x86.bytes, ".plt");
    assert_eq!(x86.points.at(plt + BIAS), ProgramPoint::Plt);
    let mut arm = Program::guest(Arch::Aarch64, "syscalls-glibc");
    assert_eq!(arm.points("__getpid"), "Ekkk");
    let (plt, _) = section(&arm.bytes, ".plt");
    assert_eq!(arm.points_of(plt + BIAS, 16), "LLLL");
    // Of a libc that has its own restorer the kernel's is not used.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("vdso/aarch64/vdso.so");
    let bytes = Arc::from(std::fs::read(file).unwrap());
    let mut vdso = Program::new(Arch::Aarch64, VDSO, bytes, 0x7fff_0000);
    let (restorer, _) = vdso.symbol("__kernel_rt_sigreturn");
    assert_eq!(vdso.points_of(restorer, 8), "ss");
    let (time, _) = vdso.symbol("__kernel_clock_getres");
    assert_eq!(vdso.points_of(time, 8), "vv");
    assert_eq!(vdso.points.at(restorer + 8), ProgramPoint::SignalTrampoline);
    assert_eq!(vdso.points.at(0x1000), ProgramPoint::Jit);
}

fn section(bytes: &[u8], name: &str) -> (u64, u64) {
    let elf = goblin::elf::Elf::parse(bytes).unwrap();
    let named = |s: &&goblin::elf::SectionHeader| elf.shdr_strtab.get_at(s.sh_name) == Some(name);
    let section = elf.section_headers.iter().find(named).unwrap();
    (section.sh_addr, section.sh_size)
}

#[test]
fn the_cold_part_of_a_function_has_no_entry() {
    let mut x86 = Program::guest(Arch::X86_64, "cpp-throw");
    let (cold, _) = x86.symbol("_IO_fflush.cold");
    assert_ne!(x86.points.at(cold), ProgramPoint::Entry);
}

/// Without symbols the FDEs tell the same, but for what has none.
#[test]
fn stripped_programs() {
    for (arch, function) in
        [(Arch::X86_64, "Epppp.........eeee"), (Arch::Aarch64, "Epp...eeee.......eee")]
    {
        let whole = Program::guest(arch, "recursion");
        let (fib, size) = whole.symbol("fib");
        let mut bytes = whole.bytes.to_vec();
        let header = goblin::elf::Elf::parse(&bytes).unwrap();
        let table = header.section_headers.iter().position(|s| s.sh_type == SHT_SYMTAB).unwrap();
        let at = header.header.e_shoff as usize + table * 64 + 4; // sh_type
        bytes[at..at + 4].fill(0);
        let mut stripped = Program::new(arch, "recursion", bytes.into(), BIAS);
        assert_eq!(stripped.points_of(fib, size), function);
        assert_eq!(stripped.points.at(BIAS + 0x1000_0000), ProgramPoint::Jit);
    }
}

/// `mov eax, 60; syscall`, and nothing behind it.
#[test]
fn a_system_call_that_does_not_come_back() {
    let mut guest = Program::guest(Arch::X86_64, "recursion");
    let (fib, size) = guest.symbol("fib");
    let mut bytes = guest.bytes.to_vec();
    let code = Code::new(guest.bytes.clone()).unwrap();
    let at = code.offset(fib - BIAS + size).unwrap() as usize;
    bytes[at - 7..at].copy_from_slice(&[0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05]);
    bytes[at] = 0x90;
    guest = Program::new(Arch::X86_64, "recursion", bytes.into(), BIAS);
    let inside = guest.points.at(fib + size - 2);
    assert_eq!((inside, guest.points.at(fib + size)), (ProgramPoint::Body, ProgramPoint::Body));
}

#[test]
fn shapes() {
    let x86 = |code: &[u8]| Shape::new(Arch::X86_64, code, 0x1000);
    let epilogues =
        |code: &[u8]| x86(code).epilogues.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>();
    // test edi, edi; je +3; push rbx; pop rbx; ret; ret
    let wrapped = x86(&[0x85, 0xff, 0x74, 0x03, 0x53, 0x5b, 0xc3, 0xc3]);
    assert_eq!(wrapped.prologue, 0x1004..0x1005);
    assert_eq!(wrapped.epilogues, [0x1005..0x1007, 0x1007..0x1008]);
    // A jump inside, and one to another function.
    assert_eq!(epilogues(&[0xeb, 0x00, 0x90]), []);
    assert_eq!(epilogues(&[0xeb, 0x01, 0x90]), [(0x1000, 0x1002)]);
    // jmp rax: of a switch; behind `pop rbx` a tail call.
    assert_eq!(epilogues(&[0xff, 0xe0]), []);
    assert_eq!(epilogues(&[0x5b, 0xff, 0xe0]), [(0x1000, 0x1003)]);
    assert!(x86(&[]).empty);
    assert_eq!(epilogues(&[0x06, 0xc3]), []); // no instruction
}

#[test]
fn any_bytes_are_an_answer() {
    for arch in Arch::ALL {
        let good = Program::guest(arch, "hello").bytes;
        for n in 0..good.len().min(4096) {
            let mut bad = good.to_vec();
            bad[n] = bad[n].wrapping_mul(31).wrapping_add(0xe5);
            let Ok(module) = Module::from_elf("x", Arc::from(bad.as_slice()), 0) else { continue };
            let mut points = Points::new(arch);
            points.add(&module, bad.into());
            for text in module.text() {
                points.at(text.start);
                points.at(text.end.wrapping_sub(1));
            }
        }
    }
}
