//! The SFrame stack trace format, versions 1 to 3.
//!
//! A section lists functions by address; each has rows that tell, from an instruction on, the
//! canonical frame address, where the return address and where the caller's frame pointer
//! are. Other registers are not described.
//!
//! ```text
//! header ─► functions: start, size ─► rows: start, words ─► rules: CFA, RA, FP ─► Row
//! header    function                  frame_row             rules
//!
//! Table     a module's section: validated once, then looked up in place
//! Registry  the kernel's sections of a process: read from its memory at each lookup
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`header`] | versions, flags, ABIs, the header |
//! | [`function`], [`frame_row`] | entries as they are written down |
//! | [`rules`] | what the words of a row mean |
//! | [`table`] | lookup in a section, or in several that follow each other |
//! | [`registry`] | the kernel's list of sections |
//! | [`process`] | a walk with that list |
//! | [`check`] | validation of all functions and rows |
//! | [`fuzz`] | the oracle that fuzzing drives |
//! | [`error`] | what can be wrong |

mod buckets;
pub mod check;
pub mod error;
pub mod frame_row;
pub mod function;
pub mod fuzz;
pub mod header;
mod lookup;
pub mod process;
mod quick;
pub mod registry;
pub mod rules;
mod scan;
mod source;
pub mod table;

pub use check::{Problem, Severity};
pub use error::{Error, ErrorKind, Warning, WarningKind};
pub use frame_row::FrameRow;
pub use function::Function;
pub use header::{Abi, Header, Version};
pub(crate) use quick::View;
pub use registry::Registry;
pub use rules::{Found, Rules};
pub use source::ByteOrder;
pub use table::Table;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod check_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod corpus_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod crafted;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod header_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod registry_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
