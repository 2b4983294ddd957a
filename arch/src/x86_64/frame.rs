//! Frames as x86-64 compilers make them.

use crate::frame::FrameStep;
use crate::x86_64::decode::{Map, Parts, parse};

/// Number of `rsp` and `rbp` in ModRM and SIB.
const RSP: u8 = 4;
const RBP: u8 = 5;

/// See [`crate::frame::frame_step`].
pub fn frame_step(code: &[u8]) -> Option<FrameStep> {
    use FrameStep::{Landing, Setup, Teardown};
    let p = parse(code).filter(|p| !p.vex)?;
    match (p.map, p.opcode) {
        (Map::Two, 0x1e) if p.rep == 0xf3 && p.modrm == 0xfa => Some(Landing),
        (Map::One, 0x50..=0x57 | 0xc8) => Some(Setup),
        (Map::One, 0x58..=0x5f | 0xc9) => Some(Teardown),
        (Map::One, 0xff) if p.reg() == 6 => Some(Setup),
        (Map::One, 0x81 | 0x83) if p.wide() && direct(&p) == Some(RSP) => {
            let down = immediate(&p, code) < 0;
            match p.reg() {
                0 => Some(if down { Setup } else { Teardown }),
                5 => Some(if down { Teardown } else { Setup }),
                4 => Some(Setup),
                _ => None,
            }
        }
        (Map::One, 0x89) if p.wide() => copied(direct(&p)?, register(&p)?),
        (Map::One, 0x8b) if p.wide() => copied(register(&p)?, direct(&p)?),
        (Map::One, 0x8d) if p.wide() => {
            let from_rsp = base(&p, code) == Some(RSP);
            let r10 = p.rex & 4 != 0 && p.reg() == 2;
            match register(&p) {
                Some(RSP) if !from_rsp => Some(Teardown),
                Some(RBP) if from_rsp => Some(Setup),
                // Where the arguments are, before the stack is aligned.
                _ if r10 && from_rsp => Some(Setup),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `mov TO, FROM`.
const fn copied(to: u8, from: u8) -> Option<FrameStep> {
    match (to, from) {
        (RBP, RSP) => Some(FrameStep::Setup),
        (RSP, RBP) => Some(FrameStep::Teardown),
        _ => None,
    }
}

/// The register operand of ModRM `rm`, if it is one of the first eight.
const fn direct(p: &Parts) -> Option<u8> {
    if p.modrm >> 6 == 3 && p.rex & 1 == 0 { Some(p.modrm & 7) } else { None }
}

/// The operand of ModRM `reg`, if it is one of the first eight.
const fn register(p: &Parts) -> Option<u8> {
    if p.rex & 4 == 0 { Some(p.reg()) } else { None }
}

/// The base register of a memory operand with a SIB byte, if it is one of the first eight.
fn base(p: &Parts, code: &[u8]) -> Option<u8> {
    let sib = *code.get(p.modrm_at + 1)?;
    (p.modrm >> 6 != 3 && p.modrm & 7 == 4 && p.rex & 1 == 0).then_some(sib & 7)
}

/// The immediate, or displacement of a jump, that ends the instruction; 0 if it is none of
/// one, two or four bytes.
fn immediate(p: &Parts, code: &[u8]) -> i64 {
    let bytes = code.get(p.len - p.imm..p.len).unwrap_or_default(); // `parse` has seen to it
    match *bytes {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    }
}

/// See [`crate::frame::plt_entry_len`]: `endbr64`, if there is one, and `jmp [rip + n]`.
pub fn plt_entry_len(code: &[u8]) -> Option<usize> {
    let landing = if frame_step(code) == Some(FrameStep::Landing) { 4 } else { 0 };
    let jump = parse(code.get(landing..)?)?;
    let got = jump.map == Map::One && jump.opcode == 0xff && jump.modrm == 0x25;
    got.then_some(landing + jump.len)
}
