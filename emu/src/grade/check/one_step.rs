//! What one step of a method is worth.

use arch::Arch;

use crate::grade::methods::{NoCaller, Told};
use crate::truth::{TrueCaller, saved_numbers};

/// One step against the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The caller, as it is; or nothing, where there is none.
    Right,
    /// No table says anything about the place.
    NoCoverage,
    /// Something else.
    Wrong(Wrong),
}

/// What is wrong. Of several things, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    /// The caller's stack pointer: the canonical frame address.
    Cfa,
    /// The return address alone.
    ReturnAddress,
    /// The return address is right, but said to be an interrupted one, or the other way round:
    /// the next step would look up another instruction.
    AddressKind,
    /// Callee-saved registers alone.
    Registers,
    /// A caller of the outermost frame.
    Invented,
    /// It says that this is the outermost frame.
    ClaimedComplete,
    /// It has a rule and cannot apply it.
    Failed,
}

impl Wrong {
    /// In words, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Wrong::Cfa => "cfa",
            Wrong::ReturnAddress => "return address",
            Wrong::AddressKind => "kind of address",
            Wrong::Registers => "registers",
            Wrong::Invented => "invented caller",
            Wrong::ClaimedComplete => "claimed outermost",
            Wrong::Failed => "failed",
        }
    }
}

/// Compares.
///
/// ```text
/// truth         told                     outcome
/// none          a caller                 invented
/// none          no caller                right; no coverage if that is why
/// a caller      none                     no coverage, claimed complete, failed
/// a caller      another sp               cfa
/// a caller      another address          return address
/// a caller      the same address, to be  kind of address
///               looked up elsewhere
/// a caller      a callee-saved register  registers
///               with another value
/// ```
///
/// Registers, stack pointers and kinds of addresses that the method does not tell are not
/// compared.
pub fn one_step(
    arch: Arch,
    told: &Result<Told, NoCaller>,
    truth: Option<&TrueCaller<'_>>,
) -> Outcome {
    match (told, truth) {
        (Err(NoCaller::NoCoverage), _) => Outcome::NoCoverage,
        (Err(_), None) => Outcome::Right,
        (Err(NoCaller::Complete), Some(_)) => Outcome::Wrong(Wrong::ClaimedComplete),
        (Err(NoCaller::Failed(_)), Some(_)) => Outcome::Wrong(Wrong::Failed),
        (Ok(_), None) => Outcome::Wrong(Wrong::Invented),
        (Ok(told), Some(truth)) => {
            if told.sp.is_some_and(|sp| sp != truth.sp) {
                Outcome::Wrong(Wrong::Cfa)
            } else if told.address.value() != truth.address.value() {
                Outcome::Wrong(Wrong::ReturnAddress)
            } else if told.tells_interrupted && told.address.lookup() != truth.address.lookup() {
                Outcome::Wrong(Wrong::AddressKind)
            } else if !registers_agree(arch, told, truth) {
                Outcome::Wrong(Wrong::Registers)
            } else {
                Outcome::Right
            }
        }
    }
}

fn registers_agree(arch: Arch, told: &Told, truth: &TrueCaller<'_>) -> bool {
    let Some(saved) = truth.saved else { return true };
    saved_numbers(arch)
        .zip(saved)
        .all(|(n, value)| told.registers.get(n).is_none_or(|v| v == *value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unwinder::{InterruptedAddress, Registers, ReturnAddress};

    #[test]
    fn every_outcome() {
        let arch = Arch::X86_64;
        let saved = [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0];
        let truth = TrueCaller {
            address: ReturnAddress(0x400).into(),
            sp: 0x7000,
            saved: Some(&saved),
            signal: false,
        };
        let mut registers = Registers::unknown(arch);
        registers.set(6, 2);
        let at = |address| ReturnAddress(address).into();
        let sp = Some(0x7000);
        let right = Told { address: at(0x400), tells_interrupted: true, registers, sp };
        let outcome = |told, truth| one_step(arch, &told, truth);
        assert_eq!(outcome(Ok(right), Some(&truth)), Outcome::Right);
        assert_eq!(outcome(Ok(Told { sp: None, ..right }), Some(&truth)), Outcome::Right);
        let wrong = |told| match outcome(told, Some(&truth)) {
            Outcome::Wrong(wrong) => Some(wrong),
            _ => None,
        };
        let cfa = Told { sp: Some(0x7008), address: at(1), ..right };
        assert_eq!(wrong(Ok(cfa)), Some(Wrong::Cfa));
        assert_eq!(wrong(Ok(Told { address: at(0x3ff), ..right })), Some(Wrong::ReturnAddress));
        // What a signal interrupted, looked up one byte early, and the other way round.
        let interrupted = TrueCaller { address: InterruptedAddress(0x400).into(), ..truth };
        let kind = Outcome::Wrong(Wrong::AddressKind);
        assert_eq!(outcome(Ok(right), Some(&interrupted)), kind);
        assert_eq!(outcome(Ok(Told { address: interrupted.address, ..right }), Some(&truth)), kind);
        let bare = Told { tells_interrupted: false, ..right };
        assert_eq!(outcome(Ok(bare), Some(&interrupted)), Outcome::Right);
        registers.set(15, 7);
        assert_eq!(wrong(Ok(Told { registers, ..right })), Some(Wrong::Registers));
        assert_eq!(wrong(Err(NoCaller::Complete)), Some(Wrong::ClaimedComplete));
        assert_eq!(wrong(Err(NoCaller::Failed(String::new()))), Some(Wrong::Failed));
        assert_eq!(outcome(Err(NoCaller::NoCoverage), Some(&truth)), Outcome::NoCoverage);
        assert_eq!(outcome(Ok(right), None), Outcome::Wrong(Wrong::Invented));
        assert_eq!(outcome(Err(NoCaller::Complete), None), Outcome::Right);
        assert_eq!(outcome(Err(NoCaller::Failed(String::new())), None), Outcome::Right);
        assert_eq!(outcome(Err(NoCaller::NoCoverage), None), Outcome::NoCoverage);
    }
}
