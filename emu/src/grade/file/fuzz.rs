//! The oracle that fuzzing drives: what must hold for any bytes at all.

use unwinder::Memory;

use super::{Line, Pieces, Reader};

/// Reads `bytes` as a truth file, and its second sample as memory.
///
/// # Panics
///
/// When a promise of this module is broken: an error of more than one line, a sample that
/// does not come back as it was written.
pub fn fuzz_truth_file(bytes: &[u8]) {
    for n in [1, 2, u64::MAX] {
        let found = match Reader::new(bytes).and_then(|reader| reader.find(n)) {
            Ok(found) => found,
            Err(error) => {
                let line = error.to_string();
                assert!(!line.contains(['\n', '\r']), "not one line: {line:?}");
                continue;
            }
        };
        let sample = found.sample;
        assert_eq!(sample.n, n);
        let mut memory = Pieces(&sample.memory);
        for piece in &sample.memory {
            let last = piece.address.0 + (piece.bytes.0.len() as u64 - 1);
            let mut byte = [0];
            assert!(memory.read(last, &mut byte) && Some(&byte[0]) == piece.bytes.0.last());
        }
        let line = Line::Sample(Box::new(sample));
        let text = serde_json::to_string(&line);
        let again = text.and_then(|text| serde_json::from_str::<Line>(&text));
        assert!(again.is_ok_and(|again| again == line));
    }
}
