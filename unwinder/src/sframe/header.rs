//! The head of a section: what it is for, and where its two lists are.
//!
//! ```text
//! 0  magic 2 · version 1 · flags 1          H = 28 + auxiliary
//! 4  ABI 1 · fixed FP 1 · fixed RA 1        functions at H + functions_offset
//! 7  length of the auxiliary header 1       rows      at H + rows_offset, rows_len bytes
//! 8  functions 4 · rows 4 · rows_len 4 · functions_offset 4 · rows_offset 4
//! ```

use arch::Arch;

use super::source::{ByteOrder, Source, piece};
use super::{Error, ErrorKind};

/// The 16-bit number that a section begins with.
pub const MAGIC: u16 = 0xdee2;

/// Length of the header without the auxiliary one.
pub const HEADER_LEN: u64 = 28;

/// Version of the format. The header is the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// binutils 2.40
    V1 = 1,
    /// binutils 2.41 to 2.45, LLVM 23
    V2 = 2,
    /// binutils 2.46 and later
    V3 = 3,
}

impl Version {
    /// Length of an entry in the list of functions.
    pub const fn entry_len(self) -> u64 {
        match self {
            Version::V1 => 17,
            Version::V2 => 20,
            Version::V3 => 16,
        }
    }

    /// Length of what precedes a function's rows among the rows.
    pub const fn attribute_len(self) -> u64 {
        match self {
            Version::V1 | Version::V2 => 0,
            Version::V3 => 5,
        }
    }

    const fn flags(self) -> u8 {
        match self {
            Version::V1 => 0x3,
            Version::V2 => 0x7,
            Version::V3 => 0x5,
        }
    }
}

/// The section's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The functions are in ascending order of their addresses.
    pub const fn sorted(self) -> bool {
        self.0 & 1 != 0
    }

    /// All functions keep a frame pointer (versions 1 and 2).
    pub const fn frame_pointer(self) -> bool {
        self.0 & 2 != 0
    }

    /// Starts of functions are relative to the field that holds them, else to the section.
    pub const fn pc_relative(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Architecture and byte order that a section is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abi {
    /// aarch64, big-endian
    Aarch64Big = 1,
    /// aarch64, little-endian
    Aarch64 = 2,
    /// x86_64
    Amd64 = 3,
    /// s390x, big-endian: its sections are read and shown, but give no [`crate::Row`].
    S390x = 4,
}

impl Abi {
    const fn of(byte: u8) -> Option<Abi> {
        Some(match byte {
            1 => Abi::Aarch64Big,
            2 => Abi::Aarch64,
            3 => Abi::Amd64,
            4 => Abi::S390x,
            _ => return None,
        })
    }

    /// The byte order of its data.
    pub const fn order(self) -> ByteOrder {
        match self {
            Abi::Aarch64Big | Abi::S390x => ByteOrder::Big,
            Abi::Aarch64 | Abi::Amd64 => ByteOrder::Little,
        }
    }

    /// The architecture, if stacks of it can be unwound here.
    pub const fn arch(self) -> Option<Arch> {
        match self {
            Abi::Aarch64Big | Abi::Aarch64 => Some(Arch::Aarch64),
            Abi::Amd64 => Some(Arch::X86_64),
            Abi::S390x => None,
        }
    }
}

/// A valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Version of the format.
    pub version: Version,
    /// Flags.
    pub flags: Flags,
    /// Architecture and byte order.
    pub abi: Abi,
    /// Where every function saves the caller's frame pointer, from the CFA; 0: rows tell.
    pub fixed_fp: i8,
    /// Where every return address is, from the CFA; 0: rows tell.
    pub fixed_ra: i8,
    /// Length of the auxiliary header.
    pub auxiliary: u8,
    /// Functions in the section.
    pub functions: u32,
    /// Rows of all functions.
    pub rows: u32,
    /// Length of the row data.
    pub rows_len: u32,
    /// Start of the functions, from the end of the headers.
    pub functions_offset: u32,
    /// Start of the row data, from the end of the headers.
    pub rows_offset: u32,
}

impl Header {
    /// Reads and validates the header at offset `at`, of a section that has `len` bytes from
    /// there.
    pub(super) fn read(source: &mut impl Source, at: u64, len: u64) -> Result<Header, Error> {
        let error = |field: u64, kind| Error { offset: at.saturating_add(field), kind };
        if len < HEADER_LEN {
            return Err(error(0, ErrorKind::ShortHeader { len }));
        }
        let bytes: [u8; 28] = source.take(at).ok_or(error(0, ErrorKind::Unreadable))?;
        let order = match u16::from_le_bytes(piece::<0, _, _>(&bytes)) {
            MAGIC => ByteOrder::Little,
            m if m.swap_bytes() == MAGIC => ByteOrder::Big,
            m => return Err(error(0, ErrorKind::Magic(m))),
        };
        let version = match bytes[2] {
            1 => Version::V1,
            2 => Version::V2,
            3 => Version::V3,
            other => return Err(error(2, ErrorKind::Version(other))),
        };
        if bytes[3] & !version.flags() != 0 {
            return Err(error(3, ErrorKind::Flags { flags: bytes[3], version }));
        }
        let abi = Abi::of(bytes[4]).ok_or(error(4, ErrorKind::Abi(bytes[4])))?;
        if abi.order() != order {
            return Err(error(4, ErrorKind::ByteOrder { abi, magic: order }));
        }
        let header = Header {
            version,
            flags: Flags(bytes[3]),
            abi,
            fixed_fp: bytes[5].cast_signed(),
            fixed_ra: bytes[6].cast_signed(),
            auxiliary: bytes[7],
            functions: order.u32(piece::<8, _, _>(&bytes)),
            rows: order.u32(piece::<12, _, _>(&bytes)),
            rows_len: order.u32(piece::<16, _, _>(&bytes)),
            functions_offset: order.u32(piece::<20, _, _>(&bytes)),
            rows_offset: order.u32(piece::<24, _, _>(&bytes)),
        };
        header.check(len).map_err(|(field, kind)| error(field, kind))?;
        Ok(header)
    }

    /// Whether what the header promises can be there. No sum of its fields overflows 64 bits.
    fn check(&self, len: u64) -> Result<(), (u64, ErrorKind)> {
        let end = HEADER_LEN + u64::from(self.auxiliary);
        if end > len {
            return Err((7, ErrorKind::AuxiliaryOutside { end, len }));
        }
        let functions_end = self.entry_at(self.functions);
        if functions_end > len {
            return Err((8, ErrorKind::FunctionsOutside { end: functions_end, len }));
        }
        if self.len() > len {
            return Err((16, ErrorKind::RowsOutside { end: self.len(), len }));
        }
        if functions_end > self.rows_at() {
            let (end, rows) = (functions_end, self.rows_at());
            return Err((24, ErrorKind::ListsOverlap { end, rows }));
        }
        let attributes = u64::from(self.functions) * self.version.attribute_len();
        let needed = u64::from(self.rows) * 2 + attributes;
        if needed > u64::from(self.rows_len) {
            return Err((12, ErrorKind::TooManyRows { needed, len: self.rows_len }));
        }
        if self.rows == 0 && self.functions != 0 && self.version != Version::V3 {
            return Err((12, ErrorKind::NoRows));
        }
        Ok(())
    }

    /// Offset of function `index`'s entry in the section.
    #[inline]
    pub const fn entry_at(&self, index: u32) -> u64 {
        HEADER_LEN
            + self.auxiliary as u64
            + self.functions_offset as u64
            + index as u64 * self.version.entry_len()
    }

    /// Offset of the row data in the section.
    #[inline]
    pub const fn rows_at(&self) -> u64 {
        HEADER_LEN + self.auxiliary as u64 + self.rows_offset as u64
    }

    /// Length of the section as its header tells it, without padding.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "it has a header at least")]
    pub const fn len(&self) -> u64 {
        self.rows_at() + self.rows_len as u64
    }
}
