//! A typed parameter value.

use crate::{
    Digest,
    digest::Context,
    limits::{VALUE_BYTES, VALUE_DEPTH_MAX},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Characters of a value shown to people; the rest is stood for by a digest.
const SHOWN_CHARS_MAX: usize = 120;

/// A parameter value. Types are part of its identity: `224` is not `224.0`, nor `"224"`.
///
/// Reals are equal if their bits are: `0.0` is not `-0.0`, and a NaN equals itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number; encoded as its 8 bytes, big-endian, since DAG-CBOR has no infinities.
    Real(#[serde(with = "bits")] f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Values in order.
    List(Vec<Value>),
    /// Named values in no order.
    Map(BTreeMap<String, Value>),
    /// Digest of a value too large to carry.
    Digest(Digest),
}

/// Reals as their bits.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_bytes::ByteArray;

    pub fn serialize<S: Serializer>(real: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        ByteArray::new(real.to_bits().to_be_bytes()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let bytes: ByteArray<8> = ByteArray::deserialize(deserializer)?;
        Ok(f64::from_bits(u64::from_be_bytes(bytes.into_array())))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Real(a), Self::Real(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Digest(a), Self::Digest(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Value {
    /// Bytes that the value counts against [`crate::limits::GRAPH_BYTES_MAX`], or `None` if it is nested
    /// deeper than [`VALUE_DEPTH_MAX`].
    pub(crate) fn weight(&self) -> Option<usize> {
        self.weight_within(VALUE_DEPTH_MAX)
    }

    /// Recursion ends with `depth`, before anything deeper is looked at.
    fn weight_within(&self, depth: usize) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        let payload = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Digest(_) => Digest::BYTES,
            Self::List(values) => sum(values.iter().map(|v| v.weight_within(depth)))?,
            Self::Map(entries) => sum(entries
                .iter()
                .map(|(name, v)| v.weight_within(depth).map(|w| w + name.len())))?,
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Real(_) => 0,
        };
        Some(payload.saturating_add(VALUE_BYTES))
    }

    /// The value's type in place of the value. A list keeps each run of equal types once, so that its
    /// length does not count.
    pub(crate) fn shape(&self) -> Self {
        match self {
            Self::List(values) => {
                let mut shapes: Vec<_> = values.iter().map(Self::shape).collect();
                shapes.dedup();
                Self::List(shapes)
            }
            Self::Map(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(name, v)| (name.clone(), v.shape()))
                    .collect(),
            ),
            Self::Null => Self::Null,
            Self::Bool(_) => Self::Text("bool".into()),
            Self::Int(_) => Self::Text("int".into()),
            Self::Real(_) => Self::Text("real".into()),
            Self::Text(_) => Self::Text("text".into()),
            Self::Bytes(_) => Self::Text("bytes".into()),
            Self::Digest(_) => Self::Text("digest".into()),
        }
    }

    /// As a person reads it; a long one is cut, and told from others by a digest of its text.
    pub(crate) fn shown(&self) -> String {
        shorten(self.to_string())
    }
}

/// Sum of weights; `None` if any is.
fn sum(mut weights: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    weights.try_fold(0, |sum: usize, weight| Some(sum.saturating_add(weight?)))
}

/// `text` cut to [`SHOWN_CHARS_MAX`], with a digest of the whole where it was cut.
pub(crate) fn shorten(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text,
        Some((end, _)) => {
            let digest = Context::Value.digest(text.as_bytes()).short();
            format!("{}... ({} bytes, digest {digest})", &text[..end], text.len())
        }
    }
}

/// `[a, b]` for any iterator of what can be shown.
fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    Ok(())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            // NaNs differ in bits that no decimal shows.
            Self::Real(value) if value.is_nan() => write!(f, "nan({:#x})", value.to_bits()),
            Self::Real(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => {
                let digest = Context::Value.digest(bytes).short();
                write!(f, "{} bytes (digest {digest})", bytes.len())
            }
            Self::Digest(digest) => write!(f, "digest {}", digest.short()),
            Self::List(values) => {
                f.write_str("[")?;
                write_list(f, values.iter(), |f, value| value.fmt(f))?;
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                write_list(f, entries.iter(), |f, (name, value)| write!(f, "{name}: {value}"))?;
                f.write_str("}")
            }
        }
    }
}
