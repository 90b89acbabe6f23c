//! Graphs as jobs sent them: those of a sweep send the same bytes, which are understood once.

use crate::error::{Error, Kind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use prebake_fingerprint::Graph;
use prebake_proto::v1;
use prost::Message;
use std::{collections::HashMap, sync::Arc};

/// Graphs kept. One is some kilobytes; a node runs tens of pipelines.
const GRAPHS_MAX: usize = 256;

/// Of each user, so that nobody can tell by the time it takes what others run.
type Key = (u32, Bytes);

/// Graphs by the bytes they came in. What those mean depends on nothing else.
#[derive(Default)]
pub struct Graphs(Mutex<HashMap<Key, Arc<Graph>>>);

impl Graphs {
    /// The graph of an encoded `prebake.v1.Graph`.
    ///
    /// # Errors
    /// `bad-request` for what is none; those of [`Graph`].
    pub fn decode(&self, uid: u32, bytes: Bytes) -> Result<Arc<Graph>> {
        let key = (uid, bytes);
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let wire = v1::Graph::decode(&*key.1);
        let wire = wire.map_err(|_| Error::new(Kind::Invalid, "bad-request", "not a graph"))?;
        let graph = Arc::new(understood(wire)?);
        let mut known = self.0.lock();
        if known.len() >= GRAPHS_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&graph));
        Ok(graph)
    }
}

/// A graph from its message.
///
/// # Errors
/// Those of [`Graph`].
pub fn understood(wire: v1::Graph) -> Result<Graph> {
    Graph::try_from(wire).map_err(|e| Error::new(Kind::Invalid, e.code(), e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str) -> Bytes {
        let operator = v1::Operator {
            id: "0".into(),
            name: name.into(),
            version: "1".into(),
            source: Some(v1::Source {
                kind: Some(v1::source::Kind::Files(v1::Files::default())),
            }),
            ..Default::default()
        };
        let graph = v1::Graph {
            version: 1,
            operators: vec![operator],
            output: "0".into(),
        };
        graph.encode_to_vec().into()
    }

    #[test]
    fn the_same_bytes_of_one_user_are_understood_once() {
        let graphs = Graphs::default();
        let first = graphs.decode(1, bytes("files")).unwrap();
        assert!(Arc::ptr_eq(&first, &graphs.decode(1, bytes("files")).unwrap()));
        assert!(!Arc::ptr_eq(&first, &graphs.decode(2, bytes("files")).unwrap()));
        let other = graphs.decode(1, bytes("others")).unwrap();
        assert_ne!(first.digest(), other.digest());
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_what_is_no_graph_is_refused() {
        let graphs = Graphs::default();
        for n in 0..2 * GRAPHS_MAX {
            graphs.decode(1, bytes(&format!("files {n}"))).unwrap();
        }
        assert!(graphs.0.lock().len() <= GRAPHS_MAX);
        assert_eq!(
            graphs
                .decode(1, Bytes::from_static(&[0xff; 9]))
                .unwrap_err()
                .code(),
            "bad-request"
        );
        assert!(graphs.decode(1, Bytes::new()).is_err());
    }
}
