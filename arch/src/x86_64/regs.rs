//! DWARF register numbers (x86-64 psABI, figure 3.36) and the `perf` register
//! numbers of `arch/x86/include/uapi/asm/perf_regs.h`.

/// `rax`
pub const RAX: usize = 0;
/// `rdx`
pub const RDX: usize = 1;
/// `rcx`
pub const RCX: usize = 2;
/// `rbx`
pub const RBX: usize = 3;
/// `rsi`
pub const RSI: usize = 4;
/// `rdi`
pub const RDI: usize = 5;
/// `rbp`, the frame pointer
pub const RBP: usize = 6;
/// `rsp`, the stack pointer
pub const RSP: usize = 7;
/// `r8`
pub const R8: usize = 8;
/// `r9`
pub const R9: usize = 9;
/// `r10`
pub const R10: usize = 10;
/// `r11`
pub const R11: usize = 11;
/// `r12`
pub const R12: usize = 12;
/// `r13`
pub const R13: usize = 13;
/// `r14`
pub const R14: usize = 14;
/// `r15`
pub const R15: usize = 15;
/// The return-address column of CFI.
pub const RA: usize = 16;

/// Names by DWARF number.
pub const NAMES: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
