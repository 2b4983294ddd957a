//! A run that stops at every instruction, and a check of that run itself.
//!
//! ```text
//! pcs[k] = PC when k user instructions have retired
//! ```
//!
//! The run samples every instruction. That none was left out, repeated or misplaced is
//! checked against the code: each PC must be a successor of the one before it. A fault
//! that a handler takes is the one exception, and there are no more of these than
//! handlers were called.

use std::collections::HashMap;

use arch::Arch;
use arch::decode::{Decoder, InsnClass};
use emu::kernel::Kernel;
use emu::perf::record::{Record, Sample};

use crate::harness::{Harness, Outcome};

/// Every PC of a run.
#[derive(Clone, Debug)]
pub struct Trace {
    /// See the module's picture. The first entry, that of the program's start, is 0.
    pub pcs: Vec<u64>,
    /// Numbers of retired instructions after which one more branch had retired.
    pub branches: Vec<usize>,
    /// Places that no successor explains: a signal's handler began.
    pub jumps: Vec<usize>,
    /// Instructions that are branches by the test's own reading of the code.
    pub branch_instructions: u64,
    /// Counts and ending of the run.
    pub outcome: Outcome,
}

/// Runs `harness` instruction by instruction.
///
/// # Panics
///
/// If the run skips, repeats or invents an instruction.
pub fn trace(harness: &Harness) -> Trace {
    let harness = harness.clone().without_callchains().without_laws();
    let harness = harness.events("instructions:u,branches:u", 1);
    let (mut pcs, mut branches, mut jumps) = (vec![0], Vec::new(), Vec::new());
    let mut branch_instructions = 0;
    let mut code = Code::default();
    let mut at: Option<Step> = None;
    let outcome = harness.run_with(|kernel, record| match record {
        Record::Sample(s) if s.event == 0 => {
            if let Some(before) = at {
                branch_instructions += u64::from(before.is_branch());
                if !before.leads_to(s.ip) {
                    jumps.push(pcs.len());
                }
            }
            pcs.push(s.ip);
            at = Some(code.step(kernel, s));
        }
        Record::Sample(_) => branches.push(pcs.len() - 1),
        Record::Mmap2 { addr, len, path, .. } if path.starts_with('/') => {
            code.fixed.push((*addr, addr + len));
        }
        _ => {}
    });
    let signals = outcome.stats.signals;
    assert!(
        jumps.len() as u64 <= signals,
        "{} PCs follow from nothing, but {signals} handlers were called: {:x?}",
        jumps.len(),
        jumps.iter().take(10).map(|&k| (k, pcs[k - 1], pcs[k])).collect::<Vec<_>>(),
    );
    Trace { pcs, branches, jumps, branch_instructions, outcome }
}

/// Where one instruction can lead.
#[derive(Clone, Copy, Debug)]
struct Step {
    next: u64,
    flow: Flow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// The next instruction.
    On,
    /// A direct jump or call.
    To(u64),
    /// A direct jump or the next instruction.
    Perhaps(u64),
    /// An indirect jump or call, or a return.
    Computed,
    /// A system call, a trap or an instruction that the kernel emulates: wherever it says.
    Kernel,
}

impl Step {
    fn leads_to(self, pc: u64) -> bool {
        match self.flow {
            Flow::On => pc == self.next,
            Flow::To(target) => pc == target,
            Flow::Perhaps(target) => pc == target || pc == self.next,
            Flow::Computed | Flow::Kernel => true,
        }
    }

    fn is_branch(self) -> bool {
        matches!(self.flow, Flow::To(_) | Flow::Perhaps(_) | Flow::Computed)
    }
}

/// The guest's code, read when it is about to run.
#[derive(Debug, Default)]
struct Code {
    known: HashMap<u64, Step>,
    /// Mappings of files, whose code does not change.
    fixed: Vec<(u64, u64)>,
    decoder: Option<Decoder>,
}

impl Code {
    fn step(&mut self, kernel: &Kernel, s: &Sample) -> Step {
        let pc = s.ip;
        if let Some(step) = self.known.get(&pc) {
            return *step;
        }
        let (arch, bytes) = kernel.with(|state| {
            let mut bytes = vec![0; 16];
            if !state.mm.peek(&state.arena, pc, &mut bytes) {
                let in_page = (4096 - pc % 4096) as usize;
                bytes.truncate(in_page.min(16));
                if !state.mm.peek(&state.arena, pc, &mut bytes) {
                    bytes.clear();
                }
            }
            (state.arch, bytes)
        });
        if bytes.is_empty() {
            // The page is not there yet: its fetch will fault.
            return Step { next: pc, flow: Flow::Kernel };
        }
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(arch));
        let step = decode(decoder, &bytes, pc);
        if self.fixed.iter().any(|&(from, to)| (from..to).contains(&pc)) {
            self.known.insert(pc, step);
        }
        step
    }
}

fn decode(decoder: &Decoder, bytes: &[u8], pc: u64) -> Step {
    let Some(insn) = decoder.insn(bytes) else { return Step { next: pc, flow: Flow::Kernel } };
    let bytes = &bytes[..usize::from(insn.len)];
    let next = pc + u64::from(insn.len);
    let flow = match insn.class {
        InsnClass::Syscall | InsnClass::Trap => Flow::Kernel,
        _ => match decoder.arch() {
            Arch::X86_64 => x86_64_flow(bytes, next),
            Arch::Aarch64 => aarch64_flow(bytes, pc),
        },
    };
    Step { next, flow }
}

/// From the opcode maps of the manual, apart from what the emulator's decoder says.
fn x86_64_flow(bytes: &[u8], next: u64) -> Flow {
    let prefix = |b: &u8| matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let start = bytes.iter().take_while(|b| prefix(b)).count();
    let opcode = &bytes[start..];
    let opcode = if matches!(opcode.first(), Some(0x40..=0x4f)) { &opcode[1..] } else { opcode };
    let rel8 = || next.wrapping_add(bytes[bytes.len() - 1] as i8 as u64);
    let rel32 = || {
        let tail: [u8; 4] = bytes[bytes.len() - 4..].try_into().unwrap();
        next.wrapping_add(i32::from_le_bytes(tail) as u64)
    };
    match opcode {
        [0x70..=0x7f | 0xe0..=0xe3, ..] => Flow::Perhaps(rel8()),
        [0x0f, 0x80..=0x8f, ..] => Flow::Perhaps(rel32()),
        [0xeb, ..] => Flow::To(rel8()),
        [0xe8 | 0xe9, ..] => Flow::To(rel32()),
        [0xc2 | 0xc3, ..] => Flow::Computed,
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 4) => Flow::Computed,
        _ => Flow::On,
    }
}

/// From "Branches, Exception Generating and System instructions" of the Arm manual.
fn aarch64_flow(bytes: &[u8], pc: u64) -> Flow {
    let word = u32::from_le_bytes(bytes.try_into().unwrap());
    let target = |low: u32, bits: u32| {
        let field = word >> low << (32 - bits);
        pc.wrapping_add(((field as i32) >> (32 - bits) << 2) as i64 as u64)
    };
    // `mrs` of an identification register traps and the kernel emulates it: it does not
    // retire.
    if word & 0xffff_f000 == 0xd538_0000 {
        return Flow::Kernel;
    }
    match word >> 24 {
        0x14..=0x17 | 0x94..=0x97 => Flow::To(target(0, 26)),
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => Flow::Perhaps(target(5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => Flow::Perhaps(target(5, 14)),
        0xd6 | 0xd7 => Flow::Computed,
        _ => Flow::On,
    }
}
