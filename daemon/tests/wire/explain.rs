//! What is explained to a caller is the caller's own, and bounded.

use crate::client::{Daemon, Job, graph};
use prebake_daemon::{
    session::{Peer, Session},
    system::task,
};
use prebake_fingerprint::Graph;
use prebake_proto::v1::{self, control_client::ControlClient};
use std::sync::Arc;

async fn explained(job: &Job, target: &str) -> Vec<v1::Explanation> {
    let mut control = ControlClient::new(job.channel.clone());
    let target = target.to_owned();
    let answer = control.explain(v1::ExplainRequest { target }).await;
    answer.unwrap().into_inner().explanations
}

async fn refuse(job: &Job, session: u64, code: &str) -> Result<(), tonic::Status> {
    let request = v1::RefusedRequest {
        session,
        code: code.to_owned(),
        reason: "it is random".to_owned(),
        location: "train.py:7".to_owned(),
    };
    job.cache().refused(request).await.map(drop)
}

/// A session of another user.
fn stranger(daemon: &Daemon) -> Arc<Session> {
    let uid = rustix::process::geteuid().as_raw() + 1;
    let peer = Peer { uid, pid: 7 };
    daemon.cache.sessions.open(peer, "theirs".to_owned()).unwrap()
}

#[tokio::test]
async fn another_users_misses_and_refusals_are_not_told() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let theirs = stranger(&daemon);
    let planned = Graph::try_from(graph(3)).unwrap();
    let digest = planned.digest().to_string();
    daemon.cache.plan(&theirs, &planned).unwrap().unwrap();
    for code in ["R20", "M18"] {
        let reason = "theirs alone".to_owned();
        daemon
            .cache
            .keep_refusal(&theirs, code, reason, "theirs.py:1".to_owned());
    }
    for target in ["", "theirs", "theirs.py:1", "7", &digest[..8]] {
        assert!(explained(&job, target).await.is_empty(), "{target}");
    }
    assert_eq!(
        refuse(&job, theirs.id.0, "R20").await.unwrap_err().code(),
        tonic::Code::FailedPrecondition
    );
    let mut control = ControlClient::new(job.channel.clone());
    let status = control.status(v1::StatusRequest {}).await.unwrap().into_inner();
    assert!(status.refusals.is_empty());

    // The same graph of one's own: theirs is not its nearest.
    let collection = job.plan(graph(2)).await.unwrap();
    job.stage(4096).await;
    let token = job.lease(collection, 1).await;
    job.commit(collection, (1, token), (0, 8)).await.unwrap();
    let own = explained(&job, "").await;
    assert_eq!((&*own[0].code, own[0].nearest.clone()), ("M10", None));
}

#[tokio::test]
async fn misses_and_refusals_are_bounded() {
    let daemon = Daemon::start();
    let mut job = daemon.job().await;
    job.stage(4096).await;
    for operators in 1..80 {
        let collection = job.plan(graph(operators)).await.unwrap();
        let token = job.lease(collection, 1).await;
        job.commit(collection, (1, token), (0, 8)).await.unwrap();
        refuse(&job, job.session, "R20").await.unwrap();
        // Each open segment has a block in memory, and there is room for some ten.
        let cache = Arc::clone(&daemon.cache);
        task::blocking(move || cache.sync()).await.unwrap().unwrap();
    }
    let domain = prebake_daemon::cache::domain_of(Peer {
        uid: rustix::process::geteuid().as_raw(),
        pid: 0,
    });
    assert_eq!(daemon.cache.misses.of(&domain).len(), 64);
    let refusals = daemon.cache.refusals.of(&domain);
    assert_eq!(refusals.iter().map(|r| r.times).collect::<Vec<_>>(), [79]);
    assert_eq!(explained(&job, "test").await.len(), 8);
    assert_eq!(explained(&job, "").await.len(), 1);
    // A session that ended tells nothing more.
    job.session += 1000;
    assert!(refuse(&job, job.session, "R20").await.is_err());
}

#[tokio::test]
async fn a_place_with_too_many_identities_is_named_with_what_differs() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let planned = |n: u8| {
        let mut graph = graph(1);
        let step = &mut graph.operators[1];
        step.location = "train.py:7".to_owned();
        step.code_digest = vec![n; 32].into();
        step.leaves = vec![v1::Leaf {
            path: "-> STARTED".to_owned(),
            kind: "global".to_owned(),
            digest: vec![n; 16].into(),
            shown: n.to_string(),
            location: String::new(),
        }];
        graph
    };
    let mut control = ControlClient::new(job.channel.clone());
    let mut unstable = async || {
        let answer = control.diagnose(v1::DiagnoseRequest {}).await;
        answer.unwrap().into_inner().unstable
    };
    for n in 1..=3 {
        job.plan(planned(n)).await.unwrap();
        job.plan(planned(n)).await.unwrap();
    }
    assert!(unstable().await.is_empty());
    job.plan(planned(4)).await.unwrap();
    let found = unstable().await;
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].location, found[0].digests), ("train.py:7", 4));
    assert_eq!(
        (&*found[0].code, &*found[0].reason),
        ("M13", "global STARTED 3 -> 4 train.py:7")
    );
}
