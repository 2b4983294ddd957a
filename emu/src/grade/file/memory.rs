//! The memory of a sample: what its stack is, and what methods read elsewhere.
//!
//! ```text
//! [sp - 128, highest CFA that is less than 64 KiB above sp)     the red zone and the stack
//! [CFA - 64, CFA) of each frame                                  frames on other stacks
//! every word that a method has read
//! ```

use unwinder::Memory;

use super::{Bytes, Hex, Piece};
use crate::truth::TrueFrame;

/// Bytes below the stack pointer that a function may use (x86-64 psABI, section 3.2.2).
const RED_ZONE: u64 = 128;

/// Bytes of the stack at most.
const MAX_STACK: u64 = 64 << 10;

/// Bytes below the CFA of a frame: return address, frame record.
const BELOW_CFA: u64 = 64;

/// Nothing that is read at once crosses a multiple of this: pages may be absent.
const PAGE: u64 = 4096;

/// Memory, with a list of what was read.
pub struct Recorder<'m> {
    memory: &'m mut dyn Memory,
    /// First and last byte.
    reads: Vec<(u64, u64)>,
}

impl std::fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("reads", &self.reads.len()).finish_non_exhaustive()
    }
}

impl Memory for Recorder<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let read = self.memory.read(address, bytes);
        if read && let Some(more) = (bytes.len() as u64).checked_sub(1) {
            self.reads.push((address, address.saturating_add(more)));
        }
        read
    }
}

impl<'m> Recorder<'m> {
    /// Nothing read yet.
    pub fn new(memory: &'m mut dyn Memory) -> Recorder<'m> {
        Recorder { memory, reads: Vec::new() }
    }

    /// The memory of a sample with these true frames, as far as it is there.
    pub fn pieces(mut self, sp: u64, frames: &[TrueFrame]) -> Vec<Piece> {
        let cfas = || frames.iter().filter_map(|frame| frame.cfa);
        let top = cfas().filter(|cfa| cfa.wrapping_sub(sp) < MAX_STACK).max().unwrap_or(sp);
        let mut wanted = std::mem::take(&mut self.reads);
        let ranges = cfas().map(|cfa| (cfa.saturating_sub(BELOW_CFA), cfa));
        let ranges = ranges.chain([(sp.saturating_sub(RED_ZONE), top)]);
        wanted.extend(ranges.filter(|(start, end)| start < end).map(|(s, e)| (s, e - 1)));
        wanted.sort_unstable();
        let mut pieces: Vec<Piece> = Vec::new();
        // Everything below is decided.
        let mut decided = 0;
        for (first, last) in wanted {
            let mut at = first.max(decided);
            while at <= last {
                let last = last.min(at | (PAGE - 1));
                self.append(at, last, &mut pieces);
                let Some(next) = last.checked_add(1) else { return pieces };
                (at, decided) = (next, next);
            }
        }
        pieces
    }

    /// Reads from `first` to `last`, of one page.
    fn append(&mut self, first: u64, last: u64, pieces: &mut Vec<Piece>) {
        let mut bytes = [0; PAGE as usize];
        let bytes = &mut bytes[..(last - first) as usize + 1];
        if !self.memory.read(first, bytes) {
            return;
        }
        match pieces.last_mut() {
            Some(p) if p.address.0 + p.bytes.0.len() as u64 == first => {
                p.bytes.0.extend_from_slice(bytes);
            }
            _ => pieces.push(Piece { address: Hex(first), bytes: Bytes(bytes.to_vec()) }),
        }
    }
}

/// The memory of a sample, to be read.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'s>(pub &'s [Piece]);

impl Pieces<'_> {
    /// Those bytes from `address` on that follow each other.
    fn from(&self, address: u64) -> Option<&[u8]> {
        let after = self.0.partition_point(|piece| piece.address.0 <= address);
        let piece = self.0.get(after.checked_sub(1)?)?;
        piece.bytes.0.get(usize::try_from(address - piece.address.0).ok()?..)
    }
}

impl Memory for Pieces<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        match self.from(address).and_then(|from| from.get(..bytes.len())) {
            Some(found) => {
                bytes.copy_from_slice(found);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unwinder::{CodeAddress, InstructionPointer};

    /// Memory of two pages, each byte that of its address.
    struct Two;

    impl Memory for Two {
        fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
            let end = address.saturating_add(bytes.len() as u64);
            let there = address >= 0x7000_0000 && end <= 0x7000_2000;
            bytes.iter_mut().zip(address..).for_each(|(b, a)| *b = a as u8);
            there
        }
    }

    #[test]
    fn the_stack_and_what_was_read() {
        let address: CodeAddress = InstructionPointer(1).into();
        let frame = |cfa| TrueFrame { address, cfa: Some(cfa), entry: None };
        let (sp, mut two) = (0x7000_0f00, Two);
        let mut recorder = Recorder::new(&mut two);
        assert!(recorder.word(0x7000_1800).is_some() && recorder.word(0x6000_0000).is_none());
        let pieces = recorder.pieces(sp, &[frame(sp + 0x200), frame(u64::MAX)]);
        let ranges: Vec<_> = pieces.iter().map(|p| (p.address.0, p.bytes.0.len())).collect();
        assert_eq!(ranges, [(sp - 128, 0x280), (0x7000_1800, 8)]);
        let mut memory = Pieces(&pieces);
        assert_eq!(memory.word(0x7000_0fff), Some(0x0605_0403_0201_00ff));
        assert_eq!((memory.word(sp - 129), memory.word(sp + 0x1f9)), (None, None));
        // The second page only, and the end of the address space.
        let mut recorder = Recorder::new(&mut two);
        recorder.reads.push((u64::MAX, u64::MAX));
        let pieces = recorder.pieces(0x7000_1ffc, &[frame(0x7000_3000)]);
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].address, Hex(0x7000_1ffc - 128));
    }
}
