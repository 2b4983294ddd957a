//! `emu record`: a run, and the file that holds all of it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{ArgAction, ArgMatches, Args};

use crate::cli::files;
use crate::cli::machine::{Setup, Stop};
use crate::cli::options::{
    MachineOptions, OutputOptions, RunOptions, SamplingOptions, WorldOptions, is_stdout,
};
use crate::cli::output::{Destination, Failure, complain, quoted, status, with_suffix};
use crate::cli::outputs::Outputs;
use crate::cli::run::{self, Job, Ran};
use crate::cli::summary::bytes;
use crate::cli::timeline::TimelineOptions;
use crate::cli::words;
use crate::cli::world::World;
use crate::export::Format;
use crate::kernel::task::Ending;
use crate::kernel::vfs::RealHost;
use crate::recording::manifest::{Expected, Manifest, Output, Program, SessionExpected, Word};
use crate::recording::text::Text;
use crate::recording::{Recorder, Recording};

/// `emu record`
#[derive(Debug, Args)]
#[command(
    override_usage = "emu record [OPTIONS] -o FILE [--] [GUEST [ARG]...]",
    disable_help_flag = true,
    help_template = "\
{about-with-newline}
{usage-heading} {usage}

GUEST runs as under `emu run`, the demo if there is none. FILE then holds its program,
arguments, environment, options and seed, every file, directory, link and missing path that
it saw, and the standard input that it read; and how it ended, what it wrote and a digest of
its profile. `emu replay FILE` runs it again, on any machine and without any of these.

{all-args}{after-help}",
    after_help = "\
Exit status: as of `emu run`. A run that Ctrl-C ended is recorded up to there. Nothing is
recorded if emu fails.

Examples:
  emu record -o sort.emu -- ./sort input.txt     a program of your own and its input
  emu record -o bug.emu --call-graph fp,defer -c 5000 lab-signals-fp
  emu replay bug.emu --deferred cookie           the same run, another design
  emu test tests/recorded                        all recordings of a folder"
)]
pub struct RecordOptions {
    /// Write the recording to FILE, which may be there already
    #[arg(short = 'o', long, value_name = "FILE", required = true, help_heading = "Output")]
    pub output: PathBuf,
    /// Write the profile to PROFILE as well, a perf.data file
    #[arg(long, value_name = "PROFILE", help_heading = "Output")]
    pub profile: Option<PathBuf>,
    /// Print no summary; what --truth finds is printed all the same
    #[arg(short = 'q', long, help_heading = "Output")]
    pub quiet: bool,
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// See [`WorldOptions`].
    #[command(flatten)]
    pub world: WorldOptions,
    /// See [`MachineOptions`].
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Print help
    #[arg(short, long, action = ArgAction::Help, help_heading = "Help")]
    help: Option<bool>,
    /// Name or path of the guest, then its arguments.
    #[arg(trailing_var_arg = true, hide = true)]
    pub command: Vec<OsString>,
}

/// Runs and records the guest that `options` describe; returns the exit status. `matches` are
/// the words that `options` were made from.
///
/// # Errors
///
/// [`Failure`] if the run could not begin, ended because of us, or cannot be recorded.
pub fn run(
    options: RecordOptions,
    matches: &ArgMatches,
    cmdline: &[OsString],
) -> Result<u8, Failure> {
    let file = options.output;
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(status::FAILURE, format!("-o {}: {why}", file.display()))
    };
    if is_stdout(file.as_os_str()) {
        return Err(cannot(&"a recording is not written to standard output; name a file"));
    }
    // Before the guest runs, which may take long.
    files::check_output(&file).map_err(|why| cannot(&why))?;
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(cannot(&format!("there is no directory {}; make it first", folder.display())));
    }
    let options = RunOptions {
        sampling: options.sampling,
        output: OutputOptions {
            output: options.profile,
            format: Format::PerfData,
            quiet: options.quiet,
        },
        timeline: TimelineOptions::none(),
        world: options.world,
        machine: options.machine,
        help: None,
        laws: false,
        command: options.command,
    };
    let destination = match options.output.output {
        Some(_) => Destination::new(&options.output),
        None => Destination::Nowhere,
    };
    let stdout_is_taken = run::takes_stdout(&destination, &options);
    let setup = Setup { machine: &options.machine, world: &options.world, stdout_is_taken };
    let mut world = setup.build(&options.command)?;
    let recorder = Rc::new(Recorder::new(RealHost::new(stdout_is_taken)));
    world.host = recorder.clone();
    let mut outputs = Outputs::default();
    outputs.guest(&world);
    outputs.recording(&file)?;
    let job = Job { options: &options, world: &world, cmdline, destination, digest: true, outputs };
    let ran = run::execute(job, &Stop::on_signals()?)?;
    let recording = recording(&world, words::of_matches(matches), cmdline, &ran, &recorder)
        .map_err(|e| cannot(&format!("not written: {e}")))?;
    let sealed = recording.seal().map_err(|e| cannot(&format!("not written: {e}")))?;
    write(&file, &sealed).map_err(|e| cannot(&format!("cannot write it: {e}")))?;
    if !options.output.quiet {
        let name = quoted(&file.to_string_lossy());
        let size = bytes(sealed.len() as u64);
        complain(&format!("recorded in {name} ({size}); run it again: emu replay {name}"));
    }
    Ok(ran.status)
}

/// Everything about a run.
fn recording(
    world: &World,
    mut options: Vec<Word>,
    cmdline: &[OsString],
    ran: &Ran,
    recorder: &Recorder,
) -> Result<Recording, crate::recording::RecordError> {
    let program = &world.program;
    let texts = |list: &[Vec<u8>]| list.iter().cloned().map(Text).collect();
    let interrupted = ran.ending == Ending::Interrupted;
    if interrupted {
        // Where a user's patience ends is an input, too.
        let option = "--max-instructions".to_owned();
        options.retain(|word| word.option != option);
        let most = ran.instructions.max(1).to_string();
        options.push(Word { option, value: Some(Text(most.into_bytes())) });
    }
    let expected = expected(ran, recorder.output());
    let recorded = recorder.take()?;
    let manifest = Manifest {
        emu: env!("CARGO_PKG_VERSION").to_owned(),
        name: world.name.clone(),
        arch: ran.arch.name().to_owned(),
        program: Program {
            host: Text::of(&program.host),
            path: program.path.clone(),
            args: texts(&program.args),
            env: texts(&program.env),
            root: program.root.as_ref().map(Text::of),
            cwd: program.cwd.clone(),
        },
        boot_time: world.boot_time,
        options,
        cmdline: cmdline.iter().map(Text::of).collect(),
        shown: world.files.iter().map(|(path, host)| (path.clone(), Text::of(host))).collect(),
        host: recorded.host,
        input: recorded.input.1,
        failed: recorded.failed,
        expected,
    };
    Ok(Recording { manifest, input: recorded.input.0, files: recorded.files })
}

/// What came of a run. When a user interrupts one, the machine may be at work for the kernel,
/// where a replay that stops after as many instructions is not: its profile is not compared.
pub fn expected(ran: &Ran, output: [Output; 2]) -> Expected {
    let interrupted = ran.ending == Ending::Interrupted;
    Expected {
        end: ran.ending.into(),
        instructions: ran.instructions,
        samples: ran.samples.clone(),
        output,
        profile: ran.digest.clone().filter(|_| !interrupted),
        sessions: ran
            .sessions
            .iter()
            .cloned()
            .map(|s| SessionExpected { profile: s.profile.filter(|_| !interrupted), ..s })
            .collect(),
    }
}

/// Writes a file as a whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = with_suffix(path, ".new");
    fs::write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, path))
        .inspect_err(|_| drop(fs::remove_file(&beside)))
}
