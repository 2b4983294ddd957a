//! A file's code by link-time address: bytes, functions, sections.

use std::ops::Range;
use std::sync::Arc;

use super::elf::Elf;
use super::table::SymbolTable;

/// See the module.
#[derive(Debug)]
pub struct Code {
    bytes: Arc<[u8]>,
    elf: Elf,
    symbols: SymbolTable,
}

impl Code {
    /// The code of a 64-bit little-endian ELF file; `None` if it is none.
    pub fn new(bytes: Arc<[u8]>) -> Option<Code> {
        let elf = Elf::parse(&bytes)?;
        let symbols = SymbolTable::new(&bytes, elf.symbols(&bytes));
        Some(Code { bytes, elf, symbols })
    }

    /// The file's bytes from `vaddr` to the end of its segment; empty outside.
    pub fn bytes_from(&self, vaddr: u64) -> &[u8] {
        let found = self.elf.segments.iter().find_map(|s| {
            let into = vaddr.checked_sub(s.vaddr).filter(|&into| into < s.size)?;
            let start = usize::try_from(s.offset.checked_add(into)?).ok()?;
            let rest = self.bytes.get(start..)?;
            let len = usize::try_from(s.size - into).ok()?;
            Some(rest.get(..len).unwrap_or(rest))
        });
        found.unwrap_or_default()
    }

    /// The bytes of `range` that there are.
    pub fn bytes(&self, range: Range<u64>) -> &[u8] {
        let bytes = self.bytes_from(range.start);
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        bytes.get(..len).unwrap_or(bytes)
    }

    /// The file offset that is loaded to `vaddr`.
    pub fn offset(&self, vaddr: u64) -> Option<u64> {
        self.elf.segments.iter().find_map(|s| {
            let into = vaddr.checked_sub(s.vaddr).filter(|&into| into < s.size)?;
            s.offset.checked_add(into)
        })
    }

    /// The symbol that covers `vaddr`: its demangled name and its range, less what symbols
    /// inside it cover.
    pub fn function(&self, vaddr: u64) -> Option<(Arc<str>, Range<u64>)> {
        self.symbols.find_range(&self.bytes, vaddr)
    }

    /// The name of the section that `vaddr` is in.
    pub fn section(&self, vaddr: u64) -> Option<String> {
        self.elf.section_at(&self.bytes, vaddr)
    }
}
