//! `emu run`: from options to an exit status.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use crate::cli::death::{Death, Report};
use crate::cli::files;
use crate::cli::grades;
use crate::cli::laws;
use crate::cli::machine::{Setup, Stop, exit_status, failure_of};
use crate::cli::merge;
use crate::cli::options::{CallGraph, RunOptions};
use crate::cli::output::{
    Destination, Failure, Style, complain, is_broken_pipe, kallsyms_of, quoted, status, to_stderr,
    truth_of,
};
use crate::cli::summary::{Profile, Summary, ending_words, perf_command, unsupported};
use crate::cli::tally::Tally;
use crate::cli::world::{self, World};
use crate::deferred;
use crate::export::merging::Merging;
use crate::export::{ExportError, Format, Images, Output, Sink, kallsyms};
use crate::grade::{MethodTally, TruthFile, Watch};
use crate::kernel::run::{self, RunError};
use crate::kernel::task::Ending;
use crate::kernel::unwind::Unwind;
use crate::kernel::{Kernel, State};
use crate::perf::event;
use crate::perf::record::Record;

/// Runs the guest that `options` describe; returns the exit status.
///
/// # Errors
///
/// [`Failure`] if the run could not begin, or ended because of us.
pub fn run(options: &RunOptions, cmdline: &[OsString]) -> Result<u8, Failure> {
    let events =
        options.sampling.events().map_err(|e| Failure::new(status::FAILURE, format!("-e: {e}")))?;
    let destination = Destination::new(&options.output);
    let taken = destination == Destination::Stdout || options.timeline.takes_stdout();
    let setup = Setup { machine: &options.machine, world: &options.world, stdout_is_taken: taken };
    let world = setup.build(&options.command)?;
    let mut state = setup.start(&world, options.sampling.pmu_irq, events, cmdline)?;
    event::check(&state.perf.session.events, state.arch)
        .map_err(|e| Failure::new(status::FAILURE, format!("-e: {e}")))?;
    if let Some(design) = deferred::by_name(&options.sampling.deferred) {
        state.unwind = Unwind::new(design);
    }
    if options.sampling.call_graph == Some(CallGraph::DeferredSframe) {
        state.use_sframe();
    }
    let format = options.output.format;
    let output = destination.open(format)?;
    if let (Format::PerfData, Some(beside)) = (format, destination.beside(kallsyms_of)) {
        files::check_output(&beside).map_err(|why| {
            let message =
                format!("cannot write the kernel's symbols to {}: {why}", beside.display());
            Failure::new(status::FAILURE, message)
        })?;
    }
    let watch = match options.sampling.truth {
        true => Some(watch(&mut state, &destination)?),
        false => None,
    };
    let mut images = world::images(state.arch, state.config.vdso, state.vfs.tree.root());
    let timeline = options.timeline.start(&mut state, &destination, &mut images)?;
    let mut profile = Recorder::open(format, options.sampling.merge, &state, output)?;
    let stop = Stop::on_signals()?;
    let laws = options.laws.then(|| laws::start(&mut state, &mut images, &stop));
    let kernel = Kernel::new(state);
    let outcome = run::run(&kernel, &stop.flag, |records| profile.take(records));
    let finished = profile.sink.sink().finish();
    let told = timeline.map_or(Ok(()), |t| options.timeline.finish(&t));
    let kallsyms = match (format, destination.regular_file()) {
        (Format::PerfData, Some(file)) => {
            kernel.with(|s| kallsyms::write_beside(file, &s.perf.session.kernel_symbols)).map(drop)
        }
        _ => Ok(()),
    };

    kernel.with(|state| {
        let shown = profile_of(format, &destination, finished.is_ok(), state.vfs.tree.root());
        let broken = laws.as_ref().is_some_and(|l| l.fatal().is_some());
        report(state, options, &world, &outcome, broken, shown, &mut profile.tally);
    });
    if let Some(laws) = &laws {
        to_stderr(&format!("\n{}\n", laws.counts().summary()));
    }
    if let Profiled::Merged(merging) = &profile.sink {
        to_stderr(&format!("\n{}\n", merge::summary(merging.report())));
    }
    if let Some(watch) = &watch {
        let style = Style::of_stderr();
        let table = watch.with_points(|counts, methods| grades::table(counts, methods, style));
        to_stderr(&format!(
            "\n{}\n{table}",
            watch.with_tallies(|t| grades::line(t, watch.undecided()))
        ));
        let graded = watch.with_tallies(|t| t.first().map_or(0, MethodTally::samples));
        if let Some(file) = destination.regular_file().filter(|_| graded > 0) {
            let file = quoted(&file.to_string_lossy());
            to_stderr(&format!(
                "Explain one of them: emu explain {file} N, with N from 1 to {graded}\n"
            ));
        }
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
    Ok(exit_status(ending, &stop))
}

/// Begins to keep the true stack and to grade the samples; into a file beside the profile, if
/// that is a file.
fn watch(state: &mut State, destination: &Destination) -> Result<Watch, Failure> {
    let root = state.vfs.tree.root();
    let images = world::images(state.arch, state.config.vdso, root);
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
}

/// Where the profile goes.
enum Profiled {
    /// As the kernel wrote it.
    Plain(Box<dyn Sink>),
    /// With deferred callchains put together.
    Merged(Box<Merging>),
}

impl Profiled {
    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Profiled::Plain(sink) => sink.as_mut(),
            Profiled::Merged(merging) => merging.as_mut(),
        }
    }
}

impl Recorder {
    /// `merge`: also in a file for perf. Text has no place for a cookie.
    fn open(
        format: Format,
        merge: bool,
        state: &State,
        output: Output,
    ) -> Result<Recorder, Failure> {
        let session = &state.perf.session;
        let images = || world::images(state.arch, state.config.vdso, state.vfs.tree.root());
        let tally = Tally::new(session, images());
        let deferred = session.events.iter().any(|e| e.defer);
        let sink = if deferred && (merge || format != Format::PerfData) {
            let mut session = session.clone();
            session.events.iter_mut().for_each(|e| e.defer = false);
            let inner = crate::export::open(format, &session, output, images())?;
            Profiled::Merged(Box::new(Merging::new(inner)))
        } else {
            Profiled::Plain(crate::export::open(format, session, output, images())?)
        };
        Ok(Recorder { sink, tally })
    }

    fn take(&mut self, records: &[Record]) -> Result<(), ExportError> {
        for record in records {
            self.tally.record(record);
            self.sink.sink().record(record)?;
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
    profile: Profile,
    tally: &mut Tally,
) {
    let style = Style::of_stderr();
    let root = state.vfs.tree.root();
    let mut images: Images = world::images(state.arch, state.config.vdso, root);
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

fn profile_of(format: Format, to: &Destination, whole: bool, root: Option<&Path>) -> Profile {
    let file = to.regular_file();
    let open = file.filter(|_| format == Format::PerfData).map(|f| perf_command(f, root));
    let size = file.and_then(|f| f.metadata().ok()).map(|m| m.len());
    Profile { name: to.name(), size, whole, open }
}
