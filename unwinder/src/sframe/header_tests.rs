//! One test for each way in which a header, and with it the section, is refused.

use arch::Arch;

use super::crafted::{ADDRESS, Fun, Section, concatenate, sample};
use super::header::Flags;
use super::*;

const X86: Arch = Arch::X86_64;

fn section() -> Section {
    sample(Version::V2, Abi::Amd64)
}

fn refused(bytes: &[u8]) -> (u64, ErrorKind) {
    let error = Table::new(X86, ADDRESS, bytes).unwrap_err();
    let line = error.to_string();
    assert!(line.starts_with(".sframe, offset 0x") && !line.contains('\n'), "{line}");
    (error.offset, error.kind)
}

fn patched(at: usize, bytes: &[u8]) -> (u64, ErrorKind) {
    refused(&section().patch(at, bytes).build())
}

fn warned(section: &Section) -> Vec<Warning> {
    Table::new(X86, section.address, section.build()).unwrap().1
}

#[test]
fn short_sections() {
    assert_eq!(refused(&[]), (0, ErrorKind::ShortHeader { len: 0 }));
    assert_eq!(refused(&section().build()[..27]), (0, ErrorKind::ShortHeader { len: 27 }));
    for version in [Version::V1, Version::V2, Version::V3] {
        let bytes = sample(version, Abi::Amd64).build();
        for len in 0..bytes.len() {
            refused(&bytes[..len]);
        }
    }
}

#[test]
fn what_a_section_begins_with() {
    assert_eq!(patched(0, &[0, 0]), (0, ErrorKind::Magic(0)));
    for version in [0, 4, 255] {
        assert_eq!(patched(2, &[version]), (2, ErrorKind::Version(version)));
    }
    let flags = |version, flags| {
        let bytes = sample(version, Abi::Amd64).patch(3, &[flags]).build();
        assert_eq!(refused(&bytes), (3, ErrorKind::Flags { flags, version }));
    };
    flags(Version::V1, 5);
    flags(Version::V2, 9);
    flags(Version::V3, 7);
    assert_eq!(patched(4, &[0]), (4, ErrorKind::Abi(0)));
    assert_eq!(patched(4, &[5]), (4, ErrorKind::Abi(5)));
}

#[test]
fn byte_order_and_architecture() {
    let order = |abi, magic| (4, ErrorKind::ByteOrder { abi, magic });
    assert_eq!(patched(4, &[1]), order(Abi::Aarch64Big, ByteOrder::Little));
    assert_eq!(patched(0, &[0xde, 0xe2]), order(Abi::Amd64, ByteOrder::Big));
    let arm = sample(Version::V2, Abi::Aarch64).build();
    assert_eq!(refused(&arm), (4, ErrorKind::Arch { found: Abi::Aarch64, wanted: "x86_64" }));
    let both =
        concatenate(&[sample(Version::V2, Abi::Aarch64), sample(Version::V2, Abi::Aarch64Big)]);
    let error = Table::new(Arch::Aarch64, ADDRESS, both).unwrap_err();
    let first = Abi::Aarch64;
    assert_eq!(error.kind, ErrorKind::OtherAbi { found: Abi::Aarch64Big, first });
}

#[test]
fn lists_outside_the_section() {
    let len = section().build().len() as u64;
    let small = Section { functions: Vec::new(), ..section() };
    let bytes = small.patch(7, &[1]).build();
    assert_eq!(refused(&bytes), (7, ErrorKind::AuxiliaryOutside { end: 29, len: 28 }));
    let end = 28 + 20 * 0xffff_ffff;
    assert_eq!(patched(8, &[0xff; 4]), (8, ErrorKind::FunctionsOutside { end, len }));
    let end = 28 + 80 + 0xffff_ffff;
    assert_eq!(patched(16, &[0xff; 4]), (16, ErrorKind::RowsOutside { end, len }));
    let end = 28 + 80 + 0xffff_ffff;
    assert_eq!(patched(20, &[0xff; 4]), (8, ErrorKind::FunctionsOutside { end, len }));
    let end = 28 + 0xffff_ffff + (len - 28 - 80);
    assert_eq!(patched(24, &[0xff; 4]), (16, ErrorKind::RowsOutside { end, len }));
    // The largest values do not overflow.
    refused(&section().patch(8, &[0xff; 20]).build());
}

#[test]
fn lists_that_overlap() {
    let kind = ErrorKind::ListsOverlap { end: 28 + 80, rows: 28 + 79 };
    assert_eq!(patched(24, &[79]), (24, kind));
    let kind = ErrorKind::ListsOverlap { end: 28 + 81, rows: 28 + 80 };
    assert_eq!(patched(20, &[1]), (24, kind));
}

#[test]
fn counts_that_cannot_be() {
    let len = section().functions.iter().flat_map(|f| &f.rows).flatten().count() as u32;
    let rows = u64::from(len) / 2 + 1;
    let kind = ErrorKind::TooManyRows { needed: rows * 2, len };
    assert_eq!(patched(12, &[rows as u8]), (12, kind));
    assert_eq!(patched(12, &[0]), (12, ErrorKind::NoRows));
    assert_eq!(patched(12, &[9]), (12, ErrorKind::RowCount { found: 10, announced: 9 }));
    assert_eq!(patched(12, &[11]), (12, ErrorKind::RowCount { found: 10, announced: 11 }));
    // Version 3 has five bytes for each function besides.
    let functions = vec![Fun::new(0x1000, 8, &[]), Fun::new(0x1010, 8, &[])];
    let section = Section::new(Version::V3, Abi::Amd64, functions);
    assert_eq!(warned(&section), []);
    let kind = ErrorKind::TooManyRows { needed: 12, len: 10 };
    assert_eq!(refused(&section.patch(12, &[1]).build()), (12, kind));
}

#[test]
fn functions_out_of_order() {
    let mut section = section();
    section.functions.swap(1, 2);
    assert_eq!(refused(&section.build()), (28 + 40, ErrorKind::Unsorted { index: 2 }));
}

#[test]
fn a_broken_section_behind_a_sound_one() {
    let bytes = concatenate(&[section(), section().patch(2, &[9])]);
    let at = section().build().len().next_multiple_of(8) as u64;
    assert_eq!(refused(&bytes), (at + 2, ErrorKind::Version(9)));
}

#[test]
fn strange_headers() {
    let one = |section: &Section| match warned(section)[..] {
        [Warning { offset, kind }] => (offset, kind),
        ref other => panic!("{other:?}"),
    };
    let empty = Section { functions: Vec::new(), ..section() };
    assert_eq!(one(&empty), (8, WarningKind::NoFunctions));
    let flags = Section { flags: 0, ..section() };
    assert_eq!(one(&flags), (3, WarningKind::NotSorted(Flags(0))));
    let fp = Section { fixed_fp: -16, ..section() };
    assert_eq!(one(&fp), (5, WarningKind::FixedFp(-16)));
    let ra = Section { fixed_ra: -16, ..section() };
    assert_eq!(one(&ra), (6, WarningKind::FixedRa { found: -16, usual: -8 }));
    let address = Section { address: ADDRESS + 4, ..section() };
    assert_eq!(one(&address), (0, WarningKind::Misaligned(ADDRESS + 4)));
    let auxiliary = Section { auxiliary: vec![0; 8], ..section() };
    assert_eq!(one(&auxiliary), (7, WarningKind::Auxiliary(8)));
}

#[test]
fn what_follows_a_section() {
    let mut bytes = section().build();
    let len = bytes.len() as u64;
    bytes.extend([0; 100]);
    assert_eq!(Table::new(X86, ADDRESS, &bytes[..]).unwrap().1, [], "padding");
    bytes.push(1);
    let kind = WarningKind::Trailing { len: 101 };
    assert_eq!(Table::new(X86, ADDRESS, bytes).unwrap().1, [Warning { offset: len, kind }]);
}

#[test]
fn a_function_that_cannot_be_read_hides_its_rows() {
    // A version 3 function whose attribute is not there: its rows cannot be counted.
    let section = sample(Version::V3, Abi::Amd64);
    let rows = section.functions.iter().map(|f| f.rows.len()).sum::<usize>();
    let section = section.patch(28 + 16 * 2 + 12, &[0xff; 4]);
    let (found, announced) = (rows as u64 - 3, rows as u32);
    let kind = WarningKind::RowsMissing { found, announced };
    assert_eq!(warned(&section), [Warning { offset: 12, kind }]);
}
