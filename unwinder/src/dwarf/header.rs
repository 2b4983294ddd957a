//! `.eh_frame_hdr` (LSB, section 10.6.2): a sorted table of functions.
//!
//! ```text
//! u8 version = 1, u8 encodings of: pointer to .eh_frame, count, entries
//! pointer, count, entries: (first address, address of the FDE)
//! ```
//!
//! The search table is used only if it lists what the section holds: it may be omitted, cut
//! off, unsorted, of another link, or say less than all. It needs no memory of ours.

use super::error::{Error, ErrorKind, SectionName};
use super::index::Index;
use super::section::Section;

const VERSION: u8 = 1;
/// Behind the version and the encodings.
const POINTER: usize = 4;

/// What precedes the count.
struct Start {
    /// Where `.eh_frame` is said to be.
    to: u64,
    /// Offset of the count.
    at: usize,
    /// Encoding of the count.
    count: u8,
    /// Encoding of the entries.
    entries: u8,
}

fn start(bytes: &[u8], address: u64) -> Result<Start, Error> {
    let [version, pointer, count, entries] =
        *bytes.first_chunk::<POINTER>().ok_or(error(0, ErrorKind::Truncated))?;
    if version != VERSION {
        return Err(error(0, ErrorKind::Version(version.into())));
    }
    let pointer = Encoding::new(pointer).map_err(|kind| error(1, kind))?;
    let to = pointer.read(bytes, address, POINTER);
    let to = to.ok_or_else(|| error(bytes.len(), ErrorKind::Truncated))?;
    Ok(Start { to, at: POINTER + pointer.size(), count, entries })
}

fn error(offset: usize, kind: ErrorKind) -> Error {
    Error { section: SectionName::EhFrameHdr, offset: offset as u64, kind }
}

/// The address of `.eh_frame`, out of `.eh_frame_hdr`.
///
/// # Errors
///
/// [`Error`]: the header is cut off, or in an unknown form.
pub fn frame_address(header: Section<&[u8]>) -> Result<u64, Error> {
    start(header.bytes, header.address).map(|start| start.to)
}

/// How the section is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    address: u64,
    frame: u64,
    encoding: Encoding,
    /// Offset of the search table.
    table: usize,
    count: usize,
}

impl Header {
    /// Reads everything but the entries, which are all there. `frame` is where `.eh_frame`
    /// is.
    pub fn parse(bytes: &[u8], address: u64, frame: u64) -> Result<Header, Error> {
        let Start { to, at, count, entries } = start(bytes, address)?;
        if to != frame {
            return Err(error(POINTER, ErrorKind::WrongFrame(to)));
        }
        if count == gimli::DW_EH_PE_omit.0 || entries == gimli::DW_EH_PE_omit.0 {
            return Err(error(2, ErrorKind::NoSearchTable));
        }
        let truncated = || error(bytes.len(), ErrorKind::Truncated);
        let count = Encoding::new(count).map_err(|kind| error(2, kind))?;
        let encoding = Encoding::new(entries).map_err(|kind| error(3, kind))?;
        let table = at + count.size();
        let count = count.read(bytes, address, at).ok_or_else(truncated)?;
        if count == 0 {
            return Err(error(at, ErrorKind::NoSearchTable));
        }
        let size = usize::try_from(count).ok().and_then(|n| n.checked_mul(2 * encoding.size()));
        match size.and_then(|size| bytes.get(table..)?.get(..size)) {
            Some(_) => Ok(Header { address, frame, encoding, table, count: count as usize }),
            None => Err(truncated()),
        }
    }

    /// The offset of the FDE that may cover `pc`.
    pub fn find(&self, bytes: &[u8], pc: u64) -> Option<u32> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.start(bytes, middle)? <= pc {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.fde(bytes, low.checked_sub(1)?)
    }

    /// Whether the search table says what `index` says. If not, the error names the first
    /// entry that does not.
    pub fn check(&self, bytes: &[u8], index: &Index) -> Result<(), Error> {
        let mut last = 0;
        for entry in 0..self.count {
            let start = self.start(bytes, entry).unwrap_or_default();
            if start < last {
                return Err(self.error(entry, ErrorKind::Unsorted));
            }
            last = start;
        }
        for entry in 0..self.count.max(index.len()) {
            let listed = self.start(bytes, entry).zip(self.fde(bytes, entry));
            let real = index.get(entry);
            // Both are missing where the entry is one too many and leads nowhere.
            if listed.is_none() || listed != real {
                let address = listed.iter().chain(&real).map(|&(start, _)| start).min();
                let kind = ErrorKind::Disagrees { address: address.unwrap_or_default() };
                return Err(self.error(entry, kind));
            }
        }
        Ok(())
    }

    fn start(&self, bytes: &[u8], entry: usize) -> Option<u64> {
        let at = self.table + 2 * entry * self.encoding.size();
        self.encoding.read(bytes, self.address, at).filter(|_| entry < self.count)
    }

    fn fde(&self, bytes: &[u8], entry: usize) -> Option<u32> {
        let at = self.table + (2 * entry + 1) * self.encoding.size();
        let address = self.encoding.read(bytes, self.address, at).filter(|_| entry < self.count);
        u32::try_from(address?.wrapping_sub(self.frame)).ok()
    }

    fn error(&self, entry: usize, kind: ErrorKind) -> Error {
        let offset = self.table + 2 * entry.min(self.count - 1) * self.encoding.size();
        Error { section: SectionName::EhFrameHdr, offset: offset as u64, kind }
    }
}

/// A pointer encoding of fixed size.
#[derive(Clone, Copy, Debug)]
struct Encoding {
    base: Base,
    size: u8,
    signed: bool,
}

/// What a pointer is relative to.
#[derive(Clone, Copy, Debug)]
enum Base {
    Zero,
    /// The section, `DW_EH_PE_datarel`.
    Section,
    /// The pointer itself, `DW_EH_PE_pcrel`.
    Itself,
}

impl Encoding {
    fn new(encoding: u8) -> Result<Encoding, ErrorKind> {
        let e = gimli::DwEhPe(encoding);
        let (size, signed) = match e.format() {
            gimli::DW_EH_PE_udata2 => (2, false),
            gimli::DW_EH_PE_sdata2 => (2, true),
            gimli::DW_EH_PE_udata4 => (4, false),
            gimli::DW_EH_PE_sdata4 => (4, true),
            gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => (8, false),
            _ => return Err(ErrorKind::PointerEncoding(encoding)),
        };
        let base = match e.application() {
            gimli::DW_EH_PE_absptr => Base::Zero,
            gimli::DW_EH_PE_datarel => Base::Section,
            gimli::DW_EH_PE_pcrel => Base::Itself,
            _ => return Err(ErrorKind::PointerEncoding(encoding)),
        };
        match e.is_indirect() {
            true => Err(ErrorKind::IndirectPointer),
            false => Ok(Encoding { base, size, signed }),
        }
    }

    const fn size(self) -> usize {
        self.size as usize
    }

    /// The pointer at an offset of the section at `address`.
    fn read(self, bytes: &[u8], address: u64, at: usize) -> Option<u64> {
        let bytes = bytes.get(at..)?;
        let value = match (self.size, self.signed) {
            (2, false) => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            (2, true) => i16::from_le_bytes(*bytes.first_chunk()?) as u64,
            (4, false) => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            (4, true) => i32::from_le_bytes(*bytes.first_chunk()?) as u64,
            _ => u64::from_le_bytes(*bytes.first_chunk()?),
        };
        Some(value.wrapping_add(match self.base {
            Base::Zero => 0,
            Base::Section => address,
            Base::Itself => address.wrapping_add(at as u64),
        }))
    }
}
