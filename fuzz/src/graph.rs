//! A pipeline's graph, as a client sends it and as a footer holds it.

use prebake_fingerprint::Graph;
use prebake_proto::v1;
use prost::Message;

pub fn run(bytes: &[u8]) {
    let sent = v1::Graph::decode(bytes).ok();
    let sent = sent.and_then(|graph| Graph::try_from(graph).ok());
    for graph in [sent, Graph::from_canonical(bytes).ok()].into_iter().flatten() {
        let again = Graph::from_canonical(graph.canonical());
        let digest = again.map(|again| again.digest()).ok();
        assert_eq!(
            digest,
            Some(graph.digest()),
            "a canonical graph is another when it is read again"
        );
    }
}
