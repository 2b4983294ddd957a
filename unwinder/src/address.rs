//! Code addresses that cannot be mixed up.
//!
//! The tables describe *instructions*. Which instruction an address stands for depends on
//! where the address came from:
//!
//! ```text
//! InstructionPointer   a thread's program counter        look up  pc
//! ReturnAddress        what a call left behind           look up  ra - 1   (inside the call)
//! InterruptedAddress   what a signal frame holds         look up  pc
//! CallAddress          where a recorded branch came from look up  call
//! ```
//!
//! A call can be the last instruction of its function, so that its return address is in the
//! next one; a signal can arrive at a function's first instruction. Hence the tables take a
//! [`LookupAddress`], which only [`CodeAddress::lookup`] makes.

use std::fmt;

/// The address of the instruction that a thread executes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionPointer(pub u64);

/// The address at which a function goes on when the one it called returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReturnAddress(pub u64);

/// The address of the instruction before which a signal was delivered, out of the signal's
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterruptedAddress(pub u64);

/// The address of a call instruction, as branch records have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallAddress(pub u64);

/// The code address of a frame, with its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeAddress {
    /// The topmost frame's.
    Current(InstructionPointer),
    /// That of a frame that called the one above it.
    Return(ReturnAddress),
    /// That of a frame that a signal interrupted.
    Interrupted(InterruptedAddress),
    /// The call itself that a frame is in the middle of. Unlike a return address it is the
    /// instruction, and is looked up as it is.
    Call(CallAddress),
}

/// An address inside the instruction that a frame is at: the key of all table lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupAddress(u64);

impl CodeAddress {
    /// The address as it is, for people and profiles.
    pub const fn value(self) -> u64 {
        match self {
            CodeAddress::Current(InstructionPointer(a))
            | CodeAddress::Return(ReturnAddress(a))
            | CodeAddress::Interrupted(InterruptedAddress(a))
            | CodeAddress::Call(CallAddress(a)) => a,
        }
    }

    /// The key for the tables.
    pub const fn lookup(self) -> LookupAddress {
        match self {
            CodeAddress::Return(ReturnAddress(a)) => LookupAddress(a.wrapping_sub(1)),
            CodeAddress::Current(InstructionPointer(a))
            | CodeAddress::Interrupted(InterruptedAddress(a))
            | CodeAddress::Call(CallAddress(a)) => LookupAddress(a),
        }
    }

    /// Whether all registers of this frame are those of a thread: nothing was called here.
    pub const fn is_exact(self) -> bool {
        matches!(self, CodeAddress::Current(_) | CodeAddress::Interrupted(_))
    }
}

impl LookupAddress {
    /// The number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The same instruction in a module that is loaded `bias` bytes above where it was
    /// linked, as the module's own tables count.
    pub const fn unbiased(self, bias: u64) -> LookupAddress {
        LookupAddress(self.0.wrapping_sub(bias))
    }
}

impl From<InstructionPointer> for CodeAddress {
    fn from(pc: InstructionPointer) -> CodeAddress {
        CodeAddress::Current(pc)
    }
}

impl From<ReturnAddress> for CodeAddress {
    fn from(ra: ReturnAddress) -> CodeAddress {
        CodeAddress::Return(ra)
    }
}

impl From<InterruptedAddress> for CodeAddress {
    fn from(pc: InterruptedAddress) -> CodeAddress {
        CodeAddress::Interrupted(pc)
    }
}

impl From<CallAddress> for CodeAddress {
    fn from(call: CallAddress) -> CodeAddress {
        CodeAddress::Call(call)
    }
}

impl fmt::Display for CodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.value())
    }
}

impl fmt::Display for LookupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_return_addresses_are_looked_up_one_byte_earlier() {
        let key = |a: CodeAddress| a.lookup().value();
        assert_eq!(key(InstructionPointer(0x100).into()), 0x100);
        assert_eq!(key(InterruptedAddress(0x100).into()), 0x100);
        assert_eq!(key(CallAddress(0x100).into()), 0x100);
        assert_eq!(key(ReturnAddress(0x100).into()), 0xff);
        assert_eq!(key(ReturnAddress(0).into()), u64::MAX);
        assert_eq!(CodeAddress::from(ReturnAddress(0x100)).value(), 0x100);
    }
}
