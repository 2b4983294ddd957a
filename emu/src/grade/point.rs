//! Where in its function a thread is.
//!
//! A function is the range of a symbol, else of an FDE. Its instructions, decoded from `start`
//! on, are cut into blocks: a block ends with a jump, call, return or trap. Then, with `S` the
//! first block that makes a frame ([`FrameStep::Setup`]), and for each block with `T` its first
//! instruction that takes one down ([`FrameStep::Teardown`]) and `x` its last instruction:
//!
//! ```text
//! JIT                no file is mapped at pc
//! signal trampoline  pc is in code that calls rt_sigreturn and nothing else, or behind it
//! vDSO               the file is [vdso]
//! PLT                the section is .plt*, .iplt*; without a symbol, code of that shape
//! unknown            neither symbol nor FDE, or no bytes
//! entry              pc = start, unless the function is the cold part of another one
//! syscall stub       the function makes a system call and no frame
//! prologue           start ≤ pc < end of the last Setup of S, if S is the first block
//!                    first Setup ≤ pc < end of the last Setup of S, else (shrink-wrapping)
//! epilogue           T ≤ pc ≤ x, where x leaves the function: a return, a jump to outside
//!                    start..end, or behind T a jump to where a register says; x alone if the
//!                    block has no T
//! body               all else
//! ```
//!
//! The first that applies holds. Behind a system call that ends its function, where a thread is
//! while the kernel works, the point is that of the call. That a `pop` behind a call removes an
//! argument, or a jump to a register is one of a `switch`, the shape does not say: rare, and they
//! count as frame work only in a block that leaves the function.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arch::Arch;
use arch::decode::{InsnClass, branch_target, insn};
use arch::frame::{FrameStep, frame_step, plt_entry_len};
use arch::sigframe::is_in_sigreturn_code;
use serde::{Deserialize, Serialize};
use unwinder::Module;
use unwinder::elf::Slice;

use crate::grade::file::VDSO;
use crate::symbols::Code;

/// Where in its function an instruction is; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramPoint {
    /// The first instruction of a function, before it.
    Entry,
    /// While the frame is made.
    Prologue,
    /// Everything between prologue and epilogue.
    Body,
    /// While the frame is taken down, up to the return.
    Epilogue,
    /// A procedure-linkage entry.
    Plt,
    /// The vDSO.
    Vdso,
    /// Code that a signal handler returns to.
    SignalTrampoline,
    /// A function that makes a system call and no frame.
    SyscallStub,
    /// Code that no file holds.
    Jit,
    /// Code of a file that says nothing about it.
    Unknown,
}

impl ProgramPoint {
    /// All of them, in the order of reports.
    pub const ALL: [ProgramPoint; 10] = [
        ProgramPoint::Entry,
        ProgramPoint::Prologue,
        ProgramPoint::Body,
        ProgramPoint::Epilogue,
        ProgramPoint::Plt,
        ProgramPoint::Vdso,
        ProgramPoint::SignalTrampoline,
        ProgramPoint::SyscallStub,
        ProgramPoint::Jit,
        ProgramPoint::Unknown,
    ];

    /// In words, for reports.
    pub const fn name(self) -> &'static str {
        match self {
            ProgramPoint::Entry => "entry",
            ProgramPoint::Prologue => "prologue",
            ProgramPoint::Body => "body",
            ProgramPoint::Epilogue => "epilogue",
            ProgramPoint::Plt => "PLT",
            ProgramPoint::Vdso => "vDSO",
            ProgramPoint::SignalTrampoline => "signal trampoline",
            ProgramPoint::SyscallStub => "syscall stub",
            ProgramPoint::Jit => "JIT",
            ProgramPoint::Unknown => "unknown",
        }
    }
}

/// The program points of a process, looked up once for each address.
#[derive(Debug)]
pub struct Points {
    arch: Arch,
    files: Vec<File>,
    known: HashMap<u64, ProgramPoint>,
}

/// A mapped file.
#[derive(Debug)]
struct File {
    /// In the process.
    text: Vec<Range<u64>>,
    bias: u64,
    vdso: bool,
    code: Code,
    /// Ranges of FDEs, ascending.
    entries: Vec<Range<u64>>,
    functions: HashMap<(u64, u64), Shape>,
}

/// Addresses that are remembered at most; then all are forgotten.
const MAX_KNOWN: usize = 1 << 20;

impl Points {
    /// No file yet.
    pub fn new(arch: Arch) -> Points {
        Points { arch, files: Vec::new(), known: HashMap::new() }
    }

    /// A module, and the file that it was made from.
    pub fn add(&mut self, module: &Module<Slice<Arc<[u8]>>>, bytes: Arc<[u8]>) {
        let Some(code) = Code::new(bytes) else { return };
        let tables = module.eh_frame().into_iter().chain(module.debug_frame());
        let mut entries: Vec<Range<u64>> = tables
            .flat_map(|table| table.entries().flatten())
            .map(|entry| entry.range.0..entry.range.1)
            .collect();
        entries.sort_by_key(|range| (range.start, range.end));
        self.known.clear();
        self.files.push(File {
            text: module.text().to_vec(),
            bias: module.bias(),
            vdso: module.name() == VDSO,
            code,
            entries,
            functions: HashMap::new(),
        });
    }

    /// Where in its function the instruction at `pc` is.
    pub fn at(&mut self, pc: u64) -> ProgramPoint {
        if let Some(&point) = self.known.get(&pc) {
            return point;
        }
        let mut point = self.look_up(pc);
        if matches!(point, ProgramPoint::Jit | ProgramPoint::Unknown) {
            // In a system call that does not come back, the last instruction of its function.
            let call = pc.wrapping_sub(syscall_len(self.arch));
            if self.is_syscall(call) {
                point = self.look_up(call);
            }
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(pc, point);
        point
    }

    fn look_up(&mut self, pc: u64) -> ProgramPoint {
        let file = self.files.iter_mut().find(|f| f.holds(pc));
        file.map_or(ProgramPoint::Jit, |f| f.point(self.arch, pc))
    }

    /// Whether the code of a file at `pc` makes a system call.
    fn is_syscall(&self, pc: u64) -> bool {
        let Some(file) = self.files.iter().find(|f| f.holds(pc)) else { return false };
        let code = file.code.bytes_from(pc.wrapping_sub(file.bias));
        insn(self.arch, code).is_some_and(|i| i.class == InsnClass::Syscall)
    }
}

/// Bytes of the instruction that makes a system call.
const fn syscall_len(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 2,
        Arch::Aarch64 => 4,
    }
}

impl File {
    fn holds(&self, pc: u64) -> bool {
        self.text.iter().any(|text| text.contains(&pc))
    }

    fn point(&mut self, arch: Arch, pc: u64) -> ProgramPoint {
        let at = pc.wrapping_sub(self.bias);
        if self.is_around(at, is_in_sigreturn_code) {
            return ProgramPoint::SignalTrampoline;
        }
        if self.vdso {
            return ProgramPoint::Vdso;
        }
        let section = self.code.section(at).unwrap_or_default();
        if section.starts_with(".plt") || section.starts_with(".iplt") {
            return ProgramPoint::Plt;
        }
        let symbol = self.code.function(at);
        let plt = |code: &[u8], into: usize| {
            (0..=into).any(|start| {
                let len = code.get(start..).and_then(|code| plt_entry_len(arch, code));
                len.is_some_and(|len| start + len > into)
            })
        };
        if symbol.is_none() && self.is_around(at, plt) {
            return ProgramPoint::Plt;
        }
        let cold = symbol.as_ref().is_some_and(|(name, _)| name.contains(".cold"));
        let Some(range) = symbol.map(|s| s.1).or_else(|| self.entry(at)) else {
            return ProgramPoint::Unknown;
        };
        let (code, key) = (&self.code, (range.start, range.end));
        let new = || Shape::new(arch, code.bytes(range.clone()), range.start);
        let shape = self.functions.entry(key).or_insert_with(new);
        shape.point(at, key.0, cold)
    }

    /// Whether `holds` for code around `at`: it gets bytes, and where among them `at` is.
    fn is_around(&self, at: u64, holds: impl Fn(&[u8], usize) -> bool) -> bool {
        const BEFORE: u64 = 16;
        const LEN: usize = 32;
        // Nothing is before the segment's first byte.
        let back = (0..=BEFORE.min(at)).rev().find(|b| !self.code.bytes_from(at - b).is_empty());
        let Some(back) = back else { return false };
        let code = self.code.bytes_from(at - back);
        let len = LEN.min(code.len());
        holds(&code[..len], back as usize)
    }

    /// The FDE's range that covers `at`.
    fn entry(&self, at: u64) -> Option<Range<u64>> {
        let after = self.entries.partition_point(|range| range.start <= at);
        self.entries[..after].iter().rev().take(8).find(|range| range.contains(&at)).cloned()
    }
}

/// What of a function is prologue, what epilogue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    /// None: no bytes.
    empty: bool,
    prologue: Range<u64>,
    /// Ascending.
    epilogues: Vec<Range<u64>>,
    stub: bool,
}

/// Bytes of a function that are decoded at most; what follows is its body.
const MAX_FUNCTION: usize = 1 << 20;

/// A block while it is decoded.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    first_setup: Option<u64>,
    setup_end: u64,
    first_teardown: Option<u64>,
}

impl Shape {
    fn new(arch: Arch, code: &[u8], start: u64) -> Shape {
        let mut shape =
            Shape { empty: code.is_empty(), prologue: 0..0, epilogues: Vec::new(), stub: false };
        let end = start.saturating_add(code.len() as u64);
        let (mut block, mut first, mut calls_kernel) = (Block::default(), true, false);
        let mut at = 0;
        while let Some(i) = code.get(at..).filter(|_| at < MAX_FUNCTION).and_then(|c| insn(arch, c))
        {
            if !i.known {
                break;
            }
            let (rest, pc) = (&code[at..], start.wrapping_add(at as u64));
            at += usize::from(i.len);
            let next = start.wrapping_add(at as u64);
            match frame_step(arch, rest) {
                Some(FrameStep::Setup) => {
                    block.first_setup.get_or_insert(pc);
                    block.setup_end = next;
                }
                Some(FrameStep::Teardown) => {
                    block.first_teardown.get_or_insert(pc);
                }
                Some(FrameStep::Landing) | None => {}
            }
            let leaves = match i.class {
                InsnClass::Other | InsnClass::Rep => continue,
                InsnClass::Syscall => {
                    calls_kernel = true;
                    continue;
                }
                InsnClass::Return => true,
                InsnClass::Branch { conditional: false, indirect: true } => {
                    block.first_teardown.is_some()
                }
                InsnClass::Branch { conditional: false, indirect: false } => {
                    branch_target(arch, rest, pc).is_some_and(|to| !(start..end).contains(&to))
                }
                _ => false,
            };
            if leaves {
                shape.epilogues.push(block.first_teardown.unwrap_or(pc)..next);
            }
            shape.close(std::mem::take(&mut block), start, first);
            first = false;
        }
        shape.close(block, start, first);
        shape.stub = calls_kernel && shape.prologue.is_empty();
        shape
    }

    /// A block has ended; it was the first one of a function at `start`, or not.
    fn close(&mut self, block: Block, start: u64, first: bool) {
        if let (Some(setup), true) = (block.first_setup, self.prologue.is_empty()) {
            self.prologue = if first { start } else { setup }..block.setup_end;
        }
    }

    fn point(&self, at: u64, start: u64, cold: bool) -> ProgramPoint {
        let after = self.epilogues.partition_point(|range| range.end <= at);
        if self.empty {
            ProgramPoint::Unknown
        } else if at == start && !cold {
            ProgramPoint::Entry
        } else if self.stub {
            ProgramPoint::SyscallStub
        } else if self.prologue.contains(&at) {
            ProgramPoint::Prologue
        } else if self.epilogues.get(after).is_some_and(|range| range.contains(&at)) {
            ProgramPoint::Epilogue
        } else {
            ProgramPoint::Body
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "point_tests.rs"]
mod tests;
