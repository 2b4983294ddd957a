//! The program: options, subcommands, and what people see.
//!
//! ```text
//! main ─► options ─┬─► run ─► world (guest, files) ─► kernel ─► records ─┬─► export
//!                  │           ▲ Ctrl-C                                  └─► tally
//!                  │           └─► death, summary, unsupported (stderr) ◄────┘
//!                  └─► guests (stdout)
//! ```
//!
//! One file a subcommand ([`run`], [`guests`]); [`options`] holds the command line,
//! [`output`] the way errors and the profile go out, [`world`] finds the guest.
//! [`death`], [`summary`], [`tally`] and [`place`] make the reports on standard error.
//! Only what was asked for goes to standard output.

pub mod death;
pub mod guests;
pub mod options;
pub mod output;
pub mod place;
pub mod run;
pub mod summary;
pub mod tally;
pub mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use options::{Cli, Command};
use output::{Failure, complain, status};

/// The program `emu`.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match execute(&words) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            if let Some(message) = &failure.message {
                complain(message);
            }
            ExitCode::from(failure.status)
        }
    }
}

fn execute(words: &[OsString]) -> Result<u8, Failure> {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, words),
    };
    match &cli.command {
        Command::Run(options) => run::run(options, words),
        Command::Guests(options) => guests::run(options),
    }
}

/// Prints the help that was asked for, or says what was wrong.
fn not_parsed(error: &clap::Error, words: &[OsString]) -> Result<u8, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone has seen enough.
            let _ = error.print();
            Ok(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Err(Failure { status: status::FAILURE, message: None })
        }
        _ => Err(Failure::new(status::FAILURE, usage_error(error, words))),
    }
}

/// clap's message on one line, with its tips.
fn usage_error(error: &clap::Error, words: &[OsString]) -> String {
    let text = error.render().to_string();
    let mut parts: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(message) = paragraph.strip_prefix("error: ") {
            parts.push(message.to_owned());
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            parts.push(tip.to_owned());
        }
    }
    let subcommand = words.get(1).and_then(|w| w.to_str()).filter(|w| ["run", "guests"].contains(w));
    let command = subcommand.map(|w| format!("emu {w}")).unwrap_or_else(|| "emu".to_owned());
    format!("{}; see `{command} --help`", parts.join("; "))
}
