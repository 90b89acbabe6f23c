//! A checked graph of operators.

use crate::{
    Determinism, Digest, Error, Note, Operator,
    canonical::{self, Node},
    determinism,
    edges::Edges,
    encode, limits, merkle, order, rules,
};
use std::collections::HashMap;

/// Operators of a pipeline as shown before the rest is only counted.
const PIPELINE_NAMES_MAX: usize = 24;

/// Operators and the edges between them, checked when built: it is acyclic, within [`limits`], and every edge
/// leads to an operator of the graph.
#[derive(Debug, Clone)]
pub struct Graph {
    operators: Vec<Operator>,
    output: usize,
    positions: HashMap<String, usize>,
    blames: Vec<Option<usize>>,
    digests: Vec<Digest>,
    shape: Digest,
    nodes: Vec<Node>,
    canonical: Vec<u8>,
}

impl Graph {
    /// Checks and hashes a graph that yields the elements of the operator `output`. Operators come in any order.
    /// Linear in operators and edges.
    ///
    /// # Errors
    /// What [`Error`] says about graphs: too large, a cycle, an unknown or repeated id.
    pub fn new(operators: Vec<Operator>, output: &str) -> Result<Self, Error> {
        limits::check(&operators)?;
        let mut positions = HashMap::with_capacity(operators.len());
        for (i, operator) in operators.iter().enumerate() {
            if positions.insert(operator.id.clone(), i).is_some() {
                return Err(Error::DuplicateId {
                    id: operator.id.clone(),
                });
            }
        }
        let missing = || Error::MissingOutput {
            output: output.to_owned(),
        };
        let output = *positions.get(output).ok_or_else(missing)?;
        let edges = Edges::resolve(&operators, &positions)?;
        let all = 0..operators.len();
        let upstream: Vec<Vec<usize>> = all.clone().map(|i| edges.upstream(i).collect()).collect();
        let order = order::topological(&upstream, all).map_err(|(operator, upstream)| Error::Cycle {
            operator: operators[operator].id.clone(),
            upstream: operators[upstream].id.clone(),
        })?;
        let blames = determinism::blame(&operators, &edges, &order);
        let deterministic: Vec<bool> = blames.iter().map(Option::is_none).collect();
        let digests = merkle::digests(&operators, &edges, &order, &deterministic);
        let nodes = canonical::nodes(&edges, &order, &digests.precise, output);
        let canonical = canonical::bytes(&nodes, &operators, &deterministic);
        Ok(Self {
            shape: digests.shape[output],
            digests: digests.precise,
            operators,
            output,
            positions,
            blames,
            nodes,
            canonical,
        })
    }

    /// The graph of a canonical form. Its operators have other ids and no locations; its digests are the same.
    ///
    /// # Errors
    /// [`Error::NotCanonical`] for bytes that [`Graph::canonical`] cannot have returned, and the errors of
    /// [`Graph::new`]. Memory is bounded by [`limits::CANONICAL_BYTES_MAX`].
    pub fn from_canonical(bytes: &[u8]) -> Result<Self, Error> {
        let operators = encode::decode(bytes)?;
        let output = operators.len().saturating_sub(1).to_string();
        let graph = Self::new(operators, &output)?;
        if graph.canonical != bytes {
            let reason = "it encodes a graph, but not as the canonical form does".to_owned();
            return Err(Error::NotCanonical { reason });
        }
        Ok(graph)
    }

    /// Subgraph digest of the output: the identity of what the graph computes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digests[self.output]
    }

    /// Subgraph digest of an operator; `None` if there is none of that id.
    #[must_use]
    pub fn digest_of(&self, id: &str) -> Option<Digest> {
        self.positions.get(id).map(|&i| self.digests[i])
    }

    /// The output's digest with literals, versions, code and seeds cleared. Parameter names and value types stay.
    #[must_use]
    pub const fn shape(&self) -> Digest {
        self.shape
    }

    /// DAG-CBOR of the canonical form: equal exactly if the digests are. It is kept with what was computed, to
    /// prove on a hit what the digest only finds.
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The worst class of all operators that the output needs.
    #[must_use]
    pub fn determinism(&self) -> &Determinism {
        self.blame()
            .map_or(&Determinism::Deterministic, |operator| &operator.determinism)
    }

    /// The operator that makes [`Graph::determinism`] what it is, the nearest to a source if several do. `None` if all
    /// are deterministic.
    #[must_use]
    pub fn blame(&self) -> Option<&Operator> {
        self.blames[self.output].map(|i| &self.operators[i])
    }

    /// Short operator names, source first, sources left out: `decode | resize | crop`.
    #[must_use]
    pub fn pipeline(&self) -> String {
        let steps = self.nodes.iter().map(|node| &self.operators[node.operator]);
        let mut names: Vec<&str> = steps
            .clone()
            .filter(|o| o.source.is_none())
            .map(Operator::short_name)
            .collect();
        if names.is_empty() {
            names = steps.map(Operator::short_name).collect();
        }
        let rest = names.len().saturating_sub(PIPELINE_NAMES_MAX);
        names.truncate(PIPELINE_NAMES_MAX);
        let shown = names.join(" | ");
        if rest == 0 {
            shown
        } else {
            format!("{shown} | ... {rest} more")
        }
    }

    /// What explains the operators of the canonical form, in its order. The form itself holds none of it.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        let operators = self.nodes.iter().map(|node| &self.operators[node.operator]);
        let note = |operator: &Operator| Note {
            location: operator.location.clone(),
            leaves: operator.leaves.clone(),
        };
        operators.map(note).collect()
    }

    /// Drops the leaves of all operators; differences are then told by parameters and digests.
    pub fn forget_leaves(&mut self) {
        for operator in &mut self.operators {
            operator.leaves = Vec::new();
        }
    }

    /// Puts back what [`Graph::notes`] returned of a graph with this canonical form; what is beyond its operators is
    /// ignored.
    pub fn annotate(&mut self, notes: Vec<Note>) {
        for (node, note) in self.nodes.iter().zip(notes) {
            let operator = &mut self.operators[node.operator];
            operator.location = note.location;
            operator.leaves = note.leaves;
        }
    }

    /// The operators, as given.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Id of the output operator.
    #[must_use]
    pub fn output(&self) -> &str {
        &self.operators[self.output].id
    }

    /// The canonical form.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The operator that a node stands for.
    pub(crate) fn operator(&self, node: &Node) -> &Operator {
        &self.operators[node.operator]
    }

    /// The parameters of a node that count.
    pub(crate) fn params(&self, node: &Node) -> impl Iterator<Item = (&String, &crate::Value)> + Clone {
        rules::params(self.operator(node), self.blames[node.operator].is_none())
    }

    /// A node's encoding without its edges.
    pub(crate) fn own(&self, node: &Node) -> Vec<u8> {
        let operator = self.operator(node);
        let deterministic = self.blames[node.operator].is_none();
        encode::bytes(&encode::operator::<usize>(operator, deterministic, &[], &[]))
    }
}
