//! Expected texts kept in files.
