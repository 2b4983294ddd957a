//! Classes of A64 instructions (Arm ARM DDI 0487, section C4.1.95 "Branches,
//! Exception Generating and System instructions").
//!
//! Every word is an instruction of four bytes, allocated or not: whether the
//! processor knows it is not asked here.

use crate::decode::{Insn, InsnClass};

/// Length of every instruction.
pub const LEN: usize = 4;

/// Decodes the first instruction of `code`; see [`crate::decode::Decoder::insn`].
pub fn insn(code: &[u8]) -> Option<Insn> {
    if code.is_empty() {
        return None;
    }
    Some(match code.first_chunk::<LEN>() {
        Some(bytes) => Insn {
            len: LEN as u8,
            class: class(u32::from_le_bytes(*bytes)),
            special: None,
            sets_sp: sets_sp(u32::from_le_bytes(*bytes)),
            known: true,
        },
        // One to three bytes.
        None => Insn {
            len: code.len() as u8,
            class: InsnClass::Other,
            special: None,
            sets_sp: false,
            known: false,
        },
    })
}

/// See [`crate::decode::branch_target`].
pub fn branch_target(code: &[u8], pc: u64) -> Option<u64> {
    let word = u32::from_le_bytes(*code.first_chunk::<LEN>()?);
    // Lowest bit and width of the distance in words.
    let (low, width) = match (class(word), word >> 24 & 0x7f) {
        (InsnClass::Branch { indirect: false, conditional: false }, _)
        | (InsnClass::Call { indirect: false }, _) => (0, 26),
        (InsnClass::Branch { conditional: true, .. }, 0x36 | 0x37) => (5, 14),
        (InsnClass::Branch { conditional: true, .. }, _) => (5, 19),
        _ => return None,
    };
    let signed = (word << (32 - low - width)) as i32 >> (32 - width);
    Some(pc.wrapping_add((i64::from(signed) * 4) as u64))
}

/// `sp` gets what is computed from another register: ADD and SUB (immediate) of another
/// than `sp`, among them `mov sp, xN`, ADD and SUB (extended register), AND, ORR and EOR
/// (immediate); vector loads and stores that are post-indexed by a register.
const fn sets_sp(word: u32) -> bool {
    let (target, base, index) = (word & 31, word >> 5 & 31, word >> 16 & 31);
    let immediate = word & 0xbf80_0000 == 0x9100_0000;
    let extended = word & 0xbfe0_0000 == 0x8b20_0000;
    // Not ANDS, whose 31 is `xzr`.
    let logical = word & 0x9f80_0000 == 0x9200_0000 && word >> 29 & 3 != 3;
    // Of several and of single structures; an index of 31 stands for their size.
    let several = word & 0xbfa0_0000 == 0x0c80_0000;
    let single = word & 0xbf80_0000 == 0x0d80_0000;
    target == 31 && (logical || extended || immediate && base != 31)
        || base == 31 && index != 31 && (several || single)
}

/// Class of an instruction word.
pub(crate) const fn class(word: u32) -> InsnClass {
    match word >> 24 {
        // B, BL: imm26.
        0x14..=0x17 => InsnClass::Branch { conditional: false, indirect: false },
        0x94..=0x97 => InsnClass::Call { indirect: false },
        // CBZ, CBNZ, TBZ, TBNZ, in both widths; B.cond and BC.cond.
        0x34..=0x37 | 0xb4..=0xb7 | 0x54 => {
            InsnClass::Branch { conditional: true, indirect: false }
        }
        0xd6 | 0xd7 => branch_register(word),
        0xd4 => exception(word),
        0x00 if word >> 16 == 0 => InsnClass::Trap, // UDF
        _ => InsnClass::Other,
    }
}

/// BR, BLR, RET and their pointer-authenticating forms.
const fn branch_register(word: u32) -> InsnClass {
    // op2 is 11111 in every allocated encoding.
    if word >> 16 & 0x1f != 0x1f {
        return InsnClass::Other;
    }
    match word >> 21 & 0xf {
        0 | 8 => InsnClass::Branch { conditional: false, indirect: true },
        1 | 9 => InsnClass::Call { indirect: true },
        2 => InsnClass::Return,
        4 | 5 => InsnClass::Trap, // ERET, DRPS: undefined at EL0.
        _ => InsnClass::Other,
    }
}

/// SVC, HVC, SMC, BRK, HLT, DCPS.
const fn exception(word: u32) -> InsnClass {
    match (word >> 21 & 7, word & 0x1f) {
        (0, 1) => InsnClass::Syscall,
        (0, 2 | 3) | (1 | 2, 0) | (5, 1..=3) => InsnClass::Trap,
        _ => InsnClass::Other,
    }
}
