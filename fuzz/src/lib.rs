//! What others can send to Prebake, as functions of bytes.
//!
//! A function of [`TARGETS`] feeds bytes to one boundary and asserts what must hold whatever they are. libFuzzer
//! draws the bytes, led by coverage (`make fuzz-rust`); those that reached something new are kept in `corpus/`
//! and fed again by the tests of every build.

mod archive;
mod config;
mod daemon;
mod flight;
mod graph;
mod memory_disk;
mod memory_file;
mod packets;
mod parts;
mod reads;
mod requests;
mod segment;
mod start;
mod values;

/// A boundary that is fuzzed.
pub struct Target {
    /// As its folder in `corpus/` is called, and its fuzzer.
    pub name: &'static str,
    /// Feeds bytes to it. Panics if it does what it must not.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "graph",
        run: graph::run,
    },
    Target {
        name: "segment",
        run: segment::run,
    },
    Target {
        name: "values",
        run: values::run,
    },
    Target {
        name: "start",
        run: start::run,
    },
    Target {
        name: "packets",
        run: packets::run,
    },
    Target {
        name: "requests",
        run: requests::run,
    },
    Target {
        name: "flight",
        run: flight::run,
    },
    Target {
        name: "archive",
        run: archive::run,
    },
    Target {
        name: "reads",
        run: reads::run,
    },
    Target {
        name: "config",
        run: config::run,
    },
];

/// Feeds bytes to the boundary of this name.
///
/// # Panics
/// If there is none, or if it does what it must not.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    match target {
        Some(target) => (target.run)(bytes),
        None => panic!("there is no boundary {name}"),
    }
}

/// How many rows the segment has that bytes for the boundary of this name make; None if it cannot be read.
pub fn rows(bytes: &[u8]) -> Option<u64> {
    segment::rows(bytes)
}

/// A segment's file as bytes for the boundary of this name; `name` is its own. None if it is none.
pub fn take_apart(file: &[u8], name: &str) -> Option<Vec<u8>> {
    segment::take_apart(file, name)
}

/// Appends a part, as the boundaries that take several read it.
pub fn push(into: &mut Vec<u8>, part: &[u8]) {
    parts::Parts::push(into, part);
}
