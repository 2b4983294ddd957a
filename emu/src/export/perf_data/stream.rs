//! What file and pipe have in common: the records one after another, through
//! one buffer, with a round mark now and then.

use std::io::{self, Write};

use crate::export::ExportError;
use crate::perf::abi::record;
use crate::perf::encode::push_marker;
use crate::perf::record::Record;
use crate::perf::session_encode::Encoder;

/// Bytes of records between two `PERF_RECORD_FINISHED_ROUND`.
///
/// A reader sorts records by time and holds all that may still be overtaken:
/// at a round mark, those up to the newest time before the *previous* mark are
/// done. Records come in time order, so any distance is right; this one lets a
/// record be late by thousands of others.
const ROUND: usize = 1 << 20;

/// Writes encoded records.
#[derive(Debug)]
pub struct RecordStream<W> {
    out: W,
    /// Output's name for errors.
    to: String,
    encoder: Encoder,
    /// One record's bytes, kept for its capacity.
    buf: Vec<u8>,
    written: u64,
    in_round: usize,
}

impl<W: Write> RecordStream<W> {
    /// A stream of records into `out`, called `to` in errors.
    pub fn new(out: W, to: String, encoder: Encoder) -> RecordStream<W> {
        RecordStream { out, to, encoder, buf: Vec::new(), written: 0, in_round: 0 }
    }

    /// Writes one record.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`], [`ExportError::UnknownEvent`]
    pub fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        self.buf.clear();
        self.encoder.record(record, &mut self.buf)?;
        self.in_round += self.buf.len();
        if self.in_round >= ROUND {
            push_marker(&mut self.buf, record::FINISHED_ROUND);
            self.in_round = 0;
        }
        self.out.write_all(&self.buf).map_err(|e| write_error("a record", &self.to, e))?;
        self.written += self.buf.len() as u64;
        Ok(())
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`], with `what` was written.
    pub fn raw(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), ExportError> {
        self.out.write_all(bytes).map_err(|e| write_error(what, &self.to, e))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Does `action` to the output.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`], with `what` the action was for.
    pub fn with_out<T>(
        &mut self,
        what: &'static str,
        action: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> Result<T, ExportError> {
        action(&mut self.out).map_err(|e| write_error(what, &self.to, e))
    }
}

fn write_error(what: &'static str, to: &str, source: io::Error) -> ExportError {
    ExportError::Write { what, to: to.to_owned(), source }
}
