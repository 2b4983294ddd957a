//! The events of a file, and which of them a record belongs to.

use std::collections::HashMap;

use super::cursor::Cursor;
use super::{Attr, ReadError};
use crate::perf::abi::{self, record as kind};

/// The events of a file: at least one.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    attrs: Vec<Attr<'a>>,
    /// Id to index; empty if there is one event, which all records belong to.
    ids: HashMap<u64, usize>,
}

impl<'a> Events<'a> {
    /// Reads the section of attributes at `at`, `len` bytes in entries of `entry`.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if it is damaged or its events' records cannot be told apart.
    pub fn read(file: &'a [u8], at: u64, len: u64, entry: u64) -> Result<Events<'a>, ReadError> {
        if entry < abi::ATTR_SIZE_VER0 + 16 || !len.is_multiple_of(entry) || len == 0 {
            let problem = format!("{entry} bytes an entry do not divide a section of {len}");
            return Err(ReadError::new(16, "attr_size", problem));
        }
        let mut attrs: Vec<Attr> = Vec::new();
        let mut total = 0;
        for at in (at..at + len).step_by(entry as usize) {
            let told = at + entry - 16;
            let mut section = Cursor::new(file, told, 16, "ids section")?;
            let (ids, size) = (section.u64("ids section")?, section.u64("ids section")?);
            total += size.min(file.len() as u64 + 1);
            if size % 8 != 0 || total > file.len() as u64 {
                let problem = format!("{size} bytes are no list of ids within the file");
                return Err(ReadError::new(told, "ids section", problem));
            }
            let ids = Cursor::new(file, ids, size, "ids section")?.words(size / 8, "ids")?;
            attrs.push(Attr::read(file, at, entry - 16, ids)?);
        }
        let mut ids = HashMap::new();
        if attrs.len() > 1 {
            let place = attrs[0].id_words();
            for (index, attr) in attrs.iter().enumerate() {
                let told = at + entry * index as u64 + 24;
                if attr.id_words() != place || place.is_none() {
                    let problem = "several events, whose records have no id at a common place";
                    return Err(ReadError::new(told, "attr.sample_type", problem));
                }
                ids.extend(attr.ids.iter().map(|id| (id, index)));
            }
        }
        Ok(Events { attrs, ids })
    }

    /// Their attributes, in the order of the file.
    pub fn attrs(&self) -> &[Attr<'a>] {
        &self.attrs
    }

    /// The event of a record of type `number` with this `body`, trailer included: by its id,
    /// of which 0 is the first event's, as in records that perf itself makes.
    pub(super) fn of_record(&self, number: u32, body: &Cursor) -> Result<usize, ReadError> {
        let first = &self.attrs[0];
        let place = first.id_words().filter(|_| self.attrs.len() > 1);
        let (Some((front, back)), true) = (place, number < abi::record::USER_TYPES) else {
            return Ok(0);
        };
        let mut body = body.clone();
        let words = if number == kind::SAMPLE {
            front
        } else if !first.sample_id_all() {
            return Ok(0);
        } else {
            let words = (body.len() / 8).checked_sub(back);
            words.ok_or_else(|| {
                ReadError::new(body.at(), "record size", "no room for the event's id")
            })?
        };
        body.words(words as u64, "fields before the id")?;
        let told = body.at();
        match body.u64("event's id")? {
            0 => Ok(0),
            id => self.ids.get(&id).copied().ok_or_else(|| {
                ReadError::new(told, "event's id", format!("{id} is no event's of the file"))
            }),
        }
    }
}
