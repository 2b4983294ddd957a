//! `emu scenario`: what happens when, from a file; and all that could.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::cli::files;
use crate::cli::machine::Stop;
use crate::cli::output::{Failure, Style, complain, status, to_stdout, written};
use crate::cli::scenario_table::{Column, table};
use crate::cli::world::did_you_mean;
use crate::deferred;
use crate::kernel::unwind::Design;
use crate::laws;
use crate::numbers::grouped;
use crate::scenario::file::{self, Scenario};
use crate::scenario::inject::{Action, Injection, Who};
use crate::scenario::judge::Finding;
use crate::scenario::machine::{SetupError, Workshop};
use crate::scenario::place::Place;
use crate::scenario::play::{self, Played};
use crate::scenario::search::{Report, search};
use crate::scenario::walk::Bounds;
use crate::scenario::{catalogue, expect};
use crate::timeline::range::Range;
use crate::timeline::{Format, Handle, Settings};

/// `emu scenario`
#[derive(Debug, Args)]
pub struct ScenarioOptions {
    #[command(subcommand)]
    command: ScenarioCommand,
}

/// What to do with scenarios.
#[derive(Debug, Subcommand)]
enum ScenarioCommand {
    /// List the scenarios that come along
    List,
    /// Print a scenario's file
    Show {
        /// Its name in the list
        name: String,
    },
    /// Play a scenario, and say what came of it
    Run(RunOptions),
    /// Try all orders of a scenario's tasks, with NMIs anywhere
    Explore(ExploreOptions),
    /// Search the standard situation under each design, and put what was found side by side
    Compare(BoundOptions),
}

/// `emu scenario run`
#[derive(Debug, Args)]
struct RunOptions {
    /// A name in the list, or a file
    scenario: String,
    /// Play it under this design alone
    #[arg(long, value_name = "DESIGN")]
    deferred: Option<String>,
    /// Say what came of it, and leave out the timeline
    #[arg(short, long)]
    quiet: bool,
}

/// `emu scenario explore`
#[derive(Debug, Args)]
struct ExploreOptions {
    /// A name in the list, or a file; its own injections are left out
    scenario: String,
    /// Search under this design alone
    #[arg(long, value_name = "DESIGN")]
    deferred: Option<String>,
    /// Write each finding's shortest schedule into this directory, as a scenario that plays it
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    #[command(flatten)]
    bounds: BoundOptions,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, Args)]
struct BoundOptions {
    /// Times that another CPU goes on although the present one could
    #[arg(long, value_name = "N", default_value_t = 1)]
    preemptions: u32,
    /// NMIs, each at any step
    #[arg(long, value_name = "N", default_value_t = 1)]
    nmis: u32,
    /// Stop after so many seconds, and say what was covered
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Stop at so many states, of about 10 bytes each, and say what was covered
    #[arg(long, value_name = "N")]
    states: Option<u64>,
}

/// Steps of a run, at which a search cuts it.
const MOST_STEPS: u32 = 100_000;
/// How often a search tells how far it is.
const PROGRESS: Duration = Duration::from_secs(5);
/// A scenario did not do what its file expects.
const UNEXPECTED: u8 = 1;

/// Does it.
///
/// # Errors
///
/// [`Failure`]
pub fn run(options: &ScenarioOptions) -> Result<u8, Failure> {
    match &options.command {
        ScenarioCommand::List => list(),
        ScenarioCommand::Show { name } => to_stdout(text_of(name)?.1.as_str()).map(|()| 0),
        ScenarioCommand::Run(options) => play(options),
        ScenarioCommand::Explore(options) => explore(options),
        ScenarioCommand::Compare(bounds) => compare(*bounds),
    }
}

fn list() -> Result<u8, Failure> {
    let width = catalogue::ALL.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let style = Style::of_stdout();
    let mut text = String::new();
    for (name, contents) in catalogue::ALL {
        let scenario = read(name, contents)?;
        let designs: Vec<&str> = scenario.designs.iter().map(|d| d.name()).collect();
        let name = style.cyan(&format!("{name:width$}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}  {} ({})", scenario.title, designs.join(", "));
    }
    to_stdout(&text).map(|()| 0)
}

/// The name of a scenario, and its text: one of the catalogue, or a file.
fn text_of(name: &str) -> Result<(String, String), Failure> {
    if let Some(text) = catalogue::find(name) {
        return Ok((name.to_owned(), text.to_owned()));
    }
    let is_file = Path::new(name).exists() || name.contains('/') || name.ends_with(".toml");
    if !is_file {
        let hint = did_you_mean(name, catalogue::ALL.iter().map(|(name, _)| *name));
        let message = format!(
            "no scenario and no file is called {name:?}; {hint}`emu scenario list` lists the \
             scenarios"
        );
        return Err(Failure::new(status::FAILURE, message));
    }
    let failed = |why: String| Failure::new(status::FAILURE, format!("{name}: {why}"));
    let file = files::open(Path::new(name)).map_err(failed)?;
    let mut text = String::new();
    // One more than there may be is too many, whatever the file becomes meanwhile.
    let most = file::MOST_BYTES as u64 + 1;
    file.take(most).read_to_string(&mut text).map_err(|e| failed(e.to_string()))?;
    Ok((name.to_owned(), text))
}

fn read(name: &str, text: &str) -> Result<Scenario, Failure> {
    file::read(text).map_err(|e| Failure::new(status::FAILURE, format!("{name}: {e}")))
}

/// The designs to take of those that a scenario is for.
fn designs(scenario: &Scenario, only: Option<&str>) -> Result<Vec<Rc<dyn Design>>, Failure> {
    let Some(only) = only else { return Ok(scenario.designs.clone()) };
    let design = deferred::by_name(only).ok_or_else(|| {
        let all = deferred::all().map(|d| d.name()).join(", ");
        Failure::new(status::FAILURE, format!("--deferred {only:?}: there are {all}"))
    })?;
    Ok(vec![design])
}

fn no_machine(error: &SetupError) -> Failure {
    Failure::new(status::FAILURE, error)
}

fn play(options: &RunOptions) -> Result<u8, Failure> {
    let (name, text) = text_of(&options.scenario)?;
    let scenario = read(&name, &text)?;
    let mut all_well = true;
    for design in designs(&scenario, options.deferred.as_deref())? {
        let style = Style::of_stdout();
        let title = format!("{} · {}", scenario.title, design.name());
        to_stdout(&format!("{}\n{}\n", style.bold(&title), scenario.about.trim()))?;
        let code = scenario.setup.code.clone();
        let mut workshop = Workshop::new(scenario.setup.under(&design));
        let mut timeline = None;
        let played = play::play(&mut workshop, &scenario.injections, |state| {
            if !options.quiet {
                let names = Box::new(move |pc| code.name(pc));
                let settings = Settings { format: Format::Text, range: Range::ALL, calls: false };
                let out = Box::new(BufWriter::new(io::stdout()));
                timeline = Some(Handle::start(state, settings, names, out));
            }
        });
        let played = played.map_err(|e| no_machine(&e))?;
        if let Some(timeline) = timeline {
            written(timeline.finish())?;
        }
        let (well, words) = verdict(&scenario, design.name(), &played);
        all_well &= well;
        to_stdout(&format!("{words}\n"))?;
    }
    Ok(if all_well { 0 } else { UNEXPECTED })
}

/// Whether a run did what its file expects, and what it did in words.
fn verdict(scenario: &Scenario, design: &str, played: &Played) -> (bool, String) {
    let mut text = format!("{design}: ");
    let found: Vec<String> = played.findings.iter().map(Finding::to_string).collect();
    let _ = match found.is_empty() {
        true => write!(text, "every law is kept and no hazard happens"),
        false => write!(text, "{}", found.join(", ")),
    };
    let tracers = scenario.setup.tracers.iter().zip(&played.calls);
    let calls: Vec<String> = tracers.map(|(t, n)| format!("{} {n}", t.name)).collect();
    if !calls.is_empty() {
        let _ = write!(text, "; callbacks: {}", calls.join(", "));
    }
    if played.stuck {
        let _ = write!(text, "; tasks wait for ever");
    }
    let _ = writeln!(text, " ({} steps, state {})", grouped(played.steps), played.state());
    let wrong = expect::unexpected(scenario, design, played);
    if wrong.is_empty() && scenario.expect.contains_key(design) {
        let _ = writeln!(text, "as expected");
    }
    for line in &wrong {
        let _ = writeln!(text, "NOT AS EXPECTED: {line}");
    }
    (wrong.is_empty(), text)
}

/// Searches until it is done, interrupted, or at a limit.
fn explored(
    workshop: &mut Workshop,
    bounds: BoundOptions,
    stop: &Stop,
) -> Result<(Report, Duration), Failure> {
    let began = Instant::now();
    let BoundOptions { preemptions, nmis: interrupts, seconds, states } = bounds;
    let bounds = Bounds { preemptions, interrupts, steps: MOST_STEPS };
    let mut told = began;
    let go_on = |report: &Report, done: f64| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            let (states, percent) = (grouped(report.states), 100.0 * done);
            complain(&format!("{states} states, about {percent:.0} % of the search"));
        }
        let late = seconds.is_some_and(|s| began.elapsed() >= Duration::from_secs(s));
        let full = states.is_some_and(|most| report.states >= most);
        !late && !full && !stop.flag.load(Ordering::Relaxed)
    };
    let report = search(workshop, bounds, vec![Who::Perf], go_on).map_err(|e| no_machine(&e))?;
    Ok((report, began.elapsed()))
}

/// The status of a search that did not come to its end: a signal's, or a limit's.
fn stopped(stop: &Stop) -> u8 {
    match stop.flag.load(Ordering::Relaxed) {
        true => stop.status(),
        false => status::LIMIT,
    }
}

/// What a search has covered, in a sentence.
fn covered(report: &Report, bounds: BoundOptions) -> String {
    let Report { states, runs, steps, cut, stuck, .. } = *report;
    let mut text = match report.complete {
        true => "all orders".to_owned(),
        false => "NOT ALL orders".to_owned(),
    };
    let _ = write!(
        text,
        " with at most {} preemptions and {} NMIs: {} states, {} runs, {} steps",
        bounds.preemptions,
        bounds.nmis,
        grouped(states),
        grouped(runs),
        grouped(steps),
    );
    for (count, what) in [(cut, "were cut at the bound on steps"), (stuck, "ended in a deadlock")] {
        if count > 0 {
            let _ = write!(text, "; {} runs {what}", grouped(count));
        }
    }
    text
}

/// How fast it was.
fn speed(report: &Report, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let [steps, states] = [report.steps, report.states].map(|n| n as f64 / seconds);
    format!(
        "{seconds:.1} s, {} steps and {} states a second",
        grouped(steps as u64),
        grouped(states as u64)
    )
}

/// Injections in words: `an NMI before unwind.reset.R4 of A`.
fn schedule(names: &[&str], injections: &[Injection]) -> String {
    let words = injections.iter().map(|d| {
        let task = names.get(d.at.task.0).copied().unwrap_or("?");
        let place = match d.at.place {
            Place::User => "user code",
            place => place.name(),
        };
        let what = match d.action {
            Action::Interrupt(_) => "an NMI".to_owned(),
            Action::Switch(cpu) => format!("CPU {cpu} goes on"),
            Action::Pass(time) => format!("{} ns", grouped(time)),
            Action::FailPages(count) => format!("{} failing allocations", grouped(count)),
        };
        match d.at.nth {
            1 => format!("{what} before {place} of {task}"),
            nth => format!("{what} before {place} of {task}, time {nth}"),
        }
    });
    match injections.is_empty() {
        true => "in any order".to_owned(),
        false => words.collect::<Vec<_>>().join(", then "),
    }
}

/// A search's findings, a line each, with the shortest schedule that was found and shrunk.
fn findings(
    workshop: &mut Workshop,
    report: &Report,
    save: impl Fn(&mut Workshop, Finding, &[Injection]) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let tasks = workshop.setup().tasks.clone();
    let names: Vec<&str> = tasks.iter().map(|t| t.name.as_str()).collect();
    let mut text = String::new();
    for (finding, injections) in &report.found {
        let shortest = play::shrink(workshop, injections, *finding).map_err(|e| no_machine(&e))?;
        let _ = writeln!(text, "  {:16} {}", finding.to_string(), schedule(&names, &shortest));
        save(workshop, *finding, &shortest)?;
    }
    Ok(text)
}

/// Writes a schedule as a scenario: `mask-law-10-by-h17.toml`.
fn saved(
    workshop: &mut Workshop,
    scenario: &Scenario,
    dir: &Path,
    finding: Finding,
    injections: &[Injection],
) -> Result<(), Failure> {
    let design = workshop.setup().design.name();
    let played = play::play(workshop, injections, |_| ()).map_err(|e| no_machine(&e))?;
    let about = format!("Found by a search: {finding}.");
    let text = scenario.with(&about, design, injections, &played);
    let text = text.map_err(|e| Failure::new(status::FAILURE, e))?;
    let name = format!("{design}-{finding}.toml").to_lowercase().replace(' ', "-");
    let path = dir.join(name);
    let failed = |e| Failure::new(status::FAILURE, format!("{}: {e}", path.display()));
    std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, text)).map_err(failed)
}

fn explore(options: &ExploreOptions) -> Result<u8, Failure> {
    let (name, text) = text_of(&options.scenario)?;
    let scenario = read(&name, &text)?;
    let stop = Stop::on_signals()?;
    for design in designs(&scenario, options.deferred.as_deref())? {
        let mut workshop = Workshop::new(scenario.setup.under(&design));
        let (report, time) = explored(&mut workshop, options.bounds, &stop)?;
        let save = |workshop: &mut Workshop, finding, shortest: &[Injection]| match &options.save {
            Some(dir) => saved(workshop, &scenario, dir, finding, shortest),
            None => Ok(()),
        };
        let found = findings(&mut workshop, &report, save)?;
        let what = covered(&report, options.bounds);
        to_stdout(&format!("{}: {what}\n{found}", design.name()))?;
        complain(&format!("{}: {}", design.name(), speed(&report, time)));
        if !report.complete {
            return Ok(stopped(&stop));
        }
    }
    Ok(0)
}

fn compare(bounds: BoundOptions) -> Result<u8, Failure> {
    let stop = Stop::on_signals()?;
    let mut columns = Vec::new();
    let mut schedules = String::new();
    let (name, text) = text_of(catalogue::STANDARD)?;
    let standard = read(&name, &text)?;
    for design in &standard.designs {
        let mut workshop = Workshop::new(standard.setup.under(design));
        let (report, time) = explored(&mut workshop, bounds, &stop)?;
        let name = design.name();
        let what = covered(&report, bounds);
        let found = findings(&mut workshop, &report, |_, _, _| Ok(()))?;
        let _ = write!(schedules, "\n{name}: {what}\n{found}");
        complain(&format!("{name}: {}", speed(&report, time)));
        let laws = laws::all().filter(|law| law.level(design.mode()).is_some()).collect();
        let complete = report.complete;
        columns.push(Column { name, laws, report });
        if !complete {
            break;
        }
    }
    let complete = columns.iter().all(|column| column.report.complete);
    to_stdout(&format!("{}{schedules}", table(&columns, Style::of_stdout())))?;
    Ok(if complete { 0 } else { stopped(&stop) })
}
