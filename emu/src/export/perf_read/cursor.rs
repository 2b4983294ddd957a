//! Bytes of a file, taken from the front: every length is checked before it is used.

use super::ReadError;

/// Little-endian 64-bit words that lie in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// How many.
    pub fn len(self) -> usize {
        self.0.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// One after another.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// Their bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A part of the file, read from its front.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the file.
    at: u64,
}

impl<'a> Cursor<'a> {
    /// The bytes of `file` from offset `at` on, `len` of them, which are `field`.
    ///
    /// # Errors
    ///
    /// If the file is shorter.
    pub fn new(
        file: &'a [u8],
        at: u64,
        len: u64,
        field: &'static str,
    ) -> Result<Cursor<'a>, ReadError> {
        let end = at.checked_add(len).filter(|&end| end <= file.len() as u64);
        let Some(end) = end else {
            let size = file.len();
            let problem = format!("{len} bytes do not lie within the file, which has {size}");
            return Err(ReadError::new(at, field, problem));
        };
        Ok(Cursor { rest: &file[at as usize..end as usize], at })
    }

    /// Offset of the next byte in the file.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether no byte is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn take(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], ReadError> {
        if len > self.rest.len() as u64 {
            let problem = format!("{len} bytes, where only {} are left", self.rest.len());
            return Err(ReadError::new(self.at, field, problem));
        }
        let (taken, rest) = self.rest.split_at(len as usize);
        self.rest = rest;
        self.at += len;
        Ok(taken)
    }

    /// The next bytes as an array.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ReadError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, field)?);
        Ok(array)
    }

    /// The next 16 bits.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, ReadError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// The next 32 bits.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, ReadError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// The next 64 bits.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, ReadError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// The next two 32-bit words.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn pair(&mut self, field: &'static str) -> Result<(u32, u32), ReadError> {
        let word = self.u64(field)?;
        Ok((word as u32, (word >> 32) as u32))
    }

    /// The next `count` 64-bit words.
    ///
    /// # Errors
    ///
    /// If fewer are left.
    pub fn words(&mut self, count: u64, field: &'static str) -> Result<Words<'a>, ReadError> {
        let len = count.saturating_mul(8);
        self.take(len, field).map(Words)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.at += self.rest.len() as u64;
        std::mem::take(&mut self.rest)
    }
}
