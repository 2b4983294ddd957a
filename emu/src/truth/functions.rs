//! Where functions are.
//!
//! A jump to a function's first instruction may be a tail call or a new stack's beginning;
//! no other jump is. That is all that the truth asks of tables: frames never come from them.

use std::ops::Range;
use std::sync::Arc;

use goblin::elf::Elf;
use goblin::elf::sym::STT_FUNC;
use unwinder::dwarf::{Sections, Table};
use unwinder::elf::{Image, bias};

/// Functions of the files that are mapped.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// By ascending starts, which are distinct.
    ranges: Vec<Range<u64>>,
    /// Jumps that were asked about, by their addresses.
    jumps: Vec<Jump>,
}

/// A jump, and whether it leads from one function to the start of another one.
#[derive(Clone, Copy, Debug, Default)]
struct Jump {
    next: u64,
    to: u64,
    is_tail_call: bool,
}

/// Jumps that are remembered.
const JUMPS: usize = 256;

impl Functions {
    /// None yet.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Whether a function starts at `addr`.
    pub fn starts_at(&self, addr: u64) -> bool {
        self.ranges.binary_search_by_key(&addr, |r| r.start).is_ok()
    }

    /// Start of the function that `addr` is in.
    pub fn start_of(&self, addr: u64) -> Option<u64> {
        let behind = self.ranges.partition_point(|r| r.start <= addr);
        let last = self.ranges.get(behind.checked_sub(1)?)?;
        last.contains(&addr).then_some(last.start)
    }

    /// Whether a jump that ends before `next` leads from one function to the start of another
    /// one. The same jump comes again and again, so that the last ones are remembered.
    pub fn is_tail_call(&mut self, next: u64, to: u64) -> bool {
        let slot = (next >> 1) as usize % JUMPS;
        match self.jumps.get(slot) {
            Some(known) if (known.next, known.to) == (next, to) => return known.is_tail_call,
            Some(_) => {}
            None => self.jumps.resize(JUMPS, Jump::default()),
        }
        let own = self.start_of(next.wrapping_sub(1));
        let is_tail_call = own != Some(to) && self.starts_at(to);
        self.jumps[slot] = Jump { next, to, is_tail_call };
        is_tail_call
    }

    /// Whether both addresses are in one function.
    pub fn same(&self, a: u64, b: u64) -> bool {
        self.start_of(a).is_some_and(|start| self.start_of(b) == Some(start))
    }

    /// Adds functions; of two with the same start the longer one stays.
    pub fn add(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.ranges.extend(ranges.into_iter().filter(|r| !r.is_empty()));
        self.ranges.sort_unstable_by_key(|r| (r.start, std::cmp::Reverse(r.end)));
        self.ranges.dedup_by_key(|r| r.start);
        self.jumps.clear();
    }

    /// Adds the functions of a file of which offset `pgoff` is mapped at `addr`: its symbols
    /// of type FUNC and what its frame description entries cover, but not the parts that
    /// compilers put apart as `.cold`. What is no ELF file has none.
    pub fn map(&mut self, bytes: &Arc<[u8]>, addr: u64, pgoff: u64) {
        if let Some(bias) = bias(bytes, addr, pgoff) {
            self.map_at(bytes, bias);
        }
    }

    /// As [`Functions::map`], of a file that is `bias` bytes above where it was linked.
    pub fn map_at(&mut self, bytes: &Arc<[u8]>, bias: u64) {
        let Ok(elf) = Elf::parse(bytes) else { return };
        let (mut found, mut cold) = symbols(&elf);
        cold.sort_unstable();
        found.extend(described(bytes).filter(|r| cold.binary_search(&r.start).is_err()));
        self.add(found.into_iter().map(|r| r.start.wrapping_add(bias)..r.end.wrapping_add(bias)));
    }
}

/// Ranges of functions, and starts of cold parts.
fn symbols(elf: &Elf<'_>) -> (Vec<Range<u64>>, Vec<u64>) {
    /// A longer name is not looked into: names may overlap, a hostile file's all of them.
    const LONGEST: usize = 1 << 10;
    let (mut functions, mut cold) = (Vec::new(), Vec::new());
    for symbol in elf.syms.iter().filter(|s| s.st_type() == STT_FUNC && s.st_value != 0) {
        let name = elf.strtab.get_at(symbol.st_name).unwrap_or_default();
        let (start, size) = (symbol.st_value, symbol.st_size.max(1));
        if name.len() <= LONGEST && name.contains(".cold") {
            cold.push(start);
        } else {
            functions.push(start..start.saturating_add(size));
        }
    }
    (functions, cold)
}

/// Ranges of the entries of `.eh_frame` or `.debug_frame`.
fn described(bytes: &Arc<[u8]>) -> impl Iterator<Item = Range<u64>> {
    let image = Image::read(Arc::clone(bytes)).ok();
    let tables = image.into_iter().flat_map(|Image { arch, sections: s, .. }| {
        let eh_frame = s.eh_frame.map(|frame| {
            let (header, text, got) = (s.eh_frame_hdr, s.text, s.got);
            Sections::EhFrame { frame, header, text, got }
        });
        let debug_frame = s.debug_frame.map(|bytes| Sections::DebugFrame { bytes });
        let all = [eh_frame, debug_frame].into_iter().flatten();
        all.filter_map(move |sections| Some(Table::new(arch, sections).ok()?.0))
    });
    tables.flat_map(|table| {
        let entries = table.entries().flatten().map(|entry| entry.range.0..entry.range.1);
        entries.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_ranges() {
        let mut functions = Functions::new();
        functions.add([0x300..0x310, 0x100..0x180, 0x200..0x200]);
        functions.add([0x100..0x120, 0x180..0x1a0]);
        assert!(functions.starts_at(0x100) && functions.starts_at(0x180));
        assert!(!functions.starts_at(0x101) && !functions.starts_at(0x200));
        // The longer one of two stays.
        assert_eq!(functions.start_of(0x17f), Some(0x100));
        assert_eq!(functions.start_of(0x1a0), None);
        assert_eq!(functions.start_of(0xff), None);
        for _ in 0..2 {
            assert!(functions.is_tail_call(0x110, 0x300) && !functions.is_tail_call(0x110, 0x301));
            assert!(!functions.is_tail_call(0x110, 0x100), "a loop");
        }
        functions.add(std::iter::once(0x301..0x308));
        assert!(functions.is_tail_call(0x110, 0x301), "asked anew");
        assert!(functions.same(0x300, 0x300) && !functions.same(0x17f, 0x180));
        assert!(!functions.same(0x1a0, 0x1a0), "not in a function");
    }

    #[test]
    fn what_is_no_file_has_no_functions() {
        let mut functions = Functions::new();
        for junk in [&b""[..], b"\x7fELF", &[0xff; 4096]] {
            functions.map(&junk.into(), 0x40_0000, 0);
        }
        assert!(functions.ranges.is_empty());
    }
}
