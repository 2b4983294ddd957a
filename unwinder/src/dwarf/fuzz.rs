//! The oracles that fuzzing drives: what must hold for any bytes at all.

use arch::Arch;

use super::{Context, Entry, Error, SectionName, Table, Warning};
use super::{Section, Sections};
use crate::brief::Brief;
use crate::row::{CfaRule, Miss, Row, Rule};
use crate::{CodeAddress, InstructionPointer, LookupAddress};

/// Where `.eh_frame` and `.eh_frame_hdr` are said to be.
pub const FRAME: u64 = 0x40_0000;
/// See [`FRAME`].
pub const HEADER: u64 = 0x3f_0000;

/// Entries of one input that are looked at closely.
const ENTRIES: usize = 16;

type Bytes<'a> = Table<&'a [u8]>;

/// Reads `bytes` as `.eh_frame` and as `.debug_frame` of both architectures.
///
/// # Panics
///
/// When a promise is broken: an error without a place in the section, a row outside its
/// function, an expression outside the section, a lookup that finds anything else than a
/// search from the start does.
pub fn fuzz_eh_frame(bytes: &[u8]) {
    let frame = Section { address: FRAME, bytes };
    for arch in Arch::ALL {
        check(arch, Sections::EhFrame { frame, header: None, text: None, got: None });
        check(arch, Sections::DebugFrame { bytes });
    }
}

/// Reads `bytes` as the length of an `.eh_frame` (two bytes, little-endian), that section,
/// and its `.eh_frame_hdr`.
///
/// # Panics
///
/// When a promise is broken: a header that changes what is found, or that is neither used
/// nor warned about.
pub fn fuzz_eh_frame_hdr(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
    let (frame, header) = rest.split_at(len);
    let frame = Section { address: FRAME, bytes: frame };
    let sections = |header| Sections::EhFrame { frame, header, text: None, got: None };
    let (plain, faults) = table(Arch::X86_64, sections(None));
    let with = sections(Some(Section { address: HEADER, bytes: header }));
    let (table, mut warnings) = table(Arch::X86_64, with);
    if !table.uses_header() {
        let Some(warning) = warnings.pop() else { panic!("a header was not used in silence") };
        assert_eq!(warning.section, SectionName::EhFrameHdr);
        assert!(warning.offset <= header.len() as u64, "{warning}");
    }
    assert_eq!(warnings, faults);
    let context = &mut Context::new();
    let entries: Vec<_> = plain.entries().flatten().take(ENTRIES).collect();
    for address in addresses(&entries) {
        let expected = plain.row(address, context);
        assert_eq!(table.row(address, context), expected, "at {address}");
    }
}

fn table<'a>(arch: Arch, sections: Sections<&'a [u8]>) -> (Bytes<'a>, Vec<Warning>) {
    Table::new(arch, sections).unwrap_or_else(|error| panic!("too large to fuzz: {error}"))
}

fn check(arch: Arch, sections: Sections<&[u8]>) {
    let (table, warnings) = table(arch, sections);
    for warning in &warnings {
        check_error(&table, warning);
    }
    let mut entries = Vec::new();
    for entry in table.entries() {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                check_error(&table, &error);
                assert!(warnings.contains(&error), "kept quiet: {error}");
            }
        }
    }
    let context = &mut Context::new();
    for entry in &entries {
        assert!(entry.range.0 <= entry.range.1);
        assert!(entry.offset.max(entry.cie) < table.section().len() as u64);
    }
    for entry in entries.iter().take(ENTRIES) {
        check_rows(&table, entry, context);
    }
    for address in addresses(&entries[..entries.len().min(ENTRIES)]) {
        check_lookup(&table, &entries, address, context);
    }
}

fn check_error(table: &Bytes<'_>, error: &Error) {
    assert_eq!(error.section, table.name());
    assert!(error.offset < table.section().len() as u64, "{error}");
    let line = error.to_string();
    assert!(line.starts_with(error.section.name()) && !line.contains('\n'), "{line:?}");
}

fn check_rows(table: &Bytes<'_>, entry: &Entry<'_>, context: &mut Context) {
    let mut end = entry.range.0;
    let result = table.rows(entry, context, |row| {
        assert!(end <= row.range.0 && row.range.0 < row.range.1 && row.range.1 <= entry.range.1);
        end = row.range.1;
        assert!(usize::from(row.return_address) < Row::COLUMNS);
        check_expressions(table, row);
        check_brief(table, entry, row);
    });
    match result {
        Ok(()) => assert_eq!(end, entry.range.1, "rows end before their function"),
        Err(error) => check_error(table, &error),
    }
}

/// The row in short is the row, or the row has to be asked for.
fn check_brief(table: &Bytes<'_>, entry: &Entry<'_>, row: &Row) {
    for address in [row.range.0, row.range.1 - 1] {
        let at = CodeAddress::from(InstructionPointer(address)).lookup();
        if table.find(at) == Some(entry.offset as usize) {
            let (found, expected) = (table.brief(at), Brief::of(row, table.arch));
            assert!(found == expected || found == Brief::Long, "{at}: {found:?}, {expected:?}");
        }
    }
}

fn check_expressions(table: &Bytes<'_>, row: &Row) {
    let in_cfa = match row.cfa {
        CfaRule::Expression(e) => Some(e),
        _ => None,
    };
    let in_rules = row.rules.iter().filter_map(|rule| match *rule {
        Rule::Expression(e) | Rule::AtExpression(e) => Some(e),
        _ => None,
    });
    for e in in_rules.chain(in_cfa) {
        assert!(u64::from(e.offset) + u64::from(e.len) <= table.section().len() as u64);
    }
}

/// Where it matters what is found.
fn addresses(entries: &[Entry<'_>]) -> Vec<LookupAddress> {
    let of = |&Entry { range: (start, end), .. }: &Entry<'_>| {
        [start.wrapping_sub(1), start, start + (end - start) / 2, end.wrapping_sub(1), end]
    };
    let lookup = |address| CodeAddress::from(InstructionPointer(address)).lookup();
    entries.iter().flat_map(of).map(lookup).collect()
}

/// What is found at an address is what the first entry that covers it says.
fn check_lookup(
    table: &Bytes<'_>,
    entries: &[Entry<'_>],
    at: LookupAddress,
    context: &mut Context,
) {
    let covers = |(start, end): (u64, u64)| start <= at.value() && at.value() < end;
    let found = table.row(at, context);
    let brief = table.brief(at);
    match &found {
        Ok(row) => assert!([Brief::of(row, table.arch), Brief::Long].contains(&brief), "{at}"),
        Err(Miss::Bad(_)) => assert_eq!(brief, Brief::Long, "{at}"),
        Err(Miss::NotCovered) => assert_eq!(brief, Brief::NotCovered, "{at}"),
    }
    let Some(entry) = entries.iter().find(|entry| covers(entry.range)) else {
        return assert_eq!(found, Err(Miss::NotCovered));
    };
    let mut expected = None;
    let rows = table.rows(entry, context, |row| {
        expected = expected.or(covers(row.range).then_some(*row));
    });
    match (found, expected) {
        (found, Some(row)) => assert_eq!(found, Ok(row)),
        (Err(Miss::Bad(error)), None) => {
            check_error(table, &error);
            assert!(rows.is_err(), "only a lookup fails: {error}");
        }
        // A row before this one is broken, and this one is not.
        (Ok(row), None) => assert!(covers(row.range) && rows.is_err()),
        (Err(Miss::NotCovered), None) => panic!("{at} is covered"),
    }
}
