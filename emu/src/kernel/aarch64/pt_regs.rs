//! `struct pt_regs` of `arch/arm64/include/asm/ptrace.h`: 42 words at the stack's top,
//! with the metadata frame record that ends a kernel stack walk.

use arch::{Arch, Regs};

/// Words in the structure.
pub const WORDS: usize = 42;

/// `regs[0]`: the result of a system call.
pub const X0: usize = 0;
const SP: usize = 31;
const PC: usize = 32;
const PSTATE: usize = 33;
const ORIG_X0: usize = 34;
const SYSCALLNO: usize = 35;
/// `stackframe.record`: (0, 0) marks a metadata record.
pub const METADATA: usize = 38;
/// `stackframe.type`: `FRAME_META_TYPE_FINAL`.
const METADATA_TYPE: usize = 40;
const FINAL: u64 = 1;

/// The words for `regs`; `orig` is the system-call number or -1.
pub fn save(regs: &Regs, orig: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[..31].copy_from_slice(&regs.gp[..31]);
    words[SP] = regs.sp();
    words[PC] = regs.pc;
    words[PSTATE] = regs.flags;
    words[ORIG_X0] = regs.gp[0];
    words[SYSCALLNO] = orig;
    words[METADATA_TYPE] = FINAL;
    words
}

/// The registers that the words hold; the thread pointer is elsewhere.
pub fn restore(words: &[u64; WORDS]) -> Regs {
    let mut regs = Regs::new(Arch::Aarch64);
    regs.gp[..31].copy_from_slice(&words[..31]);
    regs.set_sp(words[SP]);
    regs.pc = words[PC];
    regs.flags = words[PSTATE];
    regs
}
