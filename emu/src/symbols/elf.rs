//! The parts of an ELF file that symbolization reads: loaded segments,
//! sections, symbols. Every offset and count in the file is taken for a lie
//! until it fits the file.

use std::ops::Range;

use goblin::container::{Container, Ctx};
use goblin::elf::header::{self, Header};
use goblin::elf::program_header::{PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{
    SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB,
    SectionHeader,
};
use goblin::elf::sym::{self, Sym, Symtab};

use super::table::RawSymbol;

/// `e_shnum` and `e_phnum` above which a file is not read: far beyond any
/// linker's output, and low enough to bound the tables.
const MAX_HEADERS: usize = 1 << 16;

/// Longest symbol name that is read.
const MAX_NAME: usize = 8 << 10;

/// A loaded segment: file offsets to virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_offset`
    pub offset: u64,
    /// `p_filesz`
    pub size: u64,
    /// `p_vaddr`
    pub vaddr: u64,
}

/// The parsed headers of a 64-bit little-endian file.
#[derive(Debug)]
pub struct Elf {
    ctx: Ctx,
    /// `PT_LOAD` segments, in file order.
    pub segments: Vec<Segment>,
    sections: Vec<SectionHeader>,
    names: Range<usize>,
}

impl Elf {
    /// Reads the headers; `None` if `bytes` are no ELF file of ours.
    pub fn parse(bytes: &[u8]) -> Option<Elf> {
        if bytes.len() < header::header64::SIZEOF_EHDR {
            return None;
        }
        let h = Header::parse_magic_checked(bytes)?;
        let ctx = Ctx::new(Container::Big, scroll_le());
        let count = usize::from(h.e_phnum);
        let offset = usize::try_from(h.e_phoff).ok()?;
        // Either table may be absent or damaged without harm to the other.
        let segments = ProgramHeader::parse(bytes, offset, count.min(MAX_HEADERS), ctx)
            .unwrap_or_default()
            .iter()
            .filter(|p| p.p_type == PT_LOAD)
            .map(|p| Segment { offset: p.p_offset, size: p.p_filesz, vaddr: p.p_vaddr })
            .collect();
        let sections = usize::try_from(h.e_shoff)
            .ok()
            .and_then(|at| SectionHeader::parse(bytes, at, usize::from(h.e_shnum), ctx).ok())
            .filter(|s| s.len() <= MAX_HEADERS)
            .unwrap_or_default();
        let names = sections
            .get(usize::from(h.e_shstrndx))
            .and_then(|s| file_range(s, bytes.len()))
            .unwrap_or_default();
        Some(Elf { ctx, segments, sections, names })
    }

    /// The virtual address that is loaded from file offset `offset`.
    pub fn vaddr(&self, offset: u64) -> Option<u64> {
        let s = self
            .segments
            .iter()
            .find(|s| offset.checked_sub(s.offset).is_some_and(|d| d < s.size))?;
        Some(s.vaddr.wrapping_add(offset - s.offset))
    }

    /// The content of a section; empty if it is absent, compressed or broken.
    pub fn section(&self, bytes: &[u8], name: &str) -> Range<usize> {
        self.sections
            .iter()
            .filter(|s| u64::from(SHF_COMPRESSED) & s.sh_flags == 0)
            .find(|s| string(bytes, &self.names, s.sh_name) == Some(name.as_bytes()))
            .and_then(|s| file_range(s, bytes.len()))
            .unwrap_or_default()
    }

    /// The name of the loaded section that holds `vaddr`.
    pub fn section_at(&self, bytes: &[u8], vaddr: u64) -> Option<String> {
        let holds = |s: &&SectionHeader| {
            let inside = vaddr.checked_sub(s.sh_addr).is_some_and(|into| into < s.sh_size);
            inside && s.sh_flags & u64::from(SHF_ALLOC) != 0
        };
        let name = string(bytes, &self.names, self.sections.iter().find(holds)?.sh_name)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// The code symbols of `.symtab`, or of `.dynsym` if that has none.
    pub fn symbols(&self, bytes: &[u8]) -> Vec<RawSymbol> {
        let of = |kind| {
            self.sections
                .iter()
                .find(|s| s.sh_type == kind)
                .map(|s| self.symbols_of(bytes, s))
                .unwrap_or_default()
        };
        let symbols = of(SHT_SYMTAB);
        if symbols.is_empty() { of(SHT_DYNSYM) } else { symbols }
    }

    fn symbols_of(&self, bytes: &[u8], table: &SectionHeader) -> Vec<RawSymbol> {
        let strings = usize::try_from(table.sh_link)
            .ok()
            .and_then(|i| self.sections.get(i))
            .and_then(|s| file_range(s, bytes.len()));
        let (Some(strings), Some(range)) = (strings, file_range(table, bytes.len())) else {
            return Vec::new();
        };
        let count = range.len() / sym::sym64::SIZEOF_SYM;
        let Ok(symbols) = Symtab::parse(bytes, range.start, count, self.ctx) else {
            return Vec::new();
        };
        // Names may overlap, a hostile file's all of them: bound their sum.
        let mut budget = 4 * bytes.len();
        let code = symbols.iter().filter_map(|s| {
            let symbol = self.code_symbol(bytes, &strings, &s)?;
            budget = budget.checked_sub(symbol.name.len())?;
            Some(symbol)
        });
        code.collect()
    }

    /// A symbol that names code: a function, or a label of assembly.
    fn code_symbol(&self, bytes: &[u8], strings: &Range<usize>, s: &Sym) -> Option<RawSymbol> {
        if s.st_shndx == SHN_UNDEF as usize {
            return None;
        }
        let section = self.sections.get(s.st_shndx);
        let name = string(bytes, strings, s.st_name)?;
        match s.st_type() {
            sym::STT_FUNC | sym::STT_GNU_IFUNC => {}
            // Mapping symbols ($x, $d) and .L labels are no names of code.
            sym::STT_NOTYPE
                if section.is_some_and(|h| h.sh_flags & u64::from(SHF_EXECINSTR) != 0)
                    && !name.starts_with(b"$")
                    && !name.starts_with(b".L") => {}
            _ => return None,
        }
        if name.is_empty() {
            return None;
        }
        let name_at = strings.start.checked_add(s.st_name)?;
        Some(RawSymbol {
            addr: s.st_value,
            size: s.st_size,
            limit: section.map_or(u64::MAX, |h| h.sh_addr.saturating_add(h.sh_size)),
            name: name_at..name_at + name.len(),
            global: s.st_bind() != sym::STB_LOCAL,
            weak: s.st_bind() == sym::STB_WEAK,
        })
    }
}

/// Goblin's header, if magic number, class and byte order are ours.
trait ParseChecked: Sized {
    fn parse_magic_checked(bytes: &[u8]) -> Option<Self>;
}

impl ParseChecked for Header {
    fn parse_magic_checked(bytes: &[u8]) -> Option<Header> {
        let ident = bytes.get(..header::SIZEOF_IDENT)?;
        let ours = ident.starts_with(header::ELFMAG)
            && ident[header::EI_CLASS] == header::ELFCLASS64
            && ident[header::EI_DATA] == header::ELFDATA2LSB;
        if !ours {
            return None;
        }
        Some(header::header64::Header::parse(bytes).ok()?.into())
    }
}

fn scroll_le() -> goblin::container::Endian {
    goblin::container::Endian::Little
}

/// Where a section's content is in a file of `len` bytes.
fn file_range(s: &SectionHeader, len: usize) -> Option<Range<usize>> {
    if s.sh_type == SHT_NOBITS {
        return None;
    }
    let start = usize::try_from(s.sh_offset).ok()?;
    let end = start.checked_add(usize::try_from(s.sh_size).ok()?)?;
    (end <= len).then_some(start..end)
}

/// The NUL-terminated string at `at` of a string table, cut at [`MAX_NAME`].
fn string<'a>(bytes: &'a [u8], table: &Range<usize>, at: usize) -> Option<&'a [u8]> {
    let rest = bytes.get(table.clone())?.get(at..)?;
    rest[..rest.len().min(MAX_NAME)].split(|&b| b == 0).next()
}
