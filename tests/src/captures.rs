//! Recordings of a real kernel, and runs of the same program here, as texts that can be compared.
//!
//! ```text
//! perf.data of perf 7.2 on Linux 7.3 ─► PerfFile ─┐
//!                                                 ├─► text: a line a record
//! run of the same program ─► PerfDataFile ────────┘
//! ```
//!
//! A text has the guest's own records in order of time, from its first instruction on: what
//! comes before is perf's execve. Left out is what no model can have: times, ids, CPUs, and
//! offsets in kernel functions. Cookies are numbered from 1, with the step of the CPU's counter;
//! their form is checked. Sizes are without the words of `sample_type` that one of the two
//! tools asks for and the other does not (id, CPU, period).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;

use arch::Arch;
use emu::export::Sink;
use emu::export::perf_data::PerfDataFile;
use emu::export::perf_read::{self, Body, PerfFile};
use emu::perf::abi::{flag, sample_type};
use emu::perf::record::context;
use goblin::elf::Elf;

use crate::harness::{Harness, Outcome};

/// `PERF_SAMPLE_ID`
const SAMPLE_ID: u64 = 1 << 6;
/// `PERF_SAMPLE_STREAM_ID`
const STREAM_ID: u64 = 1 << 9;

/// A recording: what was run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Its name, and that of its text.
    pub name: &'static str,
    /// The guest program.
    pub guest: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// What was sampled, each `-c 1`.
    pub events: &'static str,
    /// `--call-graph`, and what else was said of callchains.
    pub options: &'static str,
}

const RAW: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";
const GETPID: &str = "syscalls:sys_enter_getpid";
const BOTH: &str = "syscalls:sys_enter_getpid,syscalls:sys_exit_getpid";
const SIGNALS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,signal:signal_generate,\
    signal:signal_deliver";

const fn capture(
    name: &'static str,
    options: &'static str,
    guest: &'static str,
    args: &'static [&'static str],
    events: &'static str,
) -> Capture {
    Capture { name, guest, args, events, options }
}

/// Those that one task and the events that there are allow.
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
    capture("signal_fp", "fp", "guest-fp", &["sig", "3"], SIGNALS),
    capture("signal_defer", "fp,defer", "guest-fp", &["sig", "3"], SIGNALS),
    capture("fault_fp", "fp", "guest-fp", &["fault", "6"], "page-faults"),
    capture("fault_defer", "fp,defer", "guest-fp", &["fault", "6"], "page-faults"),
];

impl Capture {
    /// How it was made, as the first line of its text.
    pub fn command(&self) -> String {
        let Capture { guest, args, events, options, .. } = self;
        format!("# -e {events} -c 1 --call-graph {options} -- {guest} {}\n", args.join(" "))
    }

    /// The recorded program's file.
    fn program(&self) -> std::path::PathBuf {
        crate::root().join("tests/data/captures").join(self.guest)
    }

    /// Runs it here.
    ///
    /// # Panics
    ///
    /// As [`Harness::run`].
    pub fn run(&self) -> Outcome {
        let path = format!("/bin/{}", self.guest);
        let mut harness = Harness::of_file(Arch::X86_64, self.program(), &path);
        harness = harness.args(self.args).events(self.events, 1);
        for word in self.options.split([' ', ',']) {
            harness = match word {
                "fp" => harness,
                "defer" => harness.deferred("mask"),
                "--user-callchains" => harness.user_callchains(),
                "--kernel-callchains" => harness.kernel_callchains(),
                other => panic!("{}: unknown option {other}", self.name),
            };
        }
        harness.run()
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
        self.text(&out.into_inner(), kernel)
    }

    /// The text of the perf.data file `bytes`, recorded on a kernel with the functions
    /// `kernel`, by address.
    ///
    /// # Panics
    ///
    /// If the file is damaged, or a cookie is none.
    pub fn text(&self, bytes: &[u8], kernel: BTreeMap<u64, String>) -> String {
        let file = PerfFile::read(bytes).unwrap();
        let program = std::fs::read(self.program()).unwrap();
        let elf = Elf::parse(&program).unwrap();
        let functions = elf.syms.iter().filter(|s| s.st_value != 0);
        let user = functions
            .filter(|s| s.st_shndx == usize::from(section_of_start(&elf)))
            .map(|s| (s.st_value, elf.strtab.get_at(s.st_name).unwrap_or("?").to_owned()))
            .collect();
        let events = self.events.split(',').collect();
        let (cookies, last) = Default::default();
        let mut text = Text { events, kernel, user, cookies, last, text: self.command() };
        text.attrs(&file);
        text.records(&file);
        text.text
    }
}

/// The section that the program starts in, which has all of its code.
fn section_of_start(elf: &Elf) -> u16 {
    let holds = |s: &&goblin::elf::SectionHeader| s.vm_range().contains(&(elf.entry as usize));
    let at = elf.section_headers.iter().position(|s| holds(&s));
    at.unwrap_or_default() as u16
}

/// A text being written.
struct Text<'a> {
    events: Vec<&'a str>,
    kernel: BTreeMap<u64, String>,
    user: BTreeMap<u64, String>,
    /// Their numbers.
    cookies: BTreeMap<u64, usize>,
    /// The counter in the last cookie of each CPU.
    last: BTreeMap<u64, u64>,
    text: String,
}

impl Text<'_> {
    /// What the events say of callchains.
    fn attrs(&mut self, file: &PerfFile) {
        const BITS: [(u64, &str); 4] = [
            (flag::EXCLUDE_CALLCHAIN_KERNEL, " exclude_callchain_kernel"),
            (flag::EXCLUDE_CALLCHAIN_USER, " exclude_callchain_user"),
            (flag::DEFER_CALLCHAIN, " defer_callchain"),
            (flag::DEFER_OUTPUT, " defer_output"),
        ];
        for (attr, name) in file.events().attrs().iter().zip(&self.events) {
            let bits = BITS.iter().filter(|(bit, _)| attr.flags & bit != 0);
            let bits: String = bits.map(|(_, word)| *word).collect();
            let _ = writeln!(self.text, "event {name}{bits}");
        }
    }

    /// The guest's records, by time.
    fn records(&mut self, file: &PerfFile) {
        let records: Vec<_> = file.records().map(|r| r.unwrap()).collect();
        let exec = records
            .iter()
            .rfind(|r| matches!(r.body, Body::Comm { .. }) && r.misc & COMM_EXEC != 0);
        let Body::Comm { tid: guest, .. } = exec.expect("no program was executed").body else {
            unreachable!("it is a COMM record")
        };
        let mut own: Vec<_> = records.iter().filter(|r| tid(r) == Some(guest)).collect();
        own.sort_by_key(|r| time(r));
        let first = own.iter().position(|r| self.is_guests(r)).unwrap_or(own.len());
        for record in &own[first..] {
            self.record(file, record);
        }
    }

    /// Whether it is a sample that is not of the execve that started the guest.
    fn is_guests(&self, record: &perf_read::Record) -> bool {
        let Body::Sample(sample) = &record.body else { return false };
        let exit = self.events[record.event] == "raw_syscalls:sys_exit";
        let number = sample.raw.and_then(|raw| raw.get(8..16)).map(word);
        let chain = sample.callchain.as_deref().unwrap_or_default();
        let in_execve = chain.iter().any(|&a| self.function(a).0 == "__x64_sys_execve");
        !(in_execve || exit && number == Some(EXECVE))
    }

    fn record(&mut self, file: &PerfFile, record: &perf_read::Record) {
        let attr = &file.events().attrs()[record.event];
        let mut bytes = Vec::new();
        record.write(&mut bytes).unwrap();
        let optional = sample_type::IDENTIFIER | SAMPLE_ID | STREAM_ID | sample_type::CPU;
        let words = match &record.body {
            Body::Sample(_) => attr.sample_type & (optional | sample_type::PERIOD),
            _ => attr.sample_type & optional,
        };
        let size = bytes.len() - 8 * words.count_ones() as usize;
        let mode = match record.misc & 7 {
            1 => "kernel",
            2 => "user",
            _ => "",
        };
        let line = match &record.body {
            Body::Sample(s) => {
                let event = self.events[record.event];
                let raw = s.raw.map_or(String::new(), |raw| format!(" raw {}", raw.len()));
                let chain = self.chain(s.callchain.as_deref().unwrap_or_default());
                let at = self.place(s.ip.unwrap_or_default());
                format!("sample {event} {mode} at {at} size {size}{raw}:{chain}")
            }
            Body::CallchainDeferred { cookie, ips } => {
                let cookie = self.cookie(*cookie);
                let ips: Vec<u64> = ips.iter().collect();
                format!("deferred {mode} size {size} {cookie}: {}", self.frames(&ips))
            }
            Body::Task { .. } => format!("task {} size {size}", record.kind),
            _ => format!("record {} size {size}", record.kind),
        };
        let _ = writeln!(self.text, "{line}");
    }

    /// Markers and what follows them.
    fn chain(&mut self, words: &[u64]) -> String {
        let mut text = String::new();
        let mut rest = words;
        while let Some((&marker, behind)) = rest.split_first() {
            let len = behind.iter().position(|&w| w >= context::MAX).unwrap_or(behind.len());
            let (part, next) = behind.split_at(len);
            text += &match marker {
                context::KERNEL => format!(" KERNEL {}", self.frames(part)),
                context::USER => format!(" USER {}", self.frames(part)),
                context::USER_DEFERRED => match part {
                    [cookie] => format!(" USER_DEFERRED {}", self.cookie(*cookie)),
                    _ => panic!("{} words behind USER_DEFERRED", part.len()),
                },
                other => panic!("{other:#x} is no marker"),
            };
            rest = next;
        }
        text
    }

    /// A cookie's number, and the step of its counter.
    fn cookie(&mut self, cookie: u64) -> String {
        let (count, cpu) = (cookie >> 32, cookie & 0xffff_ffff);
        assert!(cpu != 0 && count % 2 == 1, "{cookie:#x} is no cookie");
        let next = self.cookies.len() + 1;
        if let Some(number) = self.cookies.get(&cookie) {
            return format!("#{number}");
        }
        self.cookies.insert(cookie, next);
        match self.last.insert(cpu, count) {
            Some(last) => format!("#{next} (+{})", count.wrapping_sub(last)),
            None => format!("#{next}"),
        }
    }

    /// Names, innermost first, equal neighbours counted.
    fn frames(&self, addresses: &[u64]) -> String {
        let names: Vec<String> = addresses.iter().map(|&a| self.place(a)).collect();
        let counted = names.chunk_by(|a, b| a == b).map(|same| match same.len() {
            1 => same[0].clone(),
            n => format!("{} ({n} times)", same[0]),
        });
        counted.collect::<Vec<_>>().join(" <- ")
    }

    /// A user address with its offset, a kernel address without.
    fn place(&self, address: u64) -> String {
        match self.function(address) {
            (name, _) if address >> 63 != 0 => name.to_owned(),
            ("", _) => format!("{address:#x}"),
            (name, offset) => format!("{name}+{offset:#x}"),
        }
    }

    fn function(&self, address: u64) -> (&str, u64) {
        let names = if address >> 63 != 0 { &self.kernel } else { &self.user };
        let found = names.range(..=address).next_back();
        found.map_or(("", 0), |(start, name)| (name, address - start))
    }
}

/// `PERF_RECORD_MISC_COMM_EXEC`
const COMM_EXEC: u16 = 1 << 13;
/// `execve`'s number on x86_64.
const EXECVE: u64 = 59;

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The thread of a record of the kernel.
fn tid(record: &perf_read::Record) -> Option<u32> {
    match &record.body {
        Body::Sample(s) => s.pid_tid.map(|(_, tid)| tid),
        _ => record.trailer.as_ref()?.pid_tid.map(|(_, tid)| tid),
    }
}

fn time(record: &perf_read::Record) -> Option<u64> {
    match &record.body {
        Body::Sample(s) => s.time,
        _ => record.trailer.as_ref()?.time,
    }
}
