//! `emu run --laws`: breaks go to standard error, a fatal one ends the run.

use crate::cli::machine::Stop;
use crate::cli::output::{Failure, Style, status, to_stderr};
use crate::cli::place::Names;
use crate::export::Images;
use crate::kernel::State;
use crate::laws::{Handle, Settings};
use crate::symbols::LookupAddress;

/// Lines of the timeline before a break.
const LINES: usize = 20;

/// Begins to watch.
pub fn start(state: &mut State, images: &mut Images, stop: &Stop) -> Handle {
    let names = Names::new(state, images);
    let name = move |pc| {
        let place = names.place(LookupAddress::Instruction(pc));
        place.short(Style::PLAIN)
    };
    let settings = Settings {
        lines: LINES,
        names: Box::new(name),
        stop: stop.flag.clone(),
        tell: Box::new(to_stderr),
    };
    Handle::start(state, settings)
}

/// Our failure to keep a law.
pub fn failure(law: &str) -> Failure {
    let message = format!("{law}; the modelled kernel is wrong, please report it");
    Failure::new(status::FAILURE, message)
}
