//! Signal frames: what the kernel leaves on the stack of a thread that
//! enters a handler, and what `rt_sigreturn` makes of it.
//!
//! Pure functions over values: the caller writes the bytes and installs the
//! registers. Each architecture follows its `setup_rt_frame` and
//! `sys_rt_sigreturn`:
//!
//! ```text
//!        x86_64                          aarch64
//!  high  interrupted stack               interrupted stack
//!        128 bytes of red zone           frame record {x29, x30}  <- x29
//!        FXSAVE image (64-aligned)       rt_sigframe: siginfo, ucontext
//!        siginfo                           {…, mcontext, contexts}
//!        ucontext                                                 <- sp
//!        return address          <- rsp
//! ```

use crate::fault::Fault;
use crate::sigaction::{AltStack, SigAction};
use crate::signal::sa;
use crate::{Arch, FpState, Regs, SigSet, Signal, aarch64, siginfo, x86_64};

/// The code that a handler returns to, of any libc and of the vDSO: it calls
/// `rt_sigreturn` and nothing else. gdb knows signal frames by the same bytes.
const SIGRETURN_CODE: [&[u8]; 3] = [
    // mov $15, %rax; syscall
    &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05],
    // mov $15, %eax; syscall
    &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05],
    // mov x8, #139; svc #0
    &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
];

/// Whether `code` begins with a call of `rt_sigreturn`. A return address into such code
/// was never pushed by a call: the kernel put it there, and it is the first byte of the
/// restorer.
pub fn is_sigreturn_code(code: &[u8]) -> bool {
    SIGRETURN_CODE.iter().any(|c| code.starts_with(c))
}

/// Whether byte `at` of `code` is in such a call, or directly behind it: where a thread is
/// from the handler's return until the kernel has restored its registers.
pub fn is_in_sigreturn_code(code: &[u8], at: usize) -> bool {
    let starts_at = |start: usize, c: &[u8]| code.get(start..).is_some_and(|s| s.starts_with(c));
    SIGRETURN_CODE.iter().any(|c| (0..=c.len()).any(|k| k <= at && starts_at(at - k, c)))
}

/// Where a frame holds the interrupted thread's register `number` (DWARF): bytes above the
/// stack pointer at the code that calls `rt_sigreturn`. `None`: no such register.
pub fn saved_register(arch: Arch, number: usize) -> Option<u64> {
    match arch {
        Arch::X86_64 => x86_64::sigframe::saved_register(number),
        Arch::Aarch64 => aarch64::sigframe::saved_register(number),
    }
}

/// The same for the interrupted program counter.
pub const fn saved_pc(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => x86_64::sigframe::SAVED_PC,
        Arch::Aarch64 => aarch64::sigframe::SAVED_PC,
    }
}

/// What a frame is made of.
#[derive(Clone, Copy, Debug)]
pub struct FrameInput<'a> {
    /// The interrupted registers, after any system-call restart.
    pub regs: &'a Regs,
    /// The interrupted floating-point state.
    pub fp: &'a FpState,
    /// The signal.
    pub signal: Signal,
    /// `siginfo_t` in memory form.
    pub info: &'a [u8; siginfo::SIZE],
    /// The handler.
    pub action: SigAction,
    /// The mask to restore on return.
    pub mask: SigSet,
    /// The thread's alternate stack.
    pub altstack: AltStack,
    /// The thread's last fault.
    pub fault: Fault,
    /// Address of the vDSO's `rt_sigreturn`, which aarch64 returns to unless
    /// the action has a restorer; unused on x86_64.
    pub vdso_sigreturn: u64,
}

/// A frame and the state in which the handler starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where the bytes go.
    pub addr: u64,
    /// The frame. Padding, and fields that the kernel leaves alone (the
    /// `siginfo_t` without `SA_SIGINFO`), are zero.
    pub bytes: Vec<u8>,
    /// Registers at the handler's first instruction.
    pub regs: Regs,
    /// Floating-point state there: reset on x86_64, kept on aarch64.
    pub fp: FpState,
    /// The thread's alternate stack from now on (`SS_AUTODISARM` disables it).
    pub altstack: AltStack,
}

/// Why no frame was made. Linux kills the thread's process by SIGSEGV
/// (`force_sigsegv`), as it does when the bytes cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BuildError {
    /// x86_64 without `SA_RESTORER`.
    #[error("the signal action has no restorer")]
    NoRestorer,
    /// The frame does not fit on the alternate stack.
    #[error("the frame overflows the alternate signal stack")]
    AltStackOverflow,
    /// `regs` and `fp` are not of one architecture.
    #[error("integer and floating-point state belong to different architectures")]
    MixedArchitectures,
}

/// What `rt_sigreturn` found in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Registers of the interrupted context; thread pointers are the present ones.
    pub regs: Regs,
    /// Its floating-point state.
    pub fp: FpState,
    /// The mask, without the signals that cannot be blocked.
    pub mask: SigSet,
    /// `uc_stack`, to be installed by [`AltStack::replace`] with errors ignored.
    pub altstack: AltStack,
}

/// Why a frame cannot be restored: Linux sends SIGSEGV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadFrame {
    /// Part of it is not readable.
    #[error("the signal frame at {0:#x} is not readable")]
    Unreadable(u64),
    /// The stack pointer is not aligned (aarch64: 16).
    #[error("the stack pointer {0:#x} is not aligned")]
    Misaligned(u64),
    /// Code or stack selector is not that of a 64-bit program (x86_64).
    #[error("the frame selects cs={cs:#x} ss={ss:#x}")]
    Segments {
        /// `cs` of the frame.
        cs: u16,
        /// `ss` of the frame.
        ss: u16,
    },
    /// The FXSAVE image is misaligned or sets reserved MXCSR bits (x86_64).
    #[error("the floating-point state is not loadable")]
    FpState,
    /// PSTATE is not that of EL0 in AArch64 state (aarch64).
    #[error("the frame has pstate {0:#x}")]
    Pstate(u64),
    /// A context is unknown, repeated, missing or out of bounds (aarch64).
    #[error("the frame has a malformed context at offset {0:#x}")]
    Context(u64),
}

/// Reads guest memory into the whole buffer; false if any byte is unreadable.
pub type ReadMemory<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// Makes the frame for a signal.
pub fn build(input: &FrameInput<'_>) -> Result<Built, BuildError> {
    match input.regs.arch {
        Arch::X86_64 => x86_64::sigframe::build(input),
        Arch::Aarch64 => aarch64::sigframe::build(input),
    }
}

/// Restores the context of a frame. `present` are the registers at the entry
/// of `rt_sigreturn`; their stack pointer says where the frame is.
pub fn restore(present: &Regs, read: ReadMemory<'_>) -> Result<Restored, BadFrame> {
    match present.arch {
        Arch::X86_64 => x86_64::sigframe::restore(present, read),
        Arch::Aarch64 => aarch64::sigframe::restore(present, read),
    }
}

impl FrameInput<'_> {
    /// Whether the handler switches to the alternate stack from `sp`.
    pub(crate) fn enters_altstack(&self, sp: u64) -> bool {
        self.action.has(sa::SA_ONSTACK) && self.altstack.status(sp) == 0
    }

    /// The alternate stack once the handler runs.
    pub(crate) fn altstack_after(&self) -> AltStack {
        match self.altstack.flags & crate::signal::ss::SS_AUTODISARM {
            0 => self.altstack,
            _ => AltStack::DISABLED,
        }
    }
}

/// Reads `N` bytes or says where it failed.
pub(crate) fn fetch<const N: usize>(read: ReadMemory<'_>, addr: u64) -> Result<[u8; N], BadFrame> {
    let mut bytes = [0; N];
    if read(addr, &mut bytes) { Ok(bytes) } else { Err(BadFrame::Unreadable(addr)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "sigframe_tests.rs"]
mod tests;
