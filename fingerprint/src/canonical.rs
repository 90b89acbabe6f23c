//! The canonical form: what is left of a graph when everything that cannot change its elements is gone.
//!
//! Only what the output needs; equal subgraphs once; identity operators and execution-only parameters
//! gone (`rules`); operators in one order, and named by their place in it. Two graphs have the same canonical form
//! exactly if they have the same digest.
//!
//! Random operators that look alike merge too, though they draw apart: nothing downstream of one is cached.

use crate::{Digest, Operator, edges::Edges, encode, order};
use std::collections::HashMap;

/// An operator of the canonical form.
#[derive(Debug, Clone)]
pub struct Node {
    /// Position, in the graph as given, of the first operator that it stands for.
    pub operator: usize,
    /// Subgraph digest.
    pub digest: Digest,
    /// Nodes that feed it, by place, and their output ports, in order.
    pub inputs: Vec<(usize, u32)>,
    /// Nodes that only run before it, by place, ascending.
    pub after: Vec<usize>,
    /// Edges on the longest way from a source.
    pub level: usize,
}

/// Nodes upstream before downstream, the output last.
pub fn nodes(edges: &Edges, order: &[usize], digests: &[Digest], output: usize) -> Vec<Node> {
    // An identity operator comes after its input in `order`, so it never stands for others.
    let mut first = HashMap::new();
    for &i in order {
        first.entry(digests[i]).or_insert(i);
    }
    let stand_in = |i: usize| first[&digests[i]];
    let mut upstream = vec![Vec::new(); digests.len()];
    for &i in first.values() {
        let mut after = edges.after[i].clone();
        after.sort_unstable_by_key(|&before| digests[before]);
        let inputs = edges.inputs[i].iter().map(|(input, _)| *input);
        upstream[i] = inputs.chain(after).map(stand_in).collect();
    }
    // No digest depends on itself, so neither does a stand-in: the order exists.
    let order = order::topological(&upstream, [stand_in(output)]).unwrap_or_default();
    let mut place = vec![0; digests.len()];
    let mut nodes: Vec<Node> = Vec::with_capacity(order.len());
    for (at, &i) in order.iter().enumerate() {
        place[i] = at;
        let inputs: Vec<_> = edges.inputs[i]
            .iter()
            .map(|&(input, port)| (place[stand_in(input)], port))
            .collect();
        let mut after: Vec<_> = edges.after[i]
            .iter()
            .map(|&before| place[stand_in(before)])
            .collect();
        after.sort_unstable();
        after.dedup();
        let upstream = inputs
            .iter()
            .map(|(input, _)| *input)
            .chain(after.iter().copied());
        let level = upstream.map(|at| nodes[at].level + 1).max().unwrap_or(0);
        nodes.push(Node {
            operator: i,
            digest: digests[i],
            inputs,
            after,
            level,
        });
    }
    nodes
}

/// DAG-CBOR of the nodes.
pub fn bytes(nodes: &[Node], operators: &[Operator], deterministic: &[bool]) -> Vec<u8> {
    let encoded: Vec<_> = nodes
        .iter()
        .map(|node| {
            encode::operator(
                &operators[node.operator],
                deterministic[node.operator],
                &node.inputs,
                &node.after,
            )
        })
        .collect();
    encode::graph(&encoded)
}
