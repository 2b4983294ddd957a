//! Options of sampling and machine as words: kept in a recording, changed by a replay.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::cli::options::{MachineOptions, SamplingOptions};
use crate::recording::manifest::Word;
use crate::recording::text::Text;

/// The options that a recording keeps.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, name = "options")]
pub struct Kept {
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// See [`MachineOptions`].
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// Options that change what is told of a run, not the run or its profile.
const TELLING: [&str; 3] = ["truth", "merge", "strace"];

/// An option that a replay has otherwise than the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// With its dashes.
    pub option: String,
    /// Its values now; none of an option that is only there.
    pub now: Vec<String>,
    /// Its values in the recording; `None` if it was not there.
    pub recorded: Option<Vec<String>>,
    /// Options of the recording that it excludes.
    pub excluded: Vec<String>,
}

/// Why the options of a recording cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordsError {
    /// There is no such option.
    #[error(
        "it was recorded with the option {0}, which this emu has not; use the emu that recorded it"
    )]
    Unknown(String),
    /// They make no sense, alone or together.
    #[error("{0}")]
    Wrong(String),
}

/// The options of `matches` that a recording keeps, defaults included.
pub fn of_matches(matches: &ArgMatches) -> Vec<Word> {
    let command = Kept::command();
    command.get_arguments().flat_map(|arg| words_of(arg, matches)).collect()
}

/// The options of a recording, changed as `matches`, the command line of a replay, says. Names of
/// files are those of the replay alone: a recording may come from anywhere.
///
/// # Errors
///
/// [`WordsError`] if the recording's are unknown or make no sense.
pub fn merged(
    recorded: &[Word],
    matches: &ArgMatches,
) -> Result<(Kept, Vec<Override>), WordsError> {
    let mut command = Kept::command();
    command.build();
    let mut kept: Vec<(&Arg, &Word)> = Vec::new();
    for word in recorded {
        let known = command.get_arguments().find(|arg| name(arg) == word.option);
        let arg = known.ok_or_else(|| WordsError::Unknown(word.option.clone()))?;
        kept.push((arg, word));
    }
    let mut words = Vec::new();
    let mut overrides = Vec::new();
    for arg in command.get_arguments() {
        if matches.value_source(arg.get_id().as_str()) != Some(ValueSource::CommandLine) {
            continue;
        }
        let given = words_of(arg, matches);
        let excludes = |other: &Arg| {
            let one_way = |a: &Arg, b: &Arg| {
                command.get_arg_conflicts_with(a).iter().any(|c| c.get_id() == b.get_id())
            };
            one_way(arg, other) || one_way(other, arg)
        };
        let same: Vec<&Word> =
            kept.iter().filter(|(a, _)| a.get_id() == arg.get_id()).map(|(_, w)| *w).collect();
        let excluded: Vec<String> =
            kept.iter().filter(|(a, _)| excludes(a)).map(|(_, w)| shown(w)).collect();
        let telling = TELLING.contains(&arg.get_id().as_str());
        if !telling && !same.iter().copied().eq(&given) {
            overrides.push(Override {
                option: name(arg),
                now: given.iter().filter_map(value).collect(),
                recorded: (!same.is_empty())
                    .then(|| same.iter().copied().filter_map(value).collect()),
                excluded,
            });
        }
        kept.retain(|(a, _)| a.get_id() != arg.get_id() && !excludes(a));
        words.extend(given);
    }
    words.extend(kept.into_iter().map(|(_, word)| word.clone()));
    let given = matches.value_source("sessions") == Some(ValueSource::CommandLine);
    let words = words.iter().map(typed);
    let matches = command.try_get_matches_from_mut(words).map_err(wrong)?;
    let mut kept = Kept::from_arg_matches(&matches).map_err(wrong)?;
    if !given {
        kept.sampling.sessions.iter_mut().for_each(|s| Arc::make_mut(s).output = None);
    }
    Ok((kept, overrides))
}

fn wrong(error: clap::Error) -> WordsError {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    WordsError::Wrong(message.strip_prefix("error: ").unwrap_or(&message).to_owned())
}

/// An option with its dashes.
fn name(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().to_string(),
    }
}

/// A word for each value of an option.
fn words_of(arg: &Arg, matches: &ArgMatches) -> Vec<Word> {
    let id = arg.get_id().as_str();
    let option = name(arg);
    if !arg.get_action().takes_values() {
        let there = matches.try_get_one::<bool>(id).ok().flatten() == Some(&true);
        return there.then_some(Word { option, value: None }).into_iter().collect();
    }
    let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
    values.map(|v| Word { option: option.clone(), value: Some(Text::of(v)) }).collect()
}

fn value(word: &Word) -> Option<String> {
    word.value.as_ref().map(|v| v.word().to_string_lossy().into_owned())
}

/// As it is typed: `--count=1000`.
fn typed(word: &Word) -> OsString {
    let mut bytes = word.option.clone().into_bytes();
    if let Some(value) = &word.value {
        bytes.push(b'=');
        bytes.extend(&value.0);
    }
    OsString::from_vec(bytes)
}

/// As people read it: `--count 1000`.
pub fn shown(word: &Word) -> String {
    match value(word) {
        Some(value) => format!("{} {value}", word.option),
        None => word.option.clone(),
    }
}

impl std::fmt::Display for Override {
    /// `--count 1000 (recorded: 5000)`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.option)?;
        if !self.now.is_empty() {
            write!(f, " {}", self.now.join(","))?;
        }
        match &self.recorded {
            _ if !self.excluded.is_empty() => {
                write!(f, " (recorded: {})", self.excluded.join(", "))
            }
            Some(values) => write!(f, " (recorded: {})", values.join(",")),
            None => f.write_str(" (not recorded)"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::cli::options::Cli;

    fn matches(words: &[&str]) -> ArgMatches {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Cli::read_with_matches(&words).unwrap().1
    }

    fn recorded(words: &[&str]) -> Vec<Word> {
        let front = ["emu", "record", "-o", "x"];
        of_matches(&matches(&front.iter().chain(words).copied().collect::<Vec<_>>()))
    }

    fn replayed(recorded: &[Word], words: &[&str]) -> Result<(Kept, Vec<String>), WordsError> {
        let front = ["emu", "replay", "x"];
        let matches = matches(&front.iter().chain(words).copied().collect::<Vec<_>>());
        let (kept, overrides) = merged(recorded, &matches)?;
        Ok((kept, overrides.iter().map(Override::to_string).collect()))
    }

    #[test]
    fn options_come_back() {
        let words =
            recorded(&["-e", "cycles:u", "-e", "branches", "-c5k", "-g", "--strict", "demo"]);
        let list: Vec<String> = words.iter().map(shown).collect();
        assert_eq!(list[..4], ["--event cycles:u", "--event branches", "--count 5k", "-g"]);
        assert!(list.contains(&"--seed 1".to_owned()) && list.contains(&"--strict".to_owned()));
        assert!(!list.iter().any(|w| w.starts_with("--output")));
        let (kept, overrides) = replayed(&words, &[]).unwrap();
        assert_eq!(overrides, [""; 0]);
        assert_eq!((kept.sampling.events.len(), kept.sampling.count), (2, Some(5000)));
        assert!(kept.machine.strict && kept.sampling.callchain);
        // Also those behind the name of a guest.
        assert_eq!(recorded(&["demo", "-c5k"]), recorded(&["-c5k", "demo"]));
    }

    #[test]
    fn what_is_given_counts() {
        let words = recorded(&["-e", "cycles:u", "-e", "branches", "-c", "5", "-g"]);
        let (kept, overrides) = replayed(&words, &["-F", "9", "-e", "instructions"]).unwrap();
        assert_eq!((kept.sampling.count, kept.sampling.freq), (None, Some(9)));
        assert_eq!(kept.sampling.events, ["instructions"]);
        let wanted = [
            "--event instructions (recorded: cycles:u,branches)",
            "--freq 9 (recorded: --count 5)",
        ];
        assert_eq!(overrides, wanted);
        // Both ways round.
        let (kept, overrides) = replayed(&words, &["--no-call-graph"]).unwrap();
        assert!(!kept.sampling.callchain && kept.sampling.no_call_graph);
        assert_eq!(overrides, ["--no-call-graph (recorded: -g)"]);
        // What is only told, and what is the same.
        let (kept, overrides) = replayed(&words, &["--truth", "--strace", "-c", "5"]).unwrap();
        assert!(kept.sampling.truth && kept.machine.strace);
        assert_eq!(overrides, [""; 0]);
    }

    /// A recorded session's profile goes where the replay says, not where the recording does.
    #[test]
    fn recorded_files_are_not_written() {
        let words = recorded(&["--session", "-a -o somewhere/x -c 9"]);
        let (kept, overrides) = replayed(&words, &[]).unwrap();
        let session = &kept.sampling.sessions[0];
        assert_eq!((&session.output, session.sampling.count), (&None, Some(9)));
        assert_eq!(overrides, [""; 0]);
        let (kept, _) = replayed(&words, &["--session", "-o here"]).unwrap();
        assert_eq!(kept.sampling.sessions[0].output, Some("here".into()));
    }

    #[test]
    fn options_that_are_none_are_refused() {
        let word = |option: &str, value: &str| Word {
            option: option.to_owned(),
            value: Some(Text(value.into())),
        };
        for unknown in ["--output", "--root", "-o", "--cpus-of-tomorrow", ""] {
            let error = replayed(&[word(unknown, "x")], &[]).unwrap_err();
            assert_eq!(error, WordsError::Unknown(unknown.to_owned()));
        }
        let error = replayed(&[word("--count", "none")], &[]).unwrap_err().to_string();
        assert!(error.contains("invalid value 'none'") && !error.contains('\n'), "{error}");
        let error = replayed(&[word("--count", "1"), word("--freq", "1")], &[]).unwrap_err();
        assert!(error.to_string().contains("cannot be used with"), "{error}");
    }
}
