//! Probed instructions that the kernel simulates (`arch/arm64/kernel/probes/simulate-insn.c`):
//! branches, and what reads the program counter.

use arch::Regs;
use arch::aarch64::regs::LR;

use crate::kernel::State;
use crate::kernel::uprobe::Simulated;

/// `nop`
const NOP: u32 = 0xd503_201f;

/// Executes the instruction at `regs.pc`, whose bytes are `code`; `None` if it is another one.
pub fn simulate(_: &mut State, code: &[u8; 16], regs: &mut Regs) -> Option<Simulated> {
    let insn = u32::from_le_bytes(*code.first_chunk()?);
    let next = regs.pc.wrapping_add(4);
    if let Some((taken, offset)) = direct(insn, regs) {
        let to = regs.pc.wrapping_add_signed(offset);
        regs.pc = if taken { to } else { next };
        return Some(match (taken, insn >> 26 == 0x25) {
            (true, true) => {
                regs.gp[LR] = next;
                Simulated::Call { next }
            }
            (true, false) => Simulated::Jump { next, indirect: false },
            (false, _) => Simulated::Step,
        });
    }
    let target = register(regs, insn >> 5);
    let simulated = match insn & 0xffff_fc1f {
        0xd61f_0000 => Simulated::Jump { next, indirect: true },
        0xd63f_0000 => Simulated::Call { next },
        0xd65f_0000 => Simulated::Return { next },
        _ => return step(insn, regs),
    };
    if let Simulated::Call { .. } = simulated {
        regs.gp[LR] = next;
    }
    regs.pc = target;
    Some(simulated)
}

/// A branch to an address in the instruction: whether it is taken, and how far it goes.
fn direct(insn: u32, regs: &Regs) -> Option<(bool, i64)> {
    let value = register(regs, insn);
    let inverted = insn >> 24 & 1 != 0;
    if insn & 0x7c00_0000 == 0x1400_0000 {
        return Some((true, field(insn, 0, 26) * 4)); // b, bl
    }
    if insn & 0xff00_0010 == 0x5400_0000 {
        return Some((holds(insn & 15, regs.flags), field(insn, 5, 19) * 4)); // b.cond
    }
    match insn & 0x7e00_0000 {
        0x3400_0000 => {
            let value = if insn >> 31 == 0 { value & 0xffff_ffff } else { value };
            Some(((value == 0) != inverted, field(insn, 5, 19) * 4)) // cbz, cbnz
        }
        0x3600_0000 => {
            let bit = insn >> 31 << 5 | insn >> 19 & 31;
            Some(((value >> bit & 1 == 0) != inverted, field(insn, 5, 14) * 4)) // tbz, tbnz
        }
        _ => None,
    }
}

/// `nop`, `adr`, `adrp`
fn step(insn: u32, regs: &mut Regs) -> Option<Simulated> {
    if insn & 0x1f00_0000 == 0x1000_0000 {
        let offset = field(insn, 5, 19) << 2 | i64::from(insn >> 29 & 3);
        let value = match insn >> 31 {
            0 => regs.pc.wrapping_add_signed(offset),
            _ => (regs.pc & !0xfff).wrapping_add_signed(offset << 12),
        };
        let to = (insn & 31) as usize;
        if to < 31 {
            regs.gp[to] = value;
        }
    } else if insn != NOP {
        return None;
    }
    regs.pc = regs.pc.wrapping_add(4);
    Some(Simulated::Step)
}

/// A register by the lowest five bits, of which 31 is zero.
const fn register(regs: &Regs, field: u32) -> u64 {
    match field & 31 {
        31 => 0,
        n => regs.gp[n as usize],
    }
}

/// `bits` bits from `low` on, with their sign.
const fn field(insn: u32, low: u32, bits: u32) -> i64 {
    (((insn >> low) << (32 - bits)) as i32 >> (32 - bits)) as i64
}

/// Whether a condition holds for NZCV.
fn holds(condition: u32, flags: u64) -> bool {
    let bit = |n: u32| flags >> n & 1 != 0;
    let (negative, zero, carry, overflow) = (bit(31), bit(30), bit(29), bit(28));
    let holds = match condition >> 1 {
        0 => zero,
        1 => carry,
        2 => negative,
        3 => overflow,
        4 => carry && !zero,
        5 => negative == overflow,
        6 => negative == overflow && !zero,
        _ => return true,
    };
    holds != (condition & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::Arch;

    #[test]
    fn branches() {
        let mut regs = Regs::new(Arch::Aarch64);
        (regs.gp[3], regs.flags) = (1 << 32, 1 << 30);
        for (insn, wanted) in [
            (0x17ff_ffff, Some((true, -4))),     // b .-4
            (0x9400_0002, Some((true, 8))),      // bl .+8
            (0x5400_0040, Some((true, 8))),      // b.eq .+8
            (0x5400_0041, Some((false, 8))),     // b.ne .+8
            (0x3400_0043, Some((true, 8))),      // cbz w3, .+8
            (0xb400_0043, Some((false, 8))),     // cbz x3, .+8
            (0xb500_0043, Some((true, 8))),      // cbnz x3, .+8
            (0xb407_ffdf, Some((true, 0xfff8))), // cbz xzr
            (0xb600_0043, Some((false, 8))),     // tbz x3, #32, .+8
            (0x3707_fff3, Some((false, -4))),    // tbnz w19, #0, .-4
            (0xd503_201f, None),
            (0xa9bf_7bfd, None), // stp x29, x30, [sp, #-16]!
        ] {
            assert_eq!(direct(insn, &regs), wanted, "{insn:#x}");
        }
    }

    #[test]
    fn addresses() {
        let mut regs = Regs::new(Arch::Aarch64);
        regs.pc = 0x1_2344;
        assert_eq!(step(0x1000_0040, &mut regs), Some(Simulated::Step)); // adr x0, .+8
        assert_eq!((regs.gp[0], regs.pc), (0x1_234c, 0x1_2348));
        assert_eq!(step(0xb000_0001, &mut regs), Some(Simulated::Step)); // adrp x1, .+0x1000
        assert_eq!(regs.gp[1], 0x1_3000);
        assert_eq!(step(0xa9bf_7bfd, &mut regs), None);
    }
}
