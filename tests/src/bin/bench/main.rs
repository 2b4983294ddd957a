//! `make bench`: ratios against baselines measured in the same run.
//!
//! Every row is the minimum of five interleaved runs, so that a busy moment of the host
//! hits all contestants alike. The table goes to standard output, the numbers to
//! `target/bench.json`; the status is 1 if a promise is not kept. Words after the program's
//! name choose parts of it, and architectures: `bench --help` lists them.

mod costs;
mod emulate;
mod output;
mod scenarios;
mod speed;
mod table;
mod tasks;
mod tracers;
mod unwinding;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arch::Arch;
use guests::Catalogue;

use output::line;
use table::Table;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs of each contestant; the minimum counts.
const RUNS: usize = 5;
/// Period of the benchmark's profile, in instructions.
const PERIOD: u64 = 1_000_000;
/// Words that choose.
const PARTS: [&str; 11] = [
    "speed",
    "start",
    "samples",
    "deferred",
    "syscalls",
    "unwinding",
    "memory",
    "regions",
    "crowds",
    "tracers",
    "scenarios",
];

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().collect();
    let catalogue = Catalogue::load(&guests::default_dir())?;
    if let [_, mode, name] = &args[..]
        && mode == "--resident"
    {
        return costs::resident(&catalogue, name).map(|()| ExitCode::SUCCESS);
    }
    let arches = Arch::ALL.map(Arch::name);
    if help(&args[1..], &arches)? {
        return Ok(ExitCode::SUCCESS);
    }
    line(format_args!("minima of {RUNS} interleaved runs; × are ratios within this run\n"));
    let mut table = Table::default();
    let only = |kind: &[&str], word: &str| {
        let mut chosen = args[1..].iter().filter(|a| kind.contains(&a.as_str())).peekable();
        chosen.peek().is_none() || chosen.any(|a| a == word)
    };
    for arch in Arch::ALL.into_iter().filter(|a| only(&arches, a.name())) {
        if only(&PARTS, "speed") {
            speed::speed(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "start") {
            costs::start(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "samples") {
            costs::samples(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "deferred") {
            tasks::deferred(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "syscalls") {
            tasks::syscalls(&catalogue, arch, &mut table)?;
        }
        if only(&PARTS, "unwinding") {
            unwinding::recorded(&catalogue, arch, &mut table)?;
        }
    }
    if only(&PARTS, "unwinding") {
        unwinding::growth(&mut table);
    }
    if only(&PARTS, "memory") {
        costs::memory(&mut table)?;
    }
    if only(&PARTS, "regions") {
        costs::regions(&mut table)?;
    }
    if only(&PARTS, "crowds") {
        tasks::crowds(&catalogue, &mut table)?;
    }
    if only(&PARTS, "tracers") {
        tracers::tracers(&mut table);
    }
    if only(&PARTS, "scenarios") {
        scenarios::scenarios(&mut table)?;
    }
    let out = target_dir().join("bench.json");
    std::fs::write(&out, serde_json::to_vec_pretty(&table.rows)?)?;
    line(format_args!("\nnumbers in {}.", out.display()));
    let broken: Vec<String> = table.broken().collect();
    if broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("bench: {} promises NOT KEPT: {}", broken.len(), broken.join("; "));
    Ok(ExitCode::FAILURE)
}

/// Says which words there are, if it is asked to. Whether it was.
///
/// # Errors
///
/// A word that chooses nothing.
fn help(words: &[String], arches: &[&str]) -> Result<bool> {
    let usage = format!("usage: bench [{}]... [{}]...", PARTS.join("|"), arches.join("|"));
    let known = |word: &&String| PARTS.iter().chain(arches).any(|known| known == word);
    match words.iter().find(|word| !known(word)) {
        None => Ok(false),
        Some(word) if ["-h", "--help"].contains(&word.as_str()) => {
            line(format_args!("{usage}\nWithout a word it is all of them."));
            Ok(true)
        }
        Some(word) => Err(format!("nothing is called {word}; {usage}").into()),
    }
}

fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let release = exe.parent().map(Path::to_path_buf).unwrap_or_default();
    release.parent().map(Path::to_path_buf).unwrap_or(release)
}

fn timed<T>(f: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    black_box(f()?);
    Ok(start.elapsed())
}

/// The shortest of [`RUNS`] times, in seconds.
fn shortest<T>(mut f: impl FnMut() -> Result<T>) -> Result<f64> {
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(timed(&mut f)?.as_secs_f64().min(best)))
}
