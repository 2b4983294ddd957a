//! User stacks out of branch records: Intel's LBR in call-stack mode, as the perf tool reads it.
//!
//! ```text
//! entry 0: from ─► to    the last call that has not returned
//! entry 1: from ─► to    the one before
//!
//! chain:  kernel's part · entry 0's `to` · entry 0's `from` · entry 1's `from` · …
//! ```
//!
//! The hardware pushes an entry at a call and pops it at a return; there are 8, 16 or 32 of
//! them, and what was pushed out never comes back. `to` is where the topmost function begins,
//! not where the sample is; each `from` is a call itself, not what follows it
//! ([`CallAddress`]).
//!
//! Left out: stitching, by which the tool (`--stitch-lbr`) extends a chain with the entries of
//! the sample before, when the two share some.

use crate::address::CallAddress;
use crate::{CodeAddress, InstructionPointer};

/// A branch record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Branch {
    /// Address of the branch instruction.
    pub from: u64,
    /// Where it went.
    pub to: u64,
}

/// The number of branch records that the hardware has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Depth {
    /// Atom processors.
    Eight,
    /// Haswell, Broadwell.
    Sixteen,
    /// Skylake and later.
    #[default]
    ThirtyTwo,
}

impl Depth {
    /// As a number.
    pub const fn entries(self) -> usize {
        match self {
            Depth::Eight => 8,
            Depth::Sixteen => 16,
            Depth::ThirtyTwo => 32,
        }
    }
}

/// The addresses of a chain, the topmost frame first. `kernel` is the kernel's part of the
/// sample's call chain and comes first, `branches` begins with the newest; records behind one
/// that comes from address 0 were never written, and those beyond `depth` do not exist.
pub fn chain<'a>(
    kernel: &'a [u64],
    branches: &'a [Branch],
    depth: Depth,
) -> impl Iterator<Item = CodeAddress> + 'a {
    let real = || branches.iter().take(depth.entries()).take_while(|branch| branch.from != 0);
    let newest = real().next().map(|branch| InstructionPointer(branch.to).into());
    let calls = real().map(|branch| CallAddress(branch.from).into());
    let kernel = kernel.iter().map(|&address| InstructionPointer(address).into());
    kernel.chain(newest).chain(calls)
}

/// What branch records are like after these calls and returns, in call-stack mode: a push for
/// a call, a pop for a return.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    depth: Depth,
    /// The newest at the end.
    entries: Vec<Branch>,
}

impl Stack {
    /// No call yet.
    pub fn new(depth: Depth) -> Stack {
        Stack { depth, entries: Vec::with_capacity(depth.entries()) }
    }

    /// A call; the oldest entry gives way.
    pub fn call(&mut self, branch: Branch) {
        if self.entries.len() == self.depth.entries() {
            self.entries.remove(0);
        }
        self.entries.push(branch);
    }

    /// A return. With no entry left, nothing happens.
    pub fn ret(&mut self) {
        self.entries.pop();
    }

    /// The records, the newest first.
    pub fn branches(&self) -> Vec<Branch> {
        self.entries.iter().rev().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(depth: Depth, n: u64) -> Stack {
        let mut stack = Stack::new(depth);
        (1..=n).for_each(|i| stack.call(Branch { from: i * 0x10, to: i * 0x100 }));
        stack
    }

    fn values(kernel: &[u64], stack: &Stack) -> Vec<u64> {
        chain(kernel, &stack.branches(), stack.depth).map(CodeAddress::value).collect()
    }

    #[test]
    fn the_newest_target_and_then_the_calls() {
        let stack = calls(Depth::Eight, 3);
        assert_eq!(values(&[7, 8], &stack), [7, 8, 0x300, 0x30, 0x20, 0x10]);
        assert_eq!(values(&[7], &Stack::new(Depth::Eight)), [7]);
        let branches = stack.branches();
        let typed: Vec<CodeAddress> = chain(&[], &branches, Depth::Eight).collect();
        assert_eq!(typed[0], InstructionPointer(0x300).into());
        assert_eq!(typed[1], CallAddress(0x30).into());
        assert_eq!(typed[1].lookup().value(), 0x30, "a call is no return address");
    }

    #[test]
    fn what_was_pushed_out_never_comes_back() {
        for depth in [Depth::Eight, Depth::Sixteen, Depth::ThirtyTwo] {
            let mut stack = calls(depth, 40);
            assert_eq!(values(&[], &stack).len(), 1 + depth.entries());
            (0..depth.entries() - 1).for_each(|_| stack.ret());
            let oldest = 40 - depth.entries() as u64 + 1;
            assert_eq!(values(&[], &stack), [oldest * 0x100, oldest * 0x10]);
            (0..99).for_each(|_| stack.ret());
            assert_eq!(values(&[], &stack), [] as [u64; 0]);
        }
    }

    #[test]
    fn empty_records_end_the_chain() {
        let branches =
            [(0x10, 0x20), (0, 0x30), (0x40, 0x50)].map(|(from, to)| Branch { from, to });
        assert_eq!(chain(&[], &branches, Depth::Eight).count(), 2);
        assert_eq!(chain(&[], &branches[1..], Depth::Eight).count(), 0);
    }
}
