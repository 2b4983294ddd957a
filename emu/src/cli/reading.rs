//! From words to the command line, and options behind the name of a guest.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::cli::options::Cli;

impl Cli {
    /// Reads the command line. Options may also follow the name of a catalogue guest, none of
    /// which has options of its own: `emu run NAME -c 1000` is `emu run -c 1000 NAME`. Behind
    /// `--` everything is the guest's.
    ///
    /// # Errors
    ///
    /// clap's, for words that make no sense.
    pub fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
        Ok(Cli::read_with_matches(words)?.0)
    }

    /// [`Cli::read`], and where each option of the subcommand comes from.
    ///
    /// # Errors
    ///
    /// clap's, for words that make no sense.
    pub fn read_with_matches(words: &[OsString]) -> Result<(Cli, ArgMatches), clap::Error> {
        let (mut cli, matches) = parse(words)?;
        let Some(command) = cli.command.guest() else { return Ok((cli, matches)) };
        let Some((name, rest)) = command.split_first() else { return Ok((cli, matches)) };
        let front = words.len() - command.len();
        let separated = words[..front].last().is_some_and(|w| w == "--");
        let options_follow =
            rest.first().is_some_and(|w| w.as_bytes().starts_with(b"-") && w != "--");
        if separated || !options_follow || !is_in_catalogue(name) {
            return Ok((cli, matches));
        }
        let name = name.clone();
        let (mut again, matches) = parse(words[..front].iter().chain(rest))?;
        if let Some(command) = again.command.guest() {
            command.insert(0, name);
        }
        Ok((again, matches))
    }
}

/// The command line, and the matches of its subcommand.
fn parse<'w>(
    words: impl IntoIterator<Item = &'w OsString>,
) -> Result<(Cli, ArgMatches), clap::Error> {
    let mut command = Cli::command();
    let mut matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
    let of_subcommand = matches.remove_subcommand().map(|(_, matches)| matches);
    Ok((cli, of_subcommand.unwrap_or_default()))
}

fn is_in_catalogue(name: &OsStr) -> bool {
    let catalogue = guests::Catalogue::load(&guests::default_dir());
    catalogue.is_ok_and(|c| c.find(&name.to_string_lossy()).is_some())
}
