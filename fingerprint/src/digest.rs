//! Digests: BLAKE3-256 in derive-key mode, one context per use.

use crate::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// A BLAKE3-256 digest. Displayed and parsed as 64 lower-case hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; Self::BYTES]);

/// What a digest is of. Digests of different contexts never meet, even over equal bytes.
///
/// A context's text changes its version whenever the bytes hashed under it change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// An operator and all that is upstream of it: the subgraph digest.
    Operator,
    /// The same with literals and versions cleared: the shape digest.
    Shape,
    /// The bytes of a file or object.
    Content,
    /// One item: its relative path, if that counts, and its content.
    Item,
    /// The files of a directory, in no order.
    Directory,
    /// A run of items, in order.
    Partition,
    /// The arguments of a call and the files it reads.
    Arguments,
    /// The number of an item in its data set.
    Place,
    /// A parameter too large to carry or to show.
    Value,
}

impl Context {
    /// Text handed to BLAKE3's key derivation.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Operator => "prebake 2026 operator v1",
            Self::Shape => "prebake 2026 shape v1",
            Self::Content => "prebake 2026 content v1",
            Self::Item => "prebake 2026 item v1",
            Self::Directory => "prebake 2026 directory v1",
            Self::Partition => "prebake 2026 partition v1",
            Self::Arguments => "prebake 2026 arguments v1",
            Self::Place => "prebake 2026 place v1",
            Self::Value => "prebake 2026 value v1",
        }
    }

    /// A hasher for this context.
    #[must_use]
    pub fn hasher(self) -> blake3::Hasher {
        blake3::Hasher::new_derive_key(self.text())
    }

    /// Digest of `bytes` in this context.
    #[must_use]
    pub fn digest(self, bytes: &[u8]) -> Digest {
        self.hasher().update(bytes).finalize().into()
    }
}

impl Digest {
    /// Length of a digest in bytes.
    pub const BYTES: usize = 32;

    /// The first 8 hexadecimal characters, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| Error::BadDigest { found: bytes.len() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    /// Upper-case characters are refused: one digest has one text.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadDigest {
            found: text.len() / 2,
        };
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(bad());
        }
        blake3::Hash::from_hex(text).map(Self::from).map_err(|_| bad())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_bytes::ByteArray::deserialize(deserializer).map(|bytes| Self(bytes.into_array()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        let digest = Context::Content.digest(b"x");
        assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
        assert_eq!(digest.to_string().len(), 64);
    }

    #[test]
    fn malformed_hex_is_refused() {
        let text = Context::Content.digest(b"x").to_string();
        for bad in [
            "",
            "00",
            &text[1..],
            &text.to_uppercase(),
            &"g".repeat(64),
            &"é".repeat(32),
        ] {
            assert_eq!(
                bad.parse::<Digest>().map_err(|e| e.code()),
                Err("bad-digest"),
                "{bad}"
            );
        }
        assert!(Digest::try_from(&[0_u8; 31][..]).is_err());
    }

    #[test]
    fn contexts_never_meet() {
        assert_ne!(Context::Content.digest(b"x"), Context::Item.digest(b"x"));
    }
}
