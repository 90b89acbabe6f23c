//! A folder that is removed under a daemon, and another daemon over the folder that takes its place.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use prebake_daemon::{
    Config, Result,
    server::Server,
    system::task,
    vfs::{OsVfs, Vfs},
};
use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};
use tokio::{sync::oneshot, time::timeout};

/// A daemon looks at its folder twice a second.
const PATIENCE: Duration = Duration::from_secs(20);

const SOCKETS: [&str; 3] = ["prebake.sock", "data.sock", "metrics.sock"];

fn start(dir: &Path) -> Result<Server> {
    Server::start(Config {
        dir: dir.to_owned(),
        ram_bytes: 64 << 20,
        ..Config::default()
    })
}

fn inodes(dir: &Path) -> Vec<u64> {
    let inode = |name: &&str| fs::symlink_metadata(dir.join(name)).map(|found| found.ino());
    SOCKETS.iter().filter_map(|name| inode(name).ok()).collect()
}

#[tokio::test]
async fn a_daemon_whose_folder_is_gone_ends_and_leaves_its_successors_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    let first = start(&dir).unwrap();
    assert!(start(&dir).is_err_and(|e| e.code() == "locked"));
    fs::remove_dir_all(&dir).unwrap();
    let second = start(&dir).unwrap();
    let sockets = inodes(&dir);
    assert_eq!(sockets.len(), SOCKETS.len());
    timeout(PATIENCE, first.run(std::future::pending()))
        .await
        .expect("it goes on")
        .unwrap();
    assert_eq!(inodes(&dir), sockets, "the successor's sockets are gone");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = task::spawn(second.run(async move { drop(stopped.await) }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!running.is_finished(), "a daemon that has its folder goes on");
    drop(stop);
    timeout(PATIENCE, running).await.unwrap().unwrap().unwrap();
    assert!(inodes(&dir).is_empty(), "and takes its own sockets with it");
}

#[test]
fn a_folder_of_segments_that_was_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let segments = folder.path().join("segments");
    OsVfs.create(&segments.join("one")).unwrap();
    assert_eq!(fs::metadata(&segments).unwrap().mode() & 0o777, 0o700);
    // Of what that folder was in, nothing is made.
    assert!(OsVfs.create(&folder.path().join("gone/segments/one")).is_err());
}
