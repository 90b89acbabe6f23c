//! Named leaves: the parts that an operator's code digest was taken over, kept to say which of them changed.
//!
//! They explain and never identify: no digest depends on one, and what is dropped for its size only makes an
//! explanation shorter.

use crate::{Difference, Kind, Operator};
use std::collections::HashMap;

/// Shown in place of what is not there.
pub(crate) const ABSENT: &str = "(none)";

/// One part of an operator's code or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// How it is reached from the operator: `transform.size`, `-> helper.SCALE`, `package numpy`.
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
}

impl LeafKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Code,
        Self::Argument,
        Self::Closure,
        Self::Default,
        Self::Global,
        Self::Version,
        Self::Environment,
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
    /// What a person calls it: `size` of `transform 1 (train.Resize).size`. Empty for the operator itself.
    #[must_use]
    pub fn name(&self) -> &str {
        let reached = self.path.rsplit("-> ").next().unwrap_or_default().trim();
        let last = |text: &'_ str| text.rsplit('.').next().unwrap_or_default().len();
        match self.kind {
            LeafKind::Version => reached.strip_prefix("package ").unwrap_or(reached),
            LeafKind::Environment => reached.rsplit("[env] ").next().unwrap_or(reached),
            LeafKind::Code if self.path.contains("-> ") => reached,
            LeafKind::Code | LeafKind::Argument => inside(reached),
            LeafKind::Closure | LeafKind::Default | LeafKind::Global => &reached[reached.len() - last(reached)..],
        }
    }

    fn told(&self, other: Option<&Self>) -> String {
        let digest = || self.digest[..4].iter().map(|b| format!("{b:02x}")).collect::<String>();
        if self.shown.is_empty() {
            return format!("digest {}", digest());
        }
        if other.is_some_and(|other| other.shown == self.shown) {
            return format!("{} (digest {})", self.shown, digest());
        }
        self.shown.clone()
    }
}

/// The part of a path below its root, whose name may hold a dotted name in parentheses.
fn inside(path: &str) -> &str {
    let below = path.rfind(").").map(|at| at + 2);
    let below = below.or_else(|| (!path.ends_with(')')).then(|| path.find('.').map(|at| at + 1))?);
    below.map_or("", |at| &path[at..])
}

/// The leaves that two operators do not share, in the order of the second; then those only the first has.
pub(crate) fn changes(a: &Operator, b: &Operator, label: &str) -> Vec<Difference> {
    let known: HashMap<_, _> = a.leaves.iter().map(|leaf| ((leaf.kind, &*leaf.path), leaf)).collect();
    let kept: HashMap<_, _> = b.leaves.iter().map(|leaf| ((leaf.kind, &*leaf.path), leaf)).collect();
    let now = b.leaves.iter().filter_map(|leaf| {
        let before = known.get(&(leaf.kind, &*leaf.path)).copied();
        let same = before.is_some_and(|before| before.digest == leaf.digest);
        (!same).then_some((before, Some(leaf)))
    });
    let gone = a.leaves.iter().filter(|leaf| !kept.contains_key(&(leaf.kind, &*leaf.path)));
    let pairs = now.chain(gone.map(|leaf| (Some(leaf), None)));
    pairs.filter_map(|(before, after)| change(label, before, after)).collect()
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
            (LeafKind::Argument, "transform.size", "size"),
            (LeafKind::Argument, "transform 1 (train.Resize).size", "size"),
            (LeafKind::Argument, "it (a.B).transforms[0].size", "transforms[0].size"),
            (LeafKind::Code, "transform 1 (train.Resize)", ""),
            (LeafKind::Code, "transform 1 (a.f) -> aug.helper", "aug.helper"),
            (LeafKind::Global, "-> helper.SCALE", "SCALE"),
            (LeafKind::Global, "SCALE", "SCALE"),
            (LeafKind::Version, "package numpy", "numpy"),
            (LeafKind::Environment, "transform -> f [env] SR", "SR"),
        ] {
            assert_eq!(name(kind, path), expected, "{path}");
        }
    }
}
