//! The differences of two graphs, first difference first.

use crate::{
    Determinism, Difference, Graph, Kind, LeafKind, Operator, Step, Value,
    canonical::Node,
    leaf::{self, ABSENT},
    pairing::Pairing,
    value::shorten,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Display,
};

/// A parameter by which shims say what an operator relies on: versions by distribution.
const PACKAGES: &str = "packages";

/// What `b` has otherwise than `a`, the nearest to a source first. Empty exactly if the digests are equal.
///
/// Operators that the output does not need, and what the canonical form leaves out, are no differences.
#[must_use]
pub fn diff(a: &Graph, b: &Graph) -> Vec<Difference> {
    if a.digest() == b.digest() {
        return Vec::new();
    }
    let steps = compare(a, b).into_iter();
    steps.flat_map(|step| step.differences).collect()
}

/// Both graphs' operators, each with what `b` has otherwise, the nearest to a source first.
#[must_use]
pub fn compare(a: &Graph, b: &Graph) -> Vec<Step> {
    Comparison::new(a, b).steps()
}

/// What feeds a node, in terms of the first graph's nodes; `None` for what has no partner there.
type Feeds = Vec<Option<(usize, u32)>>;

struct Comparison<'a> {
    a: &'a Graph,
    b: &'a Graph,
    labels_a: Vec<String>,
    labels_b: Vec<String>,
    pairing: Pairing,
    /// For each node of `a`: it follows another operator than before, and both were there before.
    moved: Vec<bool>,
}

impl<'a> Comparison<'a> {
    fn new(a: &'a Graph, b: &'a Graph) -> Self {
        let pairing = Pairing::new(a, b);
        let (labels_a, labels_b) = labels(a, b, &pairing);
        let mut comparison = Self {
            a,
            b,
            labels_a,
            labels_b,
            moved: vec![false; a.nodes().len()],
            pairing,
        };
        for at in comparison.pairing.out_of_order(a, b) {
            let Some(partner) = comparison.pairing.after[at] else {
                continue;
            };
            let (before, after) = comparison.upstream(at, partner);
            comparison.moved[at] = before != after && before.iter().chain(&after).all(Option::is_some);
        }
        comparison
    }

    fn steps(&self) -> Vec<Step> {
        let mut found: Vec<(usize, Step)> = Vec::new();
        for (at, node) in self.a.nodes().iter().enumerate() {
            let Some(partner) = self.pairing.after[at] else {
                let step = self.step(&self.labels_a[at], self.a, node, vec![self.removed(at)]);
                found.push((node.level, Step { digest: None, ..step }));
                continue;
            };
            let after = &self.b.nodes()[partner];
            let step = self.step(&self.labels_b[partner], self.b, after, self.changes(at, partner));
            let (equal, was) = (node.digest == after.digest, Some(node.digest));
            found.push((after.level, Step { equal, was, ..step }));
        }
        for (at, node) in self.b.nodes().iter().enumerate() {
            if self.pairing.before[at].is_none() {
                let step = self.step(&self.labels_b[at], self.b, node, vec![self.added(at)]);
                found.push((node.level, step));
            }
        }
        found.sort_by_key(|(level, _)| *level);
        found.into_iter().map(|(_, step)| step).collect()
    }

    /// A node that has no partner, unless the caller says otherwise.
    fn step(&self, label: &str, graph: &Graph, node: &Node, differences: Vec<Difference>) -> Step {
        let operator = graph.operator(node);
        Step {
            operator: label.to_owned(),
            location: operator.location.clone(),
            source: operator.source.is_some(),
            digest: Some(node.digest),
            was: None,
            equal: false,
            differences,
        }
    }

    fn removed(&self, at: usize) -> Difference {
        let node = &self.a.nodes()[at];
        let followed = names(node, &self.labels_a);
        difference(
            &self.labels_a[at],
            &self.a.operator(node).location,
            Kind::Removed,
            followed,
            "",
        )
    }

    fn added(&self, at: usize) -> Difference {
        let node = &self.b.nodes()[at];
        let follows = names(node, &self.labels_b);
        difference(
            &self.labels_b[at],
            &self.b.operator(node).location,
            Kind::Added,
            "",
            follows,
        )
    }

    /// Differences of two paired nodes.
    fn changes(&self, at: usize, partner: usize) -> Vec<Difference> {
        let (node_a, node_b) = (&self.a.nodes()[at], &self.b.nodes()[partner]);
        if node_a.digest == node_b.digest {
            return Vec::new();
        }
        let (a, b) = (self.a.operator(node_a), self.b.operator(node_b));
        let location = if b.location.is_empty() {
            &a.location
        } else {
            &b.location
        };
        let label = &self.labels_b[partner];
        let mut found = self.parts((a, node_a), (b, node_b), label);
        for part in &mut found {
            if part.location.is_empty() {
                part.location.clone_from(location);
            }
        }
        let mut push = |kind, before: String, after: String| {
            found.push(difference(label, location, kind, before, after));
        };
        match (&a.determinism, &b.determinism) {
            (Determinism::Seeded(x), Determinism::Seeded(y)) if x != y => {
                push(Kind::Seed, x.to_string(), y.to_string())
            }
            (x, y) if x != y => push(Kind::Determinism, x.to_string(), y.to_string()),
            _ => {}
        }
        if a.source != b.source {
            let shown = |o: &Operator| {
                o.source
                    .as_ref()
                    .map_or_else(|| ABSENT.to_owned(), ToString::to_string)
            };
            push(Kind::Source, shown(a), shown(b));
        }
        if let Some((kind, before, after)) = self.edges(at, partner) {
            push(kind, before, after);
        }
        found
    }

    /// Differences of what two paired operators are: leaves and versions, then parameters, and the code as such only
    /// where neither says what changed.
    fn parts(
        &self,
        (a, node_a): (&Operator, &Node),
        (b, node_b): (&Operator, &Node),
        label: &str,
    ) -> Vec<Difference> {
        let leaves_known = !a.leaves.is_empty() && !b.leaves.is_empty();
        let mut found = match a.code != b.code && leaves_known {
            true => leaf::changes(a, b, label),
            false => Vec::new(),
        };
        let leaves_tell = !found.is_empty();
        let params: (BTreeMap<_, _>, BTreeMap<_, _>) =
            (self.a.params(node_a).collect(), self.b.params(node_b).collect());
        for name in params.0.keys().chain(params.1.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (params.0.get(name).copied(), params.1.get(name).copied());
            if before == after {
                continue;
            }
            let (shown_before, shown_after) = (shown(before), shown(after));
            let leaf = found
                .iter_mut()
                .find(|d| matches!(&d.kind, Kind::Leaf(_, leaf) if leaf == *name));
            match (leaf, before, after) {
                // The leaf tells more of it, but for its value.
                (Some(leaf), _, _) => (leaf.before, leaf.after) = (shown_before, shown_after),
                (None, Some(Value::Map(before)), Some(Value::Map(after))) if **name == PACKAGES => {
                    found.extend(packages(before, after, label, leaves_tell));
                }
                (None, _, _) => {
                    let kind = Kind::Parameter((**name).clone());
                    found.push(difference(label, "", kind, shown_before, shown_after));
                }
            }
        }
        let is_version = |d: &Difference| matches!(d.kind, Kind::Leaf(LeafKind::Version, _));
        if a.version != b.version && !found.iter().any(is_version) {
            let (before, after) = (or_absent(&a.version), or_absent(&b.version));
            found.insert(0, difference(label, "", Kind::Version, before, after));
        }
        if a.code != b.code && !leaves_tell {
            let shown = |o: &Operator| o.code.map_or_else(|| ABSENT.to_owned(), |code| code.short());
            found.push(difference(label, "", Kind::Code, shown(a), shown(b)));
        }
        found
    }

    /// The difference of two nodes' edges, unless an operator added, removed or moved explains it.
    fn edges(&self, at: usize, partner: usize) -> Option<(Kind, String, String)> {
        let (a, b) = (&self.a.nodes()[at], &self.b.nodes()[partner]);
        let (before, after) = self.upstream(at, partner);
        if self.moved[at] {
            let (from, to) = (names(a, &self.labels_a), names(b, &self.labels_b));
            // It may follow the same operators, and take other outputs of them.
            return Some(match from == to {
                false => (Kind::Moved, from, to),
                true => (Kind::Inputs, ports(a, &self.labels_a), ports(b, &self.labels_b)),
            });
        }
        let explained = |side: &Feeds| {
            side.iter()
                .any(|edge| edge.is_none_or(|(upstream, _)| self.moved[upstream]))
        };
        let same_after = same_set(&after_of(a, Some), &after_of(b, |x| self.pairing.before[x]));
        if before != after {
            let explained = explained(&before) || explained(&after);
            return (!explained).then(|| (Kind::Inputs, ports(a, &self.labels_a), ports(b, &self.labels_b)));
        }
        (!same_after).then(|| {
            let shown =
                |node: &Node, labels: &[String]| or_absent(&listed(node.after.iter().map(|&x| &labels[x])));
            (Kind::After, shown(a, &self.labels_a), shown(b, &self.labels_b))
        })
    }

    /// What feeds two paired nodes.
    fn upstream(&self, at: usize, partner: usize) -> (Feeds, Feeds) {
        let before = self.a.nodes()[at].inputs.iter();
        let after = self.b.nodes()[partner].inputs.iter();
        (
            before
                .map(|&(x, port)| self.pairing.after[x].map(|_| (x, port)))
                .collect(),
            after
                .map(|&(x, port)| self.pairing.before[x].map(|x| (x, port)))
                .collect(),
        )
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), Value::shown)
}

/// Packages whose versions differ. Where leaves tell what changed they name those packages too: one that only one side
/// relies on then follows from something else that changed.
fn packages(
    a: &BTreeMap<String, Value>,
    b: &BTreeMap<String, Value>,
    label: &str,
    only_shared: bool,
) -> Vec<Difference> {
    let text = |value: Option<&Value>| match value {
        Some(Value::Text(version)) => version.clone(),
        other => shown(other),
    };
    let names = a.keys().chain(b.keys()).collect::<BTreeSet<_>>().into_iter();
    let differing = names.filter(|name| match (a.get(*name), b.get(*name)) {
        (Some(before), Some(after)) => before != after,
        _ => !only_shared,
    });
    let differences = differing.map(|name| {
        let kind = Kind::Leaf(LeafKind::Version, name.clone());
        difference(label, "", kind, text(a.get(name)), text(b.get(name)))
    });
    differences.collect()
}

fn after_of(node: &Node, partner: impl Fn(usize) -> Option<usize>) -> Vec<Option<usize>> {
    node.after.iter().map(|&x| partner(x)).collect()
}

fn same_set(a: &[Option<usize>], b: &[Option<usize>]) -> bool {
    a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}

fn difference(
    operator: &str,
    location: &str,
    kind: Kind,
    before: impl Into<String>,
    after: impl Into<String>,
) -> Difference {
    Difference {
        operator: operator.to_owned(),
        location: location.to_owned(),
        kind,
        before: before.into(),
        after: after.into(),
    }
}

fn or_absent(text: &str) -> String {
    if text.is_empty() {
        ABSENT.to_owned()
    } else {
        shorten(text.to_owned())
    }
}

/// Short names of both graphs' nodes. Paired nodes share one; where several operators have the same name, they are
/// numbered: those of the first graph first.
fn labels(a: &Graph, b: &Graph, pairing: &Pairing) -> (Vec<String>, Vec<String>) {
    let name = |graph: &'_ Graph, at: usize| graph.operator(&graph.nodes()[at]).short_name().to_owned();
    let mut names: Vec<String> = (0..a.nodes().len()).map(|at| name(a, at)).collect();
    let in_b = pairing.before.iter().enumerate().map(|(at, partner)| {
        partner.unwrap_or_else(|| {
            names.push(name(b, at));
            names.len() - 1
        })
    });
    let in_b: Vec<usize> = in_b.collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *counts.entry(name).or_default() += 1;
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut labels = Vec::with_capacity(names.len());
    for name in &names {
        let number = seen.entry(name).or_default();
        *number += 1;
        let shown = shorten(name.clone());
        labels.push(if counts[&**name] == 1 {
            shown
        } else {
            format!("{shown}#{number}")
        });
    }
    let labels_b = in_b.into_iter().map(|at| labels[at].clone()).collect();
    labels.truncate(a.nodes().len());
    (labels, labels_b)
}

/// What feeds a node, or else runs before it.
fn names(node: &Node, labels: &[String]) -> String {
    if node.inputs.is_empty() {
        return listed(node.after.iter().map(|&x| &labels[x]));
    }
    listed(node.inputs.iter().map(|&(x, _)| &labels[x]))
}

/// What feeds a node, with output ports other than the first: `[decode, split:1]`.
fn ports(node: &Node, labels: &[String]) -> String {
    let port = |&(x, port): &(usize, u32)| {
        if port == 0 {
            labels[x].clone()
        } else {
            format!("{}:{port}", labels[x])
        }
    };
    format!("[{}]", listed(node.inputs.iter().map(port)))
}

fn listed(items: impl Iterator<Item = impl Display>) -> String {
    shorten(items.map(|item| item.to_string()).collect::<Vec<_>>().join(", "))
}
