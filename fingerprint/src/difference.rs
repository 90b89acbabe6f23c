//! One difference of two graphs, in words.

use crate::{LeafKind, leaf::ABSENT};
use std::fmt;

/// One difference of two graphs. Displayed as `Resize size [232] -> [256] train.py:41`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Short name of the operator that differs, with `#n` if its graph has several of that name.
    pub operator: String,
    /// Where the user wrote it; empty if not known.
    pub location: String,
    /// What differs.
    pub kind: Kind,
    /// How it was, for people.
    pub before: String,
    /// How it is, for people.
    pub after: String,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the second graph has the operator; `after` says what it follows.
    Added,
    /// Only the first graph has the operator; `before` says what it followed.
    Removed,
    /// It follows another operator than before.
    Moved,
    /// Its version.
    Version,
    /// Digest of its code.
    Code,
    /// The parameter of this name.
    Parameter(String),
    /// Its seed.
    Seed,
    /// Its determinism class.
    Determinism,
    /// What it reads from outside.
    Source,
    /// What feeds it, or in which order.
    Inputs,
    /// What only runs before it.
    After,
    /// A leaf of its code or state, by its name.
    Leaf(LeafKind, String),
}

impl Kind {
    /// The stable code of a miss that this difference makes: M11 code, M12 argument, M13 global, M14 version, M15 input,
    /// M16 environment, M20 something outside the identity.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Leaf(LeafKind::Global, _) => "M13",
            Self::Version | Self::Leaf(LeafKind::Version, _) => "M14",
            Self::Source => "M15",
            Self::Leaf(LeafKind::Environment, _) => "M16",
            Self::Leaf(LeafKind::World, _) => "M20",
            Self::Parameter(_)
            | Self::Seed
            | Self::Leaf(LeafKind::Argument | LeafKind::Closure | LeafKind::Default, _) => "M12",
            Self::Added
            | Self::Removed
            | Self::Moved
            | Self::Code
            | Self::Determinism
            | Self::Inputs
            | Self::After
            | Self::Leaf(LeafKind::Code, _) => "M11",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operator,
            location,
            kind,
            before,
            after,
        } = self;
        let changed =
            |f: &mut fmt::Formatter<'_>, what: &str| write!(f, "{operator} {what} {before} -> {after}");
        match kind {
            Kind::Added if after.is_empty() => write!(f, "{operator} added")?,
            Kind::Added => write!(f, "{operator} added after {after}")?,
            Kind::Removed if before.is_empty() => write!(f, "{operator} removed")?,
            Kind::Removed => write!(f, "{operator} removed from after {before}")?,
            Kind::Moved => write!(f, "{operator} moved from after {before} to after {after}")?,
            Kind::Version => changed(f, "version")?,
            Kind::Code => changed(f, "code")?,
            Kind::Parameter(name) => changed(f, name)?,
            Kind::Seed => changed(f, "seed")?,
            Kind::Determinism => changed(f, "determinism")?,
            Kind::Source => changed(f, "source")?,
            Kind::Inputs => changed(f, "inputs")?,
            Kind::After => changed(f, "runs after")?,
            Kind::Leaf(kind, name) => leaf(f, *kind, name, self)?,
        }
        if location.is_empty() {
            Ok(())
        } else {
            write!(f, " {location}")
        }
    }
}

/// `Resize size [232] -> [256]`, `aug.helper code changed`, `global SCALE 2 -> 3`, `package numpy 2.0 -> 2.1`.
fn leaf(f: &mut fmt::Formatter<'_>, kind: LeafKind, name: &str, difference: &Difference) -> fmt::Result {
    let Difference {
        operator,
        before,
        after,
        ..
    } = difference;
    match kind {
        LeafKind::Code => {
            let name = if name.is_empty() { operator } else { name };
            let how = match (&**before, &**after) {
                (ABSENT, _) => "reached now",
                (_, ABSENT) => "not reached any more",
                _ => "code changed",
            };
            write!(f, "{name} {how}")
        }
        LeafKind::Argument if name.is_empty() => write!(f, "{operator} {before} -> {after}"),
        LeafKind::Argument => write!(f, "{operator} {name} {before} -> {after}"),
        LeafKind::Closure | LeafKind::Default => {
            write!(f, "{operator} {} {name} {before} -> {after}", kind.text())
        }
        LeafKind::Global | LeafKind::Environment => write!(f, "{} {name} {before} -> {after}", kind.text()),
        LeafKind::Version => write!(f, "package {name} {before} -> {after}"),
        LeafKind::World => write!(f, "something outside the identity changes {operator}: {after}"),
    }
}
