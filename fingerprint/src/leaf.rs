//! Named leaves: the parts that an operator's code digest was taken over, kept to say which of them changed.
//!
//! They explain and never identify: no digest depends on one, and what is dropped for its size only makes an
//! explanation shorter.

use crate::{Difference, Kind, Operator};
use std::collections::HashMap;

/// Shown in place of what is not there.
pub(crate) const ABSENT: &str = "(none)";

/// Around texts as shims show them.
const QUOTES: [char; 2] = ['\'', '"'];

/// One part of an operator's code or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// How it is reached from the operator: `size`, `-> helper -> SCALE`, `package numpy`.
    pub path: String,
    /// What it is.
    pub kind: LeafKind,
    /// Equal exactly if the part is.
    pub digest: [u8; 16],
    /// Its value where a person can read it; empty otherwise.
    pub shown: String,
    /// Where the user wrote it: `aug.py:31`; empty if not known.
    pub location: String,
}

/// What a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// A function's own bytecode and constants.
    Code,
    /// A value that the operator was made with.
    Argument,
    /// A variable of an enclosing function.
    Closure,
    /// A parameter's default.
    Default,
    /// A name of the module.
    Global,
    /// An installed package or the interpreter.
    Version,
    /// An environment variable that is read.
    Environment,
    /// Something outside the identity that changes what the operator yields.
    World,
}

impl LeafKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Code,
        Self::Argument,
        Self::Closure,
        Self::Default,
        Self::Global,
        Self::Version,
        Self::Environment,
        Self::World,
    ];

    /// As messages spell it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Argument => "argument",
            Self::Closure => "closure",
            Self::Default => "default",
            Self::Global => "global",
            Self::Version => "version",
            Self::Environment => "environment",
            Self::World => "world",
        }
    }
}

/// What explains an operator of a canonical form, which has none of it: for keeping it beside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Where the user wrote the operator.
    pub location: String,
    /// Its leaves.
    pub leaves: Vec<Leaf>,
}

impl Leaf {
    /// What a person calls it: `size`, `helper`, `SCALE`, `numpy`. Empty for the operator itself.
    #[must_use]
    pub fn name(&self) -> &str {
        let reached = self.path.rsplit("-> ").next().unwrap_or_default().trim();
        let own = reached.strip_prefix("__class__.").unwrap_or(reached);
        match self.kind {
            LeafKind::Version => reached.strip_prefix("package ").unwrap_or(reached),
            LeafKind::Environment => reached.strip_prefix("[env] ").unwrap_or(reached),
            LeafKind::Closure | LeafKind::Default => reached.rsplit('.').next().unwrap_or(reached),
            _ if matches!(own, "itself" | "__call__") => "",
            LeafKind::Code | LeafKind::Argument | LeafKind::Global | LeafKind::World => own,
        }
    }

    fn told(&self, other: Option<&Self>) -> String {
        let digest = || {
            let hex = self.digest[..4].iter().map(|b| format!("{b:02x}"));
            format!("digest {}", hex.collect::<String>())
        };
        if self.shown.is_empty() {
            return digest();
        }
        if other.is_some_and(|other| other.shown == self.shown) {
            return format!("{} ({})", self.shown, digest());
        }
        let quoted = matches!(self.kind, LeafKind::Version | LeafKind::Environment);
        let bare = self
            .shown
            .strip_prefix(QUOTES)
            .and_then(|s| s.strip_suffix(QUOTES));
        bare.filter(|_| quoted).unwrap_or(&self.shown).to_owned()
    }

    /// Versions and variables that both have come first: they are in the identity of what is installed or read too.
    fn rank(&self, is_shared: bool) -> u8 {
        match (self.kind, is_shared) {
            (LeafKind::Version | LeafKind::Environment, true) => 0,
            (LeafKind::Version | LeafKind::Environment, false) => 2,
            _ => 1,
        }
    }
}

/// The leaves that two operators do not share: in the order of the second, then those only the first has.
pub(crate) fn changes(a: &Operator, b: &Operator, label: &str) -> Vec<Difference> {
    let by_name = |o: &'_ Operator| -> HashMap<(LeafKind, String), Leaf> {
        let keyed = o
            .leaves
            .iter()
            .map(|leaf| ((leaf.kind, leaf.path.clone()), leaf.clone()));
        keyed.collect()
    };
    let (known, kept) = (by_name(a), by_name(b));
    let key = |leaf: &Leaf| (leaf.kind, leaf.path.clone());
    let now = b.leaves.iter().map(|leaf| (known.get(&key(leaf)), Some(leaf)));
    let gone = a.leaves.iter().filter(|leaf| !kept.contains_key(&key(leaf)));
    let pairs = now.chain(gone.map(|leaf| (Some(leaf), None)));
    let same = |(before, after): &(Option<&Leaf>, Option<&Leaf>)| {
        before.map(|leaf| leaf.digest) == after.map(|leaf| leaf.digest)
    };
    let mut pairs: Vec<_> = pairs.filter(|pair| !same(pair)).collect();
    let rank = |(before, after): &(Option<&Leaf>, Option<&Leaf>)| {
        let shared = before.is_some() && after.is_some();
        after.or(*before).map(|leaf| leaf.rank(shared))
    };
    pairs.sort_by_key(rank);
    pairs
        .into_iter()
        .filter_map(|(before, after)| change(label, before, after))
        .collect()
}

fn change(label: &str, before: Option<&Leaf>, after: Option<&Leaf>) -> Option<Difference> {
    let leaf = after.or(before)?;
    let told = |one: Option<&Leaf>, other| one.map_or_else(|| ABSENT.to_owned(), |one| one.told(other));
    Some(Difference {
        operator: label.to_owned(),
        location: leaf.location.clone(),
        kind: Kind::Leaf(leaf.kind, leaf.name().to_owned()),
        before: told(before, after),
        after: told(after, before),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_called_as_its_user_would() {
        let name = |kind, path: &str| {
            let leaf = Leaf {
                path: path.to_owned(),
                kind,
                digest: [0; 16],
                shown: String::new(),
                location: String::new(),
            };
            leaf.name().to_owned()
        };
        for (kind, path, expected) in [
            (LeafKind::Argument, "size", "size"),
            (LeafKind::Argument, "transforms[0].size", "transforms[0].size"),
            (LeafKind::Code, "itself", ""),
            (LeafKind::Code, "__class__.__call__", ""),
            (LeafKind::Code, "__class__.blend", "blend"),
            (LeafKind::Code, "__class__.__call__ -> helper", "helper"),
            (LeafKind::Global, "-> helper -> SCALE", "SCALE"),
            (LeafKind::Global, "-> config.size", "config.size"),
            (LeafKind::Default, "-> helper.gamma", "gamma"),
            (LeafKind::Version, "package numpy", "numpy"),
            (LeafKind::Environment, "[env] SR", "SR"),
        ] {
            assert_eq!(name(kind, path), expected, "{path}");
        }
    }
}
