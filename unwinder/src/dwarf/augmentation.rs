//! Augmentation letters that gimli does not read: `B` (return addresses are signed with key
//! B) and `G` (the frame is tagged, Armv8.5-A MTE).
//!
//! Neither has data. So that no offset changes, the letter is taken out of a copy of the
//! section, and the code alignment factor behind the string takes the byte:
//!
//! ```text
//! 'z' 'R' 'B' 00  04            zRB, code alignment 4
//! 'z' 'R' 00  84  00            zR,  code alignment 4 (LEB128 in two bytes)
//! ```

use super::error::SectionName;
use super::section::{Walk, What, outline};

/// Letters in an augmentation string; no producer comes near. A bound on the work that many
/// FDEs of one CIE cause.
const MAX_LETTERS: usize = 16;

/// LEB128 bytes of 64 bits.
const MAX_LEB128: usize = 10;

/// What was done to a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Augmentations {
    /// The section without the letters, if it has any.
    pub fixed: Option<Vec<u8>>,
    /// Offsets of the CIEs with a `B`, ascending.
    pub key_b: Vec<usize>,
}

/// Takes the letters out of all CIEs of a section.
pub(super) fn fix(name: SectionName, bytes: &[u8]) -> Augmentations {
    let mut done = Augmentations::default();
    for entry in Walk::new(name, bytes).flatten().filter(|entry| entry.what == What::Cie) {
        let Some(letters) = letters(&bytes[..entry.next], entry.body) else { continue };
        if !letters.iter().any(|l| matches!(l, b'B' | b'G')) {
            continue;
        }
        let fixed = done.fixed.get_or_insert_with(|| bytes.to_vec());
        let version = bytes[entry.body];
        if rewrite(name, version, &mut fixed[entry.body + 1..entry.next]).is_some()
            && letters.contains(&b'B')
        {
            done.key_b.push(entry.offset);
        }
    }
    done
}

/// The augmentation string of the CIE at `offset`, without its terminator.
pub(super) fn string(name: SectionName, bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let mut next = 0;
    let entry = outline(name, bytes, offset, &mut next).ok()?;
    letters(&bytes[..entry.next], entry.body)
}

/// Refuses a CIE with an endless augmentation string before it is read again and again.
pub(super) fn check_length(name: SectionName, bytes: &[u8], offset: usize) -> gimli::Result<()> {
    let mut next = 0;
    // Whatever else is wrong, gimli says it better.
    let Ok(entry) = outline(name, bytes, offset, &mut next) else { return Ok(()) };
    let string = bytes[..entry.next].get(entry.body + 1..).unwrap_or_default();
    match string.get(..=MAX_LETTERS) {
        Some(start) if !start.contains(&0) => Err(gimli::Error::UnknownAugmentation),
        _ => Ok(()),
    }
}

/// The string behind the version byte at `body`.
fn letters(entry: &[u8], body: usize) -> Option<&[u8]> {
    let string = entry.get(body.checked_add(1)?..)?;
    let length = string.iter().take(MAX_LETTERS + 1).position(|&byte| byte == 0)?;
    string.get(..length)
}

/// `cie` starts at the augmentation string. `None`: left as it was.
fn rewrite(name: SectionName, version: u8, cie: &mut [u8]) -> Option<()> {
    let string = cie.iter().position(|&byte| byte == 0)?;
    // `.debug_frame` has an address size and a segment size from version 4 on.
    let sizes = if name == SectionName::DebugFrame && version >= 4 { 2 } else { 0 };
    let factor = string + 1 + sizes;
    let factor_len = cie.get(factor..)?.iter().position(|&byte| byte < 0x80)? + 1;
    let end = factor + factor_len;
    let taken = cie[..string].iter().filter(|l| matches!(l, b'B' | b'G')).count();
    if factor_len + taken > MAX_LEB128 {
        return None;
    }
    let mut to = 0;
    for from in 0..end {
        if from >= string || !matches!(cie[from], b'B' | b'G') {
            cie[to] = cie[from];
            to += 1;
        }
    }
    cie[to - 1] |= 0x80;
    cie[to..end].fill(0x80);
    cie[end - 1] = 0;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(version: u8, name: SectionName, mut cie: Vec<u8>) -> Vec<u8> {
        rewrite(name, version, &mut cie);
        cie
    }

    #[test]
    fn the_factor_takes_the_letters_bytes() {
        let eh = |cie: &[u8]| rewritten(1, SectionName::EhFrame, cie.to_vec());
        assert_eq!(eh(b"zRB\0\x04\x78"), b"zR\0\x84\0\x78");
        assert_eq!(eh(b"zGRB\0\x04\x78"), b"zR\0\x84\x80\0\x78");
        assert_eq!(eh(b"B\0\x84\x01\x78"), b"\0\x84\x81\0\x78");
        let debug = rewritten(4, SectionName::DebugFrame, b"B\0\x08\0\x04\x78".to_vec());
        assert_eq!(debug, b"\0\x08\0\x84\0\x78");
    }

    #[test]
    fn what_does_not_fit_stays() {
        let eh = |cie: &[u8]| rewritten(1, SectionName::EhFrame, cie.to_vec());
        for cie in [&b"zBBBBBBBBBB\0\x04"[..], b"zB\0\x84", b"zB\0", b"zB"] {
            assert_eq!(eh(cie), cie);
        }
    }
}
