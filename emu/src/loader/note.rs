//! Note segments: finding the build id.

use goblin::elf::note::NT_GNU_BUILD_ID;

/// Longest build id that is taken: SHA-512. Linux takes 20 bytes at most, linkers
/// write 8 (fast hash), 16 (MD5, UUID) or 20 (SHA-1).
const MAX_BUILD_ID: usize = 64;

/// The build id among the notes in `bytes`, the content of a `PT_NOTE` whose
/// `p_align` is `align` (8 aligns descriptors and notes to 8 bytes, all else to 4).
pub fn build_id(mut bytes: &[u8], align: u64) -> Option<Vec<u8>> {
    let align = if align == 8 { 8 } else { 4 };
    while let Some((header, rest)) = bytes.split_first_chunk::<12>() {
        let word = |at: usize| header.get(at..)?.first_chunk::<4>().map(|w| u32::from_le_bytes(*w));
        let (namesz, descsz) = (word(0)? as usize, word(4)? as usize);
        // Padding counts from the note's begin, so the 12 header bytes take part.
        let desc_at = (12 + namesz).next_multiple_of(align) - 12;
        let desc = rest.get(desc_at..)?.get(..descsz)?;
        if word(8)? == NT_GNU_BUILD_ID && rest.get(..namesz)? == b"GNU\0" {
            return (1..=MAX_BUILD_ID).contains(&descsz).then(|| desc.to_vec());
        }
        bytes = rest.get((12 + desc_at + descsz).next_multiple_of(align) - 12..)?;
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::build_id;

    fn note(kind: u32, name: &[u8], desc: &[u8], align: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((desc.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes.extend(desc);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        for align in [4, 8] {
            let mut notes = note(5, b"GNU\0", &[7; 16], align);
            notes.extend(note(3, b"XYZ\0", &[1; 20], align));
            assert_eq!(build_id(&notes, align as u64), None);
            notes.extend(note(3, b"GNU\0", &[2; 20], align));
            assert_eq!(build_id(&notes, align as u64), Some(vec![2; 20]));
        }
    }

    #[test]
    fn damaged_notes_end_the_search() {
        let whole = note(3, b"GNU\0", &[2; 20], 4);
        for len in 0..whole.len() {
            assert_eq!(build_id(&whole[..len], 4), None);
        }
        for field in [0, 4] {
            let mut huge = whole.clone();
            huge[field..field + 4].fill(0xff);
            assert_eq!(build_id(&huge, 4), None);
        }
        assert_eq!(build_id(&note(3, b"GNU\0", &[2; 65], 4), 4), None);
        assert_eq!(build_id(&note(3, b"GNU\0", &[], 4), 4), None);
    }
}
