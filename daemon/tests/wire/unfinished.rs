//! Calls that are never sent to their end.

use crate::client::{Daemon, channel, graph};
use futures_util::{StreamExt, stream};
use prebake_proto::v1::{AcquireRequest, AcquireResponse, Item};
use std::{sync::Arc, time::Duration};
use tokio::{net::UnixStream, task::JoinSet, time::timeout};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

/// A message of three megabytes, as long as the client library's longest.
fn long() -> AcquireRequest {
    let item = |_| Item {
        name: "n".repeat(1 << 10),
        ..Item::default()
    };
    AcquireRequest {
        wanted: (0..3 << 10).map(item).collect(),
        ..AcquireRequest::default()
    }
}

/// The answer to a call whose message is there and whose end is not.
async fn begun(channel: Channel) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let endless = stream::iter([long()]).chain(stream::pending());
    let path = PathAndQuery::from_static("/prebake.v1.Cache/Acquire");
    let codec = ProstCodec::<AcquireRequest, AcquireResponse>::default();
    grpc.client_streaming(Request::new(endless), path, codec)
        .await
        .map(drop)
}

#[tokio::test]
async fn calls_that_never_end_fill_no_more_than_they_may_and_others_are_answered() {
    let daemon = Arc::new(Daemon::start());
    let job = daemon.job().await;
    let mut calls = JoinSet::new();
    // 120 MB in all, of 32 MiB.
    for _ in 0..8 {
        let stream = UnixStream::connect(daemon.folder().join("prebake.sock")).await;
        let channel = channel(stream.unwrap()).await;
        (0..5).for_each(|_| drop(calls.spawn(begun(channel.clone()))));
    }
    let mut let_go = 0;
    while let Ok(ended) = timeout(Duration::from_secs(3), calls.join_next()).await {
        let status = ended.unwrap().unwrap().unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().ends_with("[unfinished]"), "{status}");
        let_go += 1;
        job.plan(graph(let_go)).await.unwrap();
    }
    // Ten are kept: nobody needs what they fill.
    assert!((25..35).contains(&let_go), "{let_go} of 40 were let go");
    calls.abort_all();
    job.plan(graph(99)).await.unwrap();
}
