//! Calls, returns, indirect jumps and jumps to functions, as they happen.
//!
//! Each is seen when the block after it starts: only then are its target and the stack
//! pointer known. The block that ends in one therefore hides the budget (`Left::hide`), so that
//! the next block, whichever it is, asks the hook.

use arch::decode::InsnClass;

/// How control was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transfer {
    /// A call instruction.
    Call = 1,
    /// A return instruction.
    Return = 2,
    /// A jump to an address in a register or in memory, or a direct jump to where the sink
    /// says that a function starts. A conditional one that is not taken goes to the next
    /// instruction.
    Jump = 3,
}

/// One transfer of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: Transfer,
    /// Address after the instruction: a call's return address.
    pub next: u64,
    /// Where control went.
    pub to: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Since the last event the stack pointer was set, rather than moved by a constant.
    pub sp_was_set: bool,
}

/// The values of the callee-saved registers, in ascending order of their DWARF numbers:
/// `rbx rbp r12`–`r15`, then zeros; `x19`–`x29`.
pub type CalleeSaved = [u64; 11];

/// Who wants to know.
pub trait FlowSink {
    /// Takes events in their order. `saved` has the callee-saved registers at each call among
    /// them, if they are wanted, else nothing.
    fn take(&mut self, events: &[Event], saved: &[CalleeSaved]);

    /// Whether a function starts at `addr`: asked once for each translated block that ends in
    /// a direct jump. A sink that says no sees no direct jumps.
    fn is_function(&self, _addr: u64) -> bool {
        false
    }

    /// Whether the registers at calls are wanted.
    fn wants_registers(&self) -> bool {
        false
    }
}

/// What a block does to the flow of control and to the stack, as the hook's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct BlockFlow(u8);

impl BlockFlow {
    /// Nothing of interest.
    pub const NONE: BlockFlow = BlockFlow(0);
    const SETS_SP: u8 = 4;

    /// A block that ends in an instruction of `class`, and sets the stack pointer or not;
    /// `enters_function`: it ends in a direct jump to a function's start.
    pub const fn new(class: InsnClass, sets_sp: bool, enters_function: bool) -> BlockFlow {
        let kind = match class {
            InsnClass::Call { .. } => Transfer::Call as u8,
            InsnClass::Return => Transfer::Return as u8,
            InsnClass::Branch { indirect, .. } if indirect || enters_function => {
                Transfer::Jump as u8
            }
            _ => 0,
        };
        BlockFlow(kind | if sets_sp { BlockFlow::SETS_SP } else { 0 })
    }

    /// The transfer at its end.
    pub const fn transfer(self) -> Option<Transfer> {
        match self.0 & 3 {
            1 => Some(Transfer::Call),
            2 => Some(Transfer::Return),
            3 => Some(Transfer::Jump),
            _ => None,
        }
    }

    /// Whether it sets the stack pointer.
    pub const fn sets_sp(self) -> bool {
        self.0 & BlockFlow::SETS_SP != 0
    }

    /// As a number below [`BlockFlow::COUNT`].
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The inverse of [`BlockFlow::number`].
    pub const fn from_number(number: u8) -> BlockFlow {
        BlockFlow(number % BlockFlow::COUNT)
    }

    /// How many different ones there are.
    pub const COUNT: u8 = 8;
}

/// A block that ends in a transfer runs; its successor has not started, and the budget is
/// hidden from it. Translated code writes it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Hold {
    /// First address of the block.
    pub addr: u64,
    /// Its bytes.
    pub size: u32,
    /// Its [`BlockFlow`]'s number; 0: no block is held.
    pub flow: u32,
}

impl Hold {
    /// No block.
    pub const NONE: Hold = Hold { addr: 0, size: 0, flow: 0 };

    /// Whether there is one.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.flow != 0
    }

    /// Address behind the block.
    pub const fn end(&self) -> u64 {
        self.addr.wrapping_add(self.size as u64)
    }
}

/// Events on their way to the sink.
pub(super) struct Flow {
    sink: Box<dyn FlowSink>,
    events: Vec<Event>,
    saved: Vec<CalleeSaved>,
    wants_registers: bool,
}

impl Flow {
    const BATCH: usize = 256;

    pub fn new(sink: Box<dyn FlowSink>) -> Flow {
        let wants_registers = sink.wants_registers();
        let events = Vec::with_capacity(Flow::BATCH);
        Flow { sink, events, saved: Vec::with_capacity(Flow::BATCH), wants_registers }
    }

    /// Whether a direct jump to `addr` is an event.
    pub fn enters_function(&self, addr: u64) -> bool {
        self.sink.is_function(addr)
    }

    /// A transfer has landed.
    #[inline(always)]
    pub fn push(&mut self, event: Event, saved: impl FnOnce() -> CalleeSaved) {
        if self.wants_registers && event.kind == Transfer::Call {
            self.saved.push(saved());
        }
        self.events.push(event);
        if self.events.len() == Flow::BATCH {
            self.flush();
        }
    }

    /// Delivers what is there.
    #[cold]
    #[inline(never)]
    pub fn flush(&mut self) {
        self.sink.take(&self.events, &self.saved);
        self.events.clear();
        self.saved.clear();
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("events", &self.events.len()).finish_non_exhaustive()
    }
}
