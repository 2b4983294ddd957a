//! The files of code that a process has mapped.

use std::collections::HashSet;

use unwinder::elf::bias;

use crate::export::Images;
use crate::grade::methods::Bytes;
use crate::perf::record::FileId;

/// Files at most: what is mapped when there are so many is not known.
pub const MAX_FILES: usize = 256;

/// A file with code in the process.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Its path, or `[vdso]`.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
    /// How far from where it was linked it is mapped.
    pub bias: u64,
}

/// Finds the files behind mappings, each once for each place: a file is mapped in parts, and a
/// guest may map it as often as it likes.
#[derive(Debug)]
pub struct Files {
    images: Images,
    known: HashSet<(String, u64)>,
    refused: u64,
}

impl Files {
    /// None yet; their bytes are in `images`.
    pub fn new(images: Images) -> Files {
        Files { images, known: HashSet::new(), refused: 0 }
    }

    /// File offset `pgoff` of `path` was mapped at `addr`: the file, if it is an ELF file with
    /// code there that is new.
    pub fn map(&mut self, path: &str, addr: u64, pgoff: u64) -> Option<Mapped> {
        // The unwind tables are those of the file as it is mapped, whatever its identity.
        let bytes = self.images.get(path, &FileId::None).bytes()?;
        let bias = bias(&bytes, addr, pgoff)?;
        let place = (path.to_owned(), bias);
        if self.known.contains(&place) {
            return None;
        }
        if self.known.len() >= MAX_FILES {
            self.refused += 1;
            return None;
        }
        self.known.insert(place);
        Some(Mapped { name: path.to_owned(), bytes, bias })
    }

    /// Mappings of code that were not taken, because there were too many files already.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn each_file_once_at_each_place_and_not_too_many() {
        let leaf = concat!(env!("CARGO_MANIFEST_DIR"), "/../guests/bin/x86_64/leaf");
        let bytes = Bytes::from(std::fs::read(leaf).unwrap());
        let mut files = Files::new(Images::new(move |_| Some(bytes.clone())));
        // Where the code of the file begins.
        let page = (0..16).map(|n| n << 12).find(|p| files.map("/leaf", 0x40_0000, *p).is_some());
        let page = page.unwrap();
        assert!(files.map("/leaf", 0x40_0000, page).is_none(), "known");
        assert!(files.map("/other", 0x40_0000, page).is_some());
        let mapped = (1..5000).filter_map(|n| files.map("/leaf", 0x40_0000 + (n << 12), page));
        assert_eq!(mapped.count(), MAX_FILES - 2);
        assert_eq!(files.refused(), 4999 - (MAX_FILES as u64 - 2));
        assert!(files.map("/leaf", 0x40_0000, page).is_none());
        assert_eq!(files.refused(), 4999 - (MAX_FILES as u64 - 2), "a known one is not refused");
    }
}
