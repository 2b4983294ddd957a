//! What a law is: its number, its words, and how binding it is in each design.

pub use crate::kernel::unwind::Mode;

/// How binding a law is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `G`: always. A break is a fault of the model, and fatal.
    General,
    /// `X`: unless a hazard that the design is known to have has happened. A break that no
    /// hazard explains is fatal.
    Except,
}

impl Level {
    /// The letter of the specification.
    pub const fn letter(self) -> char {
        match self {
            Level::General => 'G',
            Level::Except => 'X',
        }
    }
}

/// A law of section 8 of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// `LAW-1` is 1.
    pub number: u8,
    /// As an equation, or in a sentence.
    pub words: &'static str,
    /// Its level, by design; where a design is not named, the law says nothing about it.
    pub levels: &'static [(Mode, Level)],
}

impl Law {
    /// Its level in this design, if it says anything about it.
    pub fn level(&self, mode: Mode) -> Option<Level> {
        self.levels.iter().find(|(of, _)| *of == mode).map(|(_, level)| *level)
    }
}

/// `G` of whatever kernel.
pub const ALL_G: &[(Mode, Level)] = &[
    (Mode::Timestamp, Level::General),
    (Mode::Cookie, Level::General),
    (Mode::Mask, Level::General),
    (Mode::PerWork, Level::General),
    (Mode::NotBuilt, Level::General),
];

/// `X` of whatever design.
pub const ALL_X: &[(Mode, Level)] = &[
    (Mode::Timestamp, Level::Except),
    (Mode::Cookie, Level::Except),
    (Mode::Mask, Level::Except),
    (Mode::PerWork, Level::Except),
];

/// `G` of Linux 7.3.
pub const MASK_G: &[(Mode, Level)] = &[(Mode::Mask, Level::General)];

/// `X` of Linux 7.3.
pub const MASK_X: &[(Mode, Level)] = &[(Mode::Mask, Level::Except)];

/// `G` of the designs whose stacks are named by a count.
pub const COUNTED_G: &[(Mode, Level)] = &[
    (Mode::Cookie, Level::General),
    (Mode::Mask, Level::General),
    (Mode::PerWork, Level::General),
];

/// `G` of the designs that refuse an NMI's request.
pub const NO_NMI_G: &[(Mode, Level)] = &[
    (Mode::Timestamp, Level::General),
    (Mode::Cookie, Level::General),
    (Mode::PerWork, Level::General),
];

/// `G` of the designs with a mutex around their callbacks.
pub const MUTEX_G: &[(Mode, Level)] =
    &[(Mode::Timestamp, Level::General), (Mode::Cookie, Level::General)];

/// `G` of the clock's design.
pub const CLOCK_G: &[(Mode, Level)] = &[(Mode::Timestamp, Level::General)];
