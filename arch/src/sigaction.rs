//! `struct kernel_sigaction` and the alternate signal stack
//! (`include/linux/signal_types.h`, `kernel/signal.c`; both architectures agree).

use crate::bytes::{put, put_words, u32_at, u64_at};
use crate::signal::{sa, ss};
use crate::{Errno, SigSet};

/// What `rt_sigaction` exchanges: 32 bytes of handler, flags, restorer, mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SigAction {
    /// Address of the handler, `SIG_DFL` or `SIG_IGN`.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to; counts with `SA_RESTORER`.
    pub restorer: u64,
    /// Signals blocked while the handler runs.
    pub mask: SigSet,
}

impl SigAction {
    /// Bytes in memory.
    pub const SIZE: usize = 32;

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; SigAction::SIZE] {
        let mut out = [0; SigAction::SIZE];
        put_words(&mut out, 0, &[self.handler, self.flags, self.restorer, self.mask.0]);
        out
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; SigAction::SIZE]) -> SigAction {
        SigAction {
            handler: u64_at(bytes, 0),
            flags: u64_at(bytes, 8),
            restorer: u64_at(bytes, 16),
            mask: SigSet(u64_at(bytes, 24)),
        }
    }

    /// Whether the signal takes its default action.
    pub const fn is_default(&self) -> bool {
        self.handler == sa::SIG_DFL
    }

    /// Whether the signal is ignored.
    pub const fn is_ignored(&self) -> bool {
        self.handler == sa::SIG_IGN
    }

    /// Whether a flag is set.
    pub const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// `stack_t` as a thread keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// `SS_DISABLE`, or 0 with or without `SS_AUTODISARM`.
    pub flags: i32,
    /// Bytes.
    pub size: u64,
}

impl AltStack {
    /// Bytes of a `stack_t` in memory.
    pub const SIZE: usize = 24;

    /// No alternate stack, as a process starts.
    pub const NONE: AltStack = AltStack { sp: 0, flags: 0, size: 0 };

    /// No alternate stack, as after a reset (`sas_ss_reset`): in a new thread,
    /// and while a handler runs on an auto-disarmed one.
    pub const DISABLED: AltStack = AltStack { sp: 0, flags: ss::SS_DISABLE, size: 0 };

    /// The structure in memory.
    pub fn to_bytes(&self) -> [u8; AltStack::SIZE] {
        let mut out = [0; AltStack::SIZE];
        put(&mut out, 0, self.sp.to_le_bytes());
        put(&mut out, 8, self.flags.to_le_bytes());
        put(&mut out, 16, self.size.to_le_bytes());
        out
    }

    /// Reads the structure.
    pub fn from_bytes(bytes: &[u8; AltStack::SIZE]) -> AltStack {
        AltStack { sp: u64_at(bytes, 0), flags: u32_at(bytes, 8) as i32, size: u64_at(bytes, 16) }
    }

    /// Whether `sp` lies in the memory of the stack (`__on_sig_stack`): the
    /// top belongs to it, the bottom does not.
    pub const fn holds(&self, sp: u64) -> bool {
        sp > self.sp && sp - self.sp <= self.size
    }

    /// Whether a thread with this stack pointer runs on it (`on_sig_stack`).
    /// An auto-disarmed stack never counts as in use.
    pub const fn in_use(&self, sp: u64) -> bool {
        self.flags & ss::SS_AUTODISARM == 0 && self.holds(sp)
    }

    /// The state that `sigaltstack` reports (`sas_ss_flags`): 0 free,
    /// `SS_ONSTACK`, `SS_DISABLE`.
    pub const fn status(&self, sp: u64) -> i32 {
        match self.size {
            0 => ss::SS_DISABLE,
            _ if self.in_use(sp) => ss::SS_ONSTACK,
            _ => 0,
        }
    }

    /// What `sigaltstack` writes to `old_ss` for a thread at `sp`.
    pub const fn reported(&self, sp: u64) -> AltStack {
        let kept = self.flags & ss::SS_AUTODISARM;
        AltStack { sp: self.sp, flags: self.status(sp) | kept, size: self.size }
    }

    /// Installs `new` for a thread at `sp` (`do_sigaltstack`); `minimum` is
    /// the smallest size, `MINSIGSTKSZ` of the architecture.
    ///
    /// `EPERM` while the thread runs on the present stack, `EINVAL` for
    /// unknown flags, `ENOMEM` for a stack that is too small. `rt_sigreturn`
    /// ignores these errors and keeps the present stack.
    pub const fn replace(&self, new: &AltStack, sp: u64, minimum: u64) -> Result<AltStack, Errno> {
        if self.in_use(sp) {
            return Err(Errno::EPERM);
        }
        let mode = new.flags & !ss::SS_AUTODISARM;
        match mode {
            ss::SS_DISABLE => Ok(AltStack { sp: 0, flags: new.flags, size: 0 }),
            0 | ss::SS_ONSTACK if new.size < minimum => Err(Errno::ENOMEM),
            0 | ss::SS_ONSTACK => Ok(*new),
            _ => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: AltStack = AltStack { sp: 0x1000, flags: 0, size: 0x2000 };

    #[test]
    fn layouts_round_trip() {
        let action = SigAction { handler: 1, flags: 2, restorer: 3, mask: SigSet(4) };
        assert_eq!(action.to_bytes()[24..], [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(SigAction::from_bytes(&action.to_bytes()), action);
        let stack = AltStack { flags: ss::SS_AUTODISARM, ..STACK };
        assert_eq!(AltStack::from_bytes(&stack.to_bytes()), stack);
    }

    #[test]
    fn the_top_belongs_to_the_stack() {
        assert!(STACK.in_use(0x3000));
        assert!(STACK.in_use(0x1001));
        assert!(!STACK.in_use(0x1000));
        assert!(!STACK.in_use(0x3001));
        assert!(!AltStack { flags: ss::SS_AUTODISARM, ..STACK }.in_use(0x2000));
        assert_eq!(AltStack::DISABLED.status(0), ss::SS_DISABLE);
        assert_eq!(STACK.reported(0x2000).flags, ss::SS_ONSTACK);
    }

    #[test]
    fn replacing_follows_sigaltstack() {
        let min = ss::MINSIGSTKSZ_X86_64;
        assert_eq!(AltStack::DISABLED.replace(&STACK, 0x9000, min), Ok(STACK));
        assert_eq!(STACK.replace(&AltStack::DISABLED, 0x2000, min), Err(Errno::EPERM));
        assert_eq!(STACK.replace(&AltStack::DISABLED, 0x9000, min), Ok(AltStack::DISABLED));
        let small = AltStack { size: 100, ..STACK };
        assert_eq!(STACK.replace(&small, 0x9000, min), Err(Errno::ENOMEM));
        let odd = AltStack { flags: 4, ..STACK };
        assert_eq!(STACK.replace(&odd, 0x9000, min), Err(Errno::EINVAL));
    }
}
