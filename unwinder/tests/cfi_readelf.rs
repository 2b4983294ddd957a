//! Decoded rows against `readelf --debug-dump=frames-interp`: over stored outputs, and over
//! all guests where readelf is installed.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use arch::Arch;
use common::guests::{self, Guest};
use unwinder::dwarf::{Context, ErrorKind, SectionName, Table};
use unwinder::row::{CfaRule, Row, Rule};

/// What readelf says of an FDE: CFA and rules (by column) from an address on.
#[derive(Debug, PartialEq)]
struct Description {
    range: (u64, u64),
    rows: Vec<(u64, String, BTreeMap<u8, String>)>,
}

type Descriptions = BTreeMap<u64, Description>;

/// Number of a column by readelf's name; vector registers have none.
fn column(arch: Arch, name: &str, return_address: u8) -> Option<u8> {
    const X86: [&str; 8] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    if name == "ra" {
        return Some(return_address);
    }
    if name == "sp" {
        return Some(31);
    }
    if let Some(number) = X86.iter().position(|&x| x == name) {
        return Some(number as u8);
    }
    let prefix = if arch == Arch::X86_64 { 'r' } else { 'x' };
    name.strip_prefix(prefix)?.parse().ok().filter(|&n| n < 31)
}

fn name(arch: Arch, register: u8) -> String {
    const X86: [&str; 8] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    match (arch, register) {
        (Arch::X86_64, 0..8) => X86[usize::from(register)].into(),
        (Arch::X86_64, _) => format!("r{register}"),
        (_, 31) => "sp".into(),
        _ => format!("x{register}"),
    }
}

/// All FDEs of one section in readelf's output.
fn parse(arch: Arch, output: &str, section: SectionName) -> Descriptions {
    let title = format!("Contents of the {} section:", section.name());
    let Some((_, text)) = output.split_once(&title) else { return BTreeMap::new() };
    let text = text.split("Contents of the").next().unwrap();
    let mut all = BTreeMap::new();
    let mut cies = BTreeMap::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.trim().is_empty());
        let Some(head) = lines.next() else { continue };
        let words: Vec<_> = head.split_whitespace().collect();
        let offset = u64::from_str_radix(words[0], 16).unwrap();
        let after = |key: &str| head.split_once(key).map(|(_, v)| v.split(' ').next().unwrap());
        match words.get(3) {
            Some(&"CIE") => {
                let ra: u8 = after(" ra=").unwrap().parse().unwrap();
                let rows = rows(arch, lines, ra);
                cies.insert(offset, (ra, rows));
            }
            Some(&"FDE") => {
                let cie = u64::from_str_radix(after("cie=").unwrap(), 16).unwrap();
                let (start, end) = after("pc=").unwrap().split_once("..").unwrap();
                let address = |text| u64::from_str_radix(text, 16).unwrap();
                let (start, end) = (address(start), address(end));
                let (ra, initial) = &cies[&cie];
                let mut rows = rows(arch, lines, *ra);
                if rows.is_empty() {
                    // No instructions: readelf leaves it at the CIE's row.
                    rows.extend(initial.iter().cloned().map(|row| (start, row.1, row.2)));
                }
                // The linker's description of a PLT goes on behind a PLT of one stub.
                rows.retain(|row| row.0 < end);
                all.insert(offset, Description { range: (start, end), rows });
            }
            _ => assert!(head.contains("ZERO terminator"), "{head}"),
        }
    }
    all
}

fn rows<'a>(
    arch: Arch,
    mut lines: impl Iterator<Item = &'a str>,
    ra: u8,
) -> Vec<(u64, String, BTreeMap<u8, String>)> {
    let Some(head) = lines.next() else { return Vec::new() };
    let columns: Vec<_> =
        head.split_whitespace().skip(2).map(|name| column(arch, name, ra)).collect();
    let mut rows: Vec<(u64, String, BTreeMap<u8, String>)> = Vec::new();
    for line in lines {
        // An operation that readelf does not know, in a guest that shows just that.
        if line.contains("DW_CFA_???") {
            continue;
        }
        // A register rule has number and name: "r9 (r9)".
        let mut words = line.split_whitespace().filter(|word| !word.starts_with('('));
        let at = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let cfa = words.next().unwrap().to_owned();
        let rules = columns
            .iter()
            .zip(words)
            .filter_map(|(column, rule)| Some(((*column)?, rule.to_owned())))
            .filter(|(_, rule)| rule != "u")
            .collect();
        rows.retain(|row| row.0 != at);
        rows.push((at, cfa, rules));
    }
    rows
}

/// A row as readelf writes it.
fn written(arch: Arch, row: &Row) -> (u64, String, BTreeMap<u8, String>) {
    let cfa = match row.cfa {
        CfaRule::Register { register, offset } => format!("{}{offset:+}", name(arch, register)),
        CfaRule::Expression(_) => "exp".into(),
        other => panic!("not out of a DWARF table: {other:?}"),
    };
    let rules = (0..).zip(row.rules).filter_map(|(column, rule)| {
        let text = match rule {
            // readelf does not tell these two apart.
            Rule::Unmentioned | Rule::Undefined => return None,
            Rule::Same => "s".into(),
            Rule::AtCfa(offset) => format!("c{offset:+}"),
            Rule::Cfa(offset) => format!("v{offset:+}"),
            // By number, whatever its name.
            Rule::Register { register, .. } => format!("r{register}"),
            Rule::AtExpression(_) => "exp".into(),
            Rule::Expression(_) => "vexp".into(),
            other => panic!("not out of a DWARF table: {other:?}"),
        };
        Some((column, text))
    });
    (row.range.0, cfa, rules.collect())
}

/// Compares all tables of a guest; the number of rows.
fn compare(guest: &Guest, output: &str) -> usize {
    let mut count = 0;
    for sections in guest.sections() {
        let (table, mut warnings) = Table::new(guest.arch, sections).unwrap();
        if table.name() == SectionName::DebugFrame {
            // Of functions that the linker left out.
            warnings.retain(|w| w.kind != ErrorKind::EmptyRange);
        }
        // Made by hand.
        warnings.retain(|w| w.kind != ErrorKind::NoSearchTable);
        assert_eq!(warnings, [], "{}", guest.name);
        let mut expected = parse(guest.arch, output, table.name());
        let (context, lookup) = (&mut Context::new(), &mut Context::new());
        for entry in table.entries() {
            let entry = entry.unwrap();
            let place = format!("{} {} {:#x}", guest.name, table.name().name(), entry.offset);
            let mut rows = Vec::new();
            let read = table.rows(&entry, context, |row| {
                rows.push(written(guest.arch, row));
                // And the row is the one that is found.
                for address in [row.range.0, row.range.1 - 1] {
                    assert_eq!(table.row(common::at(address), lookup), Ok(*row));
                }
            });
            if let Err(error) = read {
                // readelf goes on behind an operation that it does not know; nobody can say
                // what rows that gives.
                let unknown = output.contains("DW_CFA_???");
                assert!(unknown && matches!(error.kind, ErrorKind::Instruction(_)), "{place}");
                expected.remove(&entry.offset);
                continue;
            }
            count += rows.len();
            let found = Description { range: entry.range, rows };
            assert_eq!(Some(found), expected.remove(&entry.offset), "{place}");
        }
        assert_eq!(expected.len(), 0, "{}", guest.name);
    }
    count
}

#[test]
fn rows_are_those_of_stored_outputs() {
    let mut rows = 0;
    for guest in guests::dumps() {
        rows += compare(&guest, &std::fs::read_to_string(&guest.path).unwrap());
    }
    assert!(rows > 1000, "{rows}");
}

#[test]
fn rows_are_those_of_readelf() {
    let mut rows = 0;
    for guest in guests::programs() {
        let mut readelf = Command::new("readelf");
        readelf.arg("--debug-dump=frames-interp").arg("--wide").arg(&guest.path);
        let Ok(output) = readelf.env("LC_ALL", "C").output() else {
            println!("skipped: readelf is not installed");
            return;
        };
        rows += compare(&guest, &String::from_utf8(output.stdout).unwrap());
    }
    assert!(rows > 100_000, "{rows}");
}

#[test]
fn headers_of_linkers_can_be_trusted() {
    let mut headers = 0;
    for guest in guests::programs().iter().chain(&guests::dumps()) {
        for sections in guest.sections() {
            let with =
                matches!(sections, unwinder::dwarf::Sections::EhFrame { header: Some(_), .. });
            let (table, _) = Table::new(guest.arch, sections).unwrap();
            // Made by hand, without a table.
            let by_hand = guest.name.ends_with("zoo-eh-frame-hdr");
            assert_eq!(table.uses_header(), with && !by_hand, "{}", guest.name);
            headers += usize::from(with);
        }
    }
    assert!(headers > 20, "{headers}");
}
