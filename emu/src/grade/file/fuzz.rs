//! The oracle that fuzzing drives: what must hold for any bytes at all.

use unwinder::Memory;

use super::{Answer, Line, Piece, Pieces, Reader};

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
        let line = match found {
            Answer::Graded(found) => {
                assert_eq!(found.sample.n, n);
                all_memory_is_read(&found.sample.memory);
                Line::Sample(Box::new(found.sample))
            }
            Answer::Undecided(found) => {
                assert_eq!(found.sample.n, n);
                Line::Undecided(Box::new(found.sample))
            }
        };
        let text = serde_json::to_string(&line);
        let again = text.and_then(|text| serde_json::from_str::<Line>(&text));
        assert!(again.is_ok_and(|again| again == line));
    }
}

fn all_memory_is_read(pieces: &[Piece]) {
    let mut memory = Pieces(pieces);
    for piece in pieces {
        let last = piece.address.0 + (piece.bytes.0.len() as u64 - 1);
        let mut byte = [0];
        assert!(memory.read(last, &mut byte) && Some(&byte[0]) == piece.bytes.0.last());
    }
}
