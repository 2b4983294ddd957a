//! Rows in short: what nearly all of them say fits into 16 bytes.
//!
//! ```text
//! CFA  sp or fp + offset
//! RA   [CFA + offset], or in the link register; signed or not
//! FP   same, [CFA + offset], or unknown
//! ```
//!
//! A walk needs the stack pointer, the frame pointer and the link register of a frame and
//! nothing else, as long as rows are of this kind. What is not is [`Brief::Long`].

use arch::Arch;

use crate::address::ReturnAddress;
use crate::row::{CfaRule, Row, Rule, Silent, return_column};
use crate::step::progress;
use crate::{CodeAddress, End, Memory, Registers};

/// The answer of a table in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brief {
    /// A rule.
    Usual(Usual),
    /// The return address is undefined.
    Outermost,
    /// The address is in no module.
    NoModule,
    /// No entry covers it.
    NotCovered,
    /// Only the row itself can tell, or why there is none.
    Long,
}

/// A rule that needs the stack pointer, the frame pointer and the link register only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usual {
    cfa: i32,
    ra: i32,
    fp: i32,
    base: Base,
    ra_from: RaFrom,
    fp_from: FpFrom,
    form: Form,
}

/// What the CFA is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Sp,
    Fp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaFrom {
    Stack,
    SignedStack,
    Register,
    SignedRegister,
}

impl RaFrom {
    #[inline(always)]
    const fn new(register: bool, signed: bool) -> RaFrom {
        match (register, signed) {
            (false, false) => RaFrom::Stack,
            (false, true) => RaFrom::SignedStack,
            (true, false) => RaFrom::Register,
            (true, true) => RaFrom::SignedRegister,
        }
    }

    #[inline(always)]
    const fn signed(self) -> bool {
        matches!(self, RaFrom::SignedStack | RaFrom::SignedRegister)
    }
}

/// How a rule is applied the quickest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The frame pointer points to a frame record, right below the CFA. With no number to wait
    /// for, a processor that guesses this goes on to the caller at once.
    Record,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FpFrom {
    Stack,
    Same,
    Nowhere,
}

/// Those rules of a row that count. There is none for the stack pointer.
pub(crate) struct Rules {
    pub cfa: CfaRule,
    pub ra: Rule,
    pub fp: Rule,
    pub silent: Silent,
    pub signed: bool,
}

impl Brief {
    /// A row in short.
    pub fn of(row: &Row, arch: Arch) -> Brief {
        let rules = Rules {
            cfa: row.cfa,
            ra: row.rule(row.return_address),
            fp: row.rule(arch.fp() as u8),
            silent: row.silent,
            signed: row.signed.is_some(),
        };
        let usual = !row.signal
            && row.return_address == return_column(arch)
            && row.rule(arch.sp() as u8) == Rule::Unmentioned;
        match rules.brief(arch) {
            Brief::Usual(_) if !usual => Brief::Long,
            brief => brief,
        }
    }
}

impl Rules {
    #[inline]
    pub fn brief(&self, arch: Arch) -> Brief {
        if self.ra == Rule::Undefined {
            return Brief::Outermost;
        }
        self.usual(arch).map_or(Brief::Long, Brief::Usual)
    }

    #[inline]
    fn usual(&self, arch: Arch) -> Option<Usual> {
        let CfaRule::Register { register, offset } = self.cfa else { return None };
        let base = match usize::from(register) {
            n if n == arch.sp() => Base::Sp,
            n if n == arch.fp() => Base::Fp,
            _ => return None,
        };
        let (ra, ra_from_register) = match self.ra {
            Rule::AtCfa(offset) => (offset, false),
            Rule::Same | Rule::Unmentioned if arch == Arch::Aarch64 => (0, true),
            _ => return None,
        };
        let (fp, fp_from) = match (self.fp, self.silent) {
            (Rule::AtCfa(offset), _) => (offset, FpFrom::Stack),
            (Rule::Same, _) | (Rule::Unmentioned, Silent::CalleeSaved) => (0, FpFrom::Same),
            (Rule::Undefined, _) | (Rule::Unmentioned, _) => (0, FpFrom::Nowhere),
            _ => return None,
        };
        let short = |offset: i64| i32::try_from(offset).ok();
        let ra_from = RaFrom::new(ra_from_register, self.signed);
        let (cfa, ra, fp) = (short(offset)?, short(ra)?, short(fp)?);
        Some(Usual { cfa, ra, fp, base, ra_from, fp_from, form: Form::Other }.formed())
    }
}

/// A frame of which all is known that usual rules need, but perhaps for the link register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub address: CodeAddress,
    pub sp: u64,
    pub fp: u64,
    pub lr: Option<u64>,
}

/// A frame that called another one: its link register is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    pub ra: u64,
    pub sp: u64,
    pub fp: u64,
}

impl Called {
    #[inline(always)]
    pub fn known(self) -> Known {
        let Called { ra, sp, fp } = self;
        Known { address: ReturnAddress(ra).into(), sp, fp, lr: None }
    }
}

/// What is found in the usual case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quick {
    /// A caller.
    Caller(Called),
    /// There is none, and nothing else will find one.
    End(End),
    /// It is not the usual case.
    Other,
}

impl Quick {
    #[inline(always)]
    pub fn caller(ra: u64, sp: u64, fp: u64) -> Quick {
        Quick::Caller(Called { ra, sp, fp })
    }
}

/// The part of a frame's state that usual rules need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub address: CodeAddress,
    pub sp: Option<u64>,
    pub fp: Option<u64>,
    pub lr: Option<u64>,
}

impl Spot {
    #[inline]
    pub fn new(address: CodeAddress, registers: &Registers) -> Spot {
        let number = |register: usize| registers.get(register as u8);
        // Each with numbers that the compiler knows.
        let (sp, fp, lr) = match registers.arch() {
            Arch::X86_64 => (number(Arch::X86_64.sp()), number(Arch::X86_64.fp()), None),
            Arch::Aarch64 => {
                let (sp, fp) = (Arch::Aarch64.sp(), Arch::Aarch64.fp());
                (number(sp), number(fp), registers.get(LINK))
            }
        };
        Spot { address, sp, fp, lr }
    }

    /// The registers that it has.
    pub fn registers(&self, arch: Arch) -> Registers {
        let mut registers = Registers::unknown(arch);
        let numbers = [arch.sp() as u8, arch.fp() as u8, LINK];
        for (number, value) in numbers.into_iter().zip([self.sp, self.fp, self.lr]) {
            if let Some(value) = value {
                registers.set(number, value);
            }
        }
        registers
    }
}

const LINK: u8 = arch::aarch64::regs::LR as u8;

impl Usual {
    /// A rule. Without `ra`, the return address is in the link register; without `fp`, the
    /// frame pointer is the same.
    #[inline(always)]
    pub fn new((base, cfa): (Base, i32), ra: Option<i32>, fp: Option<i32>, signed: bool) -> Usual {
        Usual {
            cfa,
            ra: ra.unwrap_or(0),
            fp: fp.unwrap_or(0),
            base,
            ra_from: RaFrom::new(ra.is_none(), signed),
            fp_from: if fp.is_some() { FpFrom::Stack } else { FpFrom::Same },
            form: Form::Other,
        }
        .formed()
    }

    /// The rule with its form.
    #[inline(always)]
    fn formed(self) -> Usual {
        let Usual { cfa, ra, fp, base, ra_from, fp_from, .. } = self;
        let record = (cfa, ra, fp) == (16, -8, -16)
            && base == Base::Fp
            && ra_from == RaFrom::Stack
            && fp_from == FpFrom::Stack;
        Usual { form: if record { Form::Record } else { Form::Other }, ..self }
    }

    /// The caller of a frame whose registers are all there, if it has all of its own, too.
    /// In all other cases [`Usual::apply`] tells what is so.
    #[inline(always)]
    pub fn quick(&self, arch: Arch, known: &Known, memory: &mut impl Memory) -> Quick {
        let Known { address, sp, fp, lr } = *known;
        let (ra, cfa, fp) = match self.form {
            Form::Record => {
                let Some((next, ra)) = memory.pair(fp) else { return Quick::Other };
                (ra, fp.wrapping_add(16), next)
            }
            Form::Other => {
                let base = if self.base == Base::Sp { sp } else { fp };
                let cfa = base.wrapping_add_signed(self.cfa.into());
                let at = |offset: i32| cfa.wrapping_add_signed(offset.into());
                let ra = match self.ra_from {
                    RaFrom::Stack | RaFrom::SignedStack => memory.word(at(self.ra)),
                    RaFrom::Register | RaFrom::SignedRegister => lr,
                };
                let Some(ra) = ra else { return Quick::Other };
                let ra = if self.ra_from.signed() { arch.strip_pac(ra) } else { ra };
                let fp = match self.fp_from {
                    FpFrom::Same => Some(fp),
                    FpFrom::Stack => memory.word(at(self.fp)),
                    FpFrom::Nowhere => None,
                };
                let Some(fp) = fp else { return Quick::Other };
                (ra, cfa, fp)
            }
        };
        match (cfa > sp || progress(arch, address, Some(sp), cfa).is_ok(), ra) {
            (false, _) => Quick::Other,
            (true, 0) => Quick::End(End::NullReturnAddress),
            (true, ra) => Quick::caller(ra, cfa, fp),
        }
    }

    /// The caller and the CFA, as [`crate::step::apply`] has them.
    ///
    /// # Errors
    ///
    /// [`End`]: why there is no caller.
    #[inline]
    pub fn apply(
        &self,
        arch: Arch,
        spot: &Spot,
        memory: &mut impl Memory,
    ) -> Result<(Spot, u64), End> {
        let (base, number) = match self.base {
            Base::Sp => (spot.sp, arch.sp()),
            Base::Fp => (spot.fp, arch.fp()),
        };
        let base = base.ok_or(End::UnknownRegister(number as u8))?;
        let cfa = base.wrapping_add_signed(self.cfa.into());
        progress(arch, spot.address, spot.sp, cfa)?;
        let mut ra = match self.ra_from {
            RaFrom::Register | RaFrom::SignedRegister => {
                spot.lr.ok_or(End::UnknownRegister(LINK))?
            }
            RaFrom::Stack | RaFrom::SignedStack => {
                let address = cfa.wrapping_add_signed(self.ra.into());
                memory.word(address).ok_or(End::BadRead { address })?
            }
        };
        if self.ra_from.signed() {
            ra = arch.strip_pac(ra);
        }
        if ra == 0 {
            return Err(End::NullReturnAddress);
        }
        let fp = match self.fp_from {
            FpFrom::Stack => memory.word(cfa.wrapping_add_signed(self.fp.into())),
            FpFrom::Same => spot.fp,
            FpFrom::Nowhere => None,
        };
        let address = ReturnAddress(ra).into();
        Ok((Spot { address, sp: Some(cfa), fp, lr: None }, cfa))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_to_a_cache_line() {
        assert_eq!(size_of::<Brief>(), 16);
    }
}
