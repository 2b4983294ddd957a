//! A recording or a run as lines: a record each, or, of samples that a timer takes, the set of
//! user stacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use arch::{Arch, Regs};
use emu::export::perf_read::{Body, PerfFile, Record, Sample};
use emu::perf::abi::{flag, sample_type};
use emu::perf::record::context;
use goblin::elf::Elf;
use unwinder::elf::Slice;
use unwinder::memory::Copied;
use unwinder::{Context, InstructionPointer, Module, Modules, Policy, Registers, Walk};

use super::{Capture, Form, NO_PLACE, pairing};

/// `PERF_SAMPLE_ID`
const SAMPLE_ID: u64 = 1 << 6;
/// `PERF_SAMPLE_STREAM_ID`
const STREAM_ID: u64 = 1 << 9;
/// `PERF_RECORD_MISC_COMM_EXEC`
const COMM_EXEC: u16 = 1 << 13;

/// The text of `bytes`, a perf.data file of `capture` with `events` on a kernel with the functions
/// `kernel`. What is of events that have no place here is left out.
///
/// # Panics
///
/// If the file is damaged, or what it has breaks a rule: see [`super`].
pub(super) fn of(
    capture: &Capture,
    events: &[&str],
    bytes: &[u8],
    kernel: BTreeMap<u64, String>,
) -> String {
    let file = PerfFile::read(bytes).unwrap();
    let program = std::fs::read(capture.program()).unwrap();
    let elf = Elf::parse(&program).unwrap();
    let functions = elf.syms.iter().filter(|s| s.st_value != 0);
    let user = functions
        .filter(|s| s.st_shndx == usize::from(section_of_start(&elf)))
        .map(|s| (s.st_value, elf.strtab.get_at(s.st_name).unwrap_or("?").to_owned()))
        .collect();
    let modules = Modules::new([Module::from_elf(capture.guest, &program[..], 0).unwrap()]);
    let mut text = Text {
        arch: capture.arch,
        events: events.to_vec(),
        kernel,
        user,
        modules,
        cookies: BTreeMap::new(),
        last: BTreeMap::new(),
        text: capture.command(),
    };
    text.attrs(&file);
    let records: Vec<_> = file.records().map(|r| r.unwrap()).collect();
    let mut own = text.own(&records);
    own.retain(|r| !NO_PLACE.contains(&text.events.get(r.event).copied().unwrap_or_default()));
    if capture.form != Form::Losses {
        pairing::check(capture.name, &own);
    }
    match capture.form {
        Form::Records => own.iter().for_each(|r| text.record(&file, r)),
        Form::Sets => text.stacks(&file, &own),
        Form::Losses => text.losses(&file, &own, &records),
    }
    text.text
}

/// The section that the program starts in, which has all of its code.
fn section_of_start(elf: &Elf) -> u16 {
    let holds = |s: &&goblin::elf::SectionHeader| s.vm_range().contains(&(elf.entry as usize));
    let at = elf.section_headers.iter().position(|s| holds(&s));
    at.unwrap_or_default() as u16
}

/// A text being written.
pub(super) struct Text<'a> {
    arch: Arch,
    pub(super) events: Vec<&'a str>,
    kernel: BTreeMap<u64, String>,
    user: BTreeMap<u64, String>,
    modules: Modules<Slice<&'a [u8]>>,
    /// Their numbers.
    cookies: BTreeMap<u64, usize>,
    /// The counter in the last cookie of each CPU.
    last: BTreeMap<u64, u64>,
    pub(super) text: String,
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
        let attrs = file.events().attrs().iter().zip(&self.events);
        for (attr, name) in attrs.filter(|(_, name)| !NO_PLACE.contains(name)) {
            let bits = BITS.iter().filter(|(bit, _)| attr.flags & bit != 0);
            let bits: String = bits.map(|(_, word)| *word).collect();
            let _ = writeln!(self.text, "event {name}{bits}");
        }
    }

    /// The guest's records, by time, from its first instruction on.
    fn own<'r, 'f>(&self, records: &'r [Record<'f>]) -> Vec<&'r Record<'f>> {
        let exec =
            records.iter().find(|r| matches!(r.body, Body::Comm { .. }) && r.misc & COMM_EXEC != 0);
        let Body::Comm { pid: guest, .. } = exec.expect("no program was executed").body else {
            unreachable!("it is a COMM record")
        };
        let own = records.iter().filter(|r| pid_tid(r).is_some_and(|(pid, _)| pid == guest));
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|r| time(r));
        let first = own.iter().position(|r| self.is_guests(r)).unwrap_or(own.len());
        own.split_off(first)
    }

    /// Whether it is a sample that is not of the execve that started the guest.
    fn is_guests(&self, record: &Record) -> bool {
        let Body::Sample(sample) = &record.body else { return false };
        let event = self.events.get(record.event).copied();
        let exit = event == Some("raw_syscalls:sys_exit");
        let number = sample.raw.and_then(|raw| raw.get(8..16)).map(word);
        let chain = sample.callchain.as_deref().unwrap_or_default();
        let (name, execve) = match self.arch {
            Arch::X86_64 => ("__x64_sys_execve", 59),
            Arch::Aarch64 => ("__arm64_sys_execve", 221),
        };
        let in_execve = chain.iter().any(|&a| self.function(a).0 == name);
        !(in_execve || exit && number == Some(execve))
    }

    fn record(&mut self, file: &PerfFile, record: &Record) {
        let line = self.line(file, record);
        let _ = writeln!(self.text, "{line}");
    }

    /// The next cookie is the first again.
    pub(super) fn forget_cookies(&mut self) {
        self.cookies.clear();
        self.last.clear();
    }

    /// A record as a line, without its end.
    pub(super) fn line(&mut self, file: &PerfFile, record: &Record) -> String {
        let size = size(file, record);
        let mode = mode(record);
        match &record.body {
            Body::Sample(s) => {
                let event = self.events[record.event];
                let raw = s.raw.map_or(String::new(), |raw| format!(" raw {}", raw.len()));
                let chain = self.chain(s.callchain.as_deref().unwrap_or_default());
                let at = self.place(s.ip.unwrap_or_default());
                let dump = self.dump(file, record.event, s);
                let dump = dump.map_or(String::new(), |ips| format!(" DUMP {}", self.frames(&ips)));
                format!("sample {event} {mode} at {at} size {size}{raw}:{chain}{dump}")
            }
            Body::CallchainDeferred { cookie, ips } => {
                let cookie = self.cookie(*cookie);
                let ips: Vec<u64> = ips.iter().collect();
                format!("deferred {mode} size {size} {cookie}: {}", self.frames(&ips))
            }
            Body::Task { .. } => format!("task {} size {size}", record.kind),
            Body::Mmap2 { addr, len, pgoff, identity, prot, flags, filename, .. } => {
                let path = String::from_utf8_lossy(filename.bytes());
                // The vdso's address is chosen at random.
                let at = if path.starts_with('[') { "?".into() } else { format!("{addr:#x}") };
                let (kind, misc) = (record.kind, record.misc);
                let identity: String = identity.iter().map(|b| format!("{b:02x}")).collect();
                format!(
                    "map {kind} misc {misc:#x} size {size} at {at} len {len:#x} offset {pgoff:#x} \
                    prot {prot} flags {flags} identity {identity} {path}"
                )
            }
            Body::Comm { comm, .. } => {
                let comm = String::from_utf8_lossy(comm.bytes());
                format!("record {} misc {:#x} size {size} {comm}", record.kind, record.misc)
            }
            _ => format!("record {} size {size}", record.kind),
        }
    }

    /// The forms that the records have, the kernel's chains by name, and the user stacks, each
    /// once: the place in the innermost user function, which is where the time ran out, is left
    /// out.
    fn stacks(&mut self, file: &PerfFile, own: &[&Record]) {
        let (mut forms, mut stacks) = (BTreeSet::new(), BTreeSet::new());
        let mut kernel = BTreeSet::new();
        for record in own {
            let (size, mode) = (size(file, record), mode(record));
            if let Body::Sample(sample) = &record.body {
                let chain = sample.callchain.as_deref().unwrap_or_default();
                let part = chain.iter().copied().skip_while(|&w| w != context::KERNEL).skip(1);
                let part = part.take_while(|&w| w < context::MAX);
                let names: Vec<_> = part.map(|a| self.place(a)).collect();
                if !names.is_empty() {
                    kernel.insert(format!("kernel {}", names.join(" <- ")));
                }
            }
            let (what, words, user) = match &record.body {
                Body::Sample(s) => {
                    let chain = s.callchain.clone().unwrap_or_default();
                    let at = chain.iter().position(|&w| w == context::USER);
                    let immediate = at.map(|at| chain[at + 1..].to_vec());
                    let words = chain.iter().filter(|&&w| w < context::MAX).count();
                    let markers = self.markers(&chain);
                    let user = immediate.or_else(|| self.dump(file, record.event, s));
                    (format!("sample {mode}{markers}"), words, user)
                }
                Body::CallchainDeferred { ips, .. } => {
                    let ips: Vec<u64> = ips.iter().collect();
                    (format!("deferred {mode}"), ips.len(), Some(ips))
                }
                _ => (format!("record {}", record.kind), 0, None),
            };
            forms.insert(format!("form {what} size {} and the frames", size - 8 * words));
            if let Some(user) = user.filter(|u| !u.is_empty()) {
                let callers = user[1..].iter().map(|&a| format!(" <- {}", self.place(a)));
                let callers: String = callers.collect();
                let place = self.place(user[0]);
                let innermost = place.split('+').next().unwrap_or_default();
                stacks.insert(format!("stack {innermost}{callers}"));
            }
        }
        for line in forms.iter().chain(&kernel).chain(&stacks) {
            let _ = writeln!(self.text, "{line}");
        }
    }

    /// The words of a chain that are no addresses; a cookie is none either.
    fn markers(&self, chain: &[u64]) -> String {
        let names = chain.iter().filter_map(|&word| match word {
            context::KERNEL => Some(" KERNEL"),
            context::USER => Some(" USER"),
            context::USER_DEFERRED => Some(" USER_DEFERRED"),
            _ => None,
        });
        names.collect()
    }

    /// The addresses that DWARF finds in the registers and the stack of a sample that has them.
    fn dump(&self, file: &PerfFile, event: usize, sample: &Sample) -> Option<Vec<u64>> {
        let (values, stack) = (sample.user_regs?.values, sample.user_stack?);
        let mask = file.events().attrs()[event].regs_user;
        let mut regs = Regs::new(self.arch);
        let bits = (0..64).filter(|bit| mask >> bit & 1 != 0);
        for (perf, value) in bits.zip(values.iter()) {
            match (self.arch, self.arch.dwarf_of_perf(perf)) {
                (Arch::X86_64, Some(16)) | (Arch::Aarch64, Some(32)) => regs.pc = value,
                (_, Some(number)) => regs.gp[usize::from(number)] = value,
                (_, None) => {}
            }
        }
        let copied = stack.copied.unwrap_or(0) as usize;
        let memory = Copied { address: regs.sp(), bytes: &stack.bytes[..copied] };
        let (start, registers) = (InstructionPointer(regs.pc).into(), Registers::of_thread(&regs));
        let mut context = Context::new();
        let policy = Policy::dwarf();
        let walk = Walk::new(policy, &self.modules, start, &registers, memory, &mut context);
        Some(walk.limit(127).map(|frame| frame.address.value()).collect())
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
            // The vdso, whose address is chosen at random.
            (_, offset) if offset > 0xff_ffff => "outside".to_owned(),
            (name, offset) => format!("{name}+{offset:#x}"),
        }
    }

    fn function(&self, address: u64) -> (&str, u64) {
        let names = if address >> 63 != 0 { &self.kernel } else { &self.user };
        let found = names.range(..=address).next_back();
        found.map_or(("", 0), |(start, name)| (name, address - start))
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Bytes, less the words that not both tools ask for.
fn size(file: &PerfFile, record: &Record) -> usize {
    let attr = &file.events().attrs()[record.event];
    let mut bytes = Vec::new();
    record.write(&mut bytes).unwrap();
    let optional = sample_type::IDENTIFIER | SAMPLE_ID | STREAM_ID | sample_type::CPU;
    let words = match &record.body {
        Body::Sample(_) => attr.sample_type & (optional | sample_type::PERIOD),
        _ => attr.sample_type & optional,
    };
    bytes.len() - 8 * words.count_ones() as usize
}

/// Where the program was.
fn mode(record: &Record) -> &'static str {
    match record.misc & 7 {
        1 => "kernel",
        2 => "user",
        _ => "",
    }
}

/// The process and the thread of a record of the kernel.
pub(super) fn pid_tid(record: &Record) -> Option<(u32, u32)> {
    match &record.body {
        Body::Sample(s) => s.pid_tid,
        _ => record.trailer.as_ref()?.pid_tid,
    }
}

fn time(record: &Record) -> Option<u64> {
    match &record.body {
        Body::Sample(s) => s.time,
        _ => record.trailer.as_ref()?.time,
    }
}
