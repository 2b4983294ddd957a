//! Reads and checks the headers of a static ELF64 program.
//!
//! Follows Linux's `load_elf_binary` (fs/binfmt_elf.c) in what it accepts, with
//! these deliberate differences, each because a message at the start helps more
//! than a guest that dies: an empty or overlapping `PT_LOAD`, a segment or section
//! that ends after the file (Linux: `SIGBUS` on the first touch) and an entry point
//! outside every executable segment are refused. `PT_GNU_PROPERTY` is ignored, as
//! the modelled CPU has neither BTI nor shadow stacks.
//!
//! Only the ELF header, the program headers, the section headers' extents and the
//! note segments are read, all by bounds-checked loads; the number of headers is
//! checked against the file's size before anything is allocated. goblin's
//! `Elf::parse` is not used here: it also reads symbol, string and relocation
//! tables, which a damaged file can make arbitrarily large.

use arch::Arch;
use goblin::container::{Container, Ctx};
use goblin::elf::header::header64::{Header, SIZEOF_EHDR};
use goblin::elf::header::{ELFCLASS64, ELFDATA2LSB, ELFMAG, ET_DYN, ET_EXEC};
use goblin::elf::program_header::program_header64::SIZEOF_PHDR;
use goblin::elf::program_header::{
    PF_R, PF_W, PF_X, PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_NOTE,
    PT_TLS, ProgramHeader,
};
use goblin::elf::section_header::SHT_NOBITS;

use super::error::LoadError;
use super::note;
use super::{MMAP_MIN_ADDR, PAGE, page_down, page_up};

/// `PT_GNU_SFRAME` (binutils 2.41): the segment that holds `.sframe`.
const PT_GNU_SFRAME: u32 = 0x6474_e554;

/// Largest size of the program header table that Linux reads, in bytes.
const MAX_PHDRS: usize = 65536;

/// Largest span of a program in bytes. The limit stands for Linux's overcommit
/// check, which refuses what exceeds the machine's memory.
pub const MAX_SPAN: u64 = 64 << 30;

/// Offsets of the fields within `Elf64_Phdr`.
mod ph {
    pub const OFFSET: u64 = 8;
    pub const VADDR: u64 = 16;
    pub const FILESZ: u64 = 32;
    pub const MEMSZ: u64 = 40;
    pub const ALIGN: u64 = 48;
}

/// How a program chooses its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ET_EXEC`: `p_vaddr` are addresses.
    Exec,
    /// `ET_DYN` without an interpreter (static-pie): a bias is added.
    Pie,
}

/// A part of the file and the addresses it is linked at, taken from a program
/// header that the loader itself has no use for; the file part is *not* checked
/// against the file's size: use [`Span::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// `p_vaddr`, without the bias.
    pub vaddr: u64,
    /// `p_memsz` in bytes.
    pub memsz: u64,
    /// `p_offset` in bytes.
    pub file_offset: u64,
    /// `p_filesz` in bytes.
    pub filesz: u64,
    /// `p_align`.
    pub align: u64,
}

impl Span {
    /// The span's bytes in the file, if they lie inside it.
    pub fn bytes<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.file_offset).ok()?;
        let end = start.checked_add(usize::try_from(self.filesz).ok()?)?;
        file.get(start..end)
    }

    fn new(p: &ProgramHeader) -> Span {
        Span {
            vaddr: p.p_vaddr,
            memsz: p.p_memsz,
            file_offset: p.p_offset,
            filesz: p.p_filesz,
            align: p.p_align,
        }
    }
}

/// One `PT_LOAD`: `memsz` bytes at `vaddr`, the first `filesz` of them from the
/// file, the rest zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address, without the bias.
    pub vaddr: u64,
    /// Size in memory in bytes, at least 1.
    pub memsz: u64,
    /// File offset of the first byte; congruent to `vaddr` modulo 4096 if `filesz` is not 0.
    pub file_offset: u64,
    /// Bytes from the file, at most `memsz`; inside the file.
    pub filesz: u64,
    /// `PF_R`.
    pub read: bool,
    /// `PF_W`.
    pub write: bool,
    /// `PF_X`.
    pub execute: bool,
    /// `p_align`; a power of two, or 0 or 1 for none (other values become 1, as in Linux).
    pub align: u64,
}

impl Segment {
    /// One past the last address, without the bias. Cannot wrap.
    pub fn end(&self) -> u64 {
        self.vaddr + self.memsz
    }
}

/// A program that can be loaded: everything that `execve` needs from the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// From `e_machine`.
    pub arch: Arch,
    /// From `e_type`.
    pub kind: Kind,
    /// `e_entry`, without the bias; inside an executable segment.
    pub entry: u64,
    /// Address of the program headers, without the bias: where the segment that
    /// holds `e_phoff` puts them. `None` when no segment does.
    pub phdr_vaddr: Option<u64>,
    /// `e_phnum`.
    pub phnum: u16,
    /// `e_phentsize`, always 56.
    pub phentsize: u16,
    /// The `PT_LOAD`s in the file's order, at least one. Linux maps them in this
    /// order, which matters where two share a page.
    pub segments: Vec<Segment>,
    /// `PT_GNU_STACK` has `PF_X`. Without the header the stack is not executable
    /// (both architectures, since Linux 5.8).
    pub exec_stack: bool,
    /// `PT_GNU_RELRO`.
    pub relro: Option<Span>,
    /// `PT_TLS`.
    pub tls: Option<Span>,
    /// `PT_GNU_EH_FRAME`: `.eh_frame_hdr`.
    pub eh_frame_hdr: Option<Span>,
    /// `PT_GNU_SFRAME`: `.sframe`.
    pub sframe: Option<Span>,
    /// The `NT_GNU_BUILD_ID` note.
    pub build_id: Option<Vec<u8>>,
    /// First page of the lowest segment, without the bias.
    pub load_min: u64,
    /// End of the highest segment, without the bias, not rounded: the break
    /// (`brk`) begins at the page after it.
    pub load_max: u64,
}

impl Image {
    /// Alignment of the bias of a static-pie program: the largest power of two among
    /// the segments' `p_align`, at least a page (Linux `maximum_alignment`).
    pub fn alignment(&self) -> u64 {
        self.segments.iter().map(|s| s.align).max().unwrap_or(PAGE).max(PAGE)
    }

    /// Bytes from the first to the end of the last page (`total_mapping_size`, rounded).
    pub fn span(&self) -> u64 {
        page_up(self.load_max) - self.load_min
    }
}

/// The architecture of the program or library in `bytes`, the whole file, which may be one
/// that cannot be run, such as a dynamically linked one.
///
/// # Errors
///
/// A [`LoadError`] for what is wrong with the ELF header or the extent of the program headers.
pub fn arch_of(bytes: &[u8]) -> Result<Arch, LoadError> {
    let header = header(bytes)?;
    let arch = Arch::from_elf_machine(header.e_machine);
    let arch = arch.ok_or(LoadError::Machine(header.e_machine))?;
    if !matches!(header.e_type, ET_EXEC | ET_DYN) {
        return Err(LoadError::Type(header.e_type));
    }
    program_headers(bytes, &header)?;
    Ok(arch)
}

/// Whether the sections of `bytes`, whose headers [`arch_of`] finds sound, are in the file.
///
/// # Errors
///
/// The [`LoadError`] for the first one that is not.
pub fn check_extents(bytes: &[u8]) -> Result<(), LoadError> {
    check_sections(bytes, &header(bytes)?)
}

/// Reads and checks the program in `bytes`, the whole file.
///
/// # Errors
///
/// A [`LoadError`] for the first thing that is wrong, in the order header,
/// section extents, interpreter, segments, entry.
pub fn parse(bytes: &[u8]) -> Result<Image, LoadError> {
    let header = header(bytes)?;
    let arch =
        Arch::from_elf_machine(header.e_machine).ok_or(LoadError::Machine(header.e_machine))?;
    let kind = match header.e_type {
        ET_EXEC => Kind::Exec,
        ET_DYN => Kind::Pie,
        other => return Err(LoadError::Type(other)),
    };
    let phdrs = program_headers(bytes, &header)?;
    check_sections(bytes, &header)?;
    refuse_interpreter(bytes, &header, &phdrs)?;
    let loads = loads(bytes, &header, &phdrs, arch, kind)?;
    let (load_min, load_max) = extent(&header, &loads)?;
    let segments: Vec<Segment> = loads.into_iter().map(|(_, s)| s).collect();
    let entry = header.e_entry;
    if !segments.iter().any(|s| s.execute && (s.vaddr..s.end()).contains(&entry)) {
        return Err(LoadError::Entry(entry));
    }
    let span = |p_type| phdrs.iter().find(|p| p.p_type == p_type).map(Span::new);
    Ok(Image {
        arch,
        kind,
        entry,
        phdr_vaddr: phdr_vaddr(header.e_phoff, &segments),
        phnum: header.e_phnum,
        phentsize: header.e_phentsize,
        segments,
        exec_stack: phdrs
            .iter()
            .rfind(|p| p.p_type == PT_GNU_STACK)
            .is_some_and(|p| p.p_flags & PF_X != 0),
        relro: span(PT_GNU_RELRO),
        tls: span(PT_TLS),
        eh_frame_hdr: span(PT_GNU_EH_FRAME),
        sframe: span(PT_GNU_SFRAME),
        build_id: phdrs.iter().filter(|p| p.p_type == PT_NOTE).find_map(|p| {
            let notes = Span::new(p);
            note::build_id(notes.bytes(bytes)?, notes.align)
        }),
        load_min,
        load_max,
    })
}

/// Reads the ELF header and checks the fields that say what the file is.
fn header(bytes: &[u8]) -> Result<Header, LoadError> {
    if bytes.starts_with(b"#!") {
        return Err(LoadError::Script);
    }
    let short = LoadError::ShortHeader { len: bytes.len() as u64 };
    let Some(&magic) = bytes.first_chunk::<4>() else { return Err(short) };
    if magic != *ELFMAG {
        return Err(LoadError::NotElf(magic));
    }
    let Some(&[class, data]) = bytes.get(4..).and_then(|b| b.first_chunk::<2>()) else {
        return Err(short);
    };
    if class != ELFCLASS64 {
        return Err(LoadError::Class(class));
    }
    if data != ELFDATA2LSB {
        return Err(LoadError::Endian(data));
    }
    let header = Header::parse(bytes.get(..SIZEOF_EHDR).unwrap_or_default()).map_err(|_| short)?;
    if header.e_phentsize as usize != SIZEOF_PHDR {
        return Err(LoadError::PhEntSize(header.e_phentsize));
    }
    if header.e_phnum == 0 || header.e_phnum as usize * SIZEOF_PHDR > MAX_PHDRS {
        return Err(LoadError::PhNum(header.e_phnum));
    }
    Ok(header)
}

/// Reads the program headers; their number was checked by [`header`].
fn program_headers(bytes: &[u8], header: &Header) -> Result<Vec<ProgramHeader>, LoadError> {
    let error =
        LoadError::PhOff { phoff: header.e_phoff, phnum: header.e_phnum, len: bytes.len() as u64 };
    let size = header.e_phnum as usize * SIZEOF_PHDR;
    let Some(table) =
        usize::try_from(header.e_phoff).ok().and_then(|at| bytes.get(at..)?.get(..size))
    else {
        return Err(error);
    };
    let ctx = Ctx::new(Container::Big, goblin::container::Endian::Little);
    ProgramHeader::parse(table, 0, header.e_phnum.into(), ctx).map_err(|_| error)
}

/// File offset of a field of a program header. Cannot wrap: the table is in the file.
fn field(header: &Header, index: usize, field: u64) -> u64 {
    header.e_phoff + (index * SIZEOF_PHDR) as u64 + field
}

/// Checks that the section headers and what they describe lie inside the file:
/// nothing is loaded from them, but symbols are, and a file that lacks its tail
/// was damaged on the way.
fn check_sections(bytes: &[u8], header: &Header) -> Result<(), LoadError> {
    const SHDR: u64 = 64;
    let len = bytes.len() as u64;
    let (shoff, mut shnum) = (header.e_shoff, u64::from(header.e_shnum));
    if shoff == 0 || u64::from(header.e_shentsize) != SHDR {
        return Ok(());
    }
    if shnum == 0 {
        // Extended numbering (gABI): the count is `sh_size` of section 0.
        shnum = u64_at(bytes, shoff.saturating_add(32)).ok_or(LoadError::ShOff {
            shoff,
            shnum: 1,
            len,
        })?;
    }
    let end = shnum.checked_mul(SHDR).and_then(|size| size.checked_add(shoff));
    if end.is_none_or(|end| end > len) {
        return Err(LoadError::ShOff { shoff, shnum, len });
    }
    for index in 1..shnum {
        let at = shoff + index * SHDR;
        let (Some(start), Some(size)) = (u64_at(bytes, at + 24), u64_at(bytes, at + 32)) else {
            break;
        };
        // `sh_type` is the upper half of the first eight bytes; 0 is SHT_NULL.
        let sh_type = u64_at(bytes, at).map_or(0, |word| (word >> 32) as u32);
        if sh_type != 0
            && sh_type != SHT_NOBITS
            && start.checked_add(size).is_none_or(|end| end > len)
        {
            return Err(LoadError::SectionEnd { index, offset: at + 24, start, size, len });
        }
    }
    Ok(())
}

/// The little-endian word at a file offset.
fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    let word = bytes.get(usize::try_from(at).ok()?..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word))
}

/// Refuses `PT_INTERP`, naming the dynamic linker.
fn refuse_interpreter(
    bytes: &[u8],
    header: &Header,
    phdrs: &[ProgramHeader],
) -> Result<(), LoadError> {
    let Some((index, p)) = phdrs.iter().enumerate().find(|(_, p)| p.p_type == PT_INTERP) else {
        return Ok(());
    };
    let path = Span { filesz: p.p_filesz.min(64), ..Span::new(p) };
    let path = path.bytes(bytes).unwrap_or_default();
    let path = path.split(|&b| b == 0).next().unwrap_or_default();
    Err(LoadError::Interpreter {
        index,
        offset: field(header, index, 0),
        interpreter: String::from_utf8_lossy(path).into_owned(),
    })
}

/// The checked `PT_LOAD`s with the number of their program header. One without bytes is
/// none, as to Linux, which maps nothing for it.
fn loads(
    bytes: &[u8],
    header: &Header,
    phdrs: &[ProgramHeader],
    arch: Arch,
    kind: Kind,
) -> Result<Vec<(usize, Segment)>, LoadError> {
    let mut loads = Vec::new();
    for (index, p) in phdrs.iter().enumerate().filter(|(_, p)| p.p_type == PT_LOAD) {
        check_load(bytes.len() as u64, header, index, p, arch, kind)?;
        if p.p_memsz == 0 {
            continue;
        }
        let flag = |bit| p.p_flags & bit != 0;
        let segment = Segment {
            vaddr: p.p_vaddr,
            memsz: p.p_memsz,
            file_offset: p.p_offset,
            filesz: p.p_filesz,
            read: flag(PF_R),
            write: flag(PF_W),
            execute: flag(PF_X),
            align: if p.p_align.is_power_of_two() { p.p_align } else { 1 },
        };
        loads.push((index, segment));
    }
    if loads.is_empty() {
        return Err(LoadError::NoSegments(header.e_phnum));
    }
    Ok(loads)
}

/// Checks one `PT_LOAD` by itself.
fn check_load(
    len: u64,
    header: &Header,
    index: usize,
    p: &ProgramHeader,
    arch: Arch,
    kind: Kind,
) -> Result<(), LoadError> {
    let at = |offset| field(header, index, offset);
    let (start, filesz, vaddr, memsz) = (p.p_offset, p.p_filesz, p.p_vaddr, p.p_memsz);
    if filesz > memsz {
        return Err(LoadError::FileSize { index, offset: at(ph::FILESZ), filesz, memsz });
    }
    // The last page stays free, so that rounding up never reaches the limit.
    let limit = arch.task_size() - PAGE;
    if vaddr.checked_add(memsz).is_none_or(|end| end > limit) {
        return Err(LoadError::OutOfSpace { index, offset: at(ph::VADDR), vaddr, memsz, limit });
    }
    if kind == Kind::Exec && vaddr < MMAP_MIN_ADDR {
        return Err(LoadError::TooLow { index, offset: at(ph::VADDR), vaddr });
    }
    if p.p_align > limit {
        return Err(LoadError::Alignment { index, offset: at(ph::ALIGN), align: p.p_align });
    }
    if filesz == 0 {
        return Ok(());
    }
    if start % PAGE != vaddr % PAGE {
        return Err(LoadError::Congruence { index, offset: at(ph::OFFSET), start, vaddr });
    }
    if start.checked_add(filesz).is_none_or(|end| end > len) {
        return Err(LoadError::SegmentEnd { index, offset: at(ph::OFFSET), start, filesz, len });
    }
    Ok(())
}

/// Checks the segments against each other; returns (first page, end).
fn extent(header: &Header, loads: &[(usize, Segment)]) -> Result<(u64, u64), LoadError> {
    let mut sorted: Vec<&(usize, Segment)> = loads.iter().collect();
    sorted.sort_by_key(|(_, s)| s.vaddr);
    for pair in sorted.windows(2) {
        if let [(other, low), (index, high)] = pair
            && high.vaddr < low.end()
        {
            let offset = field(header, *index, ph::VADDR);
            return Err(LoadError::Overlap {
                index: *index,
                offset,
                vaddr: high.vaddr,
                other: *other,
            });
        }
    }
    // Sorted and disjoint: the first begins lowest, the last ends highest.
    let (Some((_, first)), Some((index, last))) = (sorted.first(), sorted.last()) else {
        return Err(LoadError::NoSegments(header.e_phnum));
    };
    let (min, max) = (page_down(first.vaddr), last.end());
    let span = page_up(max) - min;
    if span > MAX_SPAN {
        let offset = field(header, *index, ph::MEMSZ);
        return Err(LoadError::Span { index: *index, offset, span, limit: MAX_SPAN });
    }
    Ok((min, max))
}

/// Where the program headers land in memory (Linux since 5.18: the last segment
/// whose file part holds `e_phoff`; `PT_PHDR` is not consulted).
fn phdr_vaddr(phoff: u64, segments: &[Segment]) -> Option<u64> {
    let holder =
        segments.iter().rfind(|s| s.file_offset <= phoff && phoff - s.file_offset < s.filesz)?;
    Some(phoff - holder.file_offset + holder.vaddr)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
#[path = "elf_tests.rs"]
mod tests;
