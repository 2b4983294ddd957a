//! Tests of lookup over crafted sections.

use arch::Arch;

use super::crafted::{ADDRESS, Fun, Section, concatenate, flexible, sample};
use super::*;
use crate::address::InterruptedAddress;
use crate::row::{CfaRule, Key, Miss, Row, Rule, Silent};
use crate::{CodeAddress, LookupAddress};

fn key(address: u64) -> LookupAddress {
    CodeAddress::from(InterruptedAddress(address)).lookup()
}

fn arch(section: &Section) -> Arch {
    section.abi.arch().unwrap()
}

fn table(section: &Section) -> Table<Vec<u8>> {
    let (table, warnings) = Table::new(arch(section), section.address, section.build()).unwrap();
    assert_eq!(warnings, []);
    table
}

fn row<D: std::ops::Deref<Target = [u8]>>(table: &Table<D>, pc: u64) -> Row {
    match table.row(key(pc)) {
        Ok(Found::Row(row)) => {
            assert!(row.range.0 <= pc && pc < row.range.1, "{pc:#x} in {:x?}", row.range);
            assert_eq!(row.silent, Silent::Unknown);
            row
        }
        other => panic!("{pc:#x}: {other:x?}"),
    }
}

fn cfa(register: u8, offset: i64) -> CfaRule {
    CfaRule::Register { register, offset }
}

#[test]
fn x86_64_rows_of_all_versions() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let table = table(&sample(version, Abi::Amd64));
        let at = |pc| row(&table, pc);
        let r = at(0x2000);
        assert_eq!((r.range, r.cfa), ((0x2000, 0x2001), cfa(7, 8)));
        assert_eq!((r.rule(16), r.rule(6), r.return_address), (Rule::AtCfa(-8), Rule::Same, 16));
        let r = at(0x2003);
        assert_eq!((r.range, r.cfa, r.rule(6)), ((0x2001, 0x2004), cfa(7, 16), Rule::AtCfa(-16)));
        let r = at(0x207f);
        assert_eq!((r.range, r.cfa, r.rule(6)), ((0x2004, 0x2080), cfa(6, 16), Rule::AtCfa(-16)));
        assert_eq!((r.signal, r.signed, r.rule(3)), (false, None, Rule::Unmentioned));
        // Starts of two bytes, words of two and four.
        assert_eq!((at(0x220f).range, at(0x220f).cfa), ((0x2100, 0x2210), cfa(7, 8)));
        assert_eq!((at(0x2210).range, at(0x2210).cfa), ((0x2210, 0x2320), cfa(7, 0x1000)));
        assert_eq!((at(0x24ff).range, at(0x24ff).cfa), ((0x2320, 0x2500), cfa(7, 0x10_0000)));
        for pc in [0, 0xfff, 0x1038, 0x1fff, 0x2080, 0x2500, u64::MAX] {
            assert_eq!(table.row(key(pc)), Err(Miss::NotCovered), "{pc:#x}");
        }
    }
}

#[test]
fn blocks_repeat() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let table = table(&sample(version, Abi::Amd64));
        let at = |pc| (row(&table, pc).range, row(&table, pc).cfa);
        // The size of a block means nothing in a function that does not repeat.
        assert_eq!(at(0x100f), ((0x1006, 0x1010), cfa(7, 24)));
        assert_eq!(at(0x1010), ((0x1010, 0x101b), cfa(7, 8)));
        assert_eq!(at(0x101b), ((0x101b, 0x1020), cfa(7, 16)));
        assert_eq!(at(0x1020), ((0x1020, 0x102b), cfa(7, 8)));
        assert_eq!(at(0x1037), ((0x1030, 0x1038), cfa(7, 8)), "the last block is cut off");
    }
}

#[test]
fn aarch64_rows_of_all_versions_and_byte_orders() {
    for version in [Version::V1, Version::V2, Version::V3] {
        for abi in [Abi::Aarch64, Abi::Aarch64Big] {
            let table = table(&sample(version, abi));
            let at = |pc| row(&table, pc);
            let r = at(0x1000);
            assert_eq!((r.range, r.cfa), ((0x1000, 0x1004), cfa(31, 0)));
            assert_eq!((r.rule(30), r.rule(29)), (Rule::Same, Rule::Same));
            let r = at(0x1004);
            assert_eq!((r.cfa, r.return_address), (cfa(31, 16), 30));
            assert_eq!((r.rule(30), r.rule(29)), (Rule::AtCfa(-8), Rule::AtCfa(-16)));
            assert_eq!(at(0x1100).signed, None);
            assert_eq!((at(0x1104).signed, at(0x1104).cfa), (Some(Key::B), cfa(31, 0)));
            assert_eq!((at(0x1108).signed, at(0x1108).cfa), (Some(Key::B), cfa(29, 32)));
            // Two words: the return address is saved, the frame pointer is not.
            assert_eq!((at(0x1208).rule(30), at(0x1208).rule(29)), (Rule::AtCfa(-16), Rule::Same));
        }
    }
}

#[test]
fn version_3_has_outermost_and_signal_frames() {
    let table = table(&sample(Version::V3, Abi::Amd64));
    assert_eq!(table.row(key(0x3200)), Ok(Found::SignalTrampoline));
    let r = row(&table, 0x3210);
    assert!(r.signal && r.cfa == cfa(7, 8));
    let r = row(&table, 0x3230);
    assert_eq!((r.range, r.rule(16)), ((0x3220, 0x3240), Rule::Undefined));
    assert_eq!(row(&table, 0x3243).rule(16), Rule::AtCfa(-8));
    assert_eq!(row(&table, 0x3244).rule(16), Rule::Undefined);
    let section = sample(Version::V3, Abi::Aarch64Big);
    let (table, _) = Table::new(Arch::Aarch64, ADDRESS, section.build()).unwrap();
    assert_eq!(table.row(key(0x1300)), Ok(Found::SignalTrampoline));
    assert_eq!(row(&table, 0x1310).rule(30), Rule::Undefined);
}

#[test]
fn flexible_rows() {
    let table = table(&sample(Version::V3, Abi::Amd64));
    let at = |offset: u64| {
        let row = row(&table, 0x3000 + offset);
        (row.cfa, row.rule(16), row.rule(6))
    };
    let ra = Rule::AtCfa(-8);
    let fp = Rule::Memory { register: 6, offset: 0 };
    assert_eq!(at(0), (cfa(7, 8), ra, Rule::Same));
    assert_eq!(at(5), (cfa(10, 0), ra, Rule::Same));
    assert_eq!(at(0x11), (cfa(10, 0), ra, fp));
    assert_eq!(at(0x26), (CfaRule::Memory { register: 6, offset: -40 }, ra, fp));
    assert_eq!(at(0xcf), (cfa(7, 8), ra, fp));
}

#[test]
fn flexible_rules_of_every_kind() {
    let rules = |words: &[i8]| {
        let f = Fun::new(0x1000, 4, &[(0, 0, words)]).kind(1);
        let section = Section::new(Version::V3, Abi::Amd64, vec![f]);
        let (table, _) = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap();
        match table.row(key(0x1000)) {
            Ok(Found::Row(row)) => Ok((row.cfa, row.rule(16), row.rule(6))),
            Err(Miss::Bad(error)) => Err(error.kind),
            other => panic!("{other:?}"),
        }
    };
    let (c, ra) = (cfa(7, 16), Rule::AtCfa(-8));
    let register = Rule::Register { register: 3, offset: -4 };
    assert_eq!(rules(&[0x39, 16]), Ok((c, ra, Rule::Same)));
    assert_eq!(rules(&[0x39, 16, 0]), Ok((c, ra, Rule::Same)));
    assert_eq!(rules(&[0x39, 16, 0, 2, -16]), Ok((c, ra, Rule::AtCfa(-16))));
    assert_eq!(rules(&[0x39, 16, 2, -24]), Ok((c, Rule::AtCfa(-24), Rule::Same)));
    assert_eq!(rules(&[0x39, 16, 2, -24, 0]), Ok((c, Rule::AtCfa(-24), Rule::Same)));
    assert_eq!(rules(&[0x39, 16, 0x19, -4, 0x19, -4]), Ok((c, register, register)));
    // The CFA's value, with a register number that means nothing.
    assert_eq!(rules(&[0x39, 16, 0, 8, -32]), Ok((c, ra, Rule::Cfa(-32))));
    assert_eq!(rules(&[]), Ok((cfa(7, 0), Rule::Undefined, Rule::Undefined)));
    assert_eq!(rules(&[0x39]), Err(ErrorKind::WordCount(1)));
    assert_eq!(rules(&[0x39, 16, 2]), Err(ErrorKind::WordCount(3)));
    assert_eq!(rules(&[0x39, 16, 0, 2]), Err(ErrorKind::WordCount(4)));
    assert_eq!(rules(&[0x39, 16, 0, 0, 0]), Err(ErrorKind::WordCount(5)));
    assert_eq!(rules(&[0x39, 16, 2, -8, 2, -16, 0]), Err(ErrorKind::WordCount(7)));
    assert_eq!(rules(&[2, 16]), Err(ErrorKind::CfaControl(2)));
    assert_eq!(rules(&[0, 16]), Err(ErrorKind::CfaControl(0)));
    assert_eq!(rules(&[0x81u8.cast_signed(), 16]), Err(ErrorKind::Register(16)));
    assert_eq!(rules(&[0x39, 16, 0, 0x83u8.cast_signed(), 0]), Err(ErrorKind::Register(16)));
}

#[test]
fn a_section_as_gas_writes_it_for_big_endian() {
    let bytes = [
        0xde, 0xe2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0,
        0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0, 4, 7, 0x10,
        0xf8, 0xf0, 8, 3, 0,
    ];
    let (table, warnings) = Table::new(Arch::Aarch64, 0x1000, &bytes[..]).unwrap();
    assert_eq!(warnings.len(), 1, "an object is not sorted: {warnings:?}");
    let start = 0x1000 + 28;
    assert_eq!(row(&table, start).cfa, cfa(31, 0));
    let r = row(&table, start + 4);
    assert_eq!((r.cfa, r.rule(30), r.rule(29)), (cfa(31, 16), Rule::AtCfa(-8), Rule::AtCfa(-16)));
    assert_eq!(row(&table, start + 11).range, (start + 8, start + 12));
    assert_eq!(table.row(key(start + 12)), Err(Miss::NotCovered));
}

#[test]
fn functions_and_rows_are_listed() {
    let section = sample(Version::V3, Abi::Amd64);
    let table = table(&section);
    let functions: Vec<_> = table.functions().map(Result::unwrap).collect();
    assert_eq!(functions.len(), section.functions.len());
    for (f, crafted) in functions.iter().zip(&section.functions) {
        assert_eq!((f.start, f.size, f.info.0), (crafted.start, crafted.size, crafted.info));
        assert_eq!(table.rows(f).count(), crafted.rows.len());
        assert!(table.rows(f).all(|r| r.is_ok()));
    }
    let rows: Vec<_> = table.rows(&functions[2]).map(Result::unwrap).collect();
    assert_eq!(rows.iter().map(|r| r.start).collect::<Vec<_>>(), [0, 1, 4]);
    assert_eq!(rows[2].words().collect::<Vec<_>>(), [16, -16]);
    assert_eq!((rows[2].control(1), rows[2].word(2)), (Some(0xf0), None));
    let (cfa, ra) = (cfa(6, 16), Rule::AtCfa(-8));
    let rules = Rules { cfa, ra, fp: Rule::AtCfa(-16) };
    assert_eq!(table.rules(&functions[2], &rows[2]), Ok(rules));
}

#[test]
fn functions_in_any_order_are_found() {
    for version in [Version::V1, Version::V2, Version::V3] {
        let mut section = sample(version, Abi::Amd64);
        section.functions.reverse();
        section.flags &= !1;
        let (shuffled, warnings) = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap();
        assert!(matches!(warnings[..], [Warning { kind: WarningKind::NotSorted(_), offset: 3 }]));
        let table = table(&sample(version, Abi::Amd64));
        for pc in 0xff0..0x3300 {
            assert_eq!(shuffled.row(key(pc)), table.row(key(pc)), "{pc:#x}");
        }
    }
}

#[test]
fn starts_may_be_relative_to_their_field() {
    let mut section = sample(Version::V2, Abi::Amd64);
    section.flags = 5;
    let (a, b) = (table(&section), table(&sample(Version::V2, Abi::Amd64)));
    assert_ne!(a.data(), b.data());
    for pc in 0xff0..0x2600 {
        assert_eq!(a.row(key(pc)), b.row(key(pc)), "{pc:#x}");
    }
}

#[test]
fn an_auxiliary_header_and_gaps_are_skipped() {
    for version in [Version::V2, Version::V3] {
        let mut section = sample(version, Abi::Amd64);
        section.auxiliary = vec![1, 2, 3, 4, 5];
        section.gaps = [3, 9];
        let (a, warnings) = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap();
        assert_eq!(warnings, [Warning { offset: 7, kind: WarningKind::Auxiliary(5) }]);
        let b = table(&sample(version, Abi::Amd64));
        for pc in 0xff0..0x3300 {
            assert_eq!(a.row(key(pc)), b.row(key(pc)), "{pc:#x}");
        }
    }
}

#[test]
fn sections_that_follow_each_other_are_one_table() {
    let mut first = sample(Version::V2, Abi::Amd64);
    first.functions.truncate(3);
    let mut second = Section::new(Version::V3, Abi::Amd64, vec![flexible(0x500)]);
    second.functions.push(Fun::new(0x1500, 0x10, &[(0, 1, &[40])]));
    let bytes = concatenate(&[first.clone(), second, first.clone()]);
    let (table, warnings) = Table::new(Arch::X86_64, ADDRESS, bytes).unwrap();
    let further = |w: &Warning| w.kind == WarningKind::Concatenated;
    assert_eq!((warnings.len(), warnings.iter().all(further)), (2, true));
    assert_eq!(table.parts().len(), 3);
    assert_eq!(table.functions().count(), 3 + 2 + 3);
    assert_eq!(row(&table, 0x505).cfa, cfa(10, 0));
    assert_eq!(row(&table, 0x1505).cfa, cfa(7, 40));
    assert_eq!(row(&table, 0x2001).cfa, cfa(7, 16));
    assert_eq!(table.row(key(0x1600)), Err(Miss::NotCovered));
}

#[test]
fn of_overlapping_functions_the_first_wins() {
    let f = |start, size, offset: i8| Fun::new(start, size, &[(0, 1, &[offset])]);
    let functions = vec![
        f(0x1000, 0, 1),
        f(0x1000, 0x40, 8),
        f(0x1000, 0x80, 16),
        f(0x1010, 0x10, 24),
        f(0x1020, 0x80, 32),
        f(0x1100, 0x10, 40),
    ];
    let section = Section::new(Version::V2, Abi::Amd64, functions);
    let table = table(&section);
    let at = |pc| (row(&table, pc).cfa, row(&table, pc).range);
    assert_eq!(at(0x1000), (cfa(7, 8), (0x1000, 0x1040)));
    assert_eq!(at(0x1015), (cfa(7, 8), (0x1000, 0x1040)));
    assert_eq!(at(0x1040), (cfa(7, 16), (0x1040, 0x1080)));
    assert_eq!(at(0x1080), (cfa(7, 32), (0x1080, 0x10a0)));
    assert_eq!(at(0x1100).0, cfa(7, 40));
    assert_eq!(table.row(key(0x10a0)), Err(Miss::NotCovered));
}

#[test]
fn a_row_out_of_range_spoils_only_what_is_behind_it() {
    let f = Fun::new(0x1000, 16, &[(0, 1, &[8]), (4, 1, &[16]), (0x20, 1, &[24])]);
    let table = table(&Section::new(Version::V2, Abi::Amd64, vec![f]));
    assert_eq!(row(&table, 0x1003).cfa, cfa(7, 8));
    let kind = ErrorKind::RowStart { start: 0x20, bound: 16 };
    let bad = Miss::Bad(Error { offset: 28 + 20 + 6, kind });
    assert_eq!(table.row(key(0x1004)), Err(bad));
}

#[test]
fn s390x_is_listed_but_not_looked_up() {
    let f = Fun::new(0x1000, 12, &[(0, 1, &[0]), (4, 1, &[16, -8, -16])]);
    let section = Section::new(Version::V3, Abi::S390x, vec![f]);
    let kind = Table::new(Arch::X86_64, ADDRESS, section.build()).unwrap_err().kind;
    assert_eq!(kind, ErrorKind::Arch { found: Abi::S390x, wanted: "x86_64" });
    let (table, _) = Table::of_any_arch(ADDRESS, section.build()).unwrap();
    let function = table.functions().next().unwrap().unwrap();
    assert_eq!(table.rows(&function).map(|r| r.unwrap().words().count()).sum::<usize>(), 4);
    let kind = ErrorKind::Unsupported(Abi::S390x);
    assert_eq!(table.row(key(0x1000)), Err(Miss::Bad(Error { offset: 28, kind })));
}
