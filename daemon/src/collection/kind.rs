//! What kind of thing a collection holds: elements of a user's pipeline, or what a shim found out about it.

use crate::collection::Collection;

/// The operators of a shim's own under which it keeps what it found out: what each item reads, what all elements of a
/// pipeline are made of, what sources say, and what trials and probes saw. Other names that begin so are a user's: of
/// steps that Prebake brings, such as those for a framework.
const BOOKKEEPING: [&str; 6] = [
    "prebake.reads",
    "prebake.manifest",
    "prebake.sources",
    "prebake.trial",
    "prebake.probe",
    "prebake.reading",
];

impl Collection {
    /// Whether a shim keeps in it what it found out about a pipeline, rather than what that yields: nothing that a user
    /// wrote, nothing to explain, and nobody's elements. So none are counted: the elements themselves say what loading an
    /// item costs, and it is saved once.
    pub fn is_bookkeeping(&self) -> bool {
        let operators = self.graph.operators();
        let output = operators.iter().find(|o| o.id == self.graph.output());
        output.is_some_and(|o| BOOKKEEPING.contains(&o.name.as_str()))
    }
}
