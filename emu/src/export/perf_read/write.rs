//! A file made of another one: its attributes, new records, its features.

use std::borrow::Cow;

use super::cursor::Cursor;
use super::{Attr, Feature, PerfFile, ReadError};
use crate::perf::abi::{ATTR_SIZE, FILE_HEADER_SIZE, MAGIC, feature};

impl PerfFile<'_> {
    /// The bytes of a file with the attributes and features of this one and the records
    /// `data`. `flags` are cleared in every attribute, and in its copy among the features.
    ///
    /// perf refuses attributes that are longer than those it knows. Words behind the 128 bytes
    /// that perf 6.1 knows are left out if they are 0 in all events.
    ///
    /// ```text
    /// header │ ids │ attrs │ data │ (offset, size) × features │ features
    /// ```
    pub fn write(&self, data: &[u8], flags: u64) -> Vec<u8> {
        let attrs = self.events.attrs();
        let known = ATTR_SIZE as usize;
        let longer =
            |attr: &Attr| attr.bytes[known.min(attr.bytes.len())..].iter().any(|&b| b != 0);
        let longest = attrs.iter().map(|attr| attr.bytes.len()).max().unwrap_or(known);
        let size = if attrs.iter().any(longer) { longest } else { longest.min(known) };
        let ids: usize = attrs.iter().map(|attr| attr.ids.bytes().len()).sum();
        let attrs_at = FILE_HEADER_SIZE as usize + ids;
        let data_at = attrs_at + (size + 16) * attrs.len();

        let mut bits = [0; 4];
        for feature in &self.features {
            bits[feature.bit as usize / 64] |= 1 << (feature.bit % 64);
        }
        let head = [104, size + 16, attrs_at, data_at - attrs_at, data_at, data.len(), 0, 0];
        let mut out = MAGIC.to_vec();
        out.extend(head.iter().flat_map(|&word| (word as u64).to_le_bytes()));
        out.extend(bits.iter().flat_map(|word: &u64| word.to_le_bytes()));
        for attr in attrs {
            out.extend(attr.ids.bytes());
        }
        let mut ids_at = FILE_HEADER_SIZE;
        for attr in attrs {
            let len = attr.ids.bytes().len() as u64;
            out.extend(structure(attr, size, flags));
            out.extend([ids_at, len].iter().flat_map(|word| word.to_le_bytes()));
            ids_at += len;
        }
        out.extend(data);
        let mut at = out.len() + 16 * self.features.len();
        for feature in &self.features {
            let section = [at as u64, feature.bytes.len() as u64];
            out.extend(section.iter().flat_map(|word| word.to_le_bytes()));
            at += feature.bytes.len();
        }
        for feature in &self.features {
            out.extend(&*content(feature, flags));
        }
        out
    }
}

/// An attribute of `size` bytes, without `flags`.
fn structure(attr: &Attr, size: usize, flags: u64) -> Vec<u8> {
    let mut bytes = attr.bytes.to_vec();
    bytes.resize(size, 0);
    bytes[4..8].copy_from_slice(&(size as u32).to_le_bytes());
    bytes[40..48].copy_from_slice(&(attr.flags & !flags).to_le_bytes());
    bytes
}

/// The content of a feature section, of `EVENT_DESC` without `flags`: perf warns of bits that
/// it does not know. A section that is not laid out as it should be stays as it is.
fn content<'a>(section: &Feature<'a>, flags: u64) -> Cow<'a, [u8]> {
    let places = match section.bit {
        feature::EVENT_DESC => flag_words(section.bytes).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut bytes = Cow::Borrowed(section.bytes);
    for at in places {
        let Some(place) = bytes.to_mut().get_mut(at..).and_then(|rest| rest.first_chunk_mut())
        else {
            continue;
        };
        *place = (u64::from_le_bytes(*place) & !flags).to_le_bytes();
    }
    bytes
}

/// Where the flag words of the attributes are in an `EVENT_DESC` section:
///
/// ```text
/// u32 events  u32 size │ for each: perf_event_attr of that size  u32 ids  u32 length, name  ids
/// ```
fn flag_words(section: &[u8]) -> Result<Vec<usize>, ReadError> {
    let mut c = Cursor::new(section, 0, section.len() as u64, "EVENT_DESC")?;
    let (events, size) = (c.u32("number of events")?, c.u32("attr size")?);
    let mut places = Vec::new();
    for _ in 0..events {
        let at = c.at() as usize + 40;
        if c.take(u64::from(size), "attr")?.len() >= 48 {
            places.push(at);
        }
        let ids = c.u32("number of ids")?;
        let len = c.u32("name's length")?;
        c.take(u64::from(len), "name")?;
        c.words(u64::from(ids), "ids")?;
    }
    Ok(places)
}
