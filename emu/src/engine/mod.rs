//! The CPU: unicorn behind a safe interface.
//!
//! This is the only folder that names unicorn and the only one with `unsafe`
//! code, each use with its reason.
//!
//! ```text
//!  Engine::run(arena, mmu, budget)
//!     │   ┌─ TLB fill hook ──► Mmu::translate ──► our page tables
//!     ├──►│  block hook ─────► counting: instructions, branches; stop at the budget
//!     │   └─ system call, exception, counter-read hooks
//!     ▼
//!  Run { exit, retired, branches }     exit: why, with the exact PC in the registers
//! ```
//!
//! * [`arena`]: guest physical memory, one host mapping.
//! * [`filemap`]: read-only host files behind functions that copy.
//! * [`streams`]: whether standard output was open at the start.
//! * [`counting`]: how many instructions and branches each translated block holds.
//! * [`flow`]: calls, returns and indirect jumps, as they happen.
//! * `unicorn`: the raw handle; nothing but calls across the C ABI.
//! * `hooks`: what unicorn calls while guest code runs; `shared`: what hooks and run loop share.
//! * [`schedule`], [`stepper`]: a second CPU that shows chosen executions, instruction by
//!   instruction.
//! * `env`: registers at transfers of control, read where the engine has them.
//! * `inline`: the block hook's fast path inside translated code, on x86_64 hosts.
//! * `run`: the run loop: exact stops, look-ahead fetches, self-modifying code.
//! * `x86_64`, `aarch64`: CPU set-up and registers.
//!
//! **The counting rule.** With `N` = instructions retired when `run` was called and a
//! budget of `b`, `run` returns [`Exit::Budget`] with the PC at the first instruction not
//! yet retired when exactly `N + b` have. A faulting instruction has not retired; a
//! `rep` string instruction retires once, when it ends; a system call and `int3` have
//! retired when they stop the run.

pub mod arena;
pub mod baseline;
pub mod counting;
mod env;
pub mod filemap;
pub mod flow;
mod hooks;
mod inline;
mod run;
pub mod schedule;
mod shared;
pub mod stepper;
pub mod streams;
mod unicorn;

mod aarch64;
mod x86_64;

#[cfg(test)]
mod look_tests;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use arch::{Arch, FpState, Regs};

pub use arena::{Arena, Bin, FRAME_SIZE, Frame};
pub use filemap::FileMap;

use crate::engine::flow::{Flow, FlowSink};
use crate::engine::schedule::{Schedule, Visits};
use crate::engine::shared::{Shared, SharedMemory};
use crate::engine::stepper::{Sight, Stepper};
use crate::engine::unicorn::Handle;

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Data load.
    Read,
    /// Data store.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// Page permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Perms {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Fetches are allowed.
    pub exec: bool,
}

impl Perms {
    /// Whether `access` is allowed.
    pub const fn allow(self, access: Access) -> bool {
        match access {
            Access::Read => self.read,
            Access::Write => self.write,
            Access::Fetch => self.exec,
        }
    }
}

/// Address translation, answered from page tables.
pub trait Mmu {
    /// The frame and permissions of the page at `va` (page aligned, tag bits removed),
    /// or `None` if nothing is present there. Called from inside the running CPU: it
    /// must be quick and must not block.
    fn translate(&mut self, va: u64) -> Option<(Frame, Perms)>;
}

/// What an exception that is not a page fault was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exception {
    /// Integer division by zero or overflow (x86 `#DE`).
    Divide,
    /// `int3` (PC after it) or `brk` (PC at it).
    Breakpoint,
    /// Single-step or debug exception (x86 `#DB`, `int1`).
    Debug,
    /// `into`/`bound` and such (x86 `#OF`, `#BR`).
    Overflow,
    /// An instruction that does not exist or is not allowed at user level.
    InvalidOpcode,
    /// x86 `#GP`, `#SS`, `#NP`, `#TS` with its vector.
    Protection {
        /// Vector number.
        vector: u8,
    },
    /// x87 (`#MF`) or SSE (`#XM`) arithmetic.
    FloatingPoint {
        /// `true` for an SSE exception.
        simd: bool,
    },
    /// Misaligned access, PC or SP.
    Alignment,
    /// `int n` with a vector that user code may not raise.
    SoftwareInterrupt {
        /// Vector number.
        vector: u8,
    },
}

/// Why a run ended. The registers hold the exact state at that point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A `syscall` or `svc #0` retired; PC is after it.
    Syscall,
    /// The page of `page` is absent or forbids `access`; PC is at the instruction.
    PageFault {
        /// Page-aligned address that missed.
        page: u64,
        /// What was tried.
        access: Access,
    },
    /// Another exception.
    Exception(Exception),
    /// The budget is used up; PC is at the first instruction not yet retired.
    Budget,
}

/// How far to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Stop when so many more instructions have retired.
    pub instructions: u64,
    /// Stop when so many more branch instructions have retired.
    pub branches: u64,
}

impl Budget {
    /// No limit at all.
    pub const UNLIMITED: Budget = Budget { instructions: u64::MAX, branches: u64::MAX };
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Why it ended.
    pub exit: Exit,
    /// Instructions retired.
    pub retired: u64,
    /// Branch instructions among them; 0 unless the budget limits branches.
    pub branches: u64,
}

/// Our own failure, never the guest's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// unicorn refused a call.
    #[error("engine: {call} failed: {reason}; this is a fault of emu, please report it")]
    Call {
        /// Which call.
        call: &'static str,
        /// unicorn's words.
        reason: String,
    },
    /// Guest memory could not be reserved.
    #[error(
        "cannot reserve address space for guest memory ({wanted} bytes): {reason}; raise `ulimit -v`"
    )]
    Arena {
        /// Bytes asked for last.
        wanted: u64,
        /// The system's words.
        reason: String,
    },
    /// The run ended for no reason that we know.
    #[error("engine: the CPU stopped at {pc:#x} for no known reason ({detail}); please report it")]
    Stray {
        /// Guest PC.
        pc: u64,
        /// What unicorn said.
        detail: String,
    },
}

/// One emulated CPU core.
#[derive(Debug)]
pub struct Engine {
    arch: Arch,
    handle: Handle,
    stepper: Option<Stepper>,
    shared: SharedMemory,
    /// The integer registers, once they have been read, until they are set or the CPU runs.
    known: Cell<Option<Regs>>,
}

impl Engine {
    /// Creates a CPU at user level whose physical memory is `arena`.
    pub fn new(arch: Arch, arena: &mut Arena) -> Result<Engine, EngineError> {
        let handle = Handle::open(arch)?;
        let mut engine = Engine {
            arch,
            handle,
            stepper: None,
            shared: SharedMemory::new(Shared::new(arch, arena)?),
            known: Cell::new(None),
        };
        engine.handle.map_arena(arena)?;
        engine.install_hooks()?;
        match arch {
            Arch::X86_64 => x86_64::setup(&mut engine.handle, &mut engine.shared, arena)?,
            Arch::Aarch64 => aarch64::setup(&mut engine.handle)?,
        }
        engine.handle.flush_tlb()?;
        engine.handle.save_pristine()?;
        Ok(engine)
    }

    /// Architecture of this CPU.
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Integer registers.
    pub fn regs(&self) -> Regs {
        if let Some(known) = self.known.get() {
            return known;
        }
        let regs = match self.arch {
            Arch::X86_64 => x86_64::regs::read(&self.handle),
            Arch::Aarch64 => aarch64::regs::read(&self.handle),
        };
        self.known.set(Some(regs));
        regs
    }

    /// Sets the integer registers: those that are not known to hold their value already.
    pub fn set_regs(&mut self, regs: &Regs) {
        let known = self.known.get();
        if known.as_ref() == Some(regs) {
            return;
        }
        // What the CPU makes of them, of flags above all, is read when it is asked for.
        self.known.set(None);
        match self.arch {
            Arch::X86_64 => x86_64::regs::write(&mut self.handle, known.as_ref(), regs),
            Arch::Aarch64 => aarch64::regs::write(&mut self.handle, known.as_ref(), regs),
        }
        self.shared.forget_last_block();
    }

    /// Floating-point and vector registers.
    pub fn fp(&self) -> FpState {
        match self.arch {
            Arch::X86_64 => x86_64::regs::read_fp(&self.handle),
            Arch::Aarch64 => aarch64::regs::read_fp(&self.handle),
        }
    }

    /// Sets the floating-point and vector registers.
    pub fn set_fp(&mut self, fp: &FpState) {
        match fp {
            FpState::X86_64(image) => x86_64::regs::write_fp(&mut self.handle, image),
            FpState::Aarch64 { v, fpsr, fpcr } => {
                aarch64::regs::write_fp(&mut self.handle, v, *fpsr, *fpcr);
            }
        }
    }

    /// Tells `sink` of every call, return and indirect jump from now on, at the latest when
    /// a run ends.
    ///
    /// # Errors
    ///
    /// [`EngineError::Call`] if the translated code cannot be dropped.
    pub fn follow(&mut self, sink: Box<dyn FlowSink>) -> Result<(), EngineError> {
        self.shared.flow = Some(Flow::new(sink));
        self.shared.hot.follows = true;
        self.shared.forget_blocks();
        self.shared.sites.clear();
        self.handle.flush_blocks()
    }

    /// Whether the stack pointer was set, rather than moved by a constant, since the last
    /// transfer of control that [`Engine::follow`]'s sink was told of.
    pub fn sp_was_set(&self) -> bool {
        self.shared.hot.sp_was_set != 0
    }

    /// Shows `sight` instructions before they are executed, from now on: those of every block
    /// when `visits` says. Transfers of control that [`Engine::follow`]'s sink is told of come
    /// before the instructions that follow them.
    ///
    /// # Errors
    ///
    /// [`EngineError::Call`] if a second CPU cannot be made, or the code not dropped.
    pub fn look(
        &mut self,
        arena: &Arena,
        sight: Box<dyn Sight>,
        visits: Visits,
    ) -> Result<(), EngineError> {
        self.stepper = Some(Stepper::new(self.arch, arena, &self.shared, sight)?);
        self.shared.schedule = Some(Schedule::new(visits));
        self.shared.hot.scheduled = true;
        self.shared.forget_blocks();
        self.shared.sites.clear();
        self.handle.flush_blocks()
    }

    /// First address, size and executions of each block that was executed since
    /// [`Engine::look`].
    pub fn executions(&mut self) -> Vec<(u64, u32, u64)> {
        let shared = &mut *self.shared;
        let Some(schedule) = &shared.schedule else { return Vec::new() };
        if let Some(stepper) = self.stepper.as_mut().filter(|_| schedule.refused() > 0) {
            stepper.refused(schedule.refused());
        }
        schedule.executions(&mut shared.hot)
    }

    /// Forgets cached translations; call after any page-table change that takes a
    /// permission or a frame away.
    pub fn flush_tlb(&mut self) {
        self.shared.tlb_stale = true;
    }

    /// Sets what the counter instructions (`rdtsc`, `cntvct_el0`) answer from now on; the
    /// counter advances by one per retired instruction.
    pub fn set_clock(&mut self, clock: u64) {
        self.shared.clock = clock;
    }
}
