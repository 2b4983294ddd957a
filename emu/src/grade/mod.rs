//! Unwinders against the truth.
//!
//! ```text
//! registers, memory, modules ─► each method's walk ─┐
//!                                                   ├─► Verdict ─► Tally, one for each method
//! truth::Stack ─► true return addresses ────────────┤
//! pc, code ─► ProgramPoint ─► ByPoint               └─► file: all of it, to be explained
//! ```

pub mod by_point;
pub mod check;
pub mod file;
pub mod files;
pub mod followed;
pub mod grader;
pub mod kernel_names;
pub mod methods;
pub mod point;
pub mod verdict;
pub mod watch;

pub use by_point::ByPoint;
pub use grader::{Grader, MethodTally};
pub use methods::{MethodId, Methods};
pub use point::{Points, ProgramPoint};
pub use verdict::{Verdict, compare};
pub use watch::{TruthFile, Watch};
