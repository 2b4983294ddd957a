//! The emulator against other ways to run the benchmark guest.

use std::path::Path;
use std::process::{Command, Stdio};

use arch::Arch;
use emu::engine::baseline::Translation;
use emu::engine::schedule::Visits;
use emu::export::Images;
use emu::grade::check::Checker;
use emu::grade::check::build::{Run, report};
use emu::grade::check::report::{Header, SCHEMA, VERSION};
use emu::grade::{TruthFile, Watch};
use emu::kernel::State;
use guests::Catalogue;

use crate::emulate::{Setup, bare, emulate, guest, run_with};
use crate::table::{Bound, Row, Table};
use crate::{PERIOD, RUNS, Result, timed};

/// A way to run the guest, and how its time is compared with that of `emu run`.
struct Way<'a> {
    what: &'static str,
    run: Box<dyn Fn() -> Result<()> + 'a>,
    /// Its time is divided by emu's, not emu's by its.
    of_emu: bool,
    promise: Option<Bound>,
    /// One that takes most of a minute: once is enough for a ratio of its size.
    once: bool,
}

impl<'a> Way<'a> {
    fn new(
        what: &'static str,
        of_emu: bool,
        promise: Option<Bound>,
        run: impl Fn() -> Result<()> + 'a,
    ) -> Way<'a> {
        Way { what, run: Box::new(run), of_emu, promise, once: false }
    }
}

/// All ways there are here, `emu run` first. What is to be compared with it is one more of them.
fn ways(path: &Path, arch: Arch) -> Vec<Way<'_>> {
    let mut ways = vec![
        Way::new("emu run, period 10^6", true, None, || emulate(path, &[], PERIOD).map(drop)),
        Way::new(
            "bare engine, virtual TLB: emu takes × of it",
            false,
            Some(Bound::AtMost(1.3)),
            move || bare(path, arch, Translation::Virtual),
        ),
        Way::new(
            "bare engine, default TLB: × of emu",
            true,
            Some(Bound::AtLeast(2.0)),
            move || bare(path, arch, Translation::Default),
        ),
        Way::new("emu run --truth: × of emu", true, Some(Bound::AtMost(1.5)), || {
            let watch = |state: &mut _| {
                let file = TruthFile { out: Box::new(std::io::sink()), root: None };
                Ok(Watch::start(state, Images::of_host(), Some(file)).map(drop)?)
            };
            run_with(path, &Setup::sampled(PERIOD), watch, |(), _| ()).map(drop)
        }),
        Way::new("emu check, all methods: × of emu", true, Some(Bound::AtMost(2.0)), || {
            let start = |state: &mut State| {
                Ok(Checker::start(state, Images::of_host(), Visits::Sparse, |_| true)?)
            };
            run_with(path, &Setup::sampled(NO_SAMPLES), start, written).map(drop)
        }),
    ];
    let qemu = format!("qemu-{}", arch.name());
    if let Some(run) = external(&[&qemu], path) {
        ways.push(Way::new("qemu-user: emu takes × of it", false, None, run));
    }
    let callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    if std::env::consts::ARCH == arch.name()
        && let Some(run) = external(&callgrind, path)
    {
        let way = Way::new("valgrind --tool=callgrind: × of emu", true, None, run);
        ways.push(Way { once: true, ..way });
    }
    ways
}

/// A period that the guest does not reach.
const NO_SAMPLES: u64 = 1 << 40;

/// Makes the report of a check and writes it to nowhere.
fn written(checker: Checker, state: &mut State) {
    let header = Header {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        guest: "bench".to_owned(),
        arch: state.arch.to_string(),
        methods: Vec::new(),
        every: false,
    };
    let (executions, instructions) = (state.core.executions(), state.stats.instructions);
    let run = Run { header, arch: state.arch, instructions, executions };
    let report = checker.read(|results| report(run, results));
    let lines = report.lines().filter_map(|line| serde_json::to_vec(&line).ok());
    std::hint::black_box(lines.map(|line| line.len()).sum::<usize>());
}

/// A program on the host that runs the guest, if it is installed.
fn external(command: &[&str], path: &Path) -> Option<impl Fn() -> Result<()> + use<>> {
    let found = std::env::var_os("PATH")
        .map(|paths| std::env::split_paths(&paths).any(|d| d.join(command[0]).is_file()))?;
    let words: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    let path = path.to_owned();
    found.then_some(move || {
        let mut run = Command::new(&words[0]);
        run.args(&words[1..]).arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        run.status()?;
        Ok(())
    })
}

/// The time of the whole benchmark guest by each way.
pub fn speed(catalogue: &Catalogue, arch: Arch, table: &mut Table) -> Result<()> {
    let path = guest(catalogue, "bench", arch)?;
    let ways = ways(&path, arch);
    let mut best = vec![f64::INFINITY; ways.len()];
    for round in 0..RUNS {
        for (way, best) in ways.iter().zip(&mut best).filter(|(w, _)| round == 0 || !w.once) {
            *best = best.min(timed(&way.run)?.as_secs_f64());
        }
        eprint!("\r{arch}: round {} of {RUNS} ", round + 1);
    }
    eprintln!();
    let emu = best[0];
    for (n, (way, &best)) in ways.iter().zip(&best).enumerate() {
        let mut row = Row::new("benchmark guest", arch.name(), way.what, best, "s");
        if n > 0 {
            row = row.ratio(if way.of_emu { best / emu } else { emu / best });
        }
        table.push(way.promise.into_iter().fold(row, Row::promise));
    }
    Ok(())
}
