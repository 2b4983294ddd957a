//! A made-up x86_64 program of any size, and stacks of it.

use arch::{Arch, Regs};
use unwinder::dwarf::Section;
use unwinder::elf::{Image, Slice};
use unwinder::memory::Copied;
use unwinder::module::Sections;
use unwinder::{InstructionPointer, Registers};

use super::Program;
use super::recorded::Stack;

const TEXT: u64 = 0x1000_0000;
/// Bytes of a function.
const SIZE: u64 = 64;
const HEADER: u64 = 0x6000_0000;
const FRAME: u64 = 0x5000_0000;
const TOP: u64 = 0x7fff_ffff_0000;

/// Where functions call: in the middle.
const CALL: u64 = 30;

/// A program of so many functions: `push rbp; mov rbp, rsp; push rbx; sub rsp, n; …; ret`.
pub fn program(functions: u64) -> Program {
    let (frame, header) = eh_frame(functions);
    let section = |address, bytes: Vec<u8>| {
        let len = bytes.len();
        Some(Section { address, bytes: Slice::new(bytes.into(), 0..len) })
    };
    let sections = Sections {
        eh_frame: section(FRAME, frame),
        eh_frame_hdr: section(HEADER, header),
        ..Sections::default()
    };
    let text = std::iter::once(TEXT..TEXT + functions * SIZE).collect();
    Image { arch: Arch::X86_64, text, sections }
}

/// What the CFA is above the frame record.
const RECORD: u64 = 16;

/// What the stack pointer is below the CFA in function `n`, when it calls.
fn frame_size(n: u64) -> u64 {
    RECORD + 8 + 8 + 16 * (n % 7)
}

fn eh_frame(functions: u64) -> (Vec<u8>, Vec<u8>) {
    // Version 1, augmentation "zR", alignments 1 and -8, return address in 16; pointers are
    // relative to themselves and have four bytes; CFA = rsp + 8, return address there.
    let mut frame = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
    frame.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
    // A table of pairs, relative to the header.
    let mut header = vec![1, 0x1b, 3, 0x3b];
    header.extend((FRAME.wrapping_sub(HEADER + 4) as u32).to_le_bytes());
    header.extend((functions as u32).to_le_bytes());
    for n in 0..functions {
        let start = TEXT + n * SIZE;
        let at = FRAME + frame.len() as u64;
        header.extend((start.wrapping_sub(HEADER) as u32).to_le_bytes());
        header.extend((at.wrapping_sub(HEADER) as u32).to_le_bytes());
        // As compilers write it: push rbp; mov; push rbx; … leave.
        let code = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x41, 0x83, 3, 0x75, 0x0c, 7, 8];
        frame.extend((code.len() as u32 + 13).to_le_bytes());
        frame.extend(((at + 4 - FRAME) as u32).to_le_bytes());
        frame.extend((start.wrapping_sub(at + 8) as u32).to_le_bytes());
        frame.extend((SIZE as u32).to_le_bytes());
        frame.push(0);
        frame.extend(code);
    }
    frame.extend([0; 4]);
    (frame, header)
}

/// Numbers that look random (Marsaglia's xorshift).
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Stacks of `depth` frames of random functions. The outermost returns to 0.
pub fn stacks(functions: u64, depth: usize, count: usize, random: &mut Random) -> Vec<Stack> {
    (0..count).map(|_| stack(functions, depth, random)).collect()
}

fn stack(functions: u64, depth: usize, random: &mut Random) -> Stack {
    // From the outermost frame on.
    let chain: Vec<u64> = (0..depth).map(|_| random.below(functions)).collect();
    let sp = TOP - chain.iter().copied().map(frame_size).sum::<u64>();
    let mut bytes = vec![0; (TOP - sp) as usize];
    let (mut cfa, mut fp, mut caller) = (TOP, 0u64, 0u64);
    for n in chain {
        let record = cfa - RECORD;
        let at = (record - sp) as usize;
        bytes[at..at + 8].copy_from_slice(&fp.to_le_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&caller.to_le_bytes());
        (fp, caller) = (record, TEXT + n * SIZE + CALL);
        cfa -= frame_size(n);
    }
    let mut regs = Regs::new(Arch::X86_64);
    regs.set_sp(sp);
    regs.gp[Arch::X86_64.fp()] = fp;
    Stack {
        registers: Registers::of_thread(&regs),
        address: InstructionPointer(caller).into(),
        memory: Copied { address: sp, bytes },
    }
}
