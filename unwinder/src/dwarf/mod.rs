//! DWARF call-frame information: `.eh_frame`, `.eh_frame_hdr`, `.debug_frame`.
//!
//! ```text
//! Sections ─► augmentation: 'B' and 'G' read and taken out
//!          ─► section: entry by entry ─► index: address ranges ◄─ agrees? ─ header
//!
//! address ─► header or index ─► FDE ─► gimli's row machine ─► compile ─► Row
//!                               └───► short: the usual rules alone, for walks
//! ```
//!
//! What is modelled: DWARF 5 section 6.4, the LSB's `.eh_frame` and `.eh_frame_hdr`, and
//! AADWARF64's return-address signing. [`Table::new`] reads each section once and says what
//! is wrong with it ([`Warning`]); a broken entry costs its own function, not the table.
//! After that nothing is allocated.
//!
//! What is given to unwinders of others is checked before by [`endless`]: an expression may
//! branch backwards.
//!
//! gimli decodes the entries. It does not know two augmentation letters of aarch64
//! (`augmentation.rs`), and it trusts search tables (`header.rs` does not).
//!
//! Left out: `DW_CFA_AARCH64_negate_ra_state_with_pc` (an error of its own), scalable
//! vector sizes in expressions, address sizes other than 8, `DW_EH_PE_aligned`.

mod augmentation;
mod compile;
pub mod endless;
mod error;
pub mod expression;
pub mod fuzz;
mod header;
mod index;
mod section;
mod short;
mod table;

pub use error::{Error, ErrorKind, SectionName, Warning};
pub use header::frame_address;
pub use section::{Section, Sections, terminated_len};
pub use table::{Context, Entries, Entry, Table};
