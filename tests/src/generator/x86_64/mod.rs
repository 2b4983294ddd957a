//! x86_64 instructions of generated programs (Intel SDM volume 2).

use crate::generator::asm::{Arg, Asm, Frame, Reg};
use crate::generator::code::{Code, Fixup, Label};

/// See the module.
#[derive(Debug, Default)]
pub struct X86_64(Code);

const RAX: u8 = 0;
const RSP: u8 = 4;
const ARGS: [u8; 6] = [7, 6, 2, 10, 8, 9];

/// Registers by their numbers.
const fn n(r: Reg) -> u8 {
    match r {
        Reg::S0 => RAX,
        Reg::S1 => 1,
        Reg::S2 => 2,
        Reg::S3 => 6,
        Reg::S4 => 9,
        Reg::Level => 3,
        Reg::C0 => 12,
        Reg::C1 => 13,
        Reg::C2 => 14,
        Reg::C3 => 15,
        Reg::Fp => 5,
        Reg::Sp => RSP,
    }
}

impl X86_64 {
    /// REX.W, opcode, ModRM of two registers.
    fn rr(&mut self, opcode: &[u8], reg: u8, rm: u8) {
        self.0.put(&[0x48 | reg >> 3 << 2 | rm >> 3]);
        self.0.put(opcode);
        self.0.put(&[0xc0 | (reg & 7) << 3 | rm & 7]);
    }

    /// REX.W, opcode, ModRM of a register and `[base + disp32]`.
    fn rm(&mut self, opcode: u8, reg: u8, base: u8, offset: i32) {
        self.0.put(&[0x48 | reg >> 3 << 2 | base >> 3, opcode, 0x80 | (reg & 7) << 3 | base & 7]);
        if base & 7 == RSP {
            self.0.put(&[0x24]);
        }
        self.0.put(&offset.to_le_bytes());
    }

    /// REX.W, opcode, ModRM of a register and `[addr32]`.
    fn ra(&mut self, opcode: u8, reg: u8, addr: u64) {
        self.0.put(&[0x48 | reg >> 3 << 2, opcode, (reg & 7) << 3 | 4, 0x25]);
        self.0.put(&(addr as u32).to_le_bytes());
    }

    fn imm_to(&mut self, r: u8, value: u64) {
        match u32::try_from(value) {
            Ok(small) => {
                self.0.put(&[0x40 | r >> 3, 0xb8 | r & 7]);
                self.0.put(&small.to_le_bytes());
            }
            Err(_) => {
                self.0.put(&[0x48 | r >> 3, 0xb8 | r & 7]);
                self.0.put(&value.to_le_bytes());
            }
        }
    }

    fn push(&mut self, r: u8) {
        self.0.put(&[0x40 | r >> 3, 0x50 | r & 7]);
    }

    fn pop(&mut self, r: u8) {
        self.0.put(&[0x40 | r >> 3, 0x58 | r & 7]);
    }

    /// Four bytes: a label.
    fn rel32(&mut self, opcode: &[u8], label: Label, fixup: Fixup) {
        self.0.put(opcode);
        self.0.fix(label, fixup);
        self.0.put(&[0; 4]);
    }

    /// `lea to, [base + offset]`
    fn lea(&mut self, to: u8, base: u8, offset: i32) {
        self.rm(0x8d, to, base, offset);
    }
}

impl Asm for X86_64 {
    fn code(&mut self) -> &mut Code {
        &mut self.0
    }

    fn imm(&mut self, r: Reg, value: u64) {
        self.imm_to(n(r), value);
    }

    fn label_address(&mut self, r: Reg, label: Label) {
        let r = n(r);
        self.rel32(&[0x40 | r >> 3, 0xb8 | r & 7], label, Fixup::Absolute32);
    }

    fn mov(&mut self, to: Reg, from: Reg) {
        self.rr(&[0x89], n(from), n(to));
    }

    fn add(&mut self, r: Reg, value: i32) {
        self.rr(&[0x81], 0, n(r));
        self.0.put(&value.to_le_bytes());
    }

    fn mul(&mut self, r: Reg, by: Reg) {
        self.rr(&[0x0f, 0xaf], n(r), n(by));
    }

    fn low_bits(&mut self, r: Reg, bits: u32) {
        self.rr(&[0x81], 4, n(r));
        self.0.put(&((1u32 << bits) - 1).to_le_bytes());
    }

    fn load(&mut self, r: Reg, base: Reg, offset: u64) {
        self.rm(0x8b, n(r), n(base), offset as i32);
    }

    fn store(&mut self, base: Reg, offset: u64, r: Reg) {
        self.rm(0x89, n(r), n(base), offset as i32);
    }

    fn load_abs(&mut self, r: Reg, addr: u64) {
        self.ra(0x8b, n(r), addr);
    }

    fn store_abs(&mut self, addr: u64, r: Reg) {
        self.ra(0x89, n(r), addr);
    }

    fn call(&mut self, label: Label) {
        self.rel32(&[0xe8], label, Fixup::Relative32);
    }

    fn call_reg(&mut self, r: Reg) {
        self.0.put(&[0x40 | n(r) >> 3, 0xff, 0xd0 | n(r) & 7]);
    }

    fn jump(&mut self, label: Label) {
        self.rel32(&[0xe9], label, Fixup::Relative32);
    }

    fn jump_reg(&mut self, r: Reg) {
        self.0.put(&[0x40 | n(r) >> 3, 0xff, 0xe0 | n(r) & 7]);
    }

    fn jump_by_return(&mut self, r: Reg) {
        self.push(n(r));
        self.0.put(&[0xc3]);
    }

    fn jump_if_bit(&mut self, r: Reg, bit: u32, set: bool, label: Label) {
        self.rr(&[0x0f, 0xba], 4, n(r));
        self.0.put(&[bit as u8]);
        self.rel32(&[0x0f, if set { 0x82 } else { 0x83 }], label, Fixup::Relative32);
    }

    fn jump_if_zero(&mut self, r: Reg, zero: bool, label: Label) {
        self.rr(&[0x85], n(r), n(r));
        self.rel32(&[0x0f, if zero { 0x84 } else { 0x85 }], label, Fixup::Relative32);
    }

    fn ret(&mut self) {
        self.0.put(&[0xc3]);
    }

    fn syscall(&mut self, number: i64, args: &[Arg]) {
        for (&r, arg) in ARGS.iter().zip(args) {
            match *arg {
                Arg::Imm(value) => self.imm_to(r, value),
                Arg::At(addr) => self.ra(0x8b, r, addr),
                Arg::Code(label) => {
                    self.rel32(&[0x40 | r >> 3, 0xb8 | r & 7], label, Fixup::Absolute32);
                }
            }
        }
        self.imm_to(RAX, number as u64);
        self.0.put(&[0x0f, 0x05]);
    }

    fn result(&mut self) {}

    fn sub_sp(&mut self, r: Reg) {
        self.rr(&[0x29], n(r), RSP);
    }

    fn cfa(&mut self, r: Reg) {
        self.lea(n(r), RSP, 8);
    }

    fn prologue(&mut self, frame: &Frame) {
        if frame.fp {
            self.push(n(Reg::Fp));
            self.mov(Reg::Fp, Reg::Sp);
        }
        for &r in &frame.saved {
            self.push(n(r));
        }
        if frame.locals > 0 {
            self.add(Reg::Sp, -(frame.locals as i32));
        }
        if frame.alloca && !frame.fp {
            self.mov(Reg::C3, Reg::Sp);
        }
    }

    fn epilogue(&mut self, frame: &Frame) {
        let pushed = 8 * frame.saved.len() as i32;
        match (frame.fp, frame.alloca) {
            (true, _) if frame.style.is_multiple_of(2) => {
                for (i, &r) in frame.saved.iter().enumerate() {
                    self.rm(0x8b, n(r), n(Reg::Fp), -8 * (i as i32 + 1));
                }
                self.0.put(&[0xc9]); // leave
                return;
            }
            (true, _) => self.lea(RSP, n(Reg::Fp), -pushed),
            (false, true) => {
                self.mov(Reg::Sp, Reg::C3);
                self.add(Reg::Sp, frame.locals as i32);
            }
            (false, false) if frame.locals > 0 => self.add(Reg::Sp, frame.locals as i32),
            (false, false) => {}
        }
        for &r in frame.saved.iter().rev() {
            self.pop(n(r));
        }
        if frame.fp {
            self.pop(n(Reg::Fp));
        }
    }

    fn ret_after(&mut self, _frame: &Frame) {
        self.ret();
    }

    fn setjmp(&mut self) {
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.store(Reg::S1, 8 * i as u64, r);
        }
        self.cfa(Reg::S0);
        self.store(Reg::S1, 48, Reg::S0);
        self.load(Reg::S0, Reg::Sp, 0);
        self.store(Reg::S1, 56, Reg::S0);
        self.imm(Reg::S0, 0);
        self.ret();
    }

    fn longjmp(&mut self, style: usize) {
        for (i, &r) in Reg::SAVED.iter().enumerate() {
            self.load(r, Reg::S1, 8 * i as u64);
        }
        self.imm(Reg::S0, 1);
        self.load(Reg::Sp, Reg::S1, 48);
        self.load(Reg::S2, Reg::S1, 56);
        match style % 2 {
            0 => self.jump_reg(Reg::S2),
            _ => self.jump_by_return(Reg::S2),
        }
    }

    fn save_all(&mut self) {
        Reg::SAVED.iter().for_each(|&r| self.push(n(r)));
    }

    fn restore_all(&mut self, style: usize) {
        Reg::SAVED.iter().rev().for_each(|&r| self.pop(n(r)));
        if style.is_multiple_of(2) {
            self.ret();
        } else {
            self.pop(n(Reg::S2));
            self.jump_reg(Reg::S2);
        }
    }

    fn new_stack(&mut self, top: u64, entry: Label) -> u64 {
        self.label_address(Reg::S0, entry);
        self.store_abs(top - 8, Reg::S0);
        top - 8 - 8 * Reg::SAVED.len() as u64
    }
}
