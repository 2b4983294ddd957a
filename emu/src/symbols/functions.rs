//! The functions of a file, to be listed and to be found by name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::demangle::demangle;
use super::elf::Elf;
use super::table::SymbolTable;

/// The code symbols of a file: by address, none overlapping another, and by name.
pub struct Functions<'b> {
    bytes: &'b [u8],
    table: SymbolTable,
    /// Every name, aliases included, with its address; ascending.
    names: Vec<(u64, Range<usize>)>,
    /// The addresses of each name, ascending and distinct; made when it is first asked for.
    by_name: OnceLock<HashMap<&'b [u8], Vec<u64>>>,
}

impl<'b> Functions<'b> {
    /// Those of the ELF file `bytes`: none, if it has no symbols or is none of ours.
    pub fn read(bytes: &'b [u8]) -> Functions<'b> {
        let raw = Elf::parse(bytes).map(|elf| elf.symbols(bytes)).unwrap_or_default();
        let mut names: Vec<_> = raw.iter().map(|s| (s.addr, s.name.clone())).collect();
        names.sort_unstable_by_key(|(addr, name)| (*addr, name.start));
        Functions { bytes, table: SymbolTable::new(bytes, raw), names, by_name: OnceLock::new() }
    }

    /// The lowest stretch of code that has a name and does not end at or below `addr`.
    pub fn at_or_above(&self, addr: u64) -> Option<Range<u64>> {
        self.table.at_or_above(addr)
    }

    /// The highest stretch of code that has a name and does not start above `addr`.
    pub fn at_or_below(&self, addr: u64) -> Option<Range<u64>> {
        self.table.at_or_below(addr)
    }

    /// The demangled name of what covers `addr`, and where that begins.
    pub fn name(&self, addr: u64) -> Option<(Arc<str>, u64)> {
        self.table.find(self.bytes, addr)
    }

    /// What covers `addr`: its name as the file has it, and how many symbols with the same name
    /// are at lower addresses. Together they tell local functions of one name apart.
    pub fn nth_of_name(&self, addr: u64) -> Option<(String, u64)> {
        let (_, start) = self.name(addr)?;
        let range = self.table.find_name(addr)?;
        let starts = self.starts_by_name().get(self.bytes.get(range.clone())?)?;
        let before = starts.partition_point(|s| *s < start);
        Some((self.text(&range).into_owned(), before as u64))
    }

    fn starts_by_name(&self) -> &HashMap<&'b [u8], Vec<u64>> {
        self.by_name.get_or_init(|| {
            let mut starts: HashMap<&[u8], Vec<u64>> = HashMap::new();
            for (addr, range) in &self.names {
                let name = self.bytes.get(range.clone()).unwrap_or_default();
                let of_name = starts.entry(name).or_default();
                if of_name.last() != Some(addr) {
                    of_name.push(*addr);
                }
            }
            starts
        })
    }

    /// The addresses of the symbols called `name`, mangled or not; ascending, each of them once.
    pub fn named(&self, name: &str) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::new();
        for (addr, range) in &self.names {
            let mangled = self.text(range);
            if mangled == name || is_mangled(&mangled) && demangle(&mangled) == name {
                found.push(*addr);
            }
        }
        found.dedup();
        found
    }

    /// All names, demangled, in the order of addresses.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.names.iter().map(|(_, range)| demangle(&self.text(range)))
    }

    fn text(&self, range: &Range<usize>) -> Cow<'b, str> {
        String::from_utf8_lossy(self.bytes.get(range.clone()).unwrap_or_default())
    }
}

/// What [`demangle`] may change: everything else is its own name.
fn is_mangled(name: &str) -> bool {
    name.starts_with('_')
}

impl fmt::Debug for Functions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").field("names", &self.names.len()).finish_non_exhaustive()
    }
}
