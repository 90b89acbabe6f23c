//! A folder, or a file in it, that somebody else owns or may write to, is not used; nor is one of a later version.
#![allow(clippy::unwrap_used, missing_docs)]

use prebake_daemon::{Config, server::Server, vfs::folder};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, lchown, symlink},
    path::{Path, PathBuf},
};

/// Nobody, on every Linux.
const STRANGER: u32 = 65_534;

fn start(dir: &Path) -> Result<Server, &'static str> {
    let config = Config {
        dir: dir.into(),
        ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
        metrics_address: Some("127.0.0.1:0".parse().unwrap()),
        ..Config::default()
    };
    Server::start(config).map_err(|error| error.code())
}

fn refusal(dir: &Path) -> &'static str {
    start(dir).err().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Only root may give files away; the tests of a container run as root.
fn may_give_away() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whatever lies below a folder: path, mode and content.
fn all_below(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(all_below(&path));
        } else if path.is_file() {
            all.push((path.clone(), mode(&path), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_refused_once_something_is_in_it() {
    for bits in [0o777, 0o770, 0o720, 0o702] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("cache");
        fs::create_dir(&dir).unwrap();
        set_mode(&dir, bits);
        drop(start(&dir).unwrap());
        assert_eq!(mode(&dir), 0o700, "nobody put anything there before");
        set_mode(&dir, bits);
        let before = all_below(&dir);
        assert_eq!(refusal(&dir), "not-ours", "{bits:o}");
        assert_eq!(
            (all_below(&dir), mode(&dir)),
            (before, bits),
            "it was left as it was"
        );
        set_mode(&dir, 0o700);
        set_mode(&dir.join("segments"), bits);
        fs::write(dir.join("segments/planted-00.arrow"), "").unwrap();
        assert_eq!(refusal(&dir), "not-ours", "segments: {bits:o}");
    }
}

#[tokio::test]
async fn a_folder_that_others_may_read_is_closed_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    drop(start(&dir).unwrap());
    set_mode(&dir, 0o755);
    drop(start(&dir).unwrap());
    assert_eq!(mode(&dir), 0o700);
}

#[tokio::test]
async fn what_belongs_to_another_user_is_refused_wherever_it_stands() {
    if !may_give_away() {
        eprintln!("not run: only root may give files away");
        return;
    }
    for name in ["", "segments", "format", "quarantine.json", "metrics.token"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("cache");
        drop(start(&dir).unwrap());
        let path = dir.join(name);
        if !path.exists() {
            fs::write(&path, "").unwrap();
            set_mode(&path, 0o600);
        }
        chown(&path, Some(STRANGER), None).unwrap();
        assert_eq!(refusal(&dir), "not-ours", "{name:?}");
    }
    // What can be had again is begun anew instead.
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    drop(start(&dir).unwrap());
    let index = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("index-v"))
        .unwrap();
    let planted = index.join("planted");
    fs::write(&planted, "").unwrap();
    chown(&planted, Some(STRANGER), None).unwrap();
    let server = start(&dir).unwrap();
    assert!(
        server
            .cache()
            .warnings
            .iter()
            .any(|w| w.contains("belongs to user 65534"))
    );
    assert!(!planted.exists());
}

#[tokio::test]
async fn a_link_is_followed_only_where_this_user_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    drop(start(&real).unwrap());
    symlink(&real, &link).unwrap();
    drop(start(&link).unwrap());
    if may_give_away() {
        lchown(&link, Some(STRANGER), None).unwrap();
        assert_eq!(refusal(&link), "not-ours");
    }
    // In the folder there are none.
    for name in ["lock", "format", "segments", "quarantine.json"] {
        let path = real.join(name);
        let aside = folder.path().join(name);
        if path.exists() {
            fs::rename(&path, &aside).unwrap();
        } else {
            // A list that would be believed.
            fs::write(&aside, "[]").unwrap();
            set_mode(&aside, 0o600);
        }
        symlink(&aside, &path).unwrap();
        assert!(start(&real).is_err(), "{name}");
        fs::remove_file(&path).unwrap();
        if name != "quarantine.json" {
            fs::rename(&aside, &path).unwrap();
        }
    }
    drop(start(&real).unwrap());
}

#[tokio::test]
async fn a_folder_of_a_later_version_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    drop(start(&dir).unwrap());
    fs::write(dir.join("segments/of-a-later-version.arrows"), "as it is").unwrap();
    for later in [folder::FORMAT + 1, u32::MAX] {
        fs::write(dir.join("format"), folder::line(later)).unwrap();
        let before = all_below(&dir);
        assert_eq!(refusal(&dir), "newer", "{later}");
        assert_eq!(all_below(&dir), before);
    }
}

#[tokio::test]
async fn a_format_that_is_damaged_is_written_anew_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    drop(start(&dir).unwrap());
    let whole = folder::line(folder::FORMAT).into_bytes();
    let flipped = (0..8 * whole.len()).map(|bit| {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    // Each start takes a while: of bits, those of the number, and some of its digest.
    let flipped = flipped.enumerate().filter(|(bit, _)| *bit < 16 || bit % 61 == 0);
    let cut = (0..whole.len()).step_by(9).map(|len| whole[..len].to_vec());
    for damaged in flipped.map(|(_, flipped)| flipped).chain(cut) {
        fs::write(dir.join("format"), &damaged).unwrap();
        drop(start(&dir).unwrap_or_else(|e| panic!("{damaged:?}: {e}")));
        assert_eq!(fs::read(dir.join("format")).unwrap(), whole);
    }
}

#[tokio::test]
async fn a_pipe_in_place_of_a_file_keeps_nobody_waiting() {
    for name in ["format", "quarantine.json", "metrics.token"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("cache");
        drop(start(&dir).unwrap());
        let path = dir.join(name);
        let _ = fs::remove_file(&path);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(refusal(&dir), "not-ours", "{name}");
    }
}

#[tokio::test]
async fn an_index_that_is_a_file_of_another_name_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, mine) = (folder.path().join("cache"), folder.path().join("mine"));
    drop(start(&dir).unwrap());
    let db = dir.join("index-v2").join("db");
    fs::copy(&db, &mine).unwrap();
    let before = fs::read(&mine).unwrap();
    fs::remove_file(&db).unwrap();
    fs::hard_link(&mine, &db).unwrap();
    let server = start(&dir).unwrap();
    let warnings = &server.cache().warnings;
    assert!(warnings.iter().any(|w| w.contains("other names")), "{warnings:?}");
    drop(server);
    assert_eq!(fs::read(&mine).unwrap(), before);
}
