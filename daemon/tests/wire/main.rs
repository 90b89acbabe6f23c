//! What the daemon says on its real sockets to clients that are wrong, hostile, strangers or gone.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod client;
mod explain;
mod flight;
mod quarantine;
mod unfinished;

use client::{Daemon, channel, graph};
use prebake_daemon::{
    error::Error,
    memory::{BLOCK_BYTES, SLOT_BYTES},
    session::{Peer, SessionId},
    system::task,
};
use prebake_fingerprint::Graph;
use prebake_proto::v1::{self, MapBlocks, Stage, data_request::Kind as Ask, data_response::Kind as Say};
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::atomic::Ordering,
    time::Duration,
};
use tonic::Code;

/// "nobody" wherever there is one; what matters is that it is not the daemon's user.
const STRANGER: u32 = 65_534;

#[tokio::test]
async fn a_session_begins_with_hello_in_this_protocol_version() {
    let daemon = Daemon::start();
    for version in [0, 2, u32::MAX] {
        let data = daemon.data().await;
        let failure = data.hello(version).await.unwrap_err();
        assert_eq!(failure.code, "protocol-version");
        assert!(failure.message.contains("use the same Prebake release"));
        assert!(data.receive().await.is_none(), "and the connection ends");
    }
    let data = daemon.data().await;
    assert_eq!(data.refusal(Ask::Stage(Stage { bytes: 1 })).await, "bad-request");
    assert!(data.receive().await.is_none(), "and the connection ends");
    assert_eq!(daemon.cache.sessions.opened(), 0);

    let data = daemon.data().await;
    data.hello(4).await.unwrap();
    assert_eq!(
        data.refusal(Ask::Hello(v1::Hello::default())).await,
        "bad-request"
    );
    data.0.send(b"\xff\xff").await.unwrap();
    assert!(
        data.receive().await.is_none(),
        "what makes no sense ends the session"
    );
}

#[tokio::test]
async fn an_oversized_message_is_refused_and_everyone_else_is_served() {
    let daemon = Daemon::start();
    let (rude, other) = (daemon.job().await, daemon.job().await);
    let mut huge = graph(1);
    huge.operators[1].name = "x".repeat((4 << 20) + 1);
    assert_eq!(rude.plan(huge).await.unwrap_err().code(), Code::OutOfRange);
    assert!(daemon.cache.catalog.all().is_empty());
    assert!(other.alive().await && rude.alive().await);
    rude.plan(graph(1)).await.unwrap();
}

#[tokio::test]
async fn a_graph_that_is_wrong_is_refused_by_code_and_makes_no_collection() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let mut newer = graph(1);
    newer.version = 9;
    let mut cycle = graph(2);
    cycle.operators[1].inputs[0].operator = "2".to_owned();
    let wrong = [
        ("unsupported-version", newer),
        ("cycle", cycle),
        ("too-many-operators", graph(100_000)),
        ("unsupported-version", v1::Graph::default()),
    ];
    for (code, graph) in wrong {
        let refused = job.plan(graph).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(&format!("[{code}]")), "{refused}");
    }
    assert!(daemon.cache.catalog.all().is_empty());
}

#[tokio::test]
async fn what_is_anothers_is_answered_like_what_never_was() {
    let daemon = Daemon::start();
    let mut job = daemon.job().await;
    let own = job.plan(graph(1)).await.unwrap();
    let (other_session, others) = of_another_user(&daemon);
    assert_ne!(own, others);
    let ask = |session, collection| {
        let mut request = job.wanting(collection, 1, Duration::ZERO);
        request.session = session;
        let mut cache = job.cache();
        async move { cache.acquire(request).await }
    };
    let told = |status: tonic::Status| (status.code(), status.message().to_owned());

    let unknown = told(ask(u64::MAX, own).await.unwrap_err());
    assert_eq!(unknown.0, Code::FailedPrecondition);
    assert_eq!(told(ask(other_session, own).await.unwrap_err()), unknown);
    assert_eq!(told(ask(other_session, others).await.unwrap_err()), unknown);

    let unknown = told(ask(job.session, u64::MAX).await.unwrap_err());
    assert_eq!(unknown.0, Code::NotFound);
    assert_eq!(told(ask(job.session, others).await.unwrap_err()), unknown);
    assert!(ask(job.session, own).await.is_ok());

    job.session = other_session;
    assert_eq!(
        job.plan(graph(1)).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
}

/// A session of another user and its collection of the same graph as `graph(1)`.
fn of_another_user(daemon: &Daemon) -> (u64, u64) {
    let uid = rustix::process::geteuid().as_raw() + 1;
    let peer = Peer { uid, pid: 0 };
    let session = daemon.cache.sessions.open(peer, "theirs".to_owned()).unwrap();
    let graph = Graph::try_from(graph(1)).unwrap();
    let collection = daemon.cache.plan(&session, &graph).unwrap().unwrap();
    (session.id.0, collection.id)
}

#[tokio::test]
async fn a_commit_beyond_staging_is_refused_and_its_lease_passes_on() {
    let daemon = Daemon::start();
    let (first, second) = (daemon.job().await, daemon.job().await);
    let collection = first.plan(graph(1)).await.unwrap();
    let beyond = |bytes: u64| [(0, bytes + 1), (bytes, 1), (u64::MAX, 1), (1, u64::MAX)];
    let bytes = first.stage(4096).await;
    second.stage(4096).await;
    for (n, place) in (0..).zip(beyond(bytes)) {
        let token = first.lease(collection, n).await;
        let refused = first.commit(collection, (n, token), place).await;
        assert_eq!(refused.unwrap_err(), "too-large", "{place:?}");
        let token = second.lease(collection, n).await;
        let committed = second.commit(collection, (n, token), (0, 4096)).await;
        assert_eq!(committed.unwrap().len, 4096);
    }
}

#[tokio::test]
async fn what_is_there_is_located_on_the_data_socket_and_nothing_is_leased_or_waited_for() {
    let daemon = Daemon::start();
    let (job, other) = (daemon.job().await, daemon.job().await);
    let collection = job.plan(graph(1)).await.unwrap();
    let locate = async |collection| {
        let ask = Ask::Locate(job.wanting(collection, 1, Duration::from_secs(60)));
        match job.data.exchange(ask).await.unwrap() {
            (Say::Located(mut located), 0) => Ok(located.answers.remove(0).kind.unwrap()),
            (Say::Failure(failure), 0) => Err(failure.code),
            other => panic!("{other:?}"),
        }
    };
    use v1::answer::Kind;
    assert_eq!(locate(collection).await, Ok(Kind::Free(true)));
    let token = other.lease(collection, 1).await;
    assert_eq!(locate(collection).await, Ok(Kind::Held(true)));
    other.stage(4096).await;
    let at = other.commit(collection, (1, token), (0, 4096)).await.unwrap();
    assert_eq!(locate(collection).await, Ok(Kind::Hit(at)));
    let (_, others) = of_another_user(&daemon);
    assert_eq!(locate(others).await, locate(u64::MAX).await);
}

#[tokio::test]
async fn what_is_leased_on_the_data_socket_is_so_for_all_and_nothing_is_waited_for() {
    use v1::answer::Kind;
    let daemon = Daemon::start();
    let (job, other) = (daemon.job().await, daemon.job().await);
    let collection = job.plan(graph(1)).await.unwrap();
    let acquire = async |job: &client::Job, n| {
        let ask = Ask::Acquire(job.wanting(collection, n, Duration::from_secs(60)));
        match job.data.exchange(ask).await.unwrap() {
            (Say::Located(mut located), 0) => located.answers.remove(0).kind.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let Kind::Granted(token) = acquire(&job, 1).await else {
        panic!("nobody else has it");
    };
    assert_eq!(acquire(&other, 1).await, Kind::Held(true));
    job.stage(4096).await;
    job.commit(collection, (1, token), (0, 4096)).await.unwrap();
    assert!(matches!(acquire(&other, 1).await, Kind::Hit(_)));
}

#[tokio::test]
async fn what_is_granted_in_an_answer_too_long_for_a_packet_is_nobodys() {
    let daemon = Daemon::start();
    let (job, other) = (daemon.job().await, daemon.job().await);
    let collection = job.plan(graph(1)).await.unwrap();
    job.stage(4096).await;
    let token = job.lease(collection, 1).await;
    let mut long = job.committing(collection, (1, token), (0, 1));
    long.elements[0].layout = " ".repeat(200 << 10);
    job.cache().commit(long).await.unwrap();
    let mut both = job.wanting(collection, 1, Duration::ZERO);
    both.wanted
        .extend(job.wanting(collection, 2, Duration::ZERO).wanted);
    assert_eq!(job.data.refusal(Ask::Acquire(both)).await, "too-large");
    other.lease(collection, 2).await;
}

#[tokio::test]
async fn at_most_64_blocks_are_mapped_at_once_and_only_ones_own() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let collection = job.plan(graph(1)).await.unwrap();
    job.stage(BLOCK_BYTES).await;
    let token = job.lease(collection, 1).await;
    let at = job
        .commit(collection, (1, token), (0, BLOCK_BYTES))
        .await
        .unwrap();
    let map = |segment, count| {
        let blocks = (0..count).collect();
        Ask::Map(MapBlocks {
            segment,
            blocks,
            resident: false,
        })
    };
    assert_eq!(job.data.refusal(map(at.segment, 65)).await, "bad-request");
    let mapped = job.data.exchange(map(at.segment, 64)).await.unwrap();
    let (Say::Mapped(mapped), 1) = mapped else {
        panic!("{mapped:?}")
    };
    assert!(mapped.blocks[0] && !mapped.blocks[1..].contains(&true));
    for nobodys in [at.segment + 1, u64::MAX, at.segment + (1 << 32)] {
        let gone = job.data.exchange(map(nobodys, 1)).await.unwrap();
        assert!(matches!(gone, (Say::Mapped(m), 0) if m.blocks == [false]));
    }
}

#[tokio::test]
async fn a_report_has_no_answer_and_one_that_makes_no_sense_ends_nothing() {
    let daemon = Daemon::start();
    let (job, other) = (daemon.job().await, daemon.job().await);
    let collection = job.plan(graph(1)).await.unwrap();
    let report = |collection| {
        Ask::Report(v1::Report {
            collection,
            hits: 3,
            reads: vec![v1::BlockReads {
                segment: u64::MAX,
                ..Default::default()
            }],
            ..Default::default()
        })
    };
    let hits = |id: u64| {
        let all = daemon.cache.sessions.all();
        let session = all.iter().find(|s| s.id == SessionId(id)).unwrap();
        session.counts.hits.load(Ordering::Relaxed)
    };
    job.data.tell(report(collection + 1)).await;
    job.data.tell(report(collection)).await;
    // The next answer is to the next question, and what was told before it was heard.
    let answer = job.data.exchange(Ask::Return(v1::Return::default())).await;
    assert!(matches!(answer, Some((Say::Returned(_), 0))), "{answer:?}");
    assert_eq!((hits(job.session), hits(other.session)), (3, 0));
}

#[tokio::test]
async fn what_is_read_ahead_is_bounded_and_only_ones_own() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let collection = job.plan(graph(1)).await.unwrap();
    job.stage(BLOCK_BYTES).await;
    let token = job.lease(collection, 1).await;
    let at = job.commit(collection, (1, token), (0, 4096)).await.unwrap();
    let read = |number, pieces: &[(u64, u64, u64)], take| {
        let piece = |(segment, start, end): &(u64, u64, u64)| v1::Piece {
            segment: *segment,
            start: *start,
            end: *end,
        };
        let pieces = pieces.iter().map(piece).collect();
        Ask::ReadAhead(v1::ReadAhead {
            loads: vec![v1::Load { pieces }],
            take,
            number,
            ..Default::default()
        })
    };
    let mine = (at.segment, 0, 4096);
    for wrong in [
        (at.segment, 5, 5),
        (at.segment, 0, u64::MAX),
        (at.segment, 1, (1 << 20) + 1),
    ] {
        assert_eq!(job.data.refusal(read(0, &[wrong], None)).await, "bad-request");
    }
    assert_eq!(job.data.refusal(read(0, &[mine; 65], None)).await, "bad-request");
    assert_eq!(job.data.refusal(read(0, &[mine], Some(1))).await, "bad-request");
    // Mine, past the end of mine, and nobody's.
    let past = (at.segment, 16384, 16385);
    let nobodys = (u64::MAX, 0, 1);
    for (number, (piece, there)) in (0..).zip([(mine, true), (past, false), (nobodys, false)]) {
        let declared = job.data.exchange(read(number, &[piece], None)).await.unwrap();
        assert!(matches!(declared, (Say::ReadDone(done), 0) if done.slots == 7 && !done.there));
        let take = Ask::ReadAhead(v1::ReadAhead {
            take: Some(number),
            ring: true,
            ..Default::default()
        });
        let taken = job.data.exchange(take).await.unwrap();
        assert!(
            matches!(taken, (Say::ReadDone(done), 1) if done.there == there),
            "{piece:?}"
        );
    }
    // Out of turn: what came of it would be taken for another load.
    for number in [0, 2, 4] {
        assert_eq!(job.data.refusal(read(number, &[mine], None)).await, "bad-request");
    }
    for number in 3..9 {
        job.data.exchange(read(number, &[mine], None)).await.unwrap();
    }
    assert_eq!(job.data.refusal(read(9, &[mine], None)).await, "bad-request");
    assert!(job.alive().await);
}

#[tokio::test]
async fn a_block_read_over_and_over_is_brought_to_ram_while_nobody_waits_for_it() {
    let daemon = Daemon::start();
    let job = daemon.job().await;
    let collection = job.plan(graph(1)).await.unwrap();
    job.stage(BLOCK_BYTES).await;
    // Twice what there is room for.
    let mut stored = Vec::new();
    for n in 0..20 {
        let token = job.lease(collection, n).await;
        stored.push(
            job.commit(collection, (n, token), (0, BLOCK_BYTES))
                .await
                .unwrap(),
        );
    }
    daemon.cache.sync().unwrap();
    let mut number = 0;
    let mut read = async |at: &v1::Location| {
        let piece = v1::Piece {
            segment: at.segment,
            start: at.offset,
            end: at.offset + SLOT_BYTES,
        };
        let load = v1::Load { pieces: vec![piece] };
        let ask = Ask::ReadAhead(v1::ReadAhead {
            loads: vec![load],
            take: Some(number),
            number,
            ..Default::default()
        });
        number += 1;
        match job.data.exchange(ask).await.unwrap() {
            (Say::ReadDone(done), 0) if done.there => done.bytes_ssd,
            other => panic!("{other:?}"),
        }
    };
    let mut cold = None;
    for at in &stored {
        if read(at).await > 0 {
            cold = Some(at);
        }
    }
    let cold = cold.expect("not all of it fits");
    let mut reads = 0;
    while let bytes @ 1.. = read(cold).await {
        assert_eq!(
            bytes, SLOT_BYTES,
            "what is wanted is not kept waiting for the rest"
        );
        reads += 1;
        assert!(reads < 1000, "it is never brought");
    }
}

#[tokio::test]
async fn leases_pass_on_when_the_connection_closes() {
    let daemon = Daemon::start();
    let (holder, follower) = (daemon.job().await, daemon.job().await);
    let collection = holder.plan(graph(1)).await.unwrap();
    let session = SessionId(holder.session);
    holder.lease(collection, 1).await;
    let held = follower.wanting(collection, 1, Duration::ZERO);
    let held = follower.cache().acquire(held).await.unwrap().into_inner();
    assert_eq!(held.answers[0].kind, Some(v1::answer::Kind::Held(true)));
    // gRPC goes on; the data socket alone is the session.
    let channel = holder.channel.clone();
    let waiting = task::spawn(async move { follower.lease(collection, 1).await });
    drop(holder);
    waiting.await.unwrap();
    assert!(daemon.cache.sessions.all().iter().all(|s| s.id != session));
    drop(channel);
}

#[tokio::test]
async fn another_user_cannot_reach_the_sockets() {
    let daemon = Daemon::start();
    let folder = daemon.folder();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let sockets = ["prebake.sock", "data.sock", "metrics.sock"].map(|name| folder.join(name));
    for socket in &sockets {
        assert!(fs::metadata(socket).unwrap().file_type().is_socket());
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let open_to_all = |path: &PathBuf| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    };
    // Else the folder that the test made keeps everyone out already.
    open_to_all(&daemon.parent().to_owned());
    for socket in &sockets {
        open_to_all(socket);
        let refused = connect_as_stranger(socket.clone()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
    // An administrator opens the folder: they may come in, and still everyone is who the kernel says.
    open_to_all(&folder);
    let mut job = daemon.job().await;
    let collection = job.plan(graph(1)).await.unwrap();
    let stream = connect_as_stranger(sockets[0].clone()).unwrap();
    stream.set_nonblocking(true).unwrap();
    job.channel = channel(tokio::net::UnixStream::from_std(stream).unwrap()).await;
    let request = job.wanting(collection, 1, Duration::ZERO);
    let refused = job.cache().acquire(request).await.unwrap_err();
    let unknown: tonic::Status = daemon
        .cache
        .sessions
        .get(u64::MAX, peer())
        .err()
        .map(Error::into)
        .unwrap();
    assert_eq!(
        (refused.code(), refused.message()),
        (unknown.code(), unknown.message())
    );
}

fn peer() -> Peer {
    Peer { uid: 0, pid: 0 }
}

/// Connects from a thread that has given up its user for another.
pub(crate) fn connect_as_stranger(socket: PathBuf) -> io::Result<UnixStream> {
    let thread = std::thread::spawn(move || {
        let stranger = rustix::process::Uid::from_raw(STRANGER);
        rustix::thread::set_thread_res_uid(stranger, stranger, stranger)?;
        UnixStream::connect(socket)
    });
    thread.join().unwrap()
}

#[tokio::test]
async fn of_who_reads_no_answers_one_is_under_way_and_the_session_ends() {
    let daemon = Daemon::start();
    let (deaf, other) = (daemon.job().await, daemon.job().await);
    for _ in 0..100 {
        // Each is answered with a descriptor.
        let asked = tokio::time::timeout(
            Duration::from_secs(1),
            deaf.data.tell(Ask::Stage(Stage { bytes: 4096 })),
        );
        if asked.await.is_err() {
            // What it asks is not read any more either.
            break;
        }
    }
    other.stage(4096).await;
    let ended = async {
        while daemon.cache.sessions.find(SessionId(deaf.session)).is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended)
        .await
        .expect("its session goes on");
    let mut answers = 0;
    for _ in 0..3 {
        // That the connection was reset may be told first.
        answers += usize::from(deaf.data.receive().await.is_some());
    }
    assert!(answers <= 1, "{answers}");
    other.stage(4096).await;
}

#[tokio::test]
async fn of_a_long_name_a_job_has_the_beginning() {
    let daemon = Daemon::start();
    let data = daemon.data().await;
    let job = "ä".repeat(1000);
    data.exchange(Ask::Hello(v1::Hello { version: 4, job }))
        .await
        .unwrap();
    assert_eq!(daemon.cache.sessions.all()[0].job, "ä".repeat(128));
}
