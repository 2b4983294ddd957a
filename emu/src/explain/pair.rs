//! Which true frame a method's frame is.

use arch::Arch;

use crate::explain::frames::owner;
use crate::explain::{Source, Told};
use crate::grade::file::{Found, FrameKind};

/// Pairs the frames with the true ones, in order.
///
/// If all addresses are the true ones, so are the frames. Else a frame is the next true one
/// that has its address and that the method came to from the same place: through the true
/// frame's return slot if the method read a word, with the true CFA if it read none. By address
/// alone, a recursive function would be taken for its caller.
pub fn pair(frames: &mut [Told], found: &Found) {
    let truth = &found.sample.frames;
    let same = frames.iter().zip(truth).all(|(told, frame)| told.is_at(frame.address.0));
    if same && frames.len() <= truth.len() {
        for (index, told) in frames.iter_mut().enumerate() {
            told.truth = Some(index);
        }
        return;
    }
    let (mut next, mut came_from): (usize, Option<Told>) = (0, None);
    for told in frames {
        let from = From::new(found, came_from.as_ref());
        let ahead = (next..truth.len())
            .find(|&index| told.is_at(truth[index].address.0) && from.leads_to(found, index));
        told.truth = ahead;
        next = ahead.map_or(next, |index| index + 1);
        came_from = Some(told.clone());
    }
}

/// How a method came to a frame.
enum From {
    /// It began there.
    Start,
    /// Through a word of the part of this true frame, or of none.
    Word { slot: u64, owner: Option<usize> },
    /// From a frame with this CFA, which was this true frame; what is below the CFA is of this
    /// one's part.
    Cfa { cfa: Option<u64>, was: Option<usize>, owner: Option<usize> },
}

impl From {
    fn new(found: &Found, callee: Option<&Told>) -> From {
        match callee {
            None => From::Start,
            Some(Told { source: Some(Source::Memory(slot)), .. }) => {
                From::Word { slot: *slot, owner: owner(found, *slot) }
            }
            Some(Told { cfa, truth, .. }) => {
                let below = cfa.and_then(|cfa| cfa.checked_sub(8));
                let owner = below.and_then(|below| owner(found, below));
                From::Cfa { cfa: *cfa, was: *truth, owner }
            }
        }
    }

    /// Whether it leads to the true frame `index`.
    fn leads_to(&self, found: &Found, index: usize) -> bool {
        let frames = &found.sample.frames;
        let Some(callee) = index.checked_sub(1) else { return matches!(self, From::Start) };
        // Where a signal frame has the address and what its CFA is, tables see differently.
        if frames[index].kind == FrameKind::Interrupted {
            return true;
        }
        let true_cfa = frames[callee].cfa.map(|cfa| cfa.0);
        match *self {
            From::Start => false,
            From::Word { slot, .. } if found.arch == Arch::X86_64 => {
                true_cfa == slot.checked_add(8)
            }
            // The record that the kernel puts below an interrupted frame has its x30: the
            // address of its caller, if it is a leaf.
            From::Word { owner, .. } => {
                let below = callee.checked_sub(1);
                let interrupted = frames[callee].kind == FrameKind::Interrupted;
                owner == Some(callee) || interrupted && below.is_some() && owner == below
            }
            // A return address from a register may be right where the CFA is not.
            // And who goes by the frame record may take its end for the CFA, on aarch64 too.
            From::Cfa { cfa, was, owner } => {
                let in_its_part = found.arch == Arch::Aarch64 && owner == Some(callee);
                cfa.is_none() || cfa == true_cfa || was == Some(callee) || in_its_part
            }
        }
    }
}
