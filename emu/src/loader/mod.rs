//! tmp
pub mod elf; mod error; pub mod file; pub mod note;
pub use error::*;
pub(crate) const MMAP_MIN_ADDR: u64 = 0x10000;
pub(crate) use crate::mem::{PAGE, page_down};
pub(crate) fn page_up(a: u64) -> u64 { a.saturating_add(4095) & !4095 }
