//! Calls, returns and indirect jumps, as they happen.
//!
//! Each is seen when the block after it starts: only then are its target and the stack
//! pointer known. The block that ends in one therefore hides the budget (`Hold`), so that
//! the next block, whichever it is, asks the hook.

use arch::decode::InsnClass;

use crate::engine::counting::Left;

/// How control was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// A call instruction.
    Call,
    /// A return instruction.
    Return,
    /// A jump to an address in a register or in memory.
    Jump,
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

/// Who wants to know.
pub trait FlowSink {
    /// Takes events in their order.
    fn take(&mut self, events: &[Event]);
}

/// What a block does to the flow of control and to the stack, as the hook's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct BlockFlow(u8);

impl BlockFlow {
    /// Nothing of interest.
    pub const NONE: BlockFlow = BlockFlow(0);
    const SETS_SP: u8 = 4;

    /// A block that ends in an instruction of `class`, and sets the stack pointer or not.
    pub const fn new(class: InsnClass, sets_sp: bool) -> BlockFlow {
        let kind = match class {
            InsnClass::Call { .. } => 1,
            InsnClass::Return => 2,
            InsnClass::Branch { indirect: true, .. } => 3,
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
}

/// A block that ends in a transfer runs; its successor has not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The budget, which the fast path must not see.
    pub left: Left,
    pub kind: Transfer,
    /// First address of the block and the one behind it.
    pub block: (u64, u64),
}

/// Events on their way to the sink.
pub(super) struct Flow {
    sink: Box<dyn FlowSink>,
    events: Vec<Event>,
    sp_was_set: bool,
}

impl Flow {
    const BATCH: usize = 1024;

    pub fn new(sink: Box<dyn FlowSink>) -> Flow {
        Flow { sink, events: Vec::with_capacity(Flow::BATCH), sp_was_set: false }
    }

    /// A block started that sets the stack pointer.
    pub const fn sp_is_set(&mut self) {
        self.sp_was_set = true;
    }

    /// The transfer at the end of `hold`'s block went to `to`.
    pub fn push(&mut self, hold: &Hold, to: u64, sp: u64) {
        let sp_was_set = std::mem::take(&mut self.sp_was_set);
        self.events.push(Event { kind: hold.kind, next: hold.block.1, to, sp, sp_was_set });
        if self.events.len() == Flow::BATCH {
            self.flush();
        }
    }

    /// Delivers what is there.
    pub fn flush(&mut self) {
        self.sink.take(&self.events);
        self.events.clear();
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("events", &self.events.len()).finish_non_exhaustive()
    }
}
