//! Why a `perf.data` file cannot be read.

/// What is wrong, and where: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {at:#x}, {field}: {problem}")]
pub struct ReadError {
    /// Offset in the file, bytes.
    pub at: u64,
    /// Field at that offset, in the words of `perf_event.h`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl ReadError {
    /// An error in `field` at the file's offset `at`.
    pub fn new(at: u64, field: &'static str, problem: impl Into<String>) -> ReadError {
        ReadError { at, field, problem: problem.into() }
    }
}
