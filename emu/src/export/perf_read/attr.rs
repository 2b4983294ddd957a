//! `struct perf_event_attr` of a file: what decides how its records are laid out.

use super::ReadError;
use super::cursor::{Cursor, Words};
use crate::perf::abi::{self, flag, sample_type};

/// One event of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// The structure as it stands in the file, `size` bytes.
    pub bytes: &'a [u8],
    /// The ids that its records carry.
    pub ids: Words<'a>,
    /// `sample_type`
    pub sample_type: u64,
    /// `read_format`
    pub read_format: u64,
    /// The bit fields at offset 40.
    pub flags: u64,
    /// `branch_sample_type`; 0 if the structure is too short for it, as below.
    pub branch_sample_type: u64,
    /// `sample_regs_user`
    pub regs_user: u64,
    /// `sample_regs_intr`
    pub regs_intr: u64,
}

impl<'a> Attr<'a> {
    /// Reads the structure at `at` in `file`, of which there are `room` bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if its size is none that a kernel has, or does not fit.
    pub fn read(file: &'a [u8], at: u64, room: u64, ids: Words<'a>) -> Result<Attr<'a>, ReadError> {
        let mut head = Cursor::new(file, at, room, "perf_event_attr")?;
        head.take(4, "attr.type")?;
        let mut size = u64::from(head.u32("attr.size")?);
        if size == 0 {
            size = abi::ATTR_SIZE_VER0; // files of the first versions of perf
        }
        if size < abi::ATTR_SIZE_VER0 || size > room {
            let problem = format!("{size} is not between {} and {room}", abi::ATTR_SIZE_VER0);
            return Err(ReadError::new(at + 4, "attr.size", problem));
        }
        let bytes = Cursor::new(file, at, size, "perf_event_attr")?.rest();
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            word.map_or(0, |word| u64::from_le_bytes(*word))
        };
        let attr = Attr {
            bytes,
            ids,
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
            branch_sample_type: word(72),
            regs_user: word(80),
            regs_intr: word(96),
        };
        let unknown = attr.sample_type & !abi::SAMPLE_TYPES;
        if unknown != 0 {
            let problem = format!("bits {unknown:#x} are unknown, so is the layout of samples");
            return Err(ReadError::new(at + 24, "attr.sample_type", problem));
        }
        Ok(attr)
    }

    /// Whether its samples have all of `bits` of `sample_type`.
    pub fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    /// Whether records other than samples end with a trailer.
    pub fn sample_id_all(&self) -> bool {
        self.flags & flag::SAMPLE_ID_ALL != 0
    }

    /// Index of the word of a sample that is the event's id, and of the word of a trailer,
    /// counted from its end from 1 on; `None` if records have no id.
    pub fn id_words(&self) -> Option<(usize, usize)> {
        let count = |bits: u64| (self.sample_type & bits).count_ones() as usize;
        if self.samples(sample_type::IDENTIFIER) {
            return Some((0, 1));
        }
        let before = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ADDR;
        let behind = sample_type::STREAM_ID | sample_type::CPU;
        self.samples(sample_type::ID).then(|| (count(before), 1 + count(behind)))
    }
}
