//! Memory operands of x86 instructions in 64-bit mode: addresses from ModRM
//! (Intel SDM volume 2, section 2.1.5), sizes and directions from the opcode
//! tables of SDM volume 2 up to SSE4.2, AES, PCLMUL, SHA, MOVBE and ADX.

use super::decode::{Map, Parts, parse};
use super::regs::{RAX, RBP, RBX, RCX, RDI, RSI, RSP};
use crate::Regs;
use crate::decode::Access;

/// Register numbers of the instruction encoding, as DWARF numbers.
const ENCODED: [usize; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// See [`crate::decode::Decoder::memory_operand`].
pub(crate) fn accesses(code: &[u8], regs: &Regs) -> Vec<Access> {
    let Some(p) = parse(code).filter(|p| !p.vex) else { return Vec::new() };
    let insn = Operands { p, code, regs };
    let mut list = Vec::new();
    if p.map == Map::One && matches!(p.opcode, 0xa4..=0xa7 | 0xaa..=0xaf) {
        insn.string(&mut list);
        return list;
    }
    if let Some(access) = insn.explicit() {
        list.push(access);
    }
    insn.implicit(&mut list);
    list
}

/// Whether `access`, one of those of the first instruction of `code`, goes through the
/// stack segment: by `push`, `pop`, `call`, `ret` and their like, or with RSP or RBP as
/// the base. A non-canonical address is then #SS, not #GP.
pub fn is_stack(code: &[u8], regs: &Regs, access: &Access) -> bool {
    let Some(p) = parse(code).filter(|p| !p.vex) else { return false };
    let insn = Operands { p, code, regs };
    if insn.explicit().as_ref() == Some(access) {
        return insn.p.seg == 0 && insn.base_is_stack();
    }
    let p = &insn.p;
    // Strings, `xlat` and `maskmovq` go through DS or ES.
    !matches!(
        (p.map, p.opcode),
        (Map::One, 0xa0..=0xa7 | 0xaa..=0xaf | 0xd7) | (Map::Two, 0xf7)
    )
}

/// Size in bytes and whether it is a store.
type Shape = Option<(u32, bool)>;

const fn load(size: u32) -> Shape {
    Some((size, false))
}

const fn store(size: u32) -> Shape {
    Some((size, true))
}

/// One decoded instruction with the registers it starts from.
struct Operands<'a> {
    p: Parts,
    code: &'a [u8],
    regs: &'a Regs,
}

impl Operands<'_> {
    /// The operand that ModRM or an absolute offset names.
    fn explicit(&self) -> Option<Access> {
        let p = &self.p;
        if p.map == Map::One && matches!(p.opcode, 0xa0..=0xa3) {
            let size = if p.opcode & 1 == 0 { 1 } else { self.operand_size() };
            let offset = self.signed(p.len - p.imm, p.imm) as u64;
            let addr = self.segmented(self.truncated(offset));
            return Some(Access { addr, size, write: p.opcode >= 0xa2 });
        }
        if p.modrm_at == 0 || p.modrm >= 0xc0 {
            return None;
        }
        let (size, write) = match p.map {
            Map::One => self.shape_one(),
            Map::Two => self.shape_two(),
            Map::ThreeA => self.shape_three_a(),
            Map::ThreeB => self.shape_three_b(),
        }?;
        let mut offset = self.effective();
        if p.map == Map::Two && matches!(p.opcode, 0xa3 | 0xab | 0xb3 | 0xbb) {
            offset = offset.wrapping_add(self.bit_string_offset());
        }
        Some(Access { addr: self.segmented(self.truncated(offset)), size, write })
    }

    /// Stack and register-indirect operands that the opcode implies.
    fn implicit(&self, list: &mut Vec<Access>) {
        let p = &self.p;
        let size = if p.opsize && !p.wide() { 2 } else { 8 };
        let sp = self.regs.gp[RSP];
        let push = |size: u32| Access::write(sp.wrapping_sub(u64::from(size)), size);
        match (p.map, p.opcode, p.reg()) {
            (Map::One, 0xe8, _) | (Map::One, 0xff, 2) => list.push(push(8)),
            (Map::One, 0xc2 | 0xc3, _) => list.push(Access::read(sp, 8)),
            (Map::One, 0x50..=0x57 | 0x68 | 0x6a | 0x9c, _)
            | (Map::One, 0xff, 6)
            | (Map::Two, 0xa0 | 0xa8, _) => list.push(push(size)),
            (Map::One, 0x58..=0x5f | 0x9d, _) | (Map::Two, 0xa1 | 0xa9, _) => {
                list.push(Access::read(sp, size));
            }
            (Map::One, 0x8f, 0) => list.insert(0, Access::read(sp, size)),
            (Map::One, 0xc9, _) => list.push(Access::read(self.regs.gp[RBP], size)),
            (Map::One, 0xc8, _) => self.enter(size, list),
            (Map::One, 0xd7, _) => {
                let index = self.regs.gp[RAX] & 0xff;
                let addr = self.truncated(self.regs.gp[RBX].wrapping_add(index));
                list.push(Access::read(self.segmented(addr), 1));
            }
            (Map::Two, 0xf7, _) if p.rep == 0 => {
                let addr = self.segmented(self.truncated(self.regs.gp[RDI]));
                list.push(Access::write(addr, if p.opsize { 16 } else { 8 }));
            }
            _ => {}
        }
    }

    /// `enter`: pushes the frame pointer, copies `level - 1` outer ones and
    /// pushes the new one.
    fn enter(&self, size: u32, list: &mut Vec<Access>) {
        let (bp, sp) = (self.regs.gp[RBP], self.regs.gp[RSP]);
        let step = u64::from(size);
        let level = self.code.get(self.p.len - 1).map_or(0, |b| u64::from(b & 31));
        list.push(Access::write(sp.wrapping_sub(step), size));
        for i in 1..=level {
            if i < level {
                list.push(Access::read(bp.wrapping_sub(i * step), size));
            }
            list.push(Access::write(sp.wrapping_sub((i + 1) * step), size));
        }
    }

    /// String instructions: the access of the next iteration. The direction
    /// flag moves the iteration after this one.
    fn string(&self, list: &mut Vec<Access>) {
        let p = &self.p;
        let count = self.truncated(self.regs.gp[RCX]);
        if p.rep != 0 && count == 0 {
            return;
        }
        let size = if p.opcode & 1 == 0 { 1 } else { self.operand_size() };
        let source = self.segmented(self.truncated(self.regs.gp[RSI]));
        // The destination is in ES, which no prefix overrides.
        let destination = self.truncated(self.regs.gp[RDI]);
        match p.opcode {
            0xa4 | 0xa5 => {
                list.extend([Access::read(source, size), Access::write(destination, size)]);
            }
            0xa6 | 0xa7 => {
                list.extend([Access::read(source, size), Access::read(destination, size)]);
            }
            0xaa | 0xab => list.push(Access::write(destination, size)),
            0xac | 0xad => list.push(Access::read(source, size)),
            0xae | 0xaf => list.push(Access::read(destination, size)),
            _ => {}
        }
    }

    /// 2, 4 or 8 bytes by prefixes.
    const fn operand_size(&self) -> u32 {
        match (self.p.wide(), self.p.opsize) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    /// 4 or 8 bytes, for operands that the operand-size prefix does not touch.
    const fn dword_size(&self) -> u32 {
        if self.p.wide() { 8 } else { 4 }
    }

    /// Base + index × scale + displacement, before segment and truncation.
    fn effective(&self) -> u64 {
        let p = &self.p;
        let gp = |field: u8, rex_bit: u8| {
            let high = if p.rex & rex_bit != 0 { 8 } else { 0 };
            self.register(usize::from(field & 7 | high))
        };
        let mut at = p.modrm_at + 1;
        let mut base_field = p.modrm & 7;
        let mut offset = 0u64;
        let has_sib = base_field == 4;
        if has_sib {
            let sib = self.code.get(at).copied().unwrap_or(0);
            at += 1;
            // Index 4 without REX.X means no index.
            if sib >> 3 & 7 != 4 || p.rex & 2 != 0 {
                offset = gp(sib >> 3, 2) << (sib >> 6);
            }
            base_field = sib & 7;
        }
        let (disp_size, base) = match (p.modrm >> 6, base_field) {
            (0, 5) if has_sib => (4, 0),
            (0, 5) => (4, self.regs.pc.wrapping_add(p.len as u64)),
            (0, _) => (0, gp(base_field, 1)),
            (1, _) => (1, gp(base_field, 1)),
            _ => (4, gp(base_field, 1)),
        };
        offset.wrapping_add(base).wrapping_add(self.signed(at, disp_size) as u64)
    }

    /// Whether ModRM names RSP or RBP as the base register.
    fn base_is_stack(&self) -> bool {
        let p = &self.p;
        let field = match p.modrm & 7 {
            4 => self.code.get(p.modrm_at + 1).copied().unwrap_or(0) & 7,
            field => field,
        };
        let no_base = p.modrm >> 6 == 0 && field == 5;
        p.modrm_at != 0 && !no_base && p.rex & 1 == 0 && matches!(field, 4 | 5)
    }

    /// A register's value as addressing sees it: `pop` to memory computes the
    /// address after it has raised the stack pointer.
    fn register(&self, encoded: usize) -> u64 {
        let value = self.regs.gp[ENCODED[encoded & 15]];
        let pops = self.p.map == Map::One && self.p.opcode == 0x8f;
        match encoded {
            4 if pops => value.wrapping_add(if self.p.opsize && !self.p.wide() { 2 } else { 8 }),
            _ => value,
        }
    }

    /// A sign-extended little-endian number in the code.
    fn signed(&self, at: usize, size: usize) -> i64 {
        let bytes = self.code.get(at..at + size).unwrap_or(&[]);
        let unsigned = bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let unused = 64 - 8 * bytes.len() as u32;
        match bytes.len() {
            0 => 0,
            _ => (unsigned << unused) as i64 >> unused,
        }
    }

    /// Applies the address-size prefix.
    const fn truncated(&self, offset: u64) -> u64 {
        if self.p.addrsize { offset & 0xffff_ffff } else { offset }
    }

    /// Adds the segment base: only FS and GS have one in 64-bit mode.
    const fn segmented(&self, offset: u64) -> u64 {
        offset.wrapping_add(match self.p.seg {
            0x64 => self.regs.tls,
            0x65 => self.regs.gs_base,
            _ => 0,
        })
    }

    /// `bt r/m, r` addresses a bit string: the bit number in the register
    /// selects the word.
    fn bit_string_offset(&self) -> u64 {
        let high = if self.p.rex & 4 != 0 { 8 } else { 0 };
        let bit = self.regs.gp[ENCODED[usize::from(self.p.reg() | high) & 15]];
        let word = match self.operand_size() {
            8 => (bit as i64 >> 6) * 8,
            4 => i64::from(bit as i32 >> 5) * 4,
            _ => i64::from(bit as i16 >> 4) * 2,
        };
        word as u64
    }

    /// Shape of the ModRM operand of a one-byte opcode.
    const fn shape_one(&self) -> Shape {
        let op = self.p.opcode;
        let reg = self.p.reg();
        let size = if op & 1 == 0 { 1 } else { self.operand_size() };
        match op {
            0x38 | 0x39 => load(size),
            0x00..=0x3f if op & 7 < 2 => store(size),
            0x00..=0x3f => load(size),
            0x63 => load(4),
            0x69 | 0x6b => load(self.operand_size()),
            0x80..=0x83 => Some((size, reg != 7)),
            0x84 | 0x85 | 0x8a | 0x8b => load(size),
            0x86..=0x89 | 0xc0 | 0xc1 | 0xc6 | 0xc7 | 0xd0..=0xd3 => store(size),
            0x8c => store(2),
            0x8e => load(2),
            0x8f if self.p.opsize && !self.p.wide() => store(2),
            0x8f => store(8),
            0xd8..=0xdf => self.shape_x87(),
            0xf6 | 0xf7 => Some((size, matches!(reg, 2 | 3))),
            0xfe => store(1),
            0xff => match reg {
                0 | 1 => store(size),
                2 | 4 => load(8),
                6 if self.p.opsize && !self.p.wide() => load(2),
                6 => load(8),
                _ => None,
            },
            _ => None,
        }
    }

    /// x87 operands.
    const fn shape_x87(&self) -> Shape {
        let short = self.p.opsize;
        match (self.p.opcode, self.p.reg()) {
            (0xd8, _) | (0xda, _) => load(4),
            (0xdc, _) => load(8),
            (0xde, _) => load(2),
            (0xd9, 0) => load(4),
            (0xd9, 2 | 3) => store(4),
            (0xd9, 4) => load(if short { 14 } else { 28 }),
            (0xd9, 5) => load(2),
            (0xd9, 6) => store(if short { 14 } else { 28 }),
            (0xd9, 7) => store(2),
            (0xdb, 0) => load(4),
            (0xdb, 1..=3) => store(4),
            (0xdb, 5) | (0xdf, 4) => load(10),
            (0xdb, 7) | (0xdf, 6) => store(10),
            (0xdd, 0) | (0xdf, 5) => load(8),
            (0xdd, 1..=3) | (0xdf, 7) => store(8),
            (0xdd, 4) => load(if short { 94 } else { 108 }),
            (0xdd, 6) => store(if short { 94 } else { 108 }),
            (0xdd, 7) => store(2),
            (0xdf, 0) => load(2),
            (0xdf, 1..=3) => store(2),
            _ => None,
        }
    }

    /// By SSE prefix: none, `66`, `f3`, `f2`.
    const fn by_prefix<T: Copy>(&self, choices: [T; 4]) -> T {
        match (self.p.rep, self.p.opsize) {
            (0xf3, _) => choices[2],
            (0xf2, _) => choices[3],
            (_, true) => choices[1],
            _ => choices[0],
        }
    }

    /// Shape of the ModRM operand of a `0f` opcode.
    const fn shape_two(&self) -> Shape {
        let op = self.p.opcode;
        let size = self.operand_size();
        match op {
            0x00 | 0x01 | 0xae | 0xba | 0xc7 => self.shape_two_group(),
            // `prefetch`, hints and `nop`.
            0x0d | 0x18..=0x1f => None,
            0x02 | 0x03 => load(2),
            0x40..=0x4f | 0xa3 | 0xaf | 0xb8 | 0xbc | 0xbd => load(size),
            0x90..=0x9f => store(1),
            0xa4 | 0xa5 | 0xab | 0xac | 0xad | 0xb3 | 0xbb => store(size),
            0xb0 | 0xc0 => store(1),
            0xb1 | 0xc1 => store(size),
            0xb6 | 0xbe => load(1),
            0xb7 | 0xbf => load(2),
            0xb2 | 0xb4 | 0xb5 => load(size + 2),
            0xc3 => store(self.dword_size()),
            _ => self.shape_sse(),
        }
    }

    /// Groups of the `0f` map that ModRM's `reg` field tells apart.
    const fn shape_two_group(&self) -> Shape {
        let prefixed = self.p.opsize || self.p.rep != 0;
        match (self.p.opcode, self.p.reg()) {
            (0x00, 0 | 1) => store(2),
            (0x00, 2..=5) => load(2),
            (0x01, 0 | 1) => store(10),
            (0x01, 2 | 3) => load(10),
            (0x01, 4) => store(2),
            (0x01, 6) => load(2),
            (0xae, 0) if !prefixed => store(512),
            (0xae, 1) if !prefixed => load(512),
            (0xae, 2) if !prefixed => load(4),
            (0xae, 3) if !prefixed => store(4),
            // `clwb`, `clflush`, `clflushopt` check one byte of the line.
            (0xae, 6) if self.p.opsize => load(1),
            (0xae, 7) => load(1),
            (0xba, 4) => load(self.operand_size()),
            (0xba, 5..=7) => store(self.operand_size()),
            (0xc7, 1) => store(if self.p.wide() { 16 } else { 8 }),
            _ => None,
        }
    }

    /// MMX and SSE operands of the `0f` map.
    const fn shape_sse(&self) -> Shape {
        // Loads of packed or scalar floats; MMX or XMM integers.
        let float = self.by_prefix([16, 16, 4, 8]);
        let packed = if self.p.opsize || self.p.rep != 0 { 16 } else { 8 };
        match self.p.opcode {
            0x10 | 0x51..=0x53 | 0x58 | 0x59 | 0x5c..=0x5f | 0xc2 => load(float),
            0x11 => store(float),
            0x12 => load(self.by_prefix([8, 8, 16, 8])),
            0x13 | 0x17 => store(8),
            0x16 => load(self.by_prefix([8, 8, 16, 8])),
            0x14 | 0x15 | 0x28 | 0x54..=0x57 | 0x5b | 0x7c | 0x7d | 0xc6 | 0xd0 => load(16),
            0x29 | 0x2b => store(16),
            0x2a if self.p.rep != 0 => load(self.dword_size()),
            0x2a => load(8),
            0x2c | 0x2d => load(self.by_prefix([8, 16, 4, 8])),
            0x2e | 0x2f => load(self.by_prefix([4, 8, 4, 8])),
            0x5a => load(self.by_prefix([8, 16, 4, 8])),
            0x60..=0x62 if packed == 8 => load(4),
            0x6e => load(self.dword_size()),
            0x7e if self.p.rep == 0xf3 => load(8),
            0x7e => store(self.dword_size()),
            0x7f => store(packed),
            0xc4 => load(2),
            0xd6 => store(8),
            0xe6 => load(self.by_prefix([16, 16, 8, 16])),
            0xe7 => store(packed),
            0x60..=0x70 | 0x74..=0x76 => load(packed),
            0xd1..=0xd5 | 0xd8..=0xf6 | 0xf8..=0xfe => load(packed),
            _ => None,
        }
    }

    /// Operands of the `0f 38` map.
    const fn shape_three_a(&self) -> Shape {
        let packed = if self.p.opsize { 16 } else { 8 };
        match self.p.opcode {
            0x00..=0x0b | 0x1c..=0x1e => load(packed),
            0x20 | 0x23 | 0x25 | 0x30 | 0x33 | 0x35 => load(8),
            0x21 | 0x24 | 0x31 | 0x34 => load(4),
            0x22 | 0x32 => load(2),
            0xf0 if self.p.rep == 0xf2 => load(1),
            0xf0 => load(self.operand_size()),
            0xf1 if self.p.rep == 0xf2 => load(self.operand_size()),
            0xf1 => store(self.operand_size()),
            0xf6 => load(self.dword_size()),
            0x10..=0x17 | 0x28..=0x2b | 0x37..=0x41 | 0xc8..=0xcf | 0xdb..=0xdf => load(16),
            _ => None,
        }
    }

    /// Operands of the `0f 3a` map.
    const fn shape_three_b(&self) -> Shape {
        match self.p.opcode {
            0x0a => load(4),
            0x0b => load(8),
            0x0f if !self.p.opsize => load(8),
            0x14 => store(1),
            0x15 => store(2),
            0x16 => store(self.dword_size()),
            0x17 => store(4),
            0x20 => load(1),
            0x21 => load(4),
            0x22 => load(self.dword_size()),
            0x08..=0x0f | 0x40..=0x44 | 0x60..=0x63 | 0xcc..=0xdf => load(16),
            _ => None,
        }
    }
}
