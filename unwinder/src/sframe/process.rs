//! A walk over a process's stack with the kernel's list of its sections, as the series that
//! adds SFrame to the deferred unwinder proposes it.
//!
//! ```text
//! each frame:  lookup(ip) ─┬─ row ─► applied ─┬─ caller
//!                          │                  └─ bad CFA, unreadable stack, outermost: end
//!                          └─ none, or refused ─► frame record (F2 to F7) ─┬─ caller
//!                                                                         └─ end
//! ```
//!
//! The kernel knows the stack and the frame pointer of a frame below the topmost; a row that
//! needs another register there is refused.

use arch::Regs;

use super::{Found, Registry};
use crate::fp::unwind_user::{self, MAX_ENTRIES};
use crate::step::{Caller, apply};
use crate::unwind::needs_registers;
use crate::{CodeAddress, End, InterruptedAddress, Memory, Registers};

/// Walks from a thread's registers: at most `max` (itself at most [`MAX_ENTRIES`]) addresses
/// for `store`, the topmost first. Returns why the walk ended; [`End::Limit`] if it was full.
pub fn walk(
    registry: &mut Registry,
    regs: &Regs,
    max: usize,
    memory: &mut impl Memory,
    store: &mut impl FnMut(u64),
) -> End {
    let mut address: CodeAddress = InterruptedAddress(regs.pc).into();
    let mut registers = Registers::of_thread(regs);
    for _ in 0..max.min(MAX_ENTRIES) {
        store(address.value());
        match step(registry, address, &registers, memory) {
            Ok(caller) => (address, registers) = (caller.address, kernel_registers(&caller)),
            Err(end) => return end,
        }
    }
    End::Limit
}

/// One step.
///
/// # Errors
///
/// [`End`]: why there is no caller.
pub fn step(
    registry: &mut Registry,
    address: CodeAddress,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<Caller, End> {
    let topmost = matches!(address, CodeAddress::Current(_));
    match registry.lookup(address.lookup(), memory) {
        Ok(Found::Row(row)) if topmost || !needs_registers(registers, &row) => {
            apply(&row, address, registers, &[], memory)
        }
        // The kernel's list knows no signal frames: the next method.
        _ => unwind_user::step(registers, memory),
    }
}

/// What the kernel keeps of a caller's registers.
fn kernel_registers(caller: &Caller) -> Registers {
    let mut registers = caller.registers;
    let arch = registers.arch();
    registers.keep(1 << arch.sp() | 1 << arch.fp());
    registers
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use arch::Arch;

    use super::*;
    use crate::memory::Copied;
    use crate::sframe::registry::Policy;

    #[test]
    fn without_sections_it_is_the_walk_of_7_3() {
        let words: [u64; 6] = [0x1010, 0x40_1000, 0x1020, 0x40_2000, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut regs = Regs::new(Arch::X86_64);
        (regs.pc, regs.gp[Arch::X86_64.fp()]) = (0x40_0000, 0x1000);
        regs.set_sp(0x1000);
        let mut memory = Copied { address: 0x1000, bytes };
        let mut registry = Registry::new(Arch::X86_64, Policy::default());
        let mut found = Vec::new();
        walk(&mut registry, &regs, 99, &mut memory, &mut |ip| found.push(ip));
        let mut expected = Vec::new();
        let state = unwind_user::State::start(&regs, false).unwrap();
        unwind_user::walk(state, 99, &mut memory, &mut |ip| expected.push(ip));
        assert_eq!(found, expected);
        assert_eq!(found, [0x40_0000, 0x40_1000, 0x40_2000, 0]);
        let mut first = 0;
        assert_eq!(walk(&mut registry, &regs, 2, &mut memory, &mut |_| first += 1), End::Limit);
        assert_eq!(first, 2);
    }
}
