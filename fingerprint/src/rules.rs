//! What the canonical form leaves out, and why it may.
//!
//! The rules are few because a wrong one serves wrong bytes, and a missing one only computes again. None
//! applies to an operator with code of its own (its parameters mean what that code makes of them), to a
//! source, or where anything random is upstream (the number of workers decides which of them draws which random
//! number). So none can clear a seed. A `device` is never left out: decoders on a GPU round otherwise.

use crate::{Determinism, Operator, Value};

/// Which operators a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Operators of Prebake's own vocabulary: bare names such as `decode_jpeg`. Names with a package mean
    /// what the package says, where even a worker count can decide what is yielded (a torch `DataLoader`
    /// over an iterable data set repeats it for each worker).
    Own,
    /// Operators of this name.
    Named(&'static str),
    /// Operators whose name starts so.
    Under(&'static str),
}

/// A parameter that decides how fast an operator yields, never what.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which operators.
    pub scope: Scope,
    /// Which parameter of theirs.
    pub parameter: &'static str,
    /// Why it cannot change what is yielded.
    pub reason: &'static str,
}

/// An operator that yields what it is given, once its execution-only parameters are gone.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its name.
    pub name: &'static str,
    /// Why it changes nothing.
    pub reason: &'static str,
}

/// Parameters that the canonical form leaves out.
pub const RULES: &[Rule] = &[
    Rule {
        scope: Scope::Own,
        parameter: "num_workers",
        reason: "how many workers share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "num_parallel_calls",
        reason: "how many items are in work at once; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "num_threads",
        reason: "how many threads share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "num_proc",
        reason: "how many processes share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "n_jobs",
        reason: "how many processes share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "max_workers",
        reason: "how many workers share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "threads",
        reason: "how many threads share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "workers",
        reason: "how many workers share the items; order and content stay",
    },
    Rule {
        scope: Scope::Own,
        parameter: "prefetch_factor",
        reason: "how far ahead of the reader items are computed",
    },
    Rule {
        scope: Scope::Own,
        parameter: "pin_memory",
        reason: "which memory holds the elements, not what they are",
    },
    Rule {
        scope: Scope::Own,
        parameter: "persistent_workers",
        reason: "whether processes outlive an epoch",
    },
    Rule {
        scope: Scope::Own,
        parameter: "writer_batch_size",
        reason: "how many elements are written at once, not what they are",
    },
    Rule {
        scope: Scope::Own,
        parameter: "name",
        reason: "what people call the operator",
    },
    Rule {
        scope: Scope::Own,
        parameter: "description",
        reason: "what is said about the operator",
    },
    Rule {
        scope: Scope::Own,
        parameter: "verbose",
        reason: "what is told while it runs",
    },
    Rule {
        scope: Scope::Own,
        parameter: "progress",
        reason: "what is told while it runs",
    },
    Rule {
        scope: Scope::Own,
        parameter: "log_level",
        reason: "what is told while it runs",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "buffer",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "size",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "count",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "depth",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "n",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Named("prefetch"),
        parameter: "buffer_size",
        reason: "how far ahead of the reader elements are kept; a shuffle's buffer size is another matter",
    },
    Rule {
        scope: Scope::Named("tf.data.Dataset.prefetch"),
        parameter: "buffer_size",
        reason: "how far ahead of the reader elements are kept",
    },
    Rule {
        scope: Scope::Under("tf.data.Dataset."),
        parameter: "name",
        reason: "a label for TensorFlow's own messages",
    },
    Rule {
        scope: Scope::Named("torch.utils.data.DataLoader"),
        parameter: "pin_memory",
        reason: "which memory holds the elements, not what they are",
    },
    Rule {
        scope: Scope::Named("torch.utils.data.DataLoader"),
        parameter: "prefetch_factor",
        reason: "how far ahead of the reader batches are computed",
    },
];

/// Operators that the canonical form leaves out.
pub const IDENTITIES: &[Identity] = &[
    Identity {
        name: "identity",
        reason: "yields what it is given",
    },
    Identity {
        name: "prefetch",
        reason: "yields what it is given, earlier",
    },
    Identity {
        name: "tf.data.Dataset.prefetch",
        reason: "yields what it is given, earlier",
    },
];

impl Scope {
    fn covers(self, name: &str) -> bool {
        match self {
            Self::Own => !name.contains(['.', ':', '/']),
            Self::Named(own) => name == own,
            Self::Under(prefix) => name.starts_with(prefix),
        }
    }
}

/// The parameters that count. `deterministic` says whether the operator and all upstream of it are.
pub(crate) fn params(
    operator: &Operator,
    deterministic: bool,
) -> impl Iterator<Item = (&String, &Value)> + Clone {
    let ruled = deterministic && operator.code.is_none() && operator.source.is_none();
    let dropped = move |parameter: &str| {
        ruled
            && RULES
                .iter()
                .any(|rule| rule.parameter == parameter && rule.scope.covers(&operator.name))
    };
    operator.params.iter().filter(move |(name, _)| !dropped(name))
}

/// Whether the operator only hands on its one input.
pub(crate) fn is_identity(operator: &Operator, deterministic: bool) -> bool {
    IDENTITIES.iter().any(|identity| identity.name == operator.name)
        && operator.determinism == Determinism::Deterministic
        && operator.code.is_none()
        && operator.source.is_none()
        && operator.after.is_empty()
        && matches!(&operator.inputs[..], [input] if input.port == 0)
        && params(operator, deterministic).next().is_none()
}
