//! One test for each rule about functions and rows.

use arch::Arch;

use super::crafted::{ADDRESS, Fun, Section, concatenate, sample};
use super::*;
use crate::address::InterruptedAddress;
use crate::row::Miss;
use crate::{CodeAddress, LookupAddress};

fn key(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

fn problems(section: &Section) -> Vec<Problem> {
    let (table, _) = Table::of_any_arch(section.address, section.build()).unwrap();
    table.check()
}

/// The section of one function of one row.
fn one(version: Version, change: impl FnOnce(&mut Fun)) -> Section {
    of(version, Abi::Amd64, change)
}

fn of(version: Version, abi: Abi, change: impl FnOnce(&mut Fun)) -> Section {
    let mut f = Fun::new(0x1000, 16, &[(0, 1, &[8])]);
    change(&mut f);
    Section::new(version, abi, vec![f])
}

/// The only problem of a section is this error, and a lookup at `0x1000 + at` finds it, too.
#[track_caller]
fn error(section: &Section, at: u64, severity: Severity, offset: u64, kind: ErrorKind) {
    let error = Error { offset, kind };
    assert_eq!(problems(section), [Problem::Error { severity, error }]);
    let (table, _) = Table::of_any_arch(section.address, section.build()).unwrap();
    assert_eq!(table.row(key(0x1000 + at)), Err(Miss::Bad(error)));
    assert!(!error.to_string().contains('\n'));
}

#[track_caller]
fn warning(section: &Section, offset: u64, kind: WarningKind) {
    let warning = Warning { offset, kind };
    assert_eq!(problems(section), [Problem::Warning(warning)]);
    assert!(!warning.to_string().contains('\n'));
}

#[test]
fn samples_are_sound() {
    for version in [Version::V1, Version::V2, Version::V3] {
        for abi in [Abi::Amd64, Abi::Aarch64, Abi::Aarch64Big] {
            assert_eq!(problems(&sample(version, abi)), [], "{version:?} {abi:?}");
        }
    }
}

#[test]
fn functions_outside_64_bits_or_the_code() {
    let far = Section {
        address: u64::MAX - 0xfff,
        ..one(Version::V3, |f| (f.start, f.size) = (u64::MAX - 8, 16))
    };
    let overflow = Error { offset: 28, kind: ErrorKind::AddressOverflow };
    let severity = Severity::Function;
    assert_eq!(problems(&far), [Problem::Error { severity, error: overflow }]);
    let below = Section { address: 0x100, ..one(Version::V1, |f| f.start = u64::MAX - 8) };
    assert_eq!(problems(&below), [Problem::Error { severity, error: overflow }]);
    let bytes = one(Version::V2, |_| {}).build();
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, bytes).unwrap();
    assert_eq!(table.check_within(&[0x800..0x900, 0x1000..0x1010]), []);
    let error = Error { offset: 28, kind: ErrorKind::NotCode { start: 0x1000 } };
    for code in [0x1001..0x1010, 0x1000..0x100f] {
        assert_eq!(table.check_within(&[code]), [Problem::Error { severity, error }]);
    }
}

#[test]
fn empty_functions_never_match() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let section = one(version, |f| f.size = 0);
        warning(&section, 28, WarningKind::EmptyFunction(0x1000));
        let (table, _) = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap();
        assert_eq!(table.row(key(0x1000)), Err(Miss::NotCovered));
    }
}

#[test]
fn functions_that_overlap() {
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8])];
    let functions =
        vec![Fun::new(0x1000, 16, row), Fun::new(0x1000, 8, row), Fun::new(0x100f, 8, row)];
    let problems = problems(&Section::new(Version::V2, Abi::Amd64, functions));
    let overlap = |offset, start| {
        Problem::Warning(Warning { offset, kind: WarningKind::Overlap { start, end: 0x1010 } })
    };
    assert_eq!(problems, [overlap(48, 0x1000), overlap(68, 0x100f)]);
}

#[test]
fn rows_outside_the_row_data() {
    let end = 28 + 20 + 3;
    let rows_at = |at: u32| one(Version::V2, |_| {}).patch(28 + 8, &at.to_le_bytes());
    let kind = ErrorKind::RowsAt { at: end + 1, end };
    error(&rows_at(4), 0, Severity::Function, 28, kind);
    let kind = ErrorKind::RowsDoNotFit { rows: 1, needed: 2, len: 0 };
    error(&rows_at(3), 0, Severity::Function, 28, kind);
    error(&rows_at(1), 0, Severity::Row, 28 + 21, ErrorKind::RowTruncated { end });
    let attribute = one(Version::V3, |_| {}).patch(28 + 12, &[4]);
    error(&attribute, 0, Severity::Function, 28, ErrorKind::Attribute);
    let many = one(Version::V3, |_| {}).patch(28 + 16, &[2]);
    let kind = ErrorKind::RowsDoNotFit { rows: 2, needed: 4, len: 3 };
    error(&many, 0, Severity::Function, 28, kind);
}

#[test]
fn codes_that_mean_nothing() {
    let function = Severity::Function;
    for version in [Version::V1, Version::V2, Version::V3] {
        let width = one(version, |f| f.info = 3);
        error(&width, 0, function, 28, ErrorKind::StartWidth(3));
    }
    for version in [Version::V2, Version::V3] {
        let repeated = one(version, |f| f.info = 0x10);
        error(&repeated, 0, function, 28, ErrorKind::NoBlock);
    }
    let kind = one(Version::V3, |f| f.kind = 2);
    error(&kind, 0, function, 28, ErrorKind::FunctionType(2));
    let flexible = of(Version::V3, Abi::S390x, |f| f.kind = 1);
    let kind = ErrorKind::NotFlexible(Abi::S390x);
    let problem = Problem::Error { severity: function, error: Error { offset: 28, kind } };
    assert_eq!(problems(&flexible), [problem]);
}

#[test]
fn strange_functions() {
    let block = one(Version::V2, |f| *f = f.clone().info(0x10).block(32));
    warning(&block, 28, WarningKind::Block { block: 32, size: 16 });
    let unused = one(Version::V2, |f| f.info = 0x40);
    warning(&unused, 28, WarningKind::UnusedBits(0x40));
    let unused = one(Version::V3, |f| f.kind = 0x20);
    warning(&unused, 28, WarningKind::UnusedBits(0x20));
    let padding = one(Version::V2, |_| {}).patch(28 + 18, &[1, 2]);
    warning(&padding, 28, WarningKind::Padding(0x201));
    let key = one(Version::V2, |f| f.info = 0x20);
    warning(&key, 28, WarningKind::Signed(Abi::Amd64));
    for version in [Version::V1, Version::V2] {
        let signal = one(version, |f| f.info = 0x80);
        warning(&signal, 28, WarningKind::Signal(version));
    }
}

#[test]
fn functions_that_share_their_rows() {
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8])];
    let functions = vec![Fun::new(0x1000, 16, row), Fun::new(0x2000, 16, row)];
    let section = Section::new(Version::V2, Abi::Amd64, functions).patch(28 + 20 + 8, &[0]);
    warning(&section, 28 + 20, WarningKind::SharedRows(28 + 40));
}

#[test]
fn rows_that_are_broken() {
    let at = 28 + 20;
    let size = one(Version::V2, |f| f.rows = vec![vec![0, 0x63, 8]]);
    error(&size, 0, Severity::Row, at, ErrorKind::WordSize);
    let order = one(Version::V2, |f| f.rows = vec![vec![2, 3, 8], vec![1, 3, 8]]);
    let first = Problem::Warning(Warning { offset: at, kind: WarningKind::FirstRow(2) });
    let kind = ErrorKind::RowOrder { start: 1, lowest: 2 };
    let second = Problem::Error { severity: Severity::Row, error: Error { offset: at + 3, kind } };
    assert_eq!(problems(&order), [first, second]);
    let start = one(Version::V2, |f| f.rows.push(vec![17, 3, 8]));
    let kind = ErrorKind::RowStart { start: 17, bound: 16 };
    error(&start, 0, Severity::Row, at + 3, kind);
    let block = |f: &mut Fun| {
        *f = f.clone().info(0x10).block(8);
        f.rows.push(vec![8, 3, 8]);
    };
    let kind = ErrorKind::RowStart { start: 8, bound: 8 };
    error(&one(Version::V2, block), 0, Severity::Row, at + 3, kind);
}

#[test]
fn numbers_of_words() {
    let at = 28 + 20;
    let words = |abi, count: u8| {
        of(Version::V2, abi, |f| {
            f.rows = vec![[vec![0, count << 1], vec![8; count.into()]].concat()]
        })
    };
    for (abi, most) in [(Abi::Amd64, 2), (Abi::Aarch64, 3), (Abi::S390x, 3)] {
        for count in 0..=most {
            assert_eq!(problems(&words(abi, count)), [], "{abi:?}");
        }
        for count in most + 1..16 {
            let found = problems(&words(abi, count));
            let error = Error { offset: at, kind: ErrorKind::WordCount(count) };
            assert_eq!(found, [Problem::Error { severity: Severity::Row, error }], "{abi:?}");
        }
    }
    let no_ra = Section { fixed_ra: 0, ..one(Version::V2, |_| {}) };
    error(&no_ra, 0, Severity::Row, at, ErrorKind::NoReturnAddress);
}

#[test]
fn strange_rows() {
    let at = 28 + 20;
    let equal = one(Version::V2, |f| f.rows.push(vec![0, 3, 16]));
    warning(&equal, at + 3, WarningKind::EqualRows(0));
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, equal.build()).unwrap();
    assert!(matches!(table.row(key(0x1000)), Ok(Found::Row(row))
        if row.cfa == crate::row::CfaRule::Register { register: 7, offset: 16 }));
    let first = one(Version::V2, |f| f.rows = vec![vec![4, 3, 8]]);
    warning(&first, at, WarningKind::FirstRow(4));
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, first.build()).unwrap();
    assert_eq!(table.row(key(0x1003)), Err(Miss::NotCovered));
    let empty = one(Version::V2, |f| f.rows.push(vec![16, 3, 8]));
    warning(&empty, at + 3, WarningKind::EmptyRow(16));
    let outermost = one(Version::V2, |f| f.rows = vec![vec![0, 0x20]]);
    warning(&outermost, at, WarningKind::OutermostBits(0x20));
    let signed = one(Version::V2, |f| f.rows = vec![vec![0, 0x83, 8]]);
    warning(&signed, at, WarningKind::Signed(Abi::Amd64));
}

#[test]
fn flexible_rows() {
    let at = 28 + 16 + 5;
    let flexible = |words: &[i8]| {
        let words = words.to_vec();
        one(Version::V3, move |f| *f = Fun::new(0x1000, 16, &[(0, 0, &words)]).kind(1))
    };
    let row = Severity::Row;
    error(&flexible(&[8, 8]), 0, row, at, ErrorKind::CfaControl(8));
    error(&flexible(&[0x39]), 0, row, at, ErrorKind::WordCount(1));
    error(&flexible(&[0x79, 8, 0, -1]), 0, row, at, ErrorKind::WordCount(4));
    // gas has been seen to write this register number.
    let no_register = 0x1fff_ffffu32 << 3 | 1;
    let wide = one(Version::V3, |f| {
        f.kind = 1;
        let words = [no_register.to_le_bytes(), 8u32.to_le_bytes()].concat();
        f.rows = vec![[vec![0, 0x44], words].concat()];
    });
    error(&wide, 0, row, at, ErrorKind::Register(0x1fff_ffff));
    warning(&flexible(&[0x3d, 8]), at, WarningKind::Control(0x3d));
    warning(&flexible(&[0x39, 8, 0]), at, WarningKind::LoneZero);
    assert_eq!(problems(&flexible(&[0x39, 8, 0, 0x33, 0])), []);
}

#[test]
fn problems_of_all_sections_are_found() {
    let section = one(Version::V2, |f| f.info = 0x40);
    let bytes = concatenate(&[section.clone(), section.clone()]);
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, bytes).unwrap();
    let second = section.build().len().next_multiple_of(8) as u64;
    let problems = table.check();
    let offsets: Vec<_> = problems.iter().map(Problem::offset).collect();
    // The two functions are the same one.
    assert_eq!(offsets, [28, second + 28, second + 28]);
    assert!(problems.iter().all(|p| p.severity() == Severity::Warning));
    assert!(problems[2].to_string().contains("overlaps"), "{}", problems[2]);
}

#[test]
fn a_broken_function_spoils_only_its_own_addresses() {
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8])];
    let functions = [0x1000, 0x2000, 0x3000].map(|start| Fun::new(start, 16, row));
    let mut section = Section::new(Version::V3, Abi::Amd64, functions.to_vec());
    section.functions[1].kind = 9;
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap();
    let bad = |pc| matches!(table.row(key(pc)), Err(Miss::Bad(_)));
    assert!(!bad(0x1fff) && bad(0x2000) && bad(0x200f) && !bad(0x2010));
    assert!(table.row(key(0x1000)).is_ok() && table.row(key(0x300f)).is_ok());
}

#[test]
fn work_is_bounded_by_the_length_of_the_section() {
    // All functions share the same rows: not more rows than were announced are read.
    let row: &[(u8, u8, &[i8])] = &[(0, 1, &[8])];
    let rows: Vec<_> = (0..250).map(|start| vec![start, 3, 8]).collect();
    let mut functions = vec![Fun::new(0x1000, 16, row); 20_000];
    functions[0] = Fun { rows, size: 255, ..functions[0].clone() };
    let mut section = Section::new(Version::V2, Abi::Amd64, functions);
    for i in 1..20_000 {
        section = section.patch(28 + i * 20 + 8, &[0, 0, 0, 0, 250]);
    }
    let error = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap_err();
    let kind = ErrorKind::RowCount { found: 250 * 20_000, announced: 250 + 19_999 };
    assert_eq!(error.kind, kind);
    // As many sections as fit, all functions of which are the same one.
    let one = one(Version::V3, |_| {});
    let (table, _) = Table::new(Arch::X86_64, ADDRESS, concatenate(&vec![one; 20_000])).unwrap();
    assert_eq!((table.parts().len(), table.check().len()), (20_000, 19_999));
    assert!(table.row(key(0x1000)).is_ok());
}
