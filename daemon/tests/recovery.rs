//! A restart takes in what is whole, removes what is not, and needs no index for it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use prebake_daemon::{
    Config,
    cache::{
        Cache,
        commit::{Committed, Element},
    },
    collection::{Answer, Item, Request, lease::Token},
    index::Space,
    memory::BLOCK_BYTES,
    segment::Cost,
    server::Server,
    session::{Peer, Session},
};
use prebake_fingerprint::{Digest, Graph};
use prebake_proto::v1::{self, world_request::Found, world_response::Standing};
use std::{fs, path::Path, sync::Arc, time::Duration};

const ME: Peer = Peer { uid: 1, pid: 0 };

fn start(dir: &Path) -> Server {
    Server::start(Config {
        dir: dir.into(),
        ram_bytes: 256 << 20,
        ssd_bytes: 1 << 30,
        ..Config::default()
    })
    .unwrap()
}

fn graph() -> Graph {
    let json = r#"{"version":1,"output":"b","operators":[
        {"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}},
        {"id":"b","name":"decode","inputs":[{"operator":"a"}],"determinism":{"deterministic":true}}]}"#;
    Graph::try_from(serde_json::from_str::<v1::Graph>(json).unwrap()).unwrap()
}

fn item(n: u64) -> Item {
    Item {
        fingerprint: Digest(*blake3::hash(&n.to_le_bytes()).as_bytes()),
        name: format!("f{n}"),
    }
}

fn ask(cache: &Arc<Cache>, session: &Session, items: &[Item]) -> Vec<Answer> {
    let collection = cache.plan(session, &graph()).unwrap().unwrap();
    let request = Request {
        session: session.id,
        wanted: items,
        ahead: &[],
        leases_max: items.len(),
        lease: Duration::from_secs(60),
        items: 0,
    };
    collection.acquire(&request, &*cache.clock).answers
}

/// Computes and commits items 0..n, each 1 MiB of zeros.
fn fill(cache: &Arc<Cache>, session: &Session, n: u64) {
    let items: Vec<_> = (0..n).map(item).collect();
    let collection = cache.plan(session, &graph()).unwrap().unwrap();
    let staging = session.stage(1 << 20, &cache.ram).unwrap();
    for (item, answer) in items.iter().zip(ask(cache, session, &items)) {
        let Answer::Granted(token) = answer else {
            panic!("{answer:?}")
        };
        let element = element(item, token);
        let committed = cache.commit(session, &collection, &*staging, vec![element]);
        assert!(matches!(committed[0], Committed::At(_)));
    }
}

fn element(item: &Item, token: Token) -> Element {
    let cost = Cost {
        cpu_ns: 1_000_000,
        io_ns: 0,
    };
    Element {
        item: item.clone(),
        token,
        layout: "{}".into(),
        offset: 0,
        len: 1 << 20,
        cost,
    }
}

fn hits(cache: &Arc<Cache>, session: &Session, n: u64) -> usize {
    let items: Vec<_> = (0..n).map(item).collect();
    ask(cache, session, &items)
        .iter()
        .filter(|a| matches!(a, Answer::Hit(_)))
        .count()
}

#[tokio::test]
async fn durable_entries_survive_with_the_index_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    fill(server.cache(), &session, 6);
    server.cache().sync().unwrap();
    drop((server, session));

    for without_index in [false, true] {
        if without_index {
            fs::remove_dir_all(dir.path().join("index-v2")).unwrap();
        }
        let server = start(dir.path());
        let session = server.cache().sessions.open(ME, "t".into()).unwrap();
        assert_eq!(
            hits(server.cache(), &session, 6),
            6,
            "without index: {without_index}"
        );
        let known = server.cache().index.scan(Space::Segments).unwrap();
        assert_eq!(known.len(), 1, "the next start need not read the footer");
        let other = server
            .cache()
            .sessions
            .open(Peer { uid: 2, pid: 0 }, "t".into())
            .unwrap();
        assert_eq!(
            hits(server.cache(), &other, 6),
            0,
            "another user sees nothing of it"
        );
    }
}

#[tokio::test]
async fn unfinished_and_damaged_files_are_removed_and_computed_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    fill(server.cache(), &session, 3);
    server.cache().sync().unwrap();
    drop((server, session));

    let segments = dir.path().join("segments");
    let whole = fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&whole).unwrap();
    fs::write(segments.join("aa-00000077.arrow"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(segments.join("aa-00000078.arrow.tmp"), &bytes).unwrap();
    let server = start(dir.path());
    let names: Vec<_> = fs::read_dir(&segments)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(names, std::slice::from_ref(&whole));
    drop(server);

    // The rows, not just the footer, are checked: here a fingerprint is damaged.
    let mut bytes = bytes;
    let at = bytes
        .windows(32)
        .position(|w| w == item(1).fingerprint.0)
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&whole, bytes).unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert_eq!(hits(server.cache(), &session, 3), 0);
    assert!(!whole.exists());
}

#[tokio::test]
async fn a_segment_under_another_name_or_cut_short_is_none_whatever_the_index_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    fill(server.cache(), &session, 3);
    server.cache().sync().unwrap();
    drop((server, session));
    // The index knows it from now on.
    drop(start(dir.path()));

    let segments = dir.path().join("segments");
    let whole = fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
    let label = whole
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .rsplit_once('-')
        .unwrap()
        .0;
    let copy = segments.join(format!("{label}-{}.arrow", "0123456789abcdef".repeat(2)));
    fs::copy(&whole, &copy).unwrap();
    let server = start(dir.path());
    assert!(whole.exists() && !copy.exists());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert_eq!(server.cache().ssd.all().len(), 1);
    assert_eq!(hits(server.cache(), &session, 3), 3);
    drop((server, session));

    let bytes = fs::read(&whole).unwrap();
    fs::write(&whole, &bytes[..bytes.len() / 2]).unwrap();
    let server = start(dir.path());
    assert!(!whole.exists(), "it takes room that nothing is in");
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert_eq!(hits(server.cache(), &session, 3), 0);
}

#[tokio::test]
async fn what_is_known_of_files_is_known_to_their_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let cache = server.cache();
    let [mine, others] = [1, 2].map(|uid| cache.sessions.open(Peer { uid, pid: 0 }, "t".into()).unwrap());
    let (stat, digest) = ([7; 40], item(1).fingerprint);
    cache.memorize(&mine, vec![(stat, digest)]);
    assert_eq!(cache.recall(&mine, &[stat]), [Some(digest)]);
    assert_eq!(cache.recall(&others, &[stat]), [None]);
    cache.memorize(&others, vec![(stat, item(2).fingerprint)]);
    assert_eq!(cache.recall(&mine, &[stat]), [Some(digest)]);
}

/// Where a world stands.
fn stand(cache: &Cache, session: &Session, world: u8, found: Option<Found>) -> Standing {
    let collection = cache.plan(session, &graph()).unwrap().unwrap();
    let ask = v1::WorldRequest {
        collection: collection.id,
        world: vec![world; 32].into(),
        begins: true,
        found,
        description: vec![world].into(),
        part: false,
    };
    prebake_daemon::cache::standing::stand(cache, session, ask)
        .unwrap()
        .standing
        .unwrap()
}

#[tokio::test]
async fn the_first_world_is_that_of_the_segments_with_the_index_and_without() {
    const MADE: u8 = 1;
    const OTHER: u8 = 2;
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert!(matches!(
        stand(server.cache(), &session, MADE, None),
        Standing::Proven(_)
    ));
    fill(server.cache(), &session, 3);
    server.cache().sync().unwrap();
    drop((server, session));
    let index = dir.path().join("index-v2");
    let kept = dir.path().join("segments");
    let aside = dir.path().join("aside");

    // Of other elements of the same pipeline, in another world.
    fs::remove_dir_all(&index).unwrap();
    fs::rename(&kept, &aside).unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert!(matches!(
        stand(server.cache(), &session, OTHER, None),
        Standing::Proven(_)
    ));
    fill(server.cache(), &session, 2);
    server.cache().sync().unwrap();
    drop((server, session));
    fs::remove_dir_all(&kept).unwrap();
    fs::rename(&aside, &kept).unwrap();

    for without_index in [false, true] {
        if without_index {
            fs::remove_dir_all(&index).unwrap();
        }
        let server = start(dir.path());
        let session = server.cache().sessions.open(ME, "t".into()).unwrap();
        assert!(
            matches!(
                stand(server.cache(), &session, OTHER, None),
                Standing::Unproven(_)
            ),
            "without index: {without_index}"
        );
        assert!(matches!(
            stand(server.cache(), &session, MADE, None),
            Standing::Proven(_)
        ));
    }
}

#[tokio::test]
async fn that_a_world_differs_is_durable_before_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    stand(server.cache(), &session, 1, None);
    fill(server.cache(), &session, 3);
    server.cache().sync().unwrap();
    let variant = v1::Variant {
        key: vec![9; 32].into(),
        why: "a setting".into(),
    };
    stand(server.cache(), &session, 2, Some(Found::Differs(variant)));
    // As the disk is now: the daemon has no time to do anything more.
    let after = tempfile::tempdir().unwrap();
    copy_folder(dir.path(), after.path());
    drop((server, session));
    let server = start(after.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert!(matches!(
        stand(server.cache(), &session, 2, None),
        Standing::Variant(_)
    ));
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

#[tokio::test]
async fn an_index_that_takes_another_users_file_for_mine_opens_nothing() {
    let [theirs, mine] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut files = Vec::new();
    for (dir, uid) in [(&theirs, 2), (&mine, 1)] {
        let server = start(dir.path());
        let session = server
            .cache()
            .sessions
            .open(Peer { uid, pid: 0 }, "t".into())
            .unwrap();
        fill(server.cache(), &session, 1);
        server.cache().sync().unwrap();
        files.push(
            fs::read_dir(dir.path().join("segments"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path(),
        );
    }
    fs::copy(&files[0], &files[1]).unwrap();
    let server = start(mine.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    assert_eq!(hits(server.cache(), &session, 1), 0);
}

#[tokio::test]
async fn a_segment_that_cannot_be_opened_now_is_there_later() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    fill(server.cache(), &session, 2);
    server.cache().sync().unwrap();
    drop((server, session));
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    let file = fs::read_dir(dir.path().join("segments"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let aside = dir.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    assert_eq!(hits(server.cache(), &session, 2), 0);
    fs::rename(&aside, &file).unwrap();
    assert_eq!(hits(server.cache(), &session, 2), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_waits_for_full_segments_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    let cache = Arc::clone(server.cache());
    tokio::task::spawn_blocking(move || {
        fill(&cache, &session, 70);
        cache.sync().unwrap();
        assert!(cache.ssd.all().iter().all(|s| s.is_durable()));
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_was_saved_is_remembered_across_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let session = server.cache().sessions.open(ME, "t".into()).unwrap();
    fill(server.cache(), &session, 2);
    let collection = server.cache().plan(&session, &graph()).unwrap().unwrap();
    server.cache().served(&session, &collection, 5, 0, 0);
    let saved = server.cache().metrics.cpu_saved.get();
    assert!(saved > 0.0);
    server.cache().sync().unwrap();
    drop((server, session));
    assert!((start(dir.path()).cache().metrics.cpu_saved.get() - saved).abs() < 1e-9);
}

#[tokio::test]
async fn a_commit_under_a_lost_lease_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let cache = server.cache();
    let first = cache.sessions.open(ME, "first".into()).unwrap();
    let second = cache.sessions.open(ME, "second".into()).unwrap();
    let collection = cache.plan(&first, &graph()).unwrap().unwrap();
    let Answer::Granted(token) = ask(cache, &first, &[item(1)])[0] else {
        panic!()
    };
    assert_eq!(ask(cache, &second, &[item(1)])[0], Answer::Held);
    cache.end_session(first.id);
    let Answer::Granted(takeover) = ask(cache, &second, &[item(1)])[0] else {
        panic!()
    };
    let staging = first.stage(1 << 20, &cache.ram).unwrap();
    let late = cache.commit(&first, &collection, &*staging, vec![element(&item(1), token)]);
    assert!(matches!(late[0], Committed::Refused("stale-lease")));
    let staging = second.stage(1 << 20, &cache.ram).unwrap();
    let good = cache.commit(&second, &collection, &*staging, vec![element(&item(1), takeover)]);
    assert!(matches!(good[0], Committed::At(_)));
}

#[tokio::test]
async fn collections_that_pause_give_their_memory_to_who_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Config {
        dir: dir.path().into(),
        ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
        ssd_bytes: 1 << 30,
        // They pause for longer than the test takes.
        segment_idle_ms: 600_000,
        ..Config::default()
    })
    .unwrap();
    let cache = server.cache();
    let session = cache.sessions.open(ME, "t".into()).unwrap();
    let staging = session.stage(1 << 20, &cache.ram).unwrap();
    // Each opens a segment, and so holds a block: more than the budget has.
    for n in 0..2 * prebake_daemon::config::RAM_BYTES_MIN / BLOCK_BYTES {
        let mut graph = v1::Graph::from(&graph());
        graph.operators[1].name = format!("decode{n}");
        let graph = Graph::try_from(graph).unwrap();
        let collection = cache.plan(&session, &graph).unwrap().unwrap();
        let request = Request {
            session: session.id,
            wanted: &[item(n)],
            ahead: &[],
            leases_max: 1,
            lease: Duration::from_secs(60),
            items: 0,
        };
        let Answer::Granted(token) = collection.acquire(&request, &*cache.clock).answers[0] else {
            panic!("no lease")
        };
        let committed = cache.commit(&session, &collection, &*staging, vec![element(&item(n), token)]);
        assert!(matches!(committed[0], Committed::At(_)), "collection {n}");
    }
}

#[tokio::test]
async fn a_second_daemon_and_an_unusable_folder_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let _server = start(dir.path());
    let config = |dir: &Path| Config {
        dir: dir.into(),
        ram_bytes: 64 << 20,
        ..Config::default()
    };
    let code = |dir: &Path| Server::start(config(dir)).err().unwrap().code();
    assert_eq!(code(dir.path()), "locked");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(code(&file.join("below")), "folder");
    assert_eq!(code(Path::new(&"/tmp/".repeat(30))), "socket-path-too-long");
}
