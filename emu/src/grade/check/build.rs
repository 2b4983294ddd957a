//! From the records of a check to a report: names, program points, rows, code.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arch::{Arch, Regs};
use unwinder::elf::Slice;
use unwinder::{CodeAddress, Module};

use crate::grade::check::checker::Results;
use crate::grade::check::one_step::Wrong;
use crate::grade::check::record::{PcRecord, Seen};
use crate::grade::check::report::{
    ByMethod, Caller, Counts, Fault, Function, Header, Hex, Registers, Report, Summary, Symbol,
};
use crate::grade::file::FrameKind;
use crate::grade::files::Mapped;
use crate::grade::methods::{MethodId, NoCaller, Told};
use crate::grade::point::{Points, ProgramPoint};
use crate::show::{Code, Line, Pieces, Rows};
use crate::truth::saved_numbers;

/// What a report says of the run itself.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its first line.
    pub header: Header,
    /// The guest's architecture.
    pub arch: Arch,
    /// Instructions that the guest executed.
    pub instructions: u64,
    /// First address, size and executions of each block.
    pub executions: Vec<(u64, u32, u64)>,
}

type Tables = Module<Slice<Arc<[u8]>>>;

/// Makes the report.
pub fn report(run: Run, results: Results<'_>) -> Report {
    let Run { header, arch, instructions, executions } = run;
    let tables = |f: &Mapped, bias| Module::from_elf(&*f.name, f.bytes.clone(), bias).ok();
    let files: Vec<(&Mapped, Tables, Tables)> =
        results.files.iter().filter_map(|f| Some((f, tables(f, f.bias)?, tables(f, 0)?))).collect();
    let mut points = Points::new(arch);
    files.iter().for_each(|(f, tables, _)| points.add(tables, f.bytes.clone()));
    let mut views: Vec<View<'_>> = files.iter().map(|(f, t, l)| View::new(arch, f, t, l)).collect();

    let mut pcs: Vec<(u64, &PcRecord)> = results.pcs.iter().map(|(pc, r)| (*pc, r)).collect();
    pcs.sort_unstable_by_key(|(pc, _)| *pc);
    let executions = per_pc(&executions, pcs.iter().map(|(pc, _)| *pc));
    let mut builder = Builder {
        arch,
        results,
        functions: BTreeMap::new(),
        faults: Vec::new(),
        summary: Summary { instructions, ..Summary::default() },
    };
    builder.summary.faults = vec![0; results.checked.len()];
    for ((pc, record), executions) in pcs.into_iter().zip(executions) {
        let view = views.iter().position(|v| v.covers(pc));
        builder.add(pc, record, executions, points.at(pc), view, &mut views);
    }
    builder.finish(header)
}

/// How often each of `pcs`, which ascend, was executed: the sum over the blocks that hold it.
fn per_pc(blocks: &[(u64, u32, u64)], pcs: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut edges: Vec<(u64, u64)> = Vec::with_capacity(2 * blocks.len());
    for &(addr, size, n) in blocks {
        edges.push((addr, n));
        edges.push((addr.wrapping_add(u64::from(size)), n.wrapping_neg()));
    }
    edges.sort_unstable();
    let (mut sum, mut next) = (0u64, 0);
    let at = |pc: u64| {
        while let Some((_, n)) = edges.get(next).filter(|(edge, _)| *edge <= pc) {
            sum = sum.wrapping_add(*n);
            next += 1;
        }
        sum
    };
    pcs.map(at).collect()
}

/// One file.
struct View<'f> {
    tables: &'f Tables,
    name: String,
    rows: Rows<'f, Slice<Arc<[u8]>>>,
    pieces: Pieces<'f>,
    code: Code<'f>,
    /// The function at an address as linked.
    known: HashMap<u64, Named>,
    /// The code of the function that was asked for last.
    lines: Vec<Line>,
}

/// Instructions of a listing before and behind the one that it is about.
const AROUND: usize = 3;
/// A function is disassembled in pieces of so many bytes.
const PIECE: u64 = 4096;

impl<'f> View<'f> {
    fn new(arch: Arch, file: &'f Mapped, tables: &'f Tables, linked: &Tables) -> View<'f> {
        let name = file.name.rsplit('/').next().unwrap_or(&file.name).to_owned();
        View {
            tables,
            name,
            rows: Rows::new(tables),
            pieces: Pieces::new(&file.bytes, linked),
            code: Code::new(arch, &file.bytes),
            known: HashMap::new(),
            lines: Vec::new(),
        }
    }

    fn covers(&self, pc: u64) -> bool {
        self.tables.text().iter().any(|range| range.contains(&pc))
    }

    fn linked(&self, pc: u64) -> u64 {
        pc.wrapping_sub(self.tables.bias())
    }

    /// Code around `at` in the function that starts at `start`. Cheap if addresses ascend.
    fn listing(&mut self, start: u64, at: u64) -> Vec<(Hex, String)> {
        let find = |lines: &[Line]| lines.binary_search_by_key(&at, |l| l.address);
        let ample = |lines: &[Line]| match find(lines) {
            Ok(index) => index + AROUND < lines.len(),
            Err(_) => false,
        };
        if !ample(&self.lines) {
            let from = match self.lines.last() {
                // Further in the same piece of code, at an instruction's start.
                Some(last) if (start..=at).contains(&last.address) && at - last.address < PIECE => {
                    self.lines[self.lines.len().saturating_sub(2 * AROUND)].address
                }
                _ => start.max(at.saturating_sub(64 * PIECE)),
            };
            let to = at.saturating_add(PIECE);
            self.lines = self.code.lines(from..to).collect();
        }
        match find(&self.lines) {
            Ok(index) => {
                let last = (index + AROUND + 1).min(self.lines.len());
                let lines = &self.lines[index.saturating_sub(AROUND)..last];
                lines.iter().map(|l| (Hex(l.address), l.text.clone())).collect()
            }
            // The function begins with data.
            Err(_) => {
                let lines = self.code.around(None, at, AROUND);
                lines.into_iter().map(|l| (Hex(l.address), l.text)).collect()
            }
        }
    }

    /// The function at `at`, as linked.
    fn function(&mut self, at: u64) -> Named {
        let pieces = &self.pieces;
        let symbols = pieces.symbols();
        let found = self.known.entry(at).or_insert_with(|| match symbols.name(at) {
            Some((name, start)) => {
                let symbol = symbols.nth_of_name(at);
                let symbol = symbol.map(|(name, ordinal)| Symbol { name, ordinal });
                Named { name: Some(name.to_string()), symbol, start }
            }
            None => {
                let start = pieces.around(at, 0, u64::MAX).range.start;
                Named { name: None, symbol: None, start }
            }
        });
        found.clone()
    }
}

/// A function.
#[derive(Clone, Debug)]
struct Named {
    /// Demangled.
    name: Option<String>,
    symbol: Option<Symbol>,
    /// First address, as linked.
    start: u64,
}

/// Where a function is: place of its file in the list, or none; first address as linked.
type FunctionKey = (Option<usize>, u64);

struct Builder<'r> {
    arch: Arch,
    results: Results<'r>,
    functions: BTreeMap<FunctionKey, Function>,
    faults: Vec<Fault>,
    summary: Summary,
}

impl Builder<'_> {
    fn add(
        &mut self,
        pc: u64,
        record: &PcRecord,
        executions: u64,
        point: ProgramPoint,
        view: Option<usize>,
        views: &mut [View<'_>],
    ) {
        let (module, named, linked) = match view.and_then(|v| views.get_mut(v)) {
            Some(view) => {
                let linked = view.linked(pc);
                (view.name.clone(), view.function(linked), linked)
            }
            None => {
                let named = Named { name: None, symbol: None, start: pc & !0xfff };
                ("(no file)".to_owned(), named, pc)
            }
        };
        let function = self.functions.entry((view, named.start)).or_insert_with(|| Function {
            module: module.clone(),
            function: named.name.clone(),
            symbol: named.symbol.clone(),
            start: Hex(named.start),
            pcs: 0,
            undecided: 0,
            points: BTreeMap::new(),
        });
        function.pcs += 1;
        self.summary.pcs += 1;
        self.summary.checks += record.checked;
        if record.checked == 0 {
            function.undecided += 1;
            self.summary.undecided += 1;
            return;
        }
        let counts: ByMethod = self.results.checked.iter().map(|id| counts(record, *id)).collect();
        for points in [&mut function.points, &mut self.summary.points] {
            let sums = points.entry(point).or_insert_with(|| vec![Counts::default(); counts.len()]);
            sums.iter_mut().zip(&counts).for_each(|(sum, c)| sum.add(*c));
        }
        for (index, id) in self.results.checked.iter().enumerate() {
            let Some(method) = record.methods.get(id.0) else { continue };
            let place = Place { module: &module, function: &named, linked, pc, point };
            for (wrong, seen) in &method.wrong {
                self.summary.faults[index] += 1; // one for each checked method
                let what = (*id, *wrong, seen);
                let fault = self.fault(&place, record, what, executions, view, views);
                self.faults.push(fault);
            }
        }
    }

    fn fault(
        &self,
        place: &Place<'_>,
        record: &PcRecord,
        (id, wrong, seen): (MethodId, Wrong, &Seen),
        executions: u64,
        view: Option<usize>,
        views: &mut [View<'_>],
    ) -> Fault {
        let Seen { times, example } = seen;
        let Named { name, symbol, start } = place.function;
        let mut row = None;
        let mut listing = Vec::new();
        if let Some(view) = view.and_then(|v| views.get_mut(v)) {
            let texts = view.rows.at(place.pc);
            row = match id {
                MethodId::DWARF => texts.dwarf,
                MethodId::SFRAME => texts.sframe,
                _ => None,
            };
            listing = view.listing(*start, place.linked);
        }
        let here = |(address, _): &&(Hex, String)| address.0 == place.linked;
        let instruction = listing.iter().find(here).map_or(String::new(), |l| l.1.clone());
        let expected = example.expected.map(|e| Caller {
            cfa: Some(Hex(e.sp)),
            return_address: Hex(e.address.value()),
            address_kind: Some(FrameKind::of(e.address)),
            place: name_of(e.address, views),
            registers: e.saved.map_or_else(Registers::new, |saved| {
                let numbers = saved_numbers(self.arch);
                numbers.zip(saved).map(|(n, v)| (register(self.arch, n), Hex(v))).collect()
            }),
        });
        let (found, reason) = match &example.found {
            Ok(found) => (Some(self.told(found, views)), None),
            Err(NoCaller::Failed(why)) => (None, Some(why.clone())),
            Err(NoCaller::Complete) => (None, Some("outermost frame".to_owned())),
            Err(NoCaller::NoCoverage) => (None, Some("no row".to_owned())),
        };
        Fault {
            module: place.module.to_owned(),
            function: name.clone(),
            symbol: symbol.clone(),
            offset: Hex(place.linked.wrapping_sub(*start)),
            pc: Hex(place.linked),
            address: Hex(place.pc),
            point: place.point,
            method: self.results.names.get(id.0).cloned().unwrap_or_default(),
            wrong: wrong.name().to_owned(),
            executions: executions.max(record.checked),
            checked: record.checked,
            times: *times,
            row,
            instruction,
            listing,
            registers: frame_registers(&example.regs),
            expected,
            found,
            reason,
        }
    }

    fn told(&self, found: &Told, views: &mut [View<'_>]) -> Caller {
        let known = saved_numbers(self.arch)
            .filter_map(|n| Some((register(self.arch, n), Hex(found.registers.get(n)?))));
        Caller {
            cfa: found.sp.map(Hex),
            return_address: Hex(found.address.value()),
            address_kind: found.tells_interrupted.then(|| FrameKind::of(found.address)),
            registers: known.collect(),
            place: name_of(found.address, views),
        }
    }

    fn finish(self, header: Header) -> Report {
        let functions = self.functions.into_values().collect();
        Report { header, functions, faults: self.faults, summary: self.summary }
    }
}

/// Where a fault is.
struct Place<'p> {
    module: &'p str,
    function: &'p Named,
    linked: u64,
    pc: u64,
    point: ProgramPoint,
}

/// One PC is right, wrong or not covered, once for each method.
fn counts(record: &PcRecord, id: MethodId) -> Counts {
    let one = Counts::default();
    match record.methods.get(id.0) {
        Some(m) if !m.wrong.is_empty() => Counts { wrong: 1, ..one },
        Some(m) if m.no_coverage > 0 => Counts { no_coverage: 1, ..one },
        _ => Counts { right: 1, ..one },
    }
}

/// What the address of a caller is in: `main+0x1f`, the file's name, or nothing.
fn name_of(address: CodeAddress, views: &mut [View<'_>]) -> String {
    let at = address.lookup().value();
    let Some(view) = views.iter_mut().find(|v| v.covers(at)) else { return String::new() };
    match view.function(view.linked(at)) {
        Named { name: Some(name), start, .. } => {
            format!("{name}+{:#x}", view.linked(address.value()).wrapping_sub(start))
        }
        Named { name: None, .. } => view.name.clone(),
    }
}

/// The name of a register by its DWARF number.
fn register(arch: Arch, number: u8) -> String {
    let names: &[&str] = match arch {
        Arch::X86_64 => &arch::x86_64::regs::NAMES,
        Arch::Aarch64 => &arch::aarch64::regs::NAMES,
    };
    names.get(usize::from(number)).map_or_else(|| format!("r{number}"), |n| (*n).to_owned())
}

/// Those that rules are about.
fn frame_registers(regs: &Regs) -> Registers {
    let arch = regs.arch;
    let mut numbers = vec![arch.sp(), arch.fp()];
    if arch == Arch::Aarch64 {
        numbers.push(arch::aarch64::regs::LR);
    }
    numbers.into_iter().map(|n| (register(arch, n as u8), Hex(regs.gp[n]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_those_of_all_blocks_around() {
        let blocks = [(0x10, 8, 5), (0x14, 4, 2), (0x20, 4, 1)];
        let pcs = [0x0f, 0x10, 0x14, 0x17, 0x18, 0x20, 0x24];
        assert_eq!(per_pc(&blocks, pcs.into_iter()), [0, 5, 7, 7, 0, 1, 0]);
    }
}
