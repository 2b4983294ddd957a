//! `struct sample_id`: the end of a kernel's record that is no sample.

use super::ReadError;
use super::attr::Attr;
use super::cursor::Cursor;
use crate::perf::abi::{self, sample_type as bit};
use crate::perf::encode::pair;

/// Who, when and where. Each `Option` is there if the event's `sample_type` has its bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// `PERF_SAMPLE_TID`: process and thread.
    pub pid_tid: Option<(u32, u32)>,
    /// `PERF_SAMPLE_TIME`, nanoseconds; 0 in records that perf itself made.
    pub time: Option<u64>,
    /// `PERF_SAMPLE_ID`
    pub id: Option<u64>,
    /// `PERF_SAMPLE_STREAM_ID`
    pub stream_id: Option<u64>,
    /// `PERF_SAMPLE_CPU`: number, reserved.
    pub cpu: Option<(u32, u32)>,
    /// `PERF_SAMPLE_IDENTIFIER`: the event's id.
    pub identifier: Option<u64>,
}

impl Trailer {
    /// Bytes of the trailers of `attr`'s records.
    pub fn size(attr: &Attr) -> usize {
        let bits = bit::TID
            | bit::TIME
            | abi::sample_type::ID
            | abi::sample_type::STREAM_ID
            | bit::CPU
            | bit::IDENTIFIER;
        8 * (attr.sample_type & bits).count_ones() as usize
    }

    /// Reads a trailer of a record of `attr`.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if there are fewer bytes than [`Trailer::size`].
    pub fn read(attr: &Attr, c: &mut Cursor) -> Result<Trailer, ReadError> {
        use abi::sample_type as more;
        let has = |bits| attr.samples(bits);
        Ok(Trailer {
            pid_tid: has(bit::TID).then(|| c.pair("sample_id pid and tid")).transpose()?,
            time: has(bit::TIME).then(|| c.u64("sample_id time")).transpose()?,
            id: has(more::ID).then(|| c.u64("sample_id id")).transpose()?,
            stream_id: has(more::STREAM_ID).then(|| c.u64("sample_id stream_id")).transpose()?,
            cpu: has(bit::CPU).then(|| c.pair("sample_id cpu")).transpose()?,
            identifier: has(bit::IDENTIFIER).then(|| c.u64("sample_id identifier")).transpose()?,
        })
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let two = |two: Option<(u32, u32)>| two.map(|(a, b)| u64::from_le_bytes(pair(a, b)));
        let words =
            [two(self.pid_tid), self.time, self.id, self.stream_id, two(self.cpu), self.identifier];
        out.extend(words.into_iter().flatten().flat_map(u64::to_le_bytes));
    }
}
