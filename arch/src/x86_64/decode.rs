//! Lengths and classes of x86 instructions in 64-bit mode (Intel SDM volume
//! 2, chapter 2 and appendix A; AMD APM volume 3).
//!
//! Two tables say for each opcode whether a ModRM byte and which immediate
//! follow. They cover everything that exists in 64-bit mode, VEX and EVEX
//! included; XOP and the AMD-only SSE4a shifts are left out.
//!
//! One choice: `66 e8/e9/0f 8x` without REX.W takes a 16-bit displacement, as
//! on AMD; Intel ignores the prefix there. Compilers emit it only with
//! REX.W (the general-dynamic TLS call), where both agree on 32 bits.

use crate::decode::{Insn, InsnClass, Special};

/// No instruction is longer.
pub const MAX_LEN: usize = 15;

/// What follows an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Imm {
    /// Not an opcode of 64-bit mode.
    Undefined,
    /// Nothing.
    None,
    /// 8 bits.
    Byte,
    /// 16 bits (`ret n`).
    Word,
    /// 16 and 8 bits (`enter`).
    WordByte,
    /// 16 bits under the operand-size prefix, else 32.
    Z,
    /// As `Z`, or 64 under REX.W (`mov r, imm`).
    Full,
    /// An address: 64 bits, 32 under the address-size prefix.
    Offset,
}

/// ModRM follows; then the immediate.
type Shape = (bool, Imm);

/// One-byte opcodes that are neither prefixes nor escapes.
const fn shape_one(op: u8) -> Shape {
    match op {
        0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f => {
            (false, Imm::Undefined)
        }
        0x00..=0x3f => match op & 7 {
            0..=3 => (true, Imm::None),
            4 => (false, Imm::Byte),
            _ => (false, Imm::Z),
        },
        0x60..=0x62 | 0x82 | 0x9a | 0xce | 0xd4..=0xd6 | 0xea => (false, Imm::Undefined),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => {
            (true, Imm::None)
        }
        0x68 | 0xa9 | 0xe8 | 0xe9 => (false, Imm::Z),
        0x69 | 0x81 | 0xc7 => (true, Imm::Z),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => (false, Imm::Byte),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => (true, Imm::Byte),
        0xa0..=0xa3 => (false, Imm::Offset),
        0xb8..=0xbf => (false, Imm::Full),
        0xc2 | 0xca => (false, Imm::Word),
        0xc8 => (false, Imm::WordByte),
        _ => (false, Imm::None),
    }
}

/// Opcodes after `0f`.
const fn shape_0f(op: u8) -> Shape {
    match op {
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b => {
            (false, Imm::Undefined)
        }
        0xa6 | 0xa7 => (false, Imm::Undefined),
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa => {
            (false, Imm::None)
        }
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => (true, Imm::Byte),
        0x80..=0x8f => (false, Imm::Z),
        0xc8..=0xcf => (false, Imm::None),
        _ => (true, Imm::None),
    }
}

/// VEX and EVEX opcodes of the `0f` map.
const fn shape_vex(op: u8) -> Shape {
    match op {
        0x77 => (false, Imm::None),
        0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => (true, Imm::Byte),
        _ => (true, Imm::None),
    }
}

/// Opcode maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    /// One byte.
    One,
    /// `0f xx`.
    Two,
    /// `0f 38 xx`.
    ThreeA,
    /// `0f 3a xx`, all with an 8-bit immediate.
    ThreeB,
}

/// The parts of an instruction that decide its length and class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// Last of `f2`, `f3`; 0 if neither.
    pub rep: u8,
    /// Operand-size prefix.
    pub opsize: bool,
    /// Address-size prefix.
    pub addrsize: bool,
    /// REX prefix right before the opcode; 0 if none.
    pub rex: u8,
    /// VEX or EVEX encoded.
    pub vex: bool,
    /// Opcode map.
    pub map: Map,
    /// Opcode byte in that map.
    pub opcode: u8,
    /// ModRM byte; 0 if the opcode has none.
    pub modrm: u8,
    /// Offset of the ModRM byte; 0 if the opcode has none.
    pub modrm_at: usize,
    /// `64` or `65`, the segment overrides that count in 64-bit mode; else 0.
    pub seg: u8,
    /// Bytes of the immediate, which ends the instruction.
    pub imm: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Parts {
    /// The `reg` field of ModRM, which selects among a group's instructions.
    pub(crate) const fn reg(&self) -> u8 {
        self.modrm >> 3 & 7
    }

    /// REX.W.
    pub(crate) const fn wide(&self) -> bool {
        self.rex & 8 != 0
    }
}

/// Reads prefixes, opcode, ModRM, displacement and immediate. `None` if the
/// bytes are cut short, too long or undefined.
pub(crate) fn parse(code: &[u8]) -> Option<Parts> {
    let code = code.get(..MAX_LEN).unwrap_or(code);
    let mut p = Parts {
        rep: 0,
        opsize: false,
        addrsize: false,
        rex: 0,
        vex: false,
        map: Map::One,
        opcode: 0,
        modrm: 0,
        modrm_at: 0,
        seg: 0,
        imm: 0,
        len: 0,
    };
    let mut at = prefixes(code, &mut p)?;
    at = opcode(code, at, &mut p)?;
    let (modrm, mut imm) = match p.map {
        Map::One => shape_one(p.opcode),
        Map::Two if p.vex => shape_vex(p.opcode),
        Map::Two => shape_0f(p.opcode),
        Map::ThreeA => (true, Imm::None),
        Map::ThreeB => (true, Imm::Byte),
    };
    if modrm {
        p.modrm = *code.get(at)?;
        p.modrm_at = at;
        // Pop to memory; any other `reg` makes it an XOP prefix.
        if p.map == Map::One && p.opcode == 0x8f && p.reg() != 0 {
            return None;
        }
        at += 1 + displacement(code, at, &p)?;
        // Group 3: only `test` has an immediate.
        if p.map == Map::One && matches!(p.opcode, 0xf6 | 0xf7) && p.reg() < 2 {
            imm = if p.opcode == 0xf6 { Imm::Byte } else { Imm::Z };
        }
    }
    p.imm = immediate(imm, &p)?;
    at += p.imm;
    p.len = at;
    (at <= code.len()).then_some(p)
}

/// Reads legacy prefixes and REX; returns the offset of what follows.
fn prefixes(code: &[u8], p: &mut Parts) -> Option<usize> {
    let mut at = 0;
    loop {
        let byte = *code.get(at)?;
        match byte {
            0x40..=0x4f => p.rex = byte,
            0x66 | 0x67 | 0xf2 | 0xf3 | 0xf0 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => {
                p.opsize |= byte == 0x66;
                p.addrsize |= byte == 0x67;
                if byte & 0xfe == 0xf2 {
                    p.rep = byte;
                }
                if byte & 0xfe == 0x64 {
                    p.seg = byte;
                }
                // A REX that does not touch the opcode has no effect.
                p.rex = 0;
            }
            _ => return Some(at),
        }
        at += 1;
    }
}

/// Reads the opcode with its escapes; returns the offset after it.
fn opcode(code: &[u8], at: usize, p: &mut Parts) -> Option<usize> {
    let byte = |i: usize| code.get(at + i).copied();
    match byte(0)? {
        0x0f => match byte(1)? {
            0x38 => (p.map, p.opcode, p.len) = (Map::ThreeA, byte(2)?, 3),
            0x3a => (p.map, p.opcode, p.len) = (Map::ThreeB, byte(2)?, 3),
            op => (p.map, p.opcode, p.len) = (Map::Two, op, 2),
        },
        0xc5 => (p.map, p.opcode, p.len) = (Map::Two, byte(2)?, 3),
        0xc4 => (p.map, p.opcode, p.len) = (vex_map(byte(1)? & 0x1f)?, byte(3)?, 4),
        0x62 => (p.map, p.opcode, p.len) = (vex_map(byte(1)? & 0x0f)?, byte(4)?, 5),
        op => (p.map, p.opcode, p.len) = (Map::One, op, 1),
    }
    p.vex = matches!(byte(0)?, 0xc4 | 0xc5 | 0x62);
    Some(at + p.len)
}

/// The map that a VEX or EVEX prefix selects.
const fn vex_map(field: u8) -> Option<Map> {
    match field {
        1 => Some(Map::Two),
        2 => Some(Map::ThreeA),
        3 => Some(Map::ThreeB),
        _ => None,
    }
}

/// Bytes of SIB and displacement after the ModRM byte at `at`.
fn displacement(code: &[u8], at: usize, p: &Parts) -> Option<usize> {
    let moves_control = p.map == Map::Two && matches!(p.opcode, 0x20..=0x23) && !p.vex;
    if p.modrm >= 0xc0 || moves_control {
        return Some(0);
    }
    let rm = p.modrm & 7;
    let sib = usize::from(rm == 4);
    let base = if rm == 4 { *code.get(at + 1)? & 7 } else { rm };
    let disp = match (p.modrm >> 6, base) {
        (0, 5) | (2, _) => 4,
        (1, _) => 1,
        _ => 0,
    };
    Some(sib + disp)
}

/// Bytes of the immediate; `None` if the opcode is undefined.
const fn immediate(imm: Imm, p: &Parts) -> Option<usize> {
    let wide = p.wide();
    Some(match imm {
        Imm::Undefined => return None,
        Imm::None => 0,
        Imm::Byte => 1,
        Imm::Word => 2,
        Imm::WordByte => 3,
        Imm::Full if wide => 8,
        Imm::Z | Imm::Full if p.opsize && !wide => 2,
        Imm::Z | Imm::Full => 4,
        Imm::Offset if p.addrsize => 4,
        Imm::Offset => 8,
    })
}

/// Decodes the first instruction of `code`; see [`crate::decode::Decoder::insn`].
pub fn insn(code: &[u8]) -> Option<Insn> {
    if code.is_empty() {
        return None;
    }
    Some(match parse(code) {
        // `len` is at most 15.
        Some(p) => Insn {
            len: p.len as u8,
            class: class(&p),
            special: special(&p),
            sets_sp: sets_sp(&p, code),
            known: true,
        },
        None => Insn {
            len: u8::try_from(code.len()).unwrap_or(u8::MAX),
            class: InsnClass::Other,
            special: None,
            sets_sp: false,
            known: false,
        },
    })
}

/// Class of an instruction. Far transfers are [`InsnClass::Trap`]: user-level
/// Linux programs use them for nothing else.
fn class(p: &Parts) -> InsnClass {
    use InsnClass::{Branch, Call, Other, Rep, Return, Syscall, Trap};
    let direct = |conditional| Branch { conditional, indirect: false };
    match (p.map, p.opcode) {
        _ if p.vex => Other,
        (Map::One, op) => match op {
            0x70..=0x7f | 0xe0..=0xe3 => direct(true),
            0xe9 | 0xeb => direct(false),
            0xe8 => Call { indirect: false },
            0xc2 | 0xc3 => Return,
            0xca | 0xcb | 0xcc | 0xcd | 0xcf | 0xf1 | 0xf4 => Trap,
            0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf if p.rep != 0 => Rep,
            0xff => match p.reg() {
                2 => Call { indirect: true },
                4 => Branch { conditional: false, indirect: true },
                3 | 5 => Trap,
                _ => Other,
            },
            _ => Other,
        },
        (Map::Two, 0x80..=0x8f) => direct(true),
        (Map::Two, 0x05) => Syscall,
        (Map::Two, 0x07 | 0x0b | 0x34 | 0x35 | 0xb9 | 0xff) => Trap,
        _ => Other,
    }
}

/// See [`crate::decode::branch_target`].
pub fn branch_target(code: &[u8], pc: u64) -> Option<u64> {
    use InsnClass::{Branch, Call};
    let p = parse(code)?;
    if !matches!(class(&p), Branch { indirect: false, .. } | Call { indirect: false }) {
        return None;
    }
    let distance = match *code.get(p.len - p.imm..p.len)? {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => return None,
    };
    let target = pc.wrapping_add(p.len as u64).wrapping_add(distance as u64);
    // A 16-bit distance cuts the address.
    Some(if p.imm == 2 { target & 0xffff } else { target })
}

/// `rsp` gets a value that depends on another register or on memory, or another one than a
/// distance from its own.
fn sets_sp(p: &Parts, code: &[u8]) -> bool {
    const RSP: u8 = 4;
    if p.vex {
        return false;
    }
    // Operands of ModRM; REX.R and REX.B make other registers of them.
    let reg = p.reg() == RSP && p.rex & 4 == 0;
    let direct = p.modrm_at != 0 && p.modrm >> 6 == 3 && p.modrm & 7 == RSP && p.rex & 1 == 0;
    let in_opcode = p.modrm_at == 0 && p.rex & 1 == 0;
    match p.map {
        Map::One => match p.opcode {
            // lea, unless it is a distance from rsp: an index of 4 is none.
            0x8d => {
                let sib = code.get(p.modrm_at + 1).copied().unwrap_or(0);
                let has_index = sib >> 3 & 7 != 4 || p.rex & 2 != 0;
                let from_rsp = p.modrm & 7 == RSP && sib & 7 == RSP && p.rex & 1 == 0;
                reg && (!from_rsp || has_index)
            }
            // add, or, adc, sbb, and, sub, xor of a register or memory, but not cmp.
            0x00..=0x37 if p.opcode & 7 == 1 => direct,
            0x00..=0x37 if p.opcode & 7 == 3 => reg,
            // The same of a constant: add, and, sub give a distance.
            0x81 | 0x83 => direct && matches!(p.reg(), 1..=3 | 6),
            // mov, with the target in `rm` or in `reg`; movsxd, imul; xchg.
            0x89 | 0xc7 | 0x8f => direct,
            0x8b | 0x63 | 0x69 | 0x6b => reg,
            0x87 => reg || direct,
            // Shifts; not, neg.
            0xc1 | 0xd1 | 0xd3 => direct,
            0xf7 => direct && matches!(p.reg(), 2 | 3),
            // pop rsp; xchg rax, rsp; mov rsp, imm; leave.
            0x5c | 0x94 | 0xbc => in_opcode,
            0xc9 => true,
            _ => false,
        },
        Map::Two => match p.opcode {
            // cmov, imul, movzx, movsx, popcnt, bsf, bsr.
            0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => reg,
            // cmpxchg; shld, shrd; bts, btr, btc; xadd.
            0xb1 | 0xa4 | 0xa5 | 0xac | 0xad | 0xab | 0xb3 | 0xbb => direct,
            0xba => direct && p.reg() > 4,
            0xc1 => reg || direct,
            // movq from a vector register; bswap.
            0x7e => direct && p.opsize,
            0xcc => in_opcode,
            _ => false,
        },
        Map::ThreeA | Map::ThreeB => false,
    }
}

/// Instructions that must not execute at user level.
fn special(p: &Parts) -> Option<Special> {
    match (p.map, p.opcode) {
        _ if p.vex => Some(Special::Vex),
        (Map::One, 0x6c..=0x6f | 0xe4..=0xe7 | 0xec..=0xef) => Some(Special::PortIo),
        (Map::One, 0xca | 0xcb) => Some(Special::FarBranch),
        (Map::One, 0xcf) => Some(Special::InterruptReturn),
        (Map::One, 0xff) if matches!(p.reg(), 3 | 5) => Some(Special::FarBranch),
        (Map::Two, 0x34) => Some(Special::Sysenter),
        (Map::Two, 0x35) => Some(Special::Sysexit),
        _ => None,
    }
}
