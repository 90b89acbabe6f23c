//! A process that is stopped while it holds leases keeps nobody waiting.
#![allow(clippy::unwrap_used, missing_docs)]

use prebake_daemon::{
    Config,
    cache::Cache,
    collection::{Answer, Item, Request},
    server::Server,
    session::{Peer, Session},
};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    process::{Child, Command},
    time::Duration,
};

/// A job that is alive, and does nothing: its session ends with this test, and its process by itself.
struct Job(Child);

impl Job {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn peer(&self) -> Peer {
        Peer {
            uid: 1,
            pid: self.0.id(),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn graph() -> Graph {
    let json = r#"{"version":1,"output":"b","operators":[
        {"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}},
        {"id":"b","name":"decode","inputs":[{"operator":"a"}],"determinism":{"deterministic":true}}]}"#;
    Graph::try_from(serde_json::from_str::<v1::Graph>(json).unwrap()).unwrap()
}

async fn ask(cache: &Cache, session: &Session, wait: Duration) -> Answer {
    let collection = cache.plan(session, &graph()).unwrap().unwrap();
    let items = [Item {
        fingerprint: Digest([1; 32]),
        name: "f".into(),
    }];
    let request = Request {
        session: session.id,
        wanted: &items,
        ahead: &[],
        leases_max: 1,
        // As for whole programs.
        lease: Duration::from_secs(3600),
        items: 0,
    };
    cache.acquire(&collection, &request, wait).await.answers.remove(0)
}

#[tokio::test]
async fn what_a_stopped_process_holds_is_given_to_who_waits_and_is_its_own_if_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Config {
        dir: folder.path().into(),
        ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
        ..Config::default()
    });
    let server = server.unwrap();
    let cache = server.cache();
    let [holder, waiter] = [(); 2].map(|()| Job::start());
    let [held, waiting] = [&holder, &waiter].map(|job| cache.sessions.open(job.peer(), "t".into()).unwrap());
    let Answer::Granted(token) = ask(cache, &held, Duration::ZERO).await else {
        panic!()
    };
    let patience = Duration::from_millis(1500);
    assert_eq!(ask(cache, &waiting, patience).await, Answer::Held, "it computes");
    holder.signal(Signal::STOP);
    assert_eq!(
        ask(cache, &waiting, Duration::from_millis(300)).await,
        Answer::Held,
        "it may be a moment"
    );
    holder.signal(Signal::CONT);
    assert_eq!(ask(cache, &waiting, patience).await, Answer::Held, "it was");

    holder.signal(Signal::STOP);
    let Answer::Granted(other) = ask(cache, &waiting, Duration::from_secs(30)).await else {
        panic!()
    };
    assert!(other.0 > token.0);
    let collection = cache.plan(&held, &graph()).unwrap().unwrap();
    holder.signal(Signal::CONT);
    assert!(
        !collection.may_commit(&Digest([1; 32]), held.id, token),
        "it comes too late"
    );
    assert!(collection.may_commit(&Digest([1; 32]), waiting.id, other));
}
