//! Where the instructions of a block of code start and what its last one does.
//!
//! Lengths and classes come from small hand-written decoders
//! ([`crate::x86_64::decode`], [`crate::aarch64::decode`]): they are asked for
//! every block that a guest executes, they allocate nothing but the list of
//! starts, and every byte string has an answer. So do the operand tables
//! ([`Decoder::memory_operand`]), which state the sizes that faults need.
//! [capstone] prints text for people, and checks the hand-written decoders in
//! the tests.
//!
//! ```text
//! bytes ──► decode_block ──► starts, class of the last, specials   (once a block)
//!       ├─► memory_operand ─► addresses                            (once a fault)
//!       └─► disassemble ────► text                                 (crash reports)
//! ```
//!
//! No byte string makes anything here panic.
//!
//! [capstone]: https://www.capstone-engine.org

#[cfg(feature = "disassembly")]
use capstone::Capstone;
#[cfg(feature = "disassembly")]
use capstone::prelude::*;

use crate::{Arch, Regs, aarch64, x86_64};

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsnClass {
    /// Goes on to the next instruction, or is not an instruction.
    Other,
    /// A jump that saves no return address.
    Branch {
        /// Taken or not by a condition (`jcc`, `loop`, `jrcxz`; `b.cond`, `cbz`, `tbz`).
        conditional: bool,
        /// The target is in a register or memory.
        indirect: bool,
    },
    /// A call: pushes a return address or sets the link register.
    Call {
        /// The target is in a register or memory.
        indirect: bool,
    },
    /// A return (`ret`, `retaa`).
    Return,
    /// A system call of the 64-bit ABI (`syscall`, `svc`).
    Syscall,
    /// An x86 string instruction under `rep`/`repe`/`repne`: one instruction
    /// that an interrupt can stop between iterations.
    Rep,
    /// Raises an exception by design (`int3`, `int n`, `ud2`; `brk`, `udf`, `hvc`).
    Trap,
}

impl InsnClass {
    /// Whether retiring the instruction counts as a branch.
    ///
    /// Counted: near jumps, taken or not, `loop` and `jrcxz` included, near
    /// calls and returns. That is Intel's `BR_INST_RETIRED.ALL_BRANCHES` less
    /// its far branches (`syscall`, `int n`, `iret`, far `jmp`/`call`/`ret`),
    /// and Arm's `BR_RETIRED`, which excludes exception-generating instructions.
    pub const fn is_branch(self) -> bool {
        matches!(self, InsnClass::Branch { .. } | InsnClass::Call { .. } | InsnClass::Return)
    }
}

/// An instruction that user-level Linux refuses but that a processor without
/// the kernel's descriptor tables and I/O bitmap would execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// `in`, `out`, `ins`, `outs`: #GP in user mode with IOPL 0 and no I/O bitmap.
    PortIo,
    /// `sysenter`: enters a 32-bit system call, which a 64-bit program cannot return from.
    Sysenter,
    /// `sysexit`: #GP outside ring 0.
    Sysexit,
    /// Far `jmp`, `call`, `ret`: loads a code segment.
    FarBranch,
    /// `iret`: loads a code and a stack segment.
    InterruptReturn,
    /// VEX or EVEX encoded (AVX, BMI, …): #UD on a processor that has none, as the
    /// modelled one says of itself by `cpuid`.
    Vex,
}

/// One instruction as the decoder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Length in bytes, at least 1 and at most what was given.
    pub len: u8,
    /// What it does to the flow of control.
    pub class: InsnClass,
    /// Set when user level must not execute it.
    pub special: Option<Special>,
    /// It gives the stack pointer a value that does not come from the stack pointer alone
    /// (`mov rsp, …`, `leave`, `lea rsp, [rbp-8]`, `add rsp, rcx`; `mov sp, x9`, `add sp, sp, x4`),
    /// or that is no distance from it (`xor rsp, 64`): it may have changed stacks or left frames.
    /// Pushes, pops, calls, returns, additions of constants and alignment do not.
    pub sets_sp: bool,
    /// False when the bytes are no instruction: cut short, longer than 15
    /// bytes, or an opcode that x86 does not define in 64-bit mode.
    pub known: bool,
}

/// The instructions of one block of straight-line code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Offset of every instruction from the start of the block, ascending.
    pub starts: Vec<u16>,
    /// Class of the last instruction; [`InsnClass::Other`] for an empty block.
    pub last: InsnClass,
    /// Instructions that must not execute at user level, with their offsets.
    pub specials: Vec<(u16, Special)>,
    /// One of them sets the stack pointer, see [`Insn::sets_sp`].
    pub sets_sp: bool,
    /// Offset of bytes that are no instruction. They are the last entry of
    /// [`Block::starts`] and run to the end of the block.
    pub unknown: Option<u16>,
}

/// One access of an instruction to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// First byte, as a virtual address with segment base and without wrapping
    /// checks; aarch64 addresses keep their tag byte.
    pub addr: u64,
    /// Bytes.
    pub size: u32,
    /// Store, or read-modify-write (which faults as a store).
    pub write: bool,
}

impl Access {
    /// A load of `size` bytes.
    pub const fn read(addr: u64, size: u32) -> Access {
        Access { addr, size, write: false }
    }

    /// A store of `size` bytes.
    pub const fn write(addr: u64, size: u32) -> Access {
        Access { addr, size, write: true }
    }

    /// The first byte of the access that lies in the page of `size` bytes (a
    /// power of two) at `page`: the address that a fault on that page reports.
    pub fn first_byte_in(&self, page: u64, size: u64) -> Option<u64> {
        let last = self.addr.wrapping_add(u64::from(self.size.max(1)) - 1);
        let mask = !(size.wrapping_sub(1));
        if self.addr & mask == page & mask {
            Some(self.addr)
        } else if last & mask == page & mask {
            Some(page & mask)
        } else {
            None
        }
    }
}

/// [`Decoder::memory_operand`] without a decoder.
pub fn memory_operands(arch: Arch, code: &[u8], regs: &Regs) -> Vec<Access> {
    match arch {
        Arch::X86_64 => x86_64::operands::accesses(code, regs),
        Arch::Aarch64 => aarch64::operands::accesses(code, regs),
    }
}

/// The first instruction of `code`, as [`Decoder::insn`] gives it.
pub fn insn(arch: Arch, code: &[u8]) -> Option<Insn> {
    match arch {
        Arch::X86_64 => x86_64::decode::insn(code),
        Arch::Aarch64 => aarch64::decode::insn(code),
    }
}

/// Where the first instruction of `code`, at `pc`, jumps or calls if it is a direct branch,
/// conditional or not.
///
/// ```
/// use arch::Arch::{Aarch64, X86_64};
/// use arch::decode::branch_target;
///
/// assert_eq!(branch_target(X86_64, b"\xe9\xfb\xff\xff\xff", 0x100), Some(0x100)); // jmp .
/// assert_eq!(branch_target(X86_64, b"\x74\x10", 0x100), Some(0x112)); // je
/// assert_eq!(branch_target(X86_64, b"\x0f\x85\x00\x01\x00\x00", 0x100), Some(0x206)); // jne
/// assert_eq!(branch_target(X86_64, b"\xff\xe0", 0x100), None); // jmp rax
/// let aarch64 = |word: u32| branch_target(Aarch64, &word.to_le_bytes(), 0x100);
/// assert_eq!(aarch64(0x17ff_ffff), Some(0xfc)); // b
/// assert_eq!(aarch64(0xb400_0049), Some(0x108)); // cbz
/// assert_eq!(aarch64(0x37ff_ffc0), Some(0xf8)); // tbnz
/// assert_eq!(aarch64(0x5400_0020), Some(0x104)); // b.eq
/// assert_eq!(aarch64(0xd65f_03c0), None); // ret
/// ```
pub fn branch_target(arch: Arch, code: &[u8], pc: u64) -> Option<u64> {
    match arch {
        Arch::X86_64 => x86_64::decode::branch_target(code, pc),
        Arch::Aarch64 => aarch64::decode::branch_target(code, pc),
    }
}

/// Decodes the instructions of one architecture.
///
/// Not `Send`, because capstone's handle is not.
#[derive(Debug)]
pub struct Decoder {
    arch: Arch,
    /// `None` only when capstone could not allocate its handle; then, as without the
    /// feature `disassembly`, [`Decoder::disassemble`] prints bytes.
    #[cfg(feature = "disassembly")]
    capstone: Option<Capstone>,
}

impl Decoder {
    /// A decoder for `arch`.
    #[cfg(not(feature = "disassembly"))]
    pub fn new(arch: Arch) -> Decoder {
        Decoder { arch }
    }

    /// A decoder for `arch`.
    #[cfg(feature = "disassembly")]
    pub fn new(arch: Arch) -> Decoder {
        let built = match arch {
            Arch::X86_64 => {
                use capstone::arch::x86::{ArchMode, ArchSyntax};
                Capstone::new().x86().mode(ArchMode::Mode64).syntax(ArchSyntax::Intel).build()
            }
            Arch::Aarch64 => Capstone::new().arm64().mode(arch::arm64::ArchMode::Arm).build(),
        };
        Decoder { arch, capstone: built.ok() }
    }

    /// The architecture that this decoder was made for.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Decodes the first instruction of `code`; `None` if `code` is empty.
    ///
    /// Bytes that are no instruction come back with [`Insn::known`] unset: on
    /// x86 everything that is left (at most 255 bytes), on aarch64 the one to
    /// three bytes that make no word. Every full word is an instruction.
    pub fn insn(&self, code: &[u8]) -> Option<Insn> {
        insn(self.arch, code)
    }

    /// Decodes the bytes of one block.
    ///
    /// Bytes that are no instruction end the decoding: the rest of the block
    /// is one last instruction of class [`InsnClass::Other`], flagged in
    /// [`Block::unknown`]. Offsets are 16 bits: what lies beyond 64 KiB is
    /// treated the same way.
    pub fn decode_block(&self, code: &[u8]) -> Block {
        let mut block = Block {
            starts: Vec::with_capacity(code.len() / 4 + 1),
            last: InsnClass::Other,
            specials: Vec::new(),
            sets_sp: false,
            unknown: None,
        };
        let mut at = 0usize;
        while let Some(insn) = code.get(at..).and_then(|rest| self.insn(rest)) {
            let Ok(offset) = u16::try_from(at) else {
                block.unknown = block.starts.last().copied();
                block.last = InsnClass::Other;
                break;
            };
            block.starts.push(offset);
            block.last = insn.class;
            block.sets_sp |= insn.sets_sp;
            if let Some(special) = insn.special {
                block.specials.push((offset, special));
            }
            if !insn.known {
                block.unknown = Some(offset);
                break;
            }
            at += usize::from(insn.len);
        }
        block
    }

    /// Why the first instruction of `code` must not run at user level.
    pub fn special(&self, code: &[u8]) -> Option<Special> {
        self.insn(code)?.special
    }

    /// Every access to memory that the first instruction of `code`, executed
    /// at `regs.pc` with `regs`, makes: explicit and implicit operands, loads
    /// before stores where the instruction has that order.
    ///
    /// A `rep` string instruction reports its next iteration, or nothing when
    /// its count is zero. Hints (`prefetch`, `nop`, `lea`) access nothing.
    /// What is not decoded reports nothing: unknown bytes, VEX and EVEX, SVE,
    /// memory tagging, and instructions that [`Decoder::special`] refuses.
    pub fn memory_operand(&self, code: &[u8], regs: &Regs) -> Vec<Access> {
        memory_operands(self.arch, code, regs)
    }

    /// Disassembles all of `code`, which starts at `pc`: address, bytes and
    /// text (Intel syntax on x86) of every instruction. What is no
    /// instruction, or unknown to capstone, is printed as `.byte` or `.inst`.
    pub fn disassemble(&self, code: &[u8], pc: u64) -> Vec<(u64, Vec<u8>, String)> {
        let mut lines = Vec::new();
        let mut rest = code;
        let mut addr = pc;
        while let Some(insn) = self.insn(rest) {
            let (bytes, after) = rest.split_at(usize::from(insn.len).min(rest.len()));
            let text = self.text(bytes, addr).unwrap_or_else(|| self.raw_text(bytes));
            lines.push((addr, bytes.to_vec(), text));
            addr = addr.wrapping_add(bytes.len() as u64);
            rest = after;
        }
        lines
    }

    #[cfg(not(feature = "disassembly"))]
    fn text(&self, _bytes: &[u8], _addr: u64) -> Option<String> {
        None
    }

    /// capstone's text of one instruction, if capstone agrees that `bytes` is one.
    #[cfg(feature = "disassembly")]
    fn text(&self, bytes: &[u8], addr: u64) -> Option<String> {
        let insns = self.capstone.as_ref()?.disasm_count(bytes, addr, 1).ok()?;
        let insn = insns.first()?;
        if insn.len() != bytes.len() {
            return None;
        }
        let operands = insn.op_str().unwrap_or("");
        let text = format!("{} {operands}", insn.mnemonic()?);
        Some(text.trim_end().to_owned())
    }

    /// Text for bytes that capstone does not know.
    fn raw_text(&self, bytes: &[u8]) -> String {
        match (self.arch, <[u8; 4]>::try_from(bytes)) {
            (Arch::Aarch64, Ok(word)) => format!(".inst {:#010x}", u32::from_le_bytes(word)),
            _ => {
                let list: Vec<String> = bytes.iter().map(|b| format!("{b:#04x}")).collect();
                format!(".byte {}", list.join(", "))
            }
        }
    }
}

#[cfg(all(test, feature = "disassembly"))]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "decode_tests.rs"]
mod tests;

#[cfg(all(test, feature = "disassembly"))]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "decode_sp_tests.rs"]
mod sp_tests;
