//! Whether an operator yields the same each time, and how that flows downstream.

use crate::{Operator, edges::Edges, value::shorten};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether an operator yields the same for the same input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Determinism {
    /// Always the same.
    Deterministic,
    /// Random, but fixed by this seed.
    Seeded(i64),
    /// Draws random numbers that nothing fixes.
    Random,
    /// It could not be told, and this is why.
    Unknown(String),
}

impl Determinism {
    /// Whether what it yields may be cached: only what a second run would yield again.
    #[must_use]
    pub const fn is_cacheable(&self) -> bool {
        matches!(self, Self::Deterministic | Self::Seeded(_))
    }

    /// The class alone, without seed or reason.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Seeded(_) => "seeded",
            Self::Random => "random",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Higher is worse. Unknown is worse than random: random may still be reused under a budget that
    /// the user states, unknown never.
    const fn rank(&self) -> u8 {
        match self {
            Self::Deterministic => 0,
            Self::Seeded(_) => 1,
            Self::Random => 2,
            Self::Unknown(_) => 3,
        }
    }
}

impl fmt::Display for Determinism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deterministic | Self::Random => f.write_str(self.class()),
            Self::Seeded(seed) => write!(f, "seeded {seed}"),
            Self::Unknown(reason) => f.write_str(&shorten(format!("unknown ({reason})"))),
        }
    }
}

/// For each operator, the one in its subgraph whose class is worst: `None` if all are deterministic,
/// the one nearest to the source if several are equally bad. `order` lists upstream before downstream.
pub(crate) fn blame(operators: &[Operator], edges: &Edges, order: &[usize]) -> Vec<Option<usize>> {
    let mut blames = vec![None; operators.len()];
    let rank = |blame: Option<usize>| blame.map_or(0, |i: usize| operators[i].determinism.rank());
    for &i in order {
        let mut worst = None;
        for upstream in edges.upstream(i) {
            if rank(blames[upstream]) > rank(worst) {
                worst = blames[upstream];
            }
        }
        if operators[i].determinism.rank() > rank(worst) {
            worst = Some(i);
        }
        blames[i] = worst;
    }
    blames
}
