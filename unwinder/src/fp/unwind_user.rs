//! `unwind_user` of Linux 7.3 with its frame-pointer method, as the deferred unwind runs it.
//!
//! ```text
//! F1  at a function's start, topmost frame:  CFA = sp + 8,   ra = [CFA - 8],  fp kept
//!     else:                                  CFA = fp + 16,  ra = [CFA - 8],  fp = [CFA - 16]
//! F2  with fp:  fp ≥ sp
//! F3  CFA > sp
//! F4  CFA % 8 = 0
//! F5  ra loaded          F6  fp loaded          F7  ip = ra, sp = CFA
//! ```
//!
//! A step that fails ends the walk. The stack pointer grows with every step, so that there
//! are no loops; nothing asks whether a return address is code, or 0.
//!
//! Loads happen in task context: they bring absent pages in.

use arch::{Arch, Regs};

use crate::address::ReturnAddress;
use crate::brief::{Known, Quick};
use crate::step::Caller;
use crate::{End, Memory, Registers};

/// Entries of the cache page: `(PAGE_SIZE - header) / sizeof(long)`.
pub const MAX_ENTRIES: usize = 510;

const WORD: u64 = 8;

/// State of a walk (`struct unwind_user_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Instruction pointer of the frame.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// Its frame pointer.
    pub fp: u64,
    /// No step was made yet.
    pub topmost: bool,
    /// The probed instruction is a function's first (a uprobe handler runs).
    pub at_start: bool,
}

impl State {
    /// Starts at a thread's registers (U1 to U5). `None` where the kernel has no such
    /// unwinder: aarch64.
    pub fn start(regs: &Regs, at_start: bool) -> Option<State> {
        (regs.arch == Arch::X86_64).then(|| State {
            ip: regs.pc,
            sp: regs.sp(),
            fp: regs.fp(),
            topmost: true,
            at_start,
        })
    }

    /// Goes to the caller (F1 to F7); `false`, and nothing is changed, if a step fails.
    pub fn next(&mut self, memory: &mut impl Memory) -> bool {
        let next = match self.topmost && self.at_start {
            true => self.first_step(memory),
            false => record(self.sp, self.fp, memory).ok(),
        };
        let Some(Record { cfa, return_address, fp }) = next else { return false };
        let at_start = self.at_start;
        *self = State { ip: return_address, sp: cfa, fp, topmost: false, at_start };
        true
    }

    fn first_step(&self, memory: &mut impl Memory) -> Option<Record> {
        let cfa = self.sp.wrapping_add(WORD);
        check(self.sp, cfa).ok()?;
        Some(Record { cfa, return_address: memory.word(self.sp)?, fp: self.fp })
    }
}

/// What a step finds.
pub(crate) struct Record {
    pub cfa: u64,
    pub return_address: u64,
    pub fp: u64,
}

/// A step with the frame pointer.
#[inline]
pub(crate) fn record(sp: u64, fp: u64, memory: &mut impl Memory) -> Result<Record, End> {
    if fp < sp {
        return Err(End::BadFramePointer(fp));
    }
    let cfa = fp.wrapping_add(2 * WORD);
    check(sp, cfa)?;
    let (fp, return_address) = memory.pair(fp).ok_or(End::BadRead { address: fp })?;
    Ok(Record { cfa, return_address, fp })
}

/// As [`record`], of a frame whose registers are known.
#[inline(always)]
pub(crate) fn quick(arch: Arch, known: &Known, memory: &mut impl Memory) -> Quick {
    match record(known.sp, known.fp, memory) {
        Ok(Record { cfa, return_address, fp }) => {
            Quick::caller(arch.strip_pac(return_address), cfa, fp)
        }
        Err(_) => Quick::Other,
    }
}

/// F3 and F4.
#[inline]
fn check(sp: u64, cfa: u64) -> Result<(), End> {
    match cfa > sp {
        true if cfa.is_multiple_of(WORD) => Ok(()),
        true => Err(End::BadFramePointer(cfa.wrapping_sub(2 * WORD))),
        false => Err(End::NoProgress { sp, cfa }),
    }
}

/// One step, with the reason why there is no caller. A return address of 0 is one like any
/// other. On aarch64, where Linux 7.3 has no such unwinder, signatures are stripped.
///
/// # Errors
///
/// [`End`]: an unknown register, a frame pointer that is none, unreadable memory.
pub fn step(registers: &Registers, memory: &mut impl Memory) -> Result<Caller, End> {
    let arch = registers.arch();
    let sp = registers.sp().ok_or(End::UnknownRegister(arch.sp() as u8))?;
    let fp = registers.fp().ok_or(End::UnknownRegister(arch.fp() as u8))?;
    let Record { cfa, return_address, fp } = record(sp, fp, memory)?;
    let address = ReturnAddress(arch.strip_pac(return_address)).into();
    Ok(Caller { address, registers: Registers::of_frame(arch, cfa, fp), cfa: Some(cfa) })
}

/// The whole walk: at most `max` (itself at most [`MAX_ENTRIES`]) addresses for `store`. The
/// topmost is stored before any stack access, so a walk that starts has one at least.
pub fn walk(mut state: State, max: usize, memory: &mut impl Memory, store: &mut impl FnMut(u64)) {
    for _ in 0..max.min(MAX_ENTRIES) {
        store(state.ip);
        if !state.next(memory) {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::memory::Copied;

    fn chain(fp: u64, at_start: bool, max: usize, words: &[u64]) -> Vec<u64> {
        let mut regs = Regs::new(Arch::X86_64);
        (regs.pc, regs.gp[Arch::X86_64.fp()]) = (1, fp);
        regs.set_sp(0x1000);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut found = Vec::new();
        let state = State::start(&regs, at_start).unwrap();
        walk(state, max, &mut Copied { address: 0x1000, bytes }, &mut |a| found.push(a));
        found
    }

    #[test]
    fn records_lead_up() {
        let words = [0x1010, 7, 0x9999, 8];
        assert_eq!(chain(0x1000, false, 99, &words), [1, 7, 8]);
        assert_eq!(chain(0x1000, false, 2, &words), [1, 7]);
        assert_eq!(chain(0x1000, false, 0, &words), []);
    }

    #[test]
    fn what_the_immediate_walk_accepts_and_this_does_not() {
        assert_eq!(chain(0x1000, false, 99, &[0x1000, 7]), [1, 7], "a loop");
        assert_eq!(chain(0x1001, false, 99, &[0, 7, 0, 0]), [1], "misaligned");
        assert_eq!(chain(0xff8, false, 99, &[0, 7, 0, 0]), [1], "below the stack pointer");
        assert_eq!(chain(u64::MAX - 7, false, 99, &[0; 4]), [1], "wraps");
    }

    #[test]
    fn a_zero_return_address_is_stored() {
        assert_eq!(chain(0x1000, false, 99, &[0, 0]), [1, 0]);
    }

    #[test]
    fn the_start_rule_is_for_the_topmost_frame() {
        let words = [7, 0, 0x1020, 8, 0, 9];
        assert_eq!(chain(0x1010, true, 99, &words), [1, 7, 8, 9]);
        assert_eq!(chain(0x1010, false, 99, &words), [1, 8, 9]);
    }

    #[test]
    fn why_a_step_fails() {
        let words: Vec<u8> = [0x1010u64, 7].iter().flat_map(|w| w.to_le_bytes()).collect();
        let end = |sp, fp| {
            let registers = Registers::of_frame(Arch::X86_64, sp, fp);
            step(&registers, &mut Copied { address: 0x1000, bytes: &words }).map(|c| c.cfa)
        };
        assert_eq!(end(0x1000, 0x1000), Ok(Some(0x1010)));
        assert_eq!(end(0x1000, 0xff8), Err(End::BadFramePointer(0xff8)));
        assert_eq!(end(0x1000, 0x1001), Err(End::BadFramePointer(0x1001)));
        assert_eq!(end(0x1000, 0x1008), Err(End::BadRead { address: 0x1008 }));
        let wrapped = End::NoProgress { sp: 0x1000, cfa: 8 };
        assert_eq!(end(0x1000, u64::MAX - 7), Err(wrapped));
        let unknown =
            step(&Registers::unknown(Arch::X86_64), &mut Copied { address: 0, bytes: [] });
        assert_eq!(unknown, Err(End::UnknownRegister(7)));
    }

    #[test]
    fn a_cache_page_is_the_limit() {
        let words: Vec<u64> =
            (0..1200u64).map(|i| if i % 2 == 0 { 0x1000 + 8 * (i + 2) } else { i }).collect();
        assert_eq!(chain(0x1000, false, usize::MAX, &words).len(), MAX_ENTRIES);
    }

    #[test]
    fn aarch64_has_none() {
        assert_eq!(State::start(&Regs::new(Arch::Aarch64), false), None);
    }
}
