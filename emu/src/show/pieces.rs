//! The pieces that code falls into: by symbols, and where there are none by table entries.
//!
//! ```text
//! symbols   ├──── f ────┤          ├─ g ─┤
//! tables    ├──── FDE ──┤    ├ FDE ┤         ├ FDE ┤
//! pieces    ├──── f ────┤gap ├─────┤─ g ─┤gap├─────┤ gap
//! ```

use std::ops::{Deref, Range};
use std::sync::Arc;

use unwinder::Module;
use unwinder::dwarf::SectionName;
use unwinder::sframe::Version;

use crate::symbols::Functions;

/// A stretch of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its addresses, as linked.
    pub range: Range<u64>,
    /// Demangled name of the symbol that covers it, and where that begins: below the piece, if
    /// another symbol lies inside it.
    pub symbol: Option<(Arc<str>, u64)>,
    /// The FDE that covers its first address.
    pub fde: Option<Fde>,
    /// The SFrame function that covers its first address.
    pub sframe: Option<SframeFunction>,
}

impl Piece {
    /// Nothing is known of it: padding, or code without a name.
    pub fn is_gap(&self) -> bool {
        self.symbol.is_none() && self.fde.is_none() && self.sframe.is_none()
    }
}

/// A frame description entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fde {
    /// Which section it is in.
    pub section: SectionName,
    /// Offset in the section.
    pub offset: u64,
}

/// A function's entry in `.sframe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SframeFunction {
    /// Version of its section.
    pub version: Version,
    /// Offset of the entry in the section.
    pub offset: u64,
}

/// Finds pieces.
#[derive(Debug)]
pub struct Pieces<'b> {
    symbols: Functions<'b>,
    fdes: Entries<Fde>,
    sframe: Entries<SframeFunction>,
}

impl<'b> Pieces<'b> {
    /// Those of the file `bytes`, whose tables are those of `module`, with bias 0.
    pub fn new<D: Deref<Target = [u8]>>(bytes: &'b [u8], module: &Module<D>) -> Pieces<'b> {
        let mut fdes = Entries::default();
        // Where both have an entry, that of `.eh_frame` is used.
        for table in [module.debug_frame(), module.eh_frame()].into_iter().flatten() {
            let section = table.name();
            let mut these = Entries::default();
            for entry in table.entries().flatten() {
                these.push(entry.range.0..entry.range.1, Fde { section, offset: entry.offset });
            }
            these.finish();
            fdes = these.or(fdes);
        }
        let mut sframe = Entries::default();
        if let Some(table) = module.sframe() {
            for function in table.functions().flatten() {
                let (version, offset) = (function.version, function.offset);
                sframe.push(function.range(), SframeFunction { version, offset });
            }
        }
        sframe.finish();
        Pieces { symbols: Functions::read(bytes), fdes, sframe }
    }

    /// The symbols.
    pub fn symbols(&self) -> &Functions<'b> {
        &self.symbols
    }

    /// The piece that begins at `address`, if all code ends at `limit`.
    pub fn from(&self, address: u64, limit: u64) -> Piece {
        let symbol = self.symbols.at_or_above(address);
        let fde = self.fdes.at_or_above(address);
        let sframe = self.sframe.at_or_above(address);
        let covers = |range: &Range<u64>| range.contains(&address);
        let ranges =
            [symbol, fde.map(|(range, _)| range.clone()), sframe.map(|(range, _)| range.clone())];
        // The best that covers the address tells the end; what is better ends it sooner.
        let mut end = limit;
        for range in ranges.iter().flatten() {
            if covers(range) {
                end = end.min(range.end);
                break;
            }
            end = end.min(range.start);
        }
        Piece {
            range: address..end.max(address.saturating_add(1)),
            symbol: self.symbols.name(address),
            fde: fde.filter(|(range, _)| covers(range)).map(|(_, fde)| *fde),
            sframe: sframe.filter(|(range, _)| covers(range)).map(|(_, function)| *function),
        }
    }

    /// The piece that `address` is in, if code goes from `start` to `limit`.
    pub fn around(&self, address: u64, start: u64, limit: u64) -> Piece {
        let mut from = start;
        for below in [
            self.symbols.at_or_below(address),
            self.fdes.at_or_below(address),
            self.sframe.at_or_below(address),
        ] {
            let Some(range) = below else { continue };
            if range.contains(&address) {
                from = from.max(range.start);
                break;
            }
            from = from.max(range.end);
        }
        self.from(from, limit)
    }
}

/// Entries of a table by address.
#[derive(Debug)]
struct Entries<T>(Vec<(Range<u64>, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries(Vec::new())
    }
}

impl<T: Copy> Entries<T> {
    fn push(&mut self, range: Range<u64>, entry: T) {
        if !range.is_empty() {
            self.0.push((range, entry));
        }
    }

    /// Sorts them. Of two that overlap the one with the higher start is cut.
    fn finish(&mut self) {
        self.0.sort_by_key(|(range, _)| range.start);
        let mut end = 0;
        self.0.retain_mut(|(range, _)| {
            range.start = range.start.max(end);
            end = end.max(range.end);
            !range.is_empty()
        });
    }

    /// These, and those of `others` where there is none.
    fn or(mut self, others: Entries<T>) -> Entries<T> {
        let free = |range: &Range<u64>| {
            self.at_or_above(range.start).is_none_or(|(ours, _)| ours.start >= range.end)
        };
        let added: Vec<_> = others.0.into_iter().filter(|(range, _)| free(range)).collect();
        self.0.extend(added);
        self.finish();
        self
    }

    /// The lowest one that does not end at or below `address`.
    fn at_or_above(&self, address: u64) -> Option<(&Range<u64>, &T)> {
        let i = self.0.partition_point(|(range, _)| range.end <= address);
        self.0.get(i).map(|(range, entry)| (range, entry))
    }

    /// The highest one that does not start above `address`.
    fn at_or_below(&self, address: u64) -> Option<Range<u64>> {
        let i = self.0.partition_point(|(range, _)| range.start <= address);
        Some(self.0.get(i.checked_sub(1)?)?.0.clone())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn pieces(arch: &str, name: &str, check: impl FnOnce(&Pieces<'_>, Range<u64>)) {
        let path = guests::default_dir().join("bin").join(arch).join(name);
        let bytes = std::fs::read(path).unwrap();
        let module = Module::from_elf(name, &bytes[..], 0).unwrap();
        let code = crate::show::Code::new(module.arch(), &bytes);
        let part = code.parts().iter().find(|p| p.name.as_deref() == Some(".text")).unwrap();
        check(&Pieces::new(&bytes, &module), part.range.clone());
    }

    #[test]
    fn pieces_follow_each_other_and_are_found_from_inside() {
        for arch in ["x86_64", "aarch64"] {
            for name in ["recursion", "recursion-glibc", "recursion-pie"] {
                pieces(arch, name, |pieces, part| {
                    let (mut at, mut known, mut gaps) = (part.start, 0, 0);
                    while at < part.end {
                        let piece = pieces.from(at, part.end);
                        assert!(piece.range.start == at && piece.range.end > at);
                        for inside in [at, at + (piece.range.end - at) / 2, piece.range.end - 1] {
                            assert_eq!(pieces.around(inside, part.start, part.end), piece);
                        }
                        *(if piece.is_gap() { &mut gaps } else { &mut known }) += 1;
                        at = piece.range.end;
                    }
                    assert!(at == part.end && known > 10 && gaps > 0, "{arch} {name}");
                });
            }
        }
    }

    #[test]
    fn overlapping_entries_are_cut() {
        let mut entries = Entries::default();
        for (range, name) in [(5..9, 'b'), (0..6, 'a'), (1..3, 'x'), (9..9, 'y')] {
            entries.push(range, name);
        }
        entries.finish();
        assert_eq!(entries.0, [(0..6, 'a'), (6..9, 'b')]);
        let mut others = Entries::default();
        for (range, name) in [(8..12, 'p'), (9..10, 'q'), (20..21, 'r')] {
            others.push(range, name);
        }
        let all = entries.or(others);
        assert_eq!(all.0.iter().map(|(_, name)| *name).collect::<String>(), "abqr");
        assert_eq!(all.at_or_below(15), Some(9..10));
    }
}
