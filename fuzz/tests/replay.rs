//! Every input that is kept is fed to its boundary again.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use prebake_fuzz::TARGETS;
use std::{fs, path::Path};

#[test]
fn no_kept_input_does_what_it_must_not() {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target.name);
        let mut kept: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        kept.sort();
        assert!(!kept.is_empty(), "nothing is kept for {}", target.name);
        for path in kept {
            // The last line that is printed names what fails.
            println!("{}", path.display());
            (target.run)(&fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_segment_that_is_taken_apart_and_put_together_is_read_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/segment");
    let whole = fs::read_dir(folder).unwrap().filter(|entry| {
        let bytes = fs::read(entry.as_ref().unwrap().path()).unwrap();
        prebake_fuzz::rows(&bytes).is_some_and(|rows| rows > 0)
    });
    assert!(whole.count() > 0, "no kept input gets as far as the rows");
}
