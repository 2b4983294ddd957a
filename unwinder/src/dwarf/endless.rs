//! Whether an evaluator without a bound of its own may be given call-frame information: that of
//! framehop runs an expression for as long as it branches.
//!
//! What an expression can reach is followed without its values, branches both ways. If none of
//! them leads back, each operation is executed once at most.

use std::collections::{BTreeSet, HashSet};
use std::ops::Deref;

use arch::Arch;
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, EhFrameHdr, Encoding,
    EndianSlice, Format, LittleEndian, Operation, Reader, UnwindExpression,
};

use super::augmentation;
use super::error::{Error, ErrorKind, SectionName};
use super::expression::MAX_OPERATIONS;
use super::section::{Cfi, Section, Slice, Walk, What};
use crate::module::Sections;

/// Whether every expression of a module's call-frame information comes to an end soon.
///
/// # Errors
///
/// The first entry with an expression that branches backwards
/// ([`ErrorKind::BackwardBranch`]) or is too long ([`ErrorKind::LongExpression`]), or whose
/// expressions cannot be told: those of an entry that only `.eh_frame_hdr` knows.
pub fn check<D: Deref<Target = [u8]>>(arch: Arch, sections: &Sections<D>) -> Result<(), Error> {
    if let Some(bytes) = &sections.debug_frame {
        Checker::new(arch, SectionName::DebugFrame, bytes, BaseAddresses::default()).all()?;
    }
    let Some(frame) = &sections.eh_frame else { return Ok(()) };
    let bases = BaseAddresses::default().set_eh_frame(frame.address);
    let bases = sections.text.iter().fold(bases, |bases, at| bases.set_text(*at));
    let bases = sections.got.iter().fold(bases, |bases, at| bases.set_got(*at));
    let name = SectionName::EhFrame;
    let known = Checker::new(arch, name, &frame.bytes, bases.clone()).all()?;
    let header = sections.eh_frame_hdr.as_ref();
    header.map_or(Ok(()), |header| listed(header, bases, &known, frame.bytes.len()))
}

/// Whether `.eh_frame_hdr` leads to `known` entries of the section, which is `len` long, alone:
/// others overlap them, and there may be as many as bytes.
fn listed<D: Deref<Target = [u8]>>(
    header: &Section<D>,
    bases: BaseAddresses,
    known: &HashSet<usize>,
    len: usize,
) -> Result<(), Error> {
    let bases = bases.set_eh_frame_hdr(header.address);
    let Ok(parsed) = EhFrameHdr::new(&header.bytes, LittleEndian).parse(&bases, 8) else {
        return Ok(());
    };
    let (Some(table), Ok(frame)) = (parsed.table(), parsed.eh_frame_ptr().direct()) else {
        return Ok(());
    };
    let pointers = table.iter(&bases).map_while(Result::ok);
    for (start, entry) in pointers.filter_map(|(s, e)| s.direct().ok().zip(e.direct().ok())) {
        let offset = usize::try_from(entry.wrapping_sub(frame)).unwrap_or(usize::MAX);
        if offset < len && !known.contains(&offset) {
            let kind = ErrorKind::Disagrees { address: start };
            return Err(Error { section: SectionName::EhFrameHdr, offset: 0, kind });
        }
    }
    Ok(())
}

struct Checker<'a> {
    name: SectionName,
    bytes: &'a [u8],
    bases: BaseAddresses,
    cfi: Cfi<'a>,
}

impl<'a> Checker<'a> {
    fn new(arch: Arch, name: SectionName, bytes: &'a [u8], bases: BaseAddresses) -> Checker<'a> {
        Checker { name, bytes, bases, cfi: Cfi::new(arch, name, bytes) }
    }

    /// Returns the offsets of the FDEs. What cannot be read has no expressions for anybody.
    fn all(&self) -> Result<HashSet<usize>, Error> {
        let (mut fdes, mut cies) = (HashSet::new(), HashSet::new());
        for entry in Walk::new(self.name, self.bytes).flatten() {
            let place = |kind| Error { section: self.name, offset: entry.offset as u64, kind };
            let checked = match entry.what {
                What::Terminator => Ok(()),
                What::Cie => self.cie(entry.offset, &mut cies),
                What::Fde { cie } => {
                    fdes.insert(entry.offset);
                    self.cie(cie, &mut cies).and_then(|()| self.fde(entry.offset))
                }
            };
            checked.map_err(place)?;
        }
        Ok(fdes)
    }

    /// Each once: their FDEs share them.
    fn cie(&self, offset: usize, known: &mut HashSet<usize>) -> Result<(), ErrorKind> {
        if !known.insert(offset) {
            return Ok(());
        }
        augmentation::check_length(self.name, self.bytes, offset)?;
        match self.cfi.cie(&self.bases, offset) {
            Some(cie) => self.instructions(self.cfi.common(&self.bases, &cie)),
            None => Ok(()),
        }
    }

    fn fde(&self, offset: usize) -> Result<(), ErrorKind> {
        let own = |fde: &_| self.instructions(self.cfi.own(&self.bases, fde));
        self.cfi.with_sound_fde(&self.bases, offset, own).unwrap_or(Ok(()))
    }

    fn instructions(
        &self,
        instructions: CallFrameInstructionIter<'_, Slice<'_>>,
    ) -> Result<(), ErrorKind> {
        use CallFrameInstruction::{DefCfaExpression, Expression, ValExpression};
        let found = |instruction| match instruction {
            DefCfaExpression { expression }
            | Expression { expression, .. }
            | ValExpression { expression, .. } => Some(expression),
            _ => None,
        };
        let mut expressions = instructions.map_while(Result::ok).filter_map(found);
        expressions.try_for_each(|UnwindExpression { offset, length }| {
            let code = self.bytes.get(offset..).and_then(|rest| rest.get(..length));
            ends(code.unwrap_or_default())
        })
    }
}

/// Whether an expression comes to an end after [`MAX_OPERATIONS`] at most.
fn ends(code: &[u8]) -> Result<(), ErrorKind> {
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
    let code = EndianSlice::new(code, LittleEndian);
    // Where operations that can be reached start. Branches may lead into the middle of others.
    let mut starts = BTreeSet::from([0]);
    let mut operations = 0;
    while let Some(start) = starts.pop_first() {
        let mut rest = code;
        // What cannot be read ends it, as the end does.
        if rest.is_empty() || rest.skip(start).is_err() {
            continue;
        }
        let Ok(operation) = Operation::parse(&mut rest, encoding) else { continue };
        operations += 1;
        if operations > MAX_OPERATIONS {
            return Err(ErrorKind::LongExpression);
        }
        let next = code.len() - rest.len();
        let target = match operation {
            Operation::Bra { target } | Operation::Skip { target } => target,
            _ => 0,
        };
        let forward = usize::try_from(target).map_err(|_| ErrorKind::BackwardBranch)?;
        starts.insert(next + forward);
        if !matches!(operation, Operation::Skip { .. }) {
            starts.insert(next);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_end_or_not() {
        // The PLT's: breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus
        assert_eq!(ends(&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]), Ok(()));
        assert_eq!(ends(&[]), Ok(()));
        let back = Err(ErrorKind::BackwardBranch);
        // skip -3; lit0, skip -4; lit0, dup, skip -4; lit0, drop, skip -5
        assert_eq!(ends(&[0x2f, 0xfd, 0xff]), back);
        assert_eq!(ends(&[0x30, 0x2f, 0xfc, 0xff]), back);
        assert_eq!(ends(&[0x30, 0x12, 0x2f, 0xfc, 0xff]), back);
        assert_eq!(ends(&[0x30, 0x13, 0x2f, 0xfb, 0xff]), back);
        // lit1, bra -4
        assert_eq!(ends(&[0x31, 0x28, 0xfc, 0xff]), back);
        // A branch backwards that nothing leads to: const4u with its bytes; behind a skip.
        assert_eq!(ends(&[0x0c, 0x2f, 0xfd, 0xff, 0]), Ok(()));
        assert_eq!(ends(&[0x2f, 3, 0, 0x2f, 0xfd, 0xff, 0x30]), Ok(()));
        // skip 1 into that constant
        assert_eq!(ends(&[0x2f, 1, 0, 0x0c, 0x2f, 0xfd, 0xff, 0]), back);
        // bra 0; bra behind the end
        assert_eq!(ends(&[0x31, 0x28, 0, 0, 0x31, 0x28, 0xff, 0x7f, 0x30]), Ok(()));
    }

    #[test]
    fn expressions_are_short_or_not() {
        let most = MAX_OPERATIONS as usize;
        assert_eq!(ends(&vec![0x30; most]), Ok(()));
        assert_eq!(ends(&vec![0x30; most + 1]), Err(ErrorKind::LongExpression));
    }
}
