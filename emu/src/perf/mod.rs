//! Performance events: what is counted, when it overflows, what a sample holds.

pub mod record;
