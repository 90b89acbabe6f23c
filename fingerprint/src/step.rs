//! One operator of two graphs that are compared.

use crate::{Difference, Digest};

/// One operator of two graphs: of both, or of one of them.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its short name, as differences call it.
    pub operator: String,
    /// Where the user wrote it; empty if not known.
    pub location: String,
    /// Whether it reads from outside the graph.
    pub source: bool,
    /// Its subgraph digest in the second graph; `None` if it is only in the first.
    pub digest: Option<Digest>,
    /// Its subgraph digest in the first graph; `None` if it is only in the second.
    pub was: Option<Digest>,
    /// It and all upstream of it are the same.
    pub equal: bool,
    /// What it has otherwise. Empty for one that differs only in what is upstream.
    pub differences: Vec<Difference>,
}

impl Step {
    /// Whether both graphs have the operator.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.digest.is_some() && self.was.is_some()
    }
}
