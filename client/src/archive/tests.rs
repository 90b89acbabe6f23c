//! Archives written back over what lies there.

use super::{Archive, Part};
use std::fs;

fn layout(part: &str) -> String {
    format!(r#"{{"kind":"run","parts":[[{part},0]],"made":1}}"#)
}

#[test]
fn what_leads_outside_or_runs_as_somebody_is_no_archive() {
    let file = |path: &str, mode: u32| format!(r#"{{"file":{{"output":0,"path":"{path}","mode":{mode}}}}}"#);
    for good in [file("", 0o644), file("a/b", 0o755)] {
        assert!(Archive::decode(&layout(&good), b"").is_ok(), "{good}");
    }
    let outside = ["..", "../a", "a/../../b", "/etc/a", "./../a"].map(|path| file(path, 0o644));
    let modes = [0o4755, 0o2755, 0o1644, 0o100_644].map(|mode| file("a", mode));
    let others = [
        r#"{"folder":{"output":0,"path":"../a","mode":493}}"#,
        r#"{"link":{"output":0,"path":"/a","target":"b"}}"#,
    ];
    for bad in outside.iter().chain(&modes).map(String::as_str).chain(others) {
        assert!(Archive::decode(&layout(bad), b"").is_err(), "{bad}");
    }
}

#[test]
fn nothing_is_written_through_a_link_in_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, out.join("link")).unwrap();
    let file = |path: &str| Part::File {
        output: 0,
        path: path.into(),
        mode: 0o600,
    };
    let restore = |part: Part| {
        let parts = vec![(part, b"new".to_vec())];
        Archive { made: 1, parts }.restore(std::slice::from_ref(&out))
    };
    assert!(restore(file("link/file")).is_err());
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
    // In place of a link itself, and where folders are missing, a file is written.
    restore(file("link")).unwrap();
    restore(file("new/folder/file")).unwrap();
    assert_eq!(fs::read(out.join("link")).unwrap(), b"new");
    assert_eq!(fs::read(out.join("new/folder/file")).unwrap(), b"new");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn what_cannot_be_written_back_whole_is_not_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let outputs = std::slice::from_ref(&out);
    let file = |path: &str| Part::File {
        output: 0,
        path: path.into(),
        mode: 0o600,
    };
    let inside = |path: &str| Part::Folder {
        output: 0,
        path: path.into(),
        mode: 0o700,
    };
    let parts = [inside(""), inside("a"), file("a/one"), file("a/one/two")];
    let parts = parts.into_iter().map(|part| (part, b"new".to_vec())).collect();
    let archive = Archive { made: 1, parts };
    assert!(archive.restore(outputs).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // An earlier run's are the user's: nothing of them is lost.
    fs::create_dir_all(out.join("a")).unwrap();
    fs::write(out.join("a/one"), b"old").unwrap();
    assert!(archive.restore(outputs).is_err());
    assert!(out.join("a/one").exists());
}

#[test]
fn what_an_output_holds_is_known_by_kind_and_never_removed_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), b"mine").unwrap();
    std::os::unix::fs::symlink(&outside, out.join("link")).unwrap();
    let outputs = std::slice::from_ref(&out);
    let below = |path: &str| {
        (
            Part::File {
                output: 0,
                path: path.into(),
                mode: 0o600,
            },
            Vec::new(),
        )
    };
    let link = Part::Link {
        output: 0,
        path: "link".into(),
        target: outside.to_str().unwrap().into(),
    };
    let parts = vec![below("link/file"), (link, Vec::new())];
    let archive = Archive { made: 1, parts };
    assert!(archive.covers(outputs));
    assert!(archive.remove(outputs).is_err());
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
    let parts = vec![below("link")];
    assert!(!Archive { made: 1, parts }.covers(outputs));
}
