//! All entries of one subgraph, as a job sees them.

use crate::error::{Error, Result};
use crate::files::paths::{Paths, resolve};
use crate::inputs::{Inputs, Own};
use crate::items::Items;
use crate::session::Session;
use prebake_fingerprint::Digest;
use prebake_proto::v1::{self, Graph, source, world_request::Found, world_response::Standing as Answer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether an item of a graph's source is its content alone, whatever it is called.
fn ignores_paths(graph: &Graph) -> bool {
    let sources = graph
        .operators
        .iter()
        .filter_map(|o| o.source.as_ref()?.kind.as_ref());
    sources
        .filter_map(|kind| match kind {
            source::Kind::Files(files) => Some(files.path_ignored),
            _ => None,
        })
        .any(|ignored| ignored)
}

/// Where a job's world stands in a collection: see [`Collection::stand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Elements may be served and stored.
    Proven {
        /// Whether others are compared with this world.
        first: bool,
        /// Whether a description is wanted.
        undescribed: bool,
    },
    /// Neither, before some were computed again and compared.
    Unproven {
        /// Of the world that the elements were made in; empty if it is not known.
        description: Vec<u8>,
        /// Whether other live jobs use the collection, so that there may be elements soon.
        others: bool,
        /// Mean CPU time of an element; 0 if it is not known.
        cost_ns: u64,
    },
    /// Elements are others in this world: those of this variant.
    Variant {
        /// Its key.
        key: Vec<u8>,
        /// What differs, in words.
        why: String,
    },
}

/// What was found in a world by computing elements again.
#[derive(Debug, Clone)]
pub enum Compared {
    /// They are the same.
    Same,
    /// They are others, as in all worlds of this variant, and why, in words.
    Variant(Digest, String),
}

/// What a graph's output is called in the daemon: the place of its entries.
pub struct Collection {
    session: Arc<Session>,
    id: u64,
    digest: Digest,
    bypass: String,
    entries: u64,
    ancestors: Vec<String>,
    common: Vec<String>,
    path_ignored: bool,
}

impl Collection {
    /// Has a graph's collection named.
    pub(crate) fn plan(session: Arc<Session>, graph: Graph) -> Result<Collection> {
        let path_ignored = ignores_paths(&graph);
        let plan = session.plan(graph)?;
        let digest = Digest::try_from(plan.subgraph_digest.as_ref())
            .map_err(|_| Error::protocol("not a digest in the answer to Plan"))?;
        Ok(Collection {
            session,
            id: plan.collection,
            digest,
            bypass: plan.bypass,
            entries: plan.entries,
            ancestors: plan.ancestors,
            common: plan.common,
            path_ignored,
        })
    }

    /// The subgraph digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Why nothing of it is ever cached; empty if it is.
    #[must_use]
    pub fn bypass(&self) -> &str {
        &self.bypass
    }

    /// Entries that were there when it was planned.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Ids of the graph's operators upstream of the output whose own elements have entries.
    #[must_use]
    pub fn ancestors(&self) -> &[String] {
        &self.ancestors
    }

    /// Ids of the graph's operators upstream of the output that other pipelines of the user's have too.
    #[must_use]
    pub fn common(&self) -> &[String] {
        &self.common
    }

    /// Items that are files: item i is file i of `paths`, named by its path below `root`, by default the folder that they
    /// have in common. Nothing is read yet.
    ///
    /// # Errors
    /// `internal` if a relative root cannot be resolved.
    pub fn files(&self, root: Option<&Path>, paths: Arc<Paths>) -> Result<Items> {
        let root = root.map_or_else(|| Ok(paths.folder()), resolve)?;
        let inputs = Inputs::files(root, paths, self.path_ignored);
        Ok(self.items(inputs))
    }

    /// One item: a call that people call `name`, with a digest of its arguments and the files and folders it reads.
    ///
    /// # Errors
    /// `internal` if a relative path cannot be resolved.
    pub fn call(&self, name: &str, arguments: Digest, paths: &[PathBuf]) -> Result<Items> {
        let roots = paths.iter().map(|path| resolve(path)).collect::<Result<_>>()?;
        Ok(self.items(Inputs::call(name.to_owned(), arguments, roots)))
    }

    /// `count` items of a data set, each known by its number and the files that [`Items::set_reads`] names for it. Those are
    /// named by their path below `root`, unless the graph ignores paths. With `unread` they read none until something is named;
    /// else they have no fingerprint until then.
    ///
    /// # Errors
    /// `internal` if a relative path cannot be resolved.
    pub fn places(&self, root: &Path, count: usize, unread: bool) -> Result<Items> {
        let inputs = Inputs::records(resolve(root)?, Own::Places(count), self.path_ignored, unread);
        Ok(self.items(inputs))
    }

    /// Items that are known by a digest each, have a name for people, and read the files that [`Items::set_reads`] names.
    /// `unread` as in [`Collection::places`].
    ///
    /// # Errors
    /// `internal` if a relative path cannot be resolved.
    pub fn named(&self, root: &Path, named: Vec<(Digest, String)>, unread: bool) -> Result<Items> {
        let inputs = Inputs::records(resolve(root)?, Own::Named(named), self.path_ignored, unread);
        Ok(self.items(inputs))
    }

    /// Where a world (a digest of what surrounds the job's code) stands, after what was `found` in it. A job that `begins`
    /// is about to add elements: where there are none, its world is the first one. A `description` is kept of that. It may be
    /// a `part` of a world, of which people are not told.
    ///
    /// # Errors
    /// `daemon-lost`, `invalid` for a description that is too long, `forked`.
    pub fn stand(
        &self,
        world: Digest,
        found: Option<Compared>,
        description: &[u8],
        begins: bool,
        part: bool,
    ) -> Result<Standing> {
        let found = found.map(|found| match found {
            Compared::Same => Found::Agrees(true),
            Compared::Variant(key, why) => Found::Differs(v1::Variant {
                key: key.0.to_vec().into(),
                why,
            }),
        });
        let standing = self.session.world(v1::WorldRequest {
            collection: self.id,
            world: world.0.to_vec().into(),
            found,
            description: description.to_vec().into(),
            begins,
            part,
        })?;
        Ok(match standing {
            Answer::Proven(proven) => Standing::Proven {
                first: proven.first,
                undescribed: proven.undescribed,
            },
            Answer::Unproven(unproven) => Standing::Unproven {
                description: unproven.description.to_vec(),
                others: unproven.others,
                cost_ns: unproven.cost_ns,
            },
            Answer::Variant(variant) => Standing::Variant {
                key: variant.key.to_vec(),
                why: variant.why,
            },
        })
    }

    fn items(&self, inputs: Inputs) -> Items {
        let session = Arc::clone(&self.session);
        let warm = self.entries > 0;
        Items::new(session, self.id, self.bypass.clone(), inputs, warm)
    }
}
