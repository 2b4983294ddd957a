//! The command line: one struct a group of options, and what their words mean.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use arch::Arch;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::export::Format;
use crate::kernel::state::PmuIrq;
use crate::perf::event::{self, Defaults, EventError};
use crate::perf::record::{Event, Rate};

/// Runs static Linux programs for x86_64 and aarch64 on an emulated CPU under a modelled
/// kernel, and samples them as `perf record` does.
#[derive(Debug, Parser)]
#[command(
    name = "emu",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  emu run                       sample the demo program into perf.data
  emu run -- ./prog arg         sample a program of your own
  emu run --arch aarch64 bench  sample a catalogue guest for the other architecture
  emu guests                    list the catalogue
  emu run --help                all options of a run, what the guest sees, exit status"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a guest and sample it
    Run(Box<RunOptions>),
    /// List the catalogue of guests, or show one of them
    Guests(GuestsOptions),
}

/// `emu run`
#[derive(Debug, Args)]
#[command(
    override_usage = "emu run [OPTIONS] [--] [GUEST [ARG]...]",
    long_about = "\
Run a guest and sample it.

GUEST is a name from `emu guests` or the path of a static Linux program. What follows it
are the guest's arguments, options included. Without GUEST the demo runs. A catalogue
guest without arguments gets those of its catalogue entry.",
    after_help = "\
What the guest sees does not depend on the machine: time is virtual (one instruction is one
nanosecond), addresses, process ids and random numbers are fixed, and so is the environment:
PATH=/usr/bin:/bin HOME=/ LANG=C TERM=dumb. It can read its own program file, the files that
its arguments name, and standard input. What it writes to files is kept in memory and dropped.
It starts in /, or in the current directory if an argument names a file relative to that.

Exit status: that of the guest; 128+N if signal N ended it; 124 if --max-instructions did;
125 if emu failed; 126 if GUEST cannot be run; 127 if it is not found; 130 after Ctrl-C.
The profile is completed in every case.

Examples:
  emu run demo                              cycles at 4000 Hz with callchains, into perf.data
  emu run -e page-faults -c 1 ./prog        every page fault of a program of your own
  emu run -e cycles:u,branches -c 100k demo two events, fixed periods
  emu run --format folded -o - demo         folded stacks on standard output
  emu run -o - bench | perf report -i -     straight into perf"
)]
pub struct RunOptions {
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// See [`OutputOptions`].
    #[command(flatten)]
    pub output: OutputOptions,
    /// See [`WorldOptions`].
    #[command(flatten)]
    pub world: WorldOptions,
    /// See [`MachineOptions`].
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Name or path of the guest, then its arguments
    #[arg(trailing_var_arg = true, value_name = "GUEST [ARG]", help_heading = "Guest")]
    pub command: Vec<OsString>,
}

/// What is sampled, in perf's words.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling (as perf record)")]
pub struct SamplingOptions {
    /// Events, separated by commas; may be repeated: cycles, instructions, branches,
    /// cpu-clock, page-faults, context-switches, raw_syscalls:sys_enter,
    /// raw_syscalls:sys_exit; with :u user code only, with :k kernel code only
    #[arg(short = 'e', long = "event", value_name = "EVENTS", default_value = "cycles")]
    pub events: Vec<String>,
    /// Take a sample every N events (suffixes k, M, G)
    #[arg(short = 'c', long, value_name = "N", value_parser = positive, conflicts_with = "freq")]
    pub count: Option<u64>,
    /// Take about N samples a second of virtual time, at most 100k [default: 4000;
    /// tracepoints: every hit]
    #[arg(short = 'F', long, value_name = "N", value_parser = frequency)]
    pub freq: Option<u64>,
    /// Record callchains by frame pointer (the default)
    #[arg(short = 'g', conflicts_with = "no_call_graph")]
    pub callchain: bool,
    /// How to record callchains; fp is the only mode
    #[arg(long, value_name = "fp", value_parser = call_graph, conflicts_with = "no_call_graph")]
    pub call_graph: Option<CallGraph>,
    /// Record no callchains
    #[arg(long)]
    pub no_call_graph: bool,
    /// Longest callchain, 1 to 1024 addresses [default: 127]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_stack: Option<u16>,
}

/// Where the profile goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Write the profile to FILE; an existing FILE becomes FILE.old. With - it goes to
    /// standard output and the guest's output to standard error [default: perf.data, or
    /// perf.folded, perf.script by format]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the profile: perf (perf.data), folded (one line a stack, for flame
    /// graphs), script (text as of perf script)
    #[arg(long, value_name = "FORMAT", default_value = "perf")]
    pub format: Format,
    /// Print no summary
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// The guest's world.
#[derive(Debug, Args)]
#[command(next_help_heading = "What the guest sees")]
pub struct WorldOptions {
    /// Make the host directory DIR the guest's /; GUEST is then a path below it
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Set an environment variable; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(variable))]
    pub env: Vec<Variable>,
}

/// The emulated machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineOptions {
    /// Architecture for which a catalogue guest is taken: x86_64 or aarch64
    /// [default: x86_64]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<Arch>,
    /// How a counter interrupts: nmi (anywhere) or irq (not where interrupts are off)
    #[arg(long, value_name = "nmi|irq", default_value = "nmi", value_parser = pmu_irq)]
    pub pmu_irq: PmuIrq,
    /// Seed of the random numbers that the guest gets
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub seed: u64,
    /// Choose addresses at random from this seed
    #[arg(long, value_name = "SEED", value_parser = seed)]
    pub aslr: Option<u64>,
    /// Stop the guest after N user instructions (suffixes k, M, G), with status 124
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_instructions: Option<u64>,
    /// Stop at the first thing that emu does not support, with status 125
    #[arg(long)]
    pub strict: bool,
    /// Print system calls on standard error
    #[arg(long)]
    pub strace: bool,
}

/// `emu guests`
#[derive(Debug, Args)]
pub struct GuestsOptions {
    /// Show all about this guest
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// How callchains are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// By frame pointer, in the kernel, when the sample is taken.
    Fp,
}

/// An environment variable, name first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Not empty, without `=`.
    pub name: Vec<u8>,
    /// Any bytes.
    pub value: Vec<u8>,
}

impl Variable {
    /// A variable of text.
    pub fn new(name: &str, value: &str) -> Variable {
        Variable { name: name.into(), value: value.into() }
    }

    /// `NAME=value`
    pub fn entry(&self) -> Vec<u8> {
        [&self.name[..], b"=", &self.value].concat()
    }
}

impl SamplingOptions {
    /// The events to open.
    ///
    /// # Errors
    ///
    /// [`EventError`] for a word that names none.
    pub fn events(&self) -> Result<Vec<Event>, EventError> {
        let rate = match (self.count, self.freq) {
            (Some(period), _) => Rate::Period(period),
            (None, Some(frequency)) => Rate::Frequency(frequency),
            (None, None) => Rate::Frequency(DEFAULT_FREQUENCY),
        };
        let defaults = Defaults {
            rate,
            explicit: self.count.is_some() || self.freq.is_some(),
            callchain: !self.no_call_graph,
            max_stack: self.max_stack.unwrap_or(0),
        };
        let mut events = Vec::new();
        for list in &self.events {
            events.extend(event::parse(list, defaults)?);
        }
        Ok(events)
    }
}

/// perf's default for `-F`.
const DEFAULT_FREQUENCY: u64 = 4000;
/// `kernel.perf_event_max_sample_rate`
const MAX_FREQUENCY: u64 = 100_000;

/// A number with an optional suffix for thousands, millions, thousand millions.
fn number(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return Err("use a whole number such as 1000000, 1000k or 1M".to_owned());
    }
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number.ok_or_else(|| format!("use a number up to {}", u64::MAX))
}

fn positive(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("use a number from 1 on".to_owned()),
        n => Ok(n),
    }
}

fn frequency(text: &str) -> Result<u64, String> {
    match positive(text)? {
        n if n > MAX_FREQUENCY => {
            Err(format!("the kernel's limit is {MAX_FREQUENCY}; for more samples use -c"))
        }
        n => Ok(n),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("use a number from 0 to {}, or in hexadecimal with 0x", u64::MAX))
}

fn call_graph(text: &str) -> Result<CallGraph, String> {
    match text {
        "fp" => Ok(CallGraph::Fp),
        known if known.split(',').all(|w| ["fp", "dwarf", "sframe", "lbr", "defer"].contains(&w)) => {
            Err("emu cannot do this yet; use fp, or leave it out".to_owned())
        }
        _ => Err("the only mode is fp".to_owned()),
    }
}

fn pmu_irq(text: &str) -> Result<PmuIrq, String> {
    match text {
        "nmi" => Ok(PmuIrq::Nmi),
        "irq" => Ok(PmuIrq::Irq),
        _ => Err("use nmi or irq".to_owned()),
    }
}

fn variable(text: OsString) -> Result<Variable, String> {
    let text = text.into_vec();
    match text.iter().position(|&b| b == b'=') {
        Some(at) if at > 0 => {
            Ok(Variable { name: text[..at].to_vec(), value: text[at + 1..].to_vec() })
        }
        _ => Err("use NAME=VALUE".to_owned()),
    }
}

/// Whether `-o` names standard output.
pub fn is_stdout(file: &OsStr) -> bool {
    file.as_bytes() == b"-"
}
