//! Where a frame may be missing: what happened there is a call, or is none, and no instruction
//! says which.
//!
//! The frames inside of such a place are known, the one that is at it has a caller that is not.
//! How a jump ended tells what it was; the next time it is known.

use crate::engine::flow::{Event, Transfer};
use crate::truth::functions::Functions;

/// A jump to the start of another function with the stack pointer in the frame of the running
/// one: a call, if a return address was put there, else a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Address behind it.
    pub next: u64,
    /// Where it goes.
    pub to: u64,
}

/// What a jump was when it ended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// A part of its function that is apart, or a step of a stub: the frame is the same.
    Jump,
    /// A call made by hand, which returned to this address.
    Call { returned_to: u64 },
}

/// What ends the doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The function that was jumped to, with the stack pointer `sp`, returns or is left by a
    /// stack pointer above, or the first one goes on.
    Left { sp: u64, site: Site },
    /// The frame has ended.
    FrameEnds,
    /// A signal came while the stack pointer was on another stack than the frames: its handler
    /// has returned.
    HandlerReturns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    /// Live frames outside of it.
    depth: usize,
    until: Until,
}

/// The gaps between the frames of a stack, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    all: Vec<Gap>,
    /// Jumps that have ended, by their addresses.
    sites: Vec<Option<(Site, Was)>>,
}

/// Jumps that are remembered.
const SITES: usize = 64;

impl Gaps {
    /// Who runs in the innermost of `depth` frames may have been called by somebody else.
    pub fn push(&mut self, depth: usize, until: Until) {
        let is_there = self.all.last().is_some_and(|gap| gap.depth == depth);
        if !is_there || until == Until::HandlerReturns {
            self.all.push(Gap { depth, until });
        }
    }

    /// What a jump was, if that is known.
    pub fn was(&self, site: Site) -> Option<Was> {
        let (known, was) = (*self.sites.get(slot_of(site))?)?;
        (known == site).then_some(was)
    }

    fn learn(&mut self, site: Site, was: Was) {
        self.sites.resize(SITES, None);
        self.sites[slot_of(site)] = Some((site, was));
    }

    /// Whether who runs in the innermost of `depth` frames has a caller that is not known.
    #[inline]
    pub fn is_at(&self, depth: usize) -> bool {
        self.all.last().is_some_and(|gap| gap.depth == depth)
    }

    /// How many of `depth` frames, the innermost ones, are known. A jump that may be a call hides
    /// its own caller alone: nearly all are none.
    pub fn known(&self, depth: usize) -> usize {
        let is_sure = |gap: &&Gap| !matches!(gap.until, Until::Left { .. }) || gap.depth == depth;
        let last = self.all.iter().rev().find(is_sure);
        last.map_or(usize::MAX, |gap| depth - gap.depth.min(depth))
    }

    /// Frames outside of the innermost one.
    pub fn depth(&self) -> usize {
        self.all.last().map_or(0, |gap| gap.depth)
    }

    /// Only `depth` frames are live.
    pub fn truncate(&mut self, depth: usize) {
        while self.all.last().is_some_and(|gap| gap.depth > depth) {
            self.all.pop();
        }
    }

    /// The frame inside of `depth` ones was returned from.
    pub fn returned(&mut self, depth: usize) {
        while let Some(gap) = self.all.pop_if(|gap| gap.depth > depth) {
            if let Until::Left { site, .. } = gap.until {
                self.learn(site, Was::Jump);
            }
        }
    }

    /// A jump or a return, which may end what is in doubt in the innermost of `depth` frames.
    /// `slot` is the size of a return address on the stack.
    pub fn pass(&mut self, depth: usize, e: &Event, slot: u64, functions: &Functions) {
        let Some(Gap { depth: at, until: Until::Left { sp, site } }) = self.all.last().copied()
        else {
            return;
        };
        let (is_return, above) = (e.kind == Transfer::Return, sp.wrapping_add(slot));
        let back = || functions.same(site.next.wrapping_sub(1), e.to);
        let ends = if is_return { e.sp >= above } else { e.sp > sp || back() };
        if at != depth || !ends {
            return;
        }
        self.all.pop();
        let returned = (is_return || slot > 0) && e.sp == above && back();
        if returned && !functions.starts_at(e.to) {
            self.learn(site, Was::Call { returned_to: e.to });
        } else if !is_return {
            self.learn(site, Was::Jump);
        }
    }

    /// The handler of a signal that came in the innermost of `depth` frames has returned.
    pub fn handler_returned(&mut self, depth: usize) {
        self.all.pop_if(|gap| gap.depth == depth && gap.until == Until::HandlerReturns);
    }

    /// The frames `start..end`, counted from the outermost one, are not kept any more.
    pub fn cut(&mut self, start: usize, end: usize) {
        self.all.retain_mut(|gap| {
            let is_kept = gap.depth <= start || gap.depth > end;
            if gap.depth > end {
                gap.depth -= end - start;
            }
            is_kept
        });
    }
}

const fn slot_of(site: Site) -> usize {
    (site.next >> 1) as usize % SITES
}
