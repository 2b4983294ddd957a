//! The oracle that fuzzing drives: what must hold for any bytes at all.

use super::{Body, PerfFile, ReadError};
use crate::export::merge::merge;
use crate::perf::merge::cookie;

/// Reads `bytes` as a `perf.data` file, writes its records again, and merges them.
///
/// # Panics
///
/// When a promise of the reader or of the merger is broken: an error of more than one line, a
/// record that does not come back as it was, a sample that is lost, a chain of another length
/// than the law says.
pub fn fuzz_perf_data(bytes: &[u8]) {
    let file = match PerfFile::read(bytes) {
        Ok(file) => file,
        Err(error) => return one_line(&error),
    };
    let mut records = Vec::new();
    for record in file.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => return one_line(&error),
        };
        let mut again = Vec::new();
        assert_eq!(record.write(&mut again), Ok(()));
        assert!(bytes[record.offset as usize..].starts_with(&again), "{record:x?}");
        records.push(record);
    }
    let merged = match merge(&file) {
        Ok(merged) => merged,
        Err(error) => return one_line(&error),
    };
    let again = PerfFile::read(&merged.bytes);
    let again = again.unwrap_or_else(|error| panic!("the merged file: {error}"));
    let (mut stacks, mut samples, mut deferred, mut words) = (0, 0, 0, 0);
    let mut left = again.records();
    for record in records {
        if let Body::CallchainDeferred { .. } = record.body {
            stacks += 1;
            continue;
        }
        let Some(Ok(new)) = left.next() else { panic!("lost: {record:x?}") };
        assert_eq!((new.kind, new.misc, new.trailer), (record.kind, record.misc, record.trailer));
        match (&record.body, new.body) {
            (Body::Sample(old), Body::Sample(mut new)) => {
                samples += 1;
                let (Some(before), Some(after)) = (&old.callchain, &new.callchain) else {
                    assert_eq!(*old, new);
                    continue;
                };
                if cookie(before).is_some() {
                    deferred += 1;
                    assert_eq!(before[..before.len() - 2], after[..before.len() - 2]);
                    words += after.len() - (before.len() - 1);
                }
                new.callchain.clone_from(&old.callchain);
                assert_eq!(*old, new);
            }
            (old, new) => assert_eq!(*old, new),
        }
    }
    assert!(left.next().is_none());
    let report = merged.report;
    assert_eq!((report.samples, report.stacks), (samples, stacks));
    assert_eq!(report.merged + report.samples_alone.len() as u64, deferred);
    assert!(report.late <= report.merged && (report.merged > 0 || words == 0));
    assert!(report.repeated + report.stacks_alone.len() as u64 <= stacks);
}

fn one_line(error: &ReadError) {
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "not one line: {line:?}");
}
