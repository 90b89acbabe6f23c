//! Folders that earlier versions wrote are read, or ignored without a word that is wrong.
#![allow(clippy::unwrap_used, missing_docs)]

use prebake_daemon::{
    Config, segment,
    server::Server,
    vfs::{OsVfs, Vfs, folder},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A folder of each format, as a daemon of that time left it.
fn golden(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/formats")
        .join(format.to_string())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => {
                fs::write(&to, fs::read(entry.path()).unwrap()).unwrap();
                // In a checkout it is what a mask makes it.
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
    }
}

fn start(dir: &Path) -> Server {
    Server::start(Config {
        dir: dir.into(),
        ram_bytes: prebake_daemon::config::RAM_BYTES_MIN,
        ..Config::default()
    })
    .unwrap()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("segments")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn segments_without_names_and_seals_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    copy(&golden(1), &dir);
    fs::create_dir(dir.join("index-v1")).unwrap();
    let old = segments(&dir);
    assert_eq!(old.len(), 2, "plain and compressed values");
    for path in &old {
        // Under a name of today they are none either.
        let name = segment::SegmentName::parse(&"ab".repeat(16)).unwrap();
        assert!(segment::footer(&*OsVfs.open(path).unwrap(), name).is_err());
        fs::copy(path, dir.join("segments").join(name.file_name("00"))).unwrap();
        let server = start(&dir);
        assert!(server.cache().ssd.all().is_empty());
        drop(server);
        assert!(segments(&dir).is_empty());
        copy(&golden(1), &dir);
    }
    assert!(!dir.join("index-v1").exists());
    assert_eq!(
        fs::read_to_string(dir.join("format")).unwrap(),
        folder::line(folder::FORMAT)
    );
}

/// What the pipelines of the golden folders yield: digests of the texts "0" to "3", and 3,000 numbers from each of them on.
fn expected() -> [Vec<u8>; 2] {
    let plain = [
        "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",
        "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
        "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35",
        "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce",
    ];
    let plain = plain.concat();
    let plain = (0..plain.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&plain[i..i + 2], 16).unwrap());
    let wide = (0..4i64).flat_map(|from| (from..from + 3000).flat_map(i64::to_le_bytes));
    [plain.collect(), wide.collect()]
}

#[tokio::test]
async fn the_format_of_today_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    copy(&golden(folder::FORMAT), &dir);
    let server = start(&dir);
    let cache = server.cache();
    let mut found: Vec<_> = cache
        .ssd
        .all()
        .iter()
        .map(|segment| {
            assert_eq!(segment.with_rows(segment::Table::len).unwrap(), 4);
            let (block, _) = segment.block(0, &*cache.ram).unwrap();
            let mut bytes = vec![0; segment.summary().value_len as usize];
            block.read(0, &mut bytes).unwrap();
            bytes
        })
        .collect();
    found.sort_by_key(Vec::len);
    assert!(found == expected());
}
