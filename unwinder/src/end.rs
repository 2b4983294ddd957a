//! Why a walk ended.

use std::fmt;

use crate::{CodeAddress, dwarf, sframe};

/// A table, or a row of it, that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TableError {
    /// `.eh_frame`, `.eh_frame_hdr` or `.debug_frame`.
    #[error(transparent)]
    Dwarf(#[from] dwarf::Error),
    /// `.sframe`
    #[error(transparent)]
    Sframe(#[from] sframe::Error),
}

/// Why there is no further frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The table says that the return address is undefined: the outermost frame.
    Undefined,
    /// The return address is 0: the outermost frame by convention of the x86-64 psABI
    /// (section 3.4.1, frame pointer) and of the frame records of AAPCS64.
    NullReturnAddress,
    /// The frame pointer is 0: the outermost frame by the same conventions.
    NullFramePointer,
    /// The address is in no module.
    NoModule(CodeAddress),
    /// No table of the module covers the address.
    NoRow(CodeAddress),
    /// Memory that cannot be read.
    BadRead {
        /// The first byte wanted.
        address: u64,
    },
    /// The rule needs a register that is not known in this frame.
    UnknownRegister(u8),
    /// The stack pointer did not move towards the stack's bottom: a loop, or a wrong rule.
    NoProgress {
        /// Stack pointer of the frame.
        sp: u64,
        /// Canonical frame address that the rule gave.
        cfa: u64,
    },
    /// A frame pointer that cannot be one: misaligned or outside the user's addresses.
    BadFramePointer(u64),
    /// An expression of the table cannot be evaluated.
    Expression(ExpressionError),
    /// The table is broken here.
    Table(TableError),
    /// As many frames as were asked for.
    Limit,
}

impl End {
    /// Whether the walk says that there *is* no further frame, rather than that it cannot
    /// get there.
    pub const fn claims_complete(self) -> bool {
        matches!(self, End::Undefined | End::NullReturnAddress | End::NullFramePointer)
    }
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ExpressionError {
    /// Bytes that are no expression, or a stack underflow.
    #[error("malformed expression")]
    Malformed,
    /// More steps than any table needs.
    #[error("the expression does not end")]
    TooLong,
    /// An operation that needs what a stack does not have: thread-local storage, other
    /// entries, typed values.
    #[error("the expression needs more than registers and memory")]
    Unsupported,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            End::Undefined => f.write_str("outermost frame: the return address is undefined"),
            End::NullReturnAddress => f.write_str("outermost frame: the return address is 0"),
            End::NullFramePointer => f.write_str("outermost frame: the frame pointer is 0"),
            End::NoModule(at) => write!(f, "{at} is in no module"),
            End::NoRow(at) => write!(f, "no table covers {at}"),
            End::BadRead { address } => write!(f, "cannot read memory at {address:#x}"),
            End::UnknownRegister(number) => {
                write!(f, "the rule needs register {number}, whose value here is not known")
            }
            End::NoProgress { sp, cfa } => {
                write!(f, "no progress: the stack pointer is {sp:#x}, the CFA {cfa:#x}")
            }
            End::BadFramePointer(fp) => write!(f, "{fp:#x} cannot be a frame pointer"),
            End::Expression(error) => error.fmt(f),
            End::Table(error) => error.fmt(f),
            End::Limit => f.write_str("as many frames as asked for"),
        }
    }
}
