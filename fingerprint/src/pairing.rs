//! Which operators of two graphs are the same operator, changed or not.

use crate::Graph;
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Pairs of places in the canonical forms of two graphs.
#[derive(Debug)]
pub struct Pairing {
    /// For each node of the first graph, its partner in the second.
    pub after: Vec<Option<usize>>,
    /// For each node of the second graph, its partner in the first.
    pub before: Vec<Option<usize>>,
}

impl Pairing {
    /// Pairs nodes with equal subgraphs, then those equal but for what is upstream, then those of equal names; of several,
    /// in order. Linear in nodes.
    pub fn new(a: &Graph, b: &Graph) -> Self {
        let mut pairing = Self {
            after: vec![None; a.nodes().len()],
            before: vec![None; b.nodes().len()],
        };
        pairing.pair(a, b, |graph, at| graph.nodes()[at].digest);
        pairing.pair(a, b, |graph, at| graph.own(&graph.nodes()[at]));
        pairing.pair(a, b, |graph, at| graph.operator(&graph.nodes()[at]).name.clone());
        pairing
    }

    fn pair<K: Hash + Eq>(&mut self, a: &Graph, b: &Graph, key: impl Fn(&Graph, usize) -> K) {
        let mut free: HashMap<K, VecDeque<usize>> = HashMap::new();
        for at in (0..self.before.len()).filter(|&at| self.before[at].is_none()) {
            free.entry(key(b, at)).or_default().push_back(at);
        }
        for at in 0..self.after.len() {
            if self.after[at].is_some() {
                continue;
            }
            if let Some(partner) = free.get_mut(&key(a, at)).and_then(VecDeque::pop_front) {
                self.after[at] = Some(partner);
                self.before[partner] = Some(at);
            }
        }
    }

    /// Nodes of the first graph whose partners stand elsewhere relative to the others' (all pairs but those of a
    /// longest run in common order, by patience sorting).
    pub fn out_of_order(&self, a: &Graph, b: &Graph) -> Vec<usize> {
        let mut pairs: Vec<(usize, usize, usize)> = self
            .after
            .iter()
            .enumerate()
            .filter_map(|(at, partner)| {
                partner.map(|partner| (a.nodes()[at].level, b.nodes()[partner].level, at))
            })
            .collect();
        pairs.sort_unstable();
        // piles[n]: the pair that ends a run of n + 1 pairs with the lowest level so far.
        let mut piles: Vec<usize> = Vec::new();
        let mut previous = vec![None; pairs.len()];
        for (i, &(_, level, _)) in pairs.iter().enumerate() {
            let pile = piles.partition_point(|&top| pairs[top].1 <= level);
            previous[i] = pile.checked_sub(1).map(|below| piles[below]);
            if pile == piles.len() {
                piles.push(i);
            } else {
                piles[pile] = i;
            }
        }
        let mut in_order = vec![false; pairs.len()];
        let mut next = piles.last().copied();
        while let Some(i) = next {
            in_order[i] = true;
            next = previous[i];
        }
        (0..pairs.len())
            .filter(|&i| !in_order[i])
            .map(|i| pairs[i].2)
            .collect()
    }
}
