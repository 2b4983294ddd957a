//! `emu test`: recordings as regression tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args};

use crate::cli::machine::{Stop, failure_of};
use crate::cli::options::{OutputOptions, RunOptions, WorldOptions};
use crate::cli::outcome::{self, Fact};
use crate::cli::output::{Failure, Style, one_line, status, to_stdout, without_numbers};
use crate::cli::record::{expected, write};
use crate::cli::replay::{read, words_failed, world};
use crate::cli::run::{self, Ran};
use crate::cli::timeline::TimelineOptions;
use crate::cli::words;
use crate::export::{ExportError, Format};
use crate::grade::Watch;
use crate::kernel::Kernel;
use crate::kernel::task::Ending;
use crate::recording::Recording;
use crate::recording::profile::ProfileDigest;

/// `emu test`
#[derive(Debug, Args)]
#[command(after_help = "\
Every NAME.emu in DIR is replayed with its own options, and with --truth. NAME.expected beside
it says what has to come of it, a line for each fact: end, instructions, output, samples of
each event, digest of the profile, verdicts of each unwinder. Nothing else is read or written.

One line a recording, `ok` or what is not as expected. Exit status: 0 if all are ok, else 1;
125 if there is nothing to test.

Examples:
  emu record -o tests/bug.emu -e cycles -c 10007 -- ./prog  a new test
  emu test --bless tests                                    its expectations
  emu test tests")]
pub struct TestOptions {
    /// Directory of recordings
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Write what is found to NAME.expected
    #[arg(long)]
    pub bless: bool,
}

/// Status if something is not as expected.
const CHANGED: u8 = 1;

/// Runs the recordings of a directory; returns the exit status.
///
/// # Errors
///
/// [`Failure`] if there are none, or expectations cannot be written.
pub fn run(options: &TestOptions) -> Result<u8, Failure> {
    let dir = options.dir.display();
    let failed = |why: String| Failure::new(status::FAILURE, format!("{dir}: {why}"));
    let names = names(&options.dir).map_err(|e| failed(e.to_string()))?;
    if names.is_empty() {
        return Err(failed("there is no recording; make one with `emu record -o NAME.emu`".into()));
    }
    let stop = Stop::on_signals()?;
    let style = Style::of_stdout();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or_default();
    let mut changed = 0;
    for name in &names {
        let said = match test(&options.dir, name, options.bless, &stop)? {
            Outcome::Ok => "ok".to_owned(),
            Outcome::Blessed => style.bold("blessed"),
            Outcome::Interrupted => return Ok(status::SIGNAL + 2),
            Outcome::Changed(lines) => {
                changed += 1;
                let head = style.red("changed");
                let lines = lines.iter().map(|line| without_numbers(&one_line(line)));
                lines.fold(head, |text, line| format!("{text}\n    {line}"))
            }
        };
        to_stdout(&format!("{name:width$}  {said}\n"))?;
    }
    let s = if names.len() == 1 { "" } else { "s" };
    to_stdout(&format!("{} recording{s}, {changed} changed\n", names.len()))?;
    Ok(if changed == 0 { 0 } else { CHANGED })
}

enum Outcome {
    Ok,
    Blessed,
    Changed(Vec<String>),
    /// By Ctrl-C.
    Interrupted,
}

/// Names of what is to be tested: recordings, and expectations without one.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut recordings = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|e| e.to_str());
        if let (Some("emu" | "expected"), Some(stem)) = (extension, path.file_stem()) {
            recordings += usize::from(extension == Some("emu"));
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    names.dedup();
    if recordings == 0 {
        names.clear();
    }
    Ok(names)
}

fn test(dir: &Path, name: &str, bless: bool, stop: &Stop) -> Result<Outcome, Failure> {
    let changed = |why: String| Ok(Outcome::Changed(vec![why]));
    let file = dir.join(format!("{name}.emu"));
    let beside = dir.join(format!("{name}.expected"));
    let found = match read(&file).and_then(|(recording, _)| replay(&recording, stop)) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Outcome::Interrupted),
        Err(why) => return changed(format!("{}: {why}", file.display())),
    };
    let comment = format!("What `emu test` expects of {name}.emu; `emu test --bless` writes it.");
    let text = outcome::render(&comment, &found);
    let expected = match fs::read_to_string(&beside) {
        Ok(expected) => expected,
        Err(_) if bless => String::new(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let why = "there is no such file; `emu test --bless` writes it";
            return changed(format!("{}: {why}", beside.display()));
        }
        Err(e) => return changed(format!("{}: cannot read it: {e}", beside.display())),
    };
    if bless {
        if expected == text {
            return Ok(Outcome::Ok);
        }
        write(&beside, text.as_bytes()).map_err(|e| {
            let message = format!("{}: cannot write it: {e}", beside.display());
            Failure::new(status::FAILURE, message)
        })?;
        return Ok(Outcome::Blessed);
    }
    let expected = match outcome::read(&expected) {
        Ok(expected) => expected,
        Err(line) => {
            let why = "is no fact, which has the form `name: value`";
            return changed(format!("{}: line {line} {why}", beside.display()));
        }
    };
    let lines = outcome::differences(&expected, &found);
    Ok(if lines.is_empty() { Outcome::Ok } else { Outcome::Changed(lines) })
}

/// Replays a recording with nothing to see; `None` if the user interrupts it.
fn replay(recording: &std::sync::Arc<Recording>, stop: &Stop) -> Result<Option<Vec<Fact>>, String> {
    let manifest = &recording.manifest;
    let (mut kept, _) =
        words::merged(&manifest.options, &ArgMatches::default()).map_err(|e| words_failed(&e))?;
    // A run that has got out of hand ends.
    let most = manifest.expected.instructions.saturating_mul(2).saturating_add(1_000_000);
    let limit = kept.machine.max_instructions.unwrap_or(u64::MAX);
    kept.machine.max_instructions = Some(limit.min(most));
    kept.machine.strace = false;
    let options = RunOptions {
        sampling: kept.sampling,
        output: OutputOptions { output: None, format: Format::PerfData, quiet: true },
        timeline: TimelineOptions::none(),
        world: WorldOptions { root: None, env: Vec::new() },
        machine: kept.machine,
        help: None,
        laws: false,
        command: Vec::new(),
    };
    let (world, replayer) = world(recording, None);
    let words = |f: Failure| f.message.unwrap_or_default();
    let cmdline: Vec<_> = manifest.cmdline.iter().map(|w| w.word().to_owned()).collect();
    let mut state = run::prepare(&options, &world, &cmdline).map_err(words)?;
    let images = world.images(&state);
    let watch = Watch::start(&mut state, images, None).map_err(|e| e.to_string())?;
    let sessions = state.perf.profiles().map(|(_, profile)| ProfileDigest::new(&profile.session));
    let mut digests: Vec<ProfileDigest> =
        sessions.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let kernel = Kernel::new(state);
    let ending = crate::kernel::run::run(&kernel, &stop.flag, |session, records| {
        let digest = digests.get_mut(session.0);
        digest.map_or(Ok(()), |digest| records.iter().try_for_each(|record| digest.record(record)))
    });
    let ending =
        ending.map_err(|e: crate::kernel::run::RunError<ExportError>| words(failure_of(e)))?;
    if ending == Ending::Interrupted {
        return Ok(None);
    }
    let digests = digests.into_iter().map(|digest| digest.finish().map(Some));
    let mut digests: Vec<Option<String>> =
        digests.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let main = digests.remove(0);
    let ran = kernel.with(|state| Ran::of(state, ending, stop, main, digests));
    let mut facts = outcome::facts(&expected(&ran, replayer.output()));
    facts.extend(watch.with_tallies(|tallies| outcome::verdicts(tallies, watch.undecided())));
    let missing = replayer.missing();
    if !missing.is_empty() {
        facts.push(("not in the recording".to_owned(), missing.join(", ")));
    }
    Ok(Some(facts))
}
