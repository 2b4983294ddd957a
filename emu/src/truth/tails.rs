//! Functions that have tail-called others.

use std::collections::VecDeque;

/// A tail call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Address behind the jump.
    pub next: u64,
    /// The function that it entered.
    pub to: u64,
}

/// The tail calls that led to the function which has a frame now. Loops of tail calls are
/// without end, so that of many only the first and the last ones are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    /// Frames that were live, this function's own included.
    depth: usize,
    first: Vec<Tail>,
    last: VecDeque<Tail>,
    /// Those in between, which are not kept.
    elided: u64,
}

/// Chains that belong to live frames, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tails(Vec<Chain>);

/// Tail calls of one frame that are kept, from its call on and up to now.
pub(super) const FIRST: usize = 16;
pub(super) const LAST: usize = 48;

impl Tails {
    /// The innermost of `depth` frames made a tail call.
    pub fn push(&mut self, depth: usize, tail: Tail) {
        if self.0.last().is_none_or(|chain| chain.depth != depth) {
            let (first, last) = (Vec::new(), VecDeque::new());
            self.0.push(Chain { depth, first, last, elided: 0 });
        }
        let Some(chain) = self.0.last_mut() else { return };
        if chain.first.len() < FIRST {
            chain.first.push(tail);
            return;
        }
        if chain.last.len() == LAST {
            chain.last.pop_front();
            chain.elided += 1;
        }
        chain.last.push_back(tail);
    }

    /// Only `depth` frames are live.
    #[inline]
    pub fn truncate(&mut self, depth: usize) {
        while self.0.last().is_some_and(|chain| chain.depth > depth) {
            self.0.pop();
        }
    }

    /// The tail calls in the frame that is the innermost of `depth`, innermost first, each
    /// with the number of those that are left out between it and the one before.
    pub fn of(&self, depth: usize) -> impl Iterator<Item = (Tail, u64)> + '_ {
        let chain = self.0.binary_search_by_key(&depth, |c| c.depth).ok().map(|i| &self.0[i]);
        chain.into_iter().flat_map(|c| {
            let last = c.last.iter().rev().map(|&tail| (tail, 0));
            let first = c.first.iter().rev().enumerate();
            last.chain(first.map(|(i, &tail)| (tail, if i == 0 { c.elided } else { 0 })))
        })
    }
}
