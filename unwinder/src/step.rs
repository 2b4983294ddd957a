//! One step: a row applied to a frame gives its caller.
//!
//! ```text
//! CFA              = row.cfa over the frame's registers
//! caller's r       = rule(r) over CFA, the frame's registers and memory
//! caller's sp      = CFA, unless there is a rule for it
//! return address   = rule(ra), stripped of its signature where the row says so
//! ```
//!
//! All rules of a row are evaluated over the registers of the *frame*: none sees what
//! another one restored.

use arch::Arch;

use crate::address::{InterruptedAddress, ReturnAddress};
use crate::dwarf::expression;
use crate::registers::callee_saved;
use crate::row::{CfaRule, Expression, Row, Rule, Silent};
use crate::{CodeAddress, End, Memory, Registers};

/// A frame's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where the caller goes on.
    pub address: CodeAddress,
    /// The caller's registers.
    pub registers: Registers,
    /// Canonical frame address of the frame that was left, where the method knows it.
    pub cfa: Option<u64>,
}

/// The CFA of a frame with these registers. `section` holds the row's expressions.
///
/// # Errors
///
/// [`End`]: an unknown register, unreadable memory, a bad expression.
pub fn cfa(
    row: &Row,
    registers: &Registers,
    section: &[u8],
    memory: &mut impl Memory,
) -> Result<u64, End> {
    match row.cfa {
        CfaRule::Register { register, offset } => plus(registers, register, offset),
        CfaRule::Memory { register, offset } => load(memory, plus(registers, register, offset)?),
        CfaRule::Expression(e) => evaluate(section, e, None, registers, memory),
    }
}

/// Applies `row` to the frame at `address`.
///
/// # Errors
///
/// [`End`]: why there is no caller.
pub fn apply(
    row: &Row,
    address: CodeAddress,
    registers: &Registers,
    section: &[u8],
    memory: &mut impl Memory,
) -> Result<Caller, End> {
    // Before anything else: an outermost row need not have a CFA that means something.
    if row.rule(row.return_address) == Rule::Undefined {
        return Err(End::Undefined);
    }
    let cfa = match row.cfa {
        CfaRule::Expression(_) => cfa(row, &with_pc(registers, address), section, memory)?,
        _ => cfa(row, registers, section, memory)?,
    };
    let frame = Frame { row, registers, section, cfa };
    frame.check_progress(address)?;
    let arch = registers.arch();
    let return_address = frame.return_address(memory)?;
    if return_address == 0 {
        return Err(End::NullReturnAddress);
    }
    let mut caller = Registers::unknown(arch);
    for column in 0..Registers::COUNT as u8 {
        if let Some(value) = frame.register(column, memory) {
            caller.set(column, value);
        }
    }
    if !row.signal && arch == Arch::Aarch64 {
        caller.forget(LINK); // the caller's call has overwritten it
    }
    let address = match row.signal {
        true => InterruptedAddress(return_address).into(),
        false => ReturnAddress(return_address).into(),
    };
    Ok(Caller { address, registers: caller, cfa: Some(frame.cfa) })
}

/// x86_64 has a DWARF number for the program counter, that of the return address: linkers'
/// rules for stubs of the PLT compute with it.
fn with_pc(registers: &Registers, address: CodeAddress) -> Registers {
    let mut registers = *registers;
    if registers.arch() == Arch::X86_64 {
        registers.set(arch::x86_64::regs::RA as u8, address.value());
    }
    registers
}

/// aarch64's link register.
const LINK: u8 = arch::aarch64::regs::RA as u8;

/// Progress: `CFA > sp`. Only a frame that calls nothing may have the CFA at its stack pointer,
/// and only on aarch64: x86_64 has the return address there.
#[inline]
pub(crate) fn progress(
    arch: Arch,
    address: CodeAddress,
    sp: Option<u64>,
    cfa: u64,
) -> Result<(), End> {
    let Some(sp) = sp else { return Ok(()) };
    if cfa > sp || cfa == sp && address.is_exact() && arch == Arch::Aarch64 {
        return Ok(());
    }
    Err(End::NoProgress { sp, cfa })
}

struct Frame<'a> {
    row: &'a Row,
    registers: &'a Registers,
    section: &'a [u8],
    cfa: u64,
}

impl Frame<'_> {
    fn check_progress(&self, address: CodeAddress) -> Result<(), End> {
        // A function may pop its return address into a register and go on.
        let popped = matches!(self.row.rule(self.row.return_address), Rule::Register { .. });
        let at_cfa = popped && address.is_exact() && self.registers.sp() == Some(self.cfa);
        match self.row.signal || at_cfa {
            true => Ok(()), // a signal may have changed stacks
            false => progress(self.registers.arch(), address, self.registers.sp(), self.cfa),
        }
    }

    fn return_address(&self, memory: &mut impl Memory) -> Result<u64, End> {
        let column = self.row.return_address;
        let value = match self.row.rule(column) {
            // The link register still has it.
            Rule::Unmentioned | Rule::Same => {
                self.registers.get(column).ok_or(End::UnknownRegister(column))?
            }
            rule => self.value(rule, column, memory)?.ok_or(End::Undefined)?,
        };
        Ok(match self.row.signed {
            Some(_) => self.registers.arch().strip_pac(value),
            None => value,
        })
    }

    /// The caller's value of a general register; `None` if it is not to be known. A register
    /// less is no reason to lose the caller: what was popped may lie below the end of a
    /// copied stack.
    fn register(&self, column: u8, memory: &mut impl Memory) -> Option<u64> {
        let arch = self.registers.arch();
        let rule = self.row.rule(column);
        if rule != Rule::Unmentioned {
            return self.value(rule, column, memory).ok().flatten();
        }
        if usize::from(column) == arch.sp() {
            return Some(self.cfa);
        }
        let preserved = self.row.signal || callee_saved(arch) >> column & 1 == 1;
        let preserved = preserved && self.row.silent == Silent::CalleeSaved;
        if preserved { self.registers.get(column) } else { None }
    }

    fn value(&self, rule: Rule, column: u8, memory: &mut impl Memory) -> Result<Option<u64>, End> {
        let value = match rule {
            Rule::Unmentioned | Rule::Undefined => return Ok(None),
            Rule::Same => return Ok(self.registers.get(column)),
            Rule::AtCfa(offset) => load(memory, self.cfa.wrapping_add_signed(offset))?,
            Rule::Cfa(offset) => self.cfa.wrapping_add_signed(offset),
            Rule::Register { register, offset } => plus(self.registers, register, offset)?,
            Rule::Memory { register, offset } => {
                load(memory, plus(self.registers, register, offset)?)?
            }
            Rule::AtExpression(e) => {
                let address = self.evaluate(e, memory)?;
                load(memory, address)?
            }
            Rule::Expression(e) => self.evaluate(e, memory)?,
        };
        Ok(Some(value))
    }

    fn evaluate(&self, e: Expression, memory: &mut impl Memory) -> Result<u64, End> {
        evaluate(self.section, e, Some(self.cfa), self.registers, memory)
    }
}

fn plus(registers: &Registers, register: u8, offset: i64) -> Result<u64, End> {
    let base = registers.get(register).ok_or(End::UnknownRegister(register))?;
    Ok(base.wrapping_add_signed(offset))
}

fn load(memory: &mut impl Memory, address: u64) -> Result<u64, End> {
    memory.word(address).ok_or(End::BadRead { address })
}

fn evaluate(
    section: &[u8],
    e: Expression,
    initial: Option<u64>,
    registers: &Registers,
    memory: &mut impl Memory,
) -> Result<u64, End> {
    let code = section.get(e.offset as usize..).and_then(|s| s.get(..e.len as usize));
    expression::evaluate(code.unwrap_or_default(), initial, registers, memory)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::address::InstructionPointer;
    use crate::memory::Copied;
    use crate::row::Key;

    const SP: u64 = 0x1000;

    fn stack(words: &[u64]) -> Copied<Vec<u8>> {
        Copied { address: SP, bytes: words.iter().flat_map(|w| w.to_le_bytes()).collect() }
    }

    fn here() -> CodeAddress {
        InstructionPointer(0x40_1000).into()
    }

    fn row(arch: Arch, offset: i64) -> Row {
        let cfa = CfaRule::Register { register: arch.sp() as u8, offset };
        Row::new(arch, 0..u64::MAX, cfa, Silent::CalleeSaved)
    }

    /// A thread with register n holding `0x100 + n`, stack at `SP`.
    fn thread(arch: Arch) -> Registers {
        let mut regs = arch::Regs::new(arch);
        for (n, value) in (0..).zip(&mut regs.gp) {
            *value = 0x100 + n;
        }
        regs.set_sp(SP);
        Registers::of_thread(&regs)
    }

    #[test]
    fn a_pushed_return_address_and_a_saved_register() {
        let mut row = row(Arch::X86_64, 24);
        row.set(16, Rule::AtCfa(-8));
        row.set(3, Rule::AtCfa(-16));
        let registers = thread(Arch::X86_64);
        let caller = apply(&row, here(), &registers, &[], &mut stack(&[1, 2, 3])).unwrap();
        assert_eq!(caller.address, ReturnAddress(3).into());
        assert_eq!((caller.cfa, caller.registers.sp()), (Some(SP + 24), Some(SP + 24)));
        assert_eq!(caller.registers.get(3), Some(2));
        assert_eq!(caller.registers.get(12), Some(0x10c), "preserved by the callee");
        assert_eq!(caller.registers.get(0), None, "changed by calls");
    }

    #[test]
    fn a_leaf_keeps_its_return_address_in_the_link_register() {
        let row = row(Arch::Aarch64, 0);
        let registers = thread(Arch::Aarch64);
        let caller = apply(&row, here(), &registers, &[], &mut stack(&[])).unwrap();
        assert_eq!(caller.address, ReturnAddress(0x100 + 30).into());
        assert_eq!(caller.registers.get(30), None);
        // The same row in its caller: the register is gone, and no progress was made.
        let again = apply(&row, caller.address, &caller.registers, &[], &mut stack(&[]));
        assert_eq!(again, Err(End::NoProgress { sp: SP, cfa: SP }));
        let mut grown = row;
        grown.cfa = CfaRule::Register { register: 31, offset: 48 };
        let again = apply(&grown, caller.address, &caller.registers, &[], &mut stack(&[]));
        assert_eq!(again, Err(End::UnknownRegister(30)));
    }

    #[test]
    fn rules_see_the_frames_registers_only() {
        let mut row = row(Arch::X86_64, 16);
        row.set(16, Rule::AtCfa(-8));
        row.set(3, Rule::Register { register: 12, offset: 1 });
        row.set(12, Rule::Register { register: 3, offset: 1 });
        row.set(6, Rule::Memory { register: 7, offset: 0 });
        row.set(13, Rule::Cfa(5));
        row.set(14, Rule::Undefined);
        row.set(0, Rule::Same);
        let registers = thread(Arch::X86_64);
        let r = apply(&row, here(), &registers, &[], &mut stack(&[7, 9])).unwrap().registers;
        assert_eq!((r.get(3), r.get(12)), (Some(0x10d), Some(0x104)));
        assert_eq!((r.get(6), r.get(13)), (Some(7), Some(SP + 21)));
        assert_eq!((r.get(14), r.get(0)), (None, Some(0x100)));
    }

    #[test]
    fn signatures_are_stripped_where_the_row_says_so() {
        let mut row = row(Arch::Aarch64, 16);
        row.set(30, Rule::AtCfa(-8));
        let registers = thread(Arch::Aarch64);
        let signed = 0x0034_0000_0040_0100;
        let to = |row: &Row| {
            apply(row, here(), &registers, &[], &mut stack(&[0, signed])).unwrap().address.value()
        };
        assert_eq!(to(&row), signed);
        row.signed = Some(Key::A);
        assert_eq!(to(&row), 0x40_0100);
    }

    #[test]
    fn signal_rows_keep_everything_and_may_change_stacks() {
        let mut row = row(Arch::X86_64, 0);
        row.signal = true;
        row.set(16, Rule::Memory { register: 7, offset: 0 });
        row.set(7, Rule::Memory { register: 7, offset: 8 });
        let registers = thread(Arch::X86_64);
        let caller = apply(&row, here(), &registers, &[], &mut stack(&[5, 0x10])).unwrap();
        assert_eq!(caller.address, InterruptedAddress(5).into());
        assert_eq!((caller.registers.sp(), caller.registers.get(0)), (Some(0x10), Some(0x100)));
    }

    /// `pop %rcx`, as before a system call that must not find anything on the stack.
    #[test]
    fn a_return_address_that_was_popped() {
        let mut row = row(Arch::X86_64, 0);
        row.set(16, Rule::Register { register: 2, offset: 0 });
        let registers = thread(Arch::X86_64);
        let caller = apply(&row, here(), &registers, &[], &mut stack(&[])).unwrap();
        assert_eq!((caller.address, caller.cfa), (ReturnAddress(0x102).into(), Some(SP)));
        // Not below another frame, whose call would have changed the register.
        let below = apply(&row, caller.address, &registers, &[], &mut stack(&[]));
        assert_eq!(below, Err(End::NoProgress { sp: SP, cfa: SP }));
    }

    /// `DW_OP_breg7 8; DW_OP_breg16 0; DW_OP_lit15; DW_OP_and; DW_OP_lit11; DW_OP_ge;
    /// DW_OP_lit3; DW_OP_shl; DW_OP_plus`: GNU ld's rule for the stubs of a PLT.
    #[test]
    fn a_stubs_rule_computes_with_the_program_counter() {
        let code = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let mut row = row(Arch::X86_64, 0);
        row.cfa = CfaRule::Expression(Expression { offset: 0, len: code.len() as u32 });
        row.set(16, Rule::AtCfa(-8));
        let registers = thread(Arch::X86_64);
        for (offset, caller) in [(0, 5), (6, 5), (10, 5), (11, 7)] {
            let at = InstructionPointer(0x40_1040 + offset).into();
            let found = apply(&row, at, &registers, &code, &mut stack(&[5, 7])).unwrap();
            assert_eq!(found.address, ReturnAddress(caller).into(), "{offset}");
        }
    }

    #[test]
    fn ends() {
        let registers = thread(Arch::X86_64);
        let mut row = row(Arch::X86_64, 8);
        let end = |row: &Row, words: &[u64]| {
            apply(row, here(), &registers, &[], &mut stack(words)).unwrap_err()
        };
        row.set(16, Rule::Undefined);
        assert_eq!(end(&row, &[]), End::Undefined);
        row.set(16, Rule::AtCfa(-8));
        assert_eq!(end(&row, &[0]), End::NullReturnAddress);
        assert_eq!(end(&row, &[]), End::BadRead { address: SP });
        row.cfa = CfaRule::Register { register: 7, offset: -8 };
        assert_eq!(end(&row, &[1]), End::NoProgress { sp: SP, cfa: SP - 8 });
        row.cfa = CfaRule::Register { register: 17, offset: 0 };
        assert_eq!(end(&row, &[1]), End::UnknownRegister(17));
        row.cfa = CfaRule::Memory { register: 7, offset: 8 };
        assert_eq!(end(&row, &[1]), End::BadRead { address: SP + 8 });
        assert!(End::Undefined.claims_complete() && !End::Limit.claims_complete());
    }
}
