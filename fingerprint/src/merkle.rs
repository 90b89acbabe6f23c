//! Digests of subgraphs: an operator's own encoding with the digests of what is upstream in place of edges.
//!
//! One pass, upstream before downstream; each operator and edge is hashed once, however many paths lead to it.

use crate::{Digest, Operator, digest::Context, edges::Edges, encode, rules};

/// The two digests of each operator's subgraph.
#[derive(Debug)]
pub struct Digests {
    /// Identity.
    pub precise: Vec<Digest>,
    /// The same with literals and versions cleared.
    pub shape: Vec<Digest>,
}

/// Hashes every operator. `deterministic[i]` says whether operator `i` and all upstream of it are; an identity
/// operator has the digests of its input.
pub fn digests(operators: &[Operator], edges: &Edges, order: &[usize], deterministic: &[bool]) -> Digests {
    let zero = Digest([0; Digest::BYTES]);
    let mut precise = vec![zero; operators.len()];
    let mut shape = precise.clone();
    for &i in order {
        let operator = &operators[i];
        if rules::is_identity(operator, deterministic[i]) {
            let (input, _) = edges.inputs[i][0];
            precise[i] = precise[input];
            shape[i] = shape[input];
            continue;
        }
        let (inputs, after) = upstream(edges, i, &precise);
        let encoded = encode::bytes(&encode::operator(operator, deterministic[i], &inputs, &after));
        precise[i] = Context::Operator.digest(&encoded);
        let (inputs, after) = upstream(edges, i, &shape);
        let encoded = encode::bytes(&encode::shape(operator, deterministic[i], &inputs, &after));
        shape[i] = Context::Shape.digest(&encoded);
    }
    Digests { precise, shape }
}

/// Digests of what feeds operator `i`, in order, and of what runs before it, in no order.
fn upstream(edges: &Edges, i: usize, digests: &[Digest]) -> (Vec<(Digest, u32)>, Vec<Digest>) {
    let inputs = edges.inputs[i]
        .iter()
        .map(|&(input, port)| (digests[input], port))
        .collect();
    let mut after: Vec<Digest> = edges.after[i].iter().map(|&before| digests[before]).collect();
    after.sort_unstable();
    after.dedup();
    (inputs, after)
}
