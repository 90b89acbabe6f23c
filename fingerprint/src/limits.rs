//! How large a graph may be, and why.

use crate::{Determinism, Error, Operator, Source};

/// The version of graphs, on the wire and in canonical bytes, that this release knows.
pub const GRAPH_VERSION: u32 = 1;

/// Operators of a graph. Real pipelines have tens; generated ones thousands. At this many, hashing still
/// takes well under a second.
pub const OPERATORS_MAX: usize = 65_536;

/// Edges of a graph, data and order together: two for each operator.
pub const EDGES_MAX: usize = 2 * OPERATORS_MAX;

/// Bytes of all text and parameters of a graph: the size of a gRPC message by default.
pub const GRAPH_BYTES_MAX: usize = 4 << 20;

/// Bytes of one name, version, id, location or reason: a path on Linux (`PATH_MAX`) fits.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Bytes that each parameter value counts beside its text, so that many empty ones are bounded too.
pub const VALUE_BYTES: usize = 16;

/// Nesting of a parameter value; a number has depth 1. Recursion over values is bounded by it. One level
/// costs protobuf and JSON decoders three of theirs, and protobuf's stop at 100.
pub const VALUE_DEPTH_MAX: usize = 24;

/// Bytes of a canonical form. The other limits keep it below: 4 MiB of text, 64 bytes for each operator and 12 for each
/// edge. Decoding takes up to 20 bytes of memory for each byte given.
pub const CANONICAL_BYTES_MAX: usize = 12 << 20;

/// Refuses a graph that is too large, before anything is built from it.
///
/// # Errors
/// One of the `Too...` errors, or [`Error::EmptyName`].
pub(crate) fn check(operators: &[Operator]) -> Result<(), Error> {
    check_operators(operators.len())?;
    let edges = operators.iter().map(|o| o.inputs.len() + o.after.len()).sum();
    if edges > EDGES_MAX {
        return Err(Error::TooManyEdges { found: edges });
    }
    let mut bytes = 0_usize;
    for (position, operator) in operators.iter().enumerate() {
        check_names(position, operator)?;
        bytes = bytes.saturating_add(weight(operator)?);
        if bytes > GRAPH_BYTES_MAX {
            return Err(Error::TooManyBytes);
        }
    }
    Ok(())
}

/// Refuses more than [`OPERATORS_MAX`] operators: for callers that convert, before they do.
///
/// # Errors
/// [`Error::TooManyOperators`].
pub const fn check_operators(found: usize) -> Result<(), Error> {
    if found > OPERATORS_MAX {
        return Err(Error::TooManyOperators { found });
    }
    Ok(())
}

/// Refuses missing and overlong names.
fn check_names(position: usize, operator: &Operator) -> Result<(), Error> {
    for (what, text) in [("id", &operator.id), ("name", &operator.name)] {
        if text.is_empty() {
            return Err(Error::EmptyName { position, what });
        }
    }
    let mut texts = vec![
        ("id", operator.id.len()),
        ("name", operator.name.len()),
        ("version", operator.version.len()),
        ("location", operator.location.len()),
    ];
    texts.extend(operator.params.keys().map(|name| ("parameter name", name.len())));
    if let Determinism::Unknown(reason) = &operator.determinism {
        texts.push(("reason", reason.len()));
    }
    if let Some(Source::Snapshot(version)) = &operator.source {
        texts.push(("snapshot", version.len()));
    }
    match texts.into_iter().find(|(_, found)| *found > TEXT_BYTES_MAX) {
        Some((what, found)) => Err(Error::TextTooLong { what, found }),
        None => Ok(()),
    }
}

/// Bytes of text and parameters of one operator.
fn weight(operator: &Operator) -> Result<usize, Error> {
    let mut bytes =
        operator.id.len() + operator.name.len() + operator.version.len() + operator.location.len();
    if let Determinism::Unknown(reason) = &operator.determinism {
        bytes += reason.len();
    }
    bytes += operator.source.as_ref().map_or(0, Source::len);
    for (name, value) in &operator.params {
        let value = value.weight().ok_or_else(|| Error::ValueTooDeep {
            operator: operator.id.clone(),
        })?;
        bytes = bytes.saturating_add(name.len()).saturating_add(value);
    }
    Ok(bytes)
}
