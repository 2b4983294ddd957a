//! The stack that is unwound.

/// Reads the memory of the thread. Little-endian, as both architectures run.
///
/// Addresses come out of tables and out of the stack itself: every one may be wrong.
pub trait Memory {
    /// Fills `bytes` from `address`; `false` if any of them cannot be read. An
    /// implementation may bring pages in, or refuse to, as its context demands.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool;

    /// The word at `address`, which need not be aligned.
    #[inline]
    fn word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// The words at `address` and `address + 8`: a frame record.
    #[inline]
    fn pair(&mut self, address: u64) -> Option<(u64, u64)> {
        Some((self.word(address)?, self.word(address.checked_add(8)?)?))
    }
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        (**self).read(address, bytes)
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        (**self).word(address)
    }

    fn pair(&mut self, address: u64) -> Option<(u64, u64)> {
        (**self).pair(address)
    }
}

/// A copied piece of a stack.
#[derive(Clone, Debug)]
pub struct Copied<D> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: D,
}

impl<D: AsRef<[u8]>> Copied<D> {
    /// The bytes from `address` on.
    #[inline]
    fn from(&self, address: u64) -> Option<&[u8]> {
        // Below the first byte is far behind the last one.
        let at = usize::try_from(address.wrapping_sub(self.address)).ok()?;
        self.bytes.as_ref().get(at..)
    }
}

impl<D: AsRef<[u8]>> Memory for Copied<D> {
    #[inline]
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        match self.from(address).and_then(|from| from.get(..bytes.len())) {
            Some(found) => {
                bytes.copy_from_slice(found);
                true
            }
            None => false,
        }
    }

    #[inline]
    fn word(&mut self, address: u64) -> Option<u64> {
        self.from(address)?.first_chunk().map(|&b| u64::from_le_bytes(b))
    }

    #[inline]
    fn pair(&mut self, address: u64) -> Option<(u64, u64)> {
        let both: &[u8; 16] = self.from(address)?.first_chunk()?;
        let [low, high] = *both.as_chunks().0 else { return None };
        Some((u64::from_le_bytes(low), u64::from_le_bytes(high)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_ends_where_it_ends() {
        let mut m = Copied { address: 0x1000, bytes: (0u8..24).collect::<Vec<_>>() };
        assert_eq!(m.word(0x1000), Some(0x0706_0504_0302_0100));
        assert_eq!(m.word(0x1010), Some(0x1716_1514_1312_1110));
        assert_eq!(m.pair(0x1008).map(|p| p.1), m.word(0x1010));
        assert_eq!((m.word(0x1011), m.word(0xfff), m.pair(0x1010)), (None, None, None));
        assert_eq!((m.word(u64::MAX), m.pair(u64::MAX - 7)), (None, None));
    }
}
