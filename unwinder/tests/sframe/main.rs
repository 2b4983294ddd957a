//! `.sframe` of real programs: read without a complaint, and as other readers read it.
//!
//! `tests/data` has the sections of programs that assemblers and linkers of three generations
//! made (binutils 2.40, 2.44 and 2.47.50), as `PROGRAM.ADDRESS.sframe` and
//! `PROGRAM.ADDRESS.eh_frame`: what `objcopy -O binary --only-section` takes out of them.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod cfi;
mod fuzz;
mod guests;
mod oracle;
#[path = "../common/random.rs"]
mod random;
mod readelf;
