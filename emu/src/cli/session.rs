//! `--session`: a second `perf record` beside the first, in the same words.

use std::path::PathBuf;
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::cli::machine::{Scope, session_of};
use crate::cli::options::{MachineOptions, RunOptions, SamplingOptions, is_stdout};
use crate::cli::output::{Destination, Failure, status};
use crate::cli::values::number;
use crate::kernel::State;
use crate::perf::event;
use crate::perf::reader::Settings;
use crate::perf::session::{MOST_BESIDE, SessionId, Span};

/// The words of a session.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
pub struct SessionOptions {
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// Where its profile goes.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// When it begins, in nanoseconds of virtual time.
    #[arg(long, value_name = "NS", value_parser = number, default_value = "0")]
    pub from: u64,
    /// When it ends.
    #[arg(long, value_name = "NS", value_parser = number)]
    pub until: Option<u64>,
}

/// Options that are the machine's, or of the main session alone.
const NOT_HERE: [(&str, &str); 8] = [
    ("sessions", "--session"),
    ("deferred", "--deferred"),
    ("clock", "--clock"),
    ("page_out", "--page-out"),
    ("tracers", "--tracer"),
    ("fail_cache_page", "--fail-cache-page"),
    ("pmu_irq", "--pmu-irq"),
    ("truth", "--truth"),
];

/// The words of `--session`, parted by spaces; quotes keep spaces together.
///
/// # Errors
///
/// In words, as for the main session.
pub fn session(text: &str) -> Result<Arc<SessionOptions>, String> {
    let words = split(text)?;
    let mut command = SessionOptions::command();
    let matches = command.try_get_matches_from_mut(words).map_err(|e| in_a_line(&e))?;
    for (id, name) in NOT_HERE {
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            return Err(format!("{name} is not of a session; give it to emu itself"));
        }
    }
    let options = SessionOptions::from_arg_matches(&matches).map_err(|e| in_a_line(&e))?;
    if options.until.is_some_and(|until| until <= options.from) {
        return Err("--until: use a time after that of --from".to_owned());
    }
    if options.output.as_ref().is_some_and(|file| is_stdout(file.as_os_str())) {
        return Err("-o: name a file; standard output is for the main session".to_owned());
    }
    Ok(Arc::new(options))
}

/// What clap says, without its hints.
fn in_a_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    message.strip_prefix("error: ").unwrap_or(&message).to_owned()
}

fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut inside, mut quote) = (false, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                if !std::mem::replace(&mut inside, true) {
                    words.push(String::new());
                }
            }
            (None, c) if c.is_whitespace() => inside = false,
            (_, c) => {
                if !std::mem::replace(&mut inside, true) {
                    words.push(String::new());
                }
                words.last_mut().into_iter().for_each(|word| word.push(c));
            }
        }
    }
    match quote {
        Some(quote) => Err(format!("a {quote} without its other half")),
        None => Ok(words),
    }
}

impl SessionOptions {
    /// Where its profile goes. `id` is 1 for the first session beside the main one, which people
    /// call session 2.
    pub fn destination(&self, id: SessionId) -> Destination {
        let default = || PathBuf::from(format!("perf.{}.data", id.0 + 1));
        Destination::File(self.output.clone().unwrap_or_else(default))
    }
}

/// Sets up the sessions beside the main one, before their probes are placed.
///
/// # Errors
///
/// [`Failure`] if their events cannot be had.
pub fn add(state: &mut State, options: &RunOptions) -> Result<(), Failure> {
    for (n, words) in options.sampling.sessions.iter().enumerate() {
        let fail = |why: String| {
            Failure::new(status::FAILURE, format!("--session (session {}): {why}", n + 2))
        };
        add_one(state, words, &options.machine).map_err(fail)?;
    }
    Ok(())
}

fn add_one(
    state: &mut State,
    words: &SessionOptions,
    machine: &MachineOptions,
) -> Result<(), String> {
    let sampling = &words.sampling;
    sampling.check_limits(machine)?;
    let events = sampling.events(machine).map_err(|e| format!("-e: {e}"))?;
    event::check(&events, state.arch).map_err(|e| format!("-e: {e}"))?;
    let scope: Scope = sampling.scope(machine.cpus)?;
    let cmdline = state.perf.main.session.cmdline.clone();
    let session = session_of(state.arch, machine.cpus, events, scope, cmdline);
    let span = Span { from: words.from, until: words.until };
    let profile = state.perf.add(session, span);
    let profile = profile.ok_or_else(|| format!("there can be {MOST_BESIDE} at most"))?;
    if let Some(rate) = sampling.reader_rate {
        profile.read_slowly(Settings { rate, pages: sampling.mmap_pages });
    }
    if sampling.uses_sframe() {
        state.use_sframe();
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_main_session() {
        let words = "-a -e 'cycles:u' -c 10k --call-graph fp,defer -o 'a b' --from 1k --until 2M";
        let options = session(words).unwrap();
        assert_eq!(options.sampling.events, ["cycles:u"]);
        assert_eq!((options.sampling.count, options.sampling.all_cpus), (Some(10_000), true));
        assert_eq!(options.output, Some(PathBuf::from("a b")));
        assert_eq!((options.from, options.until), (1_000, Some(2_000_000)));
        let none = session("").unwrap();
        assert_eq!((none.from, none.until, none.output.clone()), (0, None, None));
    }

    #[test]
    fn what_is_refused() {
        for (text, told) in [
            ("-c", "a value is required"),
            ("-c 5 -F 9", "cannot be used with"),
            ("--call-graph dwarf,defer", "--call-graph"),
            ("--deferred mask", "--deferred is not of a session"),
            ("--fail-cache-page all", "--fail-cache-page is not of a session"),
            ("--tracer bpf", "--tracer is not of a session"),
            ("--pmu-irq irq", "--pmu-irq is not of a session"),
            ("--session x", "--session"),
            ("--cpus 2", "unexpected argument '--cpus'"),
            ("demo", "unexpected argument 'demo'"),
            ("-o -", "name a file"),
            ("--from 5 --until 5", "after that of --from"),
            ("-e 'cycles", "without its other half"),
        ] {
            let error = session(text).unwrap_err();
            assert!(error.contains(told) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
