//! One difference of two graphs, in words.

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
        }
        if location.is_empty() {
            Ok(())
        } else {
            write!(f, " {location}")
        }
    }
}
