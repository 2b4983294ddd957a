//! Recordings of a real kernel, and runs of the same program here, as texts that can be compared.
//!
//! ```text
//! perf.data of perf 7.2 on Linux 7.3 (x86_64) or 7.2 (arm64) ─► PerfFile ─┐
//!                                                                         ├─► text
//! run of the same program ─► PerfDataFile ────────────────────────────────┘
//! ```
//!
//! A text has the guest's own records in order of time, from its first instruction on: what
//! comes before is perf's execve. Left out is what no model can have: times, ids, CPUs, and
//! offsets in kernel functions. Cookies are numbered from 1, with the step of the CPU's counter;
//! their form is checked. Sizes are without the words of `sample_type` that one of the two
//! tools asks for and the other does not (id, CPU, period).
//!
//! ```text
//! text.rs     a line a record; samples by time: forms and user stacks, as sets
//! losses.rs   what was kept in order, and how many records were lost in between
//! pairing.rs  the rules of cookies and records that any file keeps
//! ```

pub mod losses;
mod pairing;
mod text;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use arch::Arch;
use emu::export::Sink;
use emu::export::perf_data::PerfDataFile;
use emu::perf::reader::Settings;
use emu::perf::record::{Rate, UserStack};

use crate::harness::{Harness, Outcome};

/// A recording: what was run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Its name, and that of its text.
    pub name: &'static str,
    /// Where it was run.
    pub arch: Arch,
    /// The guest program.
    pub guest: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// What was sampled.
    pub events: &'static str,
    /// How often.
    pub rate: Rate,
    /// What its text has.
    pub form: Form,
    /// `--call-graph`, and what else was said of callchains, CPUs and tasks.
    pub options: &'static str,
}

const RAW: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
/// What a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each record.
    Records,
    /// Forms, kernel chains and user stacks, each once.
    Sets,
    /// Each record that was kept, shortly, and how many were lost: [`losses`].
    Losses,
}

const GETPID: &str = "syscalls:sys_enter_getpid";
const BOTH: &str = "syscalls:sys_enter_getpid,syscalls:sys_exit_getpid";
const PROBES: &str = "kprobe:vfs_read,kprobe:read_iter_zero,kprobe:hrtimer_nanosleep";
const PROBES_AND_RETURN: &str = "kprobe:vfs_read,kprobe:read_iter_zero,kprobe:hrtimer_nanosleep,\
    kretprobe:vfs_read";
/// Recorded probes that have no place here: a function that is not modelled (nothing called it in
/// the recordings either), and the return of one.
const NO_PLACE: [&str; 2] = ["kprobe:read_iter_zero", "kretprobe:vfs_read"];
const SIGNALS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,signal:signal_generate,\
    signal:signal_deliver";

const fn capture(
    name: &'static str,
    options: &'static str,
    guest: &'static str,
    args: &'static [&'static str],
    events: &'static str,
) -> Capture {
    let (arch, rate, form) = (Arch::X86_64, Rate::Period(1), Form::Records);
    Capture { name, arch, guest, args, events, rate, form, options }
}

/// One of arm64.
const fn arm64(capture: Capture) -> Capture {
    Capture { arch: Arch::Aarch64, ..capture }
}

/// One of the clock of a CPU, 997 times a second.
const fn ticks(
    name: &'static str,
    options: &'static str,
    guest: &'static str,
    args: &'static [&'static str],
) -> Capture {
    let (rate, form) = (Rate::Frequency(997), Form::Sets);
    Capture { rate, form, ..capture(name, options, guest, args, "cpu-clock") }
}

/// Recordings whose records are compared one by one.
pub const CAPTURES: &[Capture] = &[
    capture("getpid_fp", "fp", "guest-fp", &["sys", "5"], GETPID),
    capture("getpid_fp_leaf", "fp", "guest-leaf", &["sys", "3"], GETPID),
    capture("getpid_fp_nofp", "fp", "guest-nofp", &["sys", "3"], GETPID),
    capture("getpid_fp_deep", "fp", "guest-fp", &["deep", "2", "600"], GETPID),
    capture("getpid_defer", "fp,defer", "guest-fp", &["sys", "5"], GETPID),
    capture("getpid_defer_leaf", "fp,defer", "guest-leaf", &["sys", "3"], GETPID),
    capture("getpid_defer_nofp", "fp,defer", "guest-nofp", &["sys", "3"], GETPID),
    capture("getpid_defer_deep", "fp,defer", "guest-fp", &["deep", "2", "600"], GETPID),
    capture("getpid_both_defer", "fp,defer", "guest-fp", &["sys", "2"], BOTH),
    capture("rawsys_fp", "fp", "guest-fp", &["sys", "3"], RAW),
    capture("rawsys_defer", "fp,defer", "guest-fp", &["sys", "3"], RAW),
    capture("rawsys_defer_ucc", "fp,defer --user-callchains", "guest-fp", &["sys", "2"], RAW),
    capture("rawsys_defer_kcc", "fp,defer --kernel-callchains", "guest-fp", &["sys", "2"], RAW),
    capture("rawsys_dwarf", "dwarf=1024", "guest-fp", &["sys", "2"], RAW),
    capture("exec_defer", "fp,defer", "guest-fp", &["exec"], RAW),
    capture("signal_fp", "fp", "guest-fp", &["sig", "3"], SIGNALS),
    capture("signal_defer", "fp,defer", "guest-fp", &["sig", "3"], SIGNALS),
    capture("kprobe_fp", "fp", "guest-fp", &["sys", "2"], PROBES_AND_RETURN),
    capture("kprobe_defer", "fp,defer", "guest-fp", &["sys", "2"], PROBES_AND_RETURN),
    capture("fault_fp", "fp", "guest-fp", &["fault", "6"], "page-faults"),
    capture("fault_defer", "fp,defer", "guest-fp", &["fault", "6"], "page-faults"),
    arm64(capture("arm64_getpid_fp", "fp", "guest-fp", &["sys", "5"], GETPID)),
    arm64(capture("arm64_getpid_fp_leaf", "fp", "guest-leaf", &["sys", "3"], GETPID)),
    arm64(capture("arm64_getpid_fp_deep", "fp", "guest-fp", &["deep", "2", "600"], GETPID)),
    arm64(capture("arm64_getpid_defer", "fp,defer", "guest-fp", &["sys", "5"], GETPID)),
    arm64(capture("arm64_rawsys_fp", "fp", "guest-fp", &["sys", "3"], RAW)),
    arm64(capture("arm64_exec_fp", "fp", "guest-fp", &["exec"], RAW)),
    arm64(capture("arm64_signal_fp", "fp", "guest-fp", &["sig", "3"], SIGNALS)),
    arm64(capture("arm64_kprobe_fp", "fp", "guest-fp", &["sys", "2"], PROBES)),
    arm64(capture("arm64_fault_fp", "fp", "guest-fp", &["fault", "6"], "page-faults")),
];

/// Recordings whose reader was slow.
pub const LOSSES: &[Capture] = &[
    Capture {
        form: Form::Losses,
        ..capture("lost_fp", "fp", "guest-fp", &["nosleep", "300"], RAW)
    },
    Capture {
        form: Form::Losses,
        ..capture("lost_defer", "fp,defer", "guest-fp", &["nosleep", "300"], RAW)
    },
];

/// Recordings of samples that a timer takes: their user stacks are compared, as sets.
pub const TICKS: &[Capture] = &[
    ticks("cpuclock_fp", "fp", "guest-fp", &["mix", "200"]),
    ticks("cpuclock_fp_timer", "fp", "guest-fp", &["timer", "1500"]),
    ticks("cpuclock_defer", "fp,defer", "guest-fp", &["mix", "200"]),
    ticks("cpuclock_defer_leaf", "fp,defer", "guest-leaf", &["mix", "100"]),
    ticks("cpuclock_defer_nofp", "fp,defer", "guest-nofp", &["mix", "100"]),
    ticks("cpuclock_defer_timer", "fp,defer", "guest-fp", &["timer", "1500"]),
    ticks("cpuclock_dwarf", "dwarf=1024", "guest-fp", &["mix", "100"]),
    ticks("cpuclock_dwarf_nofp", "dwarf=1024", "guest-nofp", &["mix", "60"]),
    Capture {
        events: "cpu-clock:u",
        ..ticks("cpuclock_u_defer", "fp,defer", "guest-fp", &["mix", "60"])
    },
    Capture {
        rate: Rate::Frequency(199),
        ..ticks("cpuclock_defer_all", "fp,defer -a", "guest-fp", &["thr", "100"])
    },
    arm64(ticks("arm64_cpuclock_fp", "fp", "guest-fp", &["mix", "150"])),
    arm64(ticks("arm64_cpuclock_fp_leaf", "fp", "guest-leaf", &["mix", "60"])),
    arm64(ticks("arm64_cpuclock_fp_timer", "fp", "guest-fp", &["timer", "800"])),
    arm64(ticks("arm64_cpuclock_defer", "fp,defer", "guest-fp", &["mix", "30"])),
    arm64(ticks("arm64_cpuclock_dwarf", "dwarf=1024", "guest-fp", &["mix", "60"])),
    arm64(ticks("arm64_cpuclock_dwarf_leaf", "dwarf=1024", "guest-leaf", &["mix", "40"])),
    Capture {
        events: "cycles",
        rate: Rate::Period(2_000_000),
        ..arm64(ticks("arm64_cycles_fp", "fp", "guest-fp", &["mix", "60"]))
    },
];

/// Recordings of timers' samples whose files are not here: of these the kernel's chains are known.
pub const CHAINS: &[Capture] = &[
    ticks("cpuclock_defer_thr", "fp,defer --cpus=2", "guest-fp", &["thr", "150"]),
    arm64(ticks("arm64_cpuclock_fp_thr", "fp --cpus=2", "guest-fp", &["thr", "60"])),
];

/// The kernel's chains in recordings whose files are not here: lines of name, number of samples,
/// markers, and functions innermost first.
pub fn chains_path() -> PathBuf {
    crate::root().join("tests/golden/defer/chains.tsv")
}

/// The kernel's chains of the recording `name`, whose file is not here, as pairs of markers and
/// functions with their number of samples; those of perf's own execve are not among them.
///
/// # Panics
///
/// If there are none.
pub fn recorded_chains(name: &str) -> BTreeMap<(String, String), usize> {
    let text = std::fs::read_to_string(chains_path()).unwrap();
    let mut chains = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [of, count, markers, chain] if of == name => {
                *chains.entry((markers.into(), chain.into())).or_default() +=
                    count.parse::<usize>().unwrap();
            }
            [_, _, _, _] => {}
            _ => panic!("chains.tsv: {line:?} is none of its lines"),
        }
    }
    assert!(!chains.is_empty(), "{name}: no chains are known");
    chains
}

impl Capture {
    /// How it was made, as the first line of its text.
    pub fn command(&self) -> String {
        let Capture { guest, args, events, options, .. } = self;
        let rate = match self.rate {
            Rate::Period(n) => format!("-c {n}"),
            Rate::Frequency(n) => format!("-F {n}"),
        };
        format!("# -e {events} {rate} --call-graph {options} -- {guest} {}\n", args.join(" "))
    }

    /// The events that have a place here.
    fn placed(&self) -> Vec<&'static str> {
        self.events.split(',').filter(|event| !NO_PLACE.contains(event)).collect()
    }

    /// The recorded program's file.
    fn program(&self) -> PathBuf {
        let suffix = match self.arch {
            Arch::X86_64 => "",
            Arch::Aarch64 => ".arm64",
        };
        crate::root().join("tests/data/captures").join(format!("{}{suffix}", self.guest))
    }

    /// The recording's text in this repository.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn recorded(&self) -> String {
        let path = self.path();
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Where its text is.
    pub fn path(&self) -> PathBuf {
        crate::root().join("tests/golden/defer").join(self.name).with_extension("txt")
    }

    /// Runs it here.
    ///
    /// # Panics
    ///
    /// As [`Harness::run`].
    pub fn run(&self) -> Outcome {
        let path = format!("/bin/{}", self.guest);
        // It may execute itself: the file must be executable, and have its name.
        let root = crate::scratch(&format!("captures-{}", self.name));
        let host = root.join("bin").join(self.guest);
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::copy(self.program(), &host).unwrap();
        std::fs::set_permissions(&host, Permissions::from_mode(0o755)).unwrap();
        // The recorded stacks ended below the last user address: dumps are not cut there.
        let harness = Harness::of_file(self.arch, host, &path).root(root);
        let mut harness = harness.args(self.args).aslr(7);
        let events = self.placed().join(",");
        harness = match self.rate {
            Rate::Period(n) => harness.events(&events, n),
            Rate::Frequency(n) => harness.frequency(&events, n),
        };
        let mut slow = None;
        for word in self.options.split([' ', ',']) {
            harness = match word.split_once('=').unwrap_or((word, "")) {
                ("fp", _) => harness,
                ("defer", _) => harness.deferred("mask"),
                ("dwarf", size) => harness.user_stack(UserStack::Dump(size.parse().unwrap())),
                ("--user-callchains", _) => harness.user_callchains(),
                ("--kernel-callchains", _) => harness.kernel_callchains(),
                ("-a", _) => harness.wide(),
                ("--cpus", n) => harness.cpus(n.parse().unwrap()),
                ("--reader-rate", n) => {
                    slow = Some(Settings { rate: n.parse().unwrap(), pages: 1 });
                    harness
                }
                _ => panic!("{}: unknown option {word}", self.name),
            };
        }
        let Some(slow) = slow else { return harness.run() };
        // A record that is lost breaks law 36.
        let mut records = Vec::new();
        let outcome = harness.without_laws().run_prepared(
            |s| s.perf.main.read_slowly(slow),
            |_, record| records.push(record.clone()),
        );
        Outcome { records, ..outcome }
    }

    /// The text of a run here.
    ///
    /// # Panics
    ///
    /// If it cannot be written or read back.
    pub fn text_of_run(&self) -> String {
        let outcome = self.run();
        let mut out = Cursor::new(Vec::new());
        let mut sink = PerfDataFile::new(&outcome.session, &mut out, "memory".into()).unwrap();
        outcome.records.iter().for_each(|r| sink.record(r).unwrap());
        sink.finish().unwrap();
        drop(sink);
        let symbols = outcome.session.kernel_symbols.iter();
        let kernel = symbols.map(|s| (s.addr, s.name.clone())).collect();
        text::of(self, &self.placed(), &out.into_inner(), kernel)
    }

    /// The text of the perf.data file `bytes`, recorded on a kernel with the functions
    /// `kernel`, by address.
    ///
    /// # Panics
    ///
    /// If the file is damaged, or breaks a rule of cookies and records.
    pub fn text(&self, bytes: &[u8], kernel: BTreeMap<u64, String>) -> String {
        let events: Vec<&str> = self.events.split(',').collect();
        text::of(self, &events, bytes, kernel)
    }
}
