//! Functions that have tail-called others.

/// A tail call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Address behind the jump.
    pub next: u64,
    /// The function that it entered.
    pub to: u64,
}

/// A tail call in a live frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// Frames that were live, the tail-called function's own included.
    depth: usize,
    tail: Tail,
    /// Those before it in the same frame that are not kept.
    elided: u64,
}

/// The tail calls that led to the functions which have frames now, outermost first. Loops of
/// tail calls are without end, so that of many in one frame only the first and the last ones
/// are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tails(Vec<Kept>);

/// Tail calls of one frame that are kept, from its call on and up to now.
pub(super) const FIRST: usize = 16;
pub(super) const LAST: usize = 48;

impl Tails {
    /// The innermost of `depth` frames made a tail call.
    pub fn push(&mut self, depth: usize, tail: Tail) {
        let full = self.0.len().checked_sub(FIRST + LAST);
        if full.is_some_and(|oldest| self.0[oldest].depth == depth) {
            let at = self.0.len() - LAST; // in range: there are more
            let gone = self.0.remove(at);
            self.0[at].elided += gone.elided + 1;
        }
        self.0.push(Kept { depth, tail, elided: 0 });
    }

    /// Only `depth` frames are live.
    #[inline]
    pub fn truncate(&mut self, depth: usize) {
        while self.0.last().is_some_and(|kept| kept.depth > depth) {
            self.0.pop();
        }
    }

    /// The tail calls in the frame that is the innermost of `depth`, innermost first, each
    /// with the number of those that are left out between it and the one before.
    pub fn of(&self, depth: usize) -> impl Iterator<Item = (Tail, u64)> + '_ {
        let start = self.0.partition_point(|kept| kept.depth < depth);
        let end = self.0.partition_point(|kept| kept.depth <= depth);
        let inner = move |i: usize| if i + 1 < end { self.0[i + 1].elided } else { 0 };
        (start..end).rev().map(move |i| (self.0[i].tail, inner(i)))
    }
}
