//! `emu check`: from options to a report and an exit status.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use arch::Arch;

use crate::cli::check_table::{DETAILS, Table};
use crate::cli::files;
use crate::cli::grades::unknown_files;
use crate::cli::machine::{self, Scope, Setup, Stop, exit_status, failure_of};
use crate::cli::options::{CheckFormat, CheckOptions};
use crate::cli::output::{
    Failure, Style, check_stdout, complain, one_line, status, to_stderr, written,
};
use crate::cli::outputs::Outputs;
use crate::cli::summary::{ending_words, unsupported};
use crate::cli::world;
use crate::engine::schedule::{MAX_BLOCKS, Visits};
use crate::export::ExportError;
use crate::grade::Methods;
use crate::grade::check::build::{Run, report};
use crate::grade::check::overview::sentence;
use crate::grade::check::page::{self, Limits};
use crate::grade::check::report::{Fault, Header, SCHEMA, VERSION};
use crate::grade::check::{Baseline, Checker, Report};
use crate::kernel::run;
use crate::kernel::state::PmuIrq;
use crate::kernel::task::Ending;
use crate::kernel::{Kernel, State};
use crate::numbers::grouped;

/// Status if something is wrong.
const FAULTS: u8 = 1;

/// Checks the guest that `options` describe; returns the exit status.
///
/// # Errors
///
/// [`Failure`] if the guest could not be run, or because of us.
pub fn run(options: &CheckOptions, cmdline: &[OsString]) -> Result<u8, Failure> {
    let baseline = options.baseline.as_deref().map(read_baseline).transpose()?;
    let stdout_is_taken = options.output.is_none();
    if stdout_is_taken {
        check_stdout()?;
    }
    let setup = Setup { machine: &options.machine, world: &options.world, stdout_is_taken };
    let world = setup.build(&options.command)?;
    if let Some(file) = &options.output {
        let mut outputs = Outputs::default();
        outputs.guest(&world);
        // A new baseline may take the place of the old one.
        if options.format != CheckFormat::Json {
            options.baseline.iter().for_each(|known| outputs.input("the baseline", known));
        }
        outputs.file("-o", file)?;
    }
    let scope = Scope::default();
    let mut state =
        machine::start(&world, &options.machine, PmuIrq::Nmi, Vec::new(), scope, cmdline)?;
    let mut methods = methods(options, state.arch)?;
    if let Some(known) = &baseline {
        methods = comparable(known.header(), options, &world.name, state.arch, methods)?;
    }
    let checker = start(options, &mut state, &methods)?;
    // Before the guest runs, which may take long.
    let output = options.output.as_deref().map(open).transpose()?;

    let stop = Stop::on_signals()?;
    let kernel = Kernel::new(state);
    let outcome = run::run(&kernel, &stop.flag, |_, _| Ok::<(), ExportError>(()));
    let report = kernel.with(|state| {
        let mut images = world::images(state.arch, state.config.vdso, state.vfs.tree.root());
        unsupported(state, &mut images).iter().for_each(|line| complain(line));
        let header = Header {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            guest: world.name.clone(),
            arch: state.arch.to_string(),
            methods,
            every: options.every,
        };
        let executions = state.core.executions();
        let instructions = state.stats.instructions;
        let run = Run { header, arch: state.arch, instructions, executions };
        checker.read(|results| report_of(run, results))
    });
    unknown_files(&checker.not_loaded(), checker.refused_mappings())
        .iter()
        .for_each(|line| complain(line));
    refused(checker.refused_executions()).iter().for_each(|line| complain(line));
    let ending = outcome.map_err(failure_of)?;
    let new: Vec<&Fault> = match &baseline {
        Some(known) => report.faults.iter().filter(|f| !known.knows(f)).collect(),
        None => report.faults.iter().collect(),
    };
    write(options, output, &report, &new, baseline.as_ref())?;
    to_stderr(&said(&world.name, ending, &report, &new, baseline.as_ref()));
    Ok(match ending {
        Ending::Limit | Ending::Interrupted | Ending::Strict => exit_status(ending, &stop),
        _ if new.is_empty() => 0,
        _ => FAULTS,
    })
}

use report as report_of;

/// The methods to check, by name.
fn methods(options: &CheckOptions, arch: Arch) -> Result<Vec<String>, Failure> {
    let methods = Methods::new(arch);
    let all = methods.names();
    for wanted in &options.methods {
        if !all.contains(wanted) {
            let all = all.join(", ");
            let message = format!("--method: no method is called {wanted:?}; there are {all}");
            return Err(Failure::new(status::FAILURE, message));
        }
    }
    let wanted = |name: &&String| options.methods.is_empty() || options.methods.contains(name);
    Ok(all.iter().filter(wanted).cloned().collect())
}

/// The methods whose faults can be compared with a baseline's, which was written as `known`
/// says: all of `methods` if they were asked for by name, else those that it has.
fn comparable(
    known: &Header,
    options: &CheckOptions,
    guest: &str,
    arch: Arch,
    methods: Vec<String>,
) -> Result<Vec<String>, Failure> {
    let refuse = |why: String| Err(Failure::new(status::FAILURE, format!("--baseline: {why}")));
    let file = |path: &str| one_line(path.rsplit('/').next().unwrap_or(path)).into_owned();
    let has = one_line(&known.methods.join(", ")).into_owned();
    if known.arch != arch.name() {
        return refuse(format!("it is for {}, the guest for {arch}", one_line(&known.arch)));
    }
    if options.every && !known.every {
        return refuse(
            "it was written without --every, which finds more: write it anew with --every".into(),
        );
    }
    let (both, more): (Vec<_>, Vec<_>) =
        methods.into_iter().partition(|method| known.methods.contains(method));
    if both.is_empty() || !options.methods.is_empty() && !more.is_empty() {
        let more = more.join(", ");
        if known.methods.is_empty() {
            return refuse("it was written with no method at all: write it anew".to_owned());
        }
        return refuse(format!("it has no {more}, only {has}: check these, or write it anew"));
    }
    if file(&known.guest) != file(guest) {
        let (was, is) = (file(&known.guest), file(guest));
        complain(&format!("--baseline: it is of another guest, {was}, not of {is}"));
    }
    if !more.is_empty() {
        complain(&format!("--baseline: only {has} is checked, as it was then"));
    }
    Ok(both)
}

fn start(
    options: &CheckOptions,
    state: &mut State,
    methods: &[String],
) -> Result<Checker, Failure> {
    let images = world::images(state.arch, state.config.vdso, state.vfs.tree.root());
    let visits = if options.every { Visits::Every } else { Visits::Sparse };
    Checker::start(state, images, visits, |name| methods.iter().any(|m| m == name))
        .map_err(|e| Failure::new(status::FAILURE, e))
}

/// The file for the report, which keeps what it has until there is one: it may be the
/// baseline, too.
fn open(path: &Path) -> Result<File, Failure> {
    files::open_output(path).map_err(|e| {
        Failure::new(status::FAILURE, format!("-o {}: cannot write it: {e}", path.display()))
    })
}

fn read_baseline(path: &Path) -> Result<Baseline, Failure> {
    let failed = |why: String| {
        Failure::new(status::FAILURE, format!("--baseline {}: {why}", path.display()))
    };
    let file = files::open(path).map_err(failed)?;
    Baseline::read(BufReader::new(file)).map_err(|e| failed(e.to_string()))
}

/// Writes the report to where it shall be.
fn write(
    options: &CheckOptions,
    output: Option<File>,
    report: &Report,
    new: &[&Fault],
    baseline: Option<&Baseline>,
) -> Result<(), Failure> {
    let style = if output.is_some() { Style::PLAIN } else { Style::of_stdout() };
    let write_to = |out: &mut dyn Write| -> io::Result<()> {
        match options.format {
            CheckFormat::Table => {
                let details = options.details.unwrap_or(DETAILS);
                let table = Table { report, new, baseline, details, style };
                out.write_all(table.render().as_bytes())
            }
            CheckFormat::Json => report.lines().try_for_each(|line| {
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")
            }),
            CheckFormat::Html => {
                let limits = options.details.map(Limits::per_method).unwrap_or_default();
                let page = page::render(report, new, baseline.is_some(), limits);
                out.write_all(page.as_bytes())
            }
        }?;
        out.flush()
    };
    let Some((file, path)) = output.zip(options.output.as_ref()) else {
        return written(write_to(&mut BufWriter::new(io::stdout().lock())));
    };
    // What is no regular file has no length.
    let _ = file.set_len(0);
    match write_to(&mut BufWriter::new(file)) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("-o {}: cannot write it: {e}", path.display());
            Err(Failure::new(status::FAILURE, message))
        }
        // The reader of a pipe has gone: it has seen enough.
        _ => Ok(()),
    }
}

/// What is said of executions that nobody could look at.
fn refused(executions: u64) -> Option<String> {
    let s = if executions == 1 { "" } else { "s" };
    let words = format!(
        "{} execution{s} of code that came behind the first {} blocks were not checked",
        grouped(executions),
        grouped(MAX_BLOCKS as u64)
    );
    (executions > 0).then_some(words)
}

/// The last line.
fn said(
    name: &str,
    ending: Ending,
    report: &Report,
    new: &[&Fault],
    baseline: Option<&Baseline>,
) -> String {
    let faults = sentence(report, new, baseline.is_some(), grouped);
    let nothing_new = baseline.is_some() && new.is_empty();
    format!(
        "emu: {name} {}; {} instruction{} checked{}: {faults}\n",
        ending_words(ending),
        grouped(report.summary.pcs),
        if report.summary.pcs == 1 { "" } else { "s" },
        if nothing_new { ", nothing new is wrong" } else { "" },
    )
}
