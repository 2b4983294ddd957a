//! The frames as they are shown: physical and logical.

use serde::{Deserialize, Serialize};
use unwinder::{CodeAddress, InstructionPointer, ReturnAddress};

use crate::truth::Stack;

/// A frame of the true stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueFrame {
    /// Where the frame is: the thread's instruction, or where it goes on.
    pub address: CodeAddress,
    /// Its CFA: the caller's stack pointer when this frame has gone. `None` for the
    /// outermost frame.
    pub cfa: Option<u64>,
    /// First instruction of the function, as it was called; `None` for the outermost frame
    /// and for one that a signal interrupted before it called anything.
    pub entry: Option<u64>,
}

/// A frame of the logical stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicalFrame {
    /// Where the frame is. For a function that has tail-called another one it is the address
    /// behind the jump, so that, as for a return address, the byte before it is in the function.
    pub address: CodeAddress,
    /// The CFA of the physical frame that it is, or has been before its tail call.
    pub cfa: Option<u64>,
    /// First instruction of the function, as it was called or jumped to, if that was seen.
    pub entry: Option<u64>,
    /// False for a function that has tail-called another one: nothing of it is on the stack.
    pub physical: bool,
    /// Tail-calling functions between this frame and the next one, further out, that are not
    /// kept.
    pub elided: u64,
}

/// Why the true stack of a thread is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// The stack pointer has left the innermost frame, and the transfer of control that ends
    /// that frame has not happened yet.
    BetweenStacks,
    /// The registers are not the thread's: the kernel was entered and had not saved them yet, so
    /// that the sample has those of an earlier entry.
    Unsaved,
    /// Frames that are asked for are not kept: there were too many ([`crate::truth::cut`]).
    TooDeep,
    /// The thread has begun another program by `execve`: the tables that the methods have are the
    /// first one's.
    AnotherProgram,
}

impl Stack {
    /// Why the innermost `frames` frames of a thread with this stack pointer are not known;
    /// `None` if they are. `sp_was_set`: as for [`Stack::holds`].
    pub fn doubt(&self, sp: u64, sp_was_set: bool, frames: usize) -> Option<Doubt> {
        match (self.knows(frames), self.holds(sp, sp_was_set)) {
            (false, _) => Some(Doubt::TooDeep),
            (true, false) => Some(Doubt::BetweenStacks),
            (true, true) => None,
        }
    }

    /// The frames of a thread that is at `pc`, innermost first, up to the first that is not
    /// kept: of that only its address is known, as of the outermost one.
    pub fn frames(&self, pc: u64) -> impl Iterator<Item = TrueFrame> + '_ {
        let mut address = CodeAddress::from(InstructionPointer(pc));
        let first = self.strand().cut.index;
        let frames = self.strand().frames.iter().skip(first).rev();
        let ends = frames.map(Some).chain([None]);
        ends.map(move |frame| {
            let here = TrueFrame {
                address,
                cfa: frame.map(|f| f.cfa),
                entry: frame.filter(|f| !f.signal).map(|f| f.entry),
            };
            if let Some(f) = frame {
                address = f.caller_address();
            }
            here
        })
    }

    /// The same with the functions that made tail calls. Each comes behind the function that
    /// it called; of very many in one frame only the first and the last ones are there.
    pub fn logical(&self, pc: u64) -> impl Iterator<Item = LogicalFrame> + '_ {
        let depth = self.strand().frames.len();
        let kept = self.strand().cut.index;
        self.frames(pc).enumerate().flat_map(move |(n, frame)| {
            let TrueFrame { address, cfa, entry } = frame;
            let physical = LogicalFrame { address, cfa, entry, physical: true, elided: 0 };
            // Those of a frame that is not kept are not, either.
            let of_kept = depth - n > kept || kept == 0;
            let tails = self.strand().tails.of(depth - n).filter(move |_| of_kept);
            let mut tails = tails.peekable();
            // Each jump says where the function before it was entered.
            let first = tails.peek().map_or(entry, |(tail, _)| Some(tail.to));
            let callers = std::iter::from_fn(move || {
                let (tail, elided) = tails.next()?;
                let entered = tails.peek().map_or(entry, |(outer, _)| Some(outer.to));
                Some(LogicalFrame {
                    address: ReturnAddress(tail.next).into(),
                    cfa,
                    // Where those are left out, the next one did not enter this function.
                    entry: entered.filter(|_| elided == 0),
                    physical: false,
                    elided,
                })
            });
            std::iter::once(LogicalFrame { entry: first, ..physical }).chain(callers)
        })
    }
}
