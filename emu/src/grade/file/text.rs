//! Numbers and bytes in JSON. Addresses are text: readers of other languages keep 53 bits of
//! a number.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// What is wrong with the JSON of one line. serde_json counts lines, too: that number would be
/// 1 at every line of a file.
pub fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} (column {})", error.column()),
        None => text,
    }
}

/// `"0x401370"`
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Hex(pub u64);

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number as \"0x…\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Hex, E> {
                let digits = text.strip_prefix("0x").filter(|d| !d.starts_with('+'));
                let value = digits.and_then(|d| u64::from_str_radix(d, 16).ok());
                value.map(Hex).ok_or_else(|| E::custom("not a 64-bit number as \"0x…\""))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// `"55488b"`
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
        let text: String = self.0.iter().flat_map(|b| [digit(b >> 4), digit(*b)]).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in hexadecimal")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                let value = |pair: &[u8; 2]| {
                    let digit = |c: u8| char::from(c).to_digit(16);
                    Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
                };
                let (pairs, rest) = text.as_bytes().as_chunks();
                let bytes: Option<Vec<u8>> = pairs.iter().map(value).collect();
                match bytes {
                    Some(bytes) if rest.is_empty() => Ok(Bytes(bytes)),
                    _ => Err(E::custom("not bytes in hexadecimal")),
                }
            }
        }
        deserializer.deserialize_str(Text)
    }
}
