//! Input fingerprints.
#![allow(missing_docs)]

use prebake_fingerprint::{Digest, digest::Context, input};
use std::io::{self, Read};

/// Yields one byte at a time, interrupted before each.
struct Slow<'a>(&'a [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.0.read(&mut buffer[..1])
    }
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("broken"))
    }
}

fn digest(text: &str) -> Digest {
    Context::Content.digest(text.as_bytes())
}

#[test]
fn content_does_not_depend_on_how_it_is_read() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let whole = Context::Content.digest(&bytes);
    assert_eq!(input::content(&bytes[..]).unwrap(), whole);
    assert_eq!(input::content(Slow(&bytes, false)).unwrap(), whole);
    assert_eq!(input::content(io::empty()).unwrap(), digest(""));
    assert_eq!(input::content(Broken).unwrap_err().to_string(), "broken");
}

#[test]
fn an_item_is_its_name_and_content() {
    let item = input::item(Some(b"a/1.jpg"), &digest("x"));
    assert_eq!(item, input::item(Some(b"a/1.jpg"), &digest("x")));
    let others = [
        input::item(Some(b"a/2.jpg"), &digest("x")),
        input::item(Some(b"a/1.jpg"), &digest("y")),
        input::item(Some(b"\xff"), &digest("x")),
        input::item(Some(b""), &digest("x")),
        input::item(None, &digest("x")),
    ];
    assert!(others.iter().all(|other| *other != item));
    assert_ne!(others[3], others[4]);
}

#[test]
fn a_directory_has_no_order_and_a_partition_has() {
    let files = [
        (&b"a"[..], digest("x")),
        (b"b", digest("y")),
        (b"\xff\xfe", digest("z")),
    ];
    let root = input::directory(files);
    assert_eq!(root, input::directory(files.into_iter().rev()));
    assert_ne!(root, input::directory(files[..2].iter().copied()));
    assert_ne!(
        root,
        input::directory([(&b"a"[..], digest("y")), (b"b", digest("x")), files[2]])
    );
    // One file whose name spells out two.
    let spelled = [b"a", &digest("x").0[..], b"b"].concat();
    assert_ne!(
        input::directory([(spelled, digest("y"))]),
        input::directory([("a", digest("x")), ("b", digest("y"))])
    );
    let run = [digest("x"), digest("y")];
    assert_ne!(input::partition(run), input::partition(run.into_iter().rev()));
    assert_ne!(input::partition([]), input::directory::<&[u8]>([]));
}

#[test]
fn a_call_is_its_arguments_and_files() {
    let call = input::arguments(&digest("x"), &digest("y"));
    assert_ne!(call, input::arguments(&digest("y"), &digest("x")));
    assert_ne!(call, input::arguments(&digest("x"), &digest("x")));
}
