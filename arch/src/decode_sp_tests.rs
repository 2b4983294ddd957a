//! Instructions that set the stack pointer, and others that move it.

use super::Decoder;
use super::tests::hex;
use crate::Arch;

fn all(arch: Arch, expected: bool, list: &str) {
    for text in list.split(' ') {
        let insn = Decoder::new(arch).insn(&hex(text)).unwrap();
        assert_eq!(insn.sets_sp, expected, "{arch} {text}");
    }
}

#[test]
fn what_sets_the_stack_pointer() {
    // mov rsp,rbp (both encodings); leave; pop rsp; lea rsp,[rbp-8]; mov rsp,[rdi+0x30];
    // xchg rax,rsp; xchg rsp,rcx; mov rsp,imm32; cmove rsp,rax; mov esp,eax; sub rsp,rax;
    // add rsp,rcx
    let sets = "4889ec 488be5 c9 5c 488d65f8 488b6730 4894 4887e1 48c7c400000000 480f44e0 89c4 \
        4829c4 4801cc";
    all(Arch::X86_64, true, sets);
    // mov r12,rbp; lea rsp,[rsp+8]; add rsp,8; push rbp; call; ret; pop r12; lea r12,[rbp];
    // mov [rsp],rax; and rsp,-16
    let moves = "4989ec 488d642408 4883c408 55 e800000000 c3 415c 4c8d6500 48890424 4883e4f0";
    all(Arch::X86_64, false, moves);
    // mov sp,x29; mov sp,x9; sub sp,x29,#16; add sp,x29,x1; and sp,x9,#-64; add sp,sp,x1
    all(Arch::Aarch64, true, "bf030091 3f010091 bf4300d1 bf63218b 3fe57a92 ff63218b");
    // sub sp,sp,#16; mov x29,sp; add x0,x1,#1; stp x29,x30,[sp,#-16]!; ret
    all(Arch::Aarch64, false, "ff4300d1 fd030091 20040091 fd7bbfa9 c0035fd6");
}

/// Less usual ones, of hand-written switches of stacks.
#[test]
fn what_else_sets_the_stack_pointer() {
    // lea rsp,[rsp+rax]; xadd of rsp as either operand; and, or, xor, cmpxchg; adc, xor of a
    // constant; shl; not; bswap; movq rsp,xmm0; movzx; lea rsp,[rsp+r12+8]
    let list = "488d2404 480fc1c4 480fc1e1 4821c4 4809c4 483327 480fb1cc 4883d400 4883f440 \
        48c1e403 48f7d4 480fcc 66480f7ec4 0fb727 4a8d642408";
    all(Arch::X86_64, true, list);
    // cmp; test; lea rsp,[rsp+8]; lea r12,[rsp+rax]; xadd, cmpxchg, xor, movq, bswap of others;
    // bt; inc rsp
    let list = "4839c4 4885e4 488d642408 4c8d2404 480fc1c1 480fb1e1 4d31e4 66480f6ec4 490fcc \
        480fa3c4 48ffc4";
    all(Arch::X86_64, false, list);
    // orr, eor sp,x9,#64; ld1, st1 post-indexed by a register
    let list = "3f017ab2 3f017ad2 e073c14c e0a3894c e007c30d";
    all(Arch::Aarch64, true, list);
    // ld1 post-indexed by its size, of another base, not at all; tst;
    // orr x1,x9,#64; ldr x1,[sp],#16
    let list = "e073df4c e007df0d 2070c24c e073404c 3f017af2 21017ab2 e10741f8";
    all(Arch::Aarch64, false, list);
}
