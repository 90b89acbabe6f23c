//! Why a graph or a digest was refused.

use crate::limits;

/// Why something was refused. Nothing is changed by a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More operators than [`limits::OPERATORS_MAX`].
    #[error(
        "graph has {found} operators and {} are allowed: cut it into smaller pipelines",
        limits::OPERATORS_MAX
    )]
    TooManyOperators {
        /// Operators given.
        found: usize,
    },
    /// More edges than [`limits::EDGES_MAX`].
    #[error(
        "graph has {found} edges and {} are allowed: cut it into smaller pipelines",
        limits::EDGES_MAX
    )]
    TooManyEdges {
        /// Edges given.
        found: usize,
    },
    /// More text and parameters than [`limits::GRAPH_BYTES_MAX`].
    #[error(
        "the graph's text and parameters exceed {} bytes: give large values as digests",
        limits::GRAPH_BYTES_MAX
    )]
    TooManyBytes,
    /// A text longer than [`limits::TEXT_BYTES_MAX`].
    #[error(
        "{what} has {found} bytes and {} are allowed: shorten it",
        limits::TEXT_BYTES_MAX
    )]
    TextTooLong {
        /// Which text.
        what: &'static str,
        /// Its length in bytes.
        found: usize,
    },
    /// A parameter nested deeper than [`limits::VALUE_DEPTH_MAX`].
    #[error(
        "a parameter of operator {operator:?} is nested deeper than {} levels: flatten it or give its digest",
        limits::VALUE_DEPTH_MAX
    )]
    ValueTooDeep {
        /// Id of the operator.
        operator: String,
    },
    /// An operator without an id or a name.
    #[error("operator {position} (counted from 0) has no {what}: give it one")]
    EmptyName {
        /// Where in the list of operators.
        position: usize,
        /// "id" or "name".
        what: &'static str,
    },
    /// Two operators have the same id.
    #[error("two operators have the id {id:?}: ids must be unique in a graph")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// An edge from an operator that does not exist.
    #[error(
        "operator {operator:?} refers to {missing:?}, which is not in the graph: add it or remove the edge"
    )]
    UnknownOperator {
        /// Id of the operator with the edge.
        operator: String,
        /// Id that it names.
        missing: String,
    },
    /// The output names no operator.
    #[error("output {output:?} is not an operator of the graph: name one that is")]
    MissingOutput {
        /// Id given as the output.
        output: String,
    },
    /// Operators that need each other.
    #[error("operators {operator:?} and {upstream:?} need each other: a graph must have no cycle")]
    Cycle {
        /// Id of an operator on the cycle.
        operator: String,
        /// Id of the operator that it needs, and that needs it.
        upstream: String,
    },
    /// A source with inputs.
    #[error("operator {id:?} is a source and has inputs: it must be one or the other")]
    SourceWithInputs {
        /// Id of the operator.
        id: String,
    },
    /// A digest of the wrong form.
    #[error("a digest must be 32 bytes (64 lower-case hexadecimal characters), not {found} bytes")]
    BadDigest {
        /// Bytes given, as far as they can be told.
        found: usize,
    },
    /// A graph of another version than this program knows.
    #[error(
        "graph version {found} is not supported, only {} is: use the same Prebake release on both sides",
        limits::GRAPH_VERSION
    )]
    UnsupportedVersion {
        /// Version given.
        found: u32,
    },
    /// A message that leaves out or contradicts what it must say.
    #[error(
        "{what} of operator {operator:?} is not set as it must be: set exactly one kind, and flags to true"
    )]
    MalformedMessage {
        /// Id of the operator.
        operator: String,
        /// Which field.
        what: &'static str,
    },
    /// Bytes that are not the canonical form of any graph.
    #[error("not the canonical form of a graph: {reason}")]
    NotCanonical {
        /// What is wrong with them.
        reason: String,
    },
}

impl Error {
    /// A stable code for programs; the message is for people and may change.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooManyOperators { .. } => "too-many-operators",
            Self::TooManyEdges { .. } => "too-many-edges",
            Self::TooManyBytes => "too-many-bytes",
            Self::TextTooLong { .. } => "text-too-long",
            Self::ValueTooDeep { .. } => "value-too-deep",
            Self::EmptyName { .. } => "empty-name",
            Self::DuplicateId { .. } => "duplicate-id",
            Self::UnknownOperator { .. } => "unknown-operator",
            Self::MissingOutput { .. } => "missing-output",
            Self::Cycle { .. } => "cycle",
            Self::SourceWithInputs { .. } => "source-with-inputs",
            Self::BadDigest { .. } => "bad-digest",
            Self::UnsupportedVersion { .. } => "unsupported-version",
            Self::MalformedMessage { .. } => "malformed-message",
            Self::NotCanonical { .. } => "not-canonical",
        }
    }
}
