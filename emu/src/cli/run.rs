//! `emu run`: from options to an exit status.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arch::Arch;

use crate::cli::beside::Beside;
use crate::cli::death::{Death, Report};
use crate::cli::deferring;
use crate::cli::files;
use crate::cli::grades;
use crate::cli::laws;
use crate::cli::machine::{self, Setup, Stop, exit_status, failure_of};
use crate::cli::merge;
use crate::cli::notes;
use crate::cli::options::{CallGraph, RunOptions};
use crate::cli::output::{
    Destination, Failure, Style, complain, is_broken_pipe, kallsyms_of, quoted, status, to_stderr,
    truth_of,
};
use crate::cli::outputs::Outputs;
use crate::cli::probes;
use crate::cli::session::{self, SessionOptions};
use crate::cli::summary::{Profile, Summary, ending_words, perf_command, unsupported};
use crate::cli::tally::Tally;
use crate::cli::world::World;
use crate::deferred;
use crate::export::merging::Merging;
use crate::export::{ExportError, Format, Images, Output, Sink, kallsyms};
use crate::grade::{TruthFile, Watch};
use crate::kernel::run::{self, RunError};
use crate::kernel::state::PmuIrq;
use crate::kernel::task::Ending;
use crate::kernel::unwind::Unwind;
use crate::kernel::{Kernel, State};
use crate::perf::event;
use crate::perf::reader::Settings;
use crate::perf::record::{Record, Session};
use crate::perf::session::{self as sessions, SessionId};
use crate::recording::manifest::SessionExpected;
use crate::recording::profile::ProfileDigest;

/// Runs the guest that `options` describe; returns the exit status.
///
/// # Errors
///
/// [`Failure`] if the run could not begin, or ended because of us.
pub fn run(options: &RunOptions, cmdline: &[OsString]) -> Result<u8, Failure> {
    let destination = Destination::new(&options.output);
    let stdout_is_taken = takes_stdout(&destination, options);
    let setup = Setup { machine: &options.machine, world: &options.world, stdout_is_taken };
    let world = setup.build(&options.command)?;
    let mut outputs = Outputs::default();
    outputs.guest(&world);
    let job = Job { options, world: &world, cmdline, destination, digest: false, outputs };
    Ok(execute(job, &Stop::on_signals()?)?.status)
}

/// Whether something of ours goes to standard output.
pub fn takes_stdout(destination: &Destination, options: &RunOptions) -> bool {
    *destination == Destination::Stdout || options.timeline.takes_stdout()
}

/// A run to be.
#[derive(Debug)]
pub struct Job<'j> {
    /// Sampling, output, timeline and machine are taken from here; what is run is in `world`.
    pub options: &'j RunOptions,
    /// The guest and what is around it.
    pub world: &'j World,
    /// The command line as the profile has it.
    pub cmdline: &'j [OsString],
    /// Where the profile goes.
    pub destination: Destination,
    /// Its digest is wanted.
    pub digest: bool,
    /// What is written, or must not be, besides what `options` say.
    pub outputs: Outputs,
}

impl Job<'_> {
    /// Where the profiles of the sessions beside the main one go. Where the main profile is not
    /// wanted, only those that were named are.
    pub fn beside(&self) -> Vec<Destination> {
        let sessions = self.options.sampling.sessions.iter().enumerate();
        let to =
            |(n, words): (usize, &Arc<SessionOptions>)| match (&self.destination, &words.output) {
                (Destination::Nowhere, None) => Destination::Nowhere,
                _ => words.destination(SessionId(n + 1)),
            };
        sessions.map(to).collect()
    }

    /// Checks that no two files that are written are one, nor one that is read.
    fn check_outputs(&self) -> Result<(), Failure> {
        let mut outputs = self.outputs.clone();
        outputs.profile("the profile", &self.destination)?;
        for (n, to) in self.beside().iter().enumerate() {
            outputs.profile(&format!("session {}'s profile", n + 2), to)?;
        }
        match self.options.timeline.file() {
            Some(file) => outputs.file("--timeline-output", file),
            None => Ok(()),
        }
    }

    /// Opens what the profile is written to, and sees that the kernel's symbols can be written
    /// beside it.
    fn open_output(&self) -> Result<Option<Output>, Failure> {
        let format = self.options.output.format;
        let output = self.destination.open(format)?;
        if let (Format::PerfData, Some(beside)) = (format, self.destination.beside(kallsyms_of)) {
            files::check_output(&beside).map_err(|why| {
                let message =
                    format!("cannot write the kernel's symbols to {}: {why}", beside.display());
                Failure::new(status::FAILURE, message)
            })?;
        }
        Ok(output)
    }

    /// Writes the kernel's symbols beside a profile that does not hold them by name.
    fn write_kallsyms(&self, kernel: &Kernel) -> Result<(), ExportError> {
        match (self.options.output.format, self.destination.regular_file()) {
            (Format::PerfData, Some(file)) => kernel
                .with(|s| kallsyms::write_beside(file, &s.perf.main.session.kernel_symbols))
                .map(drop),
            _ => Ok(()),
        }
    }
}

/// A run that was.
#[derive(Debug)]
pub struct Ran {
    /// The exit status that says how the guest ended.
    pub status: u8,
    /// How it ended.
    pub ending: Ending,
    /// `x86_64` or `aarch64`.
    pub arch: Arch,
    /// User instructions.
    pub instructions: u64,
    /// Samples of each event.
    pub samples: Vec<(String, u64)>,
    /// The sessions beside the main one.
    pub sessions: Vec<SessionExpected>,
    /// See [`ProfileDigest`].
    pub digest: Option<String>,
}

/// Samples of each event of a session.
pub fn samples_of(profile: &sessions::Profile) -> Vec<(String, u64)> {
    let events = profile.session.events.iter().zip(&profile.totals);
    events.map(|(e, counter)| (e.name.clone(), counter.samples)).collect()
}

impl Ran {
    /// What a machine that has run knows of it.
    ///
    /// `beside` are the digests of the sessions beside the main one, if they are wanted.
    pub fn of(
        state: &State,
        ending: Ending,
        stop: &Stop,
        digest: Option<String>,
        beside: Vec<Option<String>>,
    ) -> Ran {
        let sessions = state.perf.beside.iter().zip(beside);
        let sessions = sessions.map(|(profile, digest)| SessionExpected {
            samples: samples_of(profile),
            profile: digest,
        });
        Ran {
            status: exit_status(ending, stop),
            ending,
            arch: state.arch,
            instructions: state.stats.instructions,
            samples: samples_of(&state.perf.main),
            sessions: sessions.collect(),
            digest,
        }
    }
}

/// A machine with the guest of `world` and the events of `options`.
///
/// # Errors
///
/// [`Failure`] if the guest cannot be run, or the events cannot be had.
pub fn prepare(
    options: &RunOptions,
    world: &World,
    cmdline: &[OsString],
) -> Result<State, Failure> {
    let text = options.output.format != Format::PerfData;
    if let (Some(CallGraph::Dwarf(_)), true) = (options.sampling.call_graph, text) {
        let message = "--call-graph dwarf: the samples hold stacks that perf is to unwind; \
                       use --format perf";
        return Err(Failure::new(status::FAILURE, message));
    }
    options
        .sampling
        .check_limits(&options.machine)
        .map_err(|e| Failure::new(status::FAILURE, e))?;
    let events = options
        .sampling
        .events(&options.machine)
        .map_err(|e| Failure::new(status::FAILURE, format!("-e: {e}")))?;
    let sampling = &options.sampling;
    let scope = sampling.scope(options.machine.cpus);
    let scope = scope.map_err(|e| Failure::new(status::FAILURE, e))?;
    let mut state =
        machine::start(world, &options.machine, sampling.pmu_irq, events, scope, cmdline)?;
    if (sampling.pmu_irq, state.arch) == (PmuIrq::NmiLatched, Arch::Aarch64) {
        let message = "--pmu-irq nmi,latch: an NMI of x86_64 is latched; use nmi, whose pseudo-NMI \
                       of aarch64 waits in the interrupt controller";
        return Err(Failure::new(status::FAILURE, message));
    }
    event::check(&state.perf.main.session.events, state.arch)
        .map_err(|e| Failure::new(status::FAILURE, format!("-e: {e}")))?;
    // Before anything says how stacks are walked.
    if let Some(design) = deferred::by_name(&sampling.deferred) {
        state.unwind = Unwind::new(design);
    }
    session::add(&mut state, options)?;
    probes::place(&mut state, world)?;
    if let Some(rate) = sampling.reader_rate {
        state.perf.main.read_slowly(Settings { rate, pages: sampling.mmap_pages });
    }
    if sampling.uses_sframe() {
        state.use_sframe();
    }
    sampling.deferring.prepare(&mut state)?;
    state.begin_sessions().ok_or_else(|| {
        Failure::new(status::FAILURE, "--session: no memory is left for its thread")
    })?;
    Ok(state)
}

/// Runs a guest, writes its profile, and reports on standard error.
///
/// # Errors
///
/// [`Failure`] if the run could not begin, or ended because of us.
pub fn execute(job: Job, stop: &Stop) -> Result<Ran, Failure> {
    let Job { options, world, destination, .. } = &job;
    let mut state = prepare(options, world, job.cmdline)?;
    job.check_outputs()?;
    if !options.output.quiet {
        notes::without_effect(&options.sampling).iter().for_each(|note| complain(note));
    }
    let output = job.open_output()?;
    let watch = match options.sampling.truth {
        true => Some(watch(&mut state, world, destination)?),
        false => None,
    };
    let mut images = world.images(&state);
    let timeline = options.timeline.start(&mut state, destination, &mut images)?;
    let mut profile = Recorder::open(&job, &state, output)?;
    let mut beside = Beside::open(&job, &state)?;
    let laws = options.laws.then(|| laws::start(&mut state, &mut images, stop));
    let kernel = Kernel::new(state);
    let outcome = run::run(&kernel, &stop.flag, |session, records| match session {
        SessionId::MAIN => profile.take(records),
        beside_it => beside.take(beside_it, records),
    });
    let finished = profile.sink.finish().and(beside.finish());
    let told = timeline.map_or(Ok(()), |t| options.timeline.finish(&t));
    let kallsyms = job.write_kallsyms(&kernel);

    kernel.with(|state| {
        let whole = finished.is_ok();
        let shown = profile_of(options.output.format, destination, whole, world.root(state));
        let broken = laws.as_ref().is_some_and(|l| l.fatal().is_some());
        report(state, options, world, &outcome, broken, shown, &mut profile.tally);
        report_sessions(state, &beside, options.output.quiet);
    });
    if let Some(laws) = &laws {
        to_stderr(&format!("\n{}\n", laws.counts().summary()));
    }
    if let (false, Profiled::Merged(merging)) = (options.output.quiet, &profile.sink) {
        to_stderr(&format!("\n{}\n", merge::summary(merging.report())));
    }
    if let Some(watch) = &watch {
        report_grades(watch, destination);
    }
    let ending = outcome.map_err(failure_of)?;
    finished.and(kallsyms)?;
    told?;
    if let Some(law) = laws.and_then(|l| l.fatal()) {
        return Err(laws::failure(&law));
    }
    if let (Some(watch), Some(file)) = (&watch, destination.beside(truth_of)) {
        watch.finish().map_err(|e| truth_failure(&file, &e))?;
    }
    let digest = profile.digest.map(ProfileDigest::finish).transpose()?;
    let digests = beside.digests()?;
    Ok(kernel.with(|state| Ran::of(state, ending, stop, digest, digests)))
}

/// The sessions beside the main one, and who asked for deferred stacks.
fn report_sessions(state: &State, beside: &Beside, quiet: bool) {
    if quiet {
        return;
    }
    to_stderr(&beside.summary(state));
    let tracers = deferring::summary(state);
    if !tracers.is_empty() {
        to_stderr(&format!("\n{tracers}"));
    }
}

/// What the unwinders made of the samples.
fn report_grades(watch: &Watch, destination: &Destination) {
    let style = Style::of_stderr();
    let table = watch.with_points(|counts, methods| grades::table(counts, methods, style));
    to_stderr(&format!(
        "\n{}\n{table}",
        watch.with_tallies(|t| grades::line(t, watch.undecided(), watch.unsaved()))
    ));
    grades::unknown_files(&watch.not_loaded(), watch.refused_mappings())
        .iter()
        .for_each(|line| complain(line));
    let samples = watch.samples();
    if let Some(file) = destination.regular_file().filter(|_| samples > 0) {
        let file = quoted(&file.to_string_lossy());
        to_stderr(&format!(
            "Explain one of them: emu explain {file} N, with N from 1 to {samples}\n"
        ));
    }
}

/// Begins to keep the true stack and to grade the samples; into a file beside the profile, if
/// that is a file.
fn watch(state: &mut State, world: &World, destination: &Destination) -> Result<Watch, Failure> {
    let root = world.root(state);
    let images = world.images(state);
    let file = match destination.beside(truth_of) {
        Some(path) => {
            files::check_output(&path).map_err(|e| truth_failure(&path, &e))?;
            let out = File::create(&path).map_err(|e| truth_failure(&path, &e))?;
            let root = root.map(|root| root.to_string_lossy().into_owned());
            Some(TruthFile { out: Box::new(out), root })
        }
        None => None,
    };
    Watch::start(state, images, file).map_err(|e| Failure::new(status::FAILURE, e))
}

fn truth_failure(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot write the truth to {}: {error}", file.display());
    Failure::new(status::FAILURE, message)
}

/// Takes the records: into the profile and into the summary's counts.
struct Recorder {
    sink: Profiled,
    tally: Tally,
    digest: Option<ProfileDigest>,
}

/// Where a profile goes.
pub enum Profiled {
    /// As the kernel wrote it.
    Plain(Box<dyn Sink>),
    /// With deferred callchains put together.
    Merged(Box<Merging>),
    /// None is wanted.
    Nowhere,
}

impl Profiled {
    /// A sink for the records of `session`; `merge`: deferred callchains are put together.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if the profile cannot be begun.
    pub fn open(
        session: &Session,
        merge: bool,
        format: Format,
        output: Option<Output>,
        images: Images,
    ) -> Result<Profiled, ExportError> {
        let deferred = session.events.iter().any(|e| e.defer);
        Ok(match output {
            None => Profiled::Nowhere,
            Some(output) if deferred && merge => {
                let mut session = session.clone();
                session.events.iter_mut().for_each(|e| e.defer = false);
                let inner = crate::export::open(format, &session, output, images)?;
                Profiled::Merged(Box::new(Merging::new(inner)))
            }
            Some(output) => Profiled::Plain(crate::export::open(format, session, output, images)?),
        })
    }
}

impl Sink for Profiled {
    fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        match self {
            Profiled::Plain(sink) => sink.record(record),
            Profiled::Merged(merging) => merging.record(record),
            Profiled::Nowhere => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        match self {
            Profiled::Plain(sink) => sink.finish(),
            Profiled::Merged(merging) => merging.finish(),
            Profiled::Nowhere => Ok(()),
        }
    }
}

impl Recorder {
    /// Deferred callchains are merged as asked for, and in text, which has no place for a
    /// cookie.
    fn open(job: &Job, state: &State, output: Option<Output>) -> Result<Recorder, Failure> {
        let (session, options) = (&state.perf.main.session, job.options);
        let format = options.output.format;
        let images = || job.world.images(state);
        let merge = options.sampling.merge || format != Format::PerfData;
        let sink = Profiled::open(session, merge, format, output, images())?;
        let digest = job.digest.then(|| ProfileDigest::new(session)).transpose()?;
        Ok(Recorder { sink, tally: Tally::new(session, images()), digest })
    }

    fn take(&mut self, records: &[Record]) -> Result<(), ExportError> {
        for record in records {
            self.tally.record(record);
            if let Some(digest) = &mut self.digest {
                digest.record(record)?;
            }
            self.sink.record(record)?;
        }
        Ok(())
    }
}

/// Everything that is said on standard error after a run.
fn report(
    state: &State,
    options: &RunOptions,
    world: &World,
    outcome: &Result<Ending, RunError<ExportError>>,
    broken: bool,
    profile: Option<Profile>,
    tally: &mut Tally,
) {
    let style = Style::of_stderr();
    let mut images = world.images(state);
    if let Some(death) = Death::of(state) {
        to_stderr(&Report::new(state, death, &mut images).render(&world.name, style));
    }
    for line in unsupported(state, &mut images) {
        complain(&line);
    }
    match outcome {
        Ok(Ending::Limit) => complain(&format!(
            "{}: stopped after {} instructions; --max-instructions allows no more",
            world.name, state.stats.instructions
        )),
        Ok(Ending::Livelock) => complain(&format!(
            "{}: stopped: its kernel does not get back to user mode any more, as each way out is \
             asked for one more; sample less often, or with another --deferred",
            world.name
        )),
        Ok(Ending::Deadlock) => complain(&format!(
            "{}: stopped: all its threads wait for something that cannot come",
            world.name
        )),
        Ok(Ending::Strict) => complain(&format!(
            "{}: stopped at something unsupported; without --strict it goes on",
            world.name
        )),
        _ => {}
    }
    if !options.output.quiet {
        let ending = match outcome {
            Ok(Ending::Interrupted) if broken => "was stopped at a broken law".to_owned(),
            Ok(ending) => ending_words(*ending),
            Err(RunError::Emit(e)) if is_broken_pipe(e) => {
                "was stopped when the profile's reader went away".to_owned()
            }
            Err(_) => "did not finish".to_owned(),
        };
        let summary = Summary::new(state, &world.name, ending, profile);
        to_stderr(&format!("\n{}", summary.render(tally, style)));
    }
}

fn profile_of(
    format: Format,
    to: &Destination,
    whole: bool,
    root: Option<&Path>,
) -> Option<Profile> {
    if *to == Destination::Nowhere {
        return None;
    }
    let file = to.regular_file();
    let open = file.filter(|_| format == Format::PerfData).map(|f| perf_command(f, root));
    let size = file.and_then(|f| f.metadata().ok()).map(|m| m.len());
    Some(Profile { name: to.name(), size, whole, open })
}
