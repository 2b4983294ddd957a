//! The SFrame stack trace format, versions 1 to 3.

/// What is wrong with an SFrame section, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(".sframe, offset {offset:#x}: {kind}")]
pub struct Error {
    /// Offset in the section.
    pub offset: u64,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ErrorKind {
    /// It does not end inside its section.
    #[error("truncated")]
    Truncated,
}
