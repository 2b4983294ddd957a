//! A `perf.data` file with deferred callchains, made one without.
//!
//! ```text
//! PerfFile ─► records ─┬─ CALLCHAIN_DEFERRED ─► Merger    (first pass)
//!                      ├─ SAMPLE ─► Merger ─► SAMPLE      (second pass)
//!                      └─ any other ─► itself
//! ```
//!
//! Every record but the stacks stays where it is, byte by byte but for the callchain of a
//! deferred sample. (`perf script` delivers a sample only when its stack comes, so that its
//! output has another order.) A sample keeps its time too: the stack of an `execve` call is
//! the new program's, but a tool looks its addresses up in what was mapped at the sample.
//!
//! The attributes lose `defer_callchain` and `defer_output`. How chains are merged, and why a
//! merged one has the marker `USER`: [`crate::perf::merge`].

use super::perf_read::{Body, PerfFile, ReadError, Record, Trailer};
use crate::perf::abi::{self, flag};
use crate::perf::merge::{Merger, Report};

/// A merged file has at most so many times the bytes of its file: a hostile one could have
/// any number of small samples that share one large stack. Kernels cannot: a stack has 510
/// words at most, and one kernel entry takes few samples.
const MAX_GROWTH: usize = 64;

/// What a file counts at least for that limit, bytes.
const MIN_LIMIT: usize = 1 << 16;

/// A merged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What became of samples and stacks.
    pub report: Report,
}

/// Merges the deferred callchains of `file`. A file without any keeps all its records.
///
/// # Errors
///
/// [`ReadError`] if a record cannot be read, if a merged sample does not fit into a record
/// (65,535 bytes), if the file would grow beyond 64 times its size, or if it has traces of
/// hardware (Intel PT, CoreSight), which are indexed by their offset.
pub fn merge(file: &PerfFile) -> Result<Merged, ReadError> {
    let mut merger = Merger::default();
    for record in file.records() {
        let record = record?;
        if record.kind == abi::record::AUXTRACE {
            let problem = "an AUX area trace, which cannot be moved; record without it";
            return Err(ReadError::new(record.offset, "record type", problem));
        }
        let Body::CallchainDeferred { cookie, ips } = &record.body else { continue };
        let (tid, time) = thread_and_time(record.trailer.as_ref());
        merger.stack(tid, time, *cookie, ips.iter().collect());
    }
    let most = file.len().max(MIN_LIMIT).saturating_mul(MAX_GROWTH);
    let mut data = Vec::new();
    for record in file.records() {
        let mut record = record?;
        match &mut record.body {
            Body::CallchainDeferred { .. } => continue,
            Body::Sample(sample) => {
                let tid = sample.pid_tid.map(|(_, tid)| tid);
                let chain = sample.callchain.as_deref().unwrap_or_default();
                if let Some(merged) = merger.sample(tid, sample.time, chain) {
                    sample.callchain = Some(merged);
                }
            }
            _ => {}
        }
        record.write(&mut data).map_err(|size| too_long(&record, size))?;
        if data.len() > most {
            let problem = format!("the merged file would have more than {most} bytes");
            return Err(ReadError::new(record.offset, "data section", problem));
        }
    }
    if data.is_empty() {
        let problem = "nothing but deferred callchains: there is no sample to merge them with";
        return Err(ReadError::new(48, "data section", problem));
    }
    let flags = flag::DEFER_CALLCHAIN | flag::DEFER_OUTPUT;
    Ok(Merged { bytes: file.write(&data, flags), report: merger.report() })
}

/// Who a stack belongs to, and when it was recorded.
fn thread_and_time(trailer: Option<&Trailer>) -> (Option<u32>, Option<u64>) {
    let tid = trailer.and_then(|trailer| trailer.pid_tid).map(|(_, tid)| tid);
    (tid, trailer.and_then(|trailer| trailer.time))
}

fn too_long(record: &Record, size: usize) -> ReadError {
    let problem = format!("merged it would have {size} bytes, more than a record can have");
    ReadError::new(record.offset, "sample", problem)
}
