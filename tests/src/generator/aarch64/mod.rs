//! A64 instructions of generated programs (Arm ARM DDI 0487, chapter C6).

use crate::generator::asm::{Arg, Asm, Frame, Reg};
use crate::generator::code::{Code, Fixup, Label};

/// See the module.
#[derive(Debug, Default)]
pub struct Aarch64(Code);

const LR: u32 = 30;
const SP: u32 = 31;
/// For what an operation needs besides.
const X16: u32 = 16;

/// Registers by their numbers.
const fn n(r: Reg) -> u32 {
    match r {
        Reg::S0 => 9,
        Reg::S1 => 10,
        Reg::S2 => 11,
        Reg::S3 => 12,
        Reg::S4 => 13,
        Reg::Level => 19,
        Reg::C0 => 20,
        Reg::C1 => 21,
        Reg::C2 => 22,
        Reg::C3 => 23,
        Reg::Fp => 29,
        Reg::Sp => SP,
    }
}

impl Aarch64 {
    fn imm_to(&mut self, r: u32, value: u64) {
        // movz, movk
        self.0.word(0xd280_0000 | ((value & 0xffff) as u32) << 5 | r);
        for half in 1..4 {
            let bits = (value >> (16 * half) & 0xffff) as u32;
            if bits != 0 {
                self.0.word(0xf280_0000 | half << 21 | bits << 5 | r);
            }
        }
    }

    fn ldr(&mut self, r: u32, base: u32, offset: u64) {
        self.0.word(0xf940_0000 | (offset as u32 / 8) << 10 | base << 5 | r);
    }

    fn str(&mut self, r: u32, base: u32, offset: u64) {
        self.0.word(0xf900_0000 | (offset as u32 / 8) << 10 | base << 5 | r);
    }

    /// `to = from + value`, where 31 is the stack pointer.
    fn add_to(&mut self, to: u32, from: u32, value: i32) {
        let opcode = if value < 0 { 0xd100_0000 } else { 0x9100_0000 };
        self.0.word(opcode | value.unsigned_abs() << 10 | from << 5 | to);
    }

    /// Load or store of a pair at `[sp + offset]`.
    fn pair(&mut self, opcode: u32, a: u32, b: u32, offset: i32) {
        self.0.word(opcode | ((offset / 8) as u32 % 128) << 15 | b << 10 | SP << 5 | a);
    }

    fn branch(&mut self, word: u32, label: Label, at: u32, bits: u32) {
        self.0.fix(label, Fixup::Words { at, bits });
        self.0.word(word);
    }

    fn adr(&mut self, r: u32, label: Label) {
        self.0.fix(label, Fixup::Adr);
        self.0.word(0x1000_0000 | r);
    }

    /// Bytes of a frame: record or link register, saved registers, locals.
    fn size(frame: &Frame) -> u64 {
        (16 + 8 * frame.saved.len() as u64).next_multiple_of(16) + frame.locals
    }

    /// Where the record and the saved registers are, from the lowest stack pointer.
    fn place(frame: &Frame) -> u64 {
        // Below or above the locals.
        if frame.style % 3 == 2 { frame.locals } else { 0 }
    }
}

const STP_PRE: u32 = 0xa980_0000;
const STP: u32 = 0xa900_0000;
const LDP_POST: u32 = 0xa8c0_0000;
const LDP: u32 = 0xa940_0000;

impl Asm for Aarch64 {
    fn code(&mut self) -> &mut Code {
        &mut self.0
    }

    fn imm(&mut self, r: Reg, value: u64) {
        self.imm_to(n(r), value);
    }

    fn label_address(&mut self, r: Reg, label: Label) {
        self.adr(n(r), label);
    }

    fn mov(&mut self, to: Reg, from: Reg) {
        match (to, from) {
            (Reg::Sp, _) | (_, Reg::Sp) => self.add_to(n(to), n(from), 0),
            _ => self.0.word(0xaa00_03e0 | n(from) << 16 | n(to)),
        }
    }

    fn add(&mut self, r: Reg, value: i32) {
        self.add_to(n(r), n(r), value);
    }

    fn mul(&mut self, r: Reg, by: Reg) {
        self.0.word(0x9b00_7c00 | n(by) << 16 | n(r) << 5 | n(r));
    }

    fn low_bits(&mut self, r: Reg, bits: u32) {
        self.0.word(0xd340_0000 | (bits - 1) << 10 | n(r) << 5 | n(r)); // ubfx
    }

    fn load(&mut self, r: Reg, base: Reg, offset: u64) {
        self.ldr(n(r), n(base), offset);
    }

    fn store(&mut self, base: Reg, offset: u64, r: Reg) {
        self.str(n(r), n(base), offset);
    }

    fn load_abs(&mut self, r: Reg, addr: u64) {
        self.imm_to(X16, addr);
        self.ldr(n(r), X16, 0);
    }

    fn store_abs(&mut self, addr: u64, r: Reg) {
        self.imm_to(X16, addr);
        self.str(n(r), X16, 0);
    }

    fn call(&mut self, label: Label) {
        self.branch(0x9400_0000, label, 0, 26);
    }

    fn call_reg(&mut self, r: Reg) {
        self.0.word(0xd63f_0000 | n(r) << 5);
    }

    fn jump(&mut self, label: Label) {
        self.branch(0x1400_0000, label, 0, 26);
    }

    fn jump_reg(&mut self, r: Reg) {
        self.0.word(0xd61f_0000 | n(r) << 5);
    }

    fn jump_by_return(&mut self, r: Reg) {
        self.0.word(0xd65f_0000 | n(r) << 5);
    }

    fn jump_if_bit(&mut self, r: Reg, bit: u32, set: bool, label: Label) {
        let word = 0x3600_0000 | u32::from(set) << 24 | bit >> 5 << 31 | (bit & 31) << 19 | n(r);
        self.branch(word, label, 5, 14);
    }

    fn jump_if_zero(&mut self, r: Reg, zero: bool, label: Label) {
        self.branch(0xb400_0000 | u32::from(!zero) << 24 | n(r), label, 5, 19);
    }

    fn ret(&mut self) {
        self.0.word(0xd65f_0000 | LR << 5);
    }

    fn syscall(&mut self, number: i64, args: &[Arg]) {
        for (r, arg) in (0..).zip(args) {
            match *arg {
                Arg::Imm(value) => self.imm_to(r, value),
                Arg::At(addr) => {
                    self.imm_to(X16, addr);
                    self.ldr(r, X16, 0);
                }
                Arg::Code(label) => self.adr(r, label),
            }
        }
        self.imm_to(8, number as u64);
        self.0.word(0xd400_0001);
    }

    fn result(&mut self) {
        self.0.word(0xaa00_03e0 | n(Reg::S0)); // mov x9, x0
    }

    fn sub_sp(&mut self, r: Reg) {
        self.0.word(0xcb20_63ff | n(r) << 16);
    }

    fn cfa(&mut self, r: Reg) {
        self.mov(r, Reg::Sp);
    }

    fn prologue(&mut self, frame: &Frame) {
        match frame.sign {
            1 => self.0.word(0xd503_233f), // paciasp
            2 => self.0.word(0xd503_237f), // pacibsp
            _ => {}
        }
        let (size, place) = (Aarch64::size(frame), Aarch64::place(frame));
        let first = if frame.fp { n(Reg::Fp) } else { 31 };
        // Without a frame pointer xzr is stored beside the link register.
        if place == 0 && size <= 504 && frame.style.is_multiple_of(3) {
            self.pair(STP_PRE, first, LR, -(size as i32));
        } else {
            self.add(Reg::Sp, -(size as i32));
            self.pair(STP, first, LR, place as i32);
        }
        if frame.fp {
            self.add_to(n(Reg::Fp), SP, place as i32);
        }
        for (i, &r) in frame.saved.iter().enumerate() {
            self.str(n(r), SP, place + 16 + 8 * i as u64);
        }
        if frame.alloca && !frame.fp {
            self.mov(Reg::C3, Reg::Sp);
        }
    }

    fn epilogue(&mut self, frame: &Frame) {
        let (size, place) = (Aarch64::size(frame), Aarch64::place(frame));
        match (frame.alloca, frame.fp) {
            (true, true) => self.add_to(SP, n(Reg::Fp), -(place as i32)),
            (true, false) => self.mov(Reg::Sp, Reg::C3),
            // As compilers do where the frame pointer is at hand.
            (false, true) if frame.style.is_multiple_of(2) => {
                self.add_to(SP, n(Reg::Fp), -(place as i32));
            }
            (false, _) => {}
        }
        for (i, &r) in frame.saved.iter().enumerate() {
            self.ldr(n(r), SP, place + 16 + 8 * i as u64);
        }
        let first = if frame.fp { n(Reg::Fp) } else { X16 };
        if place == 0 && size <= 504 {
            self.pair(LDP_POST, first, LR, size as i32);
        } else {
            self.pair(LDP, first, LR, place as i32);
            self.add(Reg::Sp, size as i32);
        }
        // `ret_after` does it in one instruction.
        match frame.sign {
            1 if frame.style % 4 < 2 => self.0.word(0xd503_23bf), // autiasp
            2 => self.0.word(0xd503_23ff),                        // autibsp
            _ => {}
        }
    }

    fn ret_after(&mut self, frame: &Frame) {
        match frame.sign {
            1 if frame.style % 4 >= 2 => self.0.word(0xd65f_0bff), // retaa
            _ => self.ret(),
        }
    }

    fn setjmp(&mut self) {
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.store(Reg::S1, 8 * i as u64, r);
        }
        self.cfa(Reg::S0);
        self.store(Reg::S1, 48, Reg::S0);
        self.str(LR, n(Reg::S1), 56);
        self.imm(Reg::S0, 0);
        self.ret();
    }

    fn longjmp(&mut self, style: usize) {
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.load(r, Reg::S1, 8 * i as u64);
        }
        self.imm(Reg::S0, 1);
        self.load(Reg::S2, Reg::S1, 48);
        self.mov(Reg::Sp, Reg::S2);
        self.load(Reg::S2, Reg::S1, 56);
        match style % 2 {
            0 => self.jump_reg(Reg::S2),
            _ => self.jump_by_return(Reg::S2),
        }
    }

    fn save_all(&mut self) {
        self.add(Reg::Sp, -64);
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.str(n(r), SP, 8 * i as u64);
        }
        self.str(LR, SP, 48);
    }

    fn restore_all(&mut self, style: usize) {
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.ldr(n(r), SP, 8 * i as u64);
        }
        self.ldr(LR, SP, 48);
        self.add(Reg::Sp, 64);
        match style % 2 {
            0 => self.ret(),
            _ => self.0.word(0xd61f_0000 | LR << 5),
        }
    }

    fn new_stack(&mut self, top: u64, entry: Label) -> u64 {
        self.label_address(Reg::S0, entry);
        self.store_abs(top - 16, Reg::S0);
        top - 64
    }
}
