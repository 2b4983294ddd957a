//! Bytes in JSON: as text where they are UTF-8.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Bytes that people can read in most cases: a path, an argument, a variable. In JSON a string,
/// or `{"hex": "…"}` if they are no UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Text(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes { hex: String },
}

impl Text {
    /// Of a path or a word of the host.
    pub fn of(word: impl AsRef<OsStr>) -> Text {
        Text(word.as_ref().as_bytes().to_vec())
    }

    /// As a word of the host.
    pub fn word(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// As a path of the host.
    pub fn path(&self) -> &Path {
        Path::new(self.word())
    }
}

impl From<Text> for Wire {
    fn from(text: Text) -> Wire {
        match String::from_utf8(text.0) {
            Ok(text) => Wire::Text(text),
            Err(e) => Wire::Bytes { hex: hex(e.as_bytes()) },
        }
    }
}

impl TryFrom<Wire> for Text {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Text, &'static str> {
        match wire {
            Wire::Text(text) => Ok(Text(text.into_bytes())),
            Wire::Bytes { hex } => unhex(&hex).map(Text).ok_or("no pairs of hexadecimal digits"),
        }
    }
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|p| Some(digit(*p.first()?)? << 4 | digit(*p.get(1)?)?)).collect()
}
