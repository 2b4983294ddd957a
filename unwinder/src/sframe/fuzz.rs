//! The oracle that fuzzing drives: what must hold for any bytes at all.
//!
//! A lookup is compared with a slow one that goes through the lists of functions and rows
//! from the start, as [`Table`] gives them to tools, and with the kernel's registry over the
//! same bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use arch::Arch;

use super::frame_row::{Heads, Order};
use super::function::{Entry, Part};
use super::registry::{LookupError, Mapping, Mappings, Policy, Registry};
use super::rules::{self, Rules};
use super::{Abi, Error, ErrorKind, Found, Function, Problem, Severity, Table, Version};
use crate::address::InterruptedAddress;
use crate::brief::Brief;
use crate::memory::Copied;
use crate::row::{Miss, Row, Rule, Silent};
use crate::{CodeAddress, LookupAddress, Memory};

/// Where the bytes are taken to be.
const ADDRESS: u64 = 0x40_0000;

/// Functions whose addresses are looked up. The slow lookup takes time for each.
const PROBED: usize = 12;

/// Rows of a function whose addresses are looked up.
const PROBED_ROWS: usize = 8;

/// Reads `bytes` as a section, validates it and looks up addresses in it.
///
/// # Panics
///
/// When a promise of this module is broken: an error of more than one line or outside the
/// section, a lookup that contradicts the lists, a sound section with a broken row.
pub fn fuzz_sframe(bytes: &[u8]) {
    let (table, warnings) = match Table::of_any_arch(ADDRESS, bytes) {
        Ok(table) => table,
        Err(error) => return check_error(error, bytes),
    };
    for warning in &warnings {
        assert!(warning.offset <= bytes.len() as u64, "{warning}");
        assert!(!warning.to_string().contains('\n'));
    }
    let abi = table.parts()[0].header.abi; // a table has one part at least
    for arch in Arch::ALL {
        let same = Table::new(arch, ADDRESS, bytes).is_ok();
        assert_eq!(same, abi.arch() == Some(arch), "{arch}");
    }
    let problems = check_problems(&table, bytes);
    let functions = check_lists(&table, bytes);
    let probes = probes(&table, &functions);
    for &pc in &probes {
        let found = table.row(key(pc));
        check_answer(&table, pc, found, abi);
        check_brief(&table, pc, &found);
        check_same(&table, pc, slow(&table, pc));
        let bad = problems.iter().any(|p| p.severity() != Severity::Warning);
        assert!(bad || abi == Abi::S390x || !matches!(found, Err(Miss::Bad(_))), "{pc:#x}");
    }
    if abi == Abi::Amd64 || abi == Abi::Aarch64 {
        check_registry(&table, abi, bytes, &probes);
    }
}

fn key(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

fn check_error(error: Error, bytes: &[u8]) {
    assert!(error.offset <= bytes.len() as u64, "{error}");
    let line = error.to_string();
    assert!(line.starts_with(".sframe, offset 0x") && !line.contains('\n'), "{line}");
}

/// All problems, in the order of the section.
fn check_problems(table: &Table<&[u8]>, bytes: &[u8]) -> Vec<Problem> {
    let problems = table.check();
    let entries = table.functions().count();
    let rows: usize = table.parts().iter().map(|p| p.header.rows as usize).sum();
    assert!(problems.len() <= 9 * entries + 6 * rows, "more problems than rules");
    let mut before = 0;
    for problem in &problems {
        assert!(before <= problem.offset() && problem.offset() <= bytes.len() as u64, "{problem}");
        assert!(!problem.to_string().contains('\n'));
        before = problem.offset();
    }
    problems
}

/// The functions that can be read. As many rows as the headers say are read in all.
fn check_lists(table: &Table<&[u8]>, bytes: &[u8]) -> Vec<Function> {
    let announced: u64 = table.parts().iter().map(|p| u64::from(p.header.functions)).sum();
    assert_eq!(table.functions().count() as u64, announced);
    let announced: u64 = table.parts().iter().map(|p| u64::from(p.header.rows)).sum();
    let mut rows = 0;
    let mut functions = Vec::new();
    for function in table.functions() {
        let function = match function {
            Ok(function) => function,
            Err(error) => {
                check_error(error, bytes);
                continue;
            }
        };
        assert!(function.start.checked_add(function.size.into()).is_some());
        let mut before = (0, 0);
        for row in table.rows(&function) {
            let Ok(row) = row else { break };
            rows += 1;
            assert!(before <= (row.start, row.offset) && row.start <= function.bound());
            assert_eq!(row.words().count(), usize::from(row.info.words()));
            before = (row.start, row.offset);
        }
        functions.push(function);
    }
    assert!(rows <= announced, "{rows} rows of {announced}");
    functions
}

/// Addresses at which something begins or ends.
fn probes(table: &Table<&[u8]>, functions: &[Function]) -> BTreeSet<u64> {
    let mut probes = BTreeSet::from([0, ADDRESS, u64::MAX]);
    let mut around = |address: u64| {
        probes.extend([address.wrapping_sub(1), address, address.wrapping_add(1)]);
    };
    let step = functions.len() / PROBED + 1;
    for function in functions.iter().step_by(step) {
        around(function.start);
        around(function.start + u64::from(function.size));
        let block = u64::from(function.block).min(function.size.into());
        around(function.start + block);
        for row in table.rows(function).take(PROBED_ROWS).filter_map(Result::ok) {
            around(function.start.wrapping_add(row.start.into()));
            around(function.start.wrapping_add(u64::from(row.start) + block));
        }
    }
    probes
}

fn check_answer(table: &Table<&[u8]>, pc: u64, found: Result<Found, Miss<Error>>, abi: Abi) {
    match found {
        Ok(Found::Row(row)) => check_row(pc, &row, abi),
        Ok(Found::SignalTrampoline) => {
            assert!(table.parts().iter().any(|p| p.header.version == Version::V3));
        }
        Err(Miss::Bad(error)) => check_error(error, table.data()),
        Err(Miss::NotCovered) => {}
    }
}

/// The row in short is the row, or the row has to be asked for.
fn check_brief(table: &Table<&[u8]>, pc: u64, found: &Result<Found, Miss<Error>>) {
    let expected = match found {
        Ok(Found::Row(row)) => {
            let arch = table.parts()[0].header.abi.arch(); // one that is unwound has rows
            arch.map_or(Brief::Long, |arch| Brief::of(row, arch))
        }
        Ok(Found::SignalTrampoline) => Brief::Long,
        Err(miss) => return assert_eq!(table.brief(key(pc)), Err(*miss)),
    };
    assert!([Ok(expected), Ok(Brief::Long)].contains(&table.brief(key(pc))), "{pc:#x}");
    if let Some(rule) = table.view().and_then(|view| view.rule(pc)) {
        assert_eq!(Brief::Usual(rule), expected, "{pc:#x}");
    }
}

fn check_row(pc: u64, row: &Row, abi: Abi) {
    let arch = abi.arch().expect("only architectures that are unwound have rows");
    assert!(row.range.0 <= pc && pc < row.range.1, "{pc:#x} in {:#x?}", row.range);
    assert!(row.signed.is_none() || arch == Arch::Aarch64);
    let (ra, fp) = (row.return_address, arch.fp() as u8);
    assert!(row.rule(ra) != Rule::Unmentioned && row.rule(fp) != Rule::Unmentioned);
    for column in (0..Row::COLUMNS as u8).filter(|&c| c != ra && c != fp) {
        assert_eq!(row.rule(column), Rule::Unmentioned);
    }
    assert!(row.rule(ra) != Rule::Same || arch == Arch::Aarch64);
}

/// The answer, by going through everything: of the functions that hold `pc` that with the
/// lowest start, of these the first one; and in it the last row that starts at or below `pc`.
fn slow(table: &Table<&[u8]>, pc: u64) -> Result<Found, Miss<Error>> {
    let mut bytes = table.data();
    let mut lowest = None::<(u64, u32, u32)>;
    for (number, part) in (0..).zip(table.parts()) {
        for index in 0..part.header.functions {
            let Ok(entry @ Entry { start, .. }) = part.entry(&mut bytes, index) else { continue };
            if entry.holds(pc) && lowest.is_none_or(|(s, ..)| start < s) {
                lowest = Some((start, number, index));
            }
        }
    }
    let (_, number, index) = lowest.ok_or(Miss::NotCovered)?;
    let part = &table.parts()[number as usize];
    let function = part.function(&mut bytes, index, number).map_err(Miss::Bad)?;
    slow_row(table, part, &function, pc)
}

fn slow_row(
    table: &Table<&[u8]>,
    part: &Part,
    f: &Function,
    pc: u64,
) -> Result<Found, Miss<Error>> {
    let abi = part.header.abi;
    let unsupported = Error { offset: f.offset, kind: ErrorKind::Unsupported(abi) };
    let arch = abi.arch().ok_or(Miss::Bad(unsupported))?;
    if f.rows == 0 && f.version == Version::V3 {
        return match (f.is_signal(), f.is_flexible()) {
            (true, _) => Ok(Found::SignalTrampoline),
            (_, true) => Err(Miss::NotCovered),
            _ => Ok(Found::Row(row_of(arch, f.range(), rules::outermost(arch)))),
        };
    }
    let block = if f.info.repeats() { u64::from(f.block) } else { u64::from(f.size) };
    let base = pc - (pc - f.start) % block;
    let mut bytes = table.data();
    let mut heads = Heads::new(part, f, Order::Ascending);
    let (mut found, mut end) = (None, base + block);
    while let Some(head) = heads.next(&mut bytes) {
        let head = head.map_err(Miss::Bad)?;
        let start = base + u64::from(head.start);
        if start > pc {
            end = start;
            break;
        }
        found = Some((start, head));
    }
    let (start, head) = found.ok_or(Miss::NotCovered)?;
    let row = part.frame_row(&mut bytes, head).map_err(Miss::Bad)?;
    let rules = part.rules(f, &row).map_err(Miss::Bad)?;
    let mut answer = row_of(arch, start..end.min(f.range().end), rules);
    answer.signal = f.version == Version::V3 && f.info.0 & 0x80 != 0;
    answer.signed = (row.info.0 & 0x80 != 0 && arch == Arch::Aarch64).then_some(f.info.key());
    Ok(Found::Row(answer))
}

fn row_of(arch: Arch, range: Range<u64>, rules: Rules) -> Row {
    let mut row = Row::new(arch, range, rules.cfa, Silent::Unknown);
    row.set(row.return_address, rules.ra);
    row.set(arch.fp() as u8, rules.fp);
    row
}

/// The table's answer. Where functions overlap, a row may begin before it is the one that is
/// used.
fn check_same(table: &Table<&[u8]>, pc: u64, mut slow: Result<Found, Miss<Error>>) {
    let found = table.row(key(pc));
    if let (Ok(Found::Row(found)), Ok(Found::Row(slow))) = (&found, &mut slow) {
        assert!(slow.range.0 <= found.range.0);
        slow.range.0 = found.range.0;
    }
    assert_eq!(found, slow, "{pc:#x}");
}

/// A process that has the section and nothing else.
struct Process<'a>(Copied<&'a [u8]>);

impl Memory for Process<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read(address, bytes)
    }
}

impl Mappings for Process<'_> {
    fn mapping(&self, _: u64) -> Option<Mapping> {
        Some(Mapping { range: 0..u64::MAX, executable: true })
    }
}

/// Where the kernel has an answer, it is the table's.
fn check_registry(table: &Table<&[u8]>, abi: Abi, bytes: &[u8], probes: &BTreeSet<u64>) {
    let Some(arch) = abi.arch() else { return };
    let versions = &[Version::V1, Version::V2, Version::V3];
    let policy = Policy { versions, pc_relative: false, ..Policy::default() };
    let mut process = Process(Copied { address: ADDRESS, bytes });
    let section = ADDRESS..ADDRESS + bytes.len() as u64;
    let mut registry = Registry::new(arch, policy);
    if registry.register(section.clone(), 1..u64::MAX, &mut process).is_err() {
        return;
    }
    let one_part = table.parts().len() == 1;
    let sound = table.check().is_empty();
    for &pc in probes {
        let kernel = registry.lookup(key(pc), &mut process);
        if let Err(LookupError::Fault(_)) = kernel {
            assert!(registry.is_empty());
            assert!(registry.unregister(section.start).is_err());
            let again = registry.register(section.clone(), 1..u64::MAX, &mut process);
            assert_eq!(again, Ok(()), "the header did not change");
        }
        if !(one_part && sound) {
            continue; // overlaps are resolved otherwise
        }
        match (kernel, table.row(key(pc))) {
            (Ok(found), other) => assert_eq!(other, Ok(found), "{pc:#x}"),
            (Err(_), Err(_)) => {}
            // The whole address space but its ends is registered.
            (Err(LookupError::NoSection), Ok(_)) => assert!(pc == 0 || pc == u64::MAX),
            (Err(LookupError::Fault(e)), Ok(_)) => {
                assert!(matches!(e.kind, ErrorKind::NotCode { .. }), "{pc:#x}: {e}");
            }
            (kernel, found) => panic!("{pc:#x}: {kernel:?}, but {found:?}"),
        }
    }
}
