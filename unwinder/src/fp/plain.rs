//! The plain walk along frame records.
//!
//! ```text
//! fp = 0                  outermost frame
//! fp % 8 = 0, fp ≥ sp     else it is no frame pointer
//! (fp', ra) = [fp]
//! fp' > fp or fp' = 0     else the chain does not lead on
//! ra = 0                  outermost frame
//! ```

use arch::Arch;

use crate::address::ReturnAddress;
use crate::brief::{Known, Quick};
use crate::step::Caller;
use crate::{CodeAddress, End, Memory, Registers};

/// One step along the frame records.
///
/// On aarch64 a record can be anywhere in its frame, so that the caller's stack pointer is
/// not known, nor is the CFA.
///
/// # Errors
///
/// [`End`]: why there is no caller.
pub fn step(registers: &Registers, memory: &mut impl Memory) -> Result<Caller, End> {
    let arch = registers.arch();
    let fp = registers.fp().ok_or(End::UnknownRegister(arch.fp() as u8))?;
    let Record { next, return_address, cfa } = record(arch, registers.sp(), fp, memory)?;
    let mut caller = Registers::unknown(arch);
    caller.set(arch.fp() as u8, next);
    if let Some(cfa) = cfa {
        caller.set(arch.sp() as u8, cfa);
    }
    Ok(Caller {
        address: CodeAddress::Return(ReturnAddress(return_address)),
        registers: caller,
        cfa,
    })
}

/// What a frame record leads to.
pub(crate) struct Record {
    /// The caller's frame pointer.
    pub next: u64,
    /// Without its signature, and not 0.
    pub return_address: u64,
    /// On x86_64.
    pub cfa: Option<u64>,
}

/// As [`record`], of a frame whose registers are known. On aarch64 the stack pointer is what the
/// frame record is most probably not below. `alone`: no other method is asked.
#[inline(always)]
pub(crate) fn quick(arch: Arch, known: &Known, alone: bool, memory: &mut impl Memory) -> Quick {
    let Known { sp, fp, .. } = *known;
    match record(arch, Some(sp), fp, memory) {
        // What follows the record is the caller's, or is at least not below it.
        Ok(Record { next, return_address: ra, .. }) => Quick::caller(ra, fp.wrapping_add(16), next),
        Err(end) if end.claims_complete() => Quick::End(end),
        Err(end) if alone && arch == Arch::X86_64 => Quick::End(end),
        Err(_) => Quick::Other,
    }
}

#[inline]
pub(crate) fn record(
    arch: Arch,
    sp: Option<u64>,
    fp: u64,
    memory: &mut impl Memory,
) -> Result<Record, End> {
    if fp == 0 {
        return Err(End::NullFramePointer);
    }
    if !fp.is_multiple_of(8) || sp.is_some_and(|sp| fp < sp) || fp >= arch.task_size() {
        return Err(End::BadFramePointer(fp));
    }
    let (next, return_address) = memory.pair(fp).ok_or(End::BadRead { address: fp })?;
    let return_address = arch.strip_pac(return_address);
    if return_address == 0 {
        return Err(End::NullReturnAddress);
    }
    if next != 0 && next <= fp {
        return Err(End::NoProgress { sp: fp, cfa: next });
    }
    let cfa = (arch == Arch::X86_64).then(|| fp.wrapping_add(16));
    Ok(Record { next, return_address, cfa })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::memory::Copied;

    fn from(arch: Arch, fp: u64, words: &[u64]) -> Result<Caller, End> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        step(&Registers::of_frame(arch, 0x1000, fp), &mut Copied { address: 0x1000, bytes })
    }

    #[test]
    fn a_record_leads_to_the_caller() {
        let caller = from(Arch::X86_64, 0x1008, &[0, 0x1100, 0x40_1000]).unwrap();
        assert_eq!(caller.address.value(), 0x40_1000);
        assert_eq!((caller.cfa, caller.registers.sp()), (Some(0x1018), Some(0x1018)));
        assert_eq!(caller.registers.fp(), Some(0x1100));
        let caller = from(Arch::Aarch64, 0x1008, &[0, 0, 0x0034_0000_0040_1000]).unwrap();
        assert_eq!(caller.address.value(), 0x40_1000, "without its signature");
        assert_eq!((caller.cfa, caller.registers.sp()), (None, None));
    }

    #[test]
    fn ends() {
        let end = |fp, words: &[u64]| from(Arch::X86_64, fp, words).unwrap_err();
        assert_eq!(end(0, &[]), End::NullFramePointer);
        assert_eq!(end(0x1001, &[0; 4]), End::BadFramePointer(0x1001));
        assert_eq!(end(0xff8, &[0; 4]), End::BadFramePointer(0xff8));
        assert_eq!(end(u64::MAX - 7, &[0; 4]), End::BadFramePointer(u64::MAX - 7));
        assert_eq!(end(0x1018, &[0; 4]), End::BadRead { address: 0x1018 });
        assert_eq!(end(0x1000, &[0x2000, 0]), End::NullReturnAddress);
        assert_eq!(end(0x1000, &[0x1000, 1]), End::NoProgress { sp: 0x1000, cfa: 0x1000 });
    }
}
