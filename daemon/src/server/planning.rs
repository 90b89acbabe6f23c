//! `Plan`, whichever socket it is asked on.

use crate::{
    cache::Cache,
    error::{Error, Result},
    session::Session,
    system::task,
};
use prebake_fingerprint::Graph;
use prebake_proto::v1;
use std::sync::Arc;

/// The collection of a graph, and what is known of it. Where the graph's collections were used before it is
/// answered at once; else their segments are read, away from the async threads.
pub(super) async fn plan(
    cache: &Arc<Cache>,
    session: &Arc<Session>,
    graph: Arc<Graph>,
) -> Result<v1::PlanResponse> {
    if cache.is_loaded(session, &graph) {
        return planned(cache, session, &graph);
    }
    let (cache, session) = (Arc::clone(cache), Arc::clone(session));
    let planned = task::blocking(move || planned(&cache, &session, &graph)).await;
    planned.map_err(|_| Error::corrupt("planning failed"))?
}

fn planned(cache: &Cache, session: &Session, graph: &Graph) -> Result<v1::PlanResponse> {
    let subgraph_digest = graph.digest().0.to_vec().into();
    let ancestors = cache.ancestors(session, graph);
    let common = cache.common(session, graph);
    Ok(match cache.plan(session, graph)? {
        Ok(collection) => v1::PlanResponse {
            collection: collection.id,
            subgraph_digest,
            bypass: String::new(),
            entries: collection.entries(),
            ancestors,
            common,
        },
        Err(bypass) => v1::PlanResponse {
            subgraph_digest,
            bypass,
            ..Default::default()
        },
    })
}
