//! Packets of the data socket, with descriptors beside them.

use crate::{
    daemon::{Daemon, daemon},
    parts::Parts,
};
use prebake_proto::v1::{DataRequest, data_request::Kind as Ask};
use prost::Message;

/// More packets are no other case.
const PACKETS_MAX: usize = 16;

/// How many descriptors go with each packet, and the packet.
pub fn run(bytes: &[u8]) {
    let daemon = daemon();
    daemon.runtime.block_on(send_all(&daemon, Parts(bytes)));
    if bytes.len().is_multiple_of(64) {
        daemon.must_answer();
    }
}

async fn send_all(daemon: &Daemon, mut parts: Parts<'_>) {
    let data = daemon
        .data()
        .await
        .unwrap_or_else(|error| panic!("the daemon takes no connection: {error}"));
    for _ in 0..PACKETS_MAX {
        let count = parts.byte() % 4;
        let Some(packet) = parts.next() else {
            break;
        };
        // Any descriptor does: the daemon asked for none.
        let descriptors = vec![daemon.anything(); usize::from(count)];
        if data.send(packet, &descriptors).await.is_err() {
            break;
        }
        let asked = DataRequest::decode(packet).ok().and_then(|request| request.kind);
        let is_answered = !matches!(asked, Some(Ask::Report(_)));
        // None is answered where the packet is no request: the session ends.
        if is_answered && !matches!(data.receive().await, Ok(Some(_))) {
            break;
        }
    }
    data.end().await;
}
