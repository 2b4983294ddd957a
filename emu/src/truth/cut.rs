//! A bound for the memory that live frames take: of very many the middle ones are forgotten.
//!
//! ```text
//! outermost ── kept ── index │ removed … │ kept ── innermost
//! ```
//!
//! A frame with its registers and its place in a growing list takes 120 to 240 bytes. A guest
//! that recurses without end, or whose calls never return, has as many as it likes. The
//! innermost frames are what is graded; the outermost ones tell exactly when the removed ones
//! have ended: by a return to one of them, or a stack pointer above all that was removed.

use crate::truth::strand::{Segment, Strand};

/// Live frames that are kept of one stack.
pub const MAX_LIVE_FRAMES: usize = 1 << 20;

/// Live frames, and tail calls in them, that are kept of all stacks but the one in use.
pub const MAX_ELSEWHERE: usize = 1 << 20;

/// Frames that were removed from the middle of a strand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Frames outside of them that are kept.
    pub index: usize,
    /// How many they are; 0: none is missing.
    pub removed: usize,
    /// Signals' frames among them.
    signals: usize,
    /// CFA of the outermost one.
    cfa: u64,
    /// Control has come back among them since: an unknown number has ended.
    pub entered: bool,
}

impl Strand {
    /// Frames and tail calls that it holds.
    pub fn weight(&self) -> usize {
        self.frames.len() + self.tails.len()
    }

    /// Gives back memory that live frames took once.
    pub fn shrink(&mut self) {
        const SMALL: usize = 1024;
        if self.frames.capacity() > SMALL.max(4 * self.frames.len()) {
            self.frames.shrink_to(2 * self.frames.len());
            self.saved.shrink_to(2 * self.saved.len());
        }
        self.tails.shrink();
    }

    /// The innermost frame is one of those that were removed.
    #[inline]
    pub const fn is_in_cut(&self) -> bool {
        self.cut.removed > 0 && self.frames.len() == self.cut.index
    }

    /// Control goes on among the removed frames, if the innermost one is one of them.
    #[inline]
    pub fn enter_cut(&mut self) {
        self.cut.entered |= self.is_in_cut();
    }

    /// Forgets half of the frames, or more, from the middle.
    #[cold]
    pub fn forget_half(&mut self) {
        self.note();
        let len = self.frames.len();
        let (mut start, mut end) = (len / 4, len - len / 4);
        if self.cut.removed > 0 {
            (start, end) = (start.min(self.cut.index), end.max(self.cut.index));
        }
        if self.cut.removed == 0 || start < self.cut.index {
            self.cut.cfa = self.frames.get(start).map_or(0, |f| f.cfa);
        }
        self.cut.index = start;
        self.cut.removed += end - start;
        self.cut.signals += self.frames.drain(start..end).filter(|f| f.signal).count();
        let saved = self.saved.len();
        self.saved.drain(start.min(saved)..end.min(saved));
        self.tails.cut(start, end);
        self.gaps.cut(start, end);
        self.cut_segments(start, end);
    }

    /// Of the segments that were entered from removed frames one is left.
    fn cut_segments(&mut self, start: usize, end: usize) {
        let moved = |mut s: Segment| {
            s.outer = if s.outer > end { s.outer - (end - start) } else { s.outer.min(start) };
            s
        };
        let all = self.outer.drain(..).chain([self.segment]);
        let mut all: Vec<Segment> = all.map(moved).collect();
        // The last of equal ones is the innermost.
        all.reverse();
        all.dedup_by_key(|s| s.outer);
        all.reverse();
        if let Some(innermost) = all.pop() {
            (self.segment, self.outer) = (innermost, all);
        }
    }

    /// A removed frame is the innermost one, and the thread goes on at `sp`. If that is above
    /// them all, they have ended.
    pub fn end_removed(&mut self, sp: u64) {
        if self.is_in_cut() && sp >= self.cut.cfa && self.cut.index >= self.segment.outer {
            self.cut = Cut::default();
        }
    }

    /// `rt_sigreturn` came with a removed frame as the innermost one: whether its signal's
    /// frame was removed, too.
    pub fn end_removed_signal(&mut self) -> bool {
        let is_there = self.is_in_cut() && self.cut.signals > 0;
        if is_there {
            self.cut.signals -= 1;
            self.enter_cut();
        }
        is_there
    }
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
