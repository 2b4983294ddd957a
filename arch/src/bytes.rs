//! Little-endian fields of fixed layouts. Offsets are constants of the
//! callers that lie inside their buffers, so the slices cannot fail.

/// Stores a field at an offset.
pub(crate) fn put<const N: usize>(buf: &mut [u8], at: usize, field: [u8; N]) {
    buf[at..at + N].copy_from_slice(&field);
}

/// Stores consecutive 64-bit fields from an offset.
pub(crate) fn put_words(buf: &mut [u8], at: usize, words: &[u64]) {
    for (slot, word) in buf[at..].chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
}

/// The bytes of a field at an offset.
pub(crate) fn get<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&buf[at..at + N]);
    field
}

/// A 16-bit field.
pub(crate) fn u16_at(buf: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(buf, at))
}

/// A 32-bit field.
pub(crate) fn u32_at(buf: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(buf, at))
}

/// A 64-bit field.
pub(crate) fn u64_at(buf: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(buf, at))
}
