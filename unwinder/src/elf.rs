//! Modules from ELF files.
//!
//! ```text
//! section headers?  .eh_frame  .eh_frame_hdr  .debug_frame  .sframe
//! else              PT_GNU_EH_FRAME ─► .eh_frame, up to its terminator
//!                   PT_GNU_SFRAME
//! ```
//!
//! Every offset and size in the file is taken for a lie until it fits the file.

use std::ops::{Deref, Range};

use arch::Arch;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{ELFCLASS64, ELFDATA2LSB, ELFMAG, Header};
use goblin::elf::program_header::{PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS, SectionHeader};

use crate::Module;
use crate::dwarf::{self, Section};
use crate::module::Sections;

/// The segment that holds `.sframe` (binutils 2.41).
const PT_GNU_SFRAME: u32 = 0x6474_e554;

/// Why a file is no module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ElfError {
    /// Too short, or another magic number.
    #[error("not an ELF file")]
    NotElf,
    /// 32 bits, or big-endian.
    #[error("not a 64-bit little-endian ELF file")]
    Class,
    /// Neither x86_64 nor aarch64.
    #[error("ELF machine {0} is not supported")]
    Machine(u16),
    /// Program headers that are not within the file.
    #[error("program headers at {offset:#x} are outside the file")]
    ProgramHeaders {
        /// `e_phoff`
        offset: u64,
    },
    /// No part of the file becomes code.
    #[error("no executable segment")]
    NoCode,
}

/// A part of a file that is shared.
#[derive(Clone, Debug)]
pub struct Slice<D> {
    data: D,
    range: Range<usize>,
}

impl<D: Deref<Target = [u8]>> Slice<D> {
    /// The bytes of `data` in `range`: none, if it is not within `data`.
    pub fn new(data: D, range: Range<usize>) -> Slice<D> {
        Slice { data, range }
    }
}

impl<D: Deref<Target = [u8]>> Deref for Slice<D> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data.get(self.range.clone()).unwrap_or_default()
    }
}

impl<D: Deref<Target = [u8]> + Clone> Module<Slice<D>> {
    /// The module of the file `bytes`, mapped `bias` bytes above where it was linked (modulo
    /// 2^64).
    ///
    /// # Errors
    ///
    /// [`ElfError`]: the file cannot be mapped as code. Whatever else is wrong is in
    /// [`Module::problems`], or leads to a module without tables.
    pub fn from_elf(
        name: impl Into<String>,
        bytes: D,
        bias: u64,
    ) -> Result<Module<Slice<D>>, ElfError> {
        let Image { arch, text, sections } = Image::read(bytes)?;
        Ok(Module::new(name, arch, bias, text, sections))
    }
}

/// What a module is made from: the parts of a file that matter.
#[derive(Clone, Debug)]
pub struct Image<D> {
    /// Whose code it is.
    pub arch: Arch,
    /// Executable parts, at link-time addresses.
    pub text: Vec<Range<u64>>,
    /// Sections with unwind tables.
    pub sections: Sections<Slice<D>>,
}

impl<D: Deref<Target = [u8]> + Clone> Image<D> {
    /// Reads the headers of the file `bytes`.
    ///
    /// # Errors
    ///
    /// [`ElfError`]: the file cannot be mapped as code.
    pub fn read(bytes: D) -> Result<Image<D>, ElfError> {
        let elf = Elf::parse(&bytes)?;
        let found = match elf.sections(&bytes) {
            sections if sections.is_empty() => elf.segments(&bytes),
            sections => sections,
        };
        let slice = |range: Range<usize>| Slice::new(bytes.clone(), range);
        let section = |s: Option<Place>| {
            s.map(|Place { address, range }| Section { address, bytes: slice(range) })
        };
        let sections = Sections {
            eh_frame: section(found.eh_frame),
            eh_frame_hdr: section(found.eh_frame_hdr),
            debug_frame: found.debug_frame.map(|place| slice(place.range)),
            sframe: section(found.sframe),
            text: found.text,
            got: found.got,
        };
        Ok(Image { arch: elf.arch, text: elf.text().collect(), sections })
    }
}

/// The headers of a file.
struct Elf {
    arch: Arch,
    header: Header,
    segments: Vec<ProgramHeader>,
}

/// Where a section is.
#[derive(Clone, Debug)]
struct Place {
    address: u64,
    range: Range<usize>,
}

#[derive(Default)]
struct Found {
    eh_frame: Option<Place>,
    eh_frame_hdr: Option<Place>,
    debug_frame: Option<Place>,
    sframe: Option<Place>,
    text: Option<u64>,
    got: Option<u64>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.eh_frame.is_none() && self.debug_frame.is_none() && self.sframe.is_none()
    }
}

const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };

impl Elf {
    fn parse(bytes: &[u8]) -> Result<Elf, ElfError> {
        if !bytes.starts_with(ELFMAG) {
            return Err(ElfError::NotElf);
        }
        let header = goblin::elf::Elf::parse_header(bytes).map_err(|_| ElfError::NotElf)?;
        if header.e_ident[4] != ELFCLASS64 || header.e_ident[5] != ELFDATA2LSB {
            return Err(ElfError::Class);
        }
        let machine = header.e_machine;
        let arch = Arch::from_elf_machine(machine).ok_or(ElfError::Machine(machine))?;
        let (offset, count) = (header.e_phoff, usize::from(header.e_phnum));
        let segments = usize::try_from(offset)
            .ok()
            .and_then(|at| ProgramHeader::parse(bytes, at, count, CTX).ok())
            .ok_or(ElfError::ProgramHeaders { offset })?;
        let elf = Elf { arch, header, segments };
        if elf.text().next().is_none() {
            return Err(ElfError::NoCode);
        }
        Ok(elf)
    }

    /// Executable parts.
    fn text(&self) -> impl Iterator<Item = Range<u64>> {
        self.loaded()
            .filter(|p| p.p_flags & PF_X != 0)
            .map(|p| p.p_vaddr..p.p_vaddr.saturating_add(p.p_memsz))
            .filter(|r| !r.is_empty())
    }

    fn loaded(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.segments.iter().filter(|p| p.p_type == PT_LOAD)
    }

    /// What the section headers say.
    fn sections(&self, bytes: &[u8]) -> Found {
        let mut found = Found::default();
        let headers = usize::try_from(self.header.e_shoff)
            .ok()
            .and_then(|at| SectionHeader::parse(bytes, at, self.header.e_shnum.into(), CTX).ok())
            .unwrap_or_default();
        let names = headers
            .get(usize::from(self.header.e_shstrndx))
            .and_then(|s| place(bytes, s))
            .and_then(|place| bytes.get(place.range))
            .unwrap_or_default();
        for section in &headers {
            let name = names.get(section.sh_name..).unwrap_or_default();
            let name = name.split(|&b| b == 0).next().unwrap_or_default();
            let slot = match name {
                b".eh_frame" => &mut found.eh_frame,
                b".eh_frame_hdr" => &mut found.eh_frame_hdr,
                b".debug_frame" => &mut found.debug_frame,
                b".sframe" => &mut found.sframe,
                b".text" => {
                    found.text = Some(section.sh_addr);
                    continue;
                }
                b".got" => {
                    found.got = Some(section.sh_addr);
                    continue;
                }
                _ => continue,
            };
            *slot = slot.take().or(place(bytes, section));
        }
        found
    }

    /// What the segments say.
    fn segments(&self, bytes: &[u8]) -> Found {
        let segment = |kind| {
            let p = self.segments.iter().find(|p| p.p_type == kind)?;
            Some(Place { address: p.p_vaddr, range: within(bytes, p.p_offset, p.p_filesz)? })
        };
        let eh_frame_hdr = segment(PT_GNU_EH_FRAME);
        let eh_frame = eh_frame_hdr.as_ref().and_then(|header| {
            let content = bytes.get(header.range.clone())?;
            let address = dwarf::frame_address(Section { address: header.address, bytes: content });
            self.eh_frame(bytes, address.ok()?)
        });
        // GNU ld makes this segment longer than the section: the table knows its own length.
        Found { eh_frame, eh_frame_hdr, sframe: segment(PT_GNU_SFRAME), ..Found::default() }
    }

    /// `.eh_frame` at an address: up to its terminator, or to the end of its segment.
    fn eh_frame(&self, bytes: &[u8], address: u64) -> Option<Place> {
        self.loaded().find_map(|p| {
            let into = address.checked_sub(p.p_vaddr).filter(|&into| into < p.p_filesz)?;
            let range = within(bytes, p.p_offset.checked_add(into)?, p.p_filesz - into)?;
            let len = dwarf::terminated_len(bytes.get(range.clone())?);
            Some(Place { address, range: range.start..range.start + len })
        })
    }
}

/// A section that has bytes in the file as they are.
fn place(bytes: &[u8], section: &SectionHeader) -> Option<Place> {
    if section.sh_type == SHT_NOBITS || section.sh_flags & u64::from(SHF_COMPRESSED) != 0 {
        return None;
    }
    let range = within(bytes, section.sh_offset, section.sh_size)?;
    Some(Place { address: section.sh_addr, range })
}

fn within(bytes: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}
/// How far a file is mapped from where it was linked (modulo 2^64), if offset `pgoff` of it,
/// which is at `addr`, is the page at which an executable segment starts:
///
/// ```text
/// bias = addr - (p_vaddr + (pgoff - p_offset))
/// ```
pub fn bias(bytes: &[u8], addr: u64, pgoff: u64) -> Option<u64> {
    let elf = goblin::elf::Elf::parse(bytes).ok()?;
    let segment = elf.program_headers.iter().find(|p| {
        let page = p.p_offset & !0xfff;
        p.p_type == PT_LOAD && p.p_flags & PF_X != 0 && page == pgoff
    })?;
    Some(addr.wrapping_sub(segment.p_vaddr.wrapping_add(pgoff.wrapping_sub(segment.p_offset))))
}
