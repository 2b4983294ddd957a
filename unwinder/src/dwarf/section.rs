//! The entries of a section, one after the other and one by offset.

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CommonInformationEntry,
    DebugFrame, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian, Reader, UnwindContext,
    UnwindContextStorage, UnwindOffset, UnwindSection, UnwindTable, Vendor,
};

use super::augmentation;
use super::error::{Error, ErrorKind, SectionName};
use arch::Arch;

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Cie<'a> = CommonInformationEntry<Slice<'a>>;
pub(super) type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// A section as it is in its file.
#[derive(Clone, Copy, Debug)]
pub struct Section<D> {
    /// The address that it was linked for.
    pub address: u64,
    /// Its bytes.
    pub bytes: D,
}

/// The sections of a module that a [`super::Table`] is made from.
#[derive(Clone, Copy, Debug)]
pub enum Sections<D> {
    /// `.eh_frame`
    EhFrame {
        /// The section.
        frame: Section<D>,
        /// `.eh_frame_hdr`, if there is one.
        header: Option<Section<D>>,
        /// Link-time address of `.text`, for pointers relative to it (none in practice).
        text: Option<u64>,
        /// Link-time address of `.got`, for pointers relative to it (none in practice).
        got: Option<u64>,
    },
    /// `.debug_frame`, whose addresses are absolute.
    DebugFrame {
        /// The section's bytes.
        bytes: D,
    },
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A length of 0.
    Terminator,
    /// A common information entry.
    Cie,
    /// A frame description entry with its CIE's offset.
    Fde { cie: usize },
}

/// Where an entry is, and what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline {
    pub offset: usize,
    pub what: What,
    /// Behind the length and the CIE id.
    pub body: usize,
    /// The offset behind the entry.
    pub next: usize,
}

/// All entries of a section in order. An entry that is broken inside does not hide those
/// behind it; one whose length is broken does.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    name: SectionName,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub fn new(name: SectionName, bytes: &'a [u8]) -> Walk<'a> {
        Walk { name, bytes, at: 0 }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Outline, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let offset = self.at;
        let result = outline(self.name, self.bytes, offset, &mut self.at);
        let place = |kind| Error { section: self.name, offset: offset as u64, kind };
        Some(result.map_err(place))
    }
}

/// Reads the head of the entry at `offset`; `next` becomes the offset behind it, which is
/// the section's end if its length cannot be trusted.
pub(super) fn outline(
    name: SectionName,
    bytes: &[u8],
    offset: usize,
    next: &mut usize,
) -> Result<Outline, ErrorKind> {
    *next = bytes.len();
    let section = Slice::new(bytes, LittleEndian);
    let mut reader = section;
    reader.skip(offset)?;
    let (length, format) = reader.read_initial_length()?;
    let mut rest = reader.split(length)?;
    *next = bytes.len() - reader.len();
    let base = bytes.len() - reader.len() - rest.len();
    if length == 0 {
        return Ok(Outline { offset, what: What::Terminator, body: base, next: *next });
    }
    // In .eh_frame an id has four bytes in the 64-bit format too.
    let wide = name == SectionName::DebugFrame && format == gimli::Format::Dwarf64;
    let id = if wide { rest.read_u64()? } else { u64::from(rest.read_u32()?) };
    let what = match (name, id) {
        (SectionName::DebugFrame, 0xffff_ffff) if !wide => What::Cie,
        (SectionName::DebugFrame, u64::MAX) if wide => What::Cie,
        (SectionName::DebugFrame, _) => {
            What::Fde { cie: usize::try_from(id).map_err(|_| ErrorKind::CiePointer)? }
        }
        (_, 0) => What::Cie,
        (_, back) => {
            let back = usize::try_from(back).ok().and_then(|back| base.checked_sub(back));
            What::Fde { cie: back.ok_or(ErrorKind::CiePointer)? }
        }
    };
    Ok(Outline { offset, what, body: *next - rest.len(), next: *next })
}

/// The length of an `.eh_frame` whose end is not known: with its terminator, or all of `bytes`
/// if there is none.
pub fn terminated_len(bytes: &[u8]) -> usize {
    Walk::new(SectionName::EhFrame, bytes)
        .map_while(Result::ok)
        .find(|entry| entry.what == What::Terminator)
        .map_or(bytes.len(), |entry| entry.next)
}

/// gimli's view of a section.
#[derive(Clone, Debug)]
pub(super) enum Cfi<'a> {
    Eh(EhFrame<Slice<'a>>),
    Debug(DebugFrame<Slice<'a>>),
}

impl<'a> Cfi<'a> {
    pub fn new(arch: Arch, name: SectionName, bytes: &'a [u8]) -> Cfi<'a> {
        let vendor = match arch {
            Arch::X86_64 => Vendor::Default,
            Arch::Aarch64 => Vendor::AArch64,
        };
        if name == SectionName::DebugFrame {
            let mut section = DebugFrame::new(bytes, LittleEndian);
            section.set_address_size(8);
            section.set_vendor(vendor);
            Cfi::Debug(section)
        } else {
            let mut section = EhFrame::new(bytes, LittleEndian);
            section.set_address_size(8);
            section.set_vendor(vendor);
            Cfi::Eh(section)
        }
    }

    pub fn name(&self) -> SectionName {
        match self {
            Cfi::Eh(_) => SectionName::EhFrame,
            Cfi::Debug(_) => SectionName::DebugFrame,
        }
    }

    /// The FDE at `offset`, with the help of the CIE read last. Errors name its CIE if that is
    /// what is broken.
    pub fn fde(
        &self,
        bases: &BaseAddresses,
        offset: usize,
        last: Option<&mut LastCie<'a>>,
    ) -> Result<Fde<'a>, Error> {
        match self {
            Cfi::Eh(section) => fde(self.name(), section, bases, offset, last),
            Cfi::Debug(section) => fde(self.name(), section, bases, offset, last),
        }
    }

    /// What `visit` makes of the FDE at `offset`, which has been read before and found sound.
    #[inline]
    pub fn with_sound_fde<T>(
        &self,
        bases: &BaseAddresses,
        offset: usize,
        visit: impl FnOnce(&Fde<'a>) -> T,
    ) -> Option<T> {
        // FDEs are large: they are not moved.
        match self {
            Cfi::Eh(section) => {
                let fde = section.fde_from_offset(bases, offset.into(), EhFrame::cie_from_offset);
                Some(visit(fde.as_ref().ok()?))
            }
            Cfi::Debug(section) => {
                let fde =
                    section.fde_from_offset(bases, offset.into(), DebugFrame::cie_from_offset);
                Some(visit(fde.as_ref().ok()?))
            }
        }
    }

    /// Whether an FDE says what the CFA is, at any address.
    pub fn has_cfa(&self, bases: &BaseAddresses, fde: &Fde<'a>) -> bool {
        defines_cfa(self.common(bases, fde.cie())) || defines_cfa(self.own(bases, fde))
    }

    /// The CIE at `offset`, if nothing is wrong with it.
    pub fn cie(&self, bases: &BaseAddresses, offset: usize) -> Option<Cie<'a>> {
        match self {
            Cfi::Eh(section) => section.cie_from_offset(bases, offset.into()).ok(),
            Cfi::Debug(section) => section.cie_from_offset(bases, offset.into()).ok(),
        }
    }

    /// The instructions of a CIE.
    pub fn common<'x>(
        &'x self,
        bases: &'x BaseAddresses,
        cie: &Cie<'a>,
    ) -> CallFrameInstructionIter<'x, Slice<'a>> {
        match self {
            Cfi::Eh(section) => cie.instructions(section, bases),
            Cfi::Debug(section) => cie.instructions(section, bases),
        }
    }

    /// The instructions of an FDE without those of its CIE.
    pub fn own<'x>(
        &'x self,
        bases: &'x BaseAddresses,
        fde: &Fde<'a>,
    ) -> CallFrameInstructionIter<'x, Slice<'a>> {
        match self {
            Cfi::Eh(section) => fde.instructions(section, bases),
            Cfi::Debug(section) => fde.instructions(section, bases),
        }
    }

    /// The rows of an FDE. The instructions of its CIE are run at once.
    pub fn rows<'x, 'ctx, S: UnwindContextStorage<usize>>(
        &'x self,
        bases: &'x BaseAddresses,
        context: &'ctx mut UnwindContext<usize, S>,
        fde: &Fde<'a>,
    ) -> gimli::Result<UnwindTable<'x, 'ctx, Slice<'a>, S>>
    where
        'a: 'x,
    {
        match self {
            Cfi::Eh(section) => UnwindTable::new(section, bases, context, fde),
            Cfi::Debug(section) => UnwindTable::new(section, bases, context, fde),
        }
    }
}

/// Whether any instruction up to the first broken one defines the CFA.
fn defines_cfa(instructions: CallFrameInstructionIter<'_, Slice<'_>>) -> bool {
    use CallFrameInstruction::{DefCfa, DefCfaExpression, DefCfaSf};
    instructions
        .map_while(Result::ok)
        .any(|i| matches!(i, DefCfa { .. } | DefCfaSf { .. } | DefCfaExpression { .. }))
}

/// The CIE that was read last: neighbouring FDEs share theirs.
#[derive(Debug, Default)]
pub(super) struct LastCie<'a>(Option<Cie<'a>>);

fn fde<'a, S: UnwindSection<Slice<'a>>>(
    name: SectionName,
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
    mut last: Option<&mut LastCie<'a>>,
) -> Result<Fde<'a>, Error> {
    let mut bad = offset;
    let found = section.fde_from_offset(bases, S::Offset::from(offset), |section, bases, at| {
        let cie_offset = UnwindOffset::into(at);
        let known = last.as_ref().and_then(|last| last.0.as_ref());
        if let Some(cie) = known.filter(|cie| cie.offset() == cie_offset) {
            return Ok(cie.clone());
        }
        if cie_offset < section.section().len() {
            bad = cie_offset;
        }
        augmentation::check_length(name, section.section().slice(), cie_offset)?;
        let cie = section.cie_from_offset(bases, at)?;
        if cie.address_size() != 8 {
            return Err(gimli::Error::UnsupportedAddressSize(cie.address_size()));
        }
        bad = offset;
        if let Some(last) = &mut last {
            last.0 = Some(cie.clone());
        }
        Ok(cie)
    });
    let place = |kind| Error { section: name, offset: bad as u64, kind };
    let fde = found.map_err(|error| place(error.into()))?;
    let range = fde.initial_address().checked_add(fde.len());
    if range.is_none() {
        return Err(place(ErrorKind::RangeOverflow));
    }
    Ok(fde)
}
