//! All collections, found by trust domain and subgraph digest.

use crate::{
    collection::{Collection, Nearest, Origin},
    domain::Domain,
    error::{Error, Kind, Result},
    system::random::Random,
};
use parking_lot::RwLock;
use prebake_fingerprint::{Digest, Graph, Step, compare};
use std::{collections::HashMap, sync::Arc};

/// Collections at once: each keeps its graph (at most 4 MiB, commonly 2 KiB) in memory.
const COLLECTIONS_MAX: usize = 65_536;

/// How many of the newest collections a new one is compared with, to say how it differs.
const COMPARED_MAX: usize = 32;

/// Leaves kept of all collections together: about 100 MB. Newer collections are then told apart by parameters alone.
const LEAVES_MAX: usize = 500_000;

#[derive(Default)]
struct State {
    by_key: HashMap<(Domain, Digest), u64>,
    /// Its place is its number.
    all: Vec<Arc<Collection>>,
    /// Of all of them together.
    leaves: usize,
    /// Which are computed with an operator, and all that is upstream of it.
    users: HashMap<(Domain, Digest), Users>,
}

/// Collections that are computed with an operator.
struct Users {
    first: u64,
    several: bool,
}

impl State {
    fn use_operators(&mut self, domain: &Domain, graph: &Graph, id: u64) {
        for digest in graph.operators().iter().filter_map(|o| graph.digest_of(&o.id)) {
            let first = Users {
                first: id,
                several: false,
            };
            let users = self.users.entry((domain.clone(), digest)).or_insert(first);
            users.several |= users.first != id;
        }
    }
}

/// The collections.
pub struct Catalog {
    state: RwLock<State>,
    random: Arc<dyn Random>,
}

impl Catalog {
    /// None yet; keys of tags are drawn from `random`.
    pub fn new(random: Arc<dyn Random>) -> Self {
        Self {
            state: RwLock::default(),
            random,
        }
    }

    /// The collection of a graph, made if need be; whether it is new.
    ///
    /// # Errors
    /// `digest-collision` if another graph has this digest: hash to find, canonical text to prove.
    /// `too-many-collections`.
    pub fn plan(&self, domain: &Domain, graph: &Graph, origin: Origin) -> Result<(Arc<Collection>, bool)> {
        let key = (domain.clone(), graph.digest());
        let proven = |collection: &Arc<Collection>, graph: &Graph| {
            if collection.graph.canonical() == graph.canonical() {
                return Ok((Arc::clone(collection), false));
            }
            Err(Error::new(
                Kind::Corrupt,
                "digest-collision",
                "another graph has this digest: neither is served for the other",
            ))
        };
        let state = self.state.read();
        if let Some(id) = state.by_key.get(&key) {
            return proven(&state.all[*id as usize], graph);
        }
        drop(state);
        let mut state = self.state.write();
        if let Some(id) = state.by_key.get(&key) {
            return proven(&state.all[*id as usize], graph);
        }
        if state.all.len() >= COLLECTIONS_MAX {
            return Err(Error::new(
                Kind::Exhausted,
                "too-many-collections",
                format!(
                    "{COLLECTIONS_MAX} pipelines are known already: restart the daemon to forget unused ones"
                ),
            ));
        }
        let mut graph = graph.clone();
        let leaves: usize = graph.operators().iter().map(|o| o.leaves.len()).sum();
        if state.leaves + leaves > LEAVES_MAX {
            graph.forget_leaves();
        } else {
            state.leaves += leaves;
        }
        let nearest = nearest(&state.all, domain, &graph);
        let id = state.all.len() as u64;
        state.use_operators(domain, &graph, id);
        let collection = Collection::new(id, domain.clone(), graph, origin, nearest, &*self.random)?;
        let collection = Arc::new(collection);
        state.all.push(Arc::clone(&collection));
        state.by_key.insert(key, id);
        Ok((collection, true))
    }

    /// Ids of the operators upstream of a graph's output that other collections of its domain are computed with too. Sources
    /// are not told: they cost nothing.
    pub fn common(&self, domain: &Domain, graph: &Graph) -> Vec<String> {
        let state = self.state.read();
        let own = state.by_key.get(&(domain.clone(), graph.digest()));
        let upstream = graph.operators().iter();
        let upstream = upstream.filter(|o| o.id != graph.output() && o.source.is_none());
        let is_common = |digest| {
            let users = state.users.get(&(domain.clone(), digest));
            users.is_some_and(|users| users.several || own != Some(&users.first))
        };
        let common = upstream.filter(|o| graph.digest_of(&o.id).is_some_and(is_common));
        common.map(|o| o.id.clone()).collect()
    }

    /// The collection of a subgraph, if there is one.
    pub fn lookup(&self, domain: &Domain, digest: Digest) -> Option<Arc<Collection>> {
        let state = self.state.read();
        let id = state.by_key.get(&(domain.clone(), digest))?;
        state.all.get(*id as usize).cloned()
    }

    /// A collection of the caller's own domain.
    ///
    /// # Errors
    /// `no-collection`, the same whether it does not exist or is another's.
    pub fn get(&self, id: u64, domain: &Domain) -> Result<Arc<Collection>> {
        self.find(id)
            .filter(|c| c.domain == *domain)
            .ok_or_else(|| Error::new(Kind::NotFound, "no-collection", "no such collection: plan again"))
    }

    /// The collection of a subgraph, if there is one.
    pub fn of(&self, domain: &Domain, digest: Digest) -> Option<Arc<Collection>> {
        let state = self.state.read();
        let id = state.by_key.get(&(domain.clone(), digest))?;
        Some(Arc::clone(&state.all[*id as usize]))
    }

    /// A collection, whoever it belongs to: for the daemon's own work.
    pub fn find(&self, id: u64) -> Option<Arc<Collection>> {
        self.state.read().all.get(id as usize).cloned()
    }

    /// All collections.
    pub fn all(&self) -> Vec<Arc<Collection>> {
        self.state.read().all.clone()
    }
}

/// The most similar of the newest collections of a graph's domain: one that shares an operator with it, source aside.
fn nearest(all: &[Arc<Collection>], domain: &Domain, graph: &Graph) -> Nearest {
    let others = all
        .iter()
        .rev()
        .filter(|c| c.domain == *domain && !c.is_bookkeeping())
        .take(COMPARED_MAX);
    let compared = others.map(|c| (c.id, compare(&c.graph, graph)));
    let similar = compared.filter(|(_, steps)| steps.iter().any(|step| step.is_shared() && !step.source));
    let count = |steps: &[Step]| steps.iter().map(|step| step.differences.len()).sum::<usize>();
    let Some((id, steps)) = similar.min_by_key(|(_, steps)| count(steps)) else {
        return Nearest::default();
    };
    let first = steps.iter().flat_map(|step| &step.differences).next();
    Nearest {
        collection: Some(id),
        differs: first.map(ToString::to_string).unwrap_or_default(),
    }
}
