//! What a job says did not reproduce: checked, durable, and of its own trust domain only.

use crate::client::{Daemon, Job, graph};
use prebake_daemon::session::Peer;
use prebake_fingerprint::Graph;
use prebake_proto::v1::{self, answer::Kind, control_client::ControlClient};
use std::time::Duration;
use tonic::Code;

async fn mismatch(job: &Job, collection: u64, fingerprint: Vec<u8>) -> Result<String, tonic::Status> {
    let request = v1::MismatchRequest {
        session: job.session,
        collection,
        fingerprint: fingerprint.into(),
        name: "7.jpg".to_owned(),
        reason: "3 bytes differ".to_owned(),
        cpu_ns: 1_000,
    };
    let answer = job.cache().mismatch(request).await;
    answer.map(|answer| answer.into_inner().bypass)
}

async fn quarantined(job: &Job) -> Vec<v1::Quarantined> {
    let mut control = ControlClient::new(job.channel.clone());
    let status = control.status(v1::StatusRequest {}).await.unwrap();
    status.into_inner().quarantined
}

async fn bypass(job: &Job, operators: usize) -> String {
    let request = v1::PlanRequest {
        session: job.session,
        graph: Some(graph(operators)),
    };
    job.cache().plan(request).await.unwrap().into_inner().bypass
}

#[tokio::test]
async fn a_mismatch_ends_serving_and_storing_for_everyone_of_the_domain() {
    let daemon = Daemon::start();
    let (job, other) = (daemon.job().await, daemon.job().await);
    let collection = job.plan(graph(2)).await.unwrap();
    let upstream = job.plan(graph(1)).await.unwrap();
    let downstream = job.plan(graph(3)).await.unwrap();
    job.stage(4096).await;
    for each in [collection, upstream, downstream] {
        let token = job.lease(each, 1).await;
        job.commit(each, (1, token), (0, 8)).await.unwrap();
    }
    // Under way when it happens.
    let pending = job.lease(collection, 2).await;
    let told = mismatch(&other, collection, vec![1; 32]).await.unwrap();
    assert!(told.starts_with("R38 ") && told.contains("7.jpg"), "{told}");
    assert_eq!(
        job.commit(collection, (2, pending), (0, 8)).await.unwrap_err(),
        "quarantined"
    );
    for each in [collection, downstream] {
        let asked = other
            .cache()
            .acquire(other.wanting(each, 1, Duration::ZERO))
            .await;
        let answer = asked.unwrap().into_inner();
        assert_eq!(answer.answers[0].kind, Some(Kind::Bypass(true)));
        assert_eq!(answer.bypass, told);
    }
    let asked = other
        .cache()
        .acquire(other.wanting(upstream, 1, Duration::ZERO))
        .await;
    let answer = asked.unwrap().into_inner();
    assert!(matches!(answer.answers[0].kind, Some(Kind::Hit(_))), "{answer:?}");
    assert_eq!(bypass(&other, 1).await, "");
    for operators in [2, 3, 4] {
        assert_eq!(bypass(&other, operators).await, told);
    }
    let segments = daemon.cache.ssd.all();
    assert!(segments.iter().all(|segment| segment.collection == upstream));

    let mut control = ControlClient::new(other.channel.clone());
    let digest = quarantined(&job).await[0].subgraph_digest[..8].to_owned();
    let cleared = control
        .clear(v1::ClearRequest { digest })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(cleared.cleared.len(), 1);
    for operators in [2, 3, 4] {
        assert_eq!(bypass(&other, operators).await, "");
    }
    let token = job.lease(collection, 1).await;
    job.commit(collection, (1, token), (0, 8)).await.unwrap();
}

#[tokio::test]
async fn a_mismatch_that_is_wrong_or_anothers_changes_nothing() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let own = job.plan(graph(1)).await.unwrap();
    let uid = rustix::process::geteuid().as_raw() + 1;
    let peer = Peer { uid, pid: 7 };
    let theirs = daemon.cache.sessions.open(peer, "theirs".to_owned()).unwrap();
    let planned = Graph::try_from(graph(2)).unwrap();
    let theirs = daemon.cache.plan(&theirs, &planned).unwrap().unwrap();
    let wrong = [
        (own, vec![1; 31], Code::InvalidArgument),
        (u64::MAX, vec![1; 32], Code::NotFound),
        (theirs.id, vec![1; 32], Code::NotFound),
    ];
    for (collection, fingerprint, code) in wrong {
        let refused = mismatch(&job, collection, fingerprint).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    assert!(quarantined(&job).await.is_empty() && daemon.cache.quarantine.is_empty());
    assert!(theirs.quarantined().is_none());

    // What is theirs is neither shown nor cleared, and what is one's own leaves theirs alone.
    mismatch(&job, own, vec![1; 32]).await.unwrap();
    assert!(theirs.quarantined().is_none());
    let mut control = ControlClient::new(job.channel.clone());
    for (digest, code) in [("", Code::InvalidArgument), ("zzzz", Code::InvalidArgument)] {
        let digest = digest.to_owned();
        let refused = control.clear(v1::ClearRequest { digest }).await.unwrap_err();
        assert_eq!(refused.code(), code);
    }
    let digest = "0123456789abcdef".to_owned();
    assert!(
        control
            .clear(v1::ClearRequest { digest })
            .await
            .unwrap()
            .into_inner()
            .cleared
            .is_empty()
    );
    assert_eq!(quarantined(&job).await.len(), 1);
}
