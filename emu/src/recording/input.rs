//! Standard input: its bytes, and where reads came short.
//!
//! A read that got all that it asked for says nothing about where the host had a border; one
//! that got less does: a terminal's line, or the end. So a recording has segments, each ended
//! by a short read or an error, and another guest that reads in other pieces gets the same.

use serde::{Deserialize, Serialize};

/// Bytes that ended with a short read or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Its bytes.
    pub len: u64,
    /// How it ended.
    pub end: Border,
}

/// How a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Border {
    /// It was not seen to end: the last read got all that it asked for.
    Open,
    /// A read got less than it asked for.
    Short,
    /// A read got this error number.
    Error(u16),
}

/// What was read so far.
#[derive(Clone, Debug, Default)]
pub struct InputLog {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// In order; only the last one is open.
    pub segments: Vec<Segment>,
}

impl InputLog {
    /// A read asked for `asked` bytes and got `bytes`, or an error number.
    pub fn push(&mut self, asked: usize, got: Result<&[u8], u16>) {
        let (len, end) = match got {
            Ok(bytes) => {
                self.bytes.extend_from_slice(bytes);
                let full = bytes.len() == asked;
                (bytes.len() as u64, if full { Border::Open } else { Border::Short })
            }
            Err(errno) => (0, Border::Error(errno)),
        };
        match self.segments.last_mut() {
            Some(last) if last.end == Border::Open => {
                last.len += len;
                last.end = end;
            }
            _ => self.segments.push(Segment { len, end }),
        }
    }
}

/// Reads a recorded input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// Bytes read.
    at: usize,
    /// Segments read.
    segment: usize,
    /// Bytes read of the segment.
    within: u64,
}

/// What a read of a recorded input came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// So many bytes.
    Bytes(usize),
    /// This error number.
    Error(u16),
    /// The recording does not say what comes here.
    Unknown,
}

impl Position {
    /// Fills `buf` as far as the segment goes. Behind the last segment the input has ended.
    pub fn read(&mut self, bytes: &[u8], segments: &[Segment], buf: &mut [u8]) -> Got {
        loop {
            let Some(segment) = segments.get(self.segment) else { return Got::Bytes(0) };
            let rest = bytes.get(self.at..).unwrap_or_default();
            let left = segment.len.saturating_sub(self.within).min(rest.len() as u64);
            let n = left.min(buf.len() as u64) as usize;
            buf[..n].copy_from_slice(&rest[..n]);
            let began = self.within == 0;
            self.at += n;
            self.within += n as u64;
            if n == buf.len() {
                return Got::Bytes(n);
            }
            // The segment has less than what is asked for.
            match segment.end {
                Border::Open if n == 0 => return Got::Unknown,
                Border::Error(errno) if n == 0 => {
                    self.next_segment();
                    return Got::Error(errno);
                }
                Border::Open | Border::Error(_) => return Got::Bytes(n),
                Border::Short => self.next_segment(),
            }
            // A line that was read to its border, in other pieces than when it was recorded:
            // no end of the input lies between it and the next.
            if n > 0 || began {
                return Got::Bytes(n);
            }
        }
    }

    fn next_segment(&mut self) {
        self.segment += 1;
        self.within = 0;
    }
}
