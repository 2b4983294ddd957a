//! The usual rules of an address without the row that they are in.
//!
//! A small row machine over gimli's instructions. It follows the CFA, the return address and
//! the frame pointer; whatever is unusual about them, and whatever is wrong, is left to
//! gimli's machine, which follows every register.

use gimli::{CallFrameInstruction, CallFrameInstructionIter, Register};

use super::section::{Cie, Slice};
use crate::brief::{Brief, Rules};
use crate::row::{CfaRule, Rule, Silent, return_column};
use arch::Arch;

/// Registers that have rules, so that gimli's machine has room for them, too.
const MAX_RULES: u32 = 90;

/// States that are remembered at once.
const STATES: usize = 3;

/// What is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    cfa: (Register, i64),
    ra: Rule,
    fp: Rule,
    signed: bool,
    /// Bit n: register n has, or had, a rule.
    ruled: u128,
}

/// gimli's machine begins with this CFA.
const START: State = State {
    cfa: (Register(0), 0),
    ra: Rule::Unmentioned,
    fp: Rule::Unmentioned,
    signed: false,
    ruled: 0,
};

/// The machine. Its functions give `None` for what it does not do.
pub(super) struct Machine {
    arch: Arch,
    code_align: u64,
    data_align: i64,
    state: State,
    /// The state after the common instructions, once they were run.
    initial: Option<State>,
    saved: [State; STATES],
    depth: usize,
}

/// The state after the instructions of a CIE.
pub(super) fn common(
    arch: Arch,
    cie: &Cie<'_>,
    mut instructions: CallFrameInstructionIter<'_, Slice<'_>>,
) -> Option<State> {
    let mut machine = Machine::new(arch, cie, START);
    machine.initial = None;
    loop {
        match &instructions.next() {
            Ok(Some(CallFrameInstruction::AdvanceLoc { .. })) | Err(_) => return None,
            Ok(Some(instruction)) => machine.execute(instruction)?,
            Ok(None) => return Some(machine.state),
        }
    }
}

impl Machine {
    pub fn new(arch: Arch, cie: &Cie<'_>, initial: State) -> Machine {
        Machine {
            arch,
            code_align: cie.code_alignment_factor(),
            data_align: cie.data_alignment_factor(),
            state: initial,
            initial: Some(initial),
            saved: [START; STATES],
            depth: 0,
        }
    }

    /// Runs those of an FDE that starts at `location`, up to the row that holds `at`.
    pub fn run(
        &mut self,
        mut instructions: CallFrameInstructionIter<'_, Slice<'_>>,
        mut location: u64,
        at: u64,
    ) -> Option<()> {
        // Instructions are looked at where they are: they are larger than what is done with them.
        loop {
            match &instructions.next() {
                Ok(Some(CallFrameInstruction::AdvanceLoc { delta })) => {
                    let by = u64::from(*delta).wrapping_mul(self.code_align);
                    location = location.checked_add(by)?;
                    if location > at {
                        return Some(());
                    }
                }
                Ok(Some(instruction)) => self.execute(instruction)?,
                Ok(None) => return Some(()),
                Err(_) => return None,
            }
        }
    }

    /// What the rules say.
    pub fn brief(&self) -> Brief {
        let State { cfa: (register, offset), ra, fp, signed, .. } = self.state;
        let Ok(register) = u8::try_from(register.0) else { return Brief::Long };
        let cfa = CfaRule::Register { register, offset };
        Rules { cfa, ra, fp, silent: Silent::CalleeSaved, signed }.brief(self.arch)
    }

    #[inline]
    fn execute(&mut self, instruction: &CallFrameInstruction<usize>) -> Option<()> {
        use CallFrameInstruction as I;
        let factored = |offset: i64| offset.wrapping_mul(self.data_align);
        match *instruction {
            I::DefCfa { register, offset } => self.state.cfa = (register, offset as i64),
            I::DefCfaSf { register, factored_offset } => {
                self.state.cfa = (register, factored(factored_offset));
            }
            I::DefCfaRegister { register } => self.state.cfa.0 = register,
            I::DefCfaOffset { offset } => self.state.cfa.1 = offset as i64,
            I::DefCfaOffsetSf { factored_offset } => self.state.cfa.1 = factored(factored_offset),
            I::Undefined { register } => self.set(register, Rule::Undefined)?,
            I::SameValue { register } => self.set(register, Rule::Same)?,
            I::Offset { register, factored_offset } => {
                self.set(register, Rule::AtCfa(factored(factored_offset as i64)))?;
            }
            I::OffsetExtendedSf { register, factored_offset } => {
                self.set(register, Rule::AtCfa(factored(factored_offset)))?;
            }
            I::Restore { register } => self.restore(register)?,
            I::RememberState => {
                self.initial?;
                *self.saved.get_mut(self.depth)? = self.state;
                self.depth += 1;
            }
            I::RestoreState => {
                self.depth = self.depth.checked_sub(1)?;
                self.state = *self.saved.get(self.depth)?;
            }
            I::NegateRaState => {
                self.rule(gimli::AArch64::RA_SIGN_STATE)?;
                self.state.signed = !self.state.signed;
            }
            I::ArgsSize { .. } | I::Nop => {}
            _ => return None,
        }
        Some(())
    }

    #[inline]
    fn set(&mut self, register: Register, rule: Rule) -> Option<()> {
        self.rule(register)?;
        match register {
            Register(n) if n == u16::from(return_column(self.arch)) => self.state.ra = rule,
            Register(n) if usize::from(n) == self.arch.fp() => self.state.fp = rule,
            Register(n) if usize::from(n) == self.arch.sp() => return None,
            gimli::AArch64::RA_SIGN_STATE if self.arch == Arch::Aarch64 => return None,
            _ => {}
        }
        Some(())
    }

    /// There is a rule for a register.
    #[inline]
    fn rule(&mut self, register: Register) -> Option<()> {
        self.state.ruled |= 1u128.checked_shl(register.0.into())?;
        (self.state.ruled.count_ones() <= MAX_RULES).then_some(())
    }

    #[inline]
    fn restore(&mut self, register: Register) -> Option<()> {
        let initial = self.initial?;
        match register {
            Register(n) if n == u16::from(return_column(self.arch)) => self.state.ra = initial.ra,
            Register(n) if usize::from(n) == self.arch.fp() => self.state.fp = initial.fp,
            gimli::AArch64::RA_SIGN_STATE => self.state.signed = initial.signed,
            _ => {}
        }
        Some(())
    }
}
