//! Graphs: from the wire with every bound checked, and back.

use crate::{
    leaf::Room,
    v1::{self, determinism::Class, source, value::Kind},
};
use prebake_fingerprint::{
    Determinism, Digest, Error, Graph, Input, Operator, Source, Value,
    limits::{GRAPH_VERSION, VALUE_DEPTH_MAX, check_operators},
};
use std::collections::BTreeMap;

/// Reason for operators whose message does not say whether they are deterministic.
pub const NOT_DECLARED: &str = "not declared";

impl TryFrom<v1::Graph> for Graph {
    type Error = Error;

    /// Refuses what a newer release may mean otherwise, and messages that leave open what they mean.
    fn try_from(wire: v1::Graph) -> Result<Self, Error> {
        if wire.version != GRAPH_VERSION {
            return Err(Error::UnsupportedVersion { found: wire.version });
        }
        check_operators(wire.operators.len())?;
        let mut room = Room::default();
        let operators = wire.operators.into_iter().map(|each| operator(each, &mut room));
        let operators: Result<_, _> = operators.collect();
        Self::new(operators?, &wire.output)
    }
}

fn operator(wire: v1::Operator, room: &mut Room) -> Result<Operator, Error> {
    let id = wire.id;
    let malformed = |what| Error::MalformedMessage {
        operator: id.clone(),
        what,
    };
    let code = (!wire.code_digest.is_empty()).then(|| Digest::try_from(&wire.code_digest[..]));
    let source = match wire.source {
        Some(v1::Source { kind }) => Some(kind.and_then(source).ok_or_else(|| malformed("source"))?),
        None => None,
    };
    let determinism = match wire.determinism.and_then(|d| d.class) {
        Some(class) => determinism(class).ok_or_else(|| malformed("determinism"))?,
        None => Determinism::Unknown(NOT_DECLARED.to_owned()),
    };
    let mut params = BTreeMap::new();
    for (name, wire) in wire.params {
        params.insert(name, value(wire, &id, VALUE_DEPTH_MAX)?);
    }
    let input = |wire: v1::Input| Input {
        operator: wire.operator,
        port: wire.port,
    };
    Ok(Operator {
        name: wire.name,
        version: wire.version,
        params,
        code: code.transpose()?,
        determinism,
        inputs: wire.inputs.into_iter().map(input).collect(),
        after: wire.after,
        source,
        location: wire.location,
        leaves: room.leaves(wire.leaves),
        id,
    })
}

/// Recursion ends with `depth`.
fn value(wire: v1::Value, operator: &str, depth: usize) -> Result<Value, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::ValueTooDeep {
            operator: operator.to_owned(),
        });
    };
    let value = |wire| value(wire, operator, depth);
    Ok(match wire.kind {
        Some(Kind::Null(true)) => Value::Null,
        Some(Kind::Boolean(boolean)) => Value::Bool(boolean),
        Some(Kind::Integer(integer)) => Value::Int(integer),
        Some(Kind::Real(real)) => Value::Real(real),
        Some(Kind::Text(text)) => Value::Text(text),
        Some(Kind::Bytes(bytes)) => Value::Bytes(bytes.into()),
        Some(Kind::Digest(digest)) => Value::Digest(Digest::try_from(&digest[..])?),
        Some(Kind::List(list)) => Value::List(list.values.into_iter().map(value).collect::<Result<_, _>>()?),
        Some(Kind::Map(map)) => {
            let entries = map
                .entries
                .into_iter()
                .map(|(name, wire)| Ok((name, value(wire)?)));
            Value::Map(entries.collect::<Result<_, Error>>()?)
        }
        Some(Kind::Null(false)) | None => {
            return Err(Error::MalformedMessage {
                operator: operator.to_owned(),
                what: "a parameter",
            });
        }
    })
}

/// A flag that says no says nothing.
fn determinism(class: Class) -> Option<Determinism> {
    match class {
        Class::Deterministic(true) => Some(Determinism::Deterministic),
        Class::Seeded(seed) => Some(Determinism::Seeded(seed)),
        Class::Random(true) => Some(Determinism::Random),
        Class::Unknown(reason) => Some(Determinism::Unknown(reason)),
        Class::Deterministic(false) | Class::Random(false) => None,
    }
}

/// As [`determinism`].
fn source(kind: source::Kind) -> Option<Source> {
    match kind {
        source::Kind::Files(v1::Files { path_ignored }) => Some(Source::Files { path_ignored }),
        source::Kind::Arguments(true) => Some(Source::Arguments),
        source::Kind::Arguments(false) => None,
        source::Kind::Literal(bytes) => Some(Source::Literal(bytes.into())),
        source::Kind::Snapshot(version) => Some(Source::Snapshot(version)),
    }
}

impl From<&Graph> for v1::Graph {
    /// As JSON, infinities and NaNs become `null` (a limit of pbjson), which is refused when read.
    fn from(graph: &Graph) -> Self {
        Self {
            version: GRAPH_VERSION,
            operators: graph.operators().iter().map(v1::Operator::from).collect(),
            output: graph.output().to_owned(),
        }
    }
}

impl From<&Operator> for v1::Operator {
    fn from(operator: &Operator) -> Self {
        let input = |input: &Input| v1::Input {
            operator: input.operator.clone(),
            port: input.port,
        };
        Self {
            id: operator.id.clone(),
            name: operator.name.clone(),
            version: operator.version.clone(),
            params: operator
                .params
                .iter()
                .map(|(name, value)| (name.clone(), value.into()))
                .collect(),
            code_digest: operator
                .code
                .map(|code| code.0.to_vec())
                .unwrap_or_default()
                .into(),
            determinism: Some((&operator.determinism).into()),
            inputs: operator.inputs.iter().map(input).collect(),
            after: operator.after.clone(),
            source: operator.source.as_ref().map(v1::Source::from),
            location: operator.location.clone(),
            leaves: operator.leaves.iter().map(v1::Leaf::from).collect(),
        }
    }
}

impl From<&Value> for v1::Value {
    /// Recursion is bounded by what a [`Graph`] accepts.
    fn from(value: &Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null(true),
            Value::Bool(boolean) => Kind::Boolean(*boolean),
            Value::Int(integer) => Kind::Integer(*integer),
            Value::Real(real) => Kind::Real(*real),
            Value::Text(text) => Kind::Text(text.clone()),
            Value::Bytes(bytes) => Kind::Bytes(bytes.clone().into()),
            Value::Digest(digest) => Kind::Digest(digest.0.to_vec().into()),
            Value::List(values) => Kind::List(v1::List {
                values: values.iter().map(Self::from).collect(),
            }),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(name, value)| (name.clone(), value.into()));
                Kind::Map(v1::Map {
                    entries: entries.collect(),
                })
            }
        };
        Self { kind: Some(kind) }
    }
}

impl From<&Determinism> for v1::Determinism {
    fn from(determinism: &Determinism) -> Self {
        let class = match determinism {
            Determinism::Deterministic => Class::Deterministic(true),
            Determinism::Seeded(seed) => Class::Seeded(*seed),
            Determinism::Random => Class::Random(true),
            Determinism::Unknown(reason) => Class::Unknown(reason.clone()),
        };
        Self { class: Some(class) }
    }
}

impl From<&Source> for v1::Source {
    fn from(from: &Source) -> Self {
        let kind = match from {
            Source::Files { path_ignored } => source::Kind::Files(v1::Files {
                path_ignored: *path_ignored,
            }),
            Source::Arguments => source::Kind::Arguments(true),
            Source::Literal(bytes) => source::Kind::Literal(bytes.clone().into()),
            Source::Snapshot(version) => source::Kind::Snapshot(version.clone()),
        };
        Self { kind: Some(kind) }
    }
}
