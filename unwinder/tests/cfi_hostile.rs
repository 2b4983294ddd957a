//! Large sections made to be slow: none is read in more than about linear time. A test that
//! does not end is one that fails.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use arch::Arch::X86_64;
use common::{CODE, Frame, at, cfa, one};
use unwinder::dwarf::{Context, ErrorKind};
use unwinder::row::Miss;

const MANY: u64 = 20_000;

#[test]
fn functions_nested_from_inside_out() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    for n in 0..MANY {
        frame.fde(cie, CODE + MANY - n, 2 * n + 1, &[]);
    }
    let (table, warnings) = frame.table();
    assert_eq!(warnings.len() as u64, MANY - 1);
    let entries: Vec<_> = table.entries().map(Result::unwrap).collect();
    let mut context = Context::new();
    for (n, entry) in (0..MANY).zip(&entries).step_by(97) {
        for address in [CODE + MANY - n, CODE + MANY + n] {
            // The first entry in the section that covers it.
            let first = entries.iter().find(|e| (e.range.0..e.range.1).contains(&address));
            assert_eq!(first, Some(entry));
            assert_eq!(table.row(at(address), &mut context).unwrap().range, entry.range);
        }
    }
}

#[test]
fn functions_nested_from_outside_in() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    for n in (0..MANY).rev() {
        frame.fde(cie, CODE + MANY - n, 2 * n + 1, &[]);
    }
    let (table, warnings) = frame.table();
    assert_eq!(warnings.len() as u64, MANY - 1);
    let range = table.row(at(CODE + MANY), &mut Context::new()).unwrap().range;
    assert_eq!(range, (CODE + 1, CODE + 2 * MANY));
}

#[test]
fn states_that_are_remembered_over_and_over() {
    let rules: Vec<u8> = (17..60).flat_map(|n| [0x05, n, 1]).collect();
    let states = [0x0a, 0x0b].repeat(100_000);
    let row = one(X86_64, &bytes![rules, states]).row(CODE).unwrap();
    assert_eq!(row.cfa, cfa(7, 8));
}

#[test]
fn many_rows_without_a_cfa() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.cie(common::Cie {
        version: 1,
        augmentation: "zR",
        data: &[common::PCREL],
        code_align: 1,
        data_align: -8,
        return_address: 16,
        instructions: &[],
    });
    // Defined at the end, so that it has to be looked for everywhere.
    frame.fde(cie, CODE, 1 << 20, &bytes![[0x41].repeat(200_000), [0x0c, 0, 0]]);
    let (table, _) = frame.table();
    let entry = table.entries().next().unwrap().unwrap();
    let mut rows = 0;
    table.rows(&entry, &mut Context::new(), |_| rows += 1).unwrap();
    assert_eq!(rows, 200_001);
}

#[test]
fn common_entries_that_alternate() {
    let mut frame = Frame::new(X86_64);
    let cies = [(); 2].map(|()| frame.usual_cie(&"S".repeat(100_000)));
    for n in 0..MANY {
        frame.fde(cies[n as usize % 2], CODE + n, 1, &[]);
    }
    let (table, warnings) = frame.table();
    assert_eq!(warnings.len() as u64, MANY);
    assert!(warnings.iter().all(|w| w.kind == ErrorKind::Augmentation));
    assert_eq!(table.row(at(CODE), &mut Context::new()), Err(Miss::NotCovered));
}

#[test]
fn nothing_but_terminators_or_tiny_entries() {
    for (word, faults) in [(0u32, 0), (1, 2), (4, 65_536), (u32::MAX - 8, 1)] {
        let mut frame = Frame::new(X86_64);
        frame.bytes = word.to_le_bytes().repeat(1 << 17);
        let (table, warnings) = frame.table();
        assert_eq!(warnings.len(), faults, "{word:#x}");
        assert_eq!(table.entries().filter(Result::is_err).count(), faults);
    }
}
