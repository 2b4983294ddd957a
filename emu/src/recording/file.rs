//! The file of a recording: sealed, and opened again with limits. [`super`] has the format.

use std::io::{self, Read, Write};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::manifest::Manifest;
use super::{Recording, VERSION, check};

/// How a recording begins.
pub const MAGIC: [u8; 8] = *b"EMUREC\r\n";

/// Longest body in bytes: all files and inputs of a run.
pub const MAX_BODY: u64 = 256 << 20;

/// Bytes of files and standard input that are recorded at most: the manifest and headers need
/// room in the body, too.
pub const MAX_READ: u64 = MAX_BODY - (16 << 20);

/// Longest manifest in bytes.
pub const MAX_MANIFEST: u64 = 8 << 20;

/// Most files.
pub const MAX_FILES: usize = 1 << 16;

/// Longest file in bytes: a body that does not compress, and what is around it.
pub const MAX_FILE: u64 = MAX_BODY + (1 << 20);

/// zstd's: the body of a small guest is packed in some milliseconds.
const LEVEL: i32 = 12;

/// Base-2 logarithm of the largest window, which is memory for the reader.
const WINDOW: u32 = 27;

const HEADER: usize = 32;
const DIGEST: usize = 32;
const MANIFEST: [u8; 4] = *b"MNFT";
const INPUT: [u8; 4] = *b"STDN";
const FILE: [u8; 4] = *b"FILE";

/// Why bytes are no recording that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It does not begin as a recording does.
    #[error("is no recording of emu: it does not begin with EMUREC; make one with `emu record`")]
    Magic,
    /// Another version wrote it.
    #[error("is a recording of version {found}, and this emu reads version {VERSION}; {}", hint(*found))]
    Version {
        /// The file's.
        found: u32,
    },
    /// Bytes are missing at the end.
    #[error("is truncated: {found} of {wanted} bytes are there; copy it again")]
    Truncated {
        /// Length of the file.
        found: u64,
        /// Length that the header tells.
        wanted: u64,
    },
    /// Bytes follow the end.
    #[error("has {more} bytes behind its end at offset {end:#x}; copy it again")]
    Behind {
        /// How many.
        more: u64,
        /// Where the recording ends.
        end: u64,
    },
    /// The digest is another.
    #[error("is damaged: its SHA-256 is not the one at offset {at:#x}; copy it again")]
    Digest {
        /// Where the digest is.
        at: u64,
    },
    /// A length is over a limit.
    #[error("{what} has {found} bytes; at most {limit} are read")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        found: u64,
        /// Limit.
        limit: u64,
    },
    /// The body cannot be unpacked.
    #[error("offset 0x20: the body is no zstd frame of {wanted} bytes: {why}; record it again")]
    Packed {
        /// Length that the header tells.
        wanted: u64,
        /// What is wrong.
        why: String,
    },
    /// A section is not as it must be.
    #[error("offset {at:#x} of the body: {why}; record it again")]
    Section {
        /// Where it begins.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The manifest is not as it must be.
    #[error("the manifest: {0}; record it again")]
    Manifest(String),
}

fn hint(found: u32) -> &'static str {
    if found > VERSION { "use a newer emu" } else { "use an older emu, or record it again" }
}

/// Why a run does not fit into a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// A length is over a limit.
    #[error("{what} has {found} bytes; a recording takes at most {limit}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        found: u64,
        /// Limit.
        limit: u64,
    },
    /// The host gave answers that no recording may have.
    #[error("the host's answers make no sense: {0}")]
    Manifest(String),
    /// It cannot be packed.
    #[error("it cannot be packed: {0}")]
    Packing(#[from] io::Error),
}

impl Recording {
    /// The file's bytes. The same recording gives the same bytes.
    ///
    /// # Errors
    ///
    /// [`SealError`] if it is too long, or could not be opened again.
    pub fn seal(&self) -> Result<Vec<u8>, SealError> {
        check::check(&self.manifest, self.input.len(), self.files.len())
            .map_err(SealError::Manifest)?;
        let body = self.body()?;
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        encoder.write_all(&body)?;
        let packed = encoder.finish()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(packed);
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        Ok(bytes)
    }

    pub(super) fn body(&self) -> Result<Vec<u8>, SealError> {
        let manifest = serde_json::to_vec(&self.manifest).map_err(io::Error::from)?;
        let too_long = |what, found, limit| Err(SealError::TooLong { what, found, limit });
        if manifest.len() as u64 > MAX_MANIFEST {
            return too_long("the manifest", manifest.len() as u64, MAX_MANIFEST);
        }
        let files = self.files.iter().map(|file| (FILE, &file[..]));
        let sections: Vec<([u8; 4], &[u8])> =
            [(MANIFEST, &manifest[..]), (INPUT, &self.input)].into_iter().chain(files).collect();
        let len = sections.iter().fold(0, |sum, (_, bytes)| sum + 12 + bytes.len() as u64);
        if len > MAX_BODY {
            return too_long("what the guest read", len, MAX_BODY);
        }
        let mut body = Vec::with_capacity(len as usize);
        for (tag, bytes) in sections {
            body.extend(tag);
            body.extend((bytes.len() as u64).to_le_bytes());
            body.extend(bytes);
        }
        Ok(body)
    }

    /// Opens a file's bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError`] for anything but a whole recording of this version.
    pub fn open(bytes: &[u8]) -> Result<Recording, ReadError> {
        if !bytes.starts_with(&MAGIC) {
            // What is left of a file that was cut within these bytes is no recording either.
            return Err(ReadError::Magic);
        }
        let found = bytes.len() as u64;
        let truncated = |wanted| ReadError::Truncated { found, wanted };
        let header: &[u8; HEADER] =
            bytes.first_chunk().ok_or(truncated((HEADER + DIGEST) as u64))?;
        let version = u32_at(header, 8);
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        let (packed, body) = (u64_at(header, 16), u64_at(header, 24));
        for (what, found, limit) in
            [("the packed body", packed, MAX_FILE), ("the body", body, MAX_BODY)]
        {
            if found > limit {
                return Err(ReadError::TooLong { what, found, limit });
            }
        }
        let at = HEADER as u64 + packed;
        let end = at + DIGEST as u64;
        if found < end {
            return Err(truncated(end));
        }
        if found > end {
            return Err(ReadError::Behind { more: found - end, end });
        }
        let (content, digest) = bytes.split_at(at as usize);
        if Sha256::digest(content)[..] != *digest {
            return Err(ReadError::Digest { at });
        }
        Recording::of_body(&unpack(&content[HEADER..], body)?)
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// [`ReadError::Section`], [`ReadError::Manifest`], [`ReadError::TooLong`]
    pub fn of_body(body: &[u8]) -> Result<Recording, ReadError> {
        let mut sections = Sections { body, at: 0 };
        let manifest = sections.expect(MANIFEST, "the first section must be MNFT")?;
        let (found, limit) = (manifest.len() as u64, MAX_MANIFEST);
        if found > limit {
            return Err(ReadError::TooLong { what: "the manifest", found, limit });
        }
        let manifest: Manifest =
            serde_json::from_slice(manifest).map_err(|e| ReadError::Manifest(one_line(&e)))?;
        let input = sections.expect(INPUT, "the second section must be STDN")?.to_vec();
        let mut files: Vec<Arc<[u8]>> = Vec::new();
        while !sections.is_at_end() {
            if files.len() == MAX_FILES {
                return Err(sections.wrong("there are more than 65,536 files"));
            }
            files.push(sections.expect(FILE, "only FILE sections may follow")?.into());
        }
        check::check(&manifest, input.len(), files.len()).map_err(ReadError::Manifest)?;
        Ok(Recording { manifest, input, files })
    }
}

fn unpack(packed: &[u8], wanted: u64) -> Result<Vec<u8>, ReadError> {
    let failed = |why: String| ReadError::Packed { wanted, why };
    let host = |e: io::Error| failed(e.to_string().replace(['\n', '\r'], " "));
    let mut decoder = zstd::Decoder::with_buffer(packed).map_err(host)?.single_frame();
    decoder.window_log_max(WINDOW).map_err(host)?;
    let mut body = Vec::new();
    // One byte more tells that there is more.
    decoder.by_ref().take(wanted + 1).read_to_end(&mut body).map_err(host)?;
    if body.len() as u64 != wanted {
        let more = if body.len() as u64 > wanted { "it is longer" } else { "it is shorter" };
        return Err(failed(more.to_owned()));
    }
    match decoder.finish().is_empty() {
        true => Ok(body),
        false => Err(failed("bytes follow it".to_owned())),
    }
}

/// Reads section after section.
struct Sections<'b> {
    body: &'b [u8],
    at: usize,
}

impl<'b> Sections<'b> {
    fn is_at_end(&self) -> bool {
        self.at == self.body.len()
    }

    fn wrong(&self, why: &'static str) -> ReadError {
        ReadError::Section { at: self.at as u64, why }
    }

    /// The contents of the next section, which must have this tag; `why` says so.
    fn expect(&mut self, tag: [u8; 4], why: &'static str) -> Result<&'b [u8], ReadError> {
        let rest = &self.body[self.at..];
        if !rest.starts_with(&tag) {
            return Err(self.wrong(why));
        }
        let Some(len) = rest[4..].first_chunk().map(|b| u64::from_le_bytes(*b)) else {
            return Err(self.wrong("the body ends within the length of a section"));
        };
        let contents = usize::try_from(len).ok().and_then(|len| rest[12..].get(..len));
        let contents = contents.ok_or(self.wrong("the body ends within a section"))?;
        self.at += 12 + contents.len();
        Ok(contents)
    }
}

fn one_line(error: &serde_json::Error) -> String {
    error.to_string().replace(|c: char| c.is_control(), " ")
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    header[at..at + 4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b))
}

fn u64_at(header: &[u8; HEADER], at: usize) -> u64 {
    header[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}
