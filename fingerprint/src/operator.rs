//! One step of a pipeline.

use crate::{Determinism, Digest, Leaf, Source, Value};
use std::collections::BTreeMap;

/// One step of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Unique in its graph. Names it for edges only; never part of a digest.
    pub id: String,
    /// What it does: `torchvision.transforms.v2.Resize`.
    pub name: String,
    /// Of the package or program that does it; empty if unknown.
    pub version: String,
    /// Parameters by name.
    pub params: BTreeMap<String, Value>,
    /// Digest of the operator's own code; `None` where name and version say all.
    pub code: Option<Digest>,
    /// Its own class, whatever is upstream.
    pub determinism: Determinism,
    /// Data edges, in the order the operator takes them.
    pub inputs: Vec<Input>,
    /// Ids of operators that only have to run before it, in no order.
    pub after: Vec<String>,
    /// Set where it reads from outside the graph; then it has no inputs.
    pub source: Option<Source>,
    /// Where the user wrote it: `train.py:41`. Never part of a digest.
    pub location: String,
    /// Named parts of its code and state. Never part of a digest.
    pub leaves: Vec<Leaf>,
}

/// A data edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Id of the operator that feeds it.
    pub operator: String,
    /// Which of its outputs.
    pub port: u32,
}

impl Operator {
    /// A deterministic operator with nothing but an id and a name.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            version: String::new(),
            params: BTreeMap::new(),
            code: None,
            determinism: Determinism::Deterministic,
            inputs: Vec::new(),
            after: Vec::new(),
            source: None,
            location: String::new(),
            leaves: Vec::new(),
        }
    }

    /// The name without its package, and what encloses it: `Resize`. Names that are not paths of identifiers stay whole.
    #[must_use]
    pub fn short_name(&self) -> &str {
        let is_path = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'<' | b'>');
        let last = self.name.rsplit(['.', ':']).next().unwrap_or_default();
        if last.is_empty() || !self.name.bytes().all(is_path) {
            &self.name
        } else {
            last
        }
    }
}
