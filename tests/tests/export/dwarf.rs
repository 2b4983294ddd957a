//! A DWARF 4 assembler, as small as the tests allow.

use crate::elf::{Debug, TEXT_ADDR, TEXT_SIZE};

/// The abbreviations that [`Unit`] uses.
const ABBREV: &[u8] = &[
    1, 0x11, 1, 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, // compile unit
    2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, // subprogram
    // inlined subroutine: origin, low_pc, high_pc, call_file, call_line
    3, 0x1d, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x58, 0x0b, 0x59, 0x0b, 0, 0, //
    4, 0x2e, 0, 0x03, 0x08, 0x20, 0x0b, 0, 0, // abstract subprogram
    5, 0x1d, 1, 0, 0, // inlined subroutine without attributes
    0,
];

/// One compilation unit: `main` at the start of the text, 0x100 bytes long, in
/// which `helper` is inlined at 0x40..0x80, called from line 12.
///
/// Lines of `main.c`: 10 from 0, 20 from 0x40, 13 from 0x80 to 0x100.
pub fn debug() -> Debug {
    Debug { abbrev: ABBREV.to_vec(), info: unit(&children()), line: line_program(0) }
}

/// As many copies of the unit as given, that all use one line program with as
/// many rows.
pub fn shared(units: usize, rows: usize) -> Debug {
    let unit = unit(&[]);
    Debug { abbrev: ABBREV.to_vec(), info: unit.repeat(units), line: line_program(rows) }
}

/// Inlined functions nested `depth` times.
pub fn nested(depth: usize) -> Debug {
    let mut body = subprogram();
    body.extend(vec![5; depth]);
    body.extend(vec![0; depth + 1]);
    Debug { abbrev: ABBREV.to_vec(), info: unit(&body), line: line_program(0) }
}

fn subprogram() -> Vec<u8> {
    let mut b = vec![2];
    b.extend(b"main\0");
    b.extend(TEXT_ADDR.to_le_bytes());
    b.extend(0x100u64.to_le_bytes());
    b
}

fn children() -> Vec<u8> {
    // The abstract function comes first: its offset in the unit is that of the
    // first child, behind the unit's header (11 bytes) and entry.
    let origin = 11 + unit_entry().len() as u32;
    let mut b = vec![4];
    b.extend(b"helper\0\x01");
    b.extend(subprogram());
    b.push(3);
    b.extend(origin.to_le_bytes());
    b.extend((TEXT_ADDR + 0x40).to_le_bytes());
    b.extend(0x40u64.to_le_bytes());
    b.extend([1, 12]);
    b.extend([0, 0]); // end of the inlined function's and of main's children
    b
}

fn unit_entry() -> Vec<u8> {
    let mut b = vec![1];
    b.extend(b"main.c\0");
    b.extend(0u32.to_le_bytes()); // line program
    b.extend(TEXT_ADDR.to_le_bytes());
    b.extend(TEXT_SIZE.to_le_bytes());
    b
}

fn unit(children: &[u8]) -> Vec<u8> {
    let mut body = 4u16.to_le_bytes().to_vec();
    body.extend(0u32.to_le_bytes()); // abbreviations
    body.push(8); // address size
    body.extend(unit_entry());
    body.extend(children);
    body.push(0);
    let mut b = (body.len() as u32).to_le_bytes().to_vec();
    b.extend(body);
    b
}

fn line_program(extra_rows: usize) -> Vec<u8> {
    let mut header = vec![1, 1, 1, 0xfb, 14, 13];
    header.extend([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]); // operands of opcodes
    header.push(0); // include directories
    header.extend(b"main.c\0\0\0\0\0");
    let mut program = vec![0, 9, 2]; // set_address
    program.extend(TEXT_ADDR.to_le_bytes());
    program.extend([3, 9, 1]); // line 10
    program.extend([2, 0x40, 3, 10, 1]); // +0x40: line 20
    program.extend([2, 0x40, 3, 0x79, 1]); // +0x40: line 13
    program.extend(vec![1; extra_rows]);
    program.extend([2, 0x80, 1]); // +0x80
    program.extend([0, 1, 1]); // end_sequence
    let mut b = Vec::new();
    b.extend((2 + 4 + header.len() as u32 + program.len() as u32).to_le_bytes());
    b.extend(4u16.to_le_bytes());
    b.extend((header.len() as u32).to_le_bytes());
    b.extend(header);
    b.extend(program);
    b
}
