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

/// Tail calls of all frames of a stack that are kept: of more, the innermost ones.
const MAX_TAILS: usize = 1 << 20;

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
        if self.0.len() == MAX_TAILS {
            self.forget_half();
        }
    }

    /// Forgets the outermost half.
    #[cold]
    pub fn forget_half(&mut self) {
        let half = self.0.len() / 2;
        let depth = self.0.get(half).map_or(0, |kept| kept.depth);
        let of_it = self.0.drain(..half).filter(|kept| kept.depth == depth);
        let gone: u64 = of_it.map(|kept| kept.elided + 1).sum();
        if let Some(first) = self.0.first_mut() {
            first.elided += gone;
        }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Frames that were live at the last one.
    pub fn depth(&self) -> usize {
        self.0.last().map_or(0, |kept| kept.depth)
    }

    /// Gives back memory that they took once.
    pub fn shrink(&mut self) {
        const SMALL: usize = 1024;
        if self.0.capacity() > SMALL.max(4 * self.0.len()) {
            self.0.shrink_to(2 * self.0.len());
        }
    }

    /// The frames `start..end`, counted from the outermost one, are not kept any more.
    pub fn cut(&mut self, start: usize, end: usize) {
        self.0.retain_mut(|kept| {
            let is_kept = kept.depth <= start || kept.depth > end;
            if kept.depth > end {
                kept.depth -= end - start;
            }
            is_kept
        });
    }

    /// Only `depth` frames are live.
    #[inline]
    pub fn truncate(&mut self, depth: usize) {
        while self.0.last().is_some_and(|kept| kept.depth > depth) {
            self.0.pop();
        }
    }

    /// The tail calls in the frame that is the innermost of `depth`, innermost first, each
    /// with the number of those that came just before it and are not kept.
    pub fn of(&self, depth: usize) -> impl Iterator<Item = (Tail, u64)> + '_ {
        let start = self.0.partition_point(|kept| kept.depth < depth);
        let end = self.0.partition_point(|kept| kept.depth <= depth);
        self.0[start..end].iter().rev().map(|kept| (kept.tail, kept.elided))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a frame that were forgotten with the outermost half are counted by its first
    /// one that is left.
    #[test]
    fn half_of_a_frame_may_be_forgotten() {
        const EACH: usize = FIRST + LAST - 1;
        let (mut tails, mut depth) = (Tails::default(), 0);
        while tails.len() == depth * EACH {
            depth += 1;
            (0..EACH as u64).for_each(|n| tails.push(depth, Tail { next: n, to: n }));
        }
        let first = (1..=depth).find(|depth| tails.of(*depth).count() > 0);
        let of_first: Vec<_> = tails.of(first.unwrap_or_default()).collect();
        assert!(of_first.len() < EACH, "the half ends between two frames");
        let elided: Vec<u64> = of_first.iter().map(|(_, elided)| *elided).collect();
        let (last, others) = elided.split_last().unwrap_or((&0, &[]));
        assert_eq!(*last, (EACH - of_first.len()) as u64);
        assert!(others.iter().all(|n| *n == 0));
    }
}
