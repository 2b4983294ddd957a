//! `emu replay`: a recorded run, once more.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use clap::{ArgAction, ArgMatches, Args};

use crate::cli::extract;
use crate::cli::files;
use crate::cli::machine::Stop;
use crate::cli::options::{
    MachineOptions, OutputOptions, RunOptions, SamplingOptions, WorldOptions,
};
use crate::cli::outcome;
use crate::cli::output::{Destination, Failure, complain, one_line, status, to_stdout};
use crate::cli::outputs::Outputs;
use crate::cli::record::expected;
use crate::cli::run::{self, Job, Ran};
use crate::cli::summary::bytes;
use crate::cli::timeline::TimelineOptions;
use crate::cli::words::{self, Override, WordsError};
use crate::cli::world::World;
use crate::kernel::exec::Program;
use crate::kernel::task::Ending;
use crate::kernel::vfs::RealHost;
use crate::numbers::grouped;
use crate::recording::file::MAX_FILE;
use crate::recording::manifest::{Entry, Expected, Manifest};
use crate::recording::text::Text;
use crate::recording::{Recording, Replayer, VERSION};

/// `emu replay`
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Without options that change the run, everything is as it was: what the guest writes, how it
ends, and the profile, byte for byte; a line on standard error says so. With them it is the
same guest in the same world, run or sampled otherwise. No file but FILE is read, and none is
written but those that this command names: the profiles of recorded sessions go to perf.2.data,
perf.3.data, ... What the guest asks of the host that it did not ask when it was recorded, which
can only happen when options change the run, is answered as absent, and listed.

On several CPUs a sample takes its CPU's time, so that with other events, periods or designs
the threads may run in another order; it then says in what the run is not as recorded.

Exit status: as of `emu run`; 125 if the run is not as recorded without a reason.

Examples:
  emu replay run.emu                           the same profile again, in perf.data
  emu replay run.emu --truth -F 20000          more samples, graded
  emu replay run.emu --deferred timestamp      another design of the deferred unwinder
  emu replay run.emu --timeline=1..40          the kernel's first forty events
  emu replay --info run.emu                    what is in the file
  emu replay run.emu --truth --extract files   with the program, so that `emu explain` finds it"
)]
pub struct ReplayOptions {
    /// A recording, see `emu record`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print what is in the recording, and do not run it
    #[arg(long, help_heading = "Output")]
    pub info: bool,
    /// Write the recorded program and files below DIR, which must be new or empty, for
    /// `perf report --symfs DIR`, a debugger, or `emu explain`
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub extract: Option<PathBuf>,
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// See [`OutputOptions`].
    #[command(flatten)]
    pub output: OutputOptions,
    /// See [`TimelineOptions`].
    #[command(flatten)]
    pub timeline: TimelineOptions,
    /// Watch the laws that the modelled kernel has to keep, as `emu run --laws` does
    #[arg(long, help_heading = "Timeline")]
    pub laws: bool,
    /// See [`MachineOptions`].
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Print help
    #[arg(short, long, action = ArgAction::Help, help_heading = "Help")]
    help: Option<bool>,
}

/// Replays the recording that `options` name; returns the exit status. `matches` are the words
/// that `options` were made from.
///
/// # Errors
///
/// [`Failure`] if it cannot be read or run, or is not as it was.
pub fn run(
    options: ReplayOptions,
    matches: &ArgMatches,
    cmdline: &[OsString],
) -> Result<u8, Failure> {
    let (recording, size) = read(&options.file).map_err(|why| failure(&options.file, why))?;
    if options.info {
        to_stdout(&info(&recording, &options.file, size))?;
        return Ok(0);
    }
    let (file, extract) = (options.file, options.extract);
    let manifest = &recording.manifest;
    let (kept, overrides) =
        words::merged(&manifest.options, matches).map_err(|e| failure(&file, words_failed(&e)))?;
    let options = RunOptions {
        sampling: kept.sampling,
        output: options.output,
        timeline: options.timeline,
        world: WorldOptions { root: None, env: Vec::new() },
        machine: kept.machine,
        help: None,
        laws: options.laws,
        command: Vec::new(),
    };
    let destination = Destination::new(&options.output);
    let echo = RealHost::new(run::takes_stdout(&destination, &options));
    let (mut world, replayer) = world(&recording, Some(echo));
    if let Some(dir) = extract {
        let extracted = extract::extract(&recording, &dir).map_err(|why| {
            Failure::new(status::FAILURE, format!("--extract {}: {why}", dir.display()))
        })?;
        world.extracted = Some(extracted);
    }
    // The profile holds the command line.
    let recorded: Vec<OsString> =
        manifest.cmdline.iter().map(|word| word.word().to_owned()).collect();
    let cmdline = if overrides.is_empty() { &recorded } else { cmdline };
    let mut outputs = Outputs::default();
    outputs.file("the recording", &file)?;
    let job = Job { options: &options, world: &world, cmdline, destination, digest: true, outputs };
    let ran = run::execute(job, &Stop::on_signals()?)?;
    say_missing(&replayer);
    compare(manifest, &ran, &replayer, &overrides, options.output.quiet)?;
    Ok(ran.status)
}

/// A failure that is about a recording.
pub fn failure(file: &Path, why: String) -> Failure {
    Failure::new(status::FAILURE, format!("{}: {why}", file.display()))
}

/// Why the options of a recording could not be taken.
pub fn words_failed(error: &WordsError) -> String {
    match error {
        WordsError::Unknown(_) => error.to_string(),
        WordsError::Wrong(_) => format!("its options, with those of this replay: {error}"),
    }
}

/// The recording in a file, and the length of that.
///
/// # Errors
///
/// Why it is none, or cannot be read.
pub fn read(path: &Path) -> Result<(Arc<Recording>, u64), String> {
    let file = files::open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("cannot read it: {e}"))?;
    let recording = Recording::open(&bytes).map_err(|e| e.to_string())?;
    Ok((Arc::new(recording), bytes.len() as u64))
}

/// The world of a recorded guest, which may write to `echo`.
pub fn world(recording: &Arc<Recording>, echo: Option<RealHost>) -> (World, Rc<Replayer>) {
    let manifest = &recording.manifest;
    let program = &manifest.program;
    let list = |texts: &[Text]| texts.iter().map(|text| text.0.clone()).collect();
    let replayer = Rc::new(Replayer::new(recording.clone(), echo));
    let shown = manifest.shown.iter();
    let world = World {
        program: Program {
            host: program.host.path().to_owned(),
            path: program.path.clone(),
            args: list(&program.args),
            env: list(&program.env),
            root: program.root.as_ref().map(|root| root.path().to_owned()),
            cwd: program.cwd.clone(),
            seed: 0,
            aslr: None,
            stdout_is_taken: false,
        },
        name: one_line(&manifest.name).into_owned(),
        files: shown.map(|(path, host)| (path.clone(), host.path().to_owned())).collect(),
        boot_time: manifest.boot_time,
        host: replayer.clone(),
        recording: Some(recording.clone()),
        extracted: None,
    };
    (world, replayer)
}

/// Lists what the recording could not answer.
fn say_missing(replayer: &Replayer) {
    let missing = replayer.missing();
    if !missing.is_empty() {
        let s = if missing.len() == 1 { "" } else { "s" };
        complain(&format!(
            "the guest asked for {} thing{s} that it did not ask for when it was recorded, and \
             found nothing: {}",
            missing.len(),
            missing.join(", ")
        ));
    }
}

/// Says whether the run was as recorded, and what was changed on purpose.
fn compare(
    manifest: &Manifest,
    ran: &Ran,
    replayer: &Replayer,
    overrides: &[Override],
    quiet: bool,
) -> Result<(), Failure> {
    if ran.ending == Ending::Interrupted {
        return Ok(());
    }
    let (before, now) = comparable(manifest, ran, replayer, overrides);
    if !overrides.is_empty() && !quiet {
        let list: Vec<String> = overrides.iter().map(Override::to_string).collect();
        complain(&format!("changed for this replay: {}", list.join("; ")));
    }
    let differences = outcome::differences(&outcome::facts(&before), &outcome::facts(&now));
    if !differences.is_empty() && overrides.is_empty() {
        return Err(not_as_recorded(manifest, &differences));
    }
    if !quiet {
        let profile = before.profile.is_some();
        complain(&match (differences.is_empty(), overrides.is_empty()) {
            (true, unchanged) => as_recorded(unchanged, profile).to_owned(),
            (false, _) => format!("not as recorded: {}", differences.join("; ")),
        });
    }
    Ok(())
}

/// What was recorded and what came of it now, each without what cannot be compared: a profile
/// that is not whole, and what `overrides` change.
fn comparable(
    manifest: &Manifest,
    ran: &Ran,
    replayer: &Replayer,
    overrides: &[Override],
) -> (Expected, Expected) {
    let mut before = manifest.expected.clone();
    let mut now = expected(ran, replayer.output());
    if before.profile.is_none() {
        now.profile = None;
    }
    if !overrides.is_empty() {
        for outcome in [&mut before, &mut now] {
            outcome.samples.clear();
            outcome.profile = None;
        }
    }
    (before, now)
}

/// What was compared, where all of it was as recorded. `unchanged`: no option changed the run;
/// `profile`: the recording has one.
const fn as_recorded(unchanged: bool, profile: bool) -> &'static str {
    match (unchanged, profile) {
        (true, true) => "as recorded: end, output, instructions and profile, byte for byte",
        (true, false) => {
            "as recorded: end, output and instructions (the recording was interrupted, \
                      its profile is not compared)"
        }
        (false, _) => "as recorded: end, output and instructions",
    }
}

/// The run was to be as recorded, and was not.
fn not_as_recorded(manifest: &Manifest, differences: &[String]) -> Failure {
    let own = env!("CARGO_PKG_VERSION");
    let by = match manifest.emu == own {
        true => String::new(),
        false => format!(" (emu {} recorded it, this is emu {own})", manifest.emu),
    };
    let message = format!("not as recorded{by}: {}", differences.join("; "));
    Failure::new(status::FAILURE, message)
}

/// What is in a recording, for people.
fn info(recording: &Recording, file: &Path, size: u64) -> String {
    let manifest = &recording.manifest;
    let program = &manifest.program;
    let words = |list: &[Text]| {
        let words = list.iter().map(|word| one_line(&word.word().to_string_lossy()).into_owned());
        words.collect::<Vec<String>>().join(" ")
    };
    let options: Vec<String> =
        manifest.options.iter().map(|w| one_line(&words::shown(w)).into_owned()).collect();
    let mut rows = vec![
        (
            "guest".to_owned(),
            format!("{} ({})", one_line(&manifest.name), one_line(&manifest.arch)),
        ),
        ("program".to_owned(), one_line(&program.path).into_owned()),
        ("arguments".to_owned(), words(&program.args)),
        ("environment".to_owned(), words(&program.env)),
        ("directory".to_owned(), one_line(&program.cwd).into_owned()),
    ];
    if let Some(root) = &program.root {
        rows.push(("root".to_owned(), words(std::slice::from_ref(root))));
    }
    rows.push(("options".to_owned(), options.join(" ")));
    rows.push((
        "standard input".to_owned(),
        format!("{} read", bytes(recording.input.len() as u64)),
    ));
    rows.extend(outcome::facts(&manifest.expected));
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let mut text = format!(
        "{}: recording of version {VERSION} by emu {}, {}\n\n",
        one_line(&file.to_string_lossy()),
        one_line(&manifest.emu),
        bytes(size)
    );
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:width$}  {value}");
    }
    let _ = writeln!(text, "\nWhat the guest saw of the host:\n");
    for entry in &manifest.host {
        let path = entry.path.path().to_string_lossy();
        let _ = writeln!(text, "  {}  {}", one_line(&path), seen(recording, entry));
    }
    text
}

/// What a guest saw at a path.
fn seen(recording: &Recording, entry: &Entry) -> String {
    use crate::kernel::vfs::host::Status;
    let contents = |n: u32| recording.files.get(n as usize).map_or(0, |file| file.len() as u64);
    if let Some(file) = entry.file {
        return match file {
            Ok(n) => format!("file, {} bytes", grouped(contents(n))),
            Err(errno) => format!("file that cannot be read: {}", arch::Errno(errno)),
        };
    }
    if let Some(list) = &entry.list {
        let names = list.len() as u64;
        return format!("directory, {} name{}", grouped(names), if names == 1 { "" } else { "s" });
    }
    if let Some(Ok(target)) = &entry.link {
        return format!("link to {}", one_line(target));
    }
    match entry.stat.or(entry.lstat) {
        Some(Ok(Status::Regular { len, .. })) => format!("file, {} bytes, not read", grouped(len)),
        Some(Ok(Status::Directory)) => "directory, not listed".to_owned(),
        Some(Ok(Status::Symlink)) => "link".to_owned(),
        Some(Ok(Status::Other(_))) => "neither file nor directory".to_owned(),
        Some(Err(2)) => "absent".to_owned(),
        Some(Err(errno)) => format!("{}", arch::Errno(errno)),
        None => "name after links".to_owned(),
    }
}
