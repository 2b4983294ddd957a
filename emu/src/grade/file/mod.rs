//! The truth file: each sample of a run with its true stack, and with the memory and the
//! registers that any method needs to walk it again. `docs/truth-file.md` describes it for
//! others.
//!
//! ```text
//! {"header":{…}}                    first: schema, architecture, methods
//! {"module":{…}}                    a file of code was mapped; before the samples that see it
//! {"sample":{…}}                    in the order of the profile
//! {"undecided":{…}}                 in the sample's place, where the true stack is not known
//! ```

pub mod fuzz;
mod memory;
mod reader;
mod text;
mod writer;

pub use memory::{Pieces, Recorder};
pub use reader::{Answer, Found, ReadError, Reader};
pub use text::{Bytes, Hex, json_error};
pub use writer::Writer;

use std::collections::BTreeMap;

use arch::{Arch, Regs};
use serde::{Deserialize, Serialize};
use unwinder::{CodeAddress, InstructionPointer, InterruptedAddress, Module, ReturnAddress};

use crate::grade::files::MAX_FILES;
use crate::grade::{ProgramPoint, Verdict};
use crate::truth::{Doubt, LogicalFrame};

/// What the first line says it is.
pub const SCHEMA: &str = "emu-truth";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 2;

/// Modules at most; those that are mapped later are not known to anyone.
pub const MAX_MODULES: usize = MAX_FILES;

/// Frames of a sample at most.
pub const MAX_SAMPLE_FRAMES: usize = 1024;

/// Tail callers of a sample at most, those of inner frames first.
pub const MAX_TAIL_CALLERS: usize = 4096;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Header(Header),
    /// A file of code.
    Module(MappedFile),
    /// A sample.
    Sample(Box<Sample>),
    /// A sample whose true stack is not known.
    Undecided(Box<Undecided>),
}

/// What holds for all samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`]
    pub schema: String,
    /// [`VERSION`]
    pub version: u32,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// The methods that are graded, in the order of reports.
    pub methods: Vec<String>,
    /// The folder on the host that the paths of modules are below, if not `/`.
    pub root: Option<String>,
}

/// A file of code that was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedFile {
    /// As in the profile: a path, or `[vdso]`.
    pub path: String,
    /// GNU build id in hexadecimal, if it has one.
    pub build_id: Option<String>,
    /// What to add to a link-time address to get that in the process, modulo 2^64.
    pub bias: Hex,
    /// It is the kernel's.
    pub vdso: bool,
}

/// A graded sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// From 1, in the order of the profile.
    pub n: u64,
    /// Where the thread is, or will go on if the kernel was sampled.
    pub pc: Hex,
    /// Functions of the kernel that were live, innermost first; none if user code was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<String>,
    /// Where in its function that is.
    pub point: ProgramPoint,
    /// By DWARF number: 16 of x86_64, 32 of aarch64.
    pub registers: Vec<Hex>,
    /// Live frames in all, which may be more than [`MAX_SAMPLE_FRAMES`]; `None` if that is not
    /// known, see [`crate::truth::Stack::depth`].
    pub depth: Option<u64>,
    /// The innermost of them, innermost first.
    pub frames: Vec<Frame>,
    /// What each method made of it.
    pub verdicts: BTreeMap<String, Verdict>,
    /// Memory, ascending.
    pub memory: Vec<Piece>,
}

/// A sample whose true stack is not known, so that nothing was graded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// As of a [`Sample`]: both are counted together.
    pub n: u64,
    /// As of a [`Sample`].
    pub pc: Hex,
    /// As of a [`Sample`]; none, too, if the kernel had not saved the registers yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<String>,
    /// As of a [`Sample`].
    pub point: ProgramPoint,
    /// As of a [`Sample`].
    pub registers: Vec<Hex>,
    /// Why the stack is not known.
    pub why: Doubt,
}

/// How a frame's address is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// The instruction that is next.
    Current,
    /// Where a call returns to.
    Return,
    /// The instruction before which a signal came.
    Interrupted,
}

impl FrameKind {
    /// What kind of address it is.
    pub const fn of(address: CodeAddress) -> FrameKind {
        match address {
            CodeAddress::Current(_) | CodeAddress::Call(_) => FrameKind::Current,
            CodeAddress::Return(_) => FrameKind::Return,
            CodeAddress::Interrupted(_) => FrameKind::Interrupted,
        }
    }
}

/// A true frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Where it is.
    pub address: Hex,
    /// What kind of address that is.
    pub kind: FrameKind,
    /// The caller's stack pointer when this frame has gone; none for the outermost one.
    pub cfa: Option<Hex>,
    /// Where the function was entered, if that was seen.
    pub entry: Option<Hex>,
    /// Functions that led here by tail calls, so that nothing of them is on the stack: who made
    /// the last one is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail_callers: Vec<TailCaller>,
}

/// A function that has tail-called another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailCaller {
    /// Behind the jump: as for a return address, the byte before it is in the function.
    pub address: Hex,
    /// Where the function was entered, if that was seen.
    pub entry: Option<Hex>,
    /// Tail calls just before this one that are not kept.
    pub elided: u64,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Of the first byte.
    pub address: Hex,
    /// In hexadecimal.
    pub bytes: Bytes,
}

impl MappedFile {
    /// The file of a module.
    pub fn new<D>(module: &Module<D>, bytes: &[u8]) -> MappedFile {
        let path = module.name().to_owned();
        let vdso = path == VDSO;
        MappedFile { path, build_id: build_id(bytes), bias: Hex(module.bias()), vdso }
    }
}

/// Name of the module that no file holds.
pub const VDSO: &str = "[vdso]";

/// The GNU build id of an ELF file, in hexadecimal.
pub fn build_id(bytes: &[u8]) -> Option<String> {
    use goblin::elf::note::NT_GNU_BUILD_ID;
    let elf = goblin::elf::Elf::parse(bytes).ok()?;
    let mut notes = elf.iter_note_headers(bytes)?.map_while(Result::ok);
    let id = notes.find(|n| n.name == "GNU" && n.n_type == NT_GNU_BUILD_ID)?;
    Some(id.desc.iter().map(|b| format!("{b:02x}")).collect())
}

impl Frame {
    /// The frames of a logical stack: at most [`MAX_SAMPLE_FRAMES`], with [`MAX_TAIL_CALLERS`].
    pub fn list(logical: impl Iterator<Item = LogicalFrame>) -> Vec<Frame> {
        let (mut frames, mut tails): (Vec<Frame>, usize) = (Vec::new(), 0);
        for frame in logical {
            let (address, entry) = (Hex(frame.address.value()), frame.entry.map(Hex));
            let is_full = frames.len() == MAX_SAMPLE_FRAMES;
            match frames.last_mut() {
                Some(inner) if !frame.physical => {
                    tails += 1;
                    if tails <= MAX_TAIL_CALLERS {
                        let elided = frame.elided;
                        inner.tail_callers.push(TailCaller { address, entry, elided });
                    }
                }
                _ if is_full => break,
                _ => frames.push(Frame {
                    address,
                    kind: FrameKind::of(frame.address),
                    cfa: frame.cfa.map(Hex),
                    entry,
                    tail_callers: Vec::new(),
                }),
            }
        }
        frames
    }

    /// Its address with its origin.
    pub fn code_address(&self) -> CodeAddress {
        match self.kind {
            FrameKind::Current => InstructionPointer(self.address.0).into(),
            FrameKind::Return => ReturnAddress(self.address.0).into(),
            FrameKind::Interrupted => InterruptedAddress(self.address.0).into(),
        }
    }
}

impl Sample {
    /// The thread's integer registers.
    pub fn regs(&self, arch: Arch) -> Regs {
        regs(arch, self.pc, &self.registers)
    }

    /// The true addresses, innermost first.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.frames.iter().map(|frame| frame.address.0)
    }
}

impl Undecided {
    /// The thread's integer registers.
    pub fn regs(&self, arch: Arch) -> Regs {
        regs(arch, self.pc, &self.registers)
    }
}

fn regs(arch: Arch, pc: Hex, registers: &[Hex]) -> Regs {
    let mut regs = Regs::new(arch);
    regs.gp.iter_mut().zip(registers).for_each(|(to, from)| *to = from.0);
    regs.pc = pc.0;
    regs
}

/// The registers of a thread, as a sample has them.
pub fn registers_of(regs: &Regs) -> Vec<Hex> {
    regs.gp[..registers(regs.arch)].iter().copied().map(Hex).collect()
}

/// Registers that a sample has.
pub const fn registers(arch: Arch) -> usize {
    match arch {
        Arch::X86_64 => 16,
        Arch::Aarch64 => 32,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
