//! What scripted tasks do in user mode: functions made of a few kinds of instructions.
//!
//! Function `f` is at `TEXT + f * ROOM`, its `i`th instruction at `16 * i` behind that, so that an
//! address says where a task is. Calls leave frame records on a real stack in emulated memory, in
//! the order of the architecture, for whoever walks it.

use std::rc::Rc;

use crate::kernel::scripted::{self, Act};

/// Where the first function is.
pub const TEXT: u64 = 0x40_0000;
/// Bytes from one function to the next.
pub const ROOM: u64 = 0x1_0000;
/// Bytes of an instruction.
const LENGTH: u64 = 16;
/// Most functions, and most instructions of one.
pub const MOST: usize = (ROOM / LENGTH) as usize - 1;

/// Names a function of a [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u16);

/// One thing that a task does in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// It executes so many instructions that nobody looks at.
    Run(u64),
    /// It calls a function.
    Call(FunctionId),
    /// It returns to its caller.
    Return,
    /// It makes a system call.
    Syscall {
        /// Its number.
        nr: u64,
        /// The first three arguments.
        args: [u64; 3],
    },
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does; behind the last it returns.
    pub ops: Vec<Op>,
}

/// All functions, and the scripts of the system calls that they make.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// By [`FunctionId`].
    pub functions: Vec<Function>,
    /// By number, from [`scripted::FIRST_NUMBER`] on.
    pub scripts: Vec<Rc<[Act]>>,
}

impl Code {
    /// Adds a function.
    pub fn add(&mut self, name: &str, ops: Vec<Op>) -> FunctionId {
        self.functions.push(Function { name: name.to_owned(), ops });
        FunctionId(self.functions.len() as u16 - 1)
    }

    /// A system call that does this.
    pub fn scripted(&mut self, acts: Vec<Act>) -> Op {
        let script: Rc<[Act]> = acts.into();
        let known = self.scripts.iter().position(|s| *s == script);
        let index = known.unwrap_or_else(|| {
            self.scripts.push(script);
            self.scripts.len() - 1
        });
        Op::Syscall { nr: scripted::FIRST_NUMBER + index as u64, args: [0; 3] }
    }

    /// The instruction at `pc`; `None` where there is no code.
    pub fn at(&self, pc: u64) -> Option<Op> {
        let offset = pc.checked_sub(TEXT)?;
        let function = self.functions.get(usize::try_from(offset / ROOM).ok()?)?;
        let index = (offset % ROOM / LENGTH) as usize;
        (offset % LENGTH == 0).then(|| function.ops.get(index).copied().unwrap_or(Op::Return))
    }

    /// `function`, or `function+0x10`; as hexadecimal digits where there is no code.
    pub fn name(&self, pc: u64) -> String {
        let offset = pc.wrapping_sub(TEXT);
        let function = usize::try_from(offset / ROOM).ok().and_then(|f| self.functions.get(f));
        match (function, offset % ROOM) {
            (Some(function), 0) => function.name.clone(),
            (Some(function), at) => format!("{}+{at:#x}", function.name),
            (None, _) => format!("{pc:#x}"),
        }
    }
}

/// Where a function begins.
pub const fn entry(function: FunctionId) -> u64 {
    TEXT + ROOM * function.0 as u64
}

/// The instruction behind the one at `pc`.
pub const fn next(pc: u64) -> u64 {
    pc + LENGTH
}
