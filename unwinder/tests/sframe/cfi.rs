//! Against `.eh_frame` of the same program, as gimli reads it.
//!
//! Both rows are applied to one made-up frame, at every address that SFrame covers. Where
//! they part, one of the two tables is wrong; the list of these is part of the test.

use std::collections::BTreeMap;

use arch::Arch;
use gimli::{
    BaseAddresses, CfaRule as GimliCfa, EhFrame, EndianSlice, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow, Vendor,
};
use unwinder::address::InterruptedAddress;
use unwinder::row::{CfaRule, Expression, Key, Row, Rule, Silent, return_column};
use unwinder::sframe::Function;
use unwinder::step::{Caller, apply};
use unwinder::{End, Memory, Registers};

use crate::guests::{Guest, Section, all, functions, row};

/// Where SFrame is wrong: GNU ld 2.44 and later describes `.plt.got` as if its entries, which
/// only jump, had pushed something.
const KNOWN: [&str; 8] = [
    "v2-x86_64-alloca-fp-dyn 0x1040+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v2-x86_64-recursion-fp-dyn 0x1030+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v2-x86_64-signals-fp-dyn 0x1060+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v2-x86_64-tailcall-fp-dyn 0x1060+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v3-x86_64-alloca-fp-dyn 0x1040+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v3-x86_64-recursion-fp-dyn 0x1030+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v3-x86_64-signals-fp-dyn 0x1060+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
    "v3-x86_64-tailcall-fp-dyn 0x1060+0x0, 8 of 8 bytes: rsp+16 instead of rsp+8",
];

/// Every word of memory has a value of its own, above the stack pointer.
struct Made;

impl Memory for Made {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let value = 0x7100_0000 + (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
        true
    }
}

/// A frame with a value of its own in every register, the program counter in x86_64's 16.
fn frame(arch: Arch, pc: u64) -> Registers {
    let mut registers = Registers::unknown(arch);
    for n in 0..32 {
        registers.set(n, 0x7000_0000 + 0x1000 * u64::from(n) + 0x1_0000);
    }
    registers.set(arch.sp() as u8, 0x7000_0000);
    if arch == Arch::X86_64 {
        registers.set(16, pc);
    }
    registers
}

fn offset(e: gimli::UnwindExpression<usize>) -> Expression {
    Expression { offset: e.offset as u32, len: e.length as u32 }
}

fn rule(arch: Arch, column: u16, row: &UnwindTableRow<usize>) -> Rule {
    match row.register(gimli::Register(column)) {
        None if arch == Arch::X86_64 && column == 16 => Rule::Undefined,
        None | Some(RegisterRule::SameValue) => Rule::Same,
        Some(RegisterRule::Undefined) => Rule::Undefined,
        Some(RegisterRule::Offset(n)) => Rule::AtCfa(n),
        Some(RegisterRule::ValOffset(n)) => Rule::Cfa(n),
        Some(RegisterRule::Register(r)) => Rule::Register { register: r.0 as u8, offset: 0 },
        Some(RegisterRule::Expression(e)) => Rule::AtExpression(offset(e)),
        Some(RegisterRule::ValExpression(e)) => Rule::Expression(offset(e)),
        other => panic!("{other:?}"),
    }
}

fn convert(arch: Arch, row: &UnwindTableRow<usize>) -> Row {
    let cfa = match *row.cfa() {
        GimliCfa::RegisterAndOffset { register, offset } => {
            CfaRule::Register { register: register.0 as u8, offset }
        }
        GimliCfa::Expression(e) => CfaRule::Expression(offset(e)),
    };
    let range = row.start_address()..row.end_address();
    let mut converted = Row::new(arch, range, cfa, Silent::CalleeSaved);
    for column in [return_column(arch), arch.fp() as u8] {
        converted.set(column, rule(arch, column.into(), row));
    }
    if row.register(gimli::AArch64::RA_SIGN_STATE) == Some(RegisterRule::Constant(1)) {
        converted.signed = Some(Key::A);
    }
    converted
}

/// All rows of `.eh_frame` by their start.
fn cfi(arch: Arch, section: &Section) -> BTreeMap<u64, Row> {
    let mut eh_frame = EhFrame::new(&section.bytes, LittleEndian);
    if arch == Arch::Aarch64 {
        eh_frame.set_vendor(Vendor::AArch64);
    }
    let bases = BaseAddresses::default().set_eh_frame(section.address);
    let mut rows = BTreeMap::new();
    let mut entries = eh_frame.entries(&bases);
    let mut context = UnwindContext::new();
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::<EndianSlice<'_, LittleEndian>>::cie_from_offset).unwrap();
        let mut table = fde.rows(&eh_frame, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            rows.insert(row.start_address(), convert(arch, row));
        }
    }
    rows
}

/// What a step is judged by.
type Step = (u64, u64, Option<u64>, bool);

fn step(row: &Row, pc: u64, section: &[u8], arch: Arch) -> Result<Step, End> {
    let registers = frame(arch, pc);
    let address = InterruptedAddress(pc).into();
    let Caller { address, registers, cfa } = apply(row, address, &registers, section, &mut Made)?;
    Ok((cfa.unwrap_or_default(), address.value(), registers.fp(), row.signed.is_some()))
}

/// Counts of addresses.
#[derive(Debug, Default)]
struct Counts {
    equal: usize,
    no_cfi: usize,
    different: usize,
}

fn compare(guest: &Guest, section: &Section, counts: &mut Counts) -> Vec<String> {
    let table = guest.table();
    let rows = cfi(guest.arch, section);
    let mut report = Vec::new();
    for function in functions(&table) {
        let different = compare_function(guest, &function, section, &rows, counts);
        if let Some((first, sframe, cfi)) = different.first() {
            report.push(format!(
                "{} {:#x}+{:#x}, {} of {} bytes: {sframe} instead of {cfi}",
                guest.name,
                function.start,
                first - function.start,
                different.len(),
                function.size,
            ));
        }
    }
    report
}

fn compare_function(
    guest: &Guest,
    function: &Function,
    section: &Section,
    rows: &BTreeMap<u64, Row>,
    counts: &mut Counts,
) -> Vec<(u64, String, String)> {
    let table = guest.table();
    let mut different = Vec::new();
    for pc in function.range() {
        let cfi = rows.range(..=pc).next_back().filter(|(_, row)| pc < row.range.1);
        let (Some((_, cfi)), Some(sframe)) = (cfi, row(&table, pc)) else {
            counts.no_cfi += 1;
            continue;
        };
        let theirs = step(cfi, pc, &section.bytes, guest.arch);
        if step(&sframe, pc, &[], guest.arch) == theirs {
            counts.equal += 1;
        } else {
            counts.different += 1;
            different.push((pc, show(guest.arch, &sframe), show(guest.arch, cfi)));
        }
    }
    different
}

/// The CFA, and what is unusual about the rest.
fn show(arch: Arch, row: &Row) -> String {
    let (ra, fp) = (row.rule(row.return_address), row.rule(arch.fp() as u8));
    match row.cfa {
        CfaRule::Register { register: 7, offset }
            if arch == Arch::X86_64 && (ra, fp) == (Rule::AtCfa(-8), Rule::Same) =>
        {
            format!("rsp{offset:+}")
        }
        cfa => format!("{cfa:?}, RA {ra:?}, FP {fp:?}, signed {:?}", row.signed),
    }
}

#[test]
fn rows_are_those_of_the_other_table() {
    let mut counts = Counts::default();
    let mut report = Vec::new();
    for guest in all() {
        if let Some(section) = &guest.eh_frame {
            report.extend(compare(&guest, section, &mut counts));
        }
    }
    println!("{counts:?}");
    assert!(counts.equal > 50_000);
    assert_eq!(report, KNOWN, "{report:#?}");
}
