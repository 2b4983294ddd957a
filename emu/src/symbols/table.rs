//! A symbol table that maps every address to at most one symbol.
//!
//! Symbols of a file overlap: aliases at one address, labels inside functions,
//! functions without a size. The table is made flat once:
//!
//! ```text
//! outer   ├──────────────────┤            outer ├────┤     ├───────┤
//! inner        ├─────┤             ─►     inner      ├─────┤
//! label                   ├ (no size)     label  – dropped: outer is known to reach further
//! last                       ├ (no size)  last                    ├──► next symbol or section end
//! ```

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::demangle::demangle;

/// A symbol as the file has it.
#[derive(Clone, Debug)]
pub struct RawSymbol {
    /// `st_value`
    pub addr: u64,
    /// `st_size`, 0 if unknown.
    pub size: u64,
    /// End of its section: a symbol without size reaches no further.
    pub limit: u64,
    /// Where its name is in the file.
    pub name: Range<usize>,
    /// Not `STB_LOCAL`.
    pub global: bool,
    /// `STB_WEAK`
    pub weak: bool,
}

/// One symbol of the table.
#[derive(Debug)]
struct Symbol {
    start: u64,
    name: Range<usize>,
    demangled: OnceLock<Arc<str>>,
}

/// Addresses to symbols.
#[derive(Debug, Default)]
pub struct SymbolTable {
    /// Disjoint and ascending: range and index into `symbols`.
    ranges: Vec<(Range<u64>, usize)>,
    symbols: Vec<Symbol>,
}

impl SymbolTable {
    /// Flattens the symbols of the file `bytes`.
    pub fn new(bytes: &[u8], mut raw: Vec<RawSymbol>) -> SymbolTable {
        // Of several at one address the first in this order stays.
        raw.sort_unstable_by(|a, b| a.addr.cmp(&b.addr).then_with(|| prefer(bytes, a, b)));
        raw.dedup_by_key(|s| s.addr);
        let ranges = flatten(&raw);
        let symbols = raw
            .into_iter()
            .map(|s| Symbol { start: s.addr, name: s.name, demangled: OnceLock::new() })
            .collect();
        SymbolTable { ranges, symbols }
    }

    /// The lowest range of a symbol that does not end at or below `addr`.
    pub fn at_or_above(&self, addr: u64) -> Option<Range<u64>> {
        let i = self.ranges.partition_point(|(r, _)| r.end <= addr);
        self.ranges.get(i).map(|(range, _)| range.clone())
    }

    /// The highest range of a symbol that does not start above `addr`.
    pub fn at_or_below(&self, addr: u64) -> Option<Range<u64>> {
        let i = self.ranges.partition_point(|(r, _)| r.start <= addr);
        Some(self.ranges.get(i.checked_sub(1)?)?.0.clone())
    }

    /// The symbol that covers `addr`: its demangled name and its start.
    pub fn find(&self, bytes: &[u8], addr: u64) -> Option<(Arc<str>, u64)> {
        self.find_range(bytes, addr).map(|(name, range)| (name, range.start))
    }

    /// Where in the file the name of the symbol that covers `addr` is.
    pub fn find_name(&self, addr: u64) -> Option<Range<usize>> {
        self.covering(addr).map(|(_, symbol)| symbol.name.clone())
    }

    fn covering(&self, addr: u64) -> Option<(&Range<u64>, &Symbol)> {
        let i = self.ranges.partition_point(|(r, _)| r.end <= addr);
        let (range, symbol) = self.ranges.get(i).filter(|(range, _)| range.contains(&addr))?;
        Some((range, &self.symbols[*symbol])) // ranges are made from the same list
    }

    /// As [`SymbolTable::find`], and up to where the symbol reaches.
    pub fn find_range(&self, bytes: &[u8], addr: u64) -> Option<(Arc<str>, Range<u64>)> {
        let (range, symbol) = self.covering(addr)?;
        let name = symbol.demangled.get_or_init(|| {
            let raw = bytes.get(symbol.name.clone()).unwrap_or_default();
            demangle(&String::from_utf8_lossy(raw)).into()
        });
        Some((name.clone(), symbol.start..range.end))
    }
}

/// Order among symbols at one address, best first: the rules of `perf`
/// (`choose_best_symbol`), so that both print the same name.
fn prefer(bytes: &[u8], a: &RawSymbol, b: &RawSymbol) -> Ordering {
    let name = |s: &RawSymbol| bytes.get(s.name.clone()).unwrap_or_default();
    let underscores = |s: &RawSymbol| name(s).iter().take_while(|&&b| b == b'_').count();
    let key = |s: &RawSymbol| (s.size == 0, s.weak, !s.global, underscores(s));
    key(a)
        .cmp(&key(b))
        .then_with(|| name(b).len().cmp(&name(a).len()))
        // The file's order must not decide.
        .then_with(|| name(a).cmp(name(b)))
        .then_with(|| (a.size, a.limit).cmp(&(b.size, b.limit)))
}

/// Disjoint ranges from symbols with ascending, distinct addresses.
fn flatten(symbols: &[RawSymbol]) -> Vec<(Range<u64>, usize)> {
    let mut out = Sweep::default();
    for (i, s) in symbols.iter().enumerate() {
        out.close_until(s.addr);
        if s.size > 0 {
            out.open(s.addr, s.addr.saturating_add(s.size), i);
        } else if out.open.is_empty() {
            let next = symbols.get(i + 1).map_or(u64::MAX, |n| n.addr);
            out.open(s.addr, next.min(s.limit), i);
        }
    }
    out.close_until(u64::MAX);
    out.ranges
}

/// The state of a pass over the addresses.
#[derive(Default)]
struct Sweep {
    ranges: Vec<(Range<u64>, usize)>,
    /// Symbols that have begun, innermost last: end and index.
    open: Vec<(u64, usize)>,
    /// Everything below is decided.
    at: u64,
}

impl Sweep {
    /// Gives the addresses below `limit` to the symbols that are open.
    fn close_until(&mut self, limit: u64) {
        while let Some(&(end, symbol)) = self.open.last() {
            let stop = end.min(limit);
            if self.at < stop {
                self.ranges.push((self.at..stop, symbol));
                self.at = stop;
            }
            if end > limit {
                break;
            }
            self.open.pop();
        }
    }

    fn open(&mut self, start: u64, end: u64, symbol: usize) {
        self.at = start;
        if end > start {
            self.open.push((end, symbol));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// Symbols named by one letter each: (name, address, size).
    fn table(symbols: &[(char, u64, u64)]) -> (Vec<u8>, SymbolTable) {
        let bytes: Vec<u8> = symbols.iter().map(|s| s.0 as u8).collect();
        let raw =
            (0..).zip(symbols).map(|(i, &(_, addr, size))| raw(addr, size, i..i + 1)).collect();
        let t = SymbolTable::new(&bytes, raw);
        (bytes, t)
    }

    fn raw(addr: u64, size: u64, name: Range<usize>) -> RawSymbol {
        RawSymbol { addr, size, limit: 0x1000, name, global: true, weak: false }
    }

    fn names(symbols: &[(char, u64, u64)], addrs: &[u64]) -> String {
        let (bytes, t) = table(symbols);
        addrs
            .iter()
            .map(|&a| t.find(&bytes, a).map_or("-".into(), |(n, _)| n.to_string()))
            .collect()
    }

    #[test]
    fn the_innermost_wins_and_the_outer_resumes() {
        let s = [('o', 0x100, 0x100), ('i', 0x140, 0x10)];
        assert_eq!(names(&s, &[0xff, 0x100, 0x13f, 0x140, 0x14f, 0x150, 0x1ff, 0x200]), "-ooiioo-");
    }

    #[test]
    fn overlap_without_nesting() {
        let s = [('a', 0x100, 0x20), ('b', 0x110, 0x40), ('c', 0x118, 4)];
        assert_eq!(names(&s, &[0x100, 0x110, 0x118, 0x11c, 0x120, 0x14f, 0x150]), "abcbbb-");
    }

    #[test]
    fn no_size_reaches_to_the_next_symbol_or_the_end_of_the_section() {
        let s = [('a', 0x100, 0), ('b', 0x200, 0), ('f', 0x300, 0x40), ('l', 0x310, 0)];
        assert_eq!(names(&s, &[0x1ff, 0x200, 0x310, 0x33f, 0x340]), "abff-");
        assert_eq!(names(&[('z', 0x100, 0)], &[0x100, 0xfff, 0x1000]), "zz-");
    }

    #[test]
    fn extreme_sizes() {
        let s = [('a', 0, u64::MAX), ('b', 5, u64::MAX), ('z', u64::MAX, 1)];
        assert_eq!(names(&s, &[0, 4, 5, u64::MAX - 1]), "aabb");
        table(&[('z', u64::MAX, u64::MAX)]);
    }

    #[test]
    fn which_alias() {
        let bytes = b"weak _glob local longer";
        let mut all = vec![
            RawSymbol { weak: true, ..raw(1, 4, 0..4) },
            raw(1, 4, 5..10),
            RawSymbol { global: false, ..raw(1, 4, 11..16) },
            raw(1, 4, 17..23),
            raw(1, 0, 17..23),
        ];
        for _ in 0..all.len() {
            all.rotate_left(1);
            let t = SymbolTable::new(bytes, all.clone());
            assert_eq!(&*t.find(bytes, 2).unwrap().0, "longer");
        }
    }
}
