//! What `prebake run` puts back: nothing outside the outputs, whatever is stored.

use crate::parts::Parts;
use prebake_client::archive::Archive;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A layout and the bytes of its parts. They are written beside a file and a folder that must stay as they are.
pub fn run(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let layout = parts.next().unwrap_or_default();
    let Ok(layout) = std::str::from_utf8(layout) else {
        return;
    };
    let Ok(archive) = Archive::decode(layout, parts.0) else {
        return;
    };
    let Ok(place) = tempfile::tempdir() else {
        return;
    };
    let place = place.path();
    let outside = place.join("outside");
    let outputs: Vec<PathBuf> = ["one", "two"].map(|name| place.join("within").join(name)).into();
    if fs::create_dir_all(&outside).is_err() || fs::write(outside.join("file"), "as it was").is_err() {
        return;
    }
    let before = names(place, &["within"]);
    // A link that somebody left where an output will be.
    if bytes.len().is_multiple_of(2) && fs::create_dir_all(&outputs[1]).is_ok() {
        let _ = std::os::unix::fs::symlink(&outside, outputs[1].join("link"));
    }
    let _ = archive.restore(&outputs);
    assert_eq!(
        names(place, &["within"]),
        before,
        "something was written outside the outputs"
    );
    let kept = fs::read(outside.join("file")).unwrap_or_default();
    assert_eq!(kept, b"as it was", "a file outside the outputs was written");
}

/// All names below a folder but these.
fn names(folder: &Path, but: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| !but.iter().any(|name| entry.file_name() == *name)) {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names(&entry.path(), &[]));
        }
    }
    found.sort();
    found
}
