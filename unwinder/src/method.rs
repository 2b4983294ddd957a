//! Ways to get from a frame to its caller.

use std::fmt;

/// A way to unwind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The frame record, with the checks of a careful profiler ([`crate::fp::plain`]).
    FramePointer,
    /// The frame record as Linux 7.3 reads it ([`crate::fp::unwind_user`]). There it is
    /// x86_64's alone; aarch64 gets the same rules here, and signatures stripped.
    UnwindUser,
    /// `.eh_frame`, and where it is silent `.debug_frame` ([`crate::dwarf`]).
    Dwarf,
    /// `.sframe` ([`crate::sframe`]).
    Sframe,
    /// The code at the address calls `rt_sigreturn` ([`crate::signal`]).
    SignalCode,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 5] = [
        Method::FramePointer,
        Method::UnwindUser,
        Method::Dwarf,
        Method::Sframe,
        Method::SignalCode,
    ];

    /// A short name, for tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Method::FramePointer => "fp",
            Method::UnwindUser => "unwind-user",
            Method::Dwarf => "dwarf",
            Method::Sframe => "sframe",
            Method::SignalCode => "signal-code",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
