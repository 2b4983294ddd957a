//! `perf.data` files, read back: those of [`super::perf_data`] and of perf itself.
//!
//! ```text
//! 0    "PERFILE2"
//! 8    u64 size of this header, 104
//! 16   u64 size of an attrs entry: attr.size + 16
//! 24   attrs      (u64 offset, u64 size)     section of {perf_event_attr, ids (offset, size)}
//! 40   data       (offset, size)             section of records, one after another
//! 56   event types (offset, size)            unused
//! 72   256 bits: the features that follow the data section,
//!      each with an (offset, size) in a table right behind the data, in the order of bits
//!
//! record   u32 type  u16 misc  u16 size │ body │ sample_id, if it is the kernel's and no sample
//! ```
//!
//! An attribute's `sample_type` says which fields its samples have, and which ones a
//! `sample_id`. Which attribute is a record's is told by an id at a place that all events share.
//!
//! [`PerfFile::read`] checks the frame, [`PerfFile::records`] reads one record at a time;
//! everything borrows from the file's bytes, no length is believed before it is compared with
//! them. [`PerfFile::write`] makes a file of records that may be changed.
//!
//! Not read, with the reason: streams (`perf record -o -`), files of big-endian machines,
//! compressed records, a recording that was killed before it wrote its header.

mod attr;
#[cfg(test)]
mod craft;
mod cursor;
mod error;
mod events;
pub mod fuzz;
mod record;
mod sample;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
mod trailer;
mod write;

pub use attr::Attr;
pub use cursor::Words;
pub use error::ReadError;
pub use events::Events;
pub use record::{Body, Record, Text};
pub use sample::{BranchStack, Regs, Sample, UserStack};
pub use trailer::Trailer;

use self::cursor::Cursor;
use crate::perf::abi::{FILE_HEADER_SIZE, MAGIC, PIPE_HEADER_SIZE};

/// A file in memory, its frame checked.
#[derive(Clone, Debug)]
pub struct PerfFile<'a> {
    bytes: &'a [u8],
    events: Events<'a>,
    data: Section,
    features: Vec<Feature<'a>>,
}

/// A feature section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature<'a> {
    /// Its bit (`HEADER_*`).
    pub bit: u32,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Offset and size, bytes.
#[derive(Clone, Copy, Debug)]
struct Section {
    at: u64,
    len: u64,
}

impl Section {
    /// Reads the two words, and checks that the file has the section.
    fn read(file: &[u8], c: &mut Cursor, field: &'static str) -> Result<Section, ReadError> {
        let told = c.at();
        let (at, len) = (c.u64(field)?, c.u64(field)?);
        match at.checked_add(len) {
            Some(end) if end <= file.len() as u64 => Ok(Section { at, len }),
            _ => {
                let size = file.len();
                let problem = format!(
                    "{len} bytes at {at:#x} do not lie within the file, which has {size}; \
                     was it cut?"
                );
                Err(ReadError::new(told, field, problem))
            }
        }
    }
}

impl<'a> PerfFile<'a> {
    /// Reads the frame of the file that is `bytes`: header, attributes, features.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if it is no `perf.data` file, is of a kind that is not read, or a section
    /// does not lie within it.
    pub fn read(bytes: &'a [u8]) -> Result<PerfFile<'a>, ReadError> {
        let mut head = Cursor::new(bytes, 0, bytes.len() as u64, "header")?;
        check_magic(head.array("magic")?)?;
        match head.u64("header size")? {
            FILE_HEADER_SIZE => {}
            PIPE_HEADER_SIZE => {
                let problem = "a stream; let perf make a file of it: perf inject -i IN -o OUT";
                return Err(ReadError::new(8, "header size", problem));
            }
            size => {
                let problem = format!("{size} is not {FILE_HEADER_SIZE}");
                return Err(ReadError::new(8, "header size", problem));
            }
        }
        let entry = head.u64("attr_size")?;
        let attrs = Section::read(bytes, &mut head, "attrs section")?;
        let data = Section::read(bytes, &mut head, "data section")?;
        head.take(16, "event types section")?;
        let bits = head.words(4, "feature bits")?;
        if data.len == 0 {
            let problem = "size 0: the recording did not come to its end, or has no record";
            return Err(ReadError::new(48, "data section", problem));
        }
        let apart = attrs.at + attrs.len <= data.at || data.at + data.len <= attrs.at;
        if attrs.at < FILE_HEADER_SIZE || data.at < FILE_HEADER_SIZE || !apart {
            let problem = "header, attrs and data overlap";
            return Err(ReadError::new(24, "attrs and data sections", problem));
        }
        let events = Events::read(bytes, attrs.at, attrs.len, entry)?;
        let features = read_features(bytes, data, bits)?;
        Ok(PerfFile { bytes, events, data, features })
    }

    /// Bytes of the whole file.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a file has a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The events.
    pub fn events(&self) -> &Events<'a> {
        &self.events
    }

    /// The feature sections, in the order of their bits.
    pub fn features(&self) -> &[Feature<'a>] {
        &self.features
    }

    /// The records in the order of the file. After an error there is no further one.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'a>, ReadError>> {
        let cursor = Cursor::new(self.bytes, self.data.at, self.data.len, "data section");
        let mut data = cursor.ok(); // it lies within the file: `read` has checked that
        std::iter::from_fn(move || {
            let cursor = data.as_mut().filter(|cursor| !cursor.is_empty())?;
            let record = Record::read(self.bytes, cursor, &self.events);
            if record.is_err() {
                data = None;
            }
            Some(record)
        })
    }
}

fn check_magic(magic: [u8; 8]) -> Result<(), ReadError> {
    let mut reversed = magic;
    reversed.reverse();
    let problem = match magic {
        MAGIC => return Ok(()),
        _ if reversed == MAGIC => "the file of a big-endian machine, which is not read",
        _ if magic == *b"PERFFILE" => "a file of perf's first format, which is not read",
        _ => "not PERFILE2: this is no perf.data file",
    };
    Err(ReadError::new(0, "magic", problem))
}

/// Reads the table behind the data, and finds its sections.
fn read_features<'a>(
    bytes: &'a [u8],
    data: Section,
    bits: Words,
) -> Result<Vec<Feature<'a>>, ReadError> {
    let all = (0..).zip(bits.iter()).flat_map(|(word, bits): (u32, u64)| {
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit)
    });
    let behind = data.at + data.len;
    let left = bytes.len() as u64 - behind;
    let mut table = Cursor::new(bytes, behind, left, "feature table")?;
    let (mut features, mut total) = (Vec::new(), 0);
    for bit in all {
        let told = table.at();
        let section = Section::read(bytes, &mut table, "feature section")?;
        total += section.len;
        if total > bytes.len() as u64 {
            let problem = "the sections are together longer than the file";
            return Err(ReadError::new(told, "feature section", problem));
        }
        let bytes = Cursor::new(bytes, section.at, section.len, "feature section")?.rest();
        features.push(Feature { bit, bytes });
    }
    Ok(features)
}
