//! Standard output, whose reader may go before the end.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

/// What the shell shows for a program that SIGPIPE ended.
const BROKEN_PIPE: i32 = 128 + 13;

/// Writes a line. Without a reader there is nobody to measure for: the program ends, and says
/// nothing about it. If the line cannot be written for another reason, it says so and ends.
pub fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(BROKEN_PIPE),
        Err(error) => {
            eprintln!("bench: cannot write to standard output: {error}; redirect it elsewhere");
            exit(1);
        }
    }
}
