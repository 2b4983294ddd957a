//! Callchains by name.
