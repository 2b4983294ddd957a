//! Each rule and each call-frame instruction, in crafted `.eh_frame` sections.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod common;

use arch::Arch::{Aarch64, X86_64};
use common::{CODE, Cie, Frame, PCREL, at, cfa, one, one_of, rules, uleb};
use unwinder::dwarf::{Context, ErrorKind};
use unwinder::row::{CfaRule, Expression, Key, Miss, Row, Rule, Silent};

/// The return address's rule on x86_64.
const RA: (u8, Rule) = (16, Rule::AtCfa(-8));

/// The only row of a function with these instructions.
fn x86(instructions: &[u8]) -> Row {
    one(X86_64, instructions).row(CODE).unwrap()
}

fn rbx(instructions: &[u8]) -> Rule {
    x86(instructions).rule(3)
}

fn kind(arch: arch::Arch, instructions: &[u8]) -> ErrorKind {
    let frame = one(arch, instructions);
    match frame.row(CODE) {
        Err(Miss::Bad(error)) => {
            assert_eq!(error.section.name(), ".eh_frame");
            let (table, _) = frame.table();
            let fde = table.entries().next().unwrap().unwrap();
            assert_eq!(error.offset, fde.offset);
            error.kind
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_usual_row() {
    let row = x86(&[]);
    assert_eq!((row.cfa, rules(&row)), (cfa(7, 8), vec![RA]));
    assert_eq!((row.range, row.return_address), ((CODE, CODE + 0x100), 16));
    assert_eq!((row.silent, row.signed, row.signal), (Silent::CalleeSaved, None, false));
    let row = one(Aarch64, &[]).row(CODE + 0xff).unwrap();
    assert_eq!((row.cfa, rules(&row), row.return_address), (cfa(31, 0), vec![], 30));
}

#[test]
fn only_covered_addresses() {
    let frame = one(X86_64, &[]);
    for address in [0, CODE - 1, CODE + 0x100, u64::MAX] {
        assert_eq!(frame.row(address), Err(Miss::NotCovered));
    }
    assert_eq!(Frame::new(X86_64).row(CODE), Err(Miss::NotCovered));
}

#[test]
fn cfa_instructions() {
    let cfa_of = |instructions: &[u8]| x86(instructions).cfa;
    assert_eq!(cfa_of(&[0x0c, 6, 16]), cfa(6, 16)); // def_cfa
    assert_eq!(cfa_of(&[0x0d, 6]), cfa(6, 8)); // def_cfa_register
    assert_eq!(cfa_of(&[0x0e, 0x90, 1]), cfa(7, 144)); // def_cfa_offset
    assert_eq!(cfa_of(&[0x12, 6, 0x7e]), cfa(6, 16)); // def_cfa_sf, -2 * -8
    assert_eq!(cfa_of(&[0x12, 6, 1]), cfa(6, -8));
    assert_eq!(cfa_of(&[0x13, 0x7d]), cfa(7, 24)); // def_cfa_offset_sf
    assert_eq!(cfa_of(&[0x2e, 0x20]), cfa(7, 8)); // GNU_args_size
}

#[test]
fn the_plt_expression() {
    // CFA = rsp + 8 + ((rip & 15) >= 11) * 8, as linkers write it for lazy stubs.
    let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let frame = one(X86_64, &bytes![[0x0f, 11], plt]);
    let row = frame.row(CODE).unwrap();
    let CfaRule::Expression(e) = row.cfa else { panic!("{:?}", row.cfa) };
    let (table, _) = frame.table();
    assert_eq!(table.section()[e.offset as usize..][..e.len as usize], plt);
    // What changes a sum makes no sense now.
    assert_eq!(kind(X86_64, &[0x0f, 1, 0x30, 0x0d, 6]), ErrorKind::InstructionContext);
    assert_eq!(kind(X86_64, &[0x0f, 1, 0x30, 0x0e, 6]), ErrorKind::InstructionContext);
    assert_eq!(kind(X86_64, &[0x0f, 1, 0x30, 0x13, 6]), ErrorKind::InstructionContext);
}

#[test]
fn register_rules() {
    assert_eq!(rbx(&[0x07, 3]), Rule::Undefined);
    assert_eq!(rbx(&[0x08, 3]), Rule::Same);
    assert_eq!(rbx(&[0x83, 2]), Rule::AtCfa(-16)); // offset
    assert_eq!(rbx(&[0x05, 3, 2]), Rule::AtCfa(-16)); // offset_extended
    assert_eq!(rbx(&[0x11, 3, 0x7e]), Rule::AtCfa(16)); // offset_extended_sf
    assert_eq!(rbx(&[0x14, 3, 2]), Rule::Cfa(-16)); // val_offset
    assert_eq!(rbx(&[0x15, 3, 0x7e]), Rule::Cfa(16)); // val_offset_sf
    assert_eq!(rbx(&[0x09, 3, 12]), Rule::Register { register: 12, offset: 0 });
    assert_eq!(rbx(&[0, 0, 0]), Rule::Unmentioned); // nop
}

#[test]
fn expression_rules() {
    let frame = one(X86_64, &[0x10, 3, 2, 0x77, 8, 0x16, 6, 1, 0x31]);
    let row = frame.row(CODE).unwrap();
    let end = frame.bytes.len() as u32;
    assert_eq!(row.rule(3), Rule::AtExpression(Expression { offset: end - 6, len: 2 }));
    assert_eq!(row.rule(6), Rule::Expression(Expression { offset: end - 1, len: 1 }));
    assert_eq!(kind(X86_64, &[0x10, 3, 9, 0]), ErrorKind::Truncated);
}

#[test]
fn the_old_negative_offset_is_not_read() {
    // DW_CFA_GNU_negative_offset_extended: no producer of these architectures wrote it.
    assert_eq!(kind(X86_64, &[0x2f, 3, 2]), ErrorKind::Instruction(0x2f));
}

#[test]
fn restore_goes_back_to_the_common_entry() {
    // rbx was silent there, the return address was not.
    assert_eq!(rbx(&[0x83, 2, 0xc3]), Rule::Unmentioned);
    assert_eq!(rbx(&[0x83, 2, 0x06, 3]), Rule::Unmentioned); // restore_extended
    let row = x86(&[0x07, 16, 0x06, 16]);
    assert_eq!(rules(&row), [RA]);
}

#[test]
fn restore_with_several_initial_rules() {
    let mut frame = Frame::new(X86_64);
    let instructions = [0x0c, 7, 8, 0x90, 1, 0x86, 2, 0xc6];
    let mut cie = Cie {
        version: 1,
        augmentation: "zR",
        data: &[PCREL],
        code_align: 1,
        data_align: -8,
        return_address: 16,
        instructions: &instructions[..7],
    };
    let offset = frame.cie(cie);
    frame.fde(offset, CODE, 1, &[0x07, 6, 0xc6]);
    // A common entry cannot restore what it is about to say.
    cie.instructions = &instructions;
    let offset = frame.cie(cie);
    frame.fde(offset, CODE + 1, 1, &[]);
    assert_eq!(frame.row(CODE).unwrap().rule(6), Rule::AtCfa(-16));
    let Err(Miss::Bad(error)) = frame.row(CODE + 1) else { panic!() };
    assert_eq!((error.kind, error.offset), (ErrorKind::InstructionContext, offset as u64));
}

#[test]
fn remembered_states_have_the_cfa() {
    // Nested, and with a row between each.
    let frame = one(
        X86_64,
        &[0x0a, 0x41, 0x0c, 6, 16, 0x83, 3, 0x0a, 0x41, 0x0e, 32, 0x07, 3, 0x41, 0x0b, 0x41, 0x0b],
    );
    let row = |offset| {
        let row = frame.row(CODE + offset).unwrap();
        (row.cfa, row.rule(3))
    };
    assert_eq!(row(0), (cfa(7, 8), Rule::Unmentioned));
    assert_eq!(row(1), (cfa(6, 16), Rule::AtCfa(-24)));
    assert_eq!(row(2), (cfa(6, 32), Rule::Undefined));
    assert_eq!(row(3), (cfa(6, 16), Rule::AtCfa(-24)));
    assert_eq!(row(4), (cfa(7, 8), Rule::Unmentioned));
    assert_eq!(kind(X86_64, &[0x0b]), ErrorKind::NothingRemembered);
    assert_eq!(kind(X86_64, &[0x0a; 99]), ErrorKind::TooManyStates);
    assert!(one(X86_64, &[0x0a; 14]).row(CODE).is_ok());
}

#[test]
fn advances() {
    let frame = one(
        Aarch64,
        &[
            0x41, 0x0e, 1, // advance_loc 1
            0x02, 2, 0x0e, 2, // advance_loc1
            0x03, 3, 0, 0x0e, 3, // advance_loc2
            0x04, 4, 0, 0, 0, 0x0e, 4, // advance_loc4
        ],
    );
    let (table, _) = frame.table();
    let entry = table.entries().next().unwrap().unwrap();
    let mut found = Vec::new();
    let context = &mut Context::new();
    table.rows(&entry, context, |row| found.push((row.range.0 - CODE, row.cfa))).unwrap();
    let expected = [(0, 0), (4, 1), (12, 2), (24, 3), (40, 4)];
    assert_eq!(found, expected.map(|(at, offset)| (at, cfa(31, offset))));
    for (start, offset) in expected {
        let row = table.row(at(CODE + start), context).unwrap();
        assert_eq!((row.cfa, row.range.0), (cfa(31, offset), CODE + start));
    }
}

#[test]
fn advances_behind_the_function_say_nothing() {
    let frame = one(X86_64, &[0x02, 0xff, 0x0e, 1, 0x02, 0xff, 0x0e, 2]);
    let (table, _) = frame.table();
    let entry = table.entries().next().unwrap().unwrap();
    let mut found = Vec::new();
    table.rows(&entry, &mut Context::new(), |row| found.push(row.range)).unwrap();
    assert_eq!(found, [(CODE, CODE + 0xff), (CODE + 0xff, CODE + 0x100)]);
    let far = [0x04, 0xff, 0xff, 0xff, 0xff];
    let mut frame = Frame::debug(X86_64);
    let cie = frame.cie(Cie {
        version: 1,
        augmentation: "",
        data: &[],
        code_align: 1 << 63 | 1,
        data_align: -8,
        return_address: 16,
        instructions: &[0x0c, 7, 8],
    });
    frame.fde(cie, CODE, 0x100, &bytes![far, far]);
    assert_eq!(frame.row(CODE).map(|row| row.range.1), Ok(CODE + 0x100));
}

#[test]
fn set_loc() {
    let mut frame = Frame::debug(X86_64);
    let cie = frame.cie(Cie {
        version: 3,
        augmentation: "",
        data: &[],
        code_align: 1,
        data_align: -8,
        return_address: 16,
        instructions: &[0x0c, 7, 8, 0x90, 1],
    });
    let to = |address: u64| bytes![[0x01], address.to_le_bytes()];
    frame.fde(cie, CODE, 0x100, &bytes![to(CODE + 8), [0x0e, 16]]);
    frame.fde(cie, CODE + 0x100, 0x100, &to(CODE));
    assert_eq!(frame.row(CODE + 7).unwrap().cfa, cfa(7, 8));
    assert_eq!(frame.row(CODE + 8).unwrap().cfa, cfa(7, 16));
    let Err(Miss::Bad(error)) = frame.row(CODE + 0x100) else { panic!() };
    assert_eq!(error.kind, ErrorKind::SetLocBackwards(CODE));
    assert_eq!(error.section.name(), ".debug_frame");
}

#[test]
fn set_loc_in_eh_frame_is_relative_to_itself() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.usual_cie("zR");
    let field = common::FRAME + frame.bytes.len() as u64 + 8 + 8 + 1 + 1;
    let to = (CODE + 8).wrapping_sub(field) as u32;
    frame.fde(cie, CODE, 0x100, &bytes![[0x01], to.to_le_bytes(), [0x0e, 16]]);
    assert_eq!(frame.row(CODE + 7).unwrap().cfa, cfa(7, 8));
    assert_eq!(frame.row(CODE + 8).unwrap().cfa, cfa(7, 16));
}

#[test]
fn signed_return_addresses() {
    let instructions = [0x41, 0x2d, 0x41, 0x2d];
    let states = |augmentation: &str| {
        let frame = one_of(Aarch64, augmentation, &instructions);
        [0, 4, 8].map(|offset| frame.row(CODE + offset).unwrap().signed)
    };
    assert_eq!(states("zR"), [None, Some(Key::A), None]);
    assert_eq!(states("zRB"), [None, Some(Key::B), None]);
    assert_eq!(states("zRG"), [None, Some(Key::A), None]);
    assert_eq!(states("zGRB"), [None, Some(Key::B), None]);
    // Remembered and restored like a register.
    let frame = one(Aarch64, &[0x2d, 0x0a, 0x41, 0x2d, 0x41, 0x0b]);
    let signed = |offset| frame.row(CODE + offset).unwrap().signed;
    assert_eq!([0, 4, 8].map(signed), [Some(Key::A), None, Some(Key::A)]);
    assert_eq!(kind(X86_64, &[0x2d]), ErrorKind::Instruction(0x2d));
}

#[test]
fn the_sign_state_column() {
    let signed = |instructions: &[u8]| one(Aarch64, instructions).row(CODE).unwrap().signed;
    assert_eq!(signed(&[0x16, 34, 1, 0x31]), Some(Key::A)); // lit1
    assert_eq!(signed(&[0x16, 34, 1, 0x30]), None); // lit0
    assert_eq!(signed(&[0x16, 34, 2, 0x08, 3]), Some(Key::A)); // const1u 3
    assert_eq!(signed(&[0x2d, 0x06, 34]), None); // restore_extended
    assert_eq!(signed(&[0x07, 34]), None);
    assert_eq!(kind(Aarch64, &[0x16, 34, 2, 0x8f, 0]), ErrorKind::SignState); // breg31 0
    assert_eq!(kind(Aarch64, &[0xa2, 1]), ErrorKind::SignState); // at CFA - 8
    assert_eq!(kind(Aarch64, &[0x07, 34, 0x2d]), ErrorKind::InstructionContext);
    // On x86_64 it is a vector register.
    assert_eq!(x86(&[0xa2, 1]).signed, None);
}

#[test]
fn signed_with_the_program_counter() {
    assert_eq!(kind(Aarch64, &[0x2c]), ErrorKind::SignedWithPc);
    assert_eq!(kind(X86_64, &[0x2c]), ErrorKind::Instruction(0x2c));
    assert_eq!(kind(X86_64, &[0x3f]), ErrorKind::Instruction(0x3f));
}

#[test]
fn columns_that_are_not_kept() {
    // xmm0 and up; d8 to d15.
    let row = x86(&[0x91, 2, 0xa0, 2, 0x05, 0xff, 0xff, 3, 2]);
    assert_eq!(rules(&row), [RA]);
    let row = one(Aarch64, &[0x05, 72, 2, 0x05, 79, 3]).row(CODE).unwrap();
    assert_eq!(rules(&row), []);
    assert_eq!(kind(X86_64, &[0x05, 0xff, 0xff, 4, 2]), ErrorKind::Register(81919));
}

#[test]
fn values_in_registers_that_are_not_kept() {
    assert_eq!(rbx(&[0x09, 3, 17]), Rule::Register { register: 17, offset: 0 });
    assert_eq!(rbx(&bytes![[0x09, 3], uleb(300)]), Rule::Register { register: 255, offset: 0 });
}

#[test]
fn numbers_that_do_not_fit() {
    assert_eq!(kind(X86_64, &bytes![[0x0e], [0xff; 9], [0x7f]]), ErrorKind::Leb128);
    assert_eq!(kind(X86_64, &[0x0e, 0x80]), ErrorKind::Truncated);
    assert_eq!(x86(&bytes![[0x0e], [0xff; 9], [0x01]]).cfa, cfa(7, -1));
    let mut frame = Frame::debug(X86_64);
    let cie = frame.usual_cie("");
    frame.fde(cie, u64::MAX - 8, 8, &[0x41, 0x02, 0xff]);
    let last = at(u64::MAX - 1);
    let (table, _) = frame.table();
    let Err(Miss::Bad(error)) = table.row(last, &mut Context::new()) else { panic!() };
    assert_eq!(error.kind, ErrorKind::AddressOverflow);
}

#[test]
fn more_rules_than_registers() {
    let many: Vec<u8> = (0..200).flat_map(|n| bytes![[0x07], uleb(n)]).collect();
    assert_eq!(kind(Aarch64, &many), ErrorKind::TooManyRules);
    let many: Vec<u8> = (64..=95).flat_map(|n| bytes![[0x05], uleb(n), [1]]).collect();
    assert_eq!(rules(&one(Aarch64, &many).row(CODE).unwrap()), []);
}

#[test]
fn an_outermost_frame() {
    let row = x86(&[0x07, 16]);
    assert_eq!(row.rule(row.return_address), Rule::Undefined);
}

#[test]
fn return_address_columns() {
    let mut frame = Frame::new(Aarch64);
    let cie = |column| Cie {
        version: 1,
        augmentation: "zR",
        data: &[PCREL],
        code_align: 4,
        data_align: -8,
        return_address: column,
        instructions: &[0x0c, 31, 0],
    };
    let other = frame.cie(cie(17));
    frame.fde(other, CODE, 4, &[]);
    let bad = frame.cie(cie(32));
    let fde = frame.fde(bad, CODE + 4, 4, &[]);
    assert_eq!(frame.row(CODE).unwrap().return_address, 17);
    let Err(Miss::Bad(error)) = frame.row(CODE + 4) else { panic!() };
    assert_eq!((error.kind, error.offset), (ErrorKind::ReturnColumn(32), fde as u64));
}

#[test]
fn no_rule_for_the_cfa() {
    let mut frame = Frame::new(X86_64);
    let cie = frame.cie(Cie {
        version: 1,
        augmentation: "zR",
        data: &[PCREL],
        code_align: 1,
        data_align: -8,
        return_address: 16,
        instructions: &[],
    });
    frame.fde(cie, CODE, 4, &[]);
    frame.fde(cie, CODE + 4, 4, &[0x07, 16]);
    assert!(matches!(frame.row(CODE), Err(Miss::Bad(e)) if e.kind == ErrorKind::NoCfa));
    assert_eq!(rules(&frame.row(CODE + 4).unwrap()), [(16, Rule::Undefined)]);
    // longjmp of glibc, aarch64: the buffer is in x0.
    assert_eq!(one(Aarch64, &[0x0c, 0, 0]).row(CODE).unwrap().cfa, cfa(0, 0));
}

#[test]
fn the_signal_trampoline_of_glibc() {
    // sysdeps/unix/sysv/linux/x86_64/sigaction.c: every register by expression, and the
    // function begins one byte early for those who look up the return address.
    let saved = |register: u8, offset: u64| {
        let e = bytes![[0x77], sleb(offset)];
        bytes![[0x10, register], uleb(e.len() as u64), e]
    };
    let cfa = bytes![[0x77], sleb(160), [0x06]];
    let offsets = [144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, 168];
    let mut code = bytes![[0x0f], uleb(cfa.len() as u64), cfa];
    for (register, offset) in (0..).zip(offsets) {
        code.extend(saved(register, offset));
    }
    let row = one_of(X86_64, "zRS", &code).row(CODE).unwrap();
    assert!(row.signal && matches!(row.cfa, CfaRule::Expression(_)));
    assert_eq!(rules(&row).len(), 17);
    assert!(rules(&row).iter().all(|(_, rule)| matches!(rule, Rule::AtExpression(_))));
}

fn sleb(value: u64) -> Vec<u8> {
    let mut bytes = uleb(value);
    if value >> (7 * bytes.len() - 1) & 1 == 1 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(0);
    }
    bytes
}
