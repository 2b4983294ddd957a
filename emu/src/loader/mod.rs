//! From a program file to what `execve` makes of it: pure functions that read and
//! check the ELF headers, choose the addresses and lay out the initial stack.
//! Mapping the result into an address space is the business of [`crate::mem`].
//!
//! ```text
//! path ─► file::open ─► &[u8] ─► elf::parse ─► Image ─► plan ─► Layout ─┐
//!                                                │                      ├─► the address space
//!                    argv, envp, auxv ───────────┴─► stack::build ──────┤
//!                    vdso::image, vvar::Vvar ───────────────────────────┘
//! ```
//!
//! | file | concept | Linux |
//! |---|---|---|
//! | [`error`] | why a file does not run | – |
//! | [`mod@file`] | opening it | `do_open_execat` |
//! | [`elf`], [`note`] | the ELF headers | `load_elf_binary` |
//! | [`mod@layout`] | addresses, with and without randomisation | `mmap_base`, `load_elf_binary` |
//! | [`auxv`] | what the kernel tells the program | `create_elf_tables`, `ARCH_DLINFO` |
//! | [`stack`] | the initial stack | `copy_strings`, `create_elf_tables` |
//! | [`vdso`], [`vvar`] | clocks without a system call | `vdso_addr`, `map_vdso` |
//! | [`fuzz`] | the oracle that fuzzing drives | – |
//!
//! No byte of a file makes these functions panic or allocate more than a small
//! multiple of the file's program headers and of the arguments.

pub mod auxv;
pub mod elf;
pub mod error;
pub mod file;
pub mod fuzz;
pub mod layout;
pub mod note;
pub mod stack;
pub mod vdso;
pub mod vvar;

#[cfg(test)]
pub(crate) mod crafted;

pub use elf::{Image, Kind, Segment, Span, parse};
pub use error::{FileError, LoadError};
pub use layout::{Layout, Options, plan};

use crate::mem::{PAGE, page_down};

/// `vm.mmap_min_addr`: nothing is mapped below (Linux's default for both architectures).
pub const MMAP_MIN_ADDR: u64 = 0x1_0000;

/// The first page boundary at or after `address`, which must be a user address
/// (so that the sum cannot wrap).
const fn page_up(address: u64) -> u64 {
    page_down(address + (PAGE - 1))
}
