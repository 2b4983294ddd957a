//! Where the bytes of a section come from: a slice, or the memory of a process.

/// Bytes by offset. Decoding takes them in pieces of a few bytes, so that a section need not
/// be copied before it is read.
pub(super) trait Source {
    /// The `N` bytes from offset `at`; `None` if they are not there.
    fn take<const N: usize>(&mut self, at: u64) -> Option<[u8; N]>;

    /// The bytes from offset `from` to `to`, if they need not be fetched.
    fn at_hand(&self, _from: u64, _to: u64) -> Option<&[u8]> {
        None
    }
}

impl Source for &[u8] {
    #[inline]
    fn take<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        self.get(usize::try_from(at).ok()?..)?.first_chunk().copied()
    }

    #[inline]
    fn at_hand(&self, from: u64, to: u64) -> Option<&[u8]> {
        self.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}

/// Order of the bytes in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    #[inline]
    pub(super) const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(super) const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(super) const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// The `N` bytes of `bytes` from `AT`, which the compiler checks.
#[inline]
pub(super) const fn piece<const AT: usize, const N: usize, const ALL: usize>(
    bytes: &[u8; ALL],
) -> [u8; N] {
    const { assert!(AT + N <= ALL) };
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = bytes[AT + i];
        i += 1;
    }
    out
}
