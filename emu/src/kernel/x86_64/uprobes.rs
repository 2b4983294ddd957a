//! Probed instructions that the kernel emulates (`arch/x86/kernel/uprobes.c`): `push`, `nop`,
//! `jmp`, `jcc` and `call` to an address in the instruction.

use arch::Regs;

use crate::kernel::State;
use crate::kernel::uprobe::Simulated;

/// DWARF numbers of registers by that of their encoding.
const DWARF: [usize; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Executes the instruction at `regs.pc`, whose bytes are `code`; `None` if it is another one, or
/// if the stack cannot be written.
pub fn simulate(s: &mut State, code: &[u8; 16], regs: &mut Regs) -> Option<Simulated> {
    let near = |at: usize| {
        let bytes = *code[at..].first_chunk::<4>()?;
        Some((at as u64 + 4, i64::from(i32::from_le_bytes(bytes))))
    };
    let short = (2, i64::from(code[1] as i8));
    let (len, offset, taken, is_call) = match (code[0], code[1]) {
        (0x50..=0x57, _) => return push(s, regs, usize::from(code[0] & 7), 1),
        (0x41, 0x50..=0x57) => return push(s, regs, usize::from(code[1] & 7) + 8, 2),
        (0x90, _) => {
            regs.pc += 1;
            return Some(Simulated::Step);
        }
        (0xeb, _) => (short.0, short.1, true, false),
        (0x70..=0x7f, _) => (short.0, short.1, holds(code[0] & 15, regs.flags), false),
        (0xe9, _) => near(1).map(|(len, offset)| (len, offset, true, false))?,
        (0x0f, 0x80..=0x8f) => {
            near(2).map(|(len, offset)| (len, offset, holds(code[1] & 15, regs.flags), false))?
        }
        (0xe8, _) => near(1).map(|(len, offset)| (len, offset, true, true))?,
        _ => return None,
    };
    let next = regs.pc.wrapping_add(len);
    if is_call {
        push_word(s, regs, next)?;
    }
    regs.pc = if taken { next.wrapping_add_signed(offset) } else { next };
    Some(match (is_call, taken) {
        (true, _) => Simulated::Call { next },
        (false, true) => Simulated::Jump { next, indirect: false },
        (false, false) => Simulated::Step,
    })
}

/// Whether the condition of an encoding holds.
fn holds(condition: u8, flags: u64) -> bool {
    let bit = |n: u32| flags >> n & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (bit(0), bit(2), bit(6), bit(7), bit(11));
    let holds = match condition >> 1 {
        0 => overflow,
        1 => carry,
        2 => zero,
        3 => carry || zero,
        4 => sign,
        5 => parity,
        6 => sign != overflow,
        _ => zero || sign != overflow,
    };
    holds != (condition & 1 != 0)
}

/// Pushes a register by the number of its encoding.
fn push(s: &mut State, regs: &mut Regs, register: usize, len: u64) -> Option<Simulated> {
    push_word(s, regs, regs.gp[DWARF[register]])?;
    regs.pc += len;
    Some(Simulated::Step)
}

fn push_word(s: &mut State, regs: &mut Regs, value: u64) -> Option<()> {
    let sp = regs.sp().wrapping_sub(8);
    s.write_user(sp, &value.to_le_bytes()).ok()?;
    regs.set_sp(sp);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn conditions() {
        let (carry, zero, sign, overflow) = (1, 1 << 6, 1 << 7, 1 << 11);
        for (condition, flags, wanted) in [
            (0x4, zero, true),
            (0x5, zero, false),
            (0x2, carry, true),
            (0x7, zero, false),
            (0x7, 0, true),
            (0xc, sign, true),
            (0xc, sign | overflow, false),
            (0xd, sign | overflow, true),
            (0xf, 0, true),
            (0xe, zero, true),
            (0xe, overflow, true),
            (0xa, 1 << 2, true),
        ] {
            assert_eq!(holds(condition, flags), wanted, "{condition:#x} {flags:#x}");
        }
    }
}
