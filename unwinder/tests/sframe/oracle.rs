//! Against `simple-frame-rs`, an independent reader of all three versions.

use std::panic::catch_unwind;

use arch::Arch;
use simple_frame_rs::{SFrameFDE, SFrameFRE, SFrameSection};
use unwinder::row::{CfaRule, Rule};

use crate::guests::{Guest, all, functions, row};

/// Start, words and "return address is signed" of a row.
type Raw = (u32, Vec<i32>, bool);

fn raw(row: &SFrameFRE) -> Raw {
    macro_rules! of {
        ($row:ident) => {
            (
                $row.start_address.get(),
                $row.stack_offsets.iter().map(|o| o.get()).collect(),
                $row.info.get_mangled_ra_p(),
            )
        };
    }
    match row {
        SFrameFRE::V1(row) => of!(row),
        SFrameFRE::V2(row) => of!(row),
        SFrameFRE::V3(row) => of!(row),
    }
}

/// The other reader's row at `pc`.
fn theirs(section: &SFrameSection<'_>, pc: u64) -> Option<(SFrameFDE, SFrameFRE)> {
    let function = section.find_fde(pc).unwrap()?;
    let row = function.find_fre(section, pc).unwrap()?;
    Some((function, row))
}

/// Their offsets of a default row, as rules.
fn rules(guest: &Guest, section: &SFrameSection<'_>, row: &SFrameFRE) -> (CfaRule, Rule, Rule) {
    let arch = guest.arch;
    let base = if row.get_cfa_base_reg_id() == 1 { arch.sp() } else { arch.fp() };
    let offset = row.get_cfa_offset(section).unwrap().unwrap().into();
    let saved = |offset: Option<i32>| offset.map_or(Rule::Same, |o| Rule::AtCfa(o.into()));
    (
        CfaRule::Register { register: base as u8, offset },
        saved(row.get_ra_offset(section).unwrap()),
        saved(row.get_fp_offset(section).unwrap()),
    )
}

fn compare(guest: &Guest) -> (usize, usize) {
    let table = guest.table();
    let section = SFrameSection::from(&guest.sframe.bytes, guest.sframe.address).unwrap();
    let (mut compared, mut left_out) = (0, 0);
    for function in functions(&table) {
        if function.info.repeats() {
            // It takes the first row of a block for all of it.
            left_out += 1;
            continue;
        }
        let rows: Vec<_> = table.rows(&function).map(Result::unwrap).collect();
        for pc in function.range() {
            let (_, their_row) = theirs(&section, pc).expect("covered");
            let offset = (pc - function.start) as u32;
            let ours = rows.iter().rfind(|r| r.start <= offset).unwrap();
            let expected = (ours.start, ours.words().collect(), ours.info.signed());
            assert_eq!(raw(&their_row), expected, "{}: {pc:#x}", guest.name);
            if !function.is_flexible() {
                let row = row(&table, pc).unwrap();
                let (ra, fp) = (row.return_address, guest.arch.fp() as u8);
                let ours = (row.cfa, row.rule(ra), row.rule(fp));
                assert_eq!(rules(guest, &section, &their_row), ours, "{}: {pc:#x}", guest.name);
            }
            compared += 1;
        }
    }
    (compared, left_out)
}

#[test]
fn rows_are_those_of_another_reader() {
    let (mut compared, mut left_out) = (0, 0);
    for guest in all() {
        let result = catch_unwind(|| compare(&guest));
        let (c, l) = result.unwrap_or_else(|_| panic!("{} differs", guest.name));
        (compared, left_out) = (compared + c, left_out + l);
    }
    println!("{compared} addresses; {left_out} repeated functions left out");
    assert!(compared > 20_000 && left_out > 0);
    assert!(all().iter().any(|g| g.arch == Arch::Aarch64));
}
