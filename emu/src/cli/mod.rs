//! The program: options, subcommands, and what people see.
//!
//! ```text
//! main ─► options ─┬─► run ─► world (guest, files) ─► kernel ─► records ─┬─► export
//!                  │           ▲ Ctrl-C                                  └─► tally
//!                  │           └─► death, summary, unsupported (stderr) ◄────┘
//!                  ├─► record, replay, test: a run with another host ─► recording
//!                  ├─► show ─► columns (stdout)
//!                  ├─► explain (stdout, or a picture)
//!                  ├─► merge (a profile)
//!                  ├─► points (stdout)
//!                  ├─► scenario ─► play, search (stdout)
//!                  └─► guests (stdout)
//! ```
//!
//! One file a subcommand ([`run`], [`record`], [`replay`], [`mod@test`], [`check`], [`show`],
//! [`explain`], [`merge`], [`guests`], [`points`], [`scenario`]); [`options`] holds the command line, which
//! [`reading`] reads, [`output`] the way errors and the profile go out, [`files`] opens what people
//! name, [`outputs`] keeps what is written apart, [`notes`] tells which options change nothing,
//! [`world`] finds the guest, [`words`] keeps options in a recording, [`outcome`] compares what
//! came of one, [`extract`] writes its files. [`session`] has the words of a second session,
//! [`beside`] its profile. [`death`], [`summary`], [`tally`] and [`place`] make the reports on
//! standard error, [`timeline`] is the run's story, [`laws`] watches over it, [`columns`] lays out
//! code beside unwind rows. Only what was asked for goes to standard output.

pub mod beside;
pub mod check;
pub mod check_table;
pub mod columns;
mod cpu_list;
pub mod death;
mod deferring;
pub mod explain;
pub mod extract;
pub mod files;
pub mod grades;
pub mod guests;
pub mod laws;
pub mod machine;
pub mod merge;
pub mod notes;
pub mod options;
pub mod outcome;
pub mod output;
pub mod outputs;
pub mod place;
pub mod points;
mod probes;
pub mod reading;
pub mod record;
pub mod replay;
pub mod run;
pub mod scenario;
mod scenario_table;
pub mod session;
pub mod show;
pub mod summary;
pub mod tally;
pub mod test;
pub mod timeline;
mod values;
pub mod words;
pub mod world;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use options::{Cli, Command};
use output::{Failure, check_stdout, complain, status, written};

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
    let (cli, matches) = match Cli::read_with_matches(words) {
        Ok(read) => read,
        Err(error) => return not_parsed(&error, words),
    };
    match cli.command {
        Command::Run(options) => run::run(&options, words),
        Command::Record(options) => record::run(*options, &matches, words),
        Command::Replay(options) => replay::run(*options, &matches, words),
        Command::Test(options) => test::run(&options),
        Command::Check(options) => check::run(&options, words),
        Command::Show(options) => show::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Merge(options) => merge::run(&options),
        Command::Guests(options) => guests::run(&options),
        Command::Points(options) => points::run(&options),
        Command::Scenario(options) => scenario::run(&options),
    }
}

/// Prints the help that was asked for, or says what was wrong.
fn not_parsed(error: &clap::Error, words: &[OsString]) -> Result<u8, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            check_stdout()?;
            written(error.print().and_then(|()| io::stdout().flush()))?;
            Ok(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Err(Failure { status: status::FAILURE, message: None })
        }
        _ => Err(Failure::new(status::FAILURE, usage_error(error, words))),
    }
}

/// clap's message on one line, with its first tip.
fn usage_error(error: &clap::Error, words: &[OsString]) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let tip = text.lines().find_map(|l| l.trim_start().strip_prefix("tip: "));
    match (other_command(error, words), tip) {
        (Some(other), _) => line.push_str(&format!("; it is an option of `emu {other}`")),
        (None, Some(tip)) => line.push_str(&format!("; {tip}")),
        (None, None) => {}
    }
    let subcommand = words.get(1).and_then(|w| w.to_str());
    let of =
        match subcommand.filter(|w| Cli::command().get_subcommands().any(|c| c.get_name() == *w)) {
            Some(word) => format!(" {word}"),
            None => String::new(),
        };
    format!("{line}; see `emu{of} --help`")
}

/// A subcommand that has the option which this one has not.
fn other_command(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_it = |arg: &clap::Arg| match wrong.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long.split('=').next().unwrap_or_default()),
        None => arg
            .get_short()
            .is_some_and(|short| wrong.strip_prefix('-') == Some(&*short.to_string())),
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let cli = Cli::command();
    let mut others =
        cli.get_subcommands().filter(|c| words.get(1).is_none_or(|w| w != c.get_name()));
    others.find(|c| c.get_arguments().any(is_it)).map(|c| c.get_name().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn message(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let failure = execute(&words).unwrap_err();
        assert_eq!(failure.status, status::FAILURE);
        failure.message.unwrap()
    }

    #[test]
    fn wrong_words_get_one_line() {
        assert_eq!(
            message(&["emu", "run", "--stric", "demo"]),
            "unexpected argument '--stric' found; a similar argument exists: '--strict'; \
             see `emu run --help`"
        );
        assert_eq!(
            message(&["emu", "check", "-F", "99", "demo"]),
            "unexpected argument '-F' found; it is an option of `emu run`; see `emu check --help`"
        );
        assert_eq!(
            message(&["emu", "run", "--baseline", "x", "demo"]),
            "unexpected argument '--baseline' found; it is an option of `emu check`; \
             see `emu run --help`"
        );
        let format = message(&["emu", "check", "--format", "xml"]);
        assert!(format.contains("possible values: table, json, html"), "{format}");
        assert_eq!(
            message(&["emu", "gusets"]),
            "unrecognized subcommand 'gusets'; a similar subcommand exists: 'guests'; \
             see `emu --help`"
        );
        assert_eq!(
            message(&["emu", "run", "-c", "5", "-F", "5"]),
            "the argument '--count <N>' cannot be used with '--freq <N>'; see `emu run --help`"
        );
    }
}
