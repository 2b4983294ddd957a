//! Unwinders against the truth.
//!
//! ```text
//! registers, memory, modules ─► each method's walk ─┐
//!                                                   ├─► Verdict ─► Tally, one for each method
//! truth::Stack ─► true return addresses ────────────┘
//! ```

pub mod check;
pub mod grader;
pub mod methods;
pub mod point;
pub mod verdict;
pub mod watch;

pub use grader::{Grader, MethodTally};
pub use methods::{MethodId, Methods};
pub use point::{Points, ProgramPoint};
pub use verdict::{Verdict, compare};
pub use watch::Watch;
