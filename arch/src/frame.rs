//! Instructions that make and take down a function's frame.
//!
//! By shape alone: whether a `push` saves a register for the caller or passes an argument,
//! the instruction does not say.

use crate::{Arch, aarch64, x86_64};

/// What an instruction does to the frame of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameStep {
    /// Marks where calls and jumps may arrive: `endbr64`; `bti`.
    Landing,
    /// Makes the frame: `push`, `mov rbp, rsp`, `sub rsp, n`, `and rsp, -n`; `paciasp`,
    /// `stp x29, x30, [sp, -n]!`, stores of callee-saved registers above `sp`,
    /// `mov x29, sp`, `sub sp, sp, n`.
    Setup,
    /// Takes it down: `pop`, `leave`, `add rsp, n`, `lea rsp, [rbp - n]`; `autiasp`,
    /// `ldp x29, x30, [sp], n`, loads of callee-saved registers from above `sp`,
    /// `mov sp, x29`, `add sp, sp, n`.
    Teardown,
}

/// What the first instruction of `code` does to the frame, if anything.
pub fn frame_step(arch: Arch, code: &[u8]) -> Option<FrameStep> {
    match arch {
        Arch::X86_64 => x86_64::frame::frame_step(code),
        Arch::Aarch64 => aarch64::frame::frame_step(code),
    }
}

/// Bytes of the procedure-linkage entry that `code` begins with: a jump through a word of
/// `.got`, with what prepares it.
pub fn plt_entry_len(arch: Arch, code: &[u8]) -> Option<usize> {
    match arch {
        Arch::X86_64 => x86_64::frame::plt_entry_len(code),
        Arch::Aarch64 => aarch64::frame::plt_entry_len(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::branch_target;

    fn x86(code: &[u8]) -> Option<FrameStep> {
        frame_step(Arch::X86_64, code)
    }

    fn arm(word: u32) -> Option<FrameStep> {
        frame_step(Arch::Aarch64, &word.to_le_bytes())
    }

    #[test]
    fn x86_64_frames() {
        let setup: [&[u8]; 11] = [
            &[0x55],                         // push rbp
            &[0x41, 0x57],                   // push r15
            &[0x48, 0x89, 0xe5],             // mov rbp, rsp
            &[0x48, 0x8b, 0xec],             // the same, the other way
            &[0x48, 0x83, 0xec, 0x18],       // sub rsp, 24
            &[0x48, 0x81, 0xec, 0, 1, 0, 0], // sub rsp, 256
            &[0x48, 0x83, 0xc4, 0x80],       // add rsp, -128
            &[0x48, 0x83, 0xe4, 0xe0],       // and rsp, -32
            &[0x4c, 0x8d, 0x54, 0x24, 0x08], // lea r10, [rsp + 8]
            &[0x48, 0x8d, 0x6c, 0x24, 0x10], // lea rbp, [rsp + 16]
            &[0x41, 0xff, 0x72, 0xf8],       // push [r10 - 8]
        ];
        setup.iter().for_each(|code| assert_eq!(x86(code), Some(FrameStep::Setup), "{code:x?}"));
        let teardown: [&[u8]; 8] = [
            &[0x5d],                   // pop rbp
            &[0x41, 0x5f],             // pop r15
            &[0xc9],                   // leave
            &[0x48, 0x89, 0xec],       // mov rsp, rbp
            &[0x48, 0x83, 0xc4, 0x18], // add rsp, 24
            &[0x48, 0x83, 0xec, 0x80], // sub rsp, -128
            &[0x48, 0x8d, 0x65, 0xd8], // lea rsp, [rbp - 40]
            &[0x49, 0x8d, 0x62, 0xf8], // lea rsp, [r10 - 8]
        ];
        teardown.iter().for_each(|c| assert_eq!(x86(c), Some(FrameStep::Teardown), "{c:x?}"));
        assert_eq!(x86(&[0xf3, 0x0f, 0x1e, 0xfa]), Some(FrameStep::Landing));
        let neither: [&[u8]; 7] = [
            &[],
            &[0x6a, 0x05],             // push 5
            &[0x49, 0x83, 0xec, 0x18], // sub r12, 24
            &[0x83, 0xec, 0x18],       // sub esp, 24
            &[0x48, 0x89, 0xe7],       // mov rdi, rsp
            &[0x48, 0x83, 0xfc, 0x18], // cmp rsp, 24
            &[0xc3],
        ];
        neither.iter().for_each(|code| assert_eq!(x86(code), None, "{code:x?}"));
    }

    #[test]
    fn aarch64_frames() {
        let setup = [
            0xd503_233f, // paciasp
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0x9100_03fd, // mov x29, sp
            0xa901_53f3, // stp x19, x20, [sp, #16]
            0xf900_0bf3, // str x19, [sp, #16]
            0xf81e_0ffe, // str x30, [sp, #-32]!
            0xd100_83ff, // sub sp, sp, #32
            0x6dbe_27e8, // stp d8, d9, [sp, #-32]!
        ];
        setup.iter().for_each(|w| assert_eq!(arm(*w), Some(FrameStep::Setup), "{w:#x}"));
        let teardown = [
            0xd503_23bf, // autiasp
            0xa8c2_7bfd, // ldp x29, x30, [sp], #32
            0xa941_53f3, // ldp x19, x20, [sp, #16]
            0xf940_0bf3, // ldr x19, [sp, #16]
            0xf842_07fe, // ldr x30, [sp], #32
            0x9100_83ff, // add sp, sp, #32
            0x9100_03bf, // mov sp, x29
        ];
        teardown.iter().for_each(|w| assert_eq!(arm(*w), Some(FrameStep::Teardown), "{w:#x}"));
        assert_eq!(arm(0xd503_245f), Some(FrameStep::Landing)); // bti c
        // stp x0, x1, [sp, #16]; str x0, [sp, #16]; str x19, [x0]; ret; nop
        let neither = [0xa901_07e0, 0xf900_0be0, 0xf900_0013, 0xd65f_03c0, 0xd503_201f];
        neither.iter().for_each(|w| assert_eq!(arm(*w), None, "{w:#x}"));
        assert_eq!(frame_step(Arch::Aarch64, &[0xfd, 0x7b]), None);
    }

    #[test]
    fn targets() {
        let x86 = |code: &[u8]| branch_target(Arch::X86_64, code, 0x1000);
        assert_eq!(x86(&[0xeb, 0xfe]), Some(0x1000));
        assert_eq!(x86(&[0xe9, 0x0b, 0, 0, 0]), Some(0x1010));
        assert_eq!(x86(&[0xe8, 0xfb, 0xef, 0xff, 0xff]), Some(0));
        assert_eq!(x86(&[0x0f, 0x84, 0, 1, 0, 0]), Some(0x1106));
        assert_eq!((x86(&[0xff, 0xe0]), x86(&[0xc3]), x86(&[0xe9])), (None, None, None));
        let arm = |word: u32| branch_target(Arch::Aarch64, &word.to_le_bytes(), 0x1000);
        assert_eq!(arm(0x1400_0002), Some(0x1008));
        assert_eq!(arm(0x97ff_ffff), Some(0xffc));
        assert_eq!(arm(0x5400_0040), Some(0x1008)); // b.eq
        assert_eq!(arm(0xb4ff_ffe0), Some(0xffc)); // cbz
        assert_eq!(arm(0x3607_ffe0), Some(0xffc)); // tbz
        assert_eq!((arm(0xd65f_03c0), arm(0xd61f_0200)), (None, None));
    }

    #[test]
    fn plt_entries() {
        let x86 = |code: &[u8]| plt_entry_len(Arch::X86_64, code);
        assert_eq!(x86(&[0xff, 0x25, 1, 2, 3, 0]), Some(6));
        assert_eq!(x86(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1, 2, 3, 0]), Some(11));
        assert_eq!((x86(&[0xff, 0x25]), x86(&[0xff, 0xe0])), (None, None));
        let words = [0x9000_0410u32, 0xf947_7211, 0x913b_8210, 0xd61f_0220];
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(plt_entry_len(Arch::Aarch64, &code), Some(16));
        assert_eq!(plt_entry_len(Arch::Aarch64, &code[4..]), None);
    }
}
