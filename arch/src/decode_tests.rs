use capstone::prelude::*;

use super::*;

/// xorshift64*: enough disorder, and the same on every host.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| (self.next() >> 56) as u8)
    }
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    let byte = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn class(arch: Arch, code: &str) -> InsnClass {
    let code = hex(code);
    let insn = Decoder::new(arch).insn(&code).unwrap();
    assert!(insn.known && usize::from(insn.len) == code.len(), "{code:02x?}: {insn:?}");
    insn.class
}

const JUMP: InsnClass = InsnClass::Branch { conditional: false, indirect: false };
const JUMP_IF: InsnClass = InsnClass::Branch { conditional: true, indirect: false };
const JUMP_TO: InsnClass = InsnClass::Branch { conditional: false, indirect: true };
const CALL: InsnClass = InsnClass::Call { indirect: false };
const CALL_TO: InsnClass = InsnClass::Call { indirect: true };

#[test]
fn classes_of_x86() {
    let cases = [
        ("eb05", JUMP),
        ("e900000000", JUMP),
        ("7405", JUMP_IF),
        ("0f8400000000", JUMP_IF),
        ("e2fe", JUMP_IF),         // loop
        ("e3fe", JUMP_IF),         // jrcxz
        ("f2e900000000", JUMP),    // bnd jmp
        ("ffe0", JUMP_TO),         // jmp rax
        ("ff25aa000000", JUMP_TO), // jmp [rip+0xaa]
        ("3effe0", JUMP_TO),       // notrack jmp rax
        ("e800000000", CALL),
        ("666648e800000000", CALL), // data16 data16 rex.W call, as in TLS sequences
        ("ffd0", CALL_TO),
        ("41ff5310", CALL_TO), // call [r11+16]
        ("c3", InsnClass::Return),
        ("f3c3", InsnClass::Return), // rep ret
        ("c21000", InsnClass::Return),
        ("0f05", InsnClass::Syscall),
        ("f3a4", InsnClass::Rep),
        ("f348ab", InsnClass::Rep),
        ("f2ae", InsnClass::Rep),
        ("f3a6", InsnClass::Rep),
        ("a4", InsnClass::Other),
        ("f390", InsnClass::Other),       // pause
        ("f30f1efa", InsnClass::Other),   // endbr64
        ("f30f10c1", InsnClass::Other),   // movss
        ("f30fb8c1", InsnClass::Other),   // popcnt
        ("c5f877", InsnClass::Other),     // vzeroupper
        ("c4e27918c0", InsnClass::Other), // vbroadcastss
        ("cc", InsnClass::Trap),
        ("cd80", InsnClass::Trap),
        ("0f0b", InsnClass::Trap),
        ("ff30", InsnClass::Other), // push [rax]
    ];
    for (code, expected) in cases {
        assert_eq!(class(Arch::X86_64, code), expected, "{code}");
    }
}

#[test]
fn classes_of_aarch64() {
    let cases = [
        ("02000014", JUMP),
        ("02000094", CALL),
        ("40000054", JUMP_IF), // b.eq
        ("400000b4", JUMP_IF), // cbz x0
        ("40000035", JUMP_IF), // cbnz w0
        ("40000036", JUMP_IF), // tbz w0, #0
        ("4000f8b7", JUMP_IF), // tbnz x0, #63
        ("20021fd6", JUMP_TO), // br x17
        ("110a1fd7", JUMP_TO), // braa x16, x17
        ("00003fd6", CALL_TO), // blr x0
        ("1f083fd6", CALL_TO), // blraaz x0
        ("c0035fd6", InsnClass::Return),
        ("ff0b5fd6", InsnClass::Return), // retaa
        ("010000d4", InsnClass::Syscall),
        ("020000d4", InsnClass::Trap),  // hvc
        ("000020d4", InsnClass::Trap),  // brk
        ("000040d4", InsnClass::Trap),  // hlt
        ("00000000", InsnClass::Trap),  // udf
        ("e0039fd6", InsnClass::Trap),  // eret
        ("1f2003d5", InsnClass::Other), // nop
        ("5f2403d5", InsnClass::Other), // bti c
        ("ffffffff", InsnClass::Other),
    ];
    for (code, expected) in cases {
        assert_eq!(class(Arch::Aarch64, code), expected, "{code}");
    }
}

#[test]
fn branches_count_without_far_transfers() {
    for class in [JUMP, JUMP_IF, JUMP_TO, CALL, CALL_TO, InsnClass::Return] {
        assert!(class.is_branch());
    }
    for class in [InsnClass::Other, InsnClass::Syscall, InsnClass::Rep, InsnClass::Trap] {
        assert!(!class.is_branch());
    }
}

#[test]
fn instructions_that_user_level_may_not_run() {
    let decoder = Decoder::new(Arch::X86_64);
    let cases = [
        ("ec", Some(Special::PortIo)),
        ("e480", Some(Special::PortIo)),
        ("66ef", Some(Special::PortIo)),
        ("f36e", Some(Special::PortIo)),
        ("0f34", Some(Special::Sysenter)),
        ("480f35", Some(Special::Sysexit)),
        ("ff28", Some(Special::FarBranch)),
        ("48ff18", Some(Special::FarBranch)),
        ("cb", Some(Special::FarBranch)),
        ("48cf", Some(Special::InterruptReturn)),
        ("c5f877", Some(Special::Vex)),
        ("c4e2f8f2c1", Some(Special::Vex)),
        ("62f17c4858c0", Some(Special::Vex)),
        ("ff20", None),
        ("0f05", None),
        ("c3", None),
    ];
    for (code, expected) in cases {
        assert_eq!(decoder.special(&hex(code)), expected, "{code}");
    }
    assert_eq!(Decoder::new(Arch::Aarch64).special(&hex("010000d4")), None);
}

#[test]
fn blocks_list_starts_and_flag_the_rest() {
    let decoder = Decoder::new(Arch::X86_64);
    // push rbp; mov rbp, rsp; in al, dx; call
    let block = decoder.decode_block(&hex("554889e5ece800000000"));
    assert_eq!(block.starts, [0, 1, 4, 5]);
    assert_eq!((block.last, block.unknown), (CALL, None));
    assert_eq!(block.specials, [(4, Special::PortIo)]);
    // nop; an opcode that 64-bit mode lacks, and what follows it
    let block = decoder.decode_block(&hex("90069090"));
    assert_eq!((block.starts.as_slice(), block.unknown), ([0, 1].as_slice(), Some(1)));
    // nop; a call cut short
    let block = decoder.decode_block(&hex("90e80000"));
    assert_eq!((block.last, block.unknown), (InsnClass::Other, Some(1)));
    assert_eq!(decoder.decode_block(&[]).starts, []);

    let decoder = Decoder::new(Arch::Aarch64);
    let block = decoder.decode_block(&hex("fd7bbfa9fd030091c0035fd6"));
    assert_eq!((block.starts.as_slice(), block.last), ([0, 4, 8].as_slice(), InsnClass::Return));
    let block = decoder.decode_block(&hex("1f2003d51f20"));
    assert_eq!((block.starts.as_slice(), block.unknown), ([0, 4].as_slice(), Some(4)));
}

#[test]
fn blocks_beyond_the_offset_range_end_flagged() {
    let decoder = Decoder::new(Arch::X86_64);
    let block = decoder.decode_block(&vec![0x90; 70_000]);
    assert_eq!(block.starts.len(), 65_536);
    assert_eq!(block.unknown, Some(65_535));
}

#[test]
fn lengths_agree_with_capstone() {
    let theirs = Capstone::new().x86().mode(arch::x86::ArchMode::Mode64).build().unwrap();
    let ours = Decoder::new(Arch::X86_64);
    let mut rng = Rng(1);
    for _ in 0..200_000 {
        let code: [u8; 15] = rng.bytes();
        let list = theirs.disasm_count(&code, 0, 1).unwrap();
        let (Some(theirs), Some(ours)) = (list.first(), ours.insn(&code)) else { continue };
        let name = theirs.mnemonic().unwrap_or_default();
        // Intel's reading of a 16-bit near branch, AMD's XOP, VIA's padlock,
        // and undefined instructions with or without ModRM.
        let differs = ["call", "jmp", "ret", "ud0", "ud1", "vp", "vf", "x"];
        if !differs.iter().any(|d| name.contains(d)) {
            assert_eq!((usize::from(ours.len), ours.known), (theirs.len(), true), "{theirs}");
        }
    }
}

/// Prints accesses as the tables below write them.
fn shown(accesses: &[Access]) -> String {
    let one = |a: &Access| format!("{}{}@{:x}", if a.write { 'W' } else { 'R' }, a.size, a.addr);
    accesses.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn operands_of_x86() {
    use crate::x86_64::regs::{R15, RAX, RBX};
    let mut regs = Regs::new(Arch::X86_64);
    for (i, gp) in regs.gp.iter_mut().enumerate().take(16) {
        *gp = 0x1_0000 * (i as u64 + 1);
    }
    regs.gp[RAX] = -16i64 as u64;
    regs.gp[RBX] = 0x4_0001;
    regs.gp[R15] = 0xffff_0000;
    (regs.pc, regs.tls, regs.gs_base) = (0x40_1000, 0x7000_0000_0000, 0x6000_0000_0000);
    let decoder = Decoder::new(Arch::X86_64);
    for (text, code, expected) in X86 {
        let code = hex(code);
        assert_eq!(usize::from(decoder.insn(&code).unwrap().len), code.len(), "{text}");
        assert_eq!(shown(&decoder.memory_operand(&code, &regs)), *expected, "{text}");
    }
    regs.gp[2] = 0;
    assert_eq!(decoder.memory_operand(&hex("f3a4"), &regs), [], "no iteration is left");
}

#[test]
fn operands_of_aarch64() {
    let mut regs = Regs::new(Arch::Aarch64);
    for (i, gp) in regs.gp.iter_mut().enumerate() {
        *gp = 0x1_0000 * (i as u64 + 1);
    }
    (regs.gp[1], regs.gp[2], regs.pc) = (0x2_0030, 0xffff_fffe, 0x40_1000);
    let decoder = Decoder::new(Arch::Aarch64);
    for (text, code, expected) in A64 {
        assert_eq!(shown(&decoder.memory_operand(&hex(code), &regs)), *expected, "{text}");
    }
    // Tags stay: the caller knows whether its address space ignores them.
    regs.gp[1] = 0xff00_0000_0000_1000;
    let tagged = decoder.memory_operand(&hex("200040f9"), &regs);
    assert_eq!(shown(&tagged), "R8@ff00000000001000");
}

#[test]
fn the_faulting_byte_of_an_access_that_crosses_pages() {
    let access = Access::read(0x1ffc, 8);
    assert_eq!(access.first_byte_in(0x1000, 0x1000), Some(0x1ffc));
    assert_eq!(access.first_byte_in(0x2000, 0x1000), Some(0x2000));
    assert_eq!(access.first_byte_in(0x3000, 0x1000), None);
    assert_eq!(Access::read(u64::MAX, 2).first_byte_in(0, 0x1000), Some(0));
}

#[test]
fn text_for_people() {
    let text = |arch, code: &str| -> Vec<String> {
        let lines = Decoder::new(arch).disassemble(&hex(code), 0x1000);
        lines
            .into_iter()
            .map(|(addr, bytes, text)| format!("{addr:x}+{} {text}", bytes.len()))
            .collect()
    };
    let lines = text(Arch::X86_64, "55488b4508ebfe0690");
    let expected = [
        "1000+1 push rbp",
        "1001+4 mov rax, qword ptr [rbp + 8]",
        "1005+2 jmp 0x1005",
        "1007+2 .byte 0x06, 0x90",
    ];
    assert_eq!(lines, expected);
    let lines = text(Arch::Aarch64, "fd7bbfa9ffffffff1f");
    let expected =
        ["1000+4 stp x29, x30, [sp, #-0x10]!", "1004+4 .inst 0xffffffff", "1008+1 .byte 0x1f"];
    assert_eq!(lines, expected);
}

#[test]
fn no_bytes_panic() {
    let mut rng = Rng(7);
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let mut regs = Regs::new(arch);
        for round in 0..100_000 {
            let bytes: [u8; 24] = rng.bytes();
            let code = &bytes[..round % 25];
            regs.gp = std::array::from_fn(|_| rng.next());
            regs.pc = rng.next();
            let block = decoder.decode_block(code);
            assert!(block.starts.iter().all(|&s| usize::from(s) < code.len()));
            decoder.special(code);
            decoder.memory_operand(code, &regs);
            if round % 16 == 0 {
                let lines = decoder.disassemble(code, regs.pc);
                assert_eq!(lines.iter().map(|l| l.1.len()).sum::<usize>(), code.len());
            }
        }
    }
}

/// Text, code, accesses with the registers of the test. Assembled by GNU as.
#[rustfmt::skip]
const X86: &[(&str, &str, &str)] = &[
    ("mov rax, [rbx]", "488b03", "R8@40001"),
    ("mov [rbx+rcx*4+0x10], eax", "89448b10", "W4@100011"),
    ("mov ax, [r12]", "66418b0424", "R2@d0000"),
    ("mov al, [r13-1]", "418a45ff", "R1@dffff"),
    ("mov rax, [rip+0x1234]", "488b0534120000", "R8@40223b"),
    ("mov dword ptr [rip+0x1234], 5", "c7053412000005000000", "W4@40223e"),
    ("mov rax, fs:[0x28]", "64488b042528000000", "R8@700000000028"),
    ("mov rax, fs:[rbx]", "64488b03", "R8@700000040001"),
    ("mov rax, gs:[rcx*2-8]", "65488b044df8ffffff", "R8@60000005fff8"),
    ("mov eax, [r14d+r15d*8]", "67438b04fe", "R4@70000"),
    ("movabs al, [0x1122334455667788]", "a08877665544332211", "R1@1122334455667788"),
    ("movabs [0x1122334455667788], rax", "48a38877665544332211", "W8@1122334455667788"),
    ("lea rax, [rbx+8]", "488d4308", ""),
    ("nop word ptr [rax+rax+0]", "660f1f0400", ""),
    ("prefetcht0 [rax]", "0f1808", ""),
    ("endbr64", "f30f1efa", ""),
    ("add [rdi], rax", "480107", "W8@60000"),
    ("add rax, [rdi]", "480307", "R8@60000"),
    ("cmp [rdi], al", "3807", "R1@60000"),
    ("cmp dword ptr [rdi], 7", "833f07", "R4@60000"),
    ("or byte ptr [rdi], 7", "800f07", "W1@60000"),
    ("test [rdi], rax", "488507", "R8@60000"),
    ("test dword ptr [rdi], 1", "f70701000000", "R4@60000"),
    ("not qword ptr [rdi]", "48f717", "W8@60000"),
    ("div qword ptr [rdi]", "48f737", "R8@60000"),
    ("inc byte ptr [rdi]", "fe07", "W1@60000"),
    ("dec word ptr [rdi]", "66ff0f", "W2@60000"),
    ("shl dword ptr [rdi], cl", "d327", "W4@60000"),
    ("xchg [rdi], rax", "488707", "W8@60000"),
    ("lock cmpxchg [rdi], rbx", "f0480fb11f", "W8@60000"),
    ("lock cmpxchg16b [rdi]", "f0480fc70f", "W16@60000"),
    ("cmpxchg8b [rdi]", "0fc70f", "W8@60000"),
    ("lock xadd [rdi], ecx", "f00fc10f", "W4@60000"),
    ("cmove rax, [rdi]", "480f4407", "R8@60000"),
    ("sete [rdi]", "0f9407", "W1@60000"),
    ("movzx eax, byte ptr [rdi]", "0fb607", "R1@60000"),
    ("movsx rax, word ptr [rdi]", "480fbf07", "R2@60000"),
    ("movsxd rax, dword ptr [rdi]", "486307", "R4@60000"),
    ("imul rax, [rdi], 100", "486b0764", "R8@60000"),
    ("bt dword ptr [rdi], 3", "0fba2703", "R4@60000"),
    ("bts qword ptr [rdi], 3", "480fba2f03", "W8@60000"),
    ("bt [rdi], rbx", "480fa31f", "R8@68000"),
    ("btc [rdi], eax", "0fbb07", "W4@5fffc"),
    ("shld [rdi], rax, cl", "480fa507", "W8@60000"),
    ("movbe eax, [rdi]", "0f38f007", "R4@60000"),
    ("movbe [rdi], rax", "480f38f107", "W8@60000"),
    ("movnti [rdi], rax", "480fc307", "W8@60000"),
    ("popcnt rax, [rdi]", "f3480fb807", "R8@60000"),
    ("crc32 eax, byte ptr [rdi]", "f20f38f007", "R1@60000"),
    ("crc32 rax, qword ptr [rdi]", "f2480f38f107", "R8@60000"),
    ("push rax", "50", "W8@7fff8"),
    ("push 5", "6a05", "W8@7fff8"),
    ("push qword ptr [rdi]", "ff37", "R8@60000 W8@7fff8"),
    ("push qword ptr [rsp+16]", "ff742410", "R8@80010 W8@7fff8"),
    ("pop r15", "415f", "R8@80000"),
    ("pop qword ptr [rdi]", "8f07", "R8@80000 W8@60000"),
    ("pop qword ptr [rsp+16]", "8f442410", "R8@80000 W8@80018"),
    ("pushw ax", "6650", "W2@7fffe"),
    ("pushfq", "9c", "W8@7fff8"),
    ("popfq", "9d", "R8@80000"),
    ("call .+0x1000", "e8fb0f0000", "W8@7fff8"),
    ("call rax", "ffd0", "W8@7fff8"),
    ("call [rdi+8]", "ff5708", "R8@60008 W8@7fff8"),
    ("jmp [rdi+rax*8]", "ff24c7", "R8@5ff80"),
    ("jmp .+0x1000", "e9fb0f0000", ""),
    ("ret", "c3", "R8@80000"),
    ("ret 16", "c21000", "R8@80000"),
    ("leave", "c9", "R8@70000"),
    ("enter 32, 0", "c8200000", "W8@7fff8"),
    ("enter 32, 2", "c8200002", "W8@7fff8 R8@6fff8 W8@7fff0 W8@7ffe8"),
    ("movsb", "a4", "R1@50000 W1@60000"),
    ("rep movsq", "f348a5", "R8@50000 W8@60000"),
    ("movs dword ptr es:[rdi], dword ptr fs:[rsi]", "64a5", "R4@700000050000 W4@60000"),
    ("rep stosb", "f3aa", "W1@60000"),
    ("lodsw", "66ad", "R2@50000"),
    ("repne scasb", "f2ae", "R1@60000"),
    ("repe cmpsd", "f3a7", "R4@50000 R4@60000"),
    ("rep movsb es:[edi], ds:[esi]", "67f3a4", "R1@50000 W1@60000"),
    ("xlatb", "d7", "R1@400f1"),
    ("fxsave [rdi]", "0fae07", "W512@60000"),
    ("fxrstor64 [rdi]", "480fae0f", "R512@60000"),
    ("ldmxcsr [rdi]", "0fae17", "R4@60000"),
    ("stmxcsr [rdi]", "0fae1f", "W4@60000"),
    ("clflush [rdi]", "0fae3f", "R1@60000"),
    ("fld tbyte ptr [rdi]", "db2f", "R10@60000"),
    ("fstp tbyte ptr [rdi]", "db3f", "W10@60000"),
    ("fld qword ptr [rdi]", "dd07", "R8@60000"),
    ("fstp dword ptr [rdi]", "d91f", "W4@60000"),
    ("fild word ptr [rdi]", "df07", "R2@60000"),
    ("fistp qword ptr [rdi]", "df3f", "W8@60000"),
    ("fldcw [rdi]", "d92f", "R2@60000"),
    ("fnstcw [rdi]", "d93f", "W2@60000"),
    ("fnstsw [rdi]", "dd3f", "W2@60000"),
    ("fldenv [rdi]", "d927", "R28@60000"),
    ("fnstenv [rdi]", "d937", "W28@60000"),
    ("fnsave [rdi]", "dd37", "W108@60000"),
    ("frstor [rdi]", "dd27", "R108@60000"),
    ("fadd dword ptr [rdi]", "d807", "R4@60000"),
    ("fadd qword ptr [rdi]", "dc07", "R8@60000"),
    ("movups xmm0, [rdi]", "0f1007", "R16@60000"),
    ("movups [rdi], xmm0", "0f1107", "W16@60000"),
    ("movaps [rdi], xmm15", "440f293f", "W16@60000"),
    ("movss xmm0, [rdi]", "f30f1007", "R4@60000"),
    ("movss [rdi], xmm0", "f30f1107", "W4@60000"),
    ("movsd xmm0, qword ptr [rdi]", "f20f1007", "R8@60000"),
    ("movsd qword ptr [rdi], xmm0", "f20f1107", "W8@60000"),
    ("movlps xmm0, [rdi]", "0f1207", "R8@60000"),
    ("movhps [rdi], xmm0", "0f1707", "W8@60000"),
    ("movddup xmm0, [rdi]", "f20f1207", "R8@60000"),
    ("movntps [rdi], xmm0", "0f2b07", "W16@60000"),
    ("movntdq [rdi], xmm0", "660fe707", "W16@60000"),
    ("movntdqa xmm0, [rdi]", "660f382a07", "R16@60000"),
    ("movd xmm0, [rdi]", "660f6e07", "R4@60000"),
    ("movd [rdi], xmm0", "660f7e07", "W4@60000"),
    ("movq xmm0, qword ptr [rdi]", "f30f7e07", "R8@60000"),
    ("movq qword ptr [rdi], xmm0", "660fd607", "W8@60000"),
    ("movdqu xmm0, [rdi]", "f30f6f07", "R16@60000"),
    ("movdqa [rdi], xmm0", "660f7f07", "W16@60000"),
    ("movq mm0, qword ptr [rdi]", "0f6f07", "R8@60000"),
    ("movq qword ptr [rdi], mm0", "0f7f07", "W8@60000"),
    ("lddqu xmm0, [rdi]", "f20ff007", "R16@60000"),
    ("addps xmm0, [rdi]", "0f5807", "R16@60000"),
    ("addsd xmm0, [rdi]", "f20f5807", "R8@60000"),
    ("mulss xmm0, [rdi]", "f30f5907", "R4@60000"),
    ("ucomisd xmm0, [rdi]", "660f2e07", "R8@60000"),
    ("comiss xmm0, [rdi]", "0f2f07", "R4@60000"),
    ("cvtsi2sd xmm0, qword ptr [rdi]", "f2480f2a07", "R8@60000"),
    ("cvtsi2ss xmm0, dword ptr [rdi]", "f30f2a07", "R4@60000"),
    ("cvttsd2si rax, [rdi]", "f2480f2c07", "R8@60000"),
    ("cvtss2sd xmm0, [rdi]", "f30f5a07", "R4@60000"),
    ("cvtps2pd xmm0, [rdi]", "0f5a07", "R8@60000"),
    ("cvtpd2ps xmm0, [rdi]", "660f5a07", "R16@60000"),
    ("cvtdq2pd xmm0, [rdi]", "f30fe607", "R8@60000"),
    ("cvttps2dq xmm0, [rdi]", "f30f5b07", "R16@60000"),
    ("pxor xmm0, [rdi]", "660fef07", "R16@60000"),
    ("pxor mm0, [rdi]", "0fef07", "R8@60000"),
    ("paddq xmm0, [rdi]", "660fd407", "R16@60000"),
    ("punpcklbw xmm0, [rdi]", "660f6007", "R16@60000"),
    ("punpcklbw mm0, [rdi]", "0f6007", "R4@60000"),
    ("pshufd xmm0, [rdi], 1", "660f700701", "R16@60000"),
    ("shufps xmm0, [rdi], 1", "0fc60701", "R16@60000"),
    ("cmpltsd xmm0, [rdi]", "f20fc20701", "R8@60000"),
    ("pinsrw xmm0, [rdi], 1", "660fc40701", "R2@60000"),
    ("pextrb [rdi], xmm0, 1", "660f3a140701", "W1@60000"),
    ("pextrw [rdi], xmm0, 1", "660f3a150701", "W2@60000"),
    ("pextrd [rdi], xmm0, 1", "660f3a160701", "W4@60000"),
    ("pextrq [rdi], xmm0, 1", "66480f3a160701", "W8@60000"),
    ("extractps [rdi], xmm0, 1", "660f3a170701", "W4@60000"),
    ("pinsrb xmm0, [rdi], 1", "660f3a200701", "R1@60000"),
    ("pinsrq xmm0, [rdi], 1", "66480f3a220701", "R8@60000"),
    ("insertps xmm0, [rdi], 0", "660f3a210700", "R4@60000"),
    ("pmovzxbw xmm0, [rdi]", "660f383007", "R8@60000"),
    ("pmovzxbd xmm0, [rdi]", "660f383107", "R4@60000"),
    ("pmovsxbq xmm0, [rdi]", "660f382207", "R2@60000"),
    ("pshufb xmm0, [rdi]", "660f380007", "R16@60000"),
    ("palignr xmm0, [rdi], 3", "660f3a0f0703", "R16@60000"),
    ("roundsd xmm0, [rdi], 0", "660f3a0b0700", "R8@60000"),
    ("pcmpistri xmm0, [rdi], 0", "660f3a630700", "R16@60000"),
    ("aesenc xmm0, [rdi]", "660f38dc07", "R16@60000"),
    ("pclmulqdq xmm0, [rdi], 0", "660f3a440700", "R16@60000"),
    ("maskmovdqu xmm0, xmm1", "660ff7c1", "W16@60000"),
    ("mov ds, [rdi]", "8e1f", "R2@60000"),
    ("mov [rdi], ds", "8c1f", "W2@60000"),
    ("sgdt [rdi]", "0f0107", "W10@60000"),
    ("smsw [rdi]", "0f0127", "W2@60000"),
    ("syscall", "0f05", ""),
    ("pause", "f390", ""),
];

/// As `X86`.
#[rustfmt::skip]
const A64: &[(&str, &str, &str)] = &[
    ("ldr x0, [x1]", "200040f9", "R8@20030"),
    ("ldr w0, [x1, #16]", "201040b9", "R4@20040"),
    ("ldrb w0, [sp, #5]", "e0174039", "R1@200005"),
    ("ldrsh x0, [x1, #4]", "20088079", "R2@20034"),
    ("ldrsw x0, [x1], #4", "204480b8", "R4@20030"),
    ("str x0, [x1, #-16]!", "200c1ff8", "W8@20020"),
    ("str x0, [x1], #16", "200401f8", "W8@20030"),
    ("stur x0, [x1, #-1]", "20f01ff8", "W8@2002f"),
    ("ldur q0, [x1, #-3]", "20d0df3c", "R16@2002d"),
    ("ldr q0, [x1, #32]", "2008c03d", "R16@20050"),
    ("str q0, [sp, #-16]!", "e00f9f3c", "W16@1ffff0"),
    ("ldr d0, [x1, x2, lsl #3]", "207862fc", "R8@800020020"),
    ("ldr h0, [x1, x2]", "2068627c", "R2@10002002e"),
    ("str b0, [x1]", "2000003d", "W1@20030"),
    ("ldr s0, [x1, w2, uxtw #2]", "205862bc", "R4@400020028"),
    ("ldr x0, [x1, w2, sxtw]", "20c862f8", "R8@2002e"),
    ("strb w0, [x1, xzr]", "20683f38", "W1@20030"),
    ("ldtr x0, [x1, #8]", "208840f8", "R8@20038"),
    ("ldp x0, x2, [sp, #16]", "e00b41a9", "R16@200010"),
    ("ldp x29, x30, [sp], #32", "fd7bc2a8", "R16@200000"),
    ("stp x29, x30, [sp, #-32]!", "fd7bbea9", "W16@1fffe0"),
    ("stp w0, w2, [x1, #8]", "20080129", "W8@20038"),
    ("ldpsw x0, x2, [x1]", "20084069", "R8@20030"),
    ("ldnp q0, q1, [x1]", "200440ac", "R32@20030"),
    ("stp q0, q1, [x1, #-64]", "20043ead", "W32@1fff0"),
    ("stp d8, d9, [sp, #16]", "e827016d", "W16@200010"),
    ("ldp s0, s1, [x1]", "2004402d", "R8@20030"),
    ("ldr x0, .+0x1000", "00800058", "R8@402000"),
    ("ldr w0, .-4", "e0ffff18", "R4@400ffc"),
    ("ldrsw x0, .+8", "40000098", "R4@401008"),
    ("ldr q0, .+16", "8000009c", "R16@401010"),
    ("prfm pldl1keep, [x1]", "200080f9", ""),
    ("prfm pldl1keep, [x1, x2]", "2068a2f8", ""),
    ("prfm pldl1keep, .+8", "400000d8", ""),
    ("ldxr x0, [x1]", "207c5fc8", "R8@20030"),
    ("stxr w0, w2, [x1]", "227c0088", "W4@20030"),
    ("ldaxrb w0, [x1]", "20fc5f08", "R1@20030"),
    ("stlxrh w0, w2, [x1]", "22fc0048", "W2@20030"),
    ("ldxp x0, x2, [x1]", "20087fc8", "R16@20030"),
    ("stlxp w0, w2, w3, [x1]", "228c2088", "W8@20030"),
    ("ldar x0, [x1]", "20fcdfc8", "R8@20030"),
    ("stlrb w0, [x1]", "20fc9f08", "W1@20030"),
    ("cas x0, x2, [x1]", "227ca0c8", "W8@20030"),
    ("casalb w0, w2, [x1]", "22fce008", "W1@20030"),
    ("caspal x0, x1, x2, x3, [x4]", "82fc6048", "W16@50000"),
    ("casp w0, w1, w2, w3, [x4]", "827c2008", "W8@50000"),
    ("ldadd x0, x2, [x1]", "220020f8", "W8@20030"),
    ("swpal w0, w2, [x1]", "2280e0b8", "W4@20030"),
    ("ldsetb w0, w2, [x1]", "22302038", "W1@20030"),
    ("ldapr x0, [x1]", "20c0bff8", "R8@20030"),
    ("ldapur x0, [x1, #-8]", "20805fd9", "R8@20028"),
    ("stlur w0, [x1, #7]", "20700099", "W4@20037"),
    ("ldraa x0, [x1, #-8]", "20f47ff8", "R8@20028"),
    ("ld1 {v0.16b}, [x1]", "2070404c", "R16@20030"),
    ("ld1 {v0.16b-v3.16b}, [x1]", "2020404c", "R64@20030"),
    ("st1 {v0.8b, v1.8b}, [x1], #16", "20a09f0c", "W16@20030"),
    ("ld4 {v0.4s-v3.4s}, [x1]", "2008404c", "R64@20030"),
    ("st3 {v0.8h-v2.8h}, [x1]", "2044004c", "W48@20030"),
    ("ld2 {v0.2d, v1.2d}, [x1], x2", "208cc24c", "R32@20030"),
    ("ld1 {v0.b}[3], [x1]", "200c400d", "R1@20030"),
    ("st1 {v0.d}[1], [x1]", "2084004d", "W8@20030"),
    ("ld3 {v0.s-v2.s}[1], [x1]", "20b0400d", "R12@20030"),
    ("st4 {v0.h-v3.h}[1], [x1], #8", "2068bf0d", "W8@20030"),
    ("ld1r {v0.4s}, [x1]", "20c8404d", "R4@20030"),
    ("ld4r {v0.8b-v3.8b}, [x1]", "20e0600d", "R4@20030"),
    ("ld2r {v0.2d, v1.2d}, [x1]", "20cc604d", "R16@20030"),
    ("dc zva, x1", "21740bd5", "W64@20000"),
    ("dc cvau, x1", "217b0bd5", "R1@20030"),
    ("ic ivau, x1", "21750bd5", "R1@20030"),
    ("add x0, x1, x2", "2000028b", ""),
    ("b .+8", "02000014", ""),
    ("svc #0", "010000d4", ""),
    ("mrs x0, tpidr_el0", "40d03bd5", ""),
];

#[test]
fn stack_segment() {
    use crate::x86_64::operands::{accesses, is_stack};
    let regs = Regs::new(Arch::X86_64);
    let stack = |code: &[u8]| {
        let list = accesses(code, &regs);
        list.iter().map(|a| is_stack(code, &regs, a)).collect::<Vec<_>>()
    };
    assert_eq!(stack(b"\x50"), [true], "push rax");
    assert_eq!(stack(b"\x58"), [true], "pop rax");
    assert_eq!(stack(b"\xc3"), [true], "ret");
    assert_eq!(stack(b"\xff\x30"), [false, true], "push [rax]");
    assert_eq!(stack(b"\x8b\x04\x24"), [true], "mov eax, [rsp]");
    assert_eq!(stack(b"\x8b\x45\x00"), [true], "mov eax, [rbp]");
    assert_eq!(stack(b"\x41\x8b\x04\x24"), [false], "mov eax, [r12]");
    assert_eq!(stack(b"\x8b\x05\x00\x00\x00\x00"), [false], "mov eax, [rip]");
    assert_eq!(stack(b"\x64\x8b\x04\x24"), [false], "mov eax, fs:[rsp]");
    assert_eq!(stack(b"\x8b\x00"), [false], "mov eax, [rax]");
    assert_eq!(stack(b"\xa5"), [false, false], "movsd");
}
