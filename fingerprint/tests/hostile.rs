//! Graphs and bytes that must be refused, or must not cost more than their size.
mod common;

use common::{graph, input, op, refused, source, with};
use prebake_fingerprint::{Error, Graph, Operator, Value, digest::Context, limits};
use std::collections::BTreeMap;

fn chain(length: usize) -> Vec<Operator> {
    let mut operators = vec![source("0")];
    operators.extend((1..length).map(|i| op(&i.to_string(), "step", &[&(i - 1).to_string()])));
    operators
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(Value::Int(1), |value, i| match i % 2 {
        0 => Value::List(vec![value]),
        _ => Value::Map(BTreeMap::from([("k".into(), value)])),
    })
}

#[test]
fn cycles_are_refused() {
    assert_eq!(refused(vec![op("a", "x", &["a"])], "a"), "cycle");
    assert_eq!(
        refused(
            vec![op("a", "x", &["b"]), op("b", "x", &["c"]), op("c", "x", &["a"])],
            "a"
        ),
        "cycle"
    );
    // Even where the output does not need them, and by order edges alone.
    let mut late = op("late", "x", &[]);
    late.after = vec!["later".into()];
    assert_eq!(
        refused(vec![source("src"), late, op("later", "x", &["late"])], "src"),
        "cycle"
    );
    // A long one.
    let mut long = chain(60_000);
    long[0].source = None;
    long[0].inputs = vec![input("59999", 0)];
    assert_eq!(refused(long, "59999"), "cycle");
}

#[test]
fn a_cycle_is_named() {
    let error = Graph::new(vec![op("bat", "x", &["dec"]), op("dec", "x", &["bat"])], "bat").unwrap_err();
    assert_eq!(
        error,
        Error::Cycle {
            operator: "dec".into(),
            upstream: "bat".into()
        }
    );
}

#[test]
fn broken_references_are_refused() {
    assert_eq!(refused(vec![op("a", "x", &["b"])], "a"), "unknown-operator");
    let mut after = op("a", "x", &[]);
    after.after = vec!["b".into()];
    assert_eq!(refused(vec![after], "a"), "unknown-operator");
    assert_eq!(refused(vec![source("a"), source("a")], "a"), "duplicate-id");
    assert_eq!(refused(vec![source("a")], "b"), "missing-output");
    assert_eq!(refused(vec![], ""), "missing-output");
    let mut both = source("b");
    both.inputs = vec![input("a", 0)];
    assert_eq!(refused(vec![source("a"), both], "b"), "source-with-inputs");
    assert_eq!(refused(vec![op("", "x", &[])], ""), "empty-name");
    assert_eq!(refused(vec![op("a", "", &[])], "a"), "empty-name");
}

#[test]
fn sizes_are_bounded() {
    assert_eq!(refused(chain(1_000_000), "0"), "too-many-operators");
    assert_eq!(
        refused(chain(limits::OPERATORS_MAX + 1), "0"),
        "too-many-operators"
    );
    let mut wide = op("z", "zip", &[]);
    wide.inputs = vec![input("s", 0); limits::EDGES_MAX];
    graph(vec![source("s"), wide.clone()], "z");
    wide.after = vec!["s".into()];
    assert_eq!(refused(vec![source("s"), wide], "z"), "too-many-edges");
    let long = "x".repeat(limits::TEXT_BYTES_MAX + 1);
    assert_eq!(refused(vec![op(&long, "x", &[])], &long), "text-too-long");
    assert_eq!(
        refused(vec![with(op("a", "x", &[]), &long, Value::Null)], "a"),
        "text-too-long"
    );
    let large = Value::Bytes(vec![0; limits::GRAPH_BYTES_MAX]);
    assert_eq!(
        refused(vec![with(op("a", "x", &[]), "p", large)], "a"),
        "too-many-bytes"
    );
    let many = Value::List(vec![Value::Null; limits::GRAPH_BYTES_MAX / limits::VALUE_BYTES]);
    assert_eq!(
        refused(vec![with(op("a", "x", &[]), "p", many)], "a"),
        "too-many-bytes"
    );
}

#[test]
fn depth_is_bounded() {
    let deep = |depth| vec![with(op("a", "x", &[]), "p", nested(depth))];
    let deepest = graph(deep(limits::VALUE_DEPTH_MAX), "a");
    assert_eq!(
        Graph::from_canonical(deepest.canonical()).unwrap().digest(),
        deepest.digest()
    );
    for depth in [limits::VALUE_DEPTH_MAX + 1, 5000] {
        assert_eq!(refused(deep(depth), "a"), "value-too-deep");
    }
}

#[test]
fn a_long_chain_needs_no_stack() {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let check = || {
        let graph = graph(chain(60_000), "59999");
        assert!(graph.pipeline().ends_with("| ... 59975 more"));
        let again = Graph::from_canonical(graph.canonical()).unwrap();
        assert_eq!(again.digest(), graph.digest());
        let shorter = common::graph(chain(59_999), "59998");
        assert_eq!(prebake_fingerprint::diff(&shorter, &graph).len(), 1);
    };
    thread.spawn(check).unwrap().join().unwrap();
}

#[test]
fn paths_do_not_multiply() {
    let mut operators = vec![source("0")];
    operators.extend((1..=64).map(|i| {
        let below = (i - 1).to_string();
        op(&i.to_string(), "add", &[&below, &below])
    }));
    let graph = graph(operators, "64");
    assert_eq!(
        graph.canonical().len(),
        Graph::from_canonical(graph.canonical())
            .unwrap()
            .canonical()
            .len()
    );
    // The same as a tree: every operator written twice.
    let mut twice = vec![source("0l"), source("0r")];
    for i in 1..=64 {
        for side in ["l", "r"] {
            let (l, r) = (format!("{}l", i - 1), format!("{}r", i - 1));
            twice.push(op(&format!("{i}{side}"), "add", &[&l, &r]));
        }
    }
    assert_eq!(common::graph(twice, "64l").digest(), graph.digest());
}

#[test]
fn bytes_that_are_no_canonical_form_are_refused() {
    let good = graph(common::eval(), "crop").canonical().to_vec();
    assert!(Graph::from_canonical(&good).is_ok());
    for end in 0..good.len() {
        assert!(Graph::from_canonical(&good[..end]).is_err(), "cut at {end}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(Graph::from_canonical(&longer).is_err());
    // Every bit flipped: refused, or another graph, never the same one.
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = Graph::from_canonical(&flipped) {
            assert_ne!(other.digest(), graph(common::eval(), "crop").digest());
        }
    }
}

#[test]
fn a_graph_encoded_otherwise_is_refused() {
    // A list of one operator, and one of two of which the output needs only the second.
    let one = |name| graph(vec![op("a", name, &[])], "a").canonical().to_vec();
    let (a, b) = (one("a"), one("b"));
    assert_eq!(a[..3], [0x82, 1, 0x81]);
    let both = [&[0x82, 1, 0x82], &a[3..], &b[3..]].concat();
    let error = Graph::from_canonical(&both).unwrap_err();
    assert!(
        error.to_string().ends_with("but not as the canonical form does"),
        "{error}"
    );
}

#[test]
fn hostile_bytes_are_refused() {
    let code = |bytes: &[u8]| Graph::from_canonical(bytes).map_err(|e| e.code()).unwrap_err();
    assert_eq!(code(&[]), "not-canonical");
    // Lists that claim 2^64 - 1 members; lists within lists.
    assert_eq!(
        code(&[0x82, 1, 0x9b, 255, 255, 255, 255, 255, 255, 255, 255]),
        "not-canonical"
    );
    assert_eq!(code(&[0x81; 100_000]), "not-canonical");
    assert_eq!(
        code(&vec![0x80; limits::CANONICAL_BYTES_MAX + 1]),
        "not-canonical"
    );
    assert_eq!(code(&[0x82, 2, 0x80]), "unsupported-version");
    assert_eq!(code(&[0x82, 1, 0x80]), "missing-output");
    for seed in 0..2000_u32 {
        let mut noise = vec![0; 64];
        Context::Value
            .hasher()
            .update(&seed.to_le_bytes())
            .finalize_xof()
            .fill(&mut noise);
        assert!(Graph::from_canonical(&noise).is_err());
    }
}
