//! The oracle that fuzzing drives: what must hold for any bytes at all.

use super::{ReadError, Recording};

/// Reads `bytes` as a recording, and as the body of one, which no digest protects.
///
/// # Panics
///
/// When a promise of the reader is broken: an error of more than one line, a recording that
/// does not come back as it was.
pub fn fuzz_recording(bytes: &[u8]) {
    for read in [Recording::open(bytes), Recording::of_body(bytes)] {
        match read {
            Ok(recording) => comes_back(&recording),
            Err(error) => one_line(&error),
        }
    }
}

fn comes_back(recording: &Recording) {
    // Escapes may make a manifest longer than what it was read from.
    let Ok(bytes) = recording.seal() else { return };
    let again = Recording::open(&bytes);
    assert_eq!(again.as_ref(), Ok(recording));
}

fn one_line(error: &ReadError) {
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "not one line: {line:?}");
}
