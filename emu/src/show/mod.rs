//! A binary's code with what its unwind tables say about each instruction.
//!
//! ```text
//! unwinder::Module ─► Rows::at(pc) ─┬─ notation: a row as text ◄─ expression
//!                                   └─ agreement: do the two tables say the same? ◄─ value
//! file's bytes ─┬─► Code ─► lines of assembly
//!               └─► Pieces ─► a name, an FDE, an SFrame function for a stretch of code
//! ```
//!
//! * [`rows`]: the rows in force at an address, one for each table
//! * [`agreement`]: what two rows disagree about, by meaning
//! * [`code`]: assembly at an address, around one, or of a range
//! * [`pieces`]: what a stretch of code is called, by symbols and by tables

pub mod agreement;
mod ahead;
pub mod code;
mod expression;
mod notation;
pub mod pieces;
pub mod rows;
mod value;

pub use agreement::{Agreement, Parts};
pub use code::{Code, Line};
pub use pieces::{Piece, Pieces};
pub use rows::{RowTexts, Rows};
