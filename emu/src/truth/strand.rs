//! One stack of a thread and the frames on it.

use crate::engine::flow::{CalleeSaved, Event};
use crate::truth::cut::{Cut, MAX_LIVE_FRAMES};
use crate::truth::functions::Functions;
use crate::truth::gap::Gaps;
use crate::truth::tails::Tails;

/// A live frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where its caller goes on; the interrupted address of a signal.
    pub goes_on: u64,
    /// The caller's stack pointer there.
    pub cfa: u64,
    /// Where the function was entered.
    pub entry: u64,
    pub signal: bool,
    /// Of a signal's frame: [`Event::sp_was_set`] where it came.
    pub sp_was_set: bool,
}

impl Frame {
    #[inline]
    pub const fn is_left_by(&self, e: &Event) -> bool {
        self.goes_on == e.to && self.cfa == e.sp && !self.signal
    }
}

/// Memory that a strand's frames were seen in: its stack, or the alternate signal stack on
/// which a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Frames that are outside of it, below it in the order of calls.
    pub outer: usize,
    /// Lowest and highest stack pointer seen in it.
    pub low: u64,
    high: u64,
}

/// A stack, and the signal stacks that its handlers run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strand {
    /// Outermost first.
    pub frames: Vec<Frame>,
    /// For each frame, if they are kept: what the callee-saved registers were before it.
    pub saved: Vec<CalleeSaved>,
    pub tails: Tails,
    /// Where frames may be missing.
    pub gaps: Gaps,
    /// Frames that are not kept.
    pub cut: Cut,
    /// The stack pointer with which it began.
    pub start: u64,
    /// Changes of stacks until it was left last.
    pub left: u64,
    pub segment: Segment,
    /// The segments that the frames of `segment` were called from.
    pub outer: Vec<Segment>,
    /// Of a stack of this many frames or more nothing but frames is kept; of nearly all stacks
    /// that is true of all. 0 is right when `saved`, `tails`, `gaps` and `cut` are empty, any
    /// larger number at any time.
    plain_from: usize,
}

impl Strand {
    pub fn at(sp: u64) -> Strand {
        Strand {
            frames: Vec::new(),
            saved: Vec::new(),
            tails: Tails::default(),
            gaps: Gaps::default(),
            cut: Cut::default(),
            start: sp,
            left: 0,
            segment: Segment { outer: 0, low: sp, high: sp },
            outer: Vec::new(),
            plain_from: 0,
        }
    }

    /// Something else than a frame is about to be kept, or may be.
    pub const fn note(&mut self) {
        self.plain_from = usize::MAX;
    }

    #[inline]
    pub fn push(&mut self, frame: Frame, saved: Option<&CalleeSaved>) {
        self.segment.low = self.segment.low.min(frame.cfa);
        if let Some(saved) = saved {
            self.save(saved);
        }
        self.frames.push(frame);
        if self.frames.len() == MAX_LIVE_FRAMES {
            self.forget_half();
        }
    }

    /// Keeps the registers of the frame that is made next, if those of all outer ones are kept.
    fn save(&mut self, saved: &CalleeSaved) {
        if self.saved.len() == self.frames.len() {
            self.saved.push(*saved);
            self.note();
        }
    }

    /// What is called from now on is on another stack, at `sp`.
    pub fn enter_segment(&mut self, sp: u64) {
        self.outer.push(self.segment);
        self.segment = Segment { outer: self.frames.len(), low: sp, high: sp };
    }

    /// Ends the innermost frame, which is not a signal's.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.frames.pop();
        if self.frames.len() < self.plain_from {
            self.popped();
        }
    }

    /// The innermost frame has ended: so does what was kept of it.
    fn popped(&mut self) {
        let depth = self.frames.len();
        self.saved.truncate(depth);
        self.tails.truncate(depth);
        self.gaps.returned(depth);
        if depth < self.cut.index {
            self.cut = Cut::default();
        }
        let depths = [self.saved.len(), self.tails.depth(), self.gaps.depth(), self.cut.index];
        self.plain_from = depths.into_iter().max().unwrap_or_default();
    }

    /// Ends the innermost frames that are `dead`, as a call at `cfa` shows. A function that moved
    /// to another stack and calls there comes back.
    #[cold]
    #[inline(never)]
    pub fn end_those(&mut self, dead: impl Fn(&Frame) -> bool, cfa: u64) {
        while self.frames.last().is_some_and(&dead) && self.spans(cfa) {
            self.pop();
        }
    }

    /// Ends all frames but the `len` outermost ones.
    pub fn truncate(&mut self, len: usize) {
        self.frames.truncate(len);
        self.saved.truncate(len);
        self.tails.truncate(len);
        self.gaps.truncate(len);
        if len < self.cut.index {
            self.cut = Cut::default();
        }
        // The last outer frame of a segment is the signal's: with it the segment is left.
        while len < self.segment.outer {
            let Some(outer) = self.outer.pop() else { break };
            self.segment = outer;
        }
    }

    /// Ends the frames whose return addresses are not on the stack any more when a jump or
    /// return has moved the stack pointer to `e.sp`. `None` if that cannot tell: it is on another
    /// stack, or a signal's frame is innermost then. Else whether one of them is returned from.
    ///
    /// ```text
    /// return address on the stack (slot > 0)   CFA ≤ sp
    /// in a register                            CFA < sp
    /// ```
    pub fn end_passed(&mut self, e: &Event, slot: u64) -> Option<bool> {
        if !self.spans(e.sp) {
            return None;
        }
        let mut returned = false;
        while let Some(f) = self.frames.last() {
            if f.signal {
                return None;
            }
            if f.cfa > e.sp || f.cfa == e.sp && slot == 0 {
                break;
            }
            returned |= f.goes_on == e.to;
            self.pop();
        }
        Some(returned)
    }

    /// Ends the innermost frames up to the first that is `last`; none if there is no such.
    pub fn pop_through(&mut self, last: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let index = self.frames.iter().rposition(last)?;
        let frame = self.frames[index];
        self.truncate(index);
        Some(frame)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        std::iter::once(&self.segment).chain(self.outer.iter().rev())
    }

    /// Size of the smallest part of the stack that has `sp`, if any has.
    pub fn span_around(&self, sp: u64) -> Option<u64> {
        self.segments().filter(|s| s.low <= sp && sp <= s.high).map(|s| s.high - s.low).min()
    }

    pub fn spans(&self, sp: u64) -> bool {
        self.span_around(sp).is_some()
    }

    /// Whether `sp` is within `distance` below what was seen of the stack in use.
    pub const fn is_below(&self, sp: u64, distance: u64) -> bool {
        let low = self.segment.low;
        low.saturating_sub(distance) <= sp && sp < low
    }

    /// Ends the frames that are not live with this stack pointer (R5). The function that goes
    /// on called, at the stack pointer that it has now, the outermost of them.
    ///
    /// ```text
    /// frames on a signal stack that sp is not in     are dead
    /// some frame's CFA = sp                          it and all inside it are dead
    /// else                                           frames with CFA < sp are dead
    /// ```
    ///
    /// On aarch64 functions that use no stack share a CFA: it is then the outermost one that
    /// was called from the function which goes on, or the outermost of all.
    pub fn unwind_to(&mut self, e: &Event, functions: &Functions) {
        while !self.is_in_segment(e.sp) && !self.outer.is_empty() {
            // The signal's own frame goes by the rules below.
            self.truncate(self.segment.outer);
            let Some(outer) = self.outer.pop() else { break };
            self.segment = outer;
        }
        self.segment.high = self.segment.high.max(e.sp);
        let same_cfa = |f: &&Frame| f.cfa == e.sp;
        let first = self.segment.outer;
        let frames = self.frames.get(first..).unwrap_or_default();
        let of_caller =
            |f: &Frame| f.cfa == e.sp && functions.same(f.goes_on.wrapping_sub(1), e.to);
        let index = frames.iter().position(of_caller);
        if let Some(index) = index.or_else(|| frames.iter().position(|f| same_cfa(&f))) {
            self.truncate(first + index);
            return;
        }
        let live = frames.iter().rposition(|f| f.cfa >= e.sp).map_or(0, |index| index + 1);
        self.truncate(first + live);
        self.end_removed(e.sp);
        self.enter_cut();
    }

    /// In the segment in use, unless an outer one has it.
    fn is_in_segment(&self, sp: u64) -> bool {
        let within = |s: &Segment| s.low <= sp && sp <= s.high;
        within(&self.segment) || !self.outer.iter().any(within)
    }
}
