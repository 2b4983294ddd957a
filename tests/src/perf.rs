//! The installed `perf`.
