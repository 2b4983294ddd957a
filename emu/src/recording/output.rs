//! What a guest wrote to a standard stream.

use sha2::{Digest, Sha256};

use super::manifest::Output;
use super::text::{Text, hex};

/// Longer outputs are known by their digest only.
const KEPT: usize = 4096;

/// A stream while it is written.
#[derive(Clone, Debug, Default)]
pub struct OutputLog {
    hash: Sha256,
    len: u64,
    head: Vec<u8>,
    /// Writes so far that did not fail.
    pub writes: u64,
}

impl OutputLog {
    /// A write that did not fail.
    pub fn push(&mut self, bytes: &[u8]) {
        self.writes += 1;
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
        let room = (KEPT + 1).saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
    }

    /// What was written.
    pub fn output(&self) -> Output {
        let text = (self.head.len() <= KEPT).then(|| Text(self.head.clone()));
        Output { len: self.len, sha256: hex(&self.hash.clone().finalize()), text }
    }
}
