//! An index of a section by address, for sections that come without one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gimli::BaseAddresses;

use super::error::{Error, ErrorKind, SectionName, Warning};
use super::section::{Cfi, LastCie, Outline, Walk, What};

/// Addresses and the FDE that describes them.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// Offset of the FDE. Sections are below 4 GiB.
    fde: u32,
}

/// First addresses, ascending, and the FDE that describes what follows, if anything does:
/// 12 bytes for an FDE, or twice that at worst, if all of them overlap. They are apart
/// because a search touches few of the FDEs.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    starts: Vec<u64>,
    fdes: Vec<u32>,
}

impl Index {
    /// Reads the section once. Where entries overlap, the first one in the section holds, as
    /// for an unwinder that searches it from the start.
    pub fn build(
        cfi: &Cfi<'_>,
        bytes: &[u8],
        bases: &BaseAddresses,
        warnings: &mut Vec<Warning>,
    ) -> Index {
        let mut segments = ranges(cfi, bytes, bases, warnings);
        segments.sort_by_key(|s| (s.start, s.fde));
        if segments.windows(2).any(|pair| pair[0].end > pair[1].start) {
            segments = disjoint(cfi, &segments, warnings);
        }
        let starts = segments.iter().map(|s| s.start).collect();
        Index { starts, fdes: segments.iter().map(|s| s.fde).collect() }
    }

    /// The offset of the FDE that covers `address`, if any does: a segment ends where its
    /// FDE does or where the next one begins.
    pub fn find(&self, address: u64) -> Option<u32> {
        let behind = self.starts.partition_point(|&start| start <= address);
        self.fdes.get(behind.checked_sub(1)?).copied()
    }

    /// First address and FDE of an entry.
    pub fn get(&self, entry: usize) -> Option<(u64, u32)> {
        self.starts.get(entry).copied().zip(self.fdes.get(entry).copied())
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }
}

/// The ranges of all FDEs, in the order of the section.
fn ranges(
    cfi: &Cfi<'_>,
    bytes: &[u8],
    bases: &BaseAddresses,
    warnings: &mut Vec<Warning>,
) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut cie = LastCie::default();
    // A zero length ends `.eh_frame`, and means nothing in `.debug_frame`.
    let mut ended = false;
    for entry in Walk::new(cfi.name(), bytes) {
        let fde = match entry {
            Ok(Outline { what: What::Terminator, .. }) => {
                ended = cfi.name() == SectionName::EhFrame;
                continue;
            }
            Ok(entry) if std::mem::take(&mut ended) => {
                warnings.push(warning(cfi, entry.offset, ErrorKind::AfterTerminator));
                segment(cfi, bases, &entry, &mut cie)
            }
            Ok(entry) => segment(cfi, bases, &entry, &mut cie),
            Err(error) => Err(error),
        };
        match fde {
            Ok(segment) => segments.extend(segment),
            Err(error) => warnings.push(error),
        }
    }
    segments
}

fn segment<'a>(
    cfi: &Cfi<'a>,
    bases: &BaseAddresses,
    entry: &Outline,
    cie: &mut LastCie<'a>,
) -> Result<Option<Segment>, Error> {
    if entry.what == What::Cie {
        return Ok(None);
    }
    let fde = cfi.fde(bases, entry.offset, Some(cie))?;
    let (start, end) = (fde.initial_address(), fde.end_address());
    if start == end {
        return Err(warning(cfi, entry.offset, ErrorKind::EmptyRange));
    }
    Ok(Some(Segment { start, end, fde: entry.offset as u32 }))
}

/// Cuts segments, which are sorted, so that each address is in one: that of the FDE with
/// the lowest offset.
fn disjoint(cfi: &Cfi<'_>, sorted: &[Segment], warnings: &mut Vec<Warning>) -> Vec<Segment> {
    let mut cut: Vec<Segment> = Vec::with_capacity(sorted.len());
    // Those that have begun and not ended, the first in the section on top.
    let mut open = BinaryHeap::new();
    let mut coming = sorted.iter().peekable();
    let mut at = 0;
    while coming.peek().is_some() || !open.is_empty() {
        if open.is_empty() {
            at = coming.peek().map_or(at, |s| s.start);
        }
        while let Some(s) = coming.next_if(|s| s.start <= at) {
            if let Some(&(Reverse(other), _)) = open.peek() {
                let (first, second) = (s.fde.min(other), s.fde.max(other));
                let kind = ErrorKind::Overlap { first: first.into() };
                warnings.push(warning(cfi, second as usize, kind));
            }
            open.push((Reverse(s.fde), s.end));
        }
        let Some(&(Reverse(fde), end)) = open.peek() else { continue };
        let next = coming.peek().map_or(end, |s| s.start.min(end));
        if at < next {
            match cut.last_mut() {
                Some(last) if last.fde == fde && last.end == at => last.end = next,
                _ => cut.push(Segment { start: at, end: next, fde }),
            }
        }
        at = next;
        while open.peek().is_some_and(|&(_, end)| end <= at) {
            open.pop();
        }
    }
    cut
}

fn warning(cfi: &Cfi<'_>, offset: usize, kind: ErrorKind) -> Warning {
    Error { section: cfi.name(), offset: offset as u64, kind }
}
