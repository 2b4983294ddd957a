//! What a machine of its own tells.
