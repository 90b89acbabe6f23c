//! Packets of the data socket, with descriptors beside them.

use crate::{daemon::daemon, parts::Parts};
use prebake_proto::v1::{DataRequest, data_request::Kind as Ask};
use prost::Message;
use std::os::fd::AsFd;

/// More packets are no other case.
const PACKETS_MAX: usize = 16;

/// How many descriptors go with each packet, and the packet.
pub fn run(bytes: &[u8]) {
    let daemon = daemon();
    let data = daemon
        .data()
        .unwrap_or_else(|error| panic!("the daemon takes no connection: {error}"));
    let mut parts = Parts(bytes);
    for _ in 0..PACKETS_MAX {
        let count = parts.byte() % 4;
        let Some(packet) = parts.next() else {
            break;
        };
        // Any descriptor does: the daemon asked for none.
        let descriptors = vec![daemon.anything().as_fd(); usize::from(count)];
        if data.send(packet, &descriptors).is_err() {
            break;
        }
        let asked = DataRequest::decode(packet).ok().and_then(|request| request.kind);
        let is_answered = !matches!(asked, Some(Ask::Report(_)));
        // None is answered where the packet is no request: the session ends.
        if is_answered && !matches!(data.receive(), Ok(Some(_))) {
            break;
        }
    }
    drop(data);
    if bytes.len().is_multiple_of(64) {
        daemon.must_answer();
    }
}
