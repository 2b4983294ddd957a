//! Which modelled functions a path from user mode goes through, and where its steps are.
//!
//! ```text
//! functions[0]                     N0, N1: entered by the processor, saves the registers
//! functions[..bookkeeping]         N2
//! functions[..unmasked]            N3 and, on the way back, N7
//! functions                        the work
//! functions[..exit]                X1 to X6
//! ```
//!
//! The tables are in each architecture's `paths.rs`.

use arch::Arch;

use crate::kernel::symbols::Named;
use crate::kernel::{aarch64, x86_64};

/// The functions of one path, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct EntryPath {
    /// All, up to where the work is done.
    pub functions: &'static [Named],
    /// How many of them there are at the entry's bookkeeping (N2).
    pub bookkeeping: usize,
    /// How many there are where interrupts are turned on and off (N3, N7).
    pub unmasked: usize,
    /// How many have not returned when the exit loop runs.
    pub exit: usize,
    /// Where the exit loop is.
    pub exit_loop: ExitLoop,
}

/// The function that holds the exit loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitLoop {
    /// It is called in any case and holds X1 to X6.
    Always(Named),
    /// It is called when there is work and holds X2 and X3.
    IfWork(Named),
}

/// The functions of an interrupt of kernel code, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct NestedPath {
    /// All, up to where the work is done.
    pub functions: &'static [Named],
    /// How many of them there are when the interrupt is counted in.
    pub bookkeeping: usize,
}

/// All paths of an architecture but those of system calls below the dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct Paths {
    /// System call, up to the dispatcher.
    pub syscall: EntryPath,
    /// Page fault, up to the generic part.
    pub page_fault: EntryPath,
    /// Another exception.
    pub trap: EntryPath,
    /// Timer interrupt of user code.
    pub timer: EntryPath,
    /// PMU overflow in user code.
    pub pmu: EntryPath,
    /// Timer interrupt of kernel code.
    pub kernel_timer: NestedPath,
    /// PMU overflow in kernel code.
    pub kernel_pmu: NestedPath,
    /// Page fault, from the generic part to where the page is made: of anonymous memory
    /// or of a file.
    pub handle_fault: [&'static [Named]; 2],
}

/// The paths of `arch`.
pub const fn of(arch: Arch) -> &'static Paths {
    match arch {
        Arch::X86_64 => &x86_64::paths::PATHS,
        Arch::Aarch64 => &aarch64::paths::PATHS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_fit() {
        for arch in Arch::ALL {
            let p = of(arch);
            for path in [p.syscall, p.page_fault, p.trap, p.timer, p.pmu] {
                let most = path.functions.len();
                let depths = [path.exit, path.bookkeeping, path.unmasked];
                assert!(depths.iter().all(|d| (1..=most).contains(d)), "{path:?}");
                assert!(path.bookkeeping <= path.unmasked && path.exit <= path.unmasked);
            }
            for path in [p.kernel_timer, p.kernel_pmu] {
                assert!((1..=path.functions.len()).contains(&path.bookkeeping), "{path:?}");
            }
        }
    }
}
