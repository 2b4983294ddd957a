//! The true frames: which part of the stack is whose, and where it keeps its return address.

use std::collections::BTreeSet;

use arch::Arch;
use arch::sigframe::saved_pc;
use unwinder::Memory;

use crate::explain::{By, Replay, Source, Told};
use crate::grade::file::{Found, FrameKind, Pieces};

/// Stack pointer of a true frame.
pub fn sp_of(found: &Found, index: usize) -> Option<u64> {
    match index.checked_sub(1) {
        None => Some(found.sample.regs(found.arch).sp()),
        Some(callee) => found.sample.frames.get(callee)?.cfa.map(|cfa| cfa.0),
    }
}

/// The true frame whose part of the stack holds `address`.
pub fn owner(found: &Found, address: u64) -> Option<usize> {
    let frames = &found.sample.frames;
    (0..frames.len()).find(|&index| {
        let cfa = frames[index].cfa.map_or(u64::MAX, |cfa| cfa.0);
        sp_of(found, index).is_some_and(|sp| sp <= address && address < cfa)
    })
}

/// Where a frame keeps the address of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The word, or the register.
    pub at: Source,
    /// It does hold that address; else it was overwritten.
    pub holds: bool,
}

/// For each true frame the place of its caller's address, where that is known: on x86_64 the
/// word below the CFA; on aarch64 what a rule reads whose CFA is the true one, or the frame
/// record that is there. A word that just has the same value is none.
pub fn slots(found: &Found, replays: &[&Replay]) -> Vec<Option<Slot>> {
    let frames = &found.sample.frames;
    (0..frames.len()).map(|index| slot(found, replays, index)).collect()
}

fn slot(found: &Found, replays: &[&Replay], index: usize) -> Option<Slot> {
    let frames = &found.sample.frames;
    let (frame, caller) = (frames.get(index)?, frames.get(index + 1)?);
    let at = match (caller.kind, found.arch) {
        (FrameKind::Interrupted, arch) => {
            Source::Memory(sp_of(found, index)?.wrapping_add(saved_pc(arch)))
        }
        (_, Arch::X86_64) => Source::Memory(frame.cfa?.0.checked_sub(8)?),
        (_, Arch::Aarch64) => {
            let cfa = frame.cfa?.0;
            let told = |replay: &Replay| {
                let next = replay.frames.iter().skip(1).map(Some).chain([None]);
                let (told, _) = replay.frames.iter().zip(next).find(|(told, next)| {
                    let right = told.truth == Some(index) && told.cfa == Some(cfa);
                    // What leads to the caller was read in this frame's part of the stack.
                    right || next.is_some_and(|next| next.truth == Some(index + 1))
                })?;
                told.source
            };
            replays.iter().find_map(|replay| told(replay))?
        }
    };
    let word = match at {
        Source::Memory(address) => Pieces(&found.sample.memory).word(address),
        // Registers of a caller are not recorded.
        Source::Register(_) if index > 0 => return None,
        Source::Register(number) => {
            found.sample.regs(found.arch).gp.get(usize::from(number)).copied()
        }
    };
    let holds = word.is_some_and(|word| found.arch.strip_pac(word) == caller.address.0);
    (holds || word.is_some()).then_some(Slot { at, holds })
}

/// Words in which true frames saved their callers' frame pointer, as far as a method's rule
/// that is right there tells it. What a method takes for a frame record elsewhere is none.
pub fn saved_fps(found: &Found, replays: &[Replay]) -> BTreeSet<u64> {
    let mut saved = BTreeSet::new();
    for replay in replays {
        let next = replay.frames.iter().skip(1).map(Some).chain([None]);
        for (told, next) in replay.frames.iter().zip(next) {
            saved.extend(told.saved_fp.filter(|at| is_saved(found, replay.by, told, next, *at)));
        }
    }
    saved
}

/// Whether the true frame that `told` is saved the frame pointer `at` an address.
fn is_saved(found: &Found, by: By, told: &Told, next: Option<&Told>, at: u64) -> bool {
    let frames = &found.sample.frames;
    let Some((index, frame)) = told.truth.and_then(|n| Some((n, frames.get(n)?))) else {
        return false;
    };
    // The outermost frame has no caller.
    let (Some(cfa), Some(caller)) = (frame.cfa, frames.get(index + 1)) else { return false };
    let leads_on = next.is_some_and(|next| next.truth == Some(index + 1));
    // What the CFA of a signal's frame is, tables see differently.
    let same_cfa = told.cfa == Some(cfa.0) || caller.kind == FrameKind::Interrupted;
    let is_right = match (by, found.arch) {
        (By::Table, _) => same_cfa,
        (_, Arch::X86_64) => leads_on && told.cfa == Some(cfa.0),
        (_, Arch::Aarch64) => leads_on,
    };
    is_right && owner(found, at) == Some(index)
}
