//! The oracle that fuzzing drives: what must hold for any bytes at all.

use crate::scenario::file;
use crate::scenario::machine::Workshop;
use crate::scenario::play::{MOST_STEPS, play};

/// Reads `bytes` as a scenario, and plays it under each of its designs if it is one.
///
/// # Panics
///
/// When a promise is broken: an error of more than one line, a run without an end.
pub fn fuzz_scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let scenario = match file::read(text) {
        Ok(scenario) => scenario,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(['\n', '\r']), "not one line: {line:?}");
            return;
        }
    };
    for design in &scenario.designs {
        let mut workshop = Workshop::new(scenario.setup.under(design));
        if let Ok(played) = play(&mut workshop, &scenario.injections, |_| ()) {
            assert!(played.steps <= 2 * MOST_STEPS, "{} steps", played.steps);
        }
    }
}
