//! DWARF call-frame information: `.eh_frame`, `.eh_frame_hdr`, `.debug_frame`.

pub mod expression;

/// A section that holds call-frame information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionName {
    /// `.eh_frame`
    EhFrame,
    /// `.eh_frame_hdr`
    EhFrameHdr,
    /// `.debug_frame`
    DebugFrame,
}

impl SectionName {
    /// As in the section header.
    pub const fn name(self) -> &'static str {
        match self {
            SectionName::EhFrame => ".eh_frame",
            SectionName::EhFrameHdr => ".eh_frame_hdr",
            SectionName::DebugFrame => ".debug_frame",
        }
    }
}

/// What is wrong with call-frame information, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}, offset {offset:#x}: {kind}", section.name())]
pub struct Error {
    /// The section.
    pub section: SectionName,
    /// Offset of the entry in it.
    pub offset: u64,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ErrorKind {
    /// It does not end inside its section.
    #[error("truncated")]
    Truncated,
}
