//! `struct pt_regs` of `arch/x86/include/asm/ptrace.h`: 21 words at the stack's top.

use arch::x86_64::regs as r;
use arch::{Arch, Regs};

/// Words in the structure.
pub const WORDS: usize = 21;

/// DWARF numbers of the first 15 words.
const ORDER: [usize; 15] = [
    r::R15,
    r::R14,
    r::R13,
    r::R12,
    r::RBP,
    r::RBX,
    r::R11,
    r::R10,
    r::R9,
    r::R8,
    r::RAX,
    r::RCX,
    r::RDX,
    r::RSI,
    r::RDI,
];

/// `ax`: the result of a system call.
pub const AX: usize = 10;
const ORIG_AX: usize = 15;
const IP: usize = 16;
const CS: usize = 17;
const FLAGS: usize = 18;
const SP: usize = 19;
const SS: usize = 20;

/// The words for `regs`; `orig` is the system-call number or -1.
pub fn save(regs: &Regs, orig: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, number) in words.iter_mut().zip(ORDER) {
        *word = regs.gp[number];
    }
    words[ORIG_AX] = orig;
    words[IP] = regs.pc;
    words[CS] = 0x33;
    words[FLAGS] = regs.flags;
    words[SP] = regs.sp();
    words[SS] = 0x2b;
    words
}

/// The registers that the words hold; thread pointers are elsewhere.
pub fn restore(words: &[u64; WORDS]) -> Regs {
    let mut regs = Regs::new(Arch::X86_64);
    for (word, number) in words.iter().zip(ORDER) {
        regs.gp[number] = *word;
    }
    regs.pc = words[IP];
    regs.flags = words[FLAGS];
    regs.set_sp(words[SP]);
    regs
}
