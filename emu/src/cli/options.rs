//! The command line: one struct a group of options, and what their words mean.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use arch::Arch;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::cli::cpu_list::{CpuList, cpu_list};
use crate::cli::deferring::DeferringOptions;
use crate::cli::explain::ExplainOptions;
use crate::cli::merge::MergeOptions;
use crate::cli::points::PointsOptions;
use crate::cli::record::RecordOptions;
use crate::cli::replay::ReplayOptions;
use crate::cli::scenario::ScenarioOptions;
use crate::cli::session::{SessionOptions, session};
use crate::cli::test::TestOptions;
use crate::cli::timeline::TimelineOptions;
use crate::cli::values::{
    Variable, address, call_graph, frequency, from_to, mmap_pages, period, pmu_irq, positive, seed,
    sysctl, variable, vdso,
};
use crate::export::Format;
use crate::kernel::state::PmuIrq;
use crate::loader::vdso::Vdso;
use crate::perf::callchain::MAX_STACK;
use crate::perf::event::{self, Defaults, EventError};
use crate::perf::record::{Event, Rate, UserStack};

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
  emu record -o run.emu demo    keep a run; `emu replay run.emu` runs it again anywhere
  emu explain perf.data 3       one sample of a run with --truth, word by word
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
    /// Run and sample a guest, and keep all of the run in a file
    Record(Box<RecordOptions>),
    /// Run a recording again, as it was or sampled otherwise
    Replay(Box<ReplayOptions>),
    /// Run the recordings of a directory, and say what is not as expected
    Test(TestOptions),
    /// Print a binary's instructions with the rows of its unwind tables
    Show(ShowOptions),
    /// Check every unwinder at every instruction that a guest executes
    Check(Box<CheckOptions>),
    /// Explain a sample of a run with --truth: its stack, and what each unwinder made of it
    Explain(ExplainOptions),
    /// Put the deferred callchains of a profile together
    Merge(MergeOptions),
    /// List the catalogue of guests, or show one of them
    Guests(GuestsOptions),
    /// List the steps of the modelled kernel, with their rules and costs
    Points(PointsOptions),
    /// Play what happens when, or search all that could happen
    Scenario(ScenarioOptions),
}

impl Command {
    /// The guest that it runs, and its arguments.
    pub(super) fn guest(&mut self) -> Option<&mut Vec<OsString>> {
        match self {
            Command::Run(options) => Some(&mut options.command),
            Command::Record(options) => Some(&mut options.command),
            Command::Check(options) => Some(&mut options.command),
            _ => None,
        }
    }
}

/// `emu run`
#[derive(Debug, Args)]
#[command(
    override_usage = "emu run [OPTIONS] [--] [GUEST [ARG]...]",
    disable_help_flag = true,
    help_template = "\
{about-with-newline}
{usage-heading} {usage}

GUEST is a name from `emu guests` or the path of a static Linux program. What follows a
path are the guest's arguments, options included; options of emu may also follow a name.
Without GUEST the demo runs; without ARG a guest of the catalogue gets the arguments that
the catalogue has for it.

{all-args}{after-help}",
    after_help = "\
The guest's world does not depend on the machine: time is virtual (an instruction takes
a nanosecond); addresses, process ids and random numbers are fixed, and so is the
environment: PATH=/usr/bin:/bin HOME=/ LANG=C TERM=dumb. The guest can read its program
file, the files that its arguments name, and standard input. Files that it writes are
kept in memory and dropped at the end. It starts in /, or in the current directory if an
argument names a file relative to that. A guest of the catalogue is /bin/NAME to itself.

Exit status: the guest's; 128+N if signal N ended it; 124 if --max-instructions did;
125 if emu failed; 126 if GUEST cannot be run; 127 if it is not found; 130 after Ctrl-C.
What was sampled until then is in the profile in any case.

Examples:
  emu run                                     the demo, into perf.data
  emu run -e page-faults -c 1 -- ./prog arg   every page fault of a program of your own
  emu run -e cycles:u,branches -c 100k bench  two events with fixed periods
  emu run --format folded -o - demo           folded stacks on standard output
  emu run -o - bench | perf report -i -       straight into perf
  emu run -c 100k --session '-a -F 997 --call-graph fp,defer -o all.data' demo
                                              two sessions, each with its own profile
  emu run --timeline=1..40 hello              the kernel's first forty events, step by step
  emu run --laws --call-graph fp,defer -c 700 syscalls
                                              known flaws of deferred unwinding, as they happen"
)]
pub struct RunOptions {
    /// See [`SamplingOptions`].
    #[command(flatten)]
    pub sampling: SamplingOptions,
    /// See [`OutputOptions`].
    #[command(flatten)]
    pub output: OutputOptions,
    /// See [`TimelineOptions`].
    #[command(flatten)]
    pub timeline: TimelineOptions,
    /// Watch the laws that the modelled kernel has to keep, at every step. A break is told on
    /// standard error, with the timeline before it; one that no known hazard of the design
    /// explains ends the run with status 125
    #[arg(long, help_heading = "Timeline")]
    pub laws: bool,
    /// See [`WorldOptions`].
    #[command(flatten)]
    pub world: WorldOptions,
    /// See [`MachineOptions`].
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Print help
    #[arg(short, long, action = ArgAction::Help, help_heading = "Help")]
    pub help: Option<bool>,
    /// Name or path of the guest, then its arguments.
    #[arg(trailing_var_arg = true, hide = true)]
    pub command: Vec<OsString>,
}

/// `emu check`
#[derive(Debug, Args)]
#[command(
    override_usage = "emu check [OPTIONS] [--] [GUEST [ARG]...]",
    disable_help_flag = true,
    help_template = "\
{about-with-newline}
{usage-heading} {usage}

GUEST runs as under `emu run`, the demo if there is none. At its instructions one step of
each unwinder is compared with the true caller: stack pointer, return address and
callee-saved registers. If a step is right at every instruction, every stack is right.

{all-args}{after-help}",
    after_help = "\
An instruction is checked in the first 8 executions of its block of code and then at every
power of two. It counts as wrong if one check was, as not covered if no table says anything
about it, and as undecided if its true caller was never known: the stack pointer was
between two stacks, as inside longjmp, or the caller one of the middle frames of more than
1,048,576, which are not kept. docs/verdicts.md says what each word of a report means.

Exit status: 1 if anything is wrong (with --baseline: anything new), else 0; 124, 125, 126,
127 and 130 as of `emu run`. The guest's own status is only said. Unless -o names a file,
the report is on standard output and the guest's output on standard error.

Examples:
  emu check recursion-glibc --method dwarf      the CFI of a glibc program
  emu check --format html -o check.html ./prog  a page to look at
  emu check --format json -o base.jsonl ./prog  remember what is wrong today
  emu check --baseline base.jsonl ./prog        fail only on what is new"
)]
pub struct CheckOptions {
    /// Check these, separated by commas [default: all that there are]
    #[arg(long = "method", value_name = "METHODS", value_delimiter = ',', help_heading = "Check")]
    pub methods: Vec<String>,
    /// Check every execution of every instruction: slow
    #[arg(long, help_heading = "Check")]
    pub every: bool,
    /// Only count faults that are not in FILE, an earlier report in JSON
    #[arg(long, value_name = "FILE", help_heading = "Check")]
    pub baseline: Option<PathBuf>,
    /// Format of the report: table, json (an object a line) or html (a page)
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub format: CheckFormat,
    /// Write the report to FILE
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Wrong instructions that are shown in full, 0 for all: so many of each method in a table
    /// [default: 3], of each method and function on a page [default: 6, and 1,500 in all]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub details: Option<usize>,
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

/// How a check is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckFormat {
    /// For a terminal.
    Table,
    /// An object a line.
    Json,
    /// A page.
    Html,
}

/// What is sampled, in perf's words.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling (as perf record)")]
pub struct SamplingOptions {
    /// Events, separated by commas (may be repeated): cycles, instructions, branches,
    /// cpu-clock, task-clock, page-faults, context-switches, raw_syscalls:sys_enter,
    /// raw_syscalls:sys_exit, syscalls:sys_enter_NAME, syscalls:sys_exit_NAME (of system
    /// call NAME), signal:signal_generate, signal:signal_deliver, sched:sched_switch,
    /// sched:sched_waking, sched:sched_process_fork, sched:sched_process_exec,
    /// sched:sched_process_exit, x86_fpu:x86_fpu_regs_activated, preemptirq:irq_disable,
    /// preemptirq:irq_enable, preemptirq:preempt_disable, preemptirq:preempt_enable,
    /// uprobe:SYMBOL or uprobe:0xADDRESS (a user instruction), uretprobe:SYMBOL or
    /// uretprobe:0xADDRESS (the return of the function that begins there), kprobe:FUNCTION (a
    /// modelled kernel function that another one calls),
    /// mem:ADDRESS or mem:ADDRESS/LENGTH with :r, :w, :rw or :x behind it (a hardware breakpoint:
    /// loads, stores, execution);
    /// :u after a name takes user code only, :k kernel code only
    #[arg(short = 'e', long = "event", value_name = "EVENTS", default_value = "cycles")]
    pub events: Vec<String>,
    /// Take a sample every N events (suffixes k, M, G)
    #[arg(short = 'c', long, value_name = "N", value_parser = period, conflicts_with = "freq")]
    pub count: Option<u64>,
    /// Take about N samples a second of virtual time, at most 100k [default: 4000, but
    /// every hit of a tracepoint]
    #[arg(short = 'F', long, value_name = "N", value_parser = frequency)]
    pub freq: Option<u64>,
    /// Record callchains by frame pointer (the default)
    #[arg(short = 'g', conflicts_with = "no_call_graph")]
    pub callchain: bool,
    /// How to record callchains: fp (by frame pointer, at the sample); dwarf or dwarf,SIZE (SIZE
    /// bytes of the user stack and the registers in each sample, for perf to unwind; 8192 if not
    /// given, at most 65528); sframe (at the sample, by the program's SFrame section first);
    /// fp,defer (the user part on the way back to user mode, as Linux 7.3 does on x86_64);
    /// sframe,defer (there, by the SFrame section first, as proposed for both architectures)
    #[arg(long, value_name = "HOW", value_parser = call_graph,
        conflicts_with = "no_call_graph")]
    pub call_graph: Option<CallGraph>,
    /// Open the events on all CPUs, not on the guest's tasks
    #[arg(short = 'a', long, conflicts_with = "cpu")]
    pub all_cpus: bool,
    /// Open the events on these CPUs: numbers and ranges, as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    /// Do not follow what the guest forks, its threads included: only its first task is sampled
    #[arg(short = 'i', long)]
    pub no_inherit: bool,
    /// Record when tasks are switched
    #[arg(long)]
    pub switch_events: bool,
    /// Record only the user part of callchains
    #[arg(long, conflicts_with_all = ["kernel_callchains", "no_call_graph"])]
    pub user_callchains: bool,
    /// Record only the kernel part of callchains
    #[arg(long, conflicts_with = "no_call_graph")]
    pub kernel_callchains: bool,
    /// The deferred unwinder's design: mask (Linux 7.3), cookie or timestamp (as posted before
    /// it), per-work (a reviewer's sketch)
    #[arg(long, value_name = "DESIGN", default_value = "mask",
        value_parser = ["mask", "cookie", "timestamp", "per-work"])]
    pub deferred: String,
    /// Write deferred callchains merged, for perf older than 7
    #[arg(long)]
    pub merge: bool,
    /// Record no callchains
    #[arg(long)]
    pub no_call_graph: bool,
    /// Longest callchain, 1 to kernel.perf_event_max_stack addresses, at most 1024 [default: 127];
    /// for more than 127 set --sysctl too
    #[arg(long, value_name = "N", value_parser = from_to::<u16>(1, 1024))]
    pub max_stack: Option<u16>,
    /// How a counter interrupts: nmi (anywhere), nmi,latch (counters count again before it returns,
    /// so that another may be latched; x86_64) or irq (not where interrupts are off)
    #[arg(long, value_name = "nmi|nmi,latch|irq", default_value = "nmi", value_parser = pmu_irq)]
    pub pmu_irq: PmuIrq,
    /// Read the records slowly: N bytes a millisecond of virtual time (suffixes k, M, G). What
    /// finds no room in its CPU's ring is lost, and said to be [default: as fast as they come]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub reader_rate: Option<u64>,
    /// Pages of each ring, for --reader-rate, or their size (suffixes B, K, M, G), rounded up to a
    /// power of two
    #[arg(short = 'm', long, value_name = "N", default_value_t = MMAP_PAGES, value_parser = mmap_pages)]
    pub mmap_pages: u32,
    /// Sample with another session as well (may be repeated, 16 at most): WORDS are those of this
    /// group in quotes, as for a second perf record beside the first, with -o FILE [default:
    /// perf.2.data, perf.3.data, ...], and --from NS and --until NS of virtual time [default: the
    /// whole run]. Events, callchains, rings and scope are its own
    #[arg(long = "session", value_name = "WORDS", value_parser = session, allow_hyphen_values = true)]
    pub sessions: Vec<Arc<SessionOptions>>,
    /// Follow every call and return, and say for each way to unwind how many of the samples'
    /// user stacks it gets right (undecided: between two stacks, or among more than 1,048,576
    /// live frames, of which the middle ones are not kept); the true stacks go into FILE.truth
    /// beside the profile, for `emu explain`; docs/verdicts.md says what the verdicts mean
    #[arg(long)]
    pub truth: bool,
    /// What the designs meet besides perf. It comes last: its heading is that of all options below.
    #[command(flatten)]
    pub deferring: DeferringOptions,
}

/// Where the profile goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Write the profile to FILE; an existing FILE becomes FILE.old. With - it goes to
    /// standard output and the guest's output to standard error [default: perf.data,
    /// perf.folded or perf.script, by format]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the profile: perf (perf.data), folded (one line a stack, for flame
    /// graphs), script (text as of perf script)
    #[arg(long, value_name = "FORMAT", default_value = "perf")]
    pub format: Format,
    /// Print no summary; what --truth and --laws find is printed all the same
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// The guest's world.
#[derive(Debug, Args)]
#[command(next_help_heading = "The guest's world")]
pub struct WorldOptions {
    /// Make the host directory DIR the guest's /; GUEST is then a path below it
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Set an environment variable (may be repeated)
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
    /// Seed of the random numbers that the guest gets
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub seed: u64,
    /// Choose addresses at random from this seed
    #[arg(long, value_name = "SEED", value_parser = seed)]
    pub aslr: Option<u64>,
    /// What the guest finds as its vDSO: full, no-cfi (the same code without unwind tables) or
    /// off (none; x86_64)
    #[arg(long, value_name = "full|no-cfi|off", default_value = "full", value_parser = vdso)]
    pub vdso: Vdso,
    /// Emulate N CPUs, at most 64; threads and processes run on all of them
    #[arg(long, value_name = "N", default_value = "1", value_parser = from_to::<u32>(1, 64))]
    pub cpus: u32,
    /// Set kernel.perf_event_NAME (may be repeated): paranoid (what the guest's own
    /// perf_event_open may measure, -1 (all) to 3; 2 if not set), max_sample_rate (samples a second
    /// of an event, measured in each tick of 4 ms; it stands still until the next if it takes more;
    /// no limit if not set), max_stack (addresses of a callchain, 127), max_contexts_per_stack
    /// (markers in it, 8)
    #[arg(long, value_name = "NAME=N", default_value = "kernel.perf_event_paranoid=2",
        value_parser = sysctl)]
    pub sysctl: Vec<Sysctl>,
    /// Counters of the PMU, for hardware events, of -e and of guests: if there are more of those,
    /// they take turns of 4 ms [default: one each]
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 64))]
    pub pmu_counters: Option<u32>,
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

/// `emu show`
#[derive(Debug, Args)]
#[command(after_help = "\
CFI is .eh_frame, or where that is silent .debug_frame. A row is printed where it begins:
  cfa=rsp+16     the canonical frame address, here rsp + 16
  ra=c-8         the return address is in memory at CFA - 8 (ra=x30: in x30)
  rbp=c-16       the caller's rbp is at CFA - 16; registers not named are unchanged
                 (d8 to d15 of aarch64, which functions preserve, are named, too)
  x19=v-8        the caller's x19 is CFA - 8 itself
  ra=undefined   there is no caller
  pac=A          the return address is signed with key A
  signal         a signal trampoline
  -              the table has no row
A ! stands where the two tables disagree about the CFA, the return address (RA) or the
frame pointer (FP), and where only one of them has a row.

Addresses are those that the file is linked for.

Examples:
  emu show recursion --function fib
  emu show /usr/bin/ls --pc 0x6aa0")]
pub struct ShowOptions {
    /// Path of a program or library for x86_64 or aarch64, or a name from `emu guests`
    #[arg(value_name = "FILE")]
    pub file: OsString,
    /// Show only the function that covers this address (hexadecimal), and mark it
    #[arg(long, value_name = "ADDR", value_parser = address, conflicts_with = "function")]
    pub pc: Option<u64>,
    /// Show only the functions of this name, mangled or not
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Architecture for which a catalogue guest is taken: x86_64 or aarch64
    /// [default: x86_64]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<Arch>,
    /// Columns of the listing, 80 to 1000 [default: those of the terminal, or 100]
    #[arg(long, value_name = "N", value_parser = from_to::<u16>(80, 1000))]
    pub width: Option<u16>,
}

/// `emu guests`
#[derive(Debug, Args)]
pub struct GuestsOptions {
    /// Show all about this guest
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// A setting of the modelled kernel, below `kernel.perf_event_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sysctl {
    /// `paranoid`
    Paranoid(i32),
    /// `max_sample_rate`
    MaxSampleRate(u64),
    /// `max_stack`
    MaxStack(u32),
    /// `max_contexts_per_stack`
    MaxContexts(u32),
}

/// How callchains are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraph {
    /// By frame pointer, in the kernel, when the sample is taken.
    Fp,
    /// Kernel part as ever; of the user stack so many bytes are copied.
    Dwarf(u16),
    /// The user part by SFrame, then frame pointer, when the sample is taken.
    Sframe,
    /// The user part by SFrame, then frame pointer, on the way back to user mode.
    DeferredSframe,
    /// The user part by frame pointer on the way back to user mode.
    Deferred,
}

impl SamplingOptions {
    /// Whether user callchains are to be deferred.
    pub const fn defers(&self) -> bool {
        matches!(self.call_graph, Some(CallGraph::Deferred | CallGraph::DeferredSframe))
    }

    /// Whether the kernel walks by SFrame first.
    pub const fn uses_sframe(&self) -> bool {
        matches!(self.call_graph, Some(CallGraph::Sframe | CallGraph::DeferredSframe))
    }

    /// Refuses what the kernel, as `machine` sets it, would refuse.
    ///
    /// # Errors
    ///
    /// In words: a frequency or a callchain beyond the kernel's limit.
    pub fn check_limits(&self, machine: &MachineOptions) -> Result<(), String> {
        let rate = machine.most_samples();
        if self.freq.is_some_and(|freq| freq > rate) {
            return Err(format!("-F: maximum frequency rate ({rate} Hz) exceeded"));
        }
        let limit = machine.max_stack();
        if let Some(wanted) = self.max_stack.filter(|&wanted| u32::from(wanted) > limit) {
            return Err(format!(
                "--max-stack: {wanted} is above kernel.perf_event_max_stack={limit}; the kernel \
                 says EOVERFLOW; see --sysctl"
            ));
        }
        Ok(())
    }

    /// The events to open. As perf does, with a lower frequency than it would take by itself if the
    /// kernel's limit is below.
    ///
    /// # Errors
    ///
    /// [`EventError`] for a word that names none.
    pub fn events(&self, machine: &MachineOptions) -> Result<Vec<Event>, EventError> {
        let rate = match (self.count, self.freq) {
            (Some(period), _) => Rate::Period(period),
            (None, Some(frequency)) => Rate::Frequency(frequency),
            (None, None) => Rate::Frequency(machine.most_samples().min(DEFAULT_FREQUENCY)),
        };
        let defaults = Defaults {
            rate,
            explicit: self.count.is_some() || self.freq.is_some(),
            callchain: !self.no_call_graph,
            exclude_callchain_user: self.kernel_callchains,
            exclude_callchain_kernel: self.user_callchains,
            defer: self.defers(),
            user_stack: match self.call_graph {
                Some(CallGraph::Dwarf(size)) => UserStack::Dump(size),
                Some(CallGraph::Sframe) => UserStack::Sframe,
                _ => UserStack::FramePointer,
            },
            max_stack: self.max_stack.unwrap_or(0),
        };
        let mut events = Vec::new();
        for list in &self.events {
            events.extend(event::parse(list, defaults)?);
        }
        match events.len() {
            ..=event::MOST => Ok(events),
            count => Err(EventError::TooMany { count }),
        }
    }
}

/// perf's default for `-m`.
pub const MMAP_PAGES: u32 = 128;
/// perf's default for `-F`.
const DEFAULT_FREQUENCY: u64 = 4000;

/// Whether `-o` names standard output.
pub fn is_stdout(file: &OsStr) -> bool {
    file.as_bytes() == b"-"
}

impl MachineOptions {
    /// The kernel's limit on frequencies, if it was changed.
    fn most_samples(&self) -> u64 {
        let rate = |setting: &Sysctl| match setting {
            Sysctl::MaxSampleRate(rate) => Some(*rate),
            _ => None,
        };
        self.set(rate).unwrap_or(u64::MAX)
    }

    /// The kernel's limit on callchains.
    fn max_stack(&self) -> u32 {
        let limit = |setting: &Sysctl| match setting {
            Sysctl::MaxStack(limit) => Some(*limit),
            _ => None,
        };
        self.set(limit).unwrap_or(u32::from(MAX_STACK))
    }

    /// What a sysctl was set to, the last time.
    fn set<T>(&self, value: impl Fn(&Sysctl) -> Option<T>) -> Option<T> {
        self.sysctl.iter().rev().find_map(value)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "options_tests.rs"]
mod tests;
