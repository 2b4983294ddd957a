//! The scenarios that come along, each a file of `emu/scenarios`.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        /// Their names and texts, by name.
        pub const ALL: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*];
    };
}

scenarios! {
    "allocation-fails",
    "bit-of-the-cancelled",
    "cancel-in-callback",
    "cancel-in-request",
    "cancel-in-traversal",
    "cancelled-asks",
    "coarse-clock",
    "everybody-is-called",
    "late-sample",
    "nmi-in-reset",
    "nmi-in-tail",
    "one-entry-many-samples",
    "standard",
}

/// The one that the designs are compared in: two tasks on two CPUs, two tracers, a cancelling, two
/// ends, and whatever a search adds.
pub const STANDARD: &str = "standard";

/// The text of one.
pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
