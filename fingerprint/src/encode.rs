//! Bytes of operators and graphs: DAG-CBOR, in which every value has one encoding.

use crate::{Determinism, Digest, Error, Input, Operator, Source, Value, limits, rules};
use serde::{Serialize, Serializer, de::DeserializeOwned};
use std::collections::BTreeMap;

/// An operator as it is encoded, with edges to `E`s: name, version, parameters, code, determinism, inputs,
/// after, source.
type Encoded<'a, E> = (
    &'a str,
    &'a str,
    Params<'a>,
    Option<Digest>,
    &'a Determinism,
    &'a [(E, u32)],
    &'a [E],
    &'a Option<Source>,
);

/// The same, decoded.
type Decoded = (
    String,
    String,
    BTreeMap<String, Value>,
    Option<Digest>,
    Determinism,
    Vec<(u32, u32)>,
    Vec<u32>,
    Option<Source>,
);

/// The parameters that count.
struct Params<'a> {
    operator: &'a Operator,
    deterministic: bool,
}

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(rules::params(self.operator, self.deterministic))
    }
}

/// An operator without what the rules leave out, and with its edges as given.
pub fn operator<'a, E: Serialize>(
    operator: &'a Operator,
    deterministic: bool,
    inputs: &'a [(E, u32)],
    after: &'a [E],
) -> impl Serialize + use<'a, E> {
    let encoded: Encoded<'a, E> = (
        &operator.name,
        &operator.version,
        Params {
            operator,
            deterministic,
        },
        operator.code,
        &operator.determinism,
        inputs,
        after,
        &operator.source,
    );
    encoded
}

/// An operator with literals, versions, code and seeds cleared.
pub fn shape<'a>(
    operator: &'a Operator,
    deterministic: bool,
    inputs: &'a [(Digest, u32)],
    after: &'a [Digest],
) -> impl Serialize + use<'a> {
    let params: BTreeMap<&str, Value> = rules::params(operator, deterministic)
        .map(|(name, value)| (name.as_str(), value.shape()))
        .collect();
    let source = operator.source.as_ref().map(Source::kind);
    (
        operator.name.as_str(),
        params,
        operator.determinism.class(),
        inputs,
        after,
        source,
    )
}

/// A whole graph: its operators, upstream before downstream, the output last.
pub fn graph(operators: &[impl Serialize]) -> Vec<u8> {
    bytes(&(limits::GRAPH_VERSION, operators))
}

/// DAG-CBOR of anything of this crate.
#[expect(
    clippy::expect_used,
    reason = "encoding fails for infinite or missing numbers and full writers; reals are encoded as bytes, into a Vec"
)]
pub fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_ipld_dagcbor::to_vec(value).expect("values of this crate have an encoding")
}

/// Operators of an encoded graph, their ids counted from 0.
///
/// # Errors
/// [`Error::NotCanonical`] and [`Error::UnsupportedVersion`].
pub fn decode(bytes: &[u8]) -> Result<Vec<Operator>, Error> {
    if bytes.len() > limits::CANONICAL_BYTES_MAX {
        let reason = format!(
            "{} bytes, and {} are allowed",
            bytes.len(),
            limits::CANONICAL_BYTES_MAX
        );
        return Err(Error::NotCanonical { reason });
    }
    let (version, nodes): (u32, Vec<Decoded>) = from_slice(bytes)?;
    if version != limits::GRAPH_VERSION {
        return Err(Error::UnsupportedVersion { found: version });
    }
    limits::check_operators(nodes.len())?;
    Ok(nodes
        .into_iter()
        .enumerate()
        .map(|(i, node)| operator_of(i, node))
        .collect())
}

fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_ipld_dagcbor::from_slice(bytes).map_err(|e| Error::NotCanonical {
        reason: e.to_string(),
    })
}

fn operator_of(position: usize, node: Decoded) -> Operator {
    let (name, version, params, code, determinism, inputs, after, source) = node;
    let input = |(operator, port): (u32, u32)| Input {
        operator: operator.to_string(),
        port,
    };
    Operator {
        id: position.to_string(),
        name,
        version,
        params,
        code,
        determinism,
        inputs: inputs.into_iter().map(input).collect(),
        after: after.into_iter().map(|operator| operator.to_string()).collect(),
        source,
        location: String::new(),
        leaves: Vec::new(),
    }
}
