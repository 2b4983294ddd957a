//! The digest of a profile: of `perf.data` in its stream form, unmerged, whatever format the
//! user asked for. `emu replay -q -o - FILE | sha256sum` prints the same.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use sha2::{Digest, Sha256};

use super::text::hex;
use crate::export::perf_data::PerfDataPipe;
use crate::export::{ExportError, Sink};
use crate::perf::record::{Record, Session};

/// Takes the records of a session.
#[derive(Debug)]
pub struct ProfileDigest {
    sink: PerfDataPipe<Hashed>,
    hash: Rc<RefCell<Sha256>>,
}

#[derive(Debug)]
struct Hashed(Rc<RefCell<Sha256>>);

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ProfileDigest {
    /// No records yet.
    ///
    /// # Errors
    ///
    /// [`ExportError::NoEvents`]
    pub fn new(session: &Session) -> Result<ProfileDigest, ExportError> {
        let hash = Rc::new(RefCell::new(Sha256::new()));
        let sink = PerfDataPipe::new(session, Hashed(hash.clone()), "a digest".to_owned())?;
        Ok(ProfileDigest { sink, hash })
    }

    /// Takes the next record.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if it does not belong to the session.
    pub fn record(&mut self, record: &Record) -> Result<(), ExportError> {
        self.sink.record(record)
    }

    /// SHA-256 of the whole profile, in hexadecimal.
    ///
    /// # Errors
    ///
    /// [`ExportError`] of the last records.
    pub fn finish(mut self) -> Result<String, ExportError> {
        self.sink.finish()?;
        let digest = self.hash.borrow().clone().finalize();
        Ok(hex(&digest))
    }
}
