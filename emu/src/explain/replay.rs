//! A method's walk again, with what it did at each frame.

use std::collections::HashMap;
use std::fmt;

use arch::Arch;
use arch::sigframe::saved_pc;
use unwinder::row::{Row, Rule};
use unwinder::{
    CodeAddress, Context, End, InstructionPointer, Memory, Method, Policy, Registers, dwarf, fp,
    sframe, step,
};

use crate::explain::pair::pair;
use crate::explain::register_name;
use crate::grade::file::{Found, Pieces, Sample};
use crate::grade::methods::{NoCaller, Tables};
use crate::grade::{MethodId, Methods, Verdict};
use crate::show::Rows;

/// Where a return address came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The word at this address.
    Memory(u64),
    /// A register, by its DWARF number.
    Register(u8),
}

/// A frame that a method gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where it is.
    pub address: CodeAddress,
    /// Which true frame it is, if it is one; see [`pair`].
    pub truth: Option<usize>,
    /// How the method got *from* here: `cfa=rsp+16 ra=c-8`, in the table's words. What is not
    /// ours tells no rule, but its registers here.
    pub rule: Option<String>,
    /// Canonical frame address of this frame, as the method has it. (A frame record of aarch64
    /// tells none.)
    pub cfa: Option<u64>,
    /// Where the next frame's address came from.
    pub source: Option<Source>,
    /// Where the next frame's frame pointer was saved.
    pub saved_fp: Option<u64>,
}

/// How a method goes from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By frame records.
    Record,
    /// By a row of a table.
    Table,
    /// In a way that it does not tell.
    Other,
}

/// Frames that come again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The first frame that was there before.
    pub from: usize,
    /// The record that leads to one that was read before.
    pub record: u64,
    /// That one.
    pub to: u64,
}

impl fmt::Display for Loop {
    /// What the record does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record == self.to {
            true => f.write_str("leads to itself"),
            false => write!(f, "leads to that at {:#x} again", self.to),
        }
    }
}

/// What a method did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Its name.
    pub name: String,
    /// As it was recorded.
    pub verdict: Verdict,
    /// Innermost first.
    pub frames: Vec<Told>,
    /// Why it gave no further frame, if it says so.
    pub end: Option<String>,
    /// How it works.
    pub by: By,
    /// It does not come to an end.
    pub repeats: Option<Loop>,
    /// Why it could not be done again; there are no frames then.
    pub impossible: Option<String>,
}

impl Replay {
    /// Walks the stack of a sample again.
    pub fn new(
        methods: &mut Methods,
        id: MethodId,
        name: String,
        verdict: Verdict,
        found: &Found,
    ) -> Replay {
        let sample = &found.sample;
        let regs = sample.regs(found.arch);
        let mut memory = Pieces(&sample.memory);
        let mut addresses = Vec::new();
        let stop = methods.walk(id, &regs, &mut memory, &mut addresses);
        let mut frames: Vec<Told> = addresses.iter().map(|a| Told::at(*a)).collect();
        let registers = Registers::of_thread(&regs);
        let (end, by) = match id {
            MethodId::FP => (records(found, &mut frames), By::Record),
            MethodId::DWARF | MethodId::SFRAME => {
                let method = if id == MethodId::DWARF { Method::Dwarf } else { Method::Sframe };
                let tables = methods.tables();
                let mut by = ByTable { method, tables, memory, context: Context::new() };
                (by.steps(registers, &mut frames), By::Table)
            }
            _ => {
                others(methods, id, registers, found, &mut frames);
                (stop.map(in_words), By::Other)
            }
        };
        let limit = || format!("the limit of {} frames", Methods::LIMIT);
        let end = end.or_else(|| (frames.len() >= Methods::LIMIT).then(limit));
        pair(&mut frames, found);
        let repeats = if by == By::Record { repeats(&frames) } else { None };
        Replay { name, verdict, frames, end, by, repeats, impossible: None }
    }

    /// One that cannot be done again, and why.
    pub fn impossible(name: String, verdict: Verdict, why: String) -> Replay {
        let (frames, by) = (Vec::new(), By::Other);
        let impossible = Some(why);
        Replay { name, verdict, frames, end: None, by, repeats: None, impossible }
    }

    /// How many of its frames are there before they repeat themselves.
    pub fn distinct(&self) -> usize {
        self.repeats.map_or(self.frames.len(), |repeats| repeats.from)
    }

    /// Where it parts from the truth: the index, in both lists, of the first frame that is not
    /// the same. All that it gave are right if that is how many there are.
    pub fn parting(&self) -> usize {
        let right = self.frames.iter().zip(0..).take_while(|(told, i)| told.truth == Some(*i));
        right.count()
    }

    /// Whether it gave all true frames and no other.
    pub fn is_right(&self, sample: &Sample) -> bool {
        if self.impossible.is_some() {
            return self.verdict == Verdict::Exact;
        }
        let (parting, given) = (self.parting(), self.frames.len());
        parting == given && given >= sample.frames.len()
    }
}

impl Told {
    fn at(address: u64) -> Told {
        Told {
            address: InstructionPointer(address).into(),
            truth: None,
            rule: None,
            cfa: None,
            source: None,
            saved_fp: None,
        }
    }

    /// Whether it is at this address.
    pub fn is_at(&self, address: u64) -> bool {
        self.address.value() == address
    }
}

/// The first frame record that leads to one that was read before.
fn repeats(frames: &[Told]) -> Option<Loop> {
    let mut read: HashMap<u64, usize> = HashMap::new();
    for (n, told) in frames.iter().enumerate() {
        let record = told.saved_fp?;
        if read.insert(record, n).is_some() {
            let before = frames[n - 1].saved_fp?;
            return Some(Loop { from: n + 1, record: before, to: record });
        }
    }
    None
}

/// Why an unwinder stopped.
fn in_words(stop: NoCaller) -> String {
    match stop {
        NoCaller::Complete => "it says that this is the outermost frame".to_owned(),
        NoCaller::NoCoverage => "no table covers it".to_owned(),
        NoCaller::Failed(why) => format!("it says \"{why}\""),
    }
}

/// Fills in what the steps of an unwinder tell that is not ours.
fn others(
    methods: &mut Methods,
    id: MethodId,
    mut registers: Registers,
    found: &Found,
    frames: &mut [Told],
) {
    let mut memory = Pieces(&found.sample.memory);
    for n in 0..frames.len() {
        let told = &mut frames[n];
        let sp = registers.sp().map(|sp| format!(", sp {sp:#x}")).unwrap_or_default();
        told.rule = Some(format!("address {:#x}{sp}", told.address.value()));
        let Ok(caller) = methods.other_step(id, told.address, &registers, &mut memory) else {
            return;
        };
        told.cfa = caller.registers.sp();
        // It does not tell what it read; on x86_64 a call can have put it in one place only.
        let slot = told.cfa.and_then(|cfa| cfa.checked_sub(8));
        let slot = slot.filter(|_| found.arch == Arch::X86_64);
        let address = caller.address.value();
        told.source = slot.filter(|s| memory.word(*s) == Some(address)).map(Source::Memory);
        match frames.get_mut(n + 1) {
            Some(next) if next.is_at(address) => next.address = caller.address,
            _ => return,
        }
        registers = caller.registers;
    }
}

/// Memory that remembers which frame records were read.
struct Log<'s> {
    memory: Pieces<'s>,
    /// Each with what it held, if it could be read.
    records: Vec<(u64, Option<(u64, u64)>)>,
}

impl Memory for Log<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.memory.read(address, bytes)
    }

    fn pair(&mut self, address: u64) -> Option<(u64, u64)> {
        let pair = self.memory.pair(address);
        self.records.push((address, pair));
        pair
    }
}

/// Fills in what a walk by frame pointer did; returns why it ended.
fn records(found: &Found, frames: &mut [Told]) -> Option<String> {
    let arch = found.arch;
    let regs = found.sample.regs(arch);
    let mut log = Log { memory: Pieces(&found.sample.memory), records: Vec::new() };
    // One more than it gave: the record that ended it is to be seen.
    let mut left = frames.len() + 1;
    fp::perf::walk(&regs, false, &mut log, &mut |_| {
        left = left.saturating_sub(1);
        left > 0
    });
    let fp = register_name(arch, arch.fp() as u8);
    for (n, (address, pair)) in log.records.iter().enumerate() {
        if pair.is_none() || n + 1 >= frames.len() {
            break;
        }
        let frame = &mut frames[n];
        frame.rule = Some(format!("ra=[{fp}+8] {fp}=[{fp}], {fp} {address:x}"));
        frame.source = Some(Source::Memory(address.wrapping_add(8)));
        frame.saved_fp = Some(*address);
        // A call and a push lie between the CFA and the record.
        frame.cfa = (arch == Arch::X86_64).then(|| address.wrapping_add(16));
        frames[n + 1].address = unwinder::ReturnAddress(frames[n + 1].address.value()).into();
    }
    let given = frames.len().saturating_sub(1);
    let next = match given.checked_sub(1).and_then(|n| log.records.get(n)) {
        Some((record, Some((next, _)))) if found.arch == Arch::Aarch64 && next <= record => {
            return Some(format!("the next {fp}, {next:#x}, is not above this one"));
        }
        Some((_, pair)) => (*pair)?.0,
        None => regs.fp(),
    };
    match log.records.get(given) {
        _ if next == 0 => Some(format!("{fp} is 0")),
        Some((_, None)) => Some(format!("{fp} is {next:#x}, where nothing can be read")),
        Some((record, Some((_, 0)))) => Some(format!("[{record:#x}+8], its next address, is 0")),
        Some(_) => None,
        None => Some(format!("{fp} is {next:#x}, which is no address of a record")),
    }
}

/// A walk by a table.
struct ByTable<'t, 's> {
    method: Method,
    tables: &'t Tables,
    memory: Pieces<'s>,
    context: Context,
}

impl ByTable<'_, '_> {
    /// Fills in what the walk did; returns why it ended.
    fn steps(&mut self, mut registers: Registers, frames: &mut [Told]) -> Option<String> {
        let policy = Policy::from(self.method);
        for n in 0..frames.len() {
            let address = frames[n].address;
            self.describe(&mut frames[n], &registers);
            let (memory, context) = (&mut self.memory, &mut self.context);
            let caller = match step(&policy, self.tables, address, &registers, memory, context) {
                Ok(unwound) => unwound.caller,
                Err(End::NoRow(_)) => return Some("no table covers it".to_owned()),
                Err(End::NoModule(_)) => return Some("it is in no file that is known".to_owned()),
                Err(end) => return Some(end.to_string()),
            };
            frames[n].cfa = caller.cfa;
            match frames.get_mut(n + 1) {
                Some(next) if next.address.value() == caller.address.value() => {
                    next.address = caller.address;
                }
                // The walk saw that there is no progress.
                _ => return Some("it does not lead towards the stack's end".to_owned()),
            }
            registers = caller.registers;
        }
        None
    }

    /// The row that holds at a frame, and what it says.
    fn describe(&self, frame: &mut Told, registers: &Registers) {
        let at = frame.address.lookup();
        let Some(module) = self.tables.find(at) else { return };
        let texts = Rows::new(module).at(at.value());
        let arch = registers.arch();
        let row = match self.method {
            Method::Dwarf => {
                frame.rule = texts.dwarf;
                let found = module.dwarf_row(at, &mut dwarf::Context::new());
                found.ok().map(|(row, table)| (row, table.section()))
            }
            _ => {
                frame.rule = texts.sframe;
                match module.sframe_row(at) {
                    Ok(sframe::Found::Row(row)) => Some((row, &[][..])),
                    Ok(sframe::Found::SignalTrampoline) => {
                        let pc = registers.sp().map(|sp| sp.wrapping_add(saved_pc(arch)));
                        frame.source = pc.map(Source::Memory);
                        None
                    }
                    Err(_) => None,
                }
            }
        };
        let Some((row, section)) = row else { return };
        let mut memory = self.memory;
        let Ok(cfa) = unwinder::step::cfa(&row, registers, section, &mut memory) else { return };
        frame.cfa = Some(cfa);
        frame.source = source(&row, row.return_address, cfa, registers);
        if let Some(Source::Memory(slot)) = source(&row, arch.fp() as u8, cfa, registers) {
            frame.saved_fp = Some(slot);
        }
    }
}

/// Where a row finds a register of the caller.
fn source(row: &Row, column: u8, cfa: u64, registers: &Registers) -> Option<Source> {
    match row.rule(column) {
        Rule::AtCfa(offset) => Some(Source::Memory(cfa.wrapping_add_signed(offset))),
        Rule::Memory { register, offset } => {
            let base = registers.get(register)?;
            Some(Source::Memory(base.wrapping_add_signed(offset)))
        }
        Rule::Register { register, .. } => Some(Source::Register(register)),
        Rule::Same | Rule::Unmentioned => Some(Source::Register(column)),
        _ => None,
    }
}
