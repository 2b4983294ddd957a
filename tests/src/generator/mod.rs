//! Random programs that know their own stack.
//!
//! ```text
//! seed ─► Generator ─► Asm (x86_64, aarch64) ─► Code ─► Program: ELF, what the list is at each PC
//!                                                           │
//! emulator ─► a sample: registers, memory ──────────────────┴─► Program::stack: the true frames
//! ```
//!
//! A program's functions call, tail-call in each way there is, save registers in any order,
//! sign return addresses, allocate run-time amounts of stack, leave by `longjmp`, switch
//! between stacks, use return instructions as jumps, and send themselves signals whose
//! handlers do all of that again. Before each of these the program writes the frames to be
//! into a list in its own memory; one store moves the list's end. From that store on until
//! the transfer of control, and from the return to the store that moves the end back, the
//! list has frames that are not live: the generator notes for every instruction what to
//! leave out. So the list gives the true stack at *every* instruction, and it comes from
//! the program's plan alone, not from its calls and returns.
//!
//! * [`layout`]: what is where in memory.
//! * [`code`]: labels, and the list's meaning at each instruction.
//! * [`asm`]: the operations that an architecture provides; [`x86_64`], [`aarch64`].
//! * `runtime`, `function`: the parts of a program.
//! * [`list`]: reads the list.

pub mod aarch64;
pub mod asm;
pub mod code;
mod function;
pub mod layout;
pub mod list;
pub mod random;
mod runtime;
mod symbols;
pub mod x86_64;

use arch::Arch;

use crate::elf::{Elf, LOAD, Segment};
use asm::Asm;
use code::{Code, Label};
use random::Random;
use runtime::Signal;

/// A generated program.
#[derive(Debug)]
pub struct Program {
    /// What it runs on.
    pub arch: Arch,
    /// The ELF file, with a symbol for each function.
    pub file: Vec<u8>,
    code: Code,
}

/// The state of generation.
pub(crate) struct Generator {
    arch: Arch,
    random: Random,
    asm: Box<dyn Asm>,
    functions: Vec<Label>,
    signals: Vec<Signal>,
    coroutines: [Label; 2],
    setjmp: Label,
    longjmp: [Label; 2],
    switch: [Label; 2],
    restorer: Label,
    /// Functions that run in all.
    fuel: u64,
    /// The bit of the list's end that says that it is long.
    limit_bit: u32,
    /// Name and start of each function, in order.
    symbols: Vec<(String, Label)>,
}

impl Program {
    /// The program of `seed`.
    pub fn new(arch: Arch, seed: u64) -> Program {
        let asm: Box<dyn Asm> = match arch {
            Arch::X86_64 => Box::new(x86_64::X86_64::default()),
            Arch::Aarch64 => Box::new(aarch64::Aarch64::default()),
        };
        Generator::new(arch, Random::new(seed), asm).program()
    }
}

impl Generator {
    fn new(arch: Arch, mut random: Random, mut asm: Box<dyn Asm>) -> Generator {
        let mut label = || asm.code().label();
        let (setjmp, restorer) = (label(), label());
        let (coroutines, longjmp, switch) =
            ([label(), label()], [label(), label()], [label(), label()]);
        let functions = (0..4 + random.below(12)).map(|_| label()).collect();
        let (fuel, limit_bit) = (100 + random.below(200) as u64, 9 + random.below(2) as u32);
        let mut g = Generator {
            arch,
            random,
            asm,
            functions,
            signals: Vec::new(),
            coroutines,
            setjmp,
            longjmp,
            switch,
            restorer,
            fuel,
            limit_bit,
            symbols: Vec::new(),
        };
        g.signals = Signal::all(&mut g);
        g
    }

    /// A function starts here.
    fn begin(&mut self, name: &str, label: Label) {
        self.asm.code().bind(label);
        let name = format!("{name}{}", self.symbols.len());
        self.symbols.push((name, label));
    }

    fn program(mut self) -> Program {
        self.runtime();
        for signal in self.signals.clone() {
            self.handler(&signal);
        }
        for me in self.functions.clone() {
            match self.random.one_in(4) {
                true => self.leaf(me),
                false => self.function(me),
            }
        }
        self.asm.code().finish();
        let code = std::mem::take(self.asm.code());
        let symbols = self.symbols.iter().map(|(name, l)| (name.as_str(), code.address(*l)));
        let mut elf = Elf::program(self.arch, code.bytes());
        let size = layout::DATA_SIZE;
        let (kind, vaddr) = (LOAD, layout::DATA);
        elf.segments[1] = Segment { kind, flags: 6, offset: 0, vaddr, filesz: 0, memsz: size };
        let end = layout::CODE + code.bytes().len() as u64;
        let file = symbols::with_symbols(elf.bytes(), symbols, end);
        Program { arch: self.arch, file, code }
    }
}
