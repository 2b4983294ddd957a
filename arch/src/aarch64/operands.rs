//! Memory operands of A64 loads and stores (Arm ARM DDI 0487, section
//! C4.1.97 "Loads and Stores") and of the cache operations that EL0 may use.

use super::regs::SP;
use crate::Regs;
use crate::decode::Access;

/// Bytes that `dc zva` clears: `DCZID_EL0.BS` is 4 in the CPUs that matter.
const ZVA_BLOCK: u64 = 64;

/// See [`crate::decode::Decoder::memory_operand`].
pub(crate) fn accesses(code: &[u8], regs: &Regs) -> Vec<Access> {
    let Some(bytes) = code.first_chunk::<4>() else { return Vec::new() };
    access(Word(u32::from_le_bytes(*bytes)), regs).into_iter().collect()
}

/// An instruction word.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    /// `len` bits from bit `low`.
    const fn bits(self, low: u32, len: u32) -> u32 {
        self.0 >> low & ((1 << len) - 1)
    }

    /// One bit.
    const fn bit(self, at: u32) -> bool {
        self.0 >> at & 1 != 0
    }

    /// `len` bits from bit `low`, sign-extended.
    const fn signed(self, low: u32, len: u32) -> i64 {
        ((self.0 << (32 - low - len)) as i32 >> (32 - len)) as i64
    }

    /// Whether the bits under `mask` equal `value`.
    const fn is(self, mask: u32, value: u32) -> bool {
        self.0 & mask == value
    }

    /// The base register, where 31 is the stack pointer.
    const fn base(self, regs: &Regs) -> u64 {
        regs.gp[self.bits(5, 5) as usize & SP]
    }
}

/// The access of one instruction; A64 instructions make at most one (a pair
/// or a structure is one contiguous access).
fn access(w: Word, regs: &Regs) -> Option<Access> {
    if w.is(0xbe00_0000, 0x0c00_0000) {
        return structures(w, regs);
    }
    if w.is(0x3f00_0000, 0x0800_0000) {
        return Some(exclusive(w, regs));
    }
    if w.is(0x3b00_0000, 0x1800_0000) {
        return literal(w, regs);
    }
    if w.is(0x3f20_0c00, 0x1900_0000) {
        // LDAPUR, STLUR
        let addr = w.base(regs).wrapping_add_signed(w.signed(12, 9));
        let write = w.bits(22, 2) == 0;
        return Some(Access { addr, size: 1 << w.bits(30, 2), write });
    }
    if w.is(0x3a00_0000, 0x2800_0000) {
        return pair(w, regs);
    }
    if w.is(0x3a00_0000, 0x3800_0000) {
        return single(w, regs);
    }
    cache(w, regs)
}

/// LD1..LD4, ST1..ST4, LD1R..LD4R.
const fn structures(w: Word, regs: &Regs) -> Option<Access> {
    let size = if w.bit(24) {
        // One element of one to four registers, or one replicated.
        let registers = (w.bits(13, 1) << 1 | w.bits(21, 1)) + 1;
        let element = match w.bits(14, 2) {
            0 => 1,
            1 => 2,
            2 if w.bit(10) => 8,
            2 => 4,
            _ => 1 << w.bits(10, 2),
        };
        registers * element
    } else {
        let registers = match w.bits(12, 4) {
            0 | 2 => 4,
            4 | 6 => 3,
            8 | 10 => 2,
            7 => 1,
            _ => return None,
        };
        registers * if w.bit(30) { 16 } else { 8 }
    };
    Some(Access { addr: w.base(regs), size, write: !w.bit(22) })
}

/// Exclusives, load-acquire, store-release, compare and swap.
const fn exclusive(w: Word, regs: &Regs) -> Access {
    let size = w.bits(30, 2);
    let (o2, load, o1) = (w.bit(23), w.bit(22), w.bit(21));
    let (size, write) = match (o2, o1) {
        (false, true) if size < 2 => (8 << size, true), // CASP
        (false, true) => (2 << size, !load),            // LDXP, STXP
        (true, true) => (1 << size, true),              // CAS
        (_, false) => (1 << size, !load),
    };
    Access { addr: w.base(regs), size, write }
}

/// LDR (literal).
const fn literal(w: Word, regs: &Regs) -> Option<Access> {
    let size = match (w.bits(30, 2), w.bit(26)) {
        (0, _) | (2, false) => 4,
        (1, _) => 8,
        (2, true) => 16,
        _ => return None, // PRFM
    };
    Some(Access::read(regs.pc.wrapping_add_signed(w.signed(5, 19) * 4), size))
}

/// LDP, STP, LDNP, STNP, LDPSW.
const fn pair(w: Word, regs: &Regs) -> Option<Access> {
    let element = match (w.bits(30, 2), w.bit(26)) {
        (3, _) => return None,
        (opc, true) => 4 << opc,
        (1, false) if !w.bit(22) => return None, // STGP
        (2, false) => 8,
        _ => 4,
    };
    let post_indexed = w.bits(23, 2) == 1;
    let offset = if post_indexed { 0 } else { w.signed(15, 7) * element as i64 };
    let addr = w.base(regs).wrapping_add_signed(offset);
    Some(Access { addr, size: 2 * element, write: !w.bit(22) })
}

/// Loads and stores of one register, and atomic memory operations.
const fn single(w: Word, regs: &Regs) -> Option<Access> {
    let base = w.base(regs);
    let vector = w.bit(26);
    let scale = if vector { w.bits(23, 1) << 2 | w.bits(30, 2) } else { w.bits(30, 2) };
    let addr = match (w.bit(24), w.bit(21), w.bits(10, 2)) {
        (true, _, _) => base.wrapping_add((w.bits(10, 12) as u64) << scale),
        (false, false, 1) => base,
        (false, false, _) => base.wrapping_add_signed(w.signed(12, 9)),
        (false, true, 2) => base.wrapping_add(index(w, regs, scale)),
        (false, true, 0) if !vector => return Some(atomic(w, base)),
        (false, true, _) if !vector && scale == 3 => return Some(authenticated(w, base)),
        _ => return None,
    };
    let opc = w.bits(22, 2);
    let (write, hint) = match vector {
        true => (opc & 1 == 0, scale > 4),
        false => (opc == 0, scale == 3 && opc >= 2), // PRFM
    };
    if hint { None } else { Some(Access { addr, size: 1 << scale, write }) }
}

/// Extended and shifted index register.
const fn index(w: Word, regs: &Regs, scale: u32) -> u64 {
    let number = w.bits(16, 5) as usize;
    let value = if number == 31 { 0 } else { regs.gp[number & 31] };
    let extended = match w.bits(13, 3) {
        2 => value as u32 as u64,        // UXTW
        6 => value as i32 as i64 as u64, // SXTW
        _ => value,
    };
    if w.bit(12) { extended << scale } else { extended }
}

/// LDADD, SWP and the rest of LSE; LDAPR; LD64B, ST64B.
const fn atomic(w: Word, base: u64) -> Access {
    let size = 1 << w.bits(30, 2);
    match (w.bit(15), w.bits(12, 3)) {
        (true, 4) => Access::read(base, size),
        (true, 5) => Access::read(base, 64),
        (true, 1..=3) => Access::write(base, 64),
        _ => Access::write(base, size),
    }
}

/// LDRAA, LDRAB. Authentication removes the code from bits 48 to 54.
const fn authenticated(w: Word, base: u64) -> Access {
    let sign = if w.bit(22) { -512 } else { 0 };
    let offset = (w.bits(12, 9) as i64 + sign) * 8;
    const CODE: u64 = 0x7f << 48;
    let stripped = if base >> 55 & 1 == 0 { base & !CODE } else { base | CODE };
    Access::read(stripped.wrapping_add_signed(offset), 8)
}

/// `dc zva` and the maintenance operations that EL0 may execute.
const fn cache(w: Word, regs: &Regs) -> Option<Access> {
    let number = w.bits(0, 5) as usize;
    let addr = if number == 31 { 0 } else { regs.gp[number & 31] };
    match w.0 & !0x1f {
        0xd50b_7420 => Some(Access::write(addr & !(ZVA_BLOCK - 1), ZVA_BLOCK as u32)),
        // IC IVAU; DC CVAC, CVAU, CVAP, CVADP, CIVAC.
        0xd50b_7520 | 0xd50b_7a20 | 0xd50b_7b20 | 0xd50b_7c20 | 0xd50b_7d20 | 0xd50b_7e20 => {
            Some(Access::read(addr, 1))
        }
        _ => None,
    }
}
