//! Rows against gimli's own unwinding of the same sections: its search of entries, its heap
//! storage, its rows.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use arch::Arch;
use common::at;
use common::guests;
use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
    UnwindTableRow, Vendor,
};
use unwinder::dwarf::{Context, Sections, Table};
use unwinder::row::{CfaRule, Expression, Key, Miss, Row, Rule};

fn expression(e: gimli::UnwindExpression<usize>) -> Expression {
    Expression { offset: e.offset as u32, len: e.length as u32 }
}

/// The rule of a column as gimli has it; aarch64's sign state aside.
fn rule(row: &UnwindTableRow<usize>, column: u8) -> Rule {
    match row.register(gimli::Register(column.into())) {
        None => Rule::Unmentioned,
        Some(RegisterRule::Undefined) => Rule::Undefined,
        Some(RegisterRule::SameValue) => Rule::Same,
        Some(RegisterRule::Offset(offset)) => Rule::AtCfa(offset),
        Some(RegisterRule::ValOffset(offset)) => Rule::Cfa(offset),
        Some(RegisterRule::Register(r)) => Rule::Register { register: r.0 as u8, offset: 0 },
        Some(RegisterRule::Expression(e)) => Rule::AtExpression(expression(e)),
        Some(RegisterRule::ValExpression(e)) => Rule::Expression(expression(e)),
        other => panic!("{other:?}"),
    }
}

fn compare(arch: Arch, theirs: &UnwindTableRow<usize>, ours: &Row) {
    assert_eq!(ours.range, (theirs.start_address(), theirs.end_address()));
    let cfa = match *theirs.cfa() {
        gimli::CfaRule::RegisterAndOffset { register, offset } => {
            CfaRule::Register { register: register.0 as u8, offset }
        }
        gimli::CfaRule::Expression(e) => CfaRule::Expression(expression(e)),
    };
    assert_eq!(ours.cfa, cfa);
    let columns = if arch == Arch::X86_64 { 17 } else { 32 };
    for column in 0..columns {
        assert_eq!(ours.rule(column), rule(theirs, column), "column {column}");
    }
    let state = theirs.register(gimli::AArch64::RA_SIGN_STATE);
    let signed = state == Some(RegisterRule::Constant(1)) && arch == Arch::Aarch64;
    assert_eq!(ours.signed, signed.then_some(Key::A));
}

#[test]
fn lookups_are_gimlis() {
    let mut rows = 0;
    for guest in guests::programs().iter().chain(&guests::dumps()) {
        for sections in guest.sections() {
            let Sections::EhFrame { frame, header, .. } = sections else { continue };
            let (table, _) = Table::new(guest.arch, sections).unwrap();
            let mut eh_frame = EhFrame::new(frame.bytes, LittleEndian);
            eh_frame.set_address_size(8);
            if guest.arch == Arch::Aarch64 {
                eh_frame.set_vendor(Vendor::AArch64);
            }
            let mut bases = BaseAddresses::default().set_eh_frame(frame.address);
            let parsed = header.map(|header| {
                bases = bases.clone().set_eh_frame_hdr(header.address);
                EhFrameHdr::new(header.bytes, LittleEndian).parse(&bases, 8).unwrap()
            });
            // A header may be without a table.
            let search = parsed.as_ref().and_then(|header| header.table());
            let (context, theirs) = (&mut Context::new(), &mut UnwindContext::new());
            // A search without a header is slow: fewer addresses.
            let step = if header.is_some() { 1 } else { 37 };
            for entry in table.entries().step_by(step) {
                let (start, end) = entry.unwrap().range;
                for address in [start.wrapping_sub(1), start, start + (end - start) / 2, end - 1] {
                    let cie = EhFrame::cie_from_offset;
                    let found = match &search {
                        Some(table) => {
                            table.unwind_info_for_address(&eh_frame, &bases, theirs, address, cie)
                        }
                        None => eh_frame.unwind_info_for_address(&bases, theirs, address, cie),
                    };
                    let ours = table.row(at(address), context);
                    match found {
                        Ok(theirs) => {
                            rows += 1;
                            compare(guest.arch, theirs, &ours.unwrap());
                        }
                        Err(gimli::Error::NoUnwindInfoForAddress) => {
                            assert_eq!(ours, Err(Miss::NotCovered), "{address:#x}");
                        }
                        Err(error) => panic!("{}: {error}", guest.name),
                    }
                }
            }
        }
    }
    assert!(rows > 10_000, "{rows}");
}
