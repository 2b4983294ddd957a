//! `perf_callchain_user`: the walk in the overflow interrupt.
//!
//! ```text
//! x86_64 (arch/x86/events/core.c)          aarch64 (arch/arm64/kernel/stacktrace.c)
//!   store ip                                 store pc
//!   entry rule: store [sp]                   while fp ≠ 0, fp % 8 = 0, fp + 16 in range:
//!   while fp + 16 in range:                    (fp', lr) = [fp]
//!     (fp', ra) = [fp]                         store lr, stripped
//!     store ra                                 fp' > fp, else end
//!     fp = fp'                                 fp = fp'
//! ```
//!
//! On x86_64 nothing but the range is looked at: a frame that points to itself repeats until
//! the budget is used up. Reads that would fault end the walk.

use arch::{Arch, Regs};

use crate::Memory;

/// Walks from `regs` and gives `store` the addresses; it refuses when the chain is full.
///
/// `at_entry` is the rule for a uprobe on a function's first instruction (x86_64): the
/// return address is still at the stack pointer.
pub fn walk(
    regs: &Regs,
    at_entry: bool,
    memory: &mut impl Memory,
    store: &mut impl FnMut(u64) -> bool,
) {
    if !store(regs.pc) {
        return;
    }
    match regs.arch {
        Arch::X86_64 => walk_x86_64(regs, at_entry, memory, store),
        Arch::Aarch64 => walk_aarch64(regs, memory, store),
    }
}

fn walk_x86_64(
    regs: &Regs,
    at_entry: bool,
    memory: &mut impl Memory,
    store: &mut impl FnMut(u64) -> bool,
) {
    if at_entry
        && let Some(return_address) = memory.word(regs.sp())
        && !store(return_address)
    {
        return;
    }
    let mut fp = regs.fp();
    while fp < Arch::X86_64.task_size() - 16 {
        let Some((next, return_address)) = memory.pair(fp) else { return };
        if !store(return_address) {
            return;
        }
        fp = next;
    }
}

fn walk_aarch64(regs: &Regs, memory: &mut impl Memory, store: &mut impl FnMut(u64) -> bool) {
    let mut tail = regs.fp();
    while tail != 0 && tail.is_multiple_of(8) && tail < Arch::Aarch64.task_size() - 16 {
        let Some((next, link)) = memory.pair(tail) else { return };
        if !store(Arch::Aarch64.strip_pac(link)) || next <= tail {
            return;
        }
        tail = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Copied;

    fn chain(arch: Arch, fp: u64, max: usize, at_entry: bool, words: &[u64]) -> Vec<u64> {
        let mut regs = Regs::new(arch);
        (regs.pc, regs.gp[arch.fp()]) = (1, fp);
        regs.set_sp(0x1000);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut found = Vec::new();
        let mut store = |address| {
            let room = found.len() < max;
            if room {
                found.push(address);
            }
            room
        };
        walk(&regs, at_entry, &mut Copied { address: 0x1000, bytes }, &mut store);
        found
    }

    #[test]
    fn x86_repeats_a_frame_that_points_to_itself() {
        let words = [0x1000, 0x44_4444];
        assert_eq!(
            chain(Arch::X86_64, 0x1000, 4, false, &words),
            [1, 0x44_4444, 0x44_4444, 0x44_4444]
        );
        assert_eq!(chain(Arch::X86_64, 0x1000, 0, false, &words), []);
    }

    #[test]
    fn x86_looks_at_no_alignment_and_no_direction() {
        let words = [0x1003, 7, 0x1000, 9];
        assert_eq!(chain(Arch::X86_64, 0x1010, 3, false, &words), [1, 9, 7]);
        assert_eq!(chain(Arch::X86_64, u64::MAX, 9, false, &words), [1]);
    }

    #[test]
    fn the_entry_rule_adds_the_word_at_the_stack_pointer() {
        let words = [0x1000, 0x44_4444];
        assert_eq!(chain(Arch::X86_64, 0x1000, 3, true, &words), [1, 0x1000, 0x44_4444]);
        assert_eq!(chain(Arch::Aarch64, 0x1000, 3, true, &words), [1, 0x44_4444]);
    }

    #[test]
    fn aarch64_goes_up_only_and_strips() {
        let words = [0x1010, 0x0034_0000_0040_0100, 0x1000, 0x40_0200];
        assert_eq!(chain(Arch::Aarch64, 0x1000, 9, false, &words), [1, 0x40_0100, 0x40_0200]);
        assert_eq!(chain(Arch::Aarch64, 0x1001, 9, false, &words), [1]);
    }

    #[test]
    fn aarch64s_terminal_record_gives_a_zero() {
        assert_eq!(chain(Arch::Aarch64, 0x1000, 9, false, &[0, 0]), [1, 0]);
    }
}
