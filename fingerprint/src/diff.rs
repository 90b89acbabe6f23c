//! The differences of two graphs, first difference first.

use crate::{
    Determinism, Difference, Graph, Kind, Operator, Value, canonical::Node, pairing::Pairing, value::shorten,
};
use std::{
    collections::{BTreeSet, HashMap},
    fmt::Display,
};

/// What `b` has otherwise than `a`, the nearest to a source first. Empty exactly if the digests are equal.
///
/// Operators that the output does not need, and what the canonical form leaves out, are no differences.
#[must_use]
pub fn diff(a: &Graph, b: &Graph) -> Vec<Difference> {
    if a.digest() == b.digest() {
        return Vec::new();
    }
    Comparison::new(a, b).differences()
}

/// Shown in place of what is not there.
const ABSENT: &str = "(none)";

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

    fn differences(&self) -> Vec<Difference> {
        let mut found: Vec<(usize, Difference)> = Vec::new();
        for (at, node) in self.a.nodes().iter().enumerate() {
            match self.pairing.after[at] {
                Some(partner) => {
                    let level = self.b.nodes()[partner].level;
                    found.extend(
                        self.changes(at, partner)
                            .into_iter()
                            .map(|change| (level, change)),
                    );
                }
                None => found.push((node.level, self.removed(at))),
            }
        }
        for (at, node) in self.b.nodes().iter().enumerate() {
            if self.pairing.before[at].is_none() {
                found.push((node.level, self.added(at)));
            }
        }
        found.sort_by_key(|(level, _)| *level);
        found.into_iter().map(|(_, difference)| difference).collect()
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
        let mut found = Vec::new();
        let mut push = |kind, before: String, after: String| {
            found.push(difference(&self.labels_b[partner], location, kind, before, after));
        };
        if a.version != b.version {
            push(Kind::Version, or_absent(&a.version), or_absent(&b.version));
        }
        if a.code != b.code {
            let shown = |o: &Operator| o.code.map_or_else(|| ABSENT.to_owned(), |code| code.short());
            push(Kind::Code, shown(a), shown(b));
        }
        let (params_a, params_b): (HashMap<_, _>, HashMap<_, _>) =
            (self.a.params(node_a).collect(), self.b.params(node_b).collect());
        for name in params_a.keys().chain(params_b.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (params_a.get(name), params_b.get(name));
            if before != after {
                let shown = |value: Option<&&Value>| value.map_or_else(|| ABSENT.to_owned(), |v| v.shown());
                push(Kind::Parameter((**name).clone()), shown(before), shown(after));
            }
        }
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

    /// The difference of two nodes' edges, unless an operator added, removed or moved explains it.
    fn edges(&self, at: usize, partner: usize) -> Option<(Kind, String, String)> {
        let (a, b) = (&self.a.nodes()[at], &self.b.nodes()[partner]);
        let (before, after) = self.upstream(at, partner);
        if self.moved[at] {
            return Some((Kind::Moved, names(a, &self.labels_a), names(b, &self.labels_b)));
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
